"""Environments against dm_control and Gymnasium: same states, same actions, same numbers."""
import functools
import os
import subprocess
import sys
import types

import h5py
import numpy as np
import pytest

import bfm

fish = pytest.importorskip("dm_control.suite.fish")
suite = pytest.importorskip("dm_control.suite")
manipulation = pytest.importorskip("dm_control.manipulation")

STATES = 1000
SUITE = {"walker": "run", "cheetah": "run", "quadruped": "walk", "humanoid": "run",
         "point_mass": "easy", "fish": "swim", "finger": "spin", "acrobot": "swingup",
         "dmc_hopper": "stand"}
DOMAINS = [*SUITE, "jaco"]
TARGET = "target_position"  # of jaco's observation in dm_control; not of bfm's


@functools.cache
def oracle(domain):
  if domain == "jaco":
    env = manipulation.load("reach_site_features", seed=0)
    env._recompile_mjcf_every_episode = False  # takes long, and the model never changes
    return env
  return load(domain, SUITE[domain])


class SwimToThePlaceOfTheModel(fish.Swim):
  """The fish's target stays where the model has it, as in bfm."""

  def initialize_episode(self, physics):
    place = physics.named.model.geom_pos["target"].copy()
    super().initialize_episode(physics)
    physics.named.model.geom_pos["target"] = place
    physics.after_reset()


def load(domain, task):
  """dm_control's environment of a domain of the suite."""
  env = suite.load(domain.removeprefix("dmc_"), task, task_kwargs={"random": 0})
  if (domain, task) == ("fish", "swim"):
    env._task = SwimToThePlaceOfTheModel(random=0)
  return env


def flat(observation):
  return np.concatenate([np.ravel(x) for name, x in observation.items() if name != TARGET])


def observe(env):
  """dm_control's observation of the current state, without a step."""
  if hasattr(env, "_observation_updater"):
    env._observation_updater.reset(env._physics_proxy, env._random_state)
    return flat(env._observation_updater.get_observation())
  return flat(env.task.get_observation(env.physics))


def put_state(env, qpos, qvel, act):
  with env.physics.reset_context():
    env.physics.data.qpos[:] = qpos
    env.physics.data.qvel[:] = qvel
    if env.physics.model.na:
      env.physics.data.act[:] = act


def state(env):
  data = env.physics.data
  return data.qpos.copy(), data.qvel.copy(), np.array(data.act)


def random_actions(env, rng, count):
  """The same actions in the ranges of bfm and of dm_control."""
  spec = env.action_spec()
  if isinstance(env, suite.walker.control.Environment):
    actions = rng.uniform(spec.minimum, spec.maximum, (count, *spec.shape))
    return actions, actions
  shares = rng.uniform(-1, 1, (count, *spec.shape))  # jaco's actions are scaled
  return shares, spec.minimum + (shares + 1) / 2 * (spec.maximum - spec.minimum)


@functools.cache
def reached_states(domain, count=STATES):
  """States reached by random actions, over several episodes."""
  env, rng = oracle(domain), np.random.RandomState(1)
  states = []
  while len(states) < count:
    env.reset()
    for action in random_actions(env, rng, 100)[1]:
      env.step(action)
      if rng.rand() < 0.5:
        states.append(state(env))
  return [np.array(x) for x in zip(*states[:count])]


@pytest.mark.parametrize("domain", DOMAINS)
def test_sizes(domain):
  env, reference = bfm.Env(domain, 2), oracle(domain)
  reference.reset()
  assert env.obs_dim == len(observe(reference))
  assert env.act_dim == reference.action_spec().shape[0]
  assert env.control_dt == pytest.approx(reference.control_timestep())
  if domain != "jaco":
    np.testing.assert_array_equal(env.action_low, reference.action_spec().minimum)
    np.testing.assert_array_equal(env.action_high, reference.action_spec().maximum)


@pytest.mark.parametrize("domain", DOMAINS)
def test_parts_of_observations_have_dm_controls_names(domain, tmp_path):
  """These are the names that bfm train --goal accepts."""
  env, rng, first = bfm.Env(domain), np.random.RandomState(0), 0
  with h5py.File(tmp_path / "data.h5", "w") as file:
    file.attrs["env"] = domain
    file["observations"] = rng.standard_normal((4, env.obs_dim)).astype("f4")
    file["actions"] = np.zeros((4, env.act_dim), "f4")
    file["terminals"] = np.zeros(4, bool)
  for i, (name, spec) in enumerate(oracle(domain).observation_spec().items()):
    if name == TARGET:
      continue
    folder, last = tmp_path / str(i), first + int(np.prod(spec.shape))
    subprocess.run([os.environ["BFM"], "train", tmp_path / "data.h5", "--goal", name, "--preset",
                    "small", "--batch", "2", "--steps", "1", "-q", "-o", folder], check=True)
    config = bfm.load(folder / "model.safetensors").options
    assert config["goal"] == f"{first}:{last}", name
    first = last
  assert first == env.obs_dim


@pytest.mark.parametrize("domain", DOMAINS)
def test_observations_of_reached_states(domain):
  qpos, qvel, act = reached_states(domain)
  env, reference = bfm.Env(domain, STATES), oracle(domain)
  env.set_state(qpos, qvel, act)
  expected = []
  for row in zip(qpos, qvel, act):
    put_state(reference, *row)
    expected.append(observe(reference))
  np.testing.assert_allclose(env.obs(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("domain", DOMAINS)
def test_rollouts(domain):
  """100 control steps with the same actions, from initial states and from states in motion."""
  count, steps, rng = 6, 100, np.random.RandomState(2)
  reference = oracle(domain)
  starts = [tuple(x[10 * i] for x in reached_states(domain)) for i in range(count // 2)]
  for _ in range(count // 2):
    reference.reset()
    starts.append(state(reference))
  qpos, qvel, act = (np.array(x) for x in zip(*starts))

  env = bfm.Env(domain, count)
  env.set_state(qpos, qvel, act)
  actions = [random_actions(reference, rng, steps) for _ in range(count)]
  got = np.array([env.step(np.array([a[0][t] for a in actions])) for t in range(steps)])
  assert env.diverged == 0

  for i in range(count):
    reference.reset()
    put_state(reference, qpos[i], qvel[i], act[i])
    for t in range(steps):
      expected = flat(reference.step(actions[i][1][t]).observation)
      np.testing.assert_allclose(got[t, i], expected, rtol=1e-5, atol=1e-5, err_msg=f"step {t}")


@pytest.mark.parametrize("domain", DOMAINS)
def test_initial_states(domain):
  """Initial states have dm_control's distribution, coordinate by coordinate."""
  count = 400
  reference = oracle(domain)
  expected = []
  for _ in range(count):
    reference.reset()
    expected.append(np.concatenate(state(reference)))
  env = bfm.Env(domain, 4 * count, seed=3)
  check_distribution(np.array(expected), np.concatenate(env.state(), axis=1))


def check_distribution(expected, got):
  stats = pytest.importorskip("scipy.stats")
  for k in range(expected.shape[1]):
    spread = max(np.ptp(expected[:, k]), np.ptp(got[:, k]))
    if spread < 1e-6:
      assert abs(expected[0, k] - got[0, k]) < 1e-6
      continue
    # ignore rounding: a coordinate may be zero on one side and nearly zero on the other
    decimals = 6
    p = stats.ks_2samp(np.round(expected[:, k], decimals), np.round(got[:, k], decimals)).pvalue
    assert p > 1e-4, f"coordinate {k} of qpos, qvel, act: p = {p}"


# ---------------------------------- Gymnasium ----------------------------------------------------

GYM = {"halfcheetah": ("HalfCheetah-v4", {}), "hopper": ("Hopper-v4", {}),
       "walker2d": ("Walker2d-v4", {}),
       "ant": ("Ant-v5", {"include_cfrc_ext_in_observation": False, "contact_cost_weight": 0.0})}


def gym_env(domain):
  # Gymnasium needs imageio only for pictures
  sys.modules.setdefault("imageio", types.ModuleType("imageio"))
  name, options = GYM[domain]
  return pytest.importorskip("gymnasium").make(name, **options)


@pytest.mark.parametrize("domain", GYM)
def test_gymnasium(domain):
  """Observations, rewards, terminations of episodes; Gymnasium's v4 behaves like v2."""
  reference = gym_env(domain)
  env, rng = bfm.Env(domain, 1), np.random.RandomState(0)
  terminations = 0
  for episode in range(20):
    obs, _ = reference.reset(seed=episode)
    data = reference.unwrapped.data
    if domain == "ant":  # whose quaternion has another length than 1 after a reset
      data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
      obs = reference.unwrapped._get_obs()
    env.set_state(data.qpos[None], data.qvel[None])
    np.testing.assert_allclose(env.obs()[0], obs, atol=1e-9)
    for t in range(100):
      action = rng.uniform(-1, 1, env.act_dim)
      before = data.qpos[0]
      obs, reward, terminated, _, info = reference.step(action)
      if domain == "ant":
        # Gymnasium's forward velocity comes from the last stage of the integrator, not from the state
        reward += (data.qpos[0] - before) / env.control_dt - info["x_velocity"]
        assert env.control_dt == pytest.approx(reference.unwrapped.dt)
      got = env.step(action[None])[0]
      np.testing.assert_allclose(got, obs, rtol=1e-5, atol=1e-5, err_msg=f"step {t}")
      assert env.reward("run")[0] == pytest.approx(reward, abs=1e-5)
      assert bool(env.ended[0] & 1) == terminated
      if terminated:
        terminations += 1
        break
  if domain == "ant":
    assert 0 < terminations < 20  # it jumps, but not in every episode
  else:
    assert terminations == (0 if domain == "halfcheetah" else 20)


def test_initial_states_of_the_ant():
  """Initial states have Gymnasium's distribution."""
  reference, expected = gym_env("ant"), []
  for seed in range(400):
    reference.reset(seed=seed)
    expected.append(np.concatenate([reference.unwrapped.data.qpos, reference.unwrapped.data.qvel]))
  expected = np.array(expected)
  expected[:, 3:7] /= np.linalg.norm(expected[:, 3:7], axis=1, keepdims=True)
  check_distribution(expected, np.concatenate(bfm.Env("ant", 1600, seed=3).state(), axis=1))
