"""bfm.Env and bfm.rewards: shapes and errors."""
import os
import signal
import sys

import numpy as np
import pytest

import bfm

SIZES = {"walker": (24, 6), "cheetah": (17, 6), "quadruped": (78, 12), "humanoid": (67, 21),
         "jaco": (42, 9), "point_mass": (4, 2), "halfcheetah": (17, 6), "hopper": (11, 3),
         "walker2d": (17, 6), "ant": (27, 8), "fish": (24, 5), "finger": (9, 2), "acrobot": (6, 1),
         "dmc_hopper": (15, 4), "hand": (63, 20)}
TASKS = {
    "walker": "stand walk run spin flip march skyreach pullup",
    "cheetah": "walk run walk_backward run_backward bounce march stand headstand",
    "quadruped": "walk run stand jump bounce skip march trot",
    "humanoid": "stand walk run dive march skip left_hand right_hand walk_open_hand split",
    "ant": "run stand walk walk_backward walk_left walk_right go turn crouch",
    "fish": "upright swim upside_down lie face turn_away approach orbit",
    "finger": "spin turn_up turn_down turn_left turn_right spin_back spin_slowly keep_off",
    "acrobot": "swingup swingup_sparse hang lift fold whirl whirl_back whip",
    "dmc_hopper": "stand hop hop_backward march jump crouch headstand flip",
    "hand": "rest pinch_fore pinch_middle pinch_ring pinch_little open fist point victory call flex",
    "jaco": "reach_top_left reach_top_right reach_bottom_left reach_bottom_right "
            "reach_random1 reach_random2 reach_random3 reach_random4",
}


@pytest.mark.parametrize("domain", SIZES)
def test_domain(domain):
  env = bfm.Env(domain, num_envs=2, seed=1)
  assert (env.obs_dim, env.act_dim) == SIZES[domain]
  assert set(TASKS.get(domain, "").split()) <= set(env.tasks)
  assert env.episode_steps == {"jaco": 250, "hand": 50}.get(domain, 1000)
  obs = env.reset()
  assert obs.shape == (2, env.obs_dim) and np.isfinite(obs).all()
  np.testing.assert_array_equal(obs, env.obs())
  assert env.step(np.zeros((2, env.act_dim))).shape == obs.shape
  for task in env.tasks:
    assert env.reward(task).shape == (2,)


def test_states_round_trip():
  env = bfm.Env("quadruped", num_envs=3)
  env.step(np.full((3, 12), 0.5))
  qpos, qvel, act = env.state()
  assert qpos.shape == (3, 23) and qvel.shape == (3, 22) and act.shape == (3, 12)
  other = bfm.Env("quadruped", num_envs=3, seed=5)
  other.set_state(qpos, qvel, act)
  for ours, theirs in zip(other.state(), (qpos, qvel, act)):
    np.testing.assert_array_equal(ours, theirs)
  other.set_state(qpos)
  assert (other.state()[1] == 0).all() and (other.state()[2] == 0).all()


def test_seeds_and_threads():
  first, same, other = (bfm.Env("humanoid", 3, seed=seed, threads=threads)
                        for seed, threads in ((1, 1), (1, 2), (2, 1)))
  np.testing.assert_array_equal(first.obs(), same.obs())
  assert (first.obs() != other.obs()).any()
  assert (first.obs()[0] != first.obs()[1]).any()


def test_reset_takes_a_mask_of_environments():
  env = bfm.Env("walker", 4)
  before = env.obs()
  changed = (env.reset(which=[256, 0.5, 0, False]) != before).any(1)
  assert list(changed) == [True, True, False, False]


def test_a_seed_repeats_episodes():
  env = bfm.Env("walker", 2, seed=4)
  start, second = env.obs(), env.reset()
  assert (start != second).any()
  np.testing.assert_array_equal(env.reset(seed=4), start)
  np.testing.assert_array_equal(env.reset(), second)
  env.close()
  with pytest.raises(bfm.ArgumentError, match="closed"):
    env.reset()


def test_rewards_of_stored_states_equal_those_of_the_environment():
  env = bfm.Env("walker", num_envs=50)
  qpos, qvel, _ = env.state()
  env.set_state(qpos, qvel)
  for task in (*env.tasks, "torso.z > 1.2", "speed + height"):
    stored = bfm.rewards("walker", task, qpos, qvel)
    np.testing.assert_allclose(stored, env.reward(task), atol=1e-12)


def test_names():
  env = bfm.Env("walker")
  assert {"speed", "upright"} <= set(env.names)
  assert any(name.startswith("torso") for name in env.names)


def test_errors():
  with pytest.raises(bfm.ArgumentError, match="did you mean 'walker'"):
    bfm.Env("wlaker")
  env = bfm.Env("walker", 2)
  with pytest.raises(bfm.ArgumentError, match="action has shape"):
    env.step(np.zeros((2, 5)))
  with pytest.raises(bfm.ArgumentError, match="nan"):
    env.step(np.full((2, 6), np.nan))
  with pytest.raises(bfm.ArgumentError, match="qpos"):
    env.set_state(np.zeros((2, 8)))
  with pytest.raises(bfm.ArgumentError):
    env.reward("torso.z >")
  with pytest.raises(bfm.ArgumentError, match="qvel"):
    bfm.rewards("walker", "run", np.zeros((4, 9)), np.zeros((3, 9)))
  with pytest.raises(bfm.ArgumentError, match="steps"):
    bfm.rewards("hopper", "run", np.zeros((4, 6)))


def test_partial_reset():
  env = bfm.Env("cheetah", 3)
  env.step(np.ones((3, 6)))
  before = env.obs()
  after = env.reset([False, True, False])
  np.testing.assert_array_equal(before[[0, 2]], after[[0, 2]])
  assert (before[1] != after[1]).any()


def test_a_child_of_fork_does_not_free_its_parents_objects():
  env = bfm.Env("point_mass", num_envs=4, threads=2)
  agent = bfm.Agent(4, 2, algo="fb", d=8, preset="small", batch=8, device="cpu", threads=2)
  child = os.fork()
  if not child:
    signal.alarm(10)
    del env, agent
    os._exit(0)
  assert os.waitpid(child, 0)[1] == 0
  assert env.step(np.zeros((4, 2))).shape == (4, 4) and agent.d == 8


def test_views_name_missing_packages(monkeypatch):
  env = bfm.Env("hopper", 2)
  for name in ("gymnasium", "dm_env", "dm_env.specs"):
    monkeypatch.setitem(sys.modules, name, None)
  for view, need in [(lambda: env.vector("run"), "gymnasium"), (lambda: env.action_space, "gymnasium"),
                     (lambda: env.dm_env("run"), "dm_env"), (env.action_spec, "dm_env")]:
    with pytest.raises(bfm.ArgumentError, match=need):
      view()


def test_pictures(tmp_path):
  from bfm.env import pictures
  qpos = bfm.Env("cheetah", 3).state()[0]
  try:
    pictures("cheetah", qpos, tmp_path / "strip.png", columns=2, width=64, height=48)
  except bfm.Error as error:
    pytest.skip(str(error))  # OSMesa is not installed
  data = (tmp_path / "strip.png").read_bytes()
  assert data[:8] == b"\x89PNG\r\n\x1a\n"
  assert (int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")) == (128, 96)
  with pytest.raises(bfm.ArgumentError, match="pixels"):
    pictures("cheetah", qpos, tmp_path / "no.png", width=5)
  with pytest.raises(bfm.Error):
    pictures("cheetah", qpos, tmp_path / "no" / "folder.png")
  qpos[2, 1] = np.nan
  with pytest.raises(bfm.ArgumentError, match=r"qpos\[2\]\[1\] is nan"):
    pictures("cheetah", qpos, tmp_path / "no.png")
  assert not (tmp_path / "no.png").exists()
