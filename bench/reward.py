"""Rewards of 100,000 states: bfm.rewards and dm_control, in the same run, in alternation.

dm_control is timed on a part of the states (its cost is per state), written as a user would: set the
state, forward, get the task's reward.
"""
import json
import sys
import time

import numpy as np
from dm_control import suite

import bfm

STATES, PART, TURNS = 100_000, 1000, 5
TASKS = [("walker", "run"), ("humanoid", "run"), ("quadruped", "run"), ("cheetah", "run")]


def states(env, count):
  """States near reached ones; the cost of a reward hardly depends on the state."""
  rng, rows = np.random.RandomState(0), []
  spec = env.action_spec()
  env.reset()
  for _ in range(50):
    env.step(rng.uniform(spec.minimum, spec.maximum))
    data = env.physics.data
    rows.append((data.qpos.copy(), data.qvel.copy(), np.array(data.act)))
  picked = rng.randint(len(rows), size=count)
  return [np.array(x)[picked] for x in zip(*rows)]


def dm_control_rewards(env, qpos, qvel, act):
  rewards, physics = [], env.physics
  for i in range(len(qpos)):
    with physics.reset_context():
      physics.data.qpos[:] = qpos[i]
      physics.data.qvel[:] = qvel[i]
      if physics.model.na:
        physics.data.act[:] = act[i]
    rewards.append(env.task.get_reward(physics))
  return np.array(rewards)


def seconds(function, *arguments):
  start = time.perf_counter()
  result = function(*arguments)
  return time.perf_counter() - start, result


def main():
  as_json = "--json" in sys.argv[1:]
  if not as_json:
    print(f"{'rewards':<18}{'bfm':>10}{'dm_control':>14}{'ratio':>10}   100,000 states")
  for domain, task in TASKS:
    env = suite.load(domain, task, task_kwargs={"random": 0})
    rows = states(env, STATES)
    part = [x[:PART] for x in rows]
    ours, theirs = [], []
    for _ in range(TURNS):
      took, got = seconds(bfm.rewards, domain, task, *rows)
      ours.append(took)
      took, expected = seconds(dm_control_rewards, env, *part)
      theirs.append(took * STATES / PART)
    np.testing.assert_allclose(got[:PART], expected, rtol=1e-9, atol=1e-9)
    a, b = min(ours), min(theirs)
    if as_json:
      print(json.dumps({"bench": "reward", "domain": domain, "task": task, "states": STATES,
                        "seconds": a, "dm_control": b, "ratio": b / a}))
    else:
      print(f"{domain + ' ' + task:<18}{a:>8.3f} s{b:>12.2f} s{b / a:>9.0f}x", flush=True)


if __name__ == "__main__":
  main()
