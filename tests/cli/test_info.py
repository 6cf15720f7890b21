"""bfm info and bfm bench: what they say of sound files, and that they trust no other."""
import json
import os

import numpy as np
import pytest
from conftest import TINY, refused, run, write_dataset
from safetensors import safe_open
from safetensors.numpy import load_file, save_file


@pytest.fixture
def model(data, tmp_path):
  assert run("train", data, *TINY, "--steps", 3, "-o", tmp_path / "run").returncode == 0
  return tmp_path / "run" / "model.safetensors"


def test_dataset(data):
  info = json.loads(run("info", "--json", data).stdout)
  assert info["kind"] == "dataset" and info["env"] == "walker"
  assert (info["transitions"], info["episodes"], info["obs_dim"], info["act_dim"]) == (200, 4, 5, 2)
  assert -1 <= info["ranges"]["actions"]["min"] < info["ranges"]["actions"]["max"] <= 1
  assert "200" in run("info", data).stdout


def test_model_and_state(model):
  info = json.loads(run("info", "--json", model).stdout)
  assert info["kind"] == "model" and info["step"] == 3
  assert info["config"]["algo"] == "fb-aware" and info["config"]["blocks"] == 2
  assert info["tensors"]["pi.s.in.weight"]["shape"] == [16, 5]
  state = json.loads(run("info", "--json", model.parent / "state.safetensors").stdout)
  assert state["kind"] == "state" and len(state["tensors"]) > len(info["tensors"])
  text = run("info", model, model.parent / "state.safetensors").stdout
  assert "algo fb-aware" in text and "adam_m" in text


def test_policies_and_explorers(tmp_path):
  learner = ["--hidden", 16, "--batch", 16, "--device", "cpu", "--threads", 1, "--random-steps", 20]
  assert run("collect", "point_mass", "--with", "td3", "--task", "easy", *learner, "--envs", 2,
             "--steps", 300, "-o", tmp_path / "data.h5").returncode == 0
  policy, state = (tmp_path / f"data.{name}.safetensors" for name in ("easy", "state"))
  info = json.loads(run("info", "--json", policy).stdout)
  assert (info["kind"], info["env"], info["task"]) == ("policy", "point_mass", "easy")
  assert (info["obs_dim"], info["act_dim"], info["tasks"]) == (4, 2, 1) and info["step"] > 0
  assert info["config"]["algo"] == "td3"
  assert {name.split(".")[0] for name in info["tensors"]} == {"pi", "input"}
  info = json.loads(run("info", "--json", state).stdout)
  assert info["kind"] == "explorer" and (info["tasks"], info["envs"]) == (1, 2)
  text = run("info", policy, state).stdout
  assert "point_mass" in text and "algo td3" in text and "adam_m" in text

  rewrite(policy, put_nan)
  assert "pi.s.in.weight" in refused("info", policy)
  rewrite(state, lambda tensors, metadata: metadata.update(bfm="diary"))
  assert 'no file of the kind "diary"' in refused("info", state)


def rewrite(path, change):
  """Save the model again after a change of its tensors and metadata."""
  tensors = load_file(path)
  with safe_open(path, "np") as file:
    metadata = file.metadata()
  change(tensors, metadata)
  save_file(tensors, path, metadata=metadata)


def test_a_model_saved_by_others_is_as_good(model):
  rewrite(model, lambda tensors, metadata: None)
  assert run("info", model).returncode == 0


def put_nan(tensors, metadata):
  tensors["pi.s.in.weight"][0, 0] = np.nan


def drop_tensor(tensors, metadata):
  del tensors["pi.s.in.weight"]


def change_shape(tensors, metadata):
  tensors["pi.s.in.weight"] = tensors["pi.s.in.weight"].T.copy()


def change_config(tensors, metadata):
  metadata["config"] = metadata["config"].replace('"d":8', '"d":9')


def break_config(tensors, metadata):
  metadata["config"] = "{"


def drop_metadata(tensors, metadata):
  metadata.clear()


def break_step(tensors, metadata):
  metadata["step"] = "many"


@pytest.mark.parametrize("damage", [put_nan, drop_tensor, change_shape, change_config, break_config,
                                    break_step, drop_metadata])
def test_models_that_cannot_be_trusted(damage, model):
  rewrite(model, damage)
  assert "model.safetensors" in refused("info", model)


@pytest.mark.parametrize("size", [0, 4, 100, -1])
def test_cut_files(size, data, model):
  for path in (data, model):
    path.write_bytes(path.read_bytes()[:size])
    assert path.name in refused("info", path)


def test_other_files(tmp_path):
  (tmp_path / "text").write_text("hello, this is not a model at all\n")
  assert "text: this is not a safetensors file" in refused("info", tmp_path / "text")
  refused("info", tmp_path)
  refused("info", tmp_path / "nothing")
  os.mkfifo(tmp_path / "pipe")
  assert "not a regular file" in refused("info", tmp_path / "pipe")
  data = write_dataset(tmp_path / "nan.h5", rows=200, actions=np.full((200, 2), np.nan))
  assert "NaN" in refused("info", data)


def test_a_dataset_is_no_model(data):
  assert "a dataset" in refused("prompt", data, "--reward", "x")


def test_one_bad_file_among_good_ones(data, tmp_path):
  process = run("info", "--json", tmp_path / "nothing", data)
  assert process.returncode != 0 and json.loads(process.stdout)["kind"] == "dataset"


def test_bench_step():
  process = run("bench", "step", *TINY, "--seconds", "0.05", "--json")
  assert process.returncode == 0, process.stderr
  result = json.loads(process.stdout)
  assert result["steps_per_second"] > 0 and result["options"]["batch"] == 16
  assert "steps/s" in run("bench", "step", *TINY, "--seconds", "0.05", "--seeds", "2").stdout
