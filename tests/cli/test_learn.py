"""bfm learn: a model within a given time, also after it was stopped and killed. The tests move the clock
forward, so nothing is learned here; what a number of minutes buys is measured elsewhere."""
import json
import signal
import subprocess
import time

import h5py
from conftest import BFM, refused, run
from safetensors import safe_open

PENDULUM = """<mujoco model="pendulum">
  <worldbody>
    <body name="pole" pos="0 0 1">
      <joint name="hinge" axis="0 1 0" damping=".1"/>
      <geom type="capsule" fromto="0 0 0 0 0 .5" size=".03" mass=".2"/>
    </body>
  </worldbody>
  <actuator><motor name="turn" joint="hinge" ctrlrange="-1 1"/></actuator>
</mujoco>
"""
PICTURE = b"\x89PNG"


def start(*arguments):
  return subprocess.Popen([BFM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def stage(folder):
  try:
    return json.loads((folder / "learn.json").read_text())["stage"]
  except FileNotFoundError:
    return None


def wait_for(process, folder, name):
  while stage(folder) != name:
    assert process.poll() is None, process.communicate()
    time.sleep(0.05)


def stop(process, number):
  process.send_signal(number)
  return process.communicate(timeout=60)


def forward(folder, share):
  """One second before this share of the time is spent."""
  path = folder / "learn.json"
  record = json.loads(path.read_text())
  record["spent"] = 60 * record["options"]["minutes"] * share - 1
  path.write_text(json.dumps(record))


def test_a_run_that_is_stopped_and_killed(tmp_path):
  folder = tmp_path / "run"
  process = start("learn", "point_mass", "--minutes", 20, "-o", folder)
  wait_for(process, folder, "collect")
  time.sleep(1)
  _, errors = stop(process, signal.SIGINT)
  assert process.returncode == 128 + signal.SIGINT
  assert "minutes; continue with bfm learn --resume -o" in errors
  spent = json.loads((folder / "learn.json").read_text())["spent"]
  assert 0 < spent < 600

  forward(folder, 0.4)
  process = start("learn", "--resume", "-o", folder)
  wait_for(process, folder, "train")
  time.sleep(1)
  stop(process, signal.SIGKILL)

  forward(folder, 0.92)
  process = run("learn", "--resume", "-o", folder)
  assert not process.returncode, process.stderr
  record = json.loads((folder / "learn.json").read_text())
  assert record["stage"] == "done" and record["spent"] > spent
  assert (folder / "strip.png").read_bytes()[:4] == (folder / "curves.png").read_bytes()[:4] == PICTURE

  # the report is what was measured: its table is printed, its model has the chosen sizes
  report = (folder / "report.md").read_text()
  assert report in process.stdout
  rows = [line for line in report.splitlines() if line.startswith(("| easy", "| reach_"))]
  assert len(rows) == 5 and all(line.count("|") == 7 for line in rows)
  with safe_open(folder / "point_mass.safetensors", "np") as model:
    assert model.get_slice("pi.trunk.0.weight").get_shape()[0] == record["sizes"]["hidden"]
  assert run("prompt", folder / "point_mass.safetensors", "--task", "easy").returncode == 0
  # the dataset says that it is complete, although it was to have more transitions
  with h5py.File(folder / "data.h5") as data:
    rows = data["observations"].shape[0]
    assert data.attrs["planned_rows"] == rows > 0
  assert "complete" not in json.loads(run("info", "--json", folder / "data.h5").stdout)

  assert "has a run in it: add --resume" in refused("learn", "point_mass", "-o", folder)


def test_a_robot_without_tasks(tmp_path):
  robot, folder = tmp_path / "pendulum.xml", tmp_path / "run"
  robot.write_text(PENDULUM)
  process = start("learn", robot, "--minutes", 20, "-o", folder)
  wait_for(process, folder, "collect")
  stop(process, signal.SIGINT)
  for share in (0.4, 0.92):
    forward(folder, share)
    process = start("learn", "--resume", "-o", folder)
    if share < 0.5:
      wait_for(process, folder, "train")
      stop(process, signal.SIGINT)
  process.communicate()
  assert not process.returncode, process.stderr
  report = (folder / "report.md").read_text()
  assert "coverage" in report and "has no tasks" in report
  assert (folder / "pendulum.safetensors").exists()
  with h5py.File(folder / "data.h5") as data:
    assert data.attrs["collector"] == "rnd"


def test_refusals_leave_nothing(tmp_path):
  folder = tmp_path / "run"
  assert "did you mean 'walker'?" in refused("learn", "wlaker", "-o", folder)
  assert "name a robot" in refused("learn", "-o", folder)
  assert "name the folder" in refused("learn", "walker")
  message = refused("learn", "humanoid", "--minutes", 0.01, "-o", folder)
  assert "0.01 minutes are too few" in message and "give --minutes" in message
  assert "has no run to resume" in refused("learn", "--resume", "-o", folder)
  robot = tmp_path / "pendulum.xml"
  robot.write_text(PENDULUM)
  assert "has no known tasks" in refused("learn", robot, "--with", "mood", "-o", folder)
  assert not folder.exists()

  folder.mkdir()
  (folder / "learn.json").write_text('{"robot": 3}')
  assert "learn.json is damaged" in refused("learn", "--resume", "-o", folder)


def test_minutes_end_a_collection_and_a_training(tmp_path):
  data, folder = tmp_path / "d.h5", tmp_path / "run"
  process = run("collect", "point_mass", "--steps", "1M", "--envs", 2, "--minutes", 0.02, "-o", data)
  assert not process.returncode and "done" in process.stdout, process.stderr
  with h5py.File(data) as file:
    rows = file["observations"].shape[0]
    assert 2 < rows < 1e6 and file.attrs["planned_rows"] == rows
  begin = time.monotonic()
  process = run("train", data, "--preset", "small", "--batch", 16, "--minutes", 0.02, "--steps", "100M", "-o", folder)
  assert not process.returncode, process.stderr
  assert time.monotonic() - begin < 30 and (folder / "model.safetensors").exists()
  steps = json.loads((folder / "log.jsonl").read_text().splitlines()[-1])["step"]
  process = run("train", "--resume", "--minutes", 0.02, "-o", folder)
  assert not process.returncode
  assert json.loads((folder / "log.jsonl").read_text().splitlines()[-1])["step"] > steps
  assert "--minutes is an option of agents that are prompted" in refused(
      "train", data, "--algo", "bc", "--minutes", 1, "-o", tmp_path / "bc")


def test_a_preset_for_cpus(tmp_path):
  data = tmp_path / "d.h5"
  process = run("collect", "point_mass", "--with", "mood", "--preset", "small", "--steps", 300, "-o", data)
  assert not process.returncode, process.stderr
  with h5py.File(data) as file:
    options = json.loads(file.attrs["options"])
  assert (options["hidden"], options["batch"], options["envs"]) == (256, 256, 4)
  given = run("collect", "point_mass", "--with", "mood", "--preset", "small", "--hidden", 32, "--envs", 2, "--steps", 300,
              "-o", tmp_path / "e.h5")
  assert not given.returncode, given.stderr
  with h5py.File(tmp_path / "e.h5") as file:
    options = json.loads(file.attrs["options"])
  assert (options["hidden"], options["batch"], options["envs"]) == (32, 256, 2)
  assert "--preset is for learners" in refused("collect", "point_mass", "--preset", "small", "-o", tmp_path / "f.h5")
