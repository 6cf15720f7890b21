"""bfm train: the files of a run, resuming, and errors."""
import json
import os
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest
from conftest import BFM, HERE, TINY, refused, run, write_dataset
from safetensors import safe_open
from safetensors.numpy import load_file


def train(data, folder, *more):
  process = run("train", data, *TINY, "-o", folder, *more)
  assert process.returncode == 0, process.stderr
  return process


def read_log(folder):
  return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def names(folder):
  return sorted(path.name for path in folder.iterdir())


def test_a_run_writes_model_state_log_and_record(data, tmp_path):
  process = train(data, tmp_path / "runs" / "a", "--steps", 30, "--log-every", 10)
  folder = tmp_path / "runs" / "a"
  assert names(folder) == ["log.jsonl", "model.safetensors", "run.json", "state.safetensors"]
  assert "200 transitions in 4 episodes of walker" in process.stdout
  assert str(folder / "model.safetensors") in process.stdout
  log = read_log(folder)
  assert [line["step"] for line in log] == [10, 20, 30]
  assert {"fb", "ortho", "actor", "seconds"} <= set(log[0])
  model = load_file(folder / "model.safetensors")
  assert model["F.trunk.0.weight"].shape == (2, 16, 16)
  with safe_open(folder / "model.safetensors", "np") as file:
    config = json.loads(file.metadata()["config"])
  assert config["d"] == 8 and config["algo"] == "fb-aware"


def test_goal_spaces_by_name(tmp_path):
  data = write_dataset(tmp_path / "data.h5", obs=24)
  for goal, columns in [("height", "14:15"), ("height, velocity", "14:15,15:24"),
                        ("0:3,height", "0:3,14:15")]:
    folder = tmp_path / goal
    train(data, folder, "--steps", 2, "--goal", goal)
    assert json.loads(run("info", "--json", folder).stdout)["config"]["goal"] == columns
    count = sum(int(part.split(":")[1]) - int(part.split(":")[0]) for part in columns.split(","))
    assert load_file(folder / "model.safetensors")["B.s.in.weight"].shape == (16, count)
    train(data, folder, "--steps", 4, "--goal", goal, "--resume")
  error = refused("train", "--resume", "--steps", 6, "--goal", "velocity", "-o", tmp_path / "height")
  assert "the file has goal 14:15, which cannot change to 15:24" in error
  bad = lambda path, goal: refused("train", path, *TINY, "--goal", goal, "-o", tmp_path / "bad")
  assert "walker has no observation called 'heigth'; did you mean height?" in bad(data, "heigth")
  assert "14:15,," in bad(data, "height,,velocity") and "too long" in bad(data, "height," + "1" * 70)
  assert "not the 24 of walker" in bad(write_dataset(tmp_path / "other.h5"), "height")
  assert "--env" in bad(write_dataset(tmp_path / "nobody.h5", obs=24, env=""), "height")
  assert not (tmp_path / "bad").exists()


def test_each_seed_gets_a_model(data, tmp_path):
  folder = tmp_path / "run"
  train(data, folder, "--steps", 4, "--log-every", 2, "--seeds", 2, "--seed", 7)
  assert {"model.0.safetensors", "model.1.safetensors"} <= set(names(folder))
  assert len(read_log(folder)[0]["fb"]) == 2
  train(data, tmp_path / "alone", "--steps", 4, "--seed", 8)
  alone = load_file(tmp_path / "alone" / "model.safetensors")
  for name, values in load_file(folder / "model.1.safetensors").items():
    np.testing.assert_allclose(values, alone[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("algo", ["fb", "fb-aw", "fb-are", "fb-aware", "lap", "lap-aw"])
def test_resume_is_bit_identical_to_an_uninterrupted_run(algo, data, tmp_path):
  flags = ["--algo", algo, "--log-every", 5]
  if algo not in ("fb-are", "fb-aware"):
    flags += ["--blocks", 1]
  train(data, tmp_path / "whole", "--steps", 20, *flags)
  train(data, tmp_path / "parts", "--steps", 7, *flags)
  process = run("train", "--resume", "--device", "cpu", "-o", tmp_path / "parts", "--steps", 20,
                "--log-every", 5)  # on other threads: files do not record their number
  assert process.returncode == 0, process.stderr
  assert f"{algo}, d 8, batch 16, from step 7 on" in process.stdout
  for name in ("state.safetensors", "model.safetensors"):
    assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()
  losses = [[{k: v for k, v in line.items() if k not in ("seconds", "rate")}
             for line in read_log(tmp_path / part) if line["step"] % 5 == 0] for part in ("whole", "parts")]
  assert losses[0] == losses[1]


def test_saving_during_a_run_changes_nothing(data, tmp_path):
  train(data, tmp_path / "a", "--steps", 12)
  train(data, tmp_path / "b", "--steps", 12, "--save-every", 5, "--log-every", 3, "--threads", 2)
  for name in ("state.safetensors", "model.safetensors"):
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_model_does_not_record_its_device(data, tmp_path):
  train(data, tmp_path / "a", "--steps", 2)  # on a CPU; only the run's state is bound to it
  heads = [(tmp_path / "a" / f"{name}.safetensors").read_bytes()[:5000] for name in ("model", "state")]
  assert b'\\"device\\":\\"auto\\"' in heads[0] and b'\\"device\\":\\"cpu\\"' in heads[1]


def test_mapped_and_decompressed_data_give_identical_results(data, tmp_path):
  with h5py.File(data) as file, h5py.File(tmp_path / "chunked.h5", "w") as chunked:
    for name, table in file.items():
      chunked.create_dataset(name, data=table, chunks=True, compression="gzip")
    chunked.attrs["env"] = file.attrs["env"]
  train(data, tmp_path / "mapped", "--steps", 12)
  train(tmp_path / "chunked.h5", tmp_path / "read", "--steps", 12)
  states = [(tmp_path / run / "state.safetensors").read_bytes() for run in ("mapped", "read")]
  assert states[0] == states[1]


def test_ctrl_c_saves_and_resume_continues(data, tmp_path):
  folder = tmp_path / "run"
  process = subprocess.Popen([BFM, "train", data, *TINY, "-o", folder, "--steps", "1G", "--log-every",
                              "10"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
  log = folder / "log.jsonl"
  while not (log.exists() and log.stat().st_size) and process.poll() is None:
    time.sleep(0.02)
  process.send_signal(signal.SIGINT)
  _, error = process.communicate(timeout=60)
  assert process.returncode == 128 + signal.SIGINT, error
  assert "stopped at step" in error and "--resume" in error
  with safe_open(folder / "state.safetensors", "np") as file:
    step = int(file.metadata()["step"])
  assert run("train", "-r", *HERE, "-o", folder, "--steps", step + 5).returncode == 0
  train(data, tmp_path / "whole", "--steps", step + 5)
  assert (folder / "state.safetensors").read_bytes() == \
      (tmp_path / "whole" / "state.safetensors").read_bytes()


def test_a_killed_run_resumes_from_its_last_save(data, tmp_path):
  folder = tmp_path / "run"
  process = subprocess.Popen([BFM, "train", data, *TINY, "-o", folder, "--steps", "1G", "--log-every",
                              "1", "--save-every", "50"], stdout=subprocess.DEVNULL)
  while not (folder / "state.safetensors").exists() and process.poll() is None:
    time.sleep(0.02)
  process.kill()
  process.wait()
  with safe_open(folder / "state.safetensors", "np") as file:
    step = int(file.metadata()["step"])
  assert step % 50 == 0
  assert run("train", "-r", "-o", folder, "--steps", step + 3, "--log-every", 1).returncode == 0
  assert [line["step"] for line in read_log(folder)] == list(range(1, step + 4))


def test_two_processes_do_not_share_a_folder(data, tmp_path):
  folder = tmp_path / "run"
  process = subprocess.Popen([BFM, "train", data, *TINY, "-o", folder, "--steps", "1G", "--log-every",
                              "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
  log = folder / "log.jsonl"
  while not (log.exists() and log.stat().st_size) and process.poll() is None:
    time.sleep(0.02)
  record = (folder / "run.json").read_bytes()
  assert "another process" in refused("train", data, *TINY, "-o", folder, "--steps", 2)
  process.kill()
  process.wait()
  assert (folder / "run.json").read_bytes() == record and log.stat().st_size
  train(data, folder, "--steps", 2)


def test_a_process_does_not_overwrite_a_run_that_began_meanwhile(data, tmp_path):
  """The late process finds no run when it starts, and a finished one after it has read its data."""
  large = write_dataset(tmp_path / "large.h5", rows=300000)
  for i in range(20):
    folder = tmp_path / str(i)
    late = subprocess.Popen([BFM, "train", large, *TINY, "-o", folder, "--steps", "2"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while late.poll() is None and str(large) not in open(f"/proc/{late.pid}/maps").read():
      time.sleep(0.001)
    late.send_signal(signal.SIGSTOP)
    first = run("train", data, *TINY, "-o", folder, "--steps", 2)
    late.send_signal(signal.SIGCONT)
    error = late.communicate(timeout=60)[1]
    if first.returncode == 0:
      assert late.returncode == 2 and "has a run in it" in error
      train(data, folder, "--steps", 4, "--resume")
      assert len(read_log(folder)) == 2
      return
  pytest.skip("the late process was always first")


def test_temporary_files_of_killed_processes_are_removed(data, tmp_path):
  folder, gone = tmp_path / "run", 2**31 - 1  # larger than any process id
  folder.mkdir()
  theirs = [f"model.safetensors.{os.getpid()}.tmp", "model.safetensors.tmp", f"notes.{gone}.tmp"]
  for name in [*theirs, f"state.safetensors.{gone}.tmp", f"run.json.{gone}.tmp.{gone}.tmp"]:
    (folder / name).write_text("half")
  train(data, folder, "--steps", 2)
  assert sorted(path.name for path in folder.glob("*.tmp")) == sorted(theirs)


def test_data_truncated_during_a_run_is_reported(data, tmp_path):
  folder = tmp_path / "run"
  process = subprocess.Popen([BFM, "train", data, *TINY, "-o", folder, "--steps", "1G", "--save-every",
                              "50"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
  while not (folder / "state.safetensors").exists() and process.poll() is None:
    time.sleep(0.02)
  os.truncate(data, 0)
  _, error = process.communicate(timeout=60)
  assert process.returncode == 4
  assert "bfm: a file shrank, or its disk failed, while bfm was reading it" in error
  assert run("info", folder / "state.safetensors").returncode == 0


def test_resuming_a_finished_run_does_nothing(data, tmp_path):
  train(data, tmp_path / "run", "--steps", 3)
  before = (tmp_path / "run" / "state.safetensors").stat().st_mtime_ns
  process = run("train", "--resume", "-o", tmp_path / "run")
  assert process.returncode == 0 and "done already" in process.stdout
  assert (tmp_path / "run" / "state.safetensors").stat().st_mtime_ns == before


def test_several_files_are_merged(data, tmp_path):
  more = write_dataset(tmp_path / "more.h5", rows=100)
  process = run("train", data, more, *TINY, "--steps", 2, "-o", tmp_path / "run")
  assert "300 transitions" in process.stdout


def test_stride_makes_transitions_of_held_actions(tmp_path):
  held = np.repeat(np.random.default_rng(0).uniform(-1, 1, (50, 2)), 4, 0).astype("f4")
  data = write_dataset(tmp_path / "data.h5", actions=held, next_observations=None)
  process = run("train", data, *TINY, "--stride", 3, "--steps", 2, "-o", tmp_path / "run")
  # the four rows of an action have two windows of three; an episode's last action has three rows, one
  assert "in 4 episodes" in process.stdout and "94 transitions" in process.stdout, process
  process = run("train", "--resume", *HERE, "--steps", 4, "-o", tmp_path / "run")
  assert "94 transitions" in process.stdout, process


def test_prompt_states_come_from_all_times_of_episodes(tmp_path):
  """Even if their number divides the number of rows, as 100,000 divides a dataset of millions."""
  time = np.arange(5000) % 100
  states = {"infos/qpos": np.stack([time, np.arange(5000)], 1), "infos/qvel": np.zeros((5000, 2))}
  data = write_dataset(tmp_path / "data.h5", rows=5000, obs=4, env="point_mass", timeouts=time == 99,
                       observations=np.tile(time[:, None], 4), **states)
  train(data, tmp_path / "run", "--steps", 2, "--prompt-states", 500)
  model = load_file(tmp_path / "run" / "model.safetensors")
  qpos, obs = model["prompt.qpos"], model["prompt.obs"]
  assert (obs.T == qpos[:, 0]).all() and (np.diff(qpos[:, 1]) > 0).all()
  assert len(set(qpos[:, 0])) > 90 and 44 < qpos[:, 0].mean() < 55


# ---------------------------------- refusals ------------------------------------------------------


NAN = np.full((200, 5), np.nan, "f4")


@pytest.mark.parametrize("tables, part", [
    ({"observations": NAN}, "observations has NaN at row 0, column 0"),
    ({"next_observations": NAN}, "next_observations has NaN"),
    ({"actions": np.full((200, 2), np.inf)}, "actions has an infinity"),
    ({"actions": np.where(np.arange(400).reshape(200, 2) == 121, -1.5, 1)},
     "action -1.5 of transition 60 (episode 1, column 1) is not within ±1"),
    ({"actions": None}, "no dataset \"actions\""),
    ({"terminals": np.zeros(199)}, "terminals has 199 rows"),
])
def test_bad_data_leaves_no_files(tables, part, tmp_path):
  data = write_dataset(tmp_path / "data.h5", **tables)
  assert part in refused("train", data, *TINY, "-o", tmp_path / "runs" / "a")
  assert names(tmp_path) == ["data.h5"]


def test_states_of_another_size_are_not_used(tmp_path):
  states = {"infos/qpos": np.zeros((200, 1)), "infos/qvel": np.zeros((200, 2))}
  data = write_dataset(tmp_path / "data.h5", obs=4, env="point_mass", **states)
  output = run("train", data, *TINY, "--steps", 2, "-o", tmp_path / "run").stdout
  assert "no states" in output and "those of point_mass have 2, 2 and 0" in output
  assert "point_mass" in refused("train", data, *TINY, "--env", "point_mass", "-o", tmp_path / "b")
  assert names(tmp_path) == ["data.h5", "run"]


def test_data_of_another_domain_is_rejected(tmp_path):
  """Even if the sizes match, as those of cheetah and halfcheetah do."""
  data = write_dataset(tmp_path / "data.h5", obs=17, act=6, env="cheetah")
  error = refused("train", data, *TINY, "--env", "halfcheetah", "-o", tmp_path / "run")
  assert "the data is of cheetah, not of halfcheetah" in error and names(tmp_path) == ["data.h5"]


def test_data_without_states_is_reported(tmp_path):
  data = write_dataset(tmp_path / "data.h5", obs=4, env="point_mass")
  output = run("train", data, *TINY, "--steps", 2, "-o", tmp_path / "run").stdout
  assert "no states" in output and "infos/qpos" in output
  quiet = run("train", data, *TINY, "--steps", 2, "--prompt-states", 0, "-o", tmp_path / "none").stdout
  assert "prompt" not in quiet


@pytest.mark.parametrize("obs, act", [(4097, 2), (5, 1025)])
def test_data_with_too_many_columns_is_rejected(obs, act, tmp_path):
  data = write_dataset(tmp_path / "data.h5", rows=50, obs=obs, act=act)
  process = run("train", data, "-o", tmp_path / "run", *TINY)
  assert process.returncode == 3
  assert f"data.h5 has observations of {obs} and actions of {act} numbers" in process.stderr
  assert not (tmp_path / "run").exists()


def test_one_transition_is_too_few(tmp_path):
  data = write_dataset(tmp_path / "data.h5", rows=1)
  assert "1 transitions" in refused("train", data, *TINY, "-o", tmp_path / "run")
  assert names(tmp_path) == ["data.h5"]


@pytest.mark.parametrize("flags, part", [
    (["--blocks", "9"], "blocks"),
    (["--device", "nonsense"], "nonsense"),
    (["--goal", "7:9"], "goal"),
    (["--z-groups", "5"], "z-groups"),
    (["--stride", "2"], "stride is 2, but the number of windows"),
])
def test_bad_options_leave_no_files(flags, part, data, tmp_path):
  assert part in refused("train", data, *TINY, *flags, "-o", tmp_path / "run")
  assert names(tmp_path) == ["data.h5"]


def test_a_run_is_not_overwritten(data, tmp_path):
  train(data, tmp_path / "run", "--steps", 2)
  before = (tmp_path / "run" / "state.safetensors").read_bytes()
  assert "--resume" in refused("train", data, *TINY, "--steps", 4, "-o", tmp_path / "run")
  assert (tmp_path / "run" / "state.safetensors").read_bytes() == before


def test_resume_needs_a_run_and_its_data(data, tmp_path):
  assert "no run to resume" in refused("train", data, "--resume", "-o", tmp_path / "nothing")
  assert not (tmp_path / "nothing").exists()
  train(data, tmp_path / "run", "--steps", 2)
  other = write_dataset(tmp_path / "other.h5", rows=100)
  assert "not that of the run" in refused("train", other, "--resume", "-o", tmp_path / "run")
  error = refused("train", "--resume", "--steps", 4, "--d", 3, "-o", tmp_path / "run")
  assert "which cannot change to 3" in error
  for flag, was in [("z-pool", 4), ("z-groups", 1)]:
    process = run("train", "--resume", "--steps", 4, f"--{flag}", 8, "-o", tmp_path / "run")
    assert process.returncode == 2, process.stderr
    assert f"the file has {flag} {was}, which cannot change to 8" in process.stderr
  error = refused("train", "--resume", "--steps", 4, "--seed", 1, "-o", tmp_path / "run")
  assert "seed is 1, but the run in" in error and "has seed 0 and keeps it" in error
  assert run("train", "--resume", "--steps", 3, "--seed", 0, "-o", tmp_path / "run").returncode == 0
  data.unlink()
  assert "No such file" in refused("train", "--resume", "--steps", 4, "-o", tmp_path / "run")


def test_resume_accepts_0_for_the_default_of_the_run(data, tmp_path):
  flags = [*TINY, "--blocks", "0"]
  assert run("train", data, "-o", tmp_path / "run", "--steps", 2, *flags).returncode == 0
  again = run("train", "--resume", "-o", tmp_path / "run", "--steps", 4, "--blocks", "0")
  assert again.returncode == 0, again.stderr


def test_a_damaged_state_is_rejected(data, tmp_path):
  train(data, tmp_path / "run", "--steps", 2)
  state = tmp_path / "run" / "state.safetensors"
  state.write_bytes(state.read_bytes()[:-4])
  assert "state.safetensors" in refused("train", "--resume", "--steps", 4, "-o", tmp_path / "run")


def test_folders_that_cannot_be_made(data, tmp_path):
  (tmp_path / "file").write_text("")
  assert "not a folder" in refused("train", data, *TINY, "--steps", 2, "-o", tmp_path / "file")
  assert "cannot create" in refused("train", data, *TINY, "--steps", 2, "-o", tmp_path / "file" / "x")
  assert names(tmp_path) == ["data.h5", "file"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs resource limits")
def test_a_full_disk_keeps_the_last_save(data, tmp_path):
  import resource
  train(data, tmp_path / "run", "--steps", 2)
  before = (tmp_path / "run" / "state.safetensors").read_bytes()
  limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
  error = refused("train", "--resume", "--steps", 4, "-o", tmp_path / "run", preexec_fn=limit)
  assert "File too large" in error
  assert (tmp_path / "run" / "state.safetensors").read_bytes() == before
  assert names(tmp_path / "run") == ["log.jsonl", "model.safetensors", "run.json",
                                     "state.safetensors"]
