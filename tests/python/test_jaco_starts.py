"""Initial states of jaco against dm_control's, as distributions: two-sample Kolmogorov-Smirnov tests.
tests/oracle/make_golden_starts.py writes the file."""
import functools
from pathlib import Path

import numpy as np

import bfm

GOLDEN = Path(__file__).parents[1] / "golden" / "jaco_starts.npz"
STARTS, PROJECTIONS = 4000, 20
COLUMNS = 10 + PROJECTIONS
LEVEL = 0.01 / COLUMNS  # of each column's test, so that all pass by chance in 99 of 100 cases
TCP = slice(30, 33)     # of the observation
BOX = np.array([[-0.2, -0.2, 0.02], [0.2, 0.2, 0.4]])


@functools.cache
def ours():
  """States, and their tool centre points."""
  env = bfm.Env("jaco", STARTS, seed=1, threads=1)
  return env.state()[0], env.obs()[:, TCP]


@functools.cache
def theirs():
  qpos = np.load(GOLDEN)["qpos"].T.astype(float)
  env = bfm.Env("jaco", len(qpos), threads=1)
  env.set_state(qpos)
  return qpos, env.obs()[:, TCP]


def columns(qpos, tcp):
  """Tool centre point, angles and grasp; then random projections of them all, because two coordinates
  may depend on each other in another way although each has the right distribution."""
  angles = np.where(qpos[:, :6] > 2 * np.pi - 1e-5, 0, qpos[:, :6])  # rounding turns 0 into 2 pi
  parts = np.concatenate([tcp / 0.1, np.sin(angles), np.cos(angles), qpos[:, 6:7]], axis=1)
  directions = np.random.default_rng(0).standard_normal((parts.shape[1], PROJECTIONS))
  return np.concatenate([tcp, angles, qpos[:, 6:7], parts @ directions], axis=1)


def ks(a, b):
  """The p-value of the two-sample Kolmogorov-Smirnov test, by the asymptotic series."""
  values = np.concatenate([a, b])
  below = [np.searchsorted(np.sort(x), values, side="right") / len(x) for x in (a, b)]
  n = len(a) * len(b) / (len(a) + len(b))
  x = (np.sqrt(n) + 0.12 + 0.11 / np.sqrt(n)) * np.abs(below[0] - below[1]).max()
  if x < 0.2:  # p is 1, and the series converges slowly
    return 1.0
  k = np.arange(1, 101)
  return float(np.clip(2 * np.sum((-1.0)**(k - 1) * np.exp(-2 * (k * x)**2)), 0, 1))


def p_values(sample):
  p = np.array([ks(x, y) for x, y in zip(columns(*sample).T, columns(*theirs()).T)])
  assert len(p) == COLUMNS
  return p


def fills(tcp, box=BOX):
  """Whether the places lie in the box and come near to each of its sides. Of 2000 uniform places, none
  lies in a hundredth of the box with probability 2e-9."""
  size = box[1] - box[0]
  below, above = (tcp.min(axis=0) - box[0]) / size, (box[1] - tcp.max(axis=0)) / size
  return bool((np.minimum(below, above) > -1e-4).all() and (np.maximum(below, above) < 0.01).all())


def test_starts_have_dm_controls_distribution():
  """That starts do not collide cannot be seen here: in this box, arms that point down never do."""
  p = p_values(ours())
  print(f"smallest p {p.min():.3g}; tool centre point, angles, grasp {p[:10].round(3)}")
  assert p.min() > LEVEL, p
  for _, tcp in (ours(), theirs()):
    assert fills(tcp)


def test_the_test_can_fail():
  qpos, tcp = ours()
  old_box = (np.abs(tcp[:, :2]) < 0.1).all(axis=1) & (tcp[:, 2] > 0.2)
  assert (p_values((qpos[old_box], tcp[old_box]))[:3] < 1e-6).all()

  # a box that is a tenth smaller
  middle, half = BOX.mean(axis=0), (BOX[1] - BOX[0]) / 2
  inner = (np.abs(tcp - middle) < 0.9 * half).all(axis=1)
  assert not fills(tcp[inner]) and fills(tcp[inner], middle + 0.9 * np.array([-half, half]))

  # one in four of the arms bent to one side is missing
  kept = (qpos[:, 1] > np.pi) | (np.arange(STARTS) % 4 > 0)
  assert (p_values((qpos[kept], tcp[kept]))[3:9] < LEVEL).any()

  # the same grasps, but sorted by height: only the projections see it
  coupled = qpos.copy()
  coupled[np.argsort(tcp[:, 2]), 6:] = np.sort(qpos[:, 6])[:, None]
  p = p_values((coupled, tcp))
  assert (p[:10] > LEVEL).all() and (p[10:] < LEVEL).any()
