"""python -m bfm demo, in a checkout; tests/wheel runs it in a wheel."""
import subprocess
import sys

from bfm import demo


def test_the_demo_prints_a_line_for_every_prompt(capsys):
  demo.main(steps=200)
  lines = [line for line in capsys.readouterr().out.splitlines() if " ms " in line]
  assert [line.startswith(name) for line, (name, _) in zip(lines, demo.PROMPTS)] == [True] * 4
  speeds = [float(line.split()[-1]) for line in lines]
  assert speeds[1] > speeds[0] > 1 > abs(speeds[2]) and speeds[3] < -1


def test_other_words_are_refused():
  process = subprocess.run([sys.executable, "-m", "bfm", "dmo"], capture_output=True, text=True)
  assert process.returncode == 1 and "python -m bfm demo" in process.stderr
