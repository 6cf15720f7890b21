"""bfm.Env through the interfaces of Gymnasium and dm_control."""
import dm_env
import gymnasium
import numpy as np
import pytest
from dm_control import suite
from dm_env import specs

import bfm


def test_a_gymnasium_vector_environment():
  env = bfm.Env("hopper", 2, seed=0).vector("run")
  assert isinstance(env, gymnasium.vector.VectorEnv)
  obs, info = env.reset(seed=0)
  assert env.observation_space.contains(obs)
  ended = False
  for _ in range(100):
    obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
    assert env.observation_space.contains(obs) and reward.shape == (2,)
    assert terminated.dtype == bool and not truncated.any()
    ended = ended or terminated.any()
  assert ended


def test_the_time_limit_truncates_and_the_next_step_resets():
  env = bfm.Env("point_mass", 2).vector("easy")
  env.reset(seed=0)
  action = np.zeros((2, 2))
  for _ in range(999):
    _, _, terminated, truncated, _ = env.step(action)
    assert not terminated.any() and not truncated.any()
  _, _, terminated, truncated, _ = env.step(action)
  assert truncated.all() and not terminated.any()
  _, reward, terminated, truncated, _ = env.step(action)
  assert not truncated.any() and not reward.any()


def test_spaces_and_specs():
  env = bfm.Env("walker", 3)
  for space, spec, one, width in [
      (env.observation_space, env.observation_spec(), env.single_observation_space, 24),
      (env.action_space, env.action_spec(), env.single_action_space, 6)]:
    assert space.shape == spec.shape == (3, width) and one.shape == (width,)
    assert space.dtype == spec.dtype == np.float64
  assert (env.action_spec().minimum == -1).all() and (env.action_space.high == 1).all()
  env.observation_spec().validate(env.reset())


@pytest.mark.parametrize("domain, task", [("walker", "run"), ("point_mass", "easy")])
def test_a_dm_environment_steps_as_in_dm_control(domain, task):
  env = bfm.Env(domain, seed=1)
  ours, theirs = env.dm_env(task), suite.load(domain, task, task_kwargs={"random": 0})
  assert isinstance(ours, dm_env.Environment)
  assert isinstance(ours.action_spec(), specs.BoundedArray)
  assert ours.action_spec().shape == theirs.action_spec().shape
  assert ours.step(None).first()  # the very first step resets, whatever the action
  theirs.reset()
  data = theirs.physics.data
  env.set_state(data.qpos[None], data.qvel[None])
  rng = np.random.RandomState(0)
  for _ in range(50):
    action = rng.uniform(-1, 1, ours.action_spec().shape)
    found, true = ours.step(action), theirs.step(action)
    ours.observation_spec().validate(found.observation)
    flat = np.concatenate([np.ravel(x) for x in true.observation.values()])
    np.testing.assert_allclose(found.observation, flat, rtol=1e-5, atol=1e-5)
    assert found.step_type == true.step_type and found.discount == true.discount
    assert found.reward == pytest.approx(true.reward, abs=1e-5)


def test_ends_of_dm_environments():
  env = bfm.Env("point_mass").dm_env("easy")
  env.reset()
  for _ in range(999):
    assert env.step(np.zeros(2)).mid()
  last = env.step(np.zeros(2))
  assert last.last() and last.discount == 1 and env.step(np.zeros(2)).first()
  hopper = bfm.Env("hopper").dm_env("run")
  hopper.reset()
  while not (step := hopper.step(np.ones(3))).last():
    pass
  assert step.discount == 0  # it fell
  with pytest.raises(bfm.ArgumentError, match="num_envs=1, not 2"):
    bfm.Env("hopper", 2).dm_env("run")
