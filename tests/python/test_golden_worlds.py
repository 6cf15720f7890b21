"""Environments against committed results of their originals: observations, rewards, a short rollout.
tests/oracle compares many more, live; tests/oracle/make_golden_worlds.py writes the file."""
import os
from pathlib import Path

import numpy as np
import pytest

import bfm

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "worlds.npz")
MODELS = Path(os.environ.get("BFM_MODELS") or Path(__file__).parents[2] / ".deps" / "models")
FOLDERS = {"kitchen": "kitchen", "hand": "robotics"}  # which might not be installed
FILES = [name for name in GOLDEN.files
         if (MODELS / FOLDERS.get(name.split("/")[0], "")).exists()]
DOMAINS = sorted({name.split("/")[0] for name in FILES})
REWARDS = [tuple(name.split("/reward/")) for name in FILES if "/reward/" in name]


def states(domain):
  return [GOLDEN[f"{domain}/{part}"] for part in ("qpos", "qvel", "act")]


@pytest.mark.parametrize("domain", DOMAINS)
def test_observations(domain):
  expected = GOLDEN[f"{domain}/obs"]
  env = bfm.Env(domain, num_envs=len(expected))
  env.set_state(*states(domain))
  np.testing.assert_allclose(env.obs(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("domain, task", REWARDS)
def test_rewards(domain, task):
  expected = GOLDEN[f"{domain}/reward/{task}"]
  env = bfm.Env(domain, num_envs=len(expected))
  env.set_state(*states(domain))
  np.testing.assert_allclose(env.reward(task), expected, rtol=1e-6, atol=1e-6)
  np.testing.assert_allclose(bfm.rewards(domain, task, *states(domain)), expected, rtol=1e-6,
                             atol=1e-6)


@pytest.mark.parametrize("domain", DOMAINS)
def test_rollout(domain):
  env = bfm.Env(domain, num_envs=1)
  env.set_state(*(x[:1] for x in states(domain)))
  got = [env.step(action[None])[0] for action in GOLDEN[f"{domain}/actions"]]
  np.testing.assert_allclose(got, GOLDEN[f"{domain}/rollout"], rtol=1e-5, atol=1e-5)
