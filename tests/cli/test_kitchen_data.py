"""D4RL's kitchen files in the layout of its script: each observation has a goal, infos is a column, and
there are no states and no next_observations."""
import json
import os
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import ROOT, TINY, refused, run

MODELS = Path(os.environ.get("BFM_MODELS") or ROOT / ".deps" / "models")
pytestmark = pytest.mark.skipif(not (MODELS / "kitchen").exists(), reason="the models of kitchen are missing")
OPEN = 22  # column of the microwave's door
START = [0.148, -1.768, 1.844, -2.477, 0.26, 0.713, 1.595, 0.048, 0.037, *14 * [0.0],
         -0.269, 0.35, 1.619, 1, 0, 0, 0]


def write(path, goal, layout="d4rl"):
  rng, rows = np.random.RandomState(0), 300
  obs = np.tile(np.float32([*START, *30 * [goal]]), (rows, 1))
  obs[:, :9] += rng.uniform(-0.1, 0.1, (rows, 9))
  obs[::3, OPEN] = -0.7
  tables = {"observations": obs, "actions": rng.uniform(-1, 1, (rows, 9)).astype("f4"),
            "rewards": np.zeros(rows, "f4"), "terminals": np.float32(np.arange(rows) % 100 == 99)}
  with h5py.File(path, "w") as file:
    if layout == "d4rl":
      tables["infos"] = np.zeros(rows, int)
    else:  # contiguous, so that it is mapped
      tables["next_observations"] = np.roll(obs, -1, axis=0)
    for name, rows_of in tables.items():
      file.create_dataset(name, data=rows_of, compression="gzip" if layout == "d4rl" else None)
  return path


def train(data, folder):
  process = run("train", data, "--env", "kitchen", *TINY, "--steps", 3, "-o", folder)
  assert process.returncode == 0, process.stderr
  assert json.loads(run("info", folder / "model.safetensors", "--json").stdout)["config"]["ortho"] == 100
  return folder / "model.safetensors"


@pytest.mark.parametrize("layout", ["d4rl", "mapped"])
def test_goals_in_the_data_are_ignored(tmp_path, layout):
  files = [write(tmp_path / f"{goal}.h5", goal, layout) for goal in (0.0, 0.5)]
  before = files[1].read_bytes()
  models = [train(file, tmp_path / file.stem) for file in files]
  assert models[0].read_bytes() == models[1].read_bytes()
  z = [json.loads(run("prompt", models[0], "--demo", file, "--json").stdout)["z"] for file in files]
  assert z[0] == z[1]
  assert files[1].read_bytes() == before


def test_a_model_is_prompted_with_tasks_and_scored(tmp_path):
  model = train(write(tmp_path / "data.h5", 0.5), tmp_path / "run")
  assert run("prompt", model, "--task", "open_microwave").returncode == 0
  process = run("eval", model, "--episodes", 2, "--steps", 2, "--json", "--tasks",
             "partial, mixed, open_microwave")
  lines = [json.loads(line) for line in process.stdout.splitlines()]
  assert [line["task"] for line in lines] == ["partial", "mixed", "open_microwave"]
  assert [line.get("d4rl") for line in lines] == [0, 0, None]


def test_coverage_of_the_hand(tmp_path):
  data = tmp_path / "data.h5"
  process = run("collect", "kitchen", "--steps", 100, "--envs", 4, "--hold", 25, "-o", data)
  assert process.returncode == 0, process.stderr
  coverage = json.loads(run("info", data, "--json").stdout)["coverage"]
  assert "end_effector" in coverage["of"] and 4 < coverage["cells"] <= 100


def test_impossible_data_is_rejected(tmp_path):
  assert "not for kitchen" in refused("collect", "kitchen", "--with", "d4rl-medium", "-o",
                                      tmp_path / "x.h5")
  error = refused("paper", "run", "kitchen", "--data", tmp_path, "--results", tmp_path, "--runs",
                 tmp_path)
  assert "kitchen-d4rl-partial.h5" in error and "kitchen-partial-v0" in error
