"""scripts/demo.sh, shortened: each of its commands works, and it can be run twice."""
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
  """Whether the build is sanitized: the demo loads the library into Python, which then fails."""
  return b"__asan_init" in Path(BFM).read_bytes()


def test_the_example_in_c_controls_a_walker(tmp_path):
  example = Path(BFM).parent / "examples" / "walker"
  process = subprocess.run([example], cwd=ROOT, capture_output=True, text=True)
  assert process.returncode == 0, process.stderr
  reward, rest = process.stdout.split(": ")
  assert reward == "torso.z > 1.2" and int(rest.split()[0]) > 200
  process = subprocess.run([example, "nothing.safetensors"], cwd=ROOT, capture_output=True, text=True)
  assert process.returncode == 1 and process.stderr.count("\n") == 1


@pytest.mark.skipif(is_sanitized(), reason="a sanitized library does not load into Python")
def test_the_example_in_python_explains_its_arguments():
  process = subprocess.run([sys.executable, ROOT / "examples" / "goals.py"], capture_output=True,
                           text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
  assert process.returncode == 1 and "goals.py MODEL" in process.stderr, process.stderr
  assert "Traceback" not in process.stderr


def test_the_syntax_of_the_script():
  assert subprocess.run(["bash", "-n", SCRIPT]).returncode == 0


@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="there is no ffmpeg")
def test_the_demo_runs_twice(tmp_path):
  if is_sanitized():
    pytest.skip("a sanitized library does not load into Python")
  for _ in range(2):
    process = demo(tmp_path)
    assert process.returncode == 0, process.stderr
    assert "of 64 goals" in process.stdout and "try a reward of your own" in process.stdout
  assert (tmp_path / "walker.png").stat().st_size > 10000
  assert (tmp_path / "point_mass" / "model.safetensors").exists()


def test_the_demo_stops_at_the_first_error(tmp_path):
  process = demo(tmp_path, STEPS="-1")
  assert process.returncode == 1 and "steps" in process.stderr
  assert process.stderr.count("demo:") == 1 and not list(tmp_path.iterdir())
  process = demo(tmp_path, BFM="/nowhere/bfm")
  assert process.returncode == 1 and 'run "make demo"' in process.stderr
