"""Writes tests/golden/worlds.npz: results of dm_control, and of gymnasium-robotics for the kitchen and the hand,
for a few states and a short rollout of each domain, so that `make test` can compare without these packages.

usage: PYTHONPATH=python python tests/oracle/make_golden_worlds.py
"""
from pathlib import Path

import numpy as np
import test_envs
import test_hand
import test_kitchen
import test_tasks

STATES, STEPS = 12, 20


def main():
  out = {}
  for domain in test_envs.DOMAINS:
    env, rng = test_envs.oracle(domain), np.random.RandomState(5)
    qpos, qvel, act = (x[::len(x) // STATES][:STATES] for x in test_envs.reached_states(domain, 240))
    observations = []
    for row in zip(qpos, qvel, act):
      test_envs.put_state(env, *row)
      observations.append(test_envs.observe(env))
    ours, theirs = test_envs.random_actions(env, rng, STEPS)
    env.reset()
    test_envs.put_state(env, qpos[0], qvel[0], act[0])
    rollout = [test_envs.flat(env.step(a).observation) for a in theirs]
    out |= {f"{domain}/qpos": qpos, f"{domain}/qvel": qvel, f"{domain}/act": act,
            f"{domain}/obs": np.array(observations), f"{domain}/actions": ours,
            f"{domain}/rollout": np.array(rollout)}
  for domain, task in test_tasks.SUITE_TASKS:
    env, rewards = test_tasks.oracle(domain, task), []
    for row in zip(*(out[f"{domain}/{x}"] for x in ("qpos", "qvel", "act"))):
      test_envs.put_state(env, *row)
      rewards.append(test_tasks.reward(env))
    out[f"{domain}/reward/{task}"] = np.array(rewards)
  out |= {f"kitchen/{name}": values for name, values in test_kitchen.golden(STATES, STEPS).items()}
  out |= {f"hand/{name}": values for name, values in test_hand.golden(STATES, STEPS).items()}
  np.savez_compressed(Path(__file__).parents[1] / "golden" / "worlds.npz", **out)


if __name__ == "__main__":
  main()
