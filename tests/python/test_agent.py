"""bfm.Agent against committed results of the PyTorch reference, and its interface. Needs no PyTorch."""
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import bfm
from bfm._lib import lib

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden"))
import cases
from draws import (BATCH, ES, NOISE_NEXT, NOISE_PI, Z_CHOICE, Z_NORMAL, Z_STATE, below, normal,
                   uniform)

GOLDEN = np.load(cases.FILE)
OBS, ACT = 5, 2


def make(**options):
  return bfm.Agent(OBS, ACT, **{"algo": "fb-aware", "d": 8, "blocks": 4, "batch": 16, "hidden": 24,
                                "feat": 12, "b_hidden": 16, "device": "cpu", **options})


def batch(agent, seed=0, lead=()):
  rng = np.random.default_rng(seed)
  rows = (*lead, agent.batch)
  obs = rng.standard_normal((*rows, OBS))
  return {"obs": obs, "act": rng.uniform(-1, 1, (*rows, ACT)),
          "next_obs": obs + 0.1 * rng.standard_normal(obs.shape)}


def with_data(agent, rows=100):
  rng = np.random.default_rng(0)
  obs = rng.standard_normal((rows, OBS))
  agent.set_data(obs, rng.uniform(-1, 1, (rows, ACT)), obs + 0.1 * rng.standard_normal(obs.shape))
  return agent


def close(found, expected, tolerance):
  assert np.shape(found) == expected.shape
  assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


# ---------------------------------- committed results --------------------------------------------


@pytest.mark.parametrize("case", cases.CASES)
def test_golden_steps_networks_and_prompts(case):
  agent = bfm.Agent(cases.OBS, cases.ACT, device="cpu", precision="f32", **cases.options(case))
  start = cases.parameters({name: x.shape for name, x in agent.tensors().items()})
  agent.set_tensors(start)
  losses = [agent.update(**cases.transitions(case, step)) for step in range(cases.STEPS)]
  found = np.array([[step[name] for name in sorted(step)] for step in losses])
  expected = GOLDEN[f"{case}/losses"]
  assert (np.abs(found - expected).max(0) <= 1e-4 * np.abs(expected).max(0)).all()

  end, sizes, sketches = agent.tensors(), GOLDEN[f"{case}/sizes"], GOLDEN[f"{case}/sketches"]
  assert len(end) == len(sizes)
  for name, size, sketch in zip(sorted(end), sizes, sketches):
    off = np.abs(cases.sketch(end[name] - start[name], name) - sketch).max()
    assert off <= 0.02 * size, f"{name}: {off / size:.1%} of its update"

  probes = cases.probes(case)
  obs, act, z, states = (probes[name] for name in ("obs", "act", "z", "states"))
  rewarded = {"obs": states, "reward": probes["reward"]}
  for name, found in {"F": agent.F(obs, act, z), "B": agent.B(obs, z), "pi": agent.pi(obs, z),
                      "goal": agent.prompt(goal=states[0]), "demo": agent.prompt(demo=states),
                      "reward": agent.prompt(**rewarded),
                      "softmax": agent.prompt(**rewarded, softmax=0.5)}.items():
    close(found, GOLDEN[f"{case}/{name}"], 1e-3)


# ---------------------------------- the interface ------------------------------------------------


def test_properties_of_an_agent():
  agent = make(seed=7, z_mix=0.25, clip=float("inf"), precision="f32")
  assert (agent.obs_dim, agent.act_dim, agent.d, agent.batch) == (OBS, ACT, 8, 16)
  assert (agent.members, agent.replicas, agent.step) == (2, 1, 0)
  assert agent.options["z-mix"] == 0.25 and agent.options["seed"] == 7
  assert float(agent.options["clip"]) == np.inf


def test_defaults_are_those_of_the_paper():
  said = {"d": 64, "blocks": 8, "batch": 1024, "hidden": 1024, "feat": 512, "b-hidden": 256,
          "gamma": 0.98, "lr": 1e-4, "polyak": 0.01, "ortho": 1, "target": "mean",
          "ensemble": "parallel", "members": 2, "b-norm": True, "f-norm": False, "pi-norm": False,
          "weights": "iwis", "adv": "mean", "adv-base": "min", "sigma": 0.2, "noise-clip": 0.3,
          "es": 32, "z-mix": 0.5, "z-whiten": False, "z-groups": 1, "z-pool": 32, "goal": "", "mbar": 0}
  options = bfm.Agent(OBS, ACT, algo="fb-aware", device="cpu").options
  assert {name: options[name] for name in said} == said
  for algo in ("fb", "fb-aw", "lap", "lap-aw"):
    options = bfm.Agent(OBS, ACT, algo=algo, preset="small", device="cpu").options
    assert (options["blocks"], options["z-groups"]) == (1, 1024)


def test_tensors_are_copies_and_can_be_set():
  agent = make()
  tensors = agent.tensors()
  tensors["pi.trunk.4.bias"] += 1
  assert not np.array_equal(agent.tensors()["pi.trunk.4.bias"], tensors["pi.trunk.4.bias"])
  agent.set_tensors({"pi.trunk.4.bias": tensors["pi.trunk.4.bias"]})
  assert np.array_equal(agent.tensors()["pi.trunk.4.bias"], tensors["pi.trunk.4.bias"])


def test_losses_are_floats_or_one_per_replica():
  agent = make()
  losses = agent.update(**batch(agent))
  assert set(losses) == {"fb", "ortho", "actor"}
  assert all(type(x) is float for x in losses.values())
  assert agent.step == 1
  agent = make(seeds=3)
  losses = agent.update(**batch(agent, lead=(3,)))
  assert all(x.shape == (3,) for x in losses.values())
  assert set(make(algo="lap", blocks=1).update(**batch(agent))) == {"psi", "lap", "ortho", "actor"}


def test_missing_arguments_are_drawn_from_the_seed():
  runs = [make(seed=seed) for seed in (1, 1, 2)]
  for agent in runs:
    agent.set_tensors(runs[0].tensors())
  a, b, c = (agent.update(**batch(agent)) for agent in runs)
  assert a == b and a != c


@pytest.mark.parametrize("d, blocks", [(1, 1), (3, 1), (4, 2), (8, 4), (15, 7), (16, 8), (64, 8)])
def test_default_blocks_have_more_than_one_feature(d, blocks):
  assert make(d=d, blocks=0).options["blocks"] == blocks
  assert make(d=d, blocks=0, algo="fb").options["blocks"] == 1


@pytest.mark.parametrize("options", [
    {"algo": "fb-aw"}, {"algo": "fb", "z_groups": 4}, {"algo": "lap", "z_mix": 0},
    {"algo": "lap-aw"}, {"algo": "fb", "z_mix": 1, "d": 9}, {"z_pool": 3},
    {"algo": "lap", "z_whiten": "on"}, {"algo": "lap-aw", "z_whiten": "on", "z_groups": 4},
    {"algo": "lap", "z_whiten": "on", "z_mix": 1, "d": 5, "b_norm": "off"},
    {"algo": "fb-are", "z_groups": 2, "z_pool": 3},
    {"z_groups": 4, "z_pool": 2, "b_norm": "off", "goal": "0,3"}, {"blocks": 1, "z_groups": 8}])
def test_batches_and_z_are_drawn_with_the_documented_keys(options):
  """Training on data equals updates on rows, z and noise drawn by a generator in Python."""
  seed, rows = 7, 100
  one_block = options.get("algo") in ("fb", "fb-aw", "lap", "lap-aw")
  trained, given = (make(seed=seed, **({"blocks": 1} if one_block else {}), **options)
                    for _ in range(2))
  rng = np.random.default_rng(0)
  obs = rng.standard_normal((rows, OBS))
  act = rng.uniform(-1, 1, (rows, ACT))
  next_obs = obs + 0.1 * rng.standard_normal(obs.shape)
  discount = rng.random(rows) > 0.3
  trained.set_data(obs, act, next_obs, discount)
  N, d = given.batch, options.get("d", 8)
  draws = options.get("z_groups", N if one_block else 1)
  pool = max(options.get("z_pool", 32), draws)

  def draw_z(step, count, features):
    z = normal(seed, Z_NORMAL, step, count * d).reshape(count, d)
    of_state = uniform(seed, Z_CHOICE, step, count) < options.get("z_mix", 0.5)
    z = np.where(of_state[:, None], features, z)
    return z * np.sqrt(d) / np.linalg.norm(z, axis=1, keepdims=True)

  for step in range(5):
    picked = below(seed, BATCH, step, N, rows)
    if one_block:
      features = np.float64(given.B(next_obs[picked]))
      if options.get("z_whiten"):
        gram = features.T @ features / N
        features = features @ np.linalg.inv(gram + 1e-6 * np.trace(gram) / d * np.eye(d))
      z = draw_z(step, draws, features[below(seed, Z_STATE, step, draws, N)])
    else:
      if step % options.get("z_pool", 32) == 0:
        states = next_obs[below(seed, Z_STATE, step, pool, rows)]
        kept = draw_z(step, pool, np.stack([given.prompt(goal=state) for state in states]))
      z = kept[(step * draws + np.arange(draws)) % pool]
    noise_next, noise_pi = (normal(seed, stream, step, N * ACT).reshape(N, ACT)
                            for stream in (NOISE_NEXT, NOISE_PI))
    given.update(obs[picked], act[picked], next_obs[picked], discount[picked],
                 np.repeat(z, N // draws, 0), noise_next, noise_pi)
    trained.train(1)
    for name, tensor in given.tensors().items():
      np.testing.assert_allclose(trained.tensors()[name], tensor, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_z_is_gaussian_or_B_of_a_random_state(share, tmp_path):
  """Each block is normalized; z has norm sqrt(d). With lr=0, B stays the one that z came from."""
  agent = make(z_mix=share, z_pool=2048, lr=0, blocks=2)
  rng = np.random.default_rng(0)
  obs = rng.standard_normal((3, OBS))
  agent.set_data(obs, np.zeros((3, ACT)), obs + 1)
  agent.train(1)
  agent.save_state(tmp_path / "state.safetensors")
  pool = load_file(tmp_path / "state.safetensors")["pool"][0]
  np.testing.assert_allclose(np.linalg.norm(pool, axis=1), np.sqrt(8), rtol=1e-5)
  features = np.stack([agent.prompt(goal=state) for state in obs + 1])
  found = np.isclose(pool[:, None], features, atol=1e-3).all(-1).mean(0)  # of each state
  np.testing.assert_allclose(found, share / 3, atol=0.04)
  assert found.sum() == share or share == 0.5
  if share == 0:
    np.testing.assert_allclose(np.cov(pool.T), np.eye(8), atol=0.1)


def test_blocks_of_one_feature_have_no_gradient():
  """A block of one feature, scaled to norm 1, is only a sign; its gradient would be rounding errors."""
  for norm in ("on", "off"):
    agent = with_data(make(blocks=8, b_norm=norm))
    start = agent.tensors()
    agent.train(20)
    moved = [name for name, x in agent.tensors().items()
             if name.startswith("B.") and not np.array_equal(x, start[name])]
    assert bool(moved) == (norm == "off"), moved


def test_updates_can_draw_z_after_updates_with_given_z():
  agent = make(z_pool=4)
  for step in range(6):
    agent.update(**batch(agent, step), z=np.ones((16, 8)) if step == 0 else None)
    assert agent.metrics()["Q.data"] != 0, step
  mixed = with_data(make())
  mixed.update(**batch(mixed), z=np.ones((16, 8)))
  mixed.train(1)
  assert mixed.metrics()["Q.data"] != 0


def test_one_observation_and_one_z():
  agent = make()
  z = agent.prompt(goal=np.ones(OBS))
  assert z.shape == (8,)
  assert agent.act(np.zeros(OBS), z).shape == (ACT,)
  assert agent.act(np.zeros((3, OBS)), z, es=4).shape == (3, ACT)
  assert agent.F(np.zeros((3, OBS)), np.zeros((3, ACT)), z).shape == (2, 3, 8)
  assert agent.B(np.zeros((3, OBS)), z).shape == (3, 8)
  obs, act = np.ones(OBS), np.ones(ACT)
  for one, rows in [(agent.F(obs, act, z), agent.F(obs[None], act[None], z)[:, 0]),
                    (agent.B(obs, z), agent.B(obs[None], z)[0]),
                    (agent.pi(obs, z), agent.pi(obs[None], z)[0])]:
    assert np.array_equal(one, rows)


@pytest.mark.parametrize("options", [{}, {"members": 3, "sigma": 0.5}, {"ensemble": "shared"},
                                     {"algo": "lap", "blocks": 1, "members": 1},
                                     {"es_base": "min", "members": 3}, {"es_base": "gain"},
                                     {"es_base": "gain", "members": 1}])
def test_evaluation_based_sampling_takes_the_best_action(options):
  """The action that F prefers among normals around pi; more rows than fit into one pass.

  The members' values F.z are combined as es_base says.
  """
  agent, rows, samples, seed, step = make(**options), 300, 16, 11, 5
  rng = np.random.default_rng(0)
  obs, z = rng.standard_normal((rows, OBS)), 3 * rng.standard_normal((rows, 8))
  noise = normal(seed, ES, step, rows * samples * ACT).reshape(rows, samples, ACT)
  acts = np.clip(agent.pi(obs, z)[:, None] + options.get("sigma", 0.2) * noise, -1, 1)
  base = options.get("es_base", "mean")
  if base == "gain":
    acts[:, 0] = agent.pi(obs, z)
  q = np.stack([np.einsum("mnd,nd->mn", agent.F(obs, acts[:, k], z), z) for k in range(samples)])
  value = {"mean": q.mean(1), "min": q.min(1), "gain": (q - q[0]).min(1)}[base]
  best = acts[np.arange(rows), np.argmax(value, 0)]
  np.testing.assert_allclose(agent.act(obs, z, es=samples, seed=seed, step=step), best, atol=1e-5)


@pytest.mark.parametrize("algo, kind", [("fb", "model"), ("fb", "state"), ("lap", "model")])
def test_a_shared_ensemble_of_version_0_1_is_refused(algo, kind, tmp_path):
  """It had a trunk of three layers in common. Here a parallel agent's file says that it is shared."""
  path, agent = tmp_path / "old.safetensors", make(algo=algo, blocks=1)
  (agent.save if kind == "model" else agent.save_state)(path)
  with safe_open(path, "np") as file:
    metadata = file.metadata()
  assert '"parallel"' in metadata["config"]
  metadata["config"] = metadata["config"].replace('"parallel"', '"shared"')
  save_file(load_file(path), path, metadata)
  with pytest.raises(bfm.Error, match="share all layers but the last.*version 0.1.*train it again"):
    bfm.load(path)


def test_train_save_load_and_continue(tmp_path):
  agent = with_data(make())
  agent.train(3)
  agent.save(tmp_path / "model.safetensors")
  agent.save_state(tmp_path / "state.safetensors")
  model, state = (bfm.load(tmp_path / f"{kind}.safetensors") for kind in ("model", "state"))
  obs, z = np.ones((2, OBS)), np.ones(8)
  for other in (model, state):
    assert np.array_equal(other.act(obs, z), agent.act(obs, z))
    assert {**other.options, "device": "cpu"} == agent.options
  assert with_data(state).train(2) == agent.train(2)
  assert state.step == agent.step == 5


@pytest.mark.parametrize("size", [8, 24, 32])
def test_a_loaded_agent_with_another_batch_has_one_z_per_transition(size, tmp_path):
  make(algo="fb", blocks=1).save(tmp_path / "one.safetensors")
  assert bfm.load(tmp_path / "one.safetensors", batch=size).options["z-groups"] == size
  make(algo="fb", blocks=1, z_groups=4).save(tmp_path / "four.safetensors")
  assert bfm.load(tmp_path / "four.safetensors", batch=size).options["z-groups"] == 4
  make().save_state(tmp_path / "state.safetensors")
  assert bfm.load(tmp_path / "state.safetensors", batch=size).options["z-groups"] == 1


@pytest.mark.parametrize("algo", ["fb", "fb-aware"])
def test_training_that_began_from_a_model_resumes_from_its_state(algo, tmp_path):
  model, state = tmp_path / "model.safetensors", tmp_path / "state.safetensors"
  agent = with_data(make(algo=algo, blocks=1, z_pool=4))
  agent.train(5)
  agent.save(model)
  tuned = with_data(bfm.load(model))
  tuned.train(3)
  tuned.save_state(state)
  resumed = with_data(bfm.load(state))
  assert resumed.step == tuned.step == 3
  assert resumed.train(4) == tuned.train(4)
  resumed.save(model)
  with safe_open(model, "np") as file:
    assert file.metadata()["step"] == "12"


# ---------------------------------- errors -------------------------------------------------------


@pytest.mark.parametrize("options, words", [
    ({"algo": "fbaware"}, "fb-aware"), ({"beta": -1}, "beta"), ({"d": 0}, "d"),
    ({"z_whiten": "on"}, "z-whiten = on is for lap and lap-aw"), ({"z_mux": 0.5}, "z-mix"), ({"blocks": 9}, "blocks"), ({"device": "abacus"}, "abacus"),
    ({"weights": 3}, "weights"), ({"goal": "0:99"}, "0:99"), ({"beta": [1]}, "beta"),
    ({"batch": 2.5}, "batch"), ({"goal": str(2**63 - 1)}, str(2**63 - 1))])
def test_bad_options(options, words):
  with pytest.raises(bfm.Error, match=words):
    make(**options)


def test_argument_errors_are_value_errors():
  with pytest.raises(ValueError):
    make(beta=-1)
  with pytest.raises(ValueError, match="obs"):
    bfm.Agent(0, 2)


def test_wrong_shapes_are_refused_before_they_reach_the_library():
  agent = make()
  good = batch(agent)
  for name, bad, words in [
      ("obs", np.zeros((16, 4)), r"obs has shape \[16, 4\], expected \[16, 5\]"),
      ("act", np.zeros((15, 2)), r"act has shape \[15, 2\], expected \[16, 2\]"),
      ("z", np.zeros((16, 9)), r"z has shape \[16, 9\]"),
      ("discount", np.zeros((16, 1)), r"discount has shape \[16, 1\], expected \[16\]"),
      ("noise_pi", np.zeros(16), r"noise_pi has shape \[16\]"),
      ("obs", "text", "obs is not an array of numbers"), ("obs", None, "obs")]:
    with pytest.raises(bfm.ArgumentError, match=words):
      agent.update(**{**good, name: bad})
  with pytest.raises(bfm.ArgumentError, match="pi.trunk.9"):
    agent.set_tensors({"pi.trunk.9.bias": np.zeros(2)})
  with pytest.raises(bfm.ArgumentError, match="pi.trunk.4.bias has shape"):
    agent.set_tensors({"pi.trunk.4.bias": np.zeros(3)})
  for call in (lambda: agent.F(np.zeros((2, OBS)), np.zeros((3, ACT)), np.zeros(8)),
               lambda: agent.pi(np.zeros((2, OBS)), np.zeros((3, 8))),
               lambda: agent.pi(np.zeros((2, OBS)), None),
               lambda: agent.prompt(), lambda: agent.prompt(reward=np.zeros(3)),
               lambda: agent.prompt(goal=np.zeros(4)),
               lambda: agent.prompt(goal=np.zeros(OBS), softmax=0.5),
               lambda: agent.prompt(obs=np.zeros((3, OBS)), reward=np.zeros(2))):
    with pytest.raises(bfm.ArgumentError):
      call()


@pytest.mark.parametrize("name", ["obs", "act", "next_obs"])
def test_numbers_that_are_not_finite_are_refused(name):
  agent = make()
  bad = batch(agent)
  bad[name][3, 1] = np.nan
  before = agent.tensors()
  with pytest.raises(bfm.Error):
    agent.update(**bad)
  after = agent.tensors()
  assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("seeds, place", [(1, ""), (2, "replica 1, ")])
def test_actions_beyond_their_range_are_refused(seeds, place):
  agent = make(seeds=seeds)
  bad = batch(agent, lead=() if seeds == 1 else (seeds,))
  bad["act"][..., 3, 1] = 1.0005  # other programs' clipping may exceed 1 by this
  agent.update(**bad)
  bad["act"][(-1, 3, 1) if seeds > 1 else (3, 1)] = -1.5
  before = agent.tensors()
  words = rf"action -1.5 of transition 3 \({place}column 1\) is not within ±1: scale actions"
  with pytest.raises(bfm.ArgumentError, match=words):
    agent.update(**bad)
  with pytest.raises(bfm.ArgumentError, match=r"transition 3 \(column 1\) is not within ±1"):
    agent.set_data(*(bad[name].reshape(-1, 16, bad[name].shape[-1])[-1]
                     for name in ("obs", "act", "next_obs")))
  assert all(np.array_equal(before[name], x) for name, x in agent.tensors().items())


def test_missing_arguments_are_named(tmp_path, monkeypatch):
  """Calls the C functions directly, without arguments that a C program may forget."""
  monkeypatch.chdir(tmp_path)
  agent = make()
  some = np.zeros((1, 8), np.float32).ctypes.data
  for call, words in [(lambda a: lib.bfm_agent_save_model(a, 0, None), "needs a name"),
                      (lambda a: lib.bfm_agent_save_state(a, b""), "needs a name"),
                      (lambda a: lib.bfm_agent_update(a, None, None), "a batch needs obs"),
                      (lambda a: lib.bfm_agent_pi(a, 0, 1, some, None, some), "z is missing"),
                      (lambda a: lib.bfm_agent_prompt_states(a, 0, 1, None, some), "obs is missing")]:
    assert call(agent._handle) == 2 and words in lib.bfm_error().decode()
  assert not list(tmp_path.iterdir())


def test_calls_with_any_numbers_of_rows_may_alternate():
  agent = make(threads=1)
  obs, z = np.random.default_rng(0).standard_normal((400, OBS)), np.ones(8)
  first = [agent.pi(obs[:2], z), agent.B(obs[:2], z)]
  for rows in range(1, 400):
    agent.pi(obs[:rows], z), agent.B(obs[:rows], z)
  for before, after in zip(first, [agent.pi(obs[:2], z), agent.B(obs[:2], z)]):
    np.testing.assert_array_equal(before, after)


def test_auto_regressive_features_need_z():
  with pytest.raises(bfm.ArgumentError, match="z"):
    make().B(np.zeros((2, OBS)))
  assert make(algo="fb", blocks=1).B(np.zeros((2, OBS))).shape == (2, 8)


@pytest.mark.parametrize("call", [
    lambda a, n: a.act(np.zeros(OBS), np.ones(8), es=n), lambda a, n: a.tensors(replica=n),
    lambda a, n: a.train(2**64), lambda a, n: a.act(np.zeros(OBS), np.ones(8), seed=-n),
    lambda a, n: bfm.Agent(n << 32, ACT), lambda a, n: a.export("no/such/model", members=n),
    lambda a, n: a.evaluate("run", seed=n << 32), lambda a, n: a.evaluate("run", es=n),
    lambda a, n: bfm.Env("walker", num_envs=n), lambda a, n: bfm.Env("walker").reset(seed=-1),
    lambda a, n: bfm.Explorer(OBS, ACT, envs=n), lambda a, n: a.train(1.5)])
def test_integers_beyond_the_range_of_c_are_refused(call):
  with pytest.raises(bfm.ArgumentError, match="is not an integer from"):
    call(with_data(make()), 2**32 + 1)


@pytest.mark.parametrize("made, use", [
    ('Agent(5, 2, preset="small", device="cpu")', "other.step"),
    ('Explorer(5, 2, hidden=16, device="cpu")', "other.tensors()"),
    ('Env("walker")', "other.step(other.action_low[None])")])
def test_copies_share_their_handle(made, use):
  """In a process of its own, because freeing memory twice would end the process."""
  lines = ["import bfm, copy", f"one = bfm.{made}", "other = copy.copy(one)", "del one", use,
           "del other"]
  subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)


def test_numpy_scalars_are_accepted(tmp_path):
  agent = with_data(make())
  agent.export(tmp_path / "model", half=np.True_)
  explorer = bfm.Explorer(OBS, ACT, hidden=16)
  assert explorer.act(np.zeros((1, 1, OBS)), explore=np.True_).shape == (1, 1, ACT)
  agent.train(np.int64(1))
  assert agent.act(np.zeros(OBS), np.ones(8), es=np.uint8(2), seed=2**64 - 1).shape == (ACT,)


def test_training_needs_data_and_steps():
  with pytest.raises(bfm.Error, match="data"):
    make().train(1)
  with pytest.raises(bfm.ArgumentError, match="-1"):
    with_data(make()).train(-1)


def test_training_for_zero_steps_returns_no_losses():
  agent = with_data(make())
  assert all(np.isnan(x) for x in agent.train(0).values()) and agent.step == 0


def test_replicas_are_counted_from_zero():
  with pytest.raises(bfm.ArgumentError, match="2"):
    make(seeds=2).tensors(replica=2)


def test_damaged_files_are_refused(tmp_path):
  with pytest.raises(bfm.Error, match="nowhere"):
    bfm.load(tmp_path / "nowhere.safetensors")
  path = tmp_path / "model.safetensors"
  make().save(path)
  whole = path.read_bytes()
  for cut in (0, 7, 100, len(whole) // 2, len(whole) - 1):
    path.write_bytes(whole[:cut])
    with pytest.raises(bfm.Error, match="model.safetensors"):
      bfm.load(path)
  with pytest.raises(bfm.Error):
    make().save(tmp_path / "no" / "such" / "folder.safetensors")


@pytest.mark.parametrize("name", ["obs_dim", "act_dim"])
@pytest.mark.parametrize("size", ["0", "5000"])
def test_impossible_sizes_in_a_file_are_bad_file_errors(name, size, tmp_path):
  path = tmp_path / "file.safetensors"
  for made, load in ((make(), bfm.load), (bfm.Explorer(OBS, ACT, hidden=16), bfm.Explorer.load)):
    made.save(path)
    with safe_open(path, "np") as file:
      metadata = file.metadata()
    save_file(load_file(path), path, {**metadata, name: size})
    with pytest.raises(bfm.Error, match=f'"{name}" is {size}, but must be from 1 to') as error:
      load(path)
    assert error.value.status == 3  # BFM_BAD_FILE


def test_tensors_of_no_network_are_ignored(tmp_path):
  agent, path = make(), tmp_path / "model.safetensors"
  agent.save(path)
  with safe_open(path, "np") as file:
    metadata = file.metadata()
  notes = {"notes": np.ones(3, np.float32), "F_target.trunk.0.bias": np.ones(3, np.float32)}
  save_file({**load_file(path), **notes}, path, metadata)
  assert np.array_equal(bfm.load(path).prompt(goal=np.ones(OBS)), agent.prompt(goal=np.ones(OBS)))
  save_file({**load_file(path), "F.trunk.9.bias": np.ones(3, np.float32)}, path, metadata)
  with pytest.raises(bfm.Error, match="F.trunk.9.bias"):
    bfm.load(path)


def test_parameters_with_nan_are_not_saved(tmp_path):
  agent = make()
  path = tmp_path / "model.safetensors"
  agent.save(path)
  before = path.read_bytes()
  given = batch(agent)
  agent.update(given["obs"] * 1e38, given["act"], given["next_obs"] * 1e38)
  assert not all(np.isfinite(x).all() for x in agent.tensors().values())
  for save in (agent.save, agent.save_state, agent.export):
    with pytest.raises(bfm.Error, match="weight has NaN") as error:
      save(path)
    assert error.value.status == 7  # BFM_DIVERGED
  assert path.read_bytes() == before


@pytest.mark.parametrize("option, value, was", [
    ("blocks", 2, 4), ("goal", "4,3,2,1,0", ""), ("f-norm", "on", "off"), ("pi-norm", "on", "off"),
    ("b-norm", "off", "on")])
def test_options_that_change_the_parameters_are_refused_when_loading(option, value, was, tmp_path):
  agent = make()
  agent.save(tmp_path / "model.safetensors")
  agent.save_state(tmp_path / "state.safetensors")
  for name in ("model", "state"):
    with pytest.raises(bfm.ArgumentError, match=f"has {option} {was}, which cannot change to {value}"):
      bfm.load(tmp_path / f"{name}.safetensors", **{option.replace("-", "_"): value})


def test_option_0_means_the_saved_value_when_loading(tmp_path):
  path = tmp_path / "state.safetensors"
  make(blocks=0, z_groups=0).save_state(path)
  assert bfm.load(path, blocks=0, z_groups=0).options["blocks"] == 4
  make(blocks=2).save_state(path)
  with pytest.raises(bfm.ArgumentError, match="has blocks 2, which cannot change to 4"):
    bfm.load(path, blocks=0)


@pytest.mark.parametrize("options", [{"blocks": 9}, {"z-groups": 3}, {"algo": "fb"}])
def test_bad_options_in_a_file_are_bad_file_errors(options, tmp_path):
  path = tmp_path / "model.safetensors"
  make().save(path)
  with safe_open(path, "np") as file:
    metadata = file.metadata()
  config = json.dumps({**json.loads(metadata["config"]), **options})
  save_file(load_file(path), path, {**metadata, "config": config})
  with pytest.raises(bfm.Error, match="model.safetensors: (blocks|z-groups)") as error:
    bfm.load(path)
  assert error.value.status == 3  # BFM_BAD_FILE


def test_options_that_remove_a_layer_are_refused_when_loading(tmp_path):
  path = tmp_path / "model.safetensors"
  make(f_norm="on").save(path)
  with pytest.raises(bfm.ArgumentError, match="has f-norm on, which cannot change to off"):
    bfm.load(path, f_norm="off")


# ---------------------------------- what cannot be acted on ----------------------------------------


def test_a_prompt_that_says_nothing_is_refused():
  agent = make()
  with pytest.raises(bfm.ArgumentError, match="reward is 0 in all 5 states"):
    agent.prompt(obs=np.ones((5, OBS)), reward=np.zeros(5))
  with pytest.raises(bfm.ArgumentError, match="norm 0"):  # B of a new agent is 0 there
    agent.prompt(goal=np.zeros(OBS))


def test_a_z_of_zeros_is_refused():
  agent, obs, z = make(), np.ones((2, OBS)), np.ones((2, 8))
  z[1] = 0
  for call in (lambda: agent.act(obs, z), lambda: agent.act(obs, z, es=4), lambda: agent.pi(obs, z),
               lambda: agent.F(obs, np.zeros((2, ACT)), z), lambda: agent.act(obs, np.zeros(8))):
    with pytest.raises(bfm.ArgumentError, match="norm 0"):
      call()


def test_an_observation_that_overflows_is_refused():
  agent, obs = make(), np.ones((3, OBS))
  z = agent.prompt(goal=obs[0])
  obs[2, 1] = 1e20
  for call in (lambda: agent.act(obs, z), lambda: agent.pi(obs, z), lambda: agent.B(obs, z),
               lambda: agent.prompt(obs=obs, reward=np.ones(3)), lambda: agent.prompt(demo=obs)):
    with pytest.raises(bfm.ArgumentError, match=r"observation 1e\+20 \(row 2, column 1\)"):
      call()


def test_an_action_that_is_not_finite_is_refused():
  agent, obs = make(), np.ones((3, OBS))
  z = agent.prompt(goal=obs[0])
  shapes = {name: values.shape for name, values in agent.tensors().items()}
  agent.set_tensors({name: np.full(shapes[name], 1e38)
                     for name in ("pi.trunk.2.bias", "pi.trunk.3.weight")})  # its product is inf
  signs = np.where(np.arange(shapes["pi.trunk.4.weight"][1]) % 2, 1, -1)
  agent.set_tensors({"pi.trunk.4.weight": np.broadcast_to(signs, shapes["pi.trunk.4.weight"])})
  with pytest.raises(bfm.ArgumentError, match="action of row 0 is not finite"):
    agent.act(obs, z)
