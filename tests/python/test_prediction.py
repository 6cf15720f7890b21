"""bfm bias against the same episodes step by step in Python, with B(s, z)ᵀz by numpy."""
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import bfm

BFM = os.environ.get("BFM", str(Path(__file__).resolve().parents[2] / "build" / "bfm"))
EPISODES = 4


def make(domain, **options):
  env = bfm.Env(domain, 60)
  rng = np.random.default_rng(0)
  for _ in range(10):
    env.step(rng.uniform(-1, 1, (60, env.act_dim)))
  agent = bfm.Agent(env.obs_dim, env.act_dim, d=8, batch=16, hidden=16, feat=8, b_hidden=16,
                    device="cpu", threads=1, **options)
  agent.set_prompt(domain, env.obs(), *env.state())
  return agent


def by_hand(model, task, steps):
  """Returns the returns [episodes] and the bias up to each step [episodes, steps]."""
  env = bfm.Env(model.env, EPISODES)
  env.set_state(*env.state())
  z = model.prompt(reward=task)
  returns, bias, over = np.zeros(EPISODES), [np.zeros(EPISODES)], np.zeros(EPISODES, bool)
  for _ in range(steps):
    obs = env.step(model.act(env.obs(), z))
    earned = np.where(over, 0, env.reward(task))
    predicted = np.where(over, 0, model.B(obs, z).astype("f8") @ z.astype("f8"))
    returns += earned
    bias.append(bias[-1] + earned - predicted)
    over |= env.ended & 1 != 0
  assert model.env != "hopper" or over.all()  # episodes that end before their time limit
  return returns, np.transpose(bias[1:])


@pytest.mark.parametrize("domain, task, options", [
    ("point_mass", "easy", {"algo": "fb-aware", "blocks": 2}),
    ("walker", "run", {"algo": "fb-aware", "blocks": 4, "goal": "0:3"}),
    ("quadruped", "stand", {"algo": "fb-aw"}),
    ("walker", "torso.zz > 0.5", {"algo": "fb", "b_norm": False}),
    ("point_mass", "x + 1", {"algo": "lap"}),
    ("hopper", "run", {"algo": "fb"}),
])
def test_bias(domain, task, options, tmp_path):
  steps = 150 if domain == "hopper" else 5
  path = tmp_path / "model.safetensors"
  make(domain, **options).save(path)
  returns, bias = by_hand(bfm.load(path, device="cpu", threads=1), task, steps)
  process = subprocess.run([BFM, "bias", path, "--tasks", task, "--episodes", str(EPISODES),
                            "--steps", str(steps), "--device", "cpu", "--threads", "1", "--json"],
                           capture_output=True, text=True, timeout=120)
  assert process.returncode == 0, process.stderr
  line = json.loads(process.stdout)
  np.testing.assert_allclose(line["returns"], returns, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(line["biases"], bias[:, -1], rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(line["curve"], bias.mean(0), rtol=1e-5, atol=1e-6)
