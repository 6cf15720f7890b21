"""The statistics of bfm paper show against rliable, the package of their authors, on the same scores.

Point estimates agree to 1e-12. Both intervals are percentiles of random resamples, so the lower end of
ours must lie between rliable's percentiles at 2.5% less and plus 5 standard errors, and likewise the
upper end at 97.5%. The share of B resamples below a percentile p has the standard error
sqrt(p (1 - p) / B), whatever the distribution; with 50,000 resamples on both sides, 5 standard errors of
the difference are 0.5%.
"""
import ctypes
import json
import math
import os
import subprocess

import numpy as np
import pytest
from conftest import ROOT
from rliable import library, metrics

RESAMPLES = 50000  # rliable's default


class Scores(ctypes.Structure):
  _fields_ = [("seeds", ctypes.c_int), ("tasks", ctypes.c_int),
              ("scores", ctypes.POINTER(ctypes.c_double))]

  def __init__(self, scores):
    self.array = np.ascontiguousarray(scores, np.float64)
    super().__init__(*scores.shape, self.array.ctypes.data_as(ctypes.POINTER(ctypes.c_double)))


class Interval(ctypes.Structure):
  _fields_ = [("mean", ctypes.c_double), ("low", ctypes.c_double), ("high", ctypes.c_double)]


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
  """A function that calls one of src/paper/statistics.c by name; the library does not contain them."""
  path = tmp_path_factory.mktemp("statistics") / "statistics.so"
  subprocess.run(["cc", "-std=gnu11", "-O2", "-shared", "-fPIC", "-Iinclude", "-Isrc", "-o", path,
                  "src/paper/statistics.c", "src/core/status.c", "-lm"], check=True, cwd=ROOT)
  compiled = ctypes.CDLL(str(path))

  def call(name, *matrices):
    interval = Interval()
    scores = [Scores(x) for x in matrices]
    assert not getattr(compiled, name)(*map(ctypes.byref, scores), RESAMPLES, ctypes.byref(interval))
    return interval.mean, interval.low, interval.high

  return call


# ---------------------------------- rliable ------------------------------------------------------


def quick_iqm(scores):
  values = np.sort(scores, axis=None)
  return values[len(values) // 4:len(values) - len(values) // 4].mean()


def quick_improvement(x, y):
  pairs = x[:, None], y[None]
  return (np.greater(*pairs) + 0.5 * np.equal(*pairs)).mean()


# rliable's statistics take a millisecond a resample, so the bootstrap calls these; they are compared, too
QUICK = {metrics.aggregate_iqm: quick_iqm, metrics.probability_of_improvement: quick_improvement}


def bootstrap(statistic, *matrices):
  """rliable's point estimate, and the statistic of each of its resamples."""
  values = []

  def of_resample(*resample):
    values.append(QUICK[statistic](*resample))
    if len(values) <= 50:
      assert values[-1] == pytest.approx(statistic(*resample), rel=1e-12)
    return np.array([values[-1]])

  np.random.seed(1)  # rliable draws from the global state
  scores = matrices[0] if len(matrices) == 1 else list(matrices)
  points, intervals = library.get_interval_estimates({"x": scores}, of_resample, reps=RESAMPLES)
  resampled = np.array(values[-RESAMPLES:])
  assert intervals["x"][:, 0] == pytest.approx(np.percentile(resampled, [2.5, 97.5]), rel=1e-12)
  assert points["x"][0] == pytest.approx(statistic(*matrices), rel=1e-12)
  return statistic(*matrices), resampled


def check(own, reference, own_resamples):
  mean, *ends = own
  point, resampled = reference
  assert mean == pytest.approx(point, rel=1e-12, abs=1e-12)
  for end, share in zip(ends, (0.025, 0.975)):
    error = 5 * math.sqrt(share * (1 - share) * (1 / own_resamples + 1 / RESAMPLES))
    low, high = np.quantile(resampled, [max(share - error, 0), min(share + error, 1)])
    assert low - 1e-9 <= end <= high + 1e-9, (end, low, high)


def draw_scores(seed, *shapes, whole=False):
  """Scores of several methods on the same tasks, which differ in mean and spread; whole: with ties."""
  rng = np.random.default_rng(seed)
  mean, spread = rng.uniform(100, 900, shapes[0][1]), rng.uniform(5, 150, shapes[0][1])
  if whole:
    mean, spread = 5, 2
  scores = [mean + spread * (rng.normal(size=shape) + 0.4 * i) for i, shape in enumerate(shapes)]
  return [np.round(x) for x in scores] if whole else scores


# ---------------------------------- tests --------------------------------------------------------


@pytest.mark.parametrize("seeds, tasks, whole", [
    (5, 8, False), (2, 8, False), (3, 5, True), (10, 1, False)])
def test_interquartile_mean(ours, seeds, tasks, whole):
  scores, = draw_scores(seeds, (seeds, tasks), whole=whole)
  check(ours("interquartile_mean", scores), bootstrap(metrics.aggregate_iqm, scores), RESAMPLES)


@pytest.mark.parametrize("x, y, tasks, whole", [(5, 5, 8, False), (2, 3, 6, False), (6, 3, 4, True)])
def test_probability_of_improvement(ours, x, y, tasks, whole):
  scores = draw_scores(x, (x, tasks), (y, tasks), whole=whole)
  check(ours("improvement_probability", *scores),
        bootstrap(metrics.probability_of_improvement, *scores), RESAMPLES)


@pytest.mark.parametrize("tasks", range(1, 9))
def test_point_estimates_of_many_shapes(ours, tasks):
  for seeds in range(1, 8):
    x, y = draw_scores(seeds, (seeds, tasks), (8 - seeds, tasks), whole=seeds % 2 == 0)
    for scores in (x, y):
      expected = metrics.aggregate_iqm(scores)
      assert ours("interquartile_mean", scores)[0] == pytest.approx(expected, rel=1e-12)
    assert ours("improvement_probability", x, y)[0] == pytest.approx(
        metrics.probability_of_improvement(x, y), rel=1e-12, abs=1e-12)


def test_the_table_of_a_ledger(tmp_path):
  """bfm paper show, from the lines of the ledger to its output."""
  tasks = "stand walk run spin flip march skyreach pullup".split()
  scores = dict(zip(("fb", "fb-aw"), draw_scores(0, (3, 8), (5, 8))))
  with open(tmp_path / "ledger.jsonl", "w") as file:
    for algo, matrix in scores.items():
      for seed, returns in enumerate(matrix):
        line = {"run": f"walker mood algo={algo} d=64", "more": "", "seed": seed, "steps": 1000,
                "es": 32 if algo == "fb-aw" else 0, "episodes": 10, "precision": "f32",
                "data": {"checksum": 1}, "config": {"algo": algo, "d": 64},
                "returns": dict(zip(tasks, returns))}
        file.write(json.dumps(line) + "\n")
  (tmp_path / "paper").symlink_to(ROOT / "results" / "paper")
  program = os.environ.get("BFM", ROOT / "build" / "bfm")
  text = subprocess.run([program, "paper", "show", "mood", "--json", "--results", tmp_path], check=True,
                        capture_output=True, text=True).stdout
  shown = {(x["method"], x["task"]): x for x in map(json.loads, text.splitlines()) if "iqm" in x}
  assert len(shown) == 6
  item = shown["FB-AW", "new"]
  for name, statistic, matrices in (
      ("iqm", metrics.aggregate_iqm, [scores["fb-aw"][:, 4:]]),
      ("improvement", metrics.probability_of_improvement, [scores["fb-aw"][:, 4:], scores["fb"][:, 4:]])):
    own = [item[name + end] for end in ("", "_low", "_high")]
    check(own, bootstrap(statistic, *matrices), own_resamples=2000)
