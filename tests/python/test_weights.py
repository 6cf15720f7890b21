"""bench/weights.py: the bias it measures against the exact one, over all batches of a tiny population."""
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import weights


@pytest.mark.parametrize("iwis", [False, True])
@pytest.mark.parametrize("N", [2, 3])
def test_bias_of_a_population_that_can_be_enumerated(iwis, N):
  rng = np.random.default_rng(0)
  P, act, H = 5, 2, 3
  dx, h = rng.standard_normal((P, act)), rng.standard_normal((P, H))
  e = np.exp(rng.standard_normal(P))
  target = weights.population_gradient(dx, h, e)
  assert np.allclose(target, sum(e[j] * np.outer(dx[j], h[j]) for j in range(P)) / e.sum())
  batches = np.array(list(itertools.product(range(P), repeat=N)))
  w = weights.batch_weights(e[batches], iwis)
  assert np.allclose(w.sum(1), 1)
  exact = np.mean([(dx[rows] * own[:, None]).T @ h[rows] for rows, own in zip(batches, w)], 0) - target
  blocks = weights.bias_of_blocks(dx, h, e, N, iwis, 320_000, rng)
  found, spread = blocks.mean(0), blocks.std(0) / np.sqrt(len(blocks))
  assert np.all(np.abs(found - exact.ravel()) < 5 * spread) and np.all(spread < 0.02 * np.abs(exact).max())
  square, sample = weights.squared_norm(blocks, rng)
  low, high = np.percentile(sample, [0.1, 99.9])
  assert low < (exact ** 2).sum() < high and abs(square / (exact ** 2).sum() - 1) < 0.05


def test_noise_adds_nothing_to_the_norm_of_a_bias():
  rng = np.random.default_rng(1)
  square, sample = weights.squared_norm(rng.standard_normal((32, 500)), rng)
  low, high = np.percentile(sample, [2.5, 97.5])
  assert low < 0 < high and abs(square) < 0.2 * 500 / 32
