"""The program under test ($BFM, or the checkout's build), small datasets and models of them."""
import os
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
BFM = os.environ.get("BFM", str(ROOT / "build" / "bfm"))

# the smallest agent that is still one
HERE = ["--device", "cpu", "--threads", "1"]
TINY = [*HERE, "--d", "8", "--blocks", "2", "--batch", "16", "--hidden", "16", "--feat", "8",
        "--b-hidden", "16", "--z-pool", "4"]


def run(*arguments, **options):
  """The finished process; its output as text."""
  return subprocess.run([BFM, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                        **options)


def refused(*arguments, **options):
  """The one sentence of a refusal, without its "bfm: "."""
  process = run(*arguments, **options)
  assert process.returncode not in (0, 134, 139) and process.returncode > 0, process
  assert process.stderr.startswith("bfm"), process.stderr
  return process.stderr


def write_dataset(path, rows=200, obs=5, act=2, env="walker", **tables):
  rng = np.random.default_rng(rows)
  table = {
      "observations": rng.standard_normal((rows, obs)).astype("f4"),
      "actions": rng.uniform(-1, 1, (rows, act)).astype("f4"),
      "next_observations": rng.standard_normal((rows, obs)).astype("f4"),
      "rewards": np.zeros(rows, "f4"),
      "terminals": np.zeros(rows, bool),
      "timeouts": np.arange(rows) % 50 == 49,
      **tables,
  }
  with h5py.File(path, "w") as file:
    for name, values in table.items():
      if values is not None:
        file[name] = values
    file.attrs["env"] = env
  return path


@pytest.fixture
def data(tmp_path):
  return write_dataset(tmp_path / "data.h5")


def train_point_mass(folder, *flags, rows=1000, steps=5):
  """The run of a tiny agent on a dataset of point_mass, data.h5, both in the folder."""
  assert run("collect", "point_mass", "--steps", rows, "-o", folder / "data.h5").returncode == 0
  process = run("train", folder / "data.h5", *TINY, *flags, "--steps", steps, "-o", folder / "run")
  assert process.returncode == 0, process.stderr
  return folder / "run"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
  """Two models of point_mass, of two seeds."""
  folder = train_point_mass(tmp_path_factory.mktemp("point_mass"), "--seeds", 2)
  return [folder / f"model.{seed}.safetensors" for seed in range(2)]
