"""The program under test ($BFM, or the checkout's build), and small datasets and models."""
import json
import os
import signal
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

# nohup and background jobs start pytest with these signals ignored, and the program would inherit it
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
  if signal.getsignal(number) is signal.SIG_IGN:
    signal.signal(number, signal.SIG_DFL)

ROOT = Path(__file__).resolve().parents[2]
BFM = os.environ.get("BFM", str(ROOT / "build" / "bfm"))

# of a sanitized build
os.environ.setdefault("LSAN_OPTIONS", f"suppressions={ROOT}/tests/lsan.supp:print_suppressions=0")

# options of a small agent that trains in milliseconds
HERE = ["--device", "cpu", "--threads", "1"]
TINY = [*HERE, "--d", "8", "--blocks", "2", "--batch", "16", "--hidden", "16", "--feat", "8",
        "--b-hidden", "16", "--z-pool", "4"]


def run(*arguments, **options):
  """Run bfm and return the finished process, with its output as text."""
  return subprocess.run([BFM, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                        **options)


def refused(*arguments, **options):
  """Run bfm, check that it fails without a crash, and return its error message."""
  process = run(*arguments, **options)
  assert process.returncode not in (0, 134, 139) and process.returncode > 0, process
  assert process.stderr.startswith("bfm"), process.stderr
  return process.stderr


def read_ledger(results):
  """The lines of bfm paper add, then those of the processes of bfm paper run, by time."""
  files = [path for path in [results / "ledger.jsonl", *sorted(results.glob("ledger/*.jsonl"))]
           if path.exists()]
  lines = [json.loads(line) for path in files for line in path.read_text().splitlines()]
  return sorted(lines, key=lambda line: line.get("time") or "")


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
  """Collect data.h5 in the folder, train a tiny agent on it and return the folder of the run."""
  assert run("collect", "point_mass", "--steps", rows, "-o", folder / "data.h5").returncode == 0
  process = run("train", folder / "data.h5", *TINY, *flags, "--steps", steps, "-o", folder / "run")
  assert process.returncode == 0, process.stderr
  return folder / "run"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
  """Two models of point_mass with different seeds."""
  folder = train_point_mass(tmp_path_factory.mktemp("point_mass"), "--seeds", 2)
  return [folder / f"model.{seed}.safetensors" for seed in range(2)]
