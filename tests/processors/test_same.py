"""The program built for another processor, in an emulator, does what this machine's does.

make test-cross sets BFM, this machine's program, and BFM_OTHER, the command of the other.
"""
import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = [os.environ.get("BFM", str(ROOT / "build/bfm"))]
OTHER = os.environ["BFM_OTHER"].split()


def call(command, *words):
  process = subprocess.run([*command, *map(str, words)], capture_output=True, text=True, cwd=ROOT,
                           timeout=120)
  assert process.returncode == 0, process.stderr
  return process.stdout


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  """The shipped walker with few prompt states: an emulator is slow."""
  path = tmp_path_factory.mktemp("model") / "walker.safetensors"
  call(HERE, "export", "models/walker.safetensors", "--prompt-states", 100, "-o", path)
  return path


def test_version():
  assert call(OTHER, "--version") == call(HERE, "--version")


def test_prompts(model):
  ours, other = (json.loads(call(bfm, "prompt", model, "--task", "run", "--json"))
                 for bfm in (HERE, OTHER))
  assert ours["fingerprint"] == other["fingerprint"]
  assert max(abs(a - b) for a, b in zip(ours["z"], other["z"], strict=True)) < 1e-5


def test_episodes(model):
  """Short ones: differences of rounding grow along an episode."""
  words = ["eval", model, "--tasks", "stand", "--episodes", 2, "--steps", 20, "--threads", 1, "--json"]
  ours, other = (json.loads(call(bfm, *words)) for bfm in (HERE, OTHER))
  assert ours["mean"] > 1
  assert other["returns"] == pytest.approx(ours["returns"], rel=1e-5)
