"""libbfm's agents against the reference: the same parameters, z and noise must give the same steps.

Losses agree to 1e-4 of their size, every parameter and target to 1% of the size of its own update,
except for float32's own errors (check_steps). Whole steps at paper sizes use a batch of 1024 for
fb-aware and fb, of 256 for the other four; options are tested one at a time on the small preset.
"""
import numpy as np
import pytest
import reference
import torch

import bfm
from draws import (BATCH, NOISE_NEXT, NOISE_PI, Z_CHOICE, Z_NORMAL, Z_STATE, below, normal, uniform)

ALGORITHMS = ["fb", "fb-aw", "fb-are", "fb-aware", "lap", "lap-aw"]
OBS, ACT = 24, 6


def options(algo, **changes):
  """All options that change the formulas, explicitly, so that both sides use the same."""
  common = {"d": 64, "blocks": 8, "batch": 128, "preset": "small", "beta": 0.5, "clip": 2.0,
            "ortho": 1.0, "gamma": 0.98, "lr": 1e-4, "polyak": 0.01, "sigma": 0.2}
  if algo not in reference.AUTO_REGRESSIVE:
    common["blocks"] = 1
  return {"algo": algo, **common, **changes}


def pair(algo, obs_dim=OBS, act_dim=ACT, seed=1, **changes):
  """bfm's agent and the reference in float64, at the same parameters."""
  chosen = options(algo, **changes)
  agent = bfm.Agent(obs_dim, act_dim, seed=seed, device="cpu", **chosen)
  o = reference.Options(obs_dim, act_dim, **chosen)
  return agent, reference.Agent(agent.tensors(), o, torch.float64)


def transitions(o, rng, rows=None):
  """One batch: observations of different scales, actions to the bounds, some terminations."""
  N = rows or o.batch
  scale = np.geomspace(0.1, 3, o.obs_dim)
  obs = rng.standard_normal((N, o.obs_dim)) * scale
  z = rng.standard_normal((o.z_groups, o.d)).repeat(o.batch // o.z_groups, 0)
  z *= np.sqrt(o.d) / np.linalg.norm(z, axis=1, keepdims=True)
  batch = {"obs": obs, "act": rng.uniform(-1.2, 1.2, (N, o.act_dim)).clip(-1, 1),
           "next_obs": obs + 0.3 * scale * rng.standard_normal((N, o.obs_dim)),
           "discount": (rng.random(N) > 0.1), "z": z,
           "noise_next": rng.standard_normal((N, o.act_dim)),
           "noise_pi": rng.standard_normal((N, o.act_dim))}
  return {name: values.astype(np.float32) for name, values in batch.items()}


def ten_steps(agents, truth, seed):
  """For each agent {name: its distance from the truth} of every loss and every tensor.

  The distance of a loss is relative to its largest size over the steps, because it may cross zero;
  the distance of a tensor is relative to its update.
  """
  start, rng = truth.tensors(), np.random.default_rng(seed)
  runs = [[] for _ in agents]
  true_run = []
  for _ in range(10):
    batch = transitions(truth.o, rng)
    true_run.append(truth.update(**batch))
    for run, agent in zip(runs, agents):
      run.append(agent.update(**batch))
      assert run[-1].keys() == true_run[-1].keys()
  end = truth.tensors()
  moved = {name: np.linalg.norm(end[name] - start[name]) for name in end}
  assert all(moved.values()), [name for name in moved if not moved[name]]
  result = []
  for run, agent in zip(runs, agents):
    off = {}
    for name in true_run[0]:
      true, found = (np.array([losses[name] for losses in steps]) for steps in (true_run, run))
      off[name] = np.abs(found - true).max() / np.abs(true).max()
    tensors = agent.tensors()
    assert tensors.keys() == end.keys()
    off.update({name: np.linalg.norm(tensors[name] - end[name]) / moved[name] for name in end})
    result.append(off)
  return result


def check_steps(make, draws=3):
  """Ten steps: losses within 1e-4, tensors within 1% of their updates, of the float64 reference.

  PyTorch's own float32 is not always that close: a ReLU that flips in one row changes the sign of a
  small gradient, and Adam's first steps are signs. So twice PyTorch's distance is allowed too: for a
  tensor, that of the worst tensor of its network, if below 10%. Which side flips is random, so a few
  draws of transitions are tried; a wrong formula fails all of them.
  """
  for seed in range(draws):
    agent, truth = make()
    found, yardstick = ten_steps([agent, reference.Agent(agent.tensors(), truth.o)], truth, seed)
    net = lambda name: name.split(".")[0].replace("_target", "")
    allowed = {}
    for name in found:
      peers = [off for other, off in yardstick.items() if net(other) == net(name)]
      allowed[name] = max(0.01 if "." in name else 1e-4, min(2 * max(peers), 0.1))
    beyond = {name: f"{found[name]:.2e} > {allowed[name]:.2e}" for name in found
              if found[name] > allowed[name]}
    if not beyond:
      return
  pytest.fail(f"too far in each of {draws} draws; in the last: {beyond}")


# ---------------------------------- networks -----------------------------------------------------

ARCHITECTURES = [
    ("fb", {}), ("fb-aware", {}), ("fb-aware", {"blocks": 1}), ("fb-aware", {"blocks": 4, "d": 50}),
    ("fb-aware", {"preset": "paper"}), ("fb-aw", {"ensemble": "shared"}),
    ("fb-are", {"b_norm": "off"}), ("fb-aware", {"goal": "0:4,7"}), ("fb", {"goal": "3"}),
    ("fb-aware", {"mbar": 5}), ("fb-aware", {"hidden": 96, "feat": 40, "b_hidden": 56}),
    ("lap", {}), ("lap-aw", {"ensemble": "shared"}),
    ("fb-aware", {"members": 1}), ("fb", {"members": 3, "ensemble": "shared"}),
    ("lap", {"members": 1, "ensemble": "shared"}),
    ("fb-aware", {"f_norm": "on"}), ("fb", {"f_norm": "on", "ensemble": "shared"}),
    ("fb-aw", {"pi_norm": "on", "mbar": 4})]


@pytest.mark.parametrize("algo, changes", ARCHITECTURES)
def test_tensors_have_the_papers_shapes_and_start_orthogonal(algo, changes):
  agent, referee = pair(algo, **changes)
  tensors = agent.tensors()
  assert {name: x.shape for name, x in tensors.items()} == reference.shapes(referee.o)
  for name, x in tensors.items():
    if "_target." in name:
      assert np.array_equal(x, tensors[name.replace("_target", "")]), name
    elif name.endswith(".bias"):
      assert not x.any(), name
    elif ".norm." in name:
      assert (x == 1).all(), name
    else:
      for w in (x if x.ndim == 3 else [x]):
        w = w if w.shape[0] <= w.shape[1] else w.T
        assert np.allclose(w @ w.T, np.eye(len(w)), atol=1e-4), name
    if name.startswith(("F.", "psi.")) and name.endswith(".weight") and ".norm." not in name:
      assert x.ndim == 2 or not np.array_equal(x[0], x[1]), f"{name}: members start equal"


@pytest.mark.parametrize("algo, changes", ARCHITECTURES)
@pytest.mark.parametrize("rows", [1, 3, 200])
def test_forward(algo, changes, rows):
  agent, referee = pair(algo, **changes)
  rng = np.random.default_rng(rows)
  obs = rng.standard_normal((rows, OBS)).astype(np.float32)
  act = rng.uniform(-1, 1, (rows, ACT)).astype(np.float32)
  z = 3 * rng.standard_normal((rows, referee.o.d)).astype(np.float32)
  for found, expected in [(agent.F(obs, act, z), referee.F(obs, act, z)),
                          (agent.B(obs, z), referee.B(obs, z)),
                          (agent.pi(obs, z), referee.pi(obs, z)),
                          (agent.act(obs, z), referee.pi(obs, z))]:
    assert found.shape == expected.shape and found.dtype == np.float32
    assert np.abs(found - expected).max() <= 2e-5 * np.abs(expected).max()
  if referee.o.K == 1:
    assert np.array_equal(agent.B(obs), agent.B(obs, z))


@pytest.mark.parametrize("d, K", [(16, 1), (16, 2), (64, 4), (64, 8), (50, 8), (13, 4), (19, 8)])
@pytest.mark.parametrize("preset", ["small", "paper"])
def test_later_blocks_of_z_never_reach_earlier_blocks_of_B(d, K, preset):
  agent = bfm.Agent(OBS, ACT, **options("fb-aware", d=d, blocks=K, preset=preset))
  rng = np.random.default_rng(0)
  obs = rng.standard_normal((37, OBS)).astype(np.float32)
  z = rng.standard_normal((37, d)).astype(np.float32)
  B = agent.B(obs, z)
  for i, (a, b) in enumerate(reference.bounds(d, K)):
    other = z.copy()
    other[:, a:] = 10 * rng.standard_normal((37, d - a))
    changed = agent.B(obs, other)
    assert np.array_equal(B[:, :b], changed[:, :b]), f"block {i}"
    assert i == K - 1 or not np.array_equal(B[:, b:], changed[:, b:]), f"block {i} does not depend on z"


# ---------------------------------- whole steps --------------------------------------------------


@pytest.mark.parametrize("algo, batch", [("fb-aware", 1024), ("fb", 1024), ("fb-aw", 256),
                                         ("fb-are", 256), ("lap", 256), ("lap-aw", 256)])
def test_ten_steps_at_paper_sizes(algo, batch):
  check_steps(lambda: pair(algo, preset="paper", batch=batch))


ONE_AT_A_TIME = [
    *((algo, {}) for algo in ALGORITHMS),
    *((algo, {"weights": "wis"}) for algo in ("fb-aw", "fb-aware", "lap-aw")),
    *((algo, {"target": "min"}) for algo in ("fb", "fb-aware", "lap")),
    *((algo, {"ensemble": "shared", "members": members})
      for algo in ("fb", "lap") for members in (1, 2, 3)),
    *((algo, {"ensemble": "shared"}) for algo in ("fb-aware", "lap-aw")),
    ("fb", {"target": "min", "ensemble": "shared"}),  # vanilla FB of the ablation table
    *((algo, {"b_norm": "off"}) for algo in ("fb", "fb-aware", "lap")),
    ("fb-aware", {"z_groups": 4}), ("fb-are", {"z_groups": 16}), ("fb-aw", {"z_groups": 1}),
    ("fb", {"z_groups": 8}),
    *(("fb-aware", {"d": d, "blocks": K})
      for d, K in ((32, 1), (32, 2), (32, 4), (50, 8), (13, 4))),
    ("fb-aw", {"d": 50}),
    ("fb-aware", {"adv": "sum"}), ("lap-aw", {"adv": "sum"}), ("fb-aw", {"adv_base": "mean"}),
    ("fb-aw", {"adv": "sum", "adv_base": "mean"}),
    ("fb-aw", {"beta": 3.0}), ("fb-aware", {"clip": 0.1}), ("fb-aw", {"clip": float("inf")}),
    *((algo, {"ess": 0.1}) for algo in ("fb-aw", "fb-aware", "lap-aw")),
    ("fb-aw", {"ess": 0.5, "weights": "wis"}), ("fb-aware", {"ess": 0.02}),
    ("fb-aware", {"gamma": 0.9}), ("lap", {"gamma": 0.5}), ("fb", {"ortho": 100.0}),
    ("fb-aware", {"ortho": 100.0}), ("lap", {"ortho": 10.0}), ("fb-aware", {"lr": 1e-3}),
    *((algo, {"target": "min", "ensemble": "shared", "ortho": 128.0, "b_lr": 5e-4})
      for algo in ("lap", "lap-aw")),  # lap's lineage
    *((algo, {"b_lr": 1e-5}) for algo in ("fb-aware", "lap")), ("fb", {"b_lr": 1e-3, "mbar": 3}),
    ("fb", {"polyak": 0.2}), ("fb-aware", {"noise_clip": 0.1}), ("fb", {"noise_clip": 10.0}),
    ("fb", {"members": 1}), ("fb-aware", {"members": 3}), ("lap-aw", {"members": 1}),
    ("fb", {"sigma": 0.5}), ("fb-aware", {"sigma": 0.05}),
    ("fb", {"goal": "0:4,7"}), ("fb-aware", {"goal": "0:4,7"}), ("lap", {"goal": "2:20"}),
    *((algo, {"f_norm": "on"}) for algo in ALGORITHMS), ("fb", {"pi_norm": "on"}),
    *((algo, {"f_norm": "on", "ensemble": "shared"}) for algo in ("fb", "lap-aw")),
    ("fb-aware", {"f_norm": "on", "pi_norm": "on"}),
    ("fb-aw", {"f_norm": "on", "mbar": 4}),
    ("fb", {"mbar": 5}), ("fb-aware", {"mbar": 16}), ("fb-aware", {"mbar": 3, "z_groups": 4}),
    ("fb-aw", {"mbar": 4, "target": "min", "goal": "1,3,5"}),
    ("fb-aware", {"hidden": 96, "feat": 40, "b_hidden": 56}), ("fb-aware", {"batch": 100}),
]


@pytest.mark.parametrize("algo, changes", ONE_AT_A_TIME,
                         ids=lambda x: x if isinstance(x, str) else
                         ",".join(f"{k}={v}" for k, v in x.items()) or "plain")
def test_ten_steps_with_options_one_at_a_time(algo, changes):
  check_steps(lambda: pair(algo, **changes))


@pytest.mark.parametrize("obs_dim, act_dim", [(1, 1), (67, 21)])
def test_ten_steps_at_other_dimensions(obs_dim, act_dim):
  check_steps(lambda: pair("fb-aware", obs_dim, act_dim))


def test_ten_steps_with_targets_far_from_the_networks():
  """After ten steps from the start, targets are still near their networks; here they are far apart."""
  def make():
    agent, referee = pair("fb-aware")
    rng = np.random.default_rng(5)
    tensors = {name: x + 0.05 * rng.standard_normal(x.shape).astype(np.float32)
               for name, x in agent.tensors().items()}
    agent.set_tensors(tensors)
    return agent, reference.Agent(tensors, referee.o, torch.float64)

  check_steps(make)


@pytest.mark.parametrize("algo", ["fb-aware", "fb", "lap-aw"])
def test_bf16_losses_stay_near_f32(algo):
  """With bf16 in the hidden layers, the losses stay within 2% of f32's over 100 steps."""
  chosen = options(algo, batch=256, d=32)
  agents = [bfm.Agent(OBS, ACT, seed=1, precision=p, **chosen) for p in ("f32", "bf16")]
  o, rng = reference.Options(OBS, ACT, **chosen), np.random.default_rng(0)
  exact, rough = [], []
  for _ in range(100):
    batch = transitions(o, rng)
    exact.append(agents[0].update(**batch))
    rough.append(agents[1].update(**batch))
  assert exact != rough
  for name in exact[0]:
    a, b = (np.array([losses[name] for losses in run]) for run in (exact, rough))
    assert np.abs(a - b).max() <= 0.02 * np.abs(a).max(), name
    assert abs(a.mean() - b.mean()) <= 0.02 * np.abs(a).mean(), name


LINEAGE = {"target": "min", "ensemble": "shared", "z_mix": 0.5, "z_whiten": "on", "ortho": 32.0,
           "b_lr": 5e-4}  # of lap; the code it comes from has no z of states by default


def drawn_steps(seed, steps, **changes):
  """Training on data beside the reference, which gets the same rows, noise and z of its own phi."""
  chosen = options(**{"algo": "lap", "d": 16, **LINEAGE, **changes})
  rng = np.random.default_rng(seed)
  o = reference.Options(OBS, ACT, **chosen)
  data = transitions(o, rng, 500)
  data = {name: data[name] for name in ("obs", "act", "next_obs", "discount")}
  agent = bfm.Agent(OBS, ACT, seed=seed, device="cpu", **chosen)
  referee = reference.Agent(agent.tensors(), o, torch.float64)
  agent.set_data(**data)
  for step in range(steps):
    picked = below(seed, BATCH, step, o.batch, 500)
    batch = {name: x[picked] for name, x in data.items()}
    phi = reference.whiten(torch.tensor(referee.B(batch["next_obs"]))).numpy()
    z = normal(seed, Z_NORMAL, step, o.batch * o.d).reshape(o.batch, o.d)
    of_state = uniform(seed, Z_CHOICE, step, o.batch) < o.z_mix
    z = np.where(of_state[:, None], phi[below(seed, Z_STATE, step, o.batch, o.batch)], z)
    noise_next, noise_pi = (normal(seed, stream, step, o.batch * ACT).reshape(o.batch, ACT)
                            for stream in (NOISE_NEXT, NOISE_PI))
    yield agent.train(1), referee.update(**batch, z=z, noise_next=noise_next, noise_pi=noise_pi)


@pytest.mark.parametrize("changes", [
    {}, {"z_mix": 0.0}, {"z_mix": 1.0}, {"ensemble": "parallel"}, {"target": "mean"},
    {"d": 64, "z_mix": 1.0}, {"algo": "lap-aw"}, {"goal": "0:4,7"}, {"members": 3}])
def test_steps_of_laps_lineage_with_whitened_z(changes):
  steps = list(drawn_steps(3, 10, **changes))
  for name in steps[0][0]:
    found, expected = (np.array([losses[name] for losses in run]) for run in zip(*steps))
    assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max(), name


def test_few_states_are_whitened_by_the_pseudo_inverse():
  """24 states span at most 24 of 64 directions; the losses of the first step depend on z."""
  found, expected = next(drawn_steps(5, 1, d=64, batch=24, z_mix=1.0))
  for name in expected:
    assert found[name] == pytest.approx(expected[name], rel=1e-4), name


# ---------------------------------- prompting ----------------------------------------------------


def states(rows, seed=0):
  rng = np.random.default_rng(seed)
  return rng.standard_normal((rows, OBS)).astype(np.float32)


def close(found, expected, tolerance=2e-5):
  return np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("algo, changes", ARCHITECTURES)
def test_prompts(algo, changes):
  agent, referee = pair(algo, **changes)
  obs = states(1000)
  reward = (np.tanh(obs[:, 0]) + 0.5 * obs[:, 1] ** 2).astype(np.float32)
  assert close(agent.prompt(goal=obs[0]), referee.prompt_states(obs[:1]))
  assert close(agent.prompt(demo=obs[:77]), referee.prompt_states(obs[:77]), 1e-4)
  tolerance = 1e-2 if referee.o.laplacian else 1e-4  # the Laplacian algorithms divide by E[phi phi^T]
  assert close(agent.prompt(obs=obs, reward=reward), referee.prompt_reward(obs, reward), tolerance)
  assert close(agent.prompt(obs=obs, reward=reward, softmax=0.3),
               referee.prompt_reward(obs, reward, 0.3), tolerance)


@pytest.mark.parametrize("K, d, rows", [(1, 32, 5000), (2, 32, 5000), (4, 50, 5000), (8, 64, 5000),
                                        (4, 8, 140001)])  # more rows than the library processes at once
def test_a_reward_prompt_is_a_fixed_point(K, d, rows):
  agent, _ = pair("fb-aware", blocks=K, d=d, b_hidden=128 if rows == 5000 else 16)
  obs = states(rows)
  reward = np.exp(-obs[:, 2] ** 2).astype(np.float32)
  z = agent.prompt(obs=obs, reward=reward)
  B = agent.B(obs, z).astype(np.float64)
  assert np.abs((reward[:, None] * B).mean(0) - z).max() <= 1e-5


@pytest.mark.parametrize("K", [2, 8])
def test_a_goal_prompt_is_its_own_B(K):
  agent, _ = pair("fb-aware", blocks=K)
  goal = states(1)
  z = agent.prompt(goal=goal[0])
  assert np.abs(agent.B(goal, z)[0] - z).max() <= 1e-5


def test_two_blocks_learn_a_nonlinear_task_encoding():
  """Two blocks learn the task encoding max(r_s, r_s+1), which no linear encoding can represent.

  There are six states. The encoder is the reference's B, trained here, then copied into bfm and
  evaluated by bfm's prompt. One block can at best be the least-squares linear map.
  """
  S = 6
  encode_truth = lambda r: torch.maximum(r, r.roll(-1, 1))
  everywhere = torch.eye(S)

  def learn(K):
    chosen = options("fb-aware", d=S * K, blocks=K, b_norm="off", hidden=16, feat=16)
    agent = bfm.Agent(S, 1, seed=0, **chosen)
    o = reference.Options(S, 1, **chosen)
    p = {name: torch.tensor(x, requires_grad=True) for name, x in agent.tensors().items()
         if name.startswith("B.")}
    adam = torch.optim.Adam(list(p.values()), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, 600)
    g = torch.Generator().manual_seed(0)
    for _ in range(600):
      r = torch.randn(64, S, generator=g)
      z = torch.zeros(64, o.d)
      for a, b in reference.bounds(o.d, K):
        B = reference.net_B(p, o, everywhere.repeat(64, 1), z.repeat_interleave(S, 0))
        z_k = (r[:, :, None] * B.view(64, S, o.d)[:, :, a:b]).mean(1)
        z = torch.cat([z[:, :a], z_k, z[:, b:]], 1)
      loss = ((z[:, -S:] - encode_truth(r)) ** 2).mean()
      adam.zero_grad()
      loss.backward()
      adam.step()
      schedule.step()
    agent.set_tensors({name: x.detach().numpy() for name, x in p.items()})
    return agent

  r = torch.randn(500, S, generator=torch.Generator().manual_seed(1))
  truth = encode_truth(r)
  linear = r @ (torch.linalg.pinv(r) @ truth)
  bound = float(((linear - truth) ** 2).mean())
  error = {}
  for K in (1, 2):
    agent = learn(K)
    z = np.stack([agent.prompt(obs=everywhere.numpy(), reward=x.numpy()) for x in r])
    error[K] = float(((z[:, -S:] - truth.numpy()) ** 2).mean())
  assert error[1] >= 0.99 * bound
  assert error[2] <= 0.05 * bound


def test_evaluation_based_sampling_finds_better_actions():
  agent, _ = pair("fb-aware", preset="small")
  obs = states(200)
  z = np.tile(np.float32(agent.prompt(goal=obs[0])), (200, 1))
  value = lambda act: (agent.F(obs, act, z) * z).sum(-1).mean(0)
  one, many = (agent.act(obs, z, es=es, seed=3, step=4) for es in (1, 32))
  assert np.abs(many).max() <= 1
  assert np.array_equal(many, agent.act(obs, z, es=32, seed=3, step=4))
  assert not np.array_equal(many, agent.act(obs, z, es=32, seed=3, step=5))
  assert (value(many) >= value(one)).mean() > 0.9
  assert value(many).mean() > value(agent.pi(obs, z)).mean()


# ---------------------------------- files and bit-identity ---------------------------------------


def same_bits(a, b):
  return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def with_data(agent, rows=500, seed=0):
  rng = np.random.default_rng(seed)
  obs = rng.standard_normal((rows, OBS))
  agent.set_data(obs, rng.uniform(-1, 1, (rows, ACT)), obs + 0.1 * rng.standard_normal(obs.shape),
                 rng.random(rows) > 0.05)
  return agent


@pytest.mark.parametrize("algo", ["fb-aware", "lap-aw"])
def test_models_are_safetensors_both_ways(algo, tmp_path):
  from safetensors import safe_open
  from safetensors.numpy import load_file, save_file
  agent, _ = pair(algo)
  agent.save(tmp_path / "model.safetensors")
  written, tensors = load_file(tmp_path / "model.safetensors"), agent.tensors()
  assert set(written) >= {name for name in tensors if "_target." not in name}
  assert all(np.array_equal(written[name], tensors[name]) for name in written if name in tensors)

  changed = {name: x + 1 if name in tensors else x for name, x in written.items()}
  with safe_open(tmp_path / "model.safetensors", "np") as file:
    save_file(changed, tmp_path / "changed.safetensors", file.metadata())
  loaded = bfm.load(tmp_path / "changed.safetensors")
  assert all(np.array_equal(changed[name], x) for name, x in loaded.tensors().items()
             if name in changed)
  obs, z = states(5), np.ones((5, agent.d))
  original = bfm.load(tmp_path / "model.safetensors")
  assert np.array_equal(original.act(obs, z), agent.act(obs, z))


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_one_and_two_threads_are_bit_identical(algo):
  agents = [with_data(bfm.Agent(OBS, ACT, seed=2, threads=n, **options(algo))) for n in (1, 2)]
  assert agents[0].train(5) == agents[1].train(5)
  assert same_bits(agents[0].tensors(), agents[1].tensors())


@pytest.mark.parametrize("algo, replicas", [("fb", 1), ("fb-aware", 1), ("lap-aw", 1),
                                            ("fb-aware", 2)])
def test_a_resumed_run_is_bit_identical(algo, replicas, tmp_path):
  """40 steps, stopped at 17. The pool of z is renewed every 32 steps, so the state must contain it."""
  chosen = options(algo, d=16, blocks=4 if algo == "fb-aware" else 1, batch=32, seeds=replicas)
  straight = with_data(bfm.Agent(OBS, ACT, seed=2, **chosen))
  straight.train(17)
  straight.save_state(tmp_path / "state.safetensors")
  last = straight.train(23)
  resumed = with_data(bfm.load(tmp_path / "state.safetensors"))
  assert resumed.step == 17
  again = resumed.train(23)
  assert all(np.array_equal(last[name], again[name]) for name in last)
  assert resumed.step == straight.step == 40
  for r in range(replicas):
    assert same_bits(straight.tensors(r), resumed.tensors(r))


@pytest.mark.parametrize("algo, changes", [
    ("fb-aware", {}), ("fb-aw", {}), ("lap", {}), ("lap", {"z_whiten": "on", "z_mix": 1.0}),
    *((algo, {"ensemble": "shared", "members": 3}) for algo in ("fb", "lap"))])
def test_a_replica_alone_equals_the_same_among_others(algo, changes):
  chosen = options(algo, batch=32, d=16, **changes)
  together = with_data(bfm.Agent(OBS, ACT, seed=4, seeds=3, **chosen))
  losses = together.train(5)
  for r in range(3):
    alone = with_data(bfm.Agent(OBS, ACT, seed=4 + r, **chosen))
    expected = alone.train(5)
    assert {name: float(x[r]) for name, x in losses.items()} == expected
    assert same_bits(together.tensors(r), alone.tensors())


@pytest.mark.parametrize("algo, changes", [
    ("fb-aware", {}), *((algo, {"ensemble": "shared", "members": members})
                        for algo in ("fb", "lap") for members in (2, 3))])
def test_replicas_update_on_their_own_batches(algo, changes):
  chosen = options(algo, batch=32, d=16, **changes)
  o, rng = reference.Options(OBS, ACT, **chosen), np.random.default_rng(0)
  together = bfm.Agent(OBS, ACT, seed=4, seeds=2, **chosen)
  referees = [reference.Agent(together.tensors(r), o, torch.float64) for r in range(2)]
  for _ in range(3):
    batches = [transitions(o, rng) for _ in range(2)]
    found = together.update(**{name: np.stack([b[name] for b in batches]) for name in batches[0]})
    for r in range(2):
      expected = referees[r].update(**batches[r])
      for name in expected:
        assert found[name][r] == pytest.approx(expected[name], rel=1e-4)
