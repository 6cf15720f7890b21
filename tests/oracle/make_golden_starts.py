"""Writes tests/golden/jaco_starts.npz: initial states of jaco in dm_control, for the two-sample test in
tests/python/test_jaco_starts.py.

usage: PYTHONPATH=python python tests/oracle/make_golden_starts.py
"""
from pathlib import Path

import numpy as np
from dm_control import manipulation

STARTS = 2000


def main():
  env = manipulation.load("reach_site_features", seed=0)
  env._recompile_mjcf_every_episode = False  # takes long, and the model never changes
  qpos = np.empty((STARTS, 9), "f4")
  for row in qpos:
    env.reset()
    row[:] = env.physics.data.qpos
  # columns, because the three fingers are equal and compress well that way
  np.savez_compressed(Path(__file__).parents[1] / "golden" / "jaco_starts.npz", qpos=qpos.T)


if __name__ == "__main__":
  main()
