"""Rewards that depend on what the observations do not show: a warning that says what."""
import pytest
from conftest import TINY, run

X = "moves along x, which the observations do not show: the agent cannot know its x"
HEADING = ("turns about the vertical axis, which the observations do not show: the agent cannot know "
           "its heading")
LEARNER = ["--hidden", 16, "--batch", 16, "--device", "cpu", "--threads", 1, "--random-steps", 20,
           "--envs", 2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """Random data of the quadruped, and a model."""
  folder = tmp_path_factory.mktemp("quadruped")
  assert run("collect", "quadruped", "--steps", 300, "-o", folder / "data.h5").returncode == 0
  process = run("train", folder / "data.h5", *TINY, "--steps", 2, "-o", folder / "run")
  assert process.returncode == 0 and not process.stderr, process.stderr
  return folder


def warnings(*arguments):
  process = run(*arguments)
  assert process.returncode == 0, process.stderr
  lines = process.stderr.splitlines()
  assert all(line.startswith("bfm: warning: ") for line in lines), process.stderr
  return [line.removeprefix("bfm: warning: ") for line in lines]


def test_prompts(folder, tmp_path):
  model, z = folder / "run" / "model.safetensors", tmp_path / "z.json"
  turns = [f"torso.xx: the reward changes when the robot {HEADING}"]
  assert warnings("prompt", model, "--reward", "torso.xx", "--json") == turns
  assert warnings("prompt", model, "--reward", "torso.x", "-o", z) == [
      f"torso.x: the reward changes when the robot {X}"]
  assert warnings("play", model, "--reward", "torso.xx", "--steps", 2, "-q", "-o",
                  tmp_path / "strip.png") == turns
  short = ["--episodes", 1, "--steps", 2]
  assert warnings("eval", model, "--tasks", "walk,torso.xx,upright", *short) == turns
  assert warnings("eval", model, model, "--tasks", "torso.xx", *short) == turns
  assert warnings("bias", model, "--tasks", "torso.xx", *short) == turns
  # tasks of the domain, though jump depends on the height; a z that is there already
  for task in ("skip", "jump"):
    assert warnings("prompt", model, "--task", task) == []
  assert warnings("prompt", model, "--reward", "velocimeter.x * upright") == []
  assert warnings("eval", model, "--z", z, "--tasks", "torso.xx", *short) == []


def test_training(folder, tmp_path):
  moves = [f"torso.x > 0: the reward changes when the robot {X}"]
  short = ["--eval-every", 2, "--eval-episodes", 1, "--eval-steps", 2]
  assert warnings("train", folder / "data.h5", *TINY, "--steps", 2, *short, "--eval-tasks",
                  "walk,torso.x > 0", "-o", tmp_path / "agent") == moves
  assert warnings("train", folder / "data.h5", "--algo", "iql", "--task", "torso.x > 0,run",
                  "--hidden", 16, "--batch", 16, "--steps", 2, "-o", tmp_path / "policy") == moves
  assert warnings("collect", "walker", "--with", "td3", "--task", "torso.x > 0", *LEARNER,
                  "--steps", 100, "-o", tmp_path / "td3.h5") == moves
