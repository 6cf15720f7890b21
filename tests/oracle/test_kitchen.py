"""kitchen against gymnasium-robotics' FrankaKitchen-v1 without its noise: same states and actions, same
numbers. Its observations are positions and velocities; those of D4RL and bfm are positions and a goal."""
import mujoco
import numpy as np
import pytest

import bfm

gymnasium = pytest.importorskip("gymnasium")
robotics = pytest.importorskip("gymnasium_robotics")
from gymnasium_robotics.envs.franka_kitchen import franka_env, kitchen_env  # noqa: E402

OBJECTS = {"bottom burner": "turn_bottom_burner", "top burner": "turn_top_burner",
           "light switch": "switch_light", "slide cabinet": "open_slide_cabinet",
           "hinge cabinet": "open_hinge_cabinet", "microwave": "open_microwave",
           "kettle": "move_kettle"}
D4RL = {"partial": ["microwave", "kettle", "light switch", "slide cabinet"],
        "mixed": ["microwave", "kettle", "bottom burner", "light switch"]}


# the package's own function compares types in a way that newer versions of MuJoCo refuse
franka_env.robot_get_obs = lambda model, data, names: (data.qpos[:9].copy(), data.qvel[:9].copy())


def make(tasks, **options):
  return kitchen_env.KitchenEnv(tasks_to_complete=tasks, robot_noise_ratio=0.0,
                                object_noise_ratio=0.0, **options)


def put_state(reference, qpos, qvel):
  """Sets a state without actuation, like bfm, so that the solver starts from the same accelerations."""
  reference.reset(seed=0)
  flags = reference.model.opt.disableflags
  reference.model.opt.disableflags = flags | mujoco.mjtDisableBit.mjDSBL_ACTUATION
  reference.data.qacc_warmstart[:] = 0
  reference.robot_env.set_state(qpos, qvel)
  reference.model.opt.disableflags = flags
  reference.robot_env._get_obs()  # the next targets start from this observation


def busy_states(reference, count, seed):
  """States with the arm near its start and objects anywhere between start and goal, some moving."""
  rng, start = np.random.RandomState(seed), reference.robot_env.init_qpos
  qpos, qvel = np.tile(start, (count, 1)), np.zeros((count, reference.model.nv))
  qpos[:, :7] += rng.uniform(-0.1, 0.1, (count, 7))
  for name, columns in kitchen_env.OBS_ELEMENT_INDICES.items():
    share = rng.choice([0, 0.3, 0.6, 1], (count, 1)) * rng.uniform(0.9, 1.1, (count, 1))
    way = kitchen_env.OBS_ELEMENT_GOALS[name] - start[columns]
    qpos[:, columns] += share * way
    if name != "kettle":  # whose velocities have other columns
      qvel[:, columns] = way * rng.choice([0, 2], (count, 1))
  return qpos, qvel


def observation(reference):
  return np.concatenate([reference.data.qpos, np.zeros(30)])


def completed(reference, qpos):
  """Which objects are in their places, [states, objects]."""
  done = np.zeros((len(qpos), len(OBJECTS)))
  for i, row in enumerate(qpos):
    achieved = {name: row[kitchen_env.OBS_ELEMENT_INDICES[name]] for name in OBJECTS}
    reference.compute_reward(achieved, reference.goal, {})
    done[i] = [name in reference.step_task_completions for name in OBJECTS]
  return done


def golden(count, steps):
  """The results for make_golden_worlds.py."""
  reference, rng = make(list(OBJECTS)), np.random.RandomState(5)
  qpos, qvel = busy_states(reference, count, seed=4)
  actions, rollout = rng.uniform(-1, 1, (steps, 9)), []
  put_state(reference, qpos[0], qvel[0])
  for action in actions:
    reference.step(action)
    rollout.append(observation(reference))
  done = completed(make(list(OBJECTS)), qpos)
  return {"qpos": qpos, "qvel": qvel, "act": np.zeros((count, 0)), "actions": actions,
          "obs": np.concatenate([qpos, np.zeros((count, 30))], axis=1), "rollout": np.array(rollout),
          **{f"reward/{task}": done[:, k] for k, task in enumerate(OBJECTS.values())}}


@pytest.mark.parametrize("task", D4RL)
def test_episodes(task):
  reference = make(D4RL[task], terminate_on_tasks_completed=False)
  env, rng, paid = bfm.Env("kitchen", 1), np.random.RandomState(1), 0
  for qpos, qvel in zip(*busy_states(reference, 12, seed=2)):
    put_state(reference, qpos, qvel)
    env.set_state(qpos[None], qvel[None])
    for t in range(50):
      action = rng.uniform(-1.2, 1.2, 9)
      seen, reward, *_ = reference.step(action)
      got = env.step(action[None])[0]
      state = env.state()
      np.testing.assert_allclose(state[0][0], reference.data.qpos, rtol=0, atol=1e-5, err_msg=f"{t}")
      np.testing.assert_allclose(state[1][0], reference.data.qvel, rtol=0, atol=1e-5, err_msg=f"{t}")
      np.testing.assert_allclose(got[:9], seen["observation"][:9], atol=1e-5)
      np.testing.assert_allclose(got[9:30], seen["observation"][18:39], atol=1e-5)
      assert not got[30:].any()
      assert env.reward(task)[0] == reward
      paid += reward
  assert paid > 12


def test_completed_tasks():
  reference = make(list(OBJECTS))
  qpos, qvel = busy_states(reference, 400, seed=3)
  done = completed(reference, qpos)
  for k, task in enumerate(OBJECTS.values()):
    np.testing.assert_array_equal(bfm.rewards("kitchen", task, qpos, qvel), done[:, k], err_msg=task)
    assert 20 < done[:, k].sum() < 380
  for task, names in D4RL.items():
    expected = sum(done[:, list(OBJECTS).index(name)] for name in names)
    np.testing.assert_array_equal(bfm.rewards("kitchen", task, qpos, qvel), expected)


def test_start():
  reference = make(["kettle"])
  reference.reset(seed=0)
  env = bfm.Env("kitchen", 200, seed=0)
  difference = env.state()[0] - reference.data.qpos
  assert np.abs(difference[:, :7]).max() < 0.01 and np.all(difference[:, :7].std(axis=0) > 0.004)
  assert not difference[:, 7:].any() and not env.state()[1].any()
