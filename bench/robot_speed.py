"""Compare the simulation of another checkout of bfm with that of this one.

    git worktree add ../old 1e62e70 && make -C ../old     # the last commit with robots in C
    python3 bench/robot_speed.py ../old [TURNS]

Both checkouts simulate the same robots with the same actions, in short turns one after the other, on one
thread each. The table shows control steps per CPU second, the median over the turns of the ratio of both, and
whether the observations at the end are the same bits.
"""
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROBOTS = {"walker": 200, "humanoid": 100, "quadruped": 150, "cheetah": 1500}  # control steps of 64 environments

TURN = """
import hashlib, json, sys, time
import numpy as np
import bfm
env = bfm.Env(sys.argv[1], num_envs=64, seed=1, threads=1)
actions = np.random.default_rng(0).uniform(-1, 1, (16, 64, env.act_dim))
env.reset()
for t in range(10):
  env.step(actions[t % 16])
steps = int(sys.argv[2])
begin = time.process_time()
for t in range(steps):
  obs = env.step(actions[t % 16])
seconds = time.process_time() - begin
print(json.dumps({"rate": 64 * steps / seconds, "bits": hashlib.sha256(obs.tobytes()).hexdigest()}))
"""


def turn(checkout, robot):
  environment = {**os.environ, "PYTHONPATH": str(checkout / "python")}
  environment.pop("BFM_LIBRARY", None)
  process = subprocess.run([sys.executable, "-c", TURN, robot, str(ROBOTS[robot])], env=environment,
                           capture_output=True, text=True, check=True)
  return json.loads(process.stdout)


def main(old, turns=15):
  print("| robot | old, steps/s | new, steps/s | new / old | same bits |\n|---|---|---|---|---|")
  for robot in ROBOTS:
    pairs = []
    for k in range(int(turns)):  # who begins changes from turn to turn
      order = (old, ROOT) if k % 2 else (ROOT, old)
      results = {checkout: turn(checkout, robot) for checkout in order}
      pairs.append((results[old], results[ROOT]))
    rates = [statistics.median(pair[i]["rate"] for pair in pairs) for i in (0, 1)]
    ratio = statistics.median(new["rate"] / before["rate"] for before, new in pairs)
    same = all(before["bits"] == new["bits"] for before, new in pairs)
    print(f"| {robot} | {rates[0]:,.0f} | {rates[1]:,.0f} | {ratio:.3f} | {'yes' if same else 'no'} |", flush=True)


if __name__ == "__main__":
  main(Path(sys.argv[1]).resolve(), *sys.argv[2:])
