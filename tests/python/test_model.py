"""A model with prompt states: prompts by rewards and goals as text, evaluation, export."""
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import bfm

DOMAIN = "point_mass"
MODEL = Path(__file__).resolve().parents[2] / "models" / "walker.safetensors"


def states(domain=DOMAIN, rows=60, seed=0):
  """Observations and states reached by random actions."""
  env = bfm.Env(domain, rows, seed=seed)
  rng = np.random.default_rng(seed)
  for _ in range(10):
    env.step(rng.uniform(-1, 1, (rows, env.act_dim)))
  return env.obs(), *env.state()


def bare(domain=DOMAIN, **options):
  env = bfm.Env(domain)
  return bfm.Agent(env.obs_dim, env.act_dim, **{"d": 8, "blocks": 2, "batch": 16, "hidden": 16,
                                                "feat": 8, "b_hidden": 16, "device": "cpu",
                                                "threads": 1, **options})


def make(domain=DOMAIN, **options):
  agent = bare(domain, **options)
  agent.set_prompt(domain, *states(domain))
  return agent


@pytest.mark.parametrize("domain", [DOMAIN, "walker", "quadruped"])
def test_reward_prompts_use_the_prompt_states(domain):
  agent = make(domain)
  obs, qpos, qvel, act = states(domain)
  task = bfm.Env(domain).tasks[0]
  rewards = bfm.rewards(domain, task, qpos, qvel, act)
  expected = agent.prompt(reward=rewards, obs=obs)
  assert np.array_equal(agent.prompt(task=task), expected)
  assert np.array_equal(agent.prompt(reward=task), expected)
  typed = agent.prompt(reward="2 * torso.z" if domain != DOMAIN else "2 * x")
  assert not np.array_equal(typed, expected)


@pytest.mark.parametrize("domain", [DOMAIN, "quadruped"])
def test_prompt_states_survive_a_file(domain, tmp_path):
  agent, path = make(domain, seeds=2), tmp_path / "model.safetensors"
  agent.save(path, replica=1)
  model = bfm.load(path, device="cpu", threads=1)
  assert (model.env, model.prompt_states) == (domain, 60) == (agent.env, agent.prompt_states)
  task = bfm.Env(domain).tasks[0]
  assert np.array_equal(model.prompt(task=task), agent.prompt(task=task, replica=1))
  model.save(tmp_path / "again.safetensors")
  assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_rewards_of_stored_states_to_1e_6(tmp_path):
  for domain in ("walker", "cheetah"):
    agent = make(domain)
    obs, qpos, qvel, act = states(domain)
    task = bfm.Env(domain).tasks[0]
    for half in (False, True):
      agent.export(tmp_path / "m.safetensors", half=half)
      expected = agent.prompt(reward=bfm.rewards(domain, task, qpos, qvel, act), obs=obs)
      found = bfm.load(tmp_path / "m.safetensors", device="cpu").prompt(task=task)
      tolerance = 0.1 if half else 1e-6  # half changes the parameters
      np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


def test_goals_and_demonstrations():
  agent = make()
  obs, qpos, qvel, _ = states()
  nearest = np.argmin(((qpos - [0.05, 0]) ** 2 / qpos.var(0)).sum(1))
  named = agent.prompt(goal="x = 0.05, y = 0")
  assert np.array_equal(named, agent.prompt(goal=obs[nearest]))
  state = agent.prompt(goal={"qpos": qpos[nearest], "qvel": qvel[nearest]})
  np.testing.assert_allclose(state, named, atol=1e-5)
  assert agent.prompt(demo=obs).shape == (8,)


def test_saved_prompts_belong_to_one_model(tmp_path):
  agent, kept = make(), tmp_path / "z.json"
  z = agent.prompt(task="easy")
  kept.write_text(json.dumps({"z": z.tolist()}))  # no fingerprint
  assert np.array_equal(agent.prompt(z=kept), z)
  agent.save(tmp_path / "model.safetensors")
  bfm_program = os.environ.get("BFM", Path(__file__).resolve().parents[2] / "build" / "bfm")
  subprocess.run([bfm_program, "prompt", tmp_path / "model.safetensors", "--task", "easy", "-o",
                  kept], check=True)
  np.testing.assert_allclose(agent.prompt(z=str(kept)), z, atol=1e-6)
  with pytest.raises(bfm.ArgumentError, match="z.json is a prompt for another model"):
    make(seed=1).prompt(z=kept)


def test_evaluate_equals_episodes_by_hand():
  agent, steps = make(), 12
  found = agent.evaluate(["easy", "x"], episodes=5, steps=steps, seed=7)
  for task in ("easy", "x"):
    z = agent.prompt(reward=task)
    env = bfm.Env(DOMAIN, 5, seed=7)
    returns = 0
    for _ in range(steps):
      env.step(agent.act(env.obs(), z))
      returns = returns + env.reward(task)
    np.testing.assert_allclose(found[task], returns, atol=1e-4)
  assert np.array_equal(agent.evaluate("x", episodes=5, steps=steps, seed=7)["x"].round(3),
                        found["x"].round(3))


def test_evaluate_replicas_given_z_and_terminations():
  agent = make(seeds=2)
  z = np.stack([[agent.prompt(goal="x = 0.1", replica=r)] for r in range(2)])
  found = agent.evaluate(["x"], episodes=3, steps=4, z=z, es=4)
  assert found["x"].shape == (2, 3)
  hopper = bare("hopper")
  hopper.set_prompt("hopper")
  z = np.ones((1, 8))
  short, long = (hopper.evaluate(["run"], episodes=3, steps=n, z=z)["run"] for n in (300, 600))
  assert np.array_equal(short, long), "a hopper that fell earned more"


def test_export(tmp_path):
  agent = make()
  agent.export(tmp_path / "slim.safetensors", members=1, half=True, prompt_states=20)
  slim = bfm.load(tmp_path / "slim.safetensors", device="cpu")
  assert (slim.members, slim.prompt_states, slim.env) == (1, 20, DOMAIN)
  obs, z = states()[0], agent.prompt(goal="x = 0.1")
  np.testing.assert_allclose(slim.act(obs, z), agent.act(obs, z), atol=0.05)
  assert slim.act(obs, z, es=4).shape == (60, 2)
  full, part = agent.tensors(), slim.tensors()
  np.testing.assert_allclose(part["F.trunk.0.weight"], full["F.trunk.0.weight"][0], rtol=0.01,
                             atol=1e-6)


@pytest.mark.parametrize("call, words", [
    (lambda a: a.prompt(task="eesy"), "easy"), (lambda a: a.prompt(reward="x +"), "reward"),
    (lambda a: a.prompt(goal="x"), "x"), (lambda a: a.prompt(goal={"qvel": [0, 0]}), "qpos"),
    (lambda a: a.prompt(goal={"qpos": [0, 0, 0]}), "qpos has shape"),
    (lambda a: a.prompt(demo="nowhere.h5"), "nowhere.h5"), (lambda a: a.prompt(), "one of"),
    (lambda a: a.prompt(task="easy", goal="x = 1"), "one of"),
    (lambda a: a.evaluate([]), "task"), (lambda a: a.evaluate("easy", episodes=-1), "episodes"),
    (lambda a: a.evaluate("easy", episodes=0), "episodes"),
    (lambda a: a.evaluate("easy", steps=-1), "steps"), (lambda a: a.evaluate("eesy"), "easy"),
    (lambda a: a.set_prompt("walker"), "walker"), (lambda a: a.set_prompt("wlker"), "walker"),
    (lambda a: a.export("/nowhere/a.safetensors"), "nowhere"),
    (lambda a: bare().prompt(task="easy"), "no prompt states"),
    (lambda a: bare().evaluate("easy"), "domain")])
def test_refusals(call, words):
  with pytest.raises(bfm.Error, match=words):
    call(make())


def test_an_impossible_initial_state_is_an_error(tmp_path, monkeypatch):
  folder = Path(__file__).resolve().parents[2] / ".deps" / "models"
  shutil.copytree(folder, tmp_path / "models")
  xml = tmp_path / "models" / "suite" / "humanoid.xml"
  text = xml.read_text().replace('<geom name="floor" type="plane"',
                                 '<geom name="floor" type="plane" pos="0 0 9"')
  xml.write_text(text)
  monkeypatch.setenv("BFM_MODELS", str(tmp_path / "models"))
  with pytest.raises(bfm.Error, match="no initial state without a collision"):
    bfm.Env("humanoid")


def test_numbers_ignore_a_locale_with_decimal_commas(tmp_path):
  made = ["localedef", "--no-archive", "-i", "de_DE", "-f", "UTF-8", tmp_path / "de_DE.UTF-8"]
  if not shutil.which("localedef") or subprocess.run(made, capture_output=True).returncode:
    pytest.skip("no German locale can be made here")
  agent = make(gamma=0.95)
  agent.save(tmp_path / "model.safetensors")
  code = """if True:
    import bfm, locale, sys
    goal = "x = 0.05, y = 0.1"
    expected = bfm.load(sys.argv[1]).prompt(goal=goal)
    locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
    agent = bfm.load(sys.argv[1], sigma=0.25)
    assert (agent.options["gamma"], agent.options["sigma"]) == (0.95, 0.25)
    assert (agent.prompt(goal=goal) == expected).all()"""
  process = subprocess.run([sys.executable, "-c", code, tmp_path / "model.safetensors"], text=True,
                           capture_output=True, env={**os.environ, "LOCPATH": str(tmp_path)})
  assert process.returncode == 0 and not process.stderr, process.stderr


def test_a_reward_of_what_is_not_observed_gets_a_warning():
  model = bfm.load(MODEL, device="cpu")
  with pytest.warns(UserWarning, match="moves along x, which the observations do not show") as found:
    model.prompt(reward="torso.x > 0")
  assert str(found[0].message).startswith("torso.x > 0: ") and found[0].filename == __file__
  with warnings.catch_warnings():
    warnings.simplefilter("error")
    model.prompt(reward="upright * (speed > 2)")
    model.prompt(task="run")


def test_a_prompt_reports_what_it_says():
  model = bfm.load(MODEL, device="cpu")
  z, report = model.prompt(reward="torso.z", report=True)
  assert np.array_equal(z, model.prompt(reward="torso.z"))
  assert report.startswith("mean reward ") and " at the 10000 prompt states, from " in report
  _, report = model.prompt(goal="torso.z = 1.2, speed = 0", report=True)
  assert "prompt state " in report and "torso.z" in report and "(goal 1.2)" in report
  _, report = model.prompt(demo=np.ones((3, 24)), report=True)
  assert report == ""


@pytest.mark.parametrize("reward", ["torso.z > 9", "torso.z > -9", "0", "if(torso.z > 9, 1/0, 2)"])
def test_a_reward_that_is_the_same_everywhere_is_refused(reward):
  model = bfm.load(MODEL, device="cpu")
  for call in (lambda: model.prompt(reward=reward), lambda: model.prompt(task=reward, softmax=0.1),
               lambda: model.evaluate(["run", reward], episodes=1, steps=1)):
    with pytest.raises(bfm.ArgumentError, match="in all 10000 prompt states: it tells the agent noth"):
      call()


def test_a_goal_in_a_file(tmp_path):
  model, path = bfm.load(MODEL, device="cpu"), tmp_path / "goal.json"
  path.write_text(json.dumps({"obs": [0.5] * 24}))
  assert np.array_equal(model.prompt(goal=path), model.prompt(goal=np.full(24, 0.5)))
  assert np.array_equal(model.prompt(goal=str(path)), model.prompt(goal=path))


def test_pipes_are_refused(tmp_path):
  """Reading from a pipe without a writer would block forever."""
  pipe = tmp_path / "pipe"
  os.mkfifo(pipe)
  agent = make()
  for read in (lambda: bfm.load(pipe), lambda: agent.prompt(z=pipe),
               lambda: agent.prompt(demo=pipe)):
    with pytest.raises(Exception, match="is a pipe, not a file"):
      read()
