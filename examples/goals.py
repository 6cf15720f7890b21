"""Tell a point mass where to go, and see how near it comes: goals.py MODEL [control steps]."""
import sys

import bfm
import numpy as np

SHOWN, NEAR = 6, 0.05  # goals in the table; m

if len(sys.argv) < 2:
  sys.exit(__doc__)
model = bfm.load(sys.argv[1], threads=1)
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 500
goals = np.random.default_rng(0).uniform(-0.2, 0.2, (64, 2))
zs = [model.prompt(goal=f"x = {x:.3f}, y = {y:.3f}") for x, y in goals]

env = bfm.Env("point_mass", num_envs=len(goals))
obs = env.reset()
start = np.linalg.norm(obs[:, :2] - goals, axis=1)
for _ in range(steps):
  obs = env.step(model.act(obs, zs))
end = np.linalg.norm(obs[:, :2] - goals, axis=1)

print("goal, m            at the start    at the end")
for (x, y), before, after in list(zip(goals, start, end))[:SHOWN]:
  print(f"({x:5.2f}, {y:5.2f})   {100 * before:11.1f} cm {100 * after:10.1f} cm")
print(f"of {len(goals)} goals {np.sum(start < NEAR)} were nearer than {100 * NEAR:.0f} cm at the "
      f"start, and {np.sum(end < NEAR)} are after {steps * env.control_dt:.0f} s")
