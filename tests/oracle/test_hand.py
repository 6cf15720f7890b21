"""hand against gymnasium-robotics' HandReach: same states and actions, same numbers. Its known tasks
are HandReach's goals: the fingertips' places at the start, or a finger and the thumb that meet."""
import functools
import sys
import types

import mujoco
import numpy as np
import pytest

import bfm

sys.modules.setdefault("imageio", types.ModuleType("imageio"))  # Gymnasium needs it only for pictures
pytest.importorskip("gymnasium_robotics")
from gymnasium_robotics.envs.shadow_dexterous_hand import reach  # noqa: E402
from gymnasium_robotics.utils import mujoco_utils  # noqa: E402

rewards = pytest.importorskip("dm_control.utils.rewards")
FINGERS = ["fore", "middle", "ring", "little"]
TASKS = ["rest", *(f"pinch_{finger}" for finger in FINGERS)]


def set_joint(model, data, name, value):
  data.joint(name).qpos[:] = value


# the package's own functions compare types in a way that newer versions of MuJoCo refuse
mujoco_utils.set_joint_qpos = set_joint
mujoco_utils.robot_get_obs = lambda model, data, names: (data.qpos.copy(), data.qvel.copy())


@functools.cache
def make():
  env = reach.MujocoHandReachEnv()
  env.reset(seed=0)
  return env


class Draws:
  """Stands for HandReach's random numbers: no noise, and a goal for this finger."""

  def __init__(self, task):
    self.task = task

  def choice(self, names):
    return names[max(0, TASKS.index(self.task) - 1)]

  def normal(self, scale, size):
    return np.zeros(size)

  def uniform(self):
    return 0.0 if self.task == "rest" else 1.0  # below 0.1, all tips shall go to their start


def goal_of(reference, task):
  reference._np_random = Draws(task)
  return reference._sample_goal()


def put_state(reference, qpos, qvel):
  """Sets a state without actuation, as bfm does: the solver starts from the same accelerations."""
  model, data = reference.model, reference.data
  mujoco.mj_resetData(model, data)
  data.qpos[:], data.qvel[:] = qpos, qvel
  flags = model.opt.disableflags
  model.opt.disableflags = flags | mujoco.mjtDisableBit.mjDSBL_ACTUATION
  mujoco.mj_forward(model, data)
  model.opt.disableflags = flags


def observe(reference):
  """The observation of the present state. After a step, HandReach's fingertips are 2 ms old."""
  mujoco.mj_kinematics(reference.model, reference.data)
  return reference._get_obs()["observation"]


def reached_states(count):
  reference, rng = make(), np.random.RandomState(1)
  put_state(reference, reference.initial_qpos, np.zeros(24))
  qpos, qvel = [], []
  for _ in range(count):
    action = rng.uniform(-1, 1, 20)
    for _ in range(4):
      reference.step(action)
    qpos.append(reference.data.qpos.copy())
    qvel.append(reference.data.qvel.copy())
  # near the start, where goals are
  qpos[::2] = list(reference.initial_qpos + rng.uniform(-0.1, 0.1, (len(qpos[::2]), 24)))
  return np.array(qpos), np.array(qvel)


def rewards_of(reference, task, observations):
  goal = goal_of(reference, task)
  return [rewards.tolerance(reach.goal_distance(obs[48:], goal), (0, 0.01), 0.1)
          for obs in observations]


def observations_of(reference, qpos, qvel):
  seen = []
  for row in zip(qpos, qvel):
    put_state(reference, *row)
    seen.append(observe(reference))
  return np.array(seen)


def rollout_of(reference, qpos, qvel, actions):
  put_state(reference, qpos, qvel)
  seen = []
  for action in actions:
    reference.step(action)
    late = reference._get_obs()["observation"]
    seen.append(observe(reference))
    np.testing.assert_array_equal(late[:48], seen[-1][:48])
    assert np.abs(late[48:] - seen[-1][48:]).max() < 0.006  # 2 ms at 3 m/s
  return np.array(seen)


def golden(count, steps):
  """The results for make_golden_worlds.py."""
  reference, (qpos, qvel) = make(), reached_states(count)
  actions = np.random.RandomState(5).uniform(-1, 1, (steps, 20))
  seen = observations_of(reference, qpos, qvel)
  return {"qpos": qpos, "qvel": qvel, "act": np.zeros((count, 0)), "actions": actions, "obs": seen,
          "rollout": rollout_of(reference, qpos[0], qvel[0], actions),
          **{f"reward/{task}": np.array(rewards_of(reference, task, seen)) for task in TASKS}}


def test_start():
  reference = make()
  obs, _ = reference.reset(seed=0)
  env = bfm.Env("hand", 3, seed=0)
  for got in env.obs():
    np.testing.assert_allclose(got, obs["observation"], rtol=0, atol=1e-9)
  assert env.control_dt == pytest.approx(reference.dt)
  assert env.act_dim == reference.action_space.shape[0]


def test_observations_and_rewards():
  reference, (qpos, qvel) = make(), reached_states(300)
  seen = observations_of(reference, qpos, qvel)
  env = bfm.Env("hand", len(qpos))
  env.set_state(qpos, qvel)
  np.testing.assert_allclose(env.obs(), seen, rtol=1e-6, atol=1e-6)
  for task in TASKS:
    expected = rewards_of(reference, task, seen)
    np.testing.assert_allclose(env.reward(task), expected, rtol=1e-6, atol=1e-6, err_msg=task)
    assert max(expected) > 0.05, task
  for task in env.tasks:
    paid = bfm.rewards("hand", task, qpos, qvel)
    assert paid.min() >= 0 and paid.max() <= 1 and paid.std() > 0, task


def test_rollouts():
  reference, (qpos, qvel) = make(), reached_states(6)
  env, rng = bfm.Env("hand", 1), np.random.RandomState(2)
  for row in zip(qpos, qvel):
    actions = rng.uniform(-1.2, 1.2, (50, 20))
    env.set_state(row[0][None], row[1][None])
    expected = rollout_of(reference, *row, actions)
    for t, action in enumerate(actions):
      np.testing.assert_allclose(env.step(action[None])[0], expected[t], rtol=1e-5, atol=1e-5,
                                 err_msg=f"step {t}")
