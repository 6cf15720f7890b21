"""bfm collect: valid files, even if the collector is interrupted or killed."""
import json
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest
from conftest import BFM, refused, run


def collect(path, *more, env="point_mass"):
  process = run("collect", env, "--envs", 4, "--threads", 1, "-o", path, *more)
  assert process.returncode == 0, process.stderr
  return process


def read(path):
  with h5py.File(path, "r") as file:
    tables = {name: file[name][:] for name in file if name != "infos"}
    return tables | {name: file["infos"][name][:] for name in file["infos"]}, dict(file.attrs)


def in_time(tables):
  """Sort the rows by infos/step: on a slow machine, an episode may be written in pieces."""
  order = np.argsort(tables["step"])
  ends = ("terminals", "timeouts")
  return {name: table[order] for name, table in tables.items() if name not in ends}


def info(path):
  process = run("info", "--json", path)
  assert process.returncode == 0, process.stderr
  return json.loads(process.stdout)


def test_the_file_has_the_layout_of_d4rl(tmp_path):
  path = tmp_path / "data.h5"
  collect(path, "--steps", 6001, "--task", "easy")
  tables, notes = read(path)
  assert all(len(table) == 6001 for table in tables.values())
  assert tables["observations"].dtype == "f4" and tables["timeouts"].dtype == bool
  assert tables["qpos"].dtype == "f8" and "act" not in tables
  assert notes["env"] == "point_mass" and notes["collector"] == "random"
  assert notes["planned_rows"] == 6001
  assert json.loads(notes["options"])["envs"] == 4
  assert np.abs(tables["actions"]).max() <= 1 and np.std(tables["actions"]) > 0.5
  assert tables["rewards"].min() >= 0 and tables["rewards"].max() <= 1
  assert info(path)["transitions"] == 6001

  # within an episode, next_observations is the next row's observation; qpos and qvel match it
  ends = tables["terminals"] | tables["timeouts"]
  inside = ~ends[:-1]
  assert ends[-1] and len(np.unique(tables["episode"])) == 8
  assert (tables["next_observations"][:-1][inside] == tables["observations"][1:][inside]).all()
  assert (tables["episode"][:-1][inside] == tables["episode"][1:][inside]).all()
  assert (tables["observations"][:, :2] == tables["qpos"].astype("f4")).all()
  assert (tables["observations"][:, 2:] == tables["qvel"].astype("f4")).all()
  assert len(np.unique(tables["step"])) == 6001


def test_equal_seeds_give_equal_data(tmp_path):
  for name, flags in {"a": [], "b": ["--threads", 2], "c": ["--seed", 1]}.items():
    collect(tmp_path / name, "--steps", 500, *flags)
  a, b, c = (in_time(read(tmp_path / name)[0]) for name in "abc")
  assert all((a[name] == b[name]).all() for name in a)
  assert (a["observations"] != c["observations"]).any()


def test_held_actions_and_activations(tmp_path):
  collect(tmp_path / "data.h5", "--steps", 40, "--hold", 5, env="quadruped")
  tables, _ = read(tmp_path / "data.h5")
  assert tables["act"].shape == (40, 12)
  actions = in_time(tables)["actions"].reshape(2, 5, 4, 12)
  assert (actions == actions[:, :1]).all() and (actions[0] != actions[1]).any()


def test_terminations(tmp_path):
  collect(tmp_path / "data.h5", "--steps", 1000, env="hopper")
  tables, _ = read(tmp_path / "data.h5")
  assert tables["terminals"].sum() > 5 and not (tables["terminals"] & tables["timeouts"]).any()
  assert info(tmp_path / "data.h5")["terminations"] == tables["terminals"].sum()


def test_ctrl_c_saves_and_resume_continues(tmp_path):
  path = tmp_path / "data.h5"
  process = subprocess.Popen([BFM, "collect", "point_mass", "--steps", "1G", "-o", path],
                             stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
  while not path.exists() and process.poll() is None:
    time.sleep(0.02)
  time.sleep(0.3)
  process.send_signal(signal.SIGINT)
  _, error = process.communicate(timeout=60)
  assert process.returncode == 128 + signal.SIGINT, error
  assert "stopped at transition" in error and "--resume" in error
  tables, notes = read(path)
  rows = len(tables["step"])
  assert notes["planned_rows"] == 10**9 and f"transition {rows} " in error

  process = run("collect", "--resume", "--steps", rows + 3000, "-o", path)
  assert process.returncode == 0, process.stderr
  more, notes = read(path)
  assert notes["planned_rows"] == rows + 3000 and len(np.unique(more["step"])) == rows + 3000
  assert (more["observations"][:rows] == tables["observations"]).all()
  assert len(np.unique(more["qpos"], axis=0)) > 0.99 * len(more["qpos"])
  assert "there already" in run("collect", "--resume", "--steps", rows, "-o", path).stdout


def test_resume_keeps_the_collector_and_the_task(tmp_path):
  """Otherwise the attributes of the file would not describe all of its rows."""
  path = tmp_path / "data.h5"
  collect(path, "--steps", 100, "--task", "easy")
  before = path.read_bytes()
  for option, value, begun in [("with", "td3", "random"), ("task", "x > 0", "easy"),
                               ("task", "", "easy"), ("model", "a.safetensors", "")]:
    error = refused("collect", "--resume", "--steps", 200, f"--{option}", value, "-o", path)
    assert f'{option} is "{value}", but {path} was started with "{begun}"' in error
  assert path.read_bytes() == before
  process = run("collect", "--resume", "--steps", 200, "--with", "random", "--task", "easy", "--seed",
                3, "-o", path)
  assert process.returncode == 0, process.stderr
  assert info(path)["transitions"] == 200


def test_resume_in_more_environments_draws_new_actions(tmp_path):
  path = tmp_path / "data.h5"
  collect(path, "--steps", 400)
  process = run("collect", "--resume", "--steps", 2000, "--envs", 16, "-o", path)
  assert process.returncode == 0, process.stderr
  tables = read(path)[0]
  assert len(np.unique(tables["step"])) == 2000
  assert len(np.unique(tables["actions"], axis=0)) == 2000


@pytest.mark.parametrize("columns", [0, 2])
def test_resume_rejects_a_table_with_a_wrong_number_of_columns(columns, tmp_path):
  path = tmp_path / "data.h5"
  collect(path, "--steps", 100)
  with h5py.File(path, "a") as file:
    steps = np.zeros((len(file["infos/step"]), columns), "i8")
    del file["infos/step"]
    file["infos/step"] = steps
  error = refused("collect", "--resume", "--steps", 200, "-o", path)
  assert f"infos/step has {columns} columns, but must have 1" in error


def test_a_reward_that_overflows_keeps_the_earlier_data(tmp_path):
  path, task = tmp_path / "data.h5", "1e38 * (1 + 150 * abs(root_x.v))"
  process = run("collect", "point_mass", "--task", task, "--envs", 4, "--steps", 3000, "-o", path)
  rows = info(path)["transitions"]
  assert process.returncode == 7 and 0 < rows < 3000
  assert f'the reward of "{task}" is ' in process.stderr and "which a float32" in process.stderr
  assert f"the {rows} transitions collected before are in {path}" in process.stderr


def rows_of(path):
  """Return the number of rows that can be read now."""
  if not path.exists():
    return 0
  with h5py.File(path, "r") as file:
    return min(len(file["observations"]), len(file["infos/step"]))


def test_a_killed_collector_loses_only_the_last_seconds(tmp_path):
  path, rows = tmp_path / "data.h5", 0
  for moment in (0, 0.1, 0.7):
    arguments = ["--resume"] if path.exists() else ["point_mass"]
    process = subprocess.Popen([BFM, "collect", *arguments, "--steps", "1G", "-o", path],
                               stdout=subprocess.DEVNULL)
    while rows_of(path) <= rows:
      assert process.poll() is None
      time.sleep(0.02)
    rows = rows_of(path)
    time.sleep(moment)
    process.kill()
    process.wait()
    tables, notes = read(path)
    there = min(map(len, tables.values()))
    assert there >= rows and notes["planned_rows"] == 10**9
    assert len(np.unique(tables["step"][:there])) == there
    rows = there
  assert info(path)["transitions"] == rows


@pytest.mark.parametrize("arguments, part", [
    (["wlaker"], "wlaker"),
    ([], "name an environment"),
    (["walker", "--task", "torso.zz.z"], "torso.zz.z"),
    (["walker", "--task", "sped"], "did you mean 'speed'?"),
    (["walker", "--task", "stnad"], "did you mean the task stand?"),
    (["walker", "--with", "magic"], "with is \"magic\""),
    (["walker", "--envs", "0"], "envs is 0"),
    (["walker", "--device", "tpu"], "device is 'tpu', but must be auto, cpu, cuda or cuda:N"),
    (["walker", "--task", "1e39"], 'the reward of "1e39" is 1e+39, which a float32 cannot hold'),
    (["walker", "--with", "td3", "--task", "-1e39", "--device", "cpu"], 'of "-1e39" is -1e+39'),
    (["walker", "--with", "policy"], "name the policy"),
    (["walker", "--with", "policy", "--model", "a.safetensors,"], "one comma between"),
    (["walker", "--model", "a.safetensors"], "but --with is random: --model is for --with policy"),
    (["hopper", "--with", "d4rl-medium", "--model", "a.safetensors"], "but --with is d4rl-medium"),
    (["walker", "--with", "mood", "--hold", "20"], "hold is 20, but --with is mood"),
])
def test_rejected_commands_leave_no_files(arguments, part, tmp_path):
  assert part in refused("collect", *arguments, "-o", tmp_path / "data.h5")
  assert not list(tmp_path.iterdir())


def test_existing_files_are_not_overwritten(data, tmp_path):
  before = data.read_bytes()
  assert "already exists: use --resume" in refused("collect", "walker", "-o", data)
  assert "already exists\n" in refused("collect", "walker", "-o", tmp_path)
  assert "not made by bfm collect" in refused("collect", "--resume", "-o", data)
  assert "No such file" in refused("collect", "--resume", "-o", tmp_path / "nothing.h5")
  assert "cannot create" in refused("collect", "point_mass", "-o", tmp_path / "no" / "data.h5")
  assert data.read_bytes() == before
  collect(tmp_path / "mine.h5", "--steps", 100)
  assert "holds data of point_mass, not of walker" in refused("collect", "walker", "-r", "-o", tmp_path / "mine.h5")


def test_a_full_disk_keeps_the_file(tmp_path):
  import resource
  path = tmp_path / "data.h5"
  collect(path, "--steps", 20000)
  size = path.stat().st_size + 5000
  limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
  error = refused("collect", "--resume", "--steps", "1M", "-o", path, preexec_fn=limit)
  assert "1000000 rows" in error and "File too large" in error and error.count("\n") == 1, error
  assert info(path)["transitions"] == 20000 and list(tmp_path.iterdir()) == [path]
