"""The examples of a robot's control loop, with a simulated walker. How late a tick may be depends on what
else the machine does: that is not tested."""
import re
import subprocess
from pathlib import Path

import pytest
from conftest import BFM, run

EXAMPLES = Path(BFM).parent / "examples"
WALKER = "models/walker.safetensors"


def loop(name, *words):
  program = EXAMPLES / name
  if not program.exists():
    pytest.skip(f"{name} was not built")
  return subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  """A model that says how long its actions last."""
  path = tmp_path_factory.mktemp("model") / "walker.safetensors"
  process = run("export", WALKER, "--half", "--prompt-states", "3k", "-o", path)
  assert process.returncode == 0, process.stderr
  return path


def test_the_walker_stands_up(model):
  process = loop("robot_loop", model, "", 4)
  assert process.returncode == 0, process.stderr
  assert "one action lasts 25 ms" in process.stdout and "wake-ups" in process.stdout
  actions, missed = map(int, re.search(r"(\d+) actions, (\d+) ticks missed", process.stdout).groups())
  assert 160 - missed <= actions <= 160
  assert float(re.search(r"torso.z is (.*)", process.stdout)[1]) > 1.1


def test_in_cpp_with_a_prompt_from_a_file(model, tmp_path):
  z = tmp_path / "z.json"
  assert run("prompt", model, "--task", "stand", "-o", z).returncode == 0
  process = loop("robot_loop_cpp", model, z, 0.3)
  assert process.returncode == 0, process.stderr
  assert re.search(r"actions take .* of 1[0-2]\n", process.stdout)


@pytest.mark.parametrize("name", ["robot_loop", "robot_loop_cpp"])
def test_errors(name, model, tmp_path):
  for words, expected in ((["no-such-model", "z.json"], "no-such-model"),
                          ([model, tmp_path / "no-z.json"], "no-z.json"),
                          ([model, __file__], "is no z of this model"), ([], "MODEL.safetensors")):
    process = loop(name, *words)
    assert process.returncode == 1 and expected in process.stderr, process
