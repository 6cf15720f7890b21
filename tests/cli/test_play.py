"""bfm play: strips, films and error messages."""
import json
import os
import resource
import shutil
import struct

import pytest
from conftest import refused, run, train_point_mass
from safetensors import safe_open
from safetensors.numpy import load_file, save_file


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  return train_point_mass(tmp_path_factory.mktemp("point_mass")) / "model.safetensors"


SMALL = ["--steps", 6, "--width", 64, "--quiet"]


def size_of_png(path):
  head = path.read_bytes()[:24]
  assert head[:8] == b"\x89PNG\r\n\x1a\n"
  return struct.unpack(">II", head[16:24])


def test_a_strip_with_the_reward_below(model, tmp_path):
  path = tmp_path / "strip.png"
  process = run("play", model, "--task", "easy", *SMALL, "--pictures", 4, "-o", path)
  assert process.returncode == 0, process.stderr
  width, height = size_of_png(path)
  assert width == 4 * 64 and height > 48
  process = run("play", model, "--goal", "x = 0.1", *SMALL, "--pictures", 4, "-o", path)
  assert process.returncode == 0 and size_of_png(path) == (256, 48)


def test_the_output_has_the_return_and_the_file(model, tmp_path):
  process = run("play", model, "--reward", "x > 0", "--steps", 6, "--width", 64, "-o",
                tmp_path / "a.png")
  assert process.returncode == 0, process.stderr
  assert "in 6 steps" in process.stdout and "a.png" in process.stdout


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
  """A folder with data.h5, the policy of the task easy and the state of the learner."""
  folder = tmp_path_factory.mktemp("policies")
  process = run("collect", "point_mass", "--with", "td3", "--task", "easy", "--steps", 200, "--envs", 4,
                "--hidden", 16, "--batch", 16, "-o", folder / "data.h5")
  assert process.returncode == 0, process.stderr
  return folder


def test_the_return_of_a_policy_equals_that_of_eval(collected, tmp_path):
  policy = collected / "data.easy.safetensors"
  for score, name in ([], "easy"), (["--task", "reach_top_left"], "reach_top_left"), (
      ["--reward", "x + 1"], "x + 1"):
    process = run("play", policy, *score, "--steps", 6, "--width", 64, "-o", tmp_path / "a.png")
    assert process.returncode == 0, process.stderr
    assert "by the policy of easy" in process.stdout and "z after" not in process.stdout
    earned = json.loads(run("eval", policy, "--tasks", name, "--episodes", 1, "--steps", 6,
                            "--json").stdout)["mean"]
    assert f"{earned:.1f} in 6 steps" in process.stdout
    assert size_of_png(tmp_path / "a.png")[1] > 48


def test_a_policy_without_a_task(tmp_path):
  process = run("collect", "point_mass", "--with", "rnd", "--steps", 200, "--envs", 4, "--hidden", 16,
                "--batch", 16, "--rnd-dim", 8, "-o", tmp_path / "data.h5")
  assert process.returncode == 0, process.stderr
  policy = tmp_path / "data.policy.safetensors"
  process = run("play", policy, "--steps", 6, "--width", 64, "-o", tmp_path / "a.png")
  assert process.returncode == 0, process.stderr
  assert str(policy) in process.stdout and "return" not in process.stdout
  assert run("eval", policy, "--episodes", 1, "--steps", 2).returncode == 0


def test_policies_that_cannot_act(collected, tmp_path):
  policy, path, output = collected / "data.easy.safetensors", tmp_path / "p", tmp_path / "a.png"
  for more in ("--goal", "x = 1"), ("--demo", "d.h5"), ("--z", "z.json"), ("--es", 4), (
      "--softmax", 1):
    sentence = refused("play", policy, *more, "-o", output)
    assert "the policy of a single task" in sentence and more[0] in sentence
  assert "several" in refused("play", policy, "--task", "easy", "--reward", "x", "-o", output)
  assert "did you mean the task easy?" in refused("play", policy, "--task", "eesy", "-o", output)
  assert "not a model" in refused("play", collected / "data.state.safetensors", "-o", output)
  with safe_open(policy, "np") as file:
    metadata = file.metadata()
  for change, words in ({"env": "walker"}, "but walker has 24 and 6"), ({"env": "wlker"}, "walker"), (
      {"tasks": "2"}, "tasks"):
    save_file(load_file(policy), path, metadata={**metadata, **change})
    for command in ("play", path, "-o", output), ("eval", path, "--tasks", "1", "--steps", 2):
      assert words in refused(*command)
  del metadata["env"]
  save_file(load_file(policy), path, metadata=metadata)
  assert "which domain" in refused("play", path, "-o", output)
  assert os.listdir(tmp_path) == ["p"]


@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="needs ffmpeg")
def test_a_film(model, tmp_path):
  path = tmp_path / "a:film.mp4"
  process = run("play", model, "--task", "easy", *SMALL, "-o", path)
  assert process.returncode == 0, process.stderr
  assert path.read_bytes()[4:8] == b"ftyp"
  assert os.listdir(tmp_path) == ["a:film.mp4"]


@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="needs ffmpeg")
@pytest.mark.parametrize("size", [0, 100, 1500])
def test_a_full_disk_leaves_no_film(size, model, tmp_path):
  sentence = refused("play", model, "--task", "easy", *SMALL, "-o", tmp_path / "film.mp4",
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
  assert "is the disk full" in sentence and not os.listdir(tmp_path)


def test_without_ffmpeg(model, tmp_path):
  sentence = refused("play", model, "--task", "easy", *SMALL, "-o", tmp_path / "film.mp4",
                     env={**os.environ, "PATH": str(tmp_path)})
  assert "ffmpeg" in sentence and "install" in sentence and not os.listdir(tmp_path)


@pytest.mark.parametrize("name", ["egl", "glx", "osmesa"])
def test_what_others_set_for_mujoco(name, model, tmp_path, monkeypatch):
  monkeypatch.setenv("MUJOCO_GL", name)
  process = run("play", model, "--task", "easy", *SMALL, "-o", tmp_path / "strip.png")
  assert process.returncode == 0, process.stderr


def test_without_opengl(model, tmp_path):
  environment = {**os.environ, "BFM_GL": "none"}
  sentence = refused("play", model, "--task", "easy", *SMALL, "-o", tmp_path / "a.png",
                     env=environment)
  assert "OSMesa" in sentence and 'BFM_GL is "none"' in sentence and not os.listdir(tmp_path)
  assert run("prompt", model, "--task", "easy", env=environment).returncode == 0


def test_bad_arguments_are_rejected(model, tmp_path):
  assert "film.mp4" in refused("play", model, "--task", "easy")
  assert "a.gif" in refused("play", model, "--task", "easy", "-o", tmp_path / "a.gif")
  assert "--reward" in refused("play", model, "-o", tmp_path / "a.png")
  assert "easy" in refused("play", model, "--task", "eesy", "-o", tmp_path / "a.png")
  state = model.parent / "state.safetensors"
  assert "or it is a training state" in refused("play", state, "--task", "easy", "-o",
                                                          tmp_path / "a.png")
  # these are rejected before the episode, which would take long
  long = ["play", model, "--task", "easy", "--steps", 1000000]
  assert "6 pictures of 4000 pixels do not fit" in refused(*long, "--width", 4000, "--pictures", 6,
                                                           "-o", tmp_path / "a.png")
  for name in ("a.png", "a.mp4"):
    assert "16 to 8192 pixels per side, not 20 x 7" in refused(*long, "--width", 20, "--height", 7, "-o",
                                                             tmp_path / name)
  assert "No such file" in refused(*long, "-o", tmp_path / "no" / "a.png")
  assert not os.listdir(tmp_path)
