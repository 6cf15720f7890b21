"""Files of version 0.1's jaco, which had a brick and 55 observations, are refused by name."""
import json

import h5py
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from conftest import TINY, refused, run, write_dataset

OLD = "has 55 observations: jaco had a brick before version 0.2 and has 42 now; collect and train again"
LEARNER = ["--hidden", 16, "--batch", 16, "--device", "cpu", "--threads", 1, "--random-steps", 20,
           "--envs", 2]


def age(path, env="jaco"):
  """Turn a model or policy into one of 55 observations of a domain."""
  tensors = load_file(path)
  with safe_open(path, "np") as file:
    metadata = file.metadata() | {"env": env, "obs_dim": "55"}
  for name, tensor in tensors.items():
    if tensor.ndim and tensor.shape[-1] in (42, 42 + 9):  # observations, and with actions
      tensors[name] = np.pad(tensor, [(0, 0)] * (tensor.ndim - 1) + [(0, 13)])
  save_file(tensors, path, metadata=metadata)
  return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """An old dataset, an old model; a new collection with learners."""
  folder = tmp_path_factory.mktemp("jaco")
  write_dataset(folder / "old.h5", obs=55, act=9, env="jaco")
  write_dataset(folder / "unnamed.h5", obs=55, act=9, env="")
  process = run("train", folder / "unnamed.h5", *TINY, "--steps", 2, "-o", folder / "old")
  assert process.returncode == 0, process.stderr
  age(folder / "old" / "model.safetensors")
  process = run("collect", "jaco", "--with", "td3", "--task", "reach_top_left", *LEARNER, "--steps",
                100, "-o", folder / "new.h5")
  assert process.returncode == 0, process.stderr
  return folder


def is_refused(path, *arguments):
  assert f"{path} {OLD}" in refused(*arguments)


def test_datasets(folder, tmp_path):
  out = ["--steps", 2, "-o", tmp_path / "run"]
  is_refused(folder / "old.h5", "train", folder / "old.h5", *TINY, *out)
  is_refused(folder / "unnamed.h5", "train", folder / "unnamed.h5", "--env", "jaco", *TINY, *out)
  assert not (tmp_path / "run" / "model.safetensors").exists()
  assert json.loads(run("info", folder / "old.h5", "--json").stdout)["obs_dim"] == 55


def test_a_run_is_not_resumed(folder, tmp_path):
  data = write_dataset(tmp_path / "data.h5", obs=55, act=9, env="")
  assert run("train", data, *TINY, "--steps", 2, "-o", tmp_path / "run").returncode == 0
  with h5py.File(data, "a") as file:
    file.attrs["env"] = "jaco"
  is_refused(data, "train", "--resume", "--steps", 4, "-o", tmp_path / "run")


def test_runs_are_not_added_to_the_ledger(folder, tmp_path):
  (tmp_path / "run.json").write_text((folder / "old" / "run.json").read_text())
  state = tmp_path / "state.safetensors"
  state.write_bytes((folder / "old" / "state.safetensors").read_bytes())
  add = ["paper", "add", tmp_path, "--kind", "rnd", "--results", tmp_path]
  is_refused(age(state), *add)
  state.unlink()
  is_refused(folder / "unnamed.h5", *add, "--domain", "jaco")
  assert not (tmp_path / "ledger.jsonl").exists()


def test_models(folder, tmp_path):
  model = folder / "old" / "model.safetensors"
  is_refused(model, "eval", model, "--tasks", "all")
  is_refused(model, "play", model, "--task", "reach_top_left", "-o", tmp_path / "film.mp4")
  is_refused(model, "prompt", model, "--task", "reach_top_left", "-o", tmp_path / "z.json")
  is_refused(model, "bias", model)
  is_refused(model, "export", model, "-o", tmp_path / "small.safetensors")
  assert json.loads(run("info", model, "--json").stdout)["obs_dim"] == 55


def test_policies(folder, tmp_path):
  policy = tmp_path / "policy.safetensors"
  policy.write_bytes((folder / "new.reach_top_left.safetensors").read_bytes())
  assert run("eval", policy, "--episodes", 1).returncode == 0
  age(policy)
  is_refused(policy, "eval", policy)
  is_refused(policy, "play", policy, "-o", tmp_path / "film.mp4")
  is_refused(policy, "collect", "jaco", "--with", "policy", "--model", policy, "--steps", 100, "-o",
             tmp_path / "more.h5")
  assert json.loads(run("info", policy, "--json").stdout)["obs_dim"] == 55


def test_collections_are_not_resumed(folder, tmp_path):
  data, state = tmp_path / "data.h5", tmp_path / "data.state.safetensors"
  data.write_bytes((folder / "new.h5").read_bytes())
  state.write_bytes((folder / "new.state.safetensors").read_bytes())
  age(state)
  is_refused(state, "collect", "--resume", "--steps", 200, "-o", data)
  with h5py.File(data, "a") as file:
    for name in ("observations", "next_observations"):
      rows = len(file[name])
      del file[name]
      file[name] = np.zeros((rows, 55), "f4")
  is_refused(data, "collect", "--resume", "--steps", 200, "-o", data)


def test_prompts_of_a_new_model(folder, tmp_path):
  process = run("train", folder / "new.h5", *TINY, "--steps", 2, "-o", tmp_path / "run")
  assert process.returncode == 0, process.stderr
  model, goal = tmp_path / "run" / "model.safetensors", tmp_path / "goal.json"
  z = ["-o", tmp_path / "z.json"]
  assert run("prompt", model, "--task", "reach_top_left", *z).returncode == 0
  is_refused(folder / "old.h5", "prompt", model, "--demo", folder / "old.h5", *z)
  goal.write_text(json.dumps({"obs": [0] * 55}))
  is_refused(goal, "prompt", model, "--goal", goal, *z)


def test_55_observations_of_another_domain_are_not_meant(tmp_path):
  data = write_dataset(tmp_path / "data.h5", obs=55, act=9, env="ant")
  assert run("train", data, *TINY, "--steps", 2, "-o", tmp_path / "run").returncode == 0
