"""Take every robot in the wheels of .venv-oracle through bfm, without a description, and list its speeds.

    .venv-oracle/bin/python bench/robots.py [WORDS...]

The files are those that MuJoCo loads by themselves and in which something moves. Each one is named,
simulated for 1,000 control steps with random actions and trained on for 200 steps. Files without
actuators must be refused with one sentence. Each row is appended to results/runs/robots/robots.jsonl, and
files that are already there are left out, so an interrupted run continues; at the end results/robots.md
is written. WORDS choose files by their paths. The program is $BFM, or build/bfm of the checkout.

Speeds are of one thread in CPU seconds, which other work on the machine changes little: the steps of a
long command minus those of a short one, divided by the difference of their CPU seconds.
"""
import json
import os
import resource
import site
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BFM = os.environ.get("BFM", str(ROOT / "build" / "bfm"))
ROWS = ROOT / "results" / "runs" / "robots" / "robots.jsonl"
REPORT = ROOT / "results" / "robots.md"
PACKAGES = ("dm_control", "gymnasium", "gymnasium_robotics", "mujoco")
COLLECTED, TRAINED = 1000, 200  # control steps, training steps
LIMIT = 600  # seconds of one command
COLLECT = ["--with", "random", "--envs", 16, "--threads", 1, "--quiet"]
TRAIN = ["--preset", "small", "--batch", 32, "--device", "cpu", "--threads", 1, "--quiet"]


class Failed(Exception):
  """A command of bfm failed; the message is what it printed."""


def bfm(*arguments):
  """Run bfm and return its output and its CPU seconds."""
  before = resource.getrusage(resource.RUSAGE_CHILDREN)
  process = subprocess.run([BFM, *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT)
  after = resource.getrusage(resource.RUSAGE_CHILDREN)
  if process.returncode < 0:
    raise Failed(f"bfm {arguments[0]} was killed by signal {-process.returncode}")
  if process.returncode:
    raise Failed(process.stderr.strip())
  return process.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rate(steps, seconds):
  """Steps per CPU second between a short and a long command."""
  return (steps[1] - steps[0]) / max(seconds[1] - seconds[0], 1e-3)


def measure(path, folder):
  """One row of the table; raises Failed."""
  data, run = folder / "data.h5", folder / "run"
  bfm("names", path)
  seconds = []
  for steps in (16, COLLECTED):
    data.unlink(missing_ok=True)
    seconds.append(bfm("collect", path, *COLLECT, "--steps", steps, "-o", data)[1])
  info = json.loads(bfm("info", "--json", data)[0])
  row = {"obs": info["obs_dim"], "act": info["act_dim"], "collect": rate((16, COLLECTED), seconds)}
  seconds = []
  for steps in (10, TRAINED):
    seconds.append(bfm("train", data, *TRAIN, "--steps", steps, "-o", run / str(steps))[1])
  return {**row, "train": rate((10, TRAINED), seconds)}


def robots():
  """Paths of the wheels' complete models below site-packages, with their degrees of freedom."""
  import mujoco  # only this needs the environment
  mujoco.set_mju_user_warning(lambda message: None)  # otherwise it writes a log into the working directory
  packages = Path(next(folder for folder in site.getsitepackages() if (Path(folder) / "mujoco").is_dir()))
  for package in PACKAGES:
    for path in sorted([*packages.glob(f"{package}/**/*.xml"), *packages.glob(f"{package}/**/*.urdf")]):
      try:
        model = mujoco.MjModel.from_xml_path(str(path))
      except ValueError:
        continue  # a part of a model
      if model.nv:
        yield packages, path.relative_to(packages), model.nv, model.nu


def row_of(packages, path, nv, nu):
  row = {"file": str(path), "nv": nv, "nu": nu}
  with tempfile.TemporaryDirectory() as folder:
    try:
      return {**row, **measure(packages / path, Path(folder)), "outcome": "works"}
    except Failed as error:
      return {**row, "outcome": str(error).replace(f"bfm: {packages / path}: ", "refused: ")}
    except subprocess.TimeoutExpired as error:
      return {**row, "outcome": f"bfm {error.cmd[1]} took longer than {LIMIT} s"}


# ---------------------------------- the report ------------------------------------------------------


def count(number):
  """A speed with at most three digits that mean something."""
  digits = max(0, len(str(int(number))) - 3)
  return f"{int(round(number, -digits)):,}"


def cells(row):
  speeds = [count(row[key]) if key in row else "" for key in ("collect", "train")]
  return [row["file"], row["nv"], row["nu"], row.get("obs", ""), *speeds, row["outcome"]]


def write_report(rows):
  works = [row for row in rows if row["outcome"] == "works"]
  refused = [row for row in rows if row["outcome"].startswith("refused: ")]
  head = REPORT.read_text().partition("<!-- rows -->")[0]
  lines = [f"| {' | '.join(map(str, cells(row)))} |\n" for row in sorted(rows, key=lambda row: row["file"])]
  REPORT.write_text(
      f"{head}<!-- rows -->\n{len(rows)} files: {len(works)} work, {len(refused)} are refused with a sentence, "
      f"{len(rows) - len(works) - len(refused)} fail.\n\n"
      "| file | degrees of freedom | controls | observation | control steps/s | training steps/s | outcome |\n"
      "|---|---|---|---|---|---|---|\n" + "".join(lines))


def main(words):
  ROWS.parent.mkdir(parents=True, exist_ok=True)
  rows = [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []
  done = {row["file"] for row in rows}
  for robot in robots():
    path = str(robot[1])
    if path in done or (words and not any(word in path for word in words)):
      continue
    rows.append(row_of(*robot))
    with open(ROWS, "a", encoding="utf-8") as file:
      file.write(json.dumps(rows[-1]) + "\n")
    print(*cells(rows[-1]), sep="  ", flush=True)
  write_report(rows)
  return any(row["outcome"] != "works" and not row["outcome"].startswith("refused: ") for row in rows)


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
