"""A model trained in bf16, on a CPU that has no products in bfloat16."""
import json
import os

import pytest
from conftest import HERE, TINY, refused, run

OLD_CPU = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
WORDS = "precision is bf16, but this CPU has no bfloat16 products: use f32 or auto"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  """The folder of data.h5 and a run in bf16."""
  folder = tmp_path_factory.mktemp("bf16")
  begun = run("collect", "point_mass", "--steps", 600, "-o", folder / "data.h5")
  assert begun.returncode == 0, begun.stderr
  process = run("train", folder / "data.h5", *TINY, "--precision", "bf16", "--steps", 4, "-o",
                folder / "run")
  if WORDS in process.stderr:
    pytest.skip("this CPU has no bfloat16 products")
  assert process.returncode == 0, process.stderr
  return folder


def test_the_model_acts_in_f32(trained, tmp_path):
  model, z = trained / "run" / "model.safetensors", tmp_path / "z.json"
  for command in (["prompt", model, "--task", "easy", "-o", z],
                  ["eval", model, "--tasks", "easy", "--episodes", 1, "--es", 4, *HERE],
                  ["play", model, "--z", z, "--steps", 2, *HERE, "-o", tmp_path / "a.png"],
                  ["export", model, "-o", tmp_path / "small.safetensors"],
                  ["info", model], ["info", trained / "run" / "state.safetensors"],
                  ["info", trained / "run"]):
    process = run(*command, env=OLD_CPU)
    assert process.returncode == 0, process.stderr
  assert len(json.loads(z.read_text())["z"]) == 8


def test_training_in_bf16_fails_at_its_start(trained, tmp_path):
  begun = ["train", trained / "data.h5", *TINY, "--precision", "bf16", "--steps", 4]
  assert WORDS in refused(*begun, "-o", tmp_path / "run", env=OLD_CPU)
  assert not (tmp_path / "run").exists()
  assert run(*begun[:-4], "--precision", "auto", "--steps", 4, "-o", tmp_path / "run",
             env=OLD_CPU).returncode == 0


def test_a_resume_in_bf16_fails_at_load(trained):
  """It must have the bits of the uninterrupted run, which float32 does not have."""
  error = refused("train", "--resume", "--steps", 8, "-o", trained / "run", *HERE, env=OLD_CPU)
  assert WORDS in error and "state.safetensors" in error


def test_learners_in_bf16_fail_at_their_start(tmp_path):
  error = refused("collect", "point_mass", "--with", "td3", "--task", "easy", "--steps", 400, *HERE,
                  "--precision", "bf16", "-o", tmp_path / "a.h5", env=OLD_CPU)
  assert WORDS in error and not list(tmp_path.iterdir())


def test_a_policy_acts_in_f32(trained, tmp_path):
  learners = ["--envs", 2, "--batch", 16, *HERE]
  process = run("collect", "point_mass", "--with", "td3", "--task", "easy", "--steps", 400,
                *learners, "--precision", "bf16", "-o", tmp_path / "a.h5")
  assert process.returncode == 0, process.stderr
  policy = tmp_path / "a.easy.safetensors"
  process = run("collect", "point_mass", "--with", "policy", "--model", policy, "--steps", 400,
                "--envs", 2, *HERE, "-o", tmp_path / "b.h5", env=OLD_CPU)
  assert process.returncode == 0, process.stderr
  assert run("info", policy, env=OLD_CPU).returncode == 0
