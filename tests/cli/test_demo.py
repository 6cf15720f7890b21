"""The demo, made short: every command of it still works, and it can be run twice."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BFM, ROOT

SCRIPT = str(ROOT / "scripts" / "demo.sh")
SHORT = {**os.environ, "BFM": BFM, "EPISODES": "1", "STEPS": "8", "TRAIN": "20"}


def demo(folder, **changes):
  return subprocess.run([SCRIPT, str(folder)], env={**SHORT, **changes}, capture_output=True,
                        text=True, timeout=120)


def is_sanitized():
  """A sanitized library cannot be loaded into a plain Python, which the demo's last part does."""
  return b"__asan_init" in Path(BFM).read_bytes()


def test_the_example_in_c_controls_a_walker(tmp_path):
  example = Path(BFM).parent / "examples" / "walker"
  process = subprocess.run([example], cwd=ROOT, capture_output=True, text=True)
  assert process.returncode == 0, process.stderr
  reward, rest = process.stdout.split(": ")
  assert reward == "torso.z > 1.2" and int(rest.split()[0]) > 200
  process = subprocess.run([example, "nothing.safetensors"], cwd=ROOT, capture_output=True, text=True)
  assert process.returncode == 1 and process.stderr.count("\n") == 1


@pytest.mark.skipif(is_sanitized(), reason="the library is sanitized, Python is not")
def test_the_example_in_python_says_what_it_wants():
  process = subprocess.run([sys.executable, ROOT / "examples" / "goals.py"], capture_output=True,
                           text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
  assert process.returncode == 1 and "goals.py MODEL" in process.stderr, process.stderr
  assert "Traceback" not in process.stderr


def test_its_grammar():
  assert subprocess.run(["bash", "-n", SCRIPT]).returncode == 0


@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="there is no ffmpeg")
def test_it_runs_twice(tmp_path):
  if is_sanitized():
    pytest.skip("the library is a sanitized one")
  for _ in range(2):
    process = demo(tmp_path)
    assert process.returncode == 0, process.stderr
    assert "of 64 goals" in process.stdout and "try a reward of your own" in process.stdout
  assert (tmp_path / "walker.png").stat().st_size > 10000
  assert (tmp_path / "point_mass" / "model.safetensors").exists()


def test_it_stops_at_the_first_error(tmp_path):
  process = demo(tmp_path, STEPS="-1")
  assert process.returncode == 1 and "steps" in process.stderr
  assert process.stderr.count("demo:") == 1 and not list(tmp_path.iterdir())
  process = demo(tmp_path, BFM="/nowhere/bfm")
  assert process.returncode == 1 and 'run "make demo"' in process.stderr
