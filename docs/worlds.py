"""Draws docs/worlds.png: every built-in robot once, in the order of bfm tasks, four to a row.

usage: PYTHONPATH=python .venv/bin/python docs/worlds.py
"""
import pathlib
import subprocess
import tempfile

import numpy as np

import bfm
from bfm.env import domains

WIDTH, HEIGHT, COLUMNS = 240, 180, 4
HERE = pathlib.Path(__file__).parent

# the joints of a posture, or a seed and the control steps with random actions since the start
STATES = {
    "walker": [0, 0, 0, -0.3, 0, 0, 0.5, -0.5, 0],
    "cheetah": [0] * 9,
    "quadruped": (1, 60),
    "humanoid": [0, 0, 1.24, 0.92, 0, 0, 0.38] + [0] * 21,
    "jaco": (0, 0),
    "point_mass": (0, 0),
    "fish": [0, 0, 0.1, 0.97, 0, 0, 0.24, 0.3, 0, 0.5, 0.4, 0, -0.4, 0],
    "finger": (1, 0),
    "acrobot": [0.5, -0.9],
    "dmc_hopper": [0, -0.2, 0, -0.2, -0.6, 1, -0.2],
    "halfcheetah": (0, 12),
    "hopper": [0, 1.2, 0, -0.2, -0.4, 0.6],
    "walker2d": [0, 1.17, 0.05, -0.05, -0.4, 0.4, -0.7, -0.1, 0.75],
    "ant": (0, 20),
    "kitchen": (0, 0),
    "hand": (0, 3),
}


def state(domain, chosen):
  if isinstance(chosen, list):
    return np.array(chosen, float)
  seed, steps = chosen
  env, rng = bfm.Env(domain, 1, seed=seed), np.random.default_rng(seed)
  for _ in range(steps):
    env.step(rng.uniform(-1, 1, (1, env.act_dim)))
  return env.state()[0][0]


def main():
  assert list(STATES) == list(domains()), "a robot is missing"
  with tempfile.TemporaryDirectory() as folder:
    for i, (domain, chosen) in enumerate(STATES.items()):
      bfm.pictures(domain, state(domain, chosen), f"{folder}/{i:02}.png", 1, WIDTH, HEIGHT)
    rows = -(-len(STATES) // COLUMNS)
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", f"{folder}/%02d.png", "-vf",
                    f"tile={COLUMNS}x{rows}", "-frames:v", "1", HERE / "worlds.png"], check=True)


if __name__ == "__main__":
  main()
