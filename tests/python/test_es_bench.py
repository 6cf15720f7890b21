"""bench/es.py: its statistics on values that are known, and its rollouts against a loop over one state."""
import sys
from pathlib import Path

import numpy as np

import bfm

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import es


def test_statistics_of_actions():
  values = np.array([[1.0, 2, 3, 4], [4, 3, 2, 1]])
  assert np.allclose(es.spearman(values, np.array([[1, 10, 100, 1000.0]] * 2)), [1, -1])
  assert np.allclose(es.spearman(np.array([[1.0, 2, 3, 4]]), np.array([[2.0, 1, 4, 3]])), 0.6)
  rng = np.random.default_rng(0)
  actions = rng.uniform(-1, 1, (2, 200, 3))
  linear = actions[0] @ [1.0, 2, 3] + 5
  found = es.linear_share(np.stack([linear, rng.standard_normal(200)]), actions)
  assert found[0] > 0.999 and abs(found[1]) < 0.1


def test_choices_by_members_values():
  q = np.array([[[0.0, 5, 1, 2]], [[0.0, -2, 1, 1.5]]])  # two members, a state, the mean and 3 samples
  assert {base: int(k[0]) for base, k in es.judge(q).items()} == {"mean": 3, "min": 3, "gain": 3}
  q = np.array([[[3.0, 9, 2, 1]], [[3.0, -1, 2, 1]]])
  assert {base: int(k[0]) for base, k in es.judge(q).items()} == {"mean": 1, "min": 2, "gain": 0}


def test_the_truth_is_the_discounted_reward_of_a_rollout():
  model = bfm.Agent(4, 2, algo="fb", d=8, batch=16, hidden=16, feat=8, b_hidden=16, device="cpu")
  z, gamma, rng = np.ones(8, np.float32), 0.9, np.random.default_rng(0)
  qpos, qvel = 0.1 * rng.standard_normal((3, 2)), rng.standard_normal((3, 2))
  first = rng.uniform(-1, 1, (3, 2))
  env = bfm.Env("point_mass", num_envs=3)
  env.set_state(qpos, qvel)
  value, plain = es.play(env, model, z, "x", 6, gamma, first)
  for i in range(3):
    one = bfm.Env("point_mass")
    one.set_state(qpos[i:i + 1], qvel[i:i + 1])
    obs, act, rewards = one.obs(), first[i:i + 1], []
    for step in range(6):
      obs = one.step(act)
      rewards.append(one.reward("x")[0])
      act = model.act(obs, z)
    assert np.allclose(plain[i], sum(rewards), atol=1e-6)
    assert np.allclose(value[i], sum(gamma ** t * r for t, r in enumerate(rewards)), atol=1e-6)
