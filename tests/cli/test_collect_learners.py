"""bfm collect with learners: sources of rows, files beside the dataset, interruptions and resumes."""
import json
import random
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest
from conftest import BFM, refused, run
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from test_collect import info, read, rows_of

TINY = ["--hidden", 16, "--batch", 16, "--rnd-dim", 8, "--device", "cpu", "--threads", 1]
EARLY = [*TINY, "--random-steps", 20]


def collect(env, path, *more):
  process = run("collect", env, *EARLY, "-o", path, *more)
  assert process.returncode == 0, process.stderr
  return process


def log(path):
  return [json.loads(line) for line in path.read_text().splitlines()]


def test_mood_has_an_agent_for_each_task(tmp_path):
  path = tmp_path / "data.h5"
  out = collect("cheetah", path, "--with", "mood", "--envs", 8, "--steps", 4803, "--eval-episodes",
                1).stdout
  tables, notes = read(path)
  names = ["walk", "run", "walk_backward", "run_backward"]
  assert notes["collector"] == "mood" and json.loads(notes["options"])["updates"] == 0.31
  assert json.loads(notes["sources"]) == [f"td3 {name}" for name in names]
  assert [json.loads(notes["tasks"])[i] for i in range(4)] == names
  assert (tables["source"] == tables["task"]).all()
  assert (tables["source"] == tables["step"] % 8 // 2).all()
  assert np.bincount(tables["source"]).tolist() == [1202, 1201, 1200, 1200]
  assert all(f"  {name}\n" in out for name in names) and "the simulator was busy" in out

  # the first two agents are rewarded for speed forward, the others for speed backward
  speed, back = tables["next_observations"][:, 8], tables["source"] >= 2
  rewarded = tables["rewards"] > 0.05
  assert (speed[rewarded & ~back] > -0.5).all() and (speed[rewarded & back] < 0.5).all()
  assert rewarded[back].any() and rewarded[~back].any()

  # first episodes have different lengths: one of two environments restarts halfway
  assert np.unique(tables["episode"]).tolist() == [*range(8), 4001, 4003, 4005, 4007]
  assert all((tmp_path / f"data.{name}.safetensors").exists() for name in names)
  last = log(tmp_path / "data.log.jsonl")[-1]
  assert last["transitions"] == 4803 and set(last["returns"]) == set(names)
  assert len(last["losses"]["critic"]) == 4 and last["updates"] > 100 and 0 < last["simulator"] < 1


def test_rnd_collects_without_rewards(tmp_path):
  collect("point_mass", tmp_path / "data.h5", "--with", "rnd", "--envs", 4, "--steps", 1500,
          "--eval-every", 500)
  tables, notes = read(tmp_path / "data.h5")
  assert json.loads(notes["sources"]) == ["rnd"] and not tables["rewards"].any()
  assert json.loads(notes["options"])["updates"] == 0.05  # of a CPU
  described = info(tmp_path / "data.h5")
  assert described["collector"] == "rnd" and described["updates"] == 0.05
  assert (tables["task"] == -1).all() and len(tables["step"]) == 1500
  lines = log(tmp_path / "data.log.jsonl")
  assert [line["transitions"] for line in lines] == [500, 1000, 1500]
  assert all("bonus" in line["losses"] and "returns" not in line for line in lines)
  run("collect", "--resume", "--steps", 1600, "--device", "cpu", "-o", tmp_path / "data.h5")
  assert info(tmp_path / "data.h5")["updates"] == 0.05


def test_a_saved_policy_collects(tmp_path):
  collect("point_mass", tmp_path / "a.h5", "--with", "td3", "--envs", 4, "--steps", 400)
  model = tmp_path / "a.easy.safetensors"
  collect("point_mass", tmp_path / "b.h5", "--with", "policy", "--model", f"{model},{model}",
          "--envs", 4, "--steps", 200, "--task", "easy")
  tables, notes = read(tmp_path / "b.h5")
  assert json.loads(notes["sources"]) == [str(model)] * 2
  assert np.bincount(tables["source"]).tolist() == [100, 100]

  # random actions at the start are for learners only
  again = run("collect", "point_mass", "--with", "policy", "--model", f"{model},{model}", *TINY,
              "--random-steps", 0, "--envs", 4, "--steps", 200, "--task", "easy", "-o",
              tmp_path / "again.h5")
  assert again.returncode == 0, again.stderr
  np.testing.assert_array_equal(read(tmp_path / "again.h5")[0]["actions"], tables["actions"])
  state = tmp_path / "a.state.safetensors"
  for env, policy, part in [("cheetah", model, f"{model} is a policy of point_mass, not of cheetah"),
                            ("point_mass", state, f"{state} holds the state of learners")]:
    assert part in refused("collect", env, "--with", "policy", "--model", policy, *TINY, "-o",
                           tmp_path / "c.h5")
  without_names(model)
  assert "another domain than cheetah" in refused("collect", "cheetah", "--with", "policy", "--model",
                                                  model, *TINY, "-o", tmp_path / "c.h5")
  assert not (tmp_path / "c.h5").exists()


def test_noise_differs_between_policies_and_seeds(tmp_path):
  collect("point_mass", tmp_path / "a.h5", "--with", "td3", "--envs", 4, "--steps", 100)
  model = tmp_path / "a.easy.safetensors"
  signs = []
  for seed in (1, 2, 2**63 - 1):
    path = tmp_path / f"{seed}.h5"
    collect("point_mass", path, "--with", "policy", "--model", f"{model},{model}", "--envs", 4,
            "--steps", 400, "--sigma", 10, "--seed", seed)  # so much that the policies do not matter
    tables = read(path)[0]
    signs.append(np.sign(tables["actions"][np.argsort(tables["step"])]).reshape(100, 2, 2, 2))
  for a, b in [(signs[0], signs[1]), (signs[0], signs[2]), (signs[0][:, 0], signs[0][:, 1])]:
    assert 0.4 < np.mean(a == b) < 0.6


def test_a_policy_of_another_domain_with_the_same_sizes(tmp_path):
  collect("cheetah", tmp_path / "a.h5", "--with", "td3", "--task", "run", "--envs", 2, "--steps", 50)
  policy, level = tmp_path / "a.run.safetensors", tmp_path / "b.medium.safetensors"
  shutil.copy(policy, level)
  act = ["collect", "halfcheetah", "--envs", 2, "--steps", 50, *TINY, "-o", tmp_path / "b.h5"]
  part = "is a policy of cheetah, not of halfcheetah"
  assert f"{policy} {part}" in refused(*act, "--with", "policy", "--model", policy)
  assert f"{level} {part}" in refused(*act, "--with", "d4rl-medium")


def test_an_expression_can_be_the_task(tmp_path):
  collect("point_mass", tmp_path / "a.h5", "--with", "td3", "--task", "x > 0", "--envs", 2,
          "--steps", 300, "--eval-every", 300)
  tables, _ = read(tmp_path / "a.h5")
  assert (tables["task"] == -1).all() and set(np.unique(tables["rewards"])) <= {0, 1}
  assert (tmp_path / "a.policy.safetensors").exists()
  assert list(log(tmp_path / "a.log.jsonl")[-1]["returns"]) == ["x > 0"]


def test_ctrl_c_saves_learners_and_resume_continues(tmp_path):
  path = tmp_path / "data.h5"
  process = subprocess.Popen(
      list(map(str, [BFM, "collect", "point_mass", "--with", "mood", *EARLY, "--envs", 4, "--steps",
                     "1G", "--eval-every", "1G", "-o", path])),
      stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
  process.stdout.readline()
  time.sleep(1)
  process.send_signal(signal.SIGINT)
  _, error = process.communicate(timeout=60)
  assert process.returncode == 128 + signal.SIGINT and "stopped at transition" in error, error
  before, _ = read(path)
  rows = len(before["step"])
  state = (tmp_path / "data.state.safetensors").read_bytes()

  assert "started with 4" in refused("collect", "--resume", "--envs", 8, "--steps", rows + 100, "-o",
                                   path)
  process = run("collect", "--resume", "--steps", rows + 800, "--eval-every", 400, "-o", path)
  assert process.returncode == 0 and "scratch" not in process.stdout, process.stderr
  after, _ = read(path)
  assert len(np.unique(after["step"])) == rows + 800
  assert (after["observations"][:rows] == before["observations"]).all()
  lines = log(tmp_path / "data.log.jsonl")
  assert lines[-1]["transitions"] == rows + 800
  assert [line["step"] for line in lines] == sorted({line["step"] for line in lines})
  assert (tmp_path / "data.state.safetensors").read_bytes() != state
  assert "there already" in run("collect", "-r", "--steps", rows, "-o", path).stdout


def test_killed_learners_resume(tmp_path):
  path, rows = tmp_path / "data.h5", 0
  for moment in random.Random(2).choices([0.1, 0.5, 2.5], k=4):
    start = ["--resume"] if path.exists() else ["point_mass", "--with", "mood", "--envs", 4, *EARLY]
    process = subprocess.Popen(list(map(str, [BFM, "collect", *start, "--steps", "1G", "-o", path])),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert "collect point_mass with mood" in line, process.stderr.read()
    time.sleep(moment)
    process.kill()
    process.wait()
    tables, _ = read(path)
    assert min(map(len, tables.values())) >= rows
    rows = min(map(len, tables.values()))
    assert len(np.unique(tables["step"][:rows])) == rows
  process = run("collect", "--resume", "--steps", rows + 400, "-o", path)
  assert process.returncode == 0 and "start from scratch" in process.stdout, process.stderr
  assert info(path)["transitions"] == rows + 400


def test_resume_removes_log_lines_of_lost_rows(tmp_path):
  """A killed collector has logged evaluations of rows that are not in the file."""
  path, beside = tmp_path / "data.h5", tmp_path / "data.log.jsonl"
  flags = ["--with", "td3", "--task", "easy", *EARLY, "--envs", 4, "--eval-every", 200]
  collect("point_mass", path, *flags, "--steps", 400)
  last = log(beside)[-1]
  with open(beside, "a") as file:
    for lost in (500, 700):
      file.write(json.dumps({**last, "transitions": lost, "returns": {"easy": 1000}}) + "\n")
  process = run("collect", "--resume", "--steps", 800, "-o", path)
  assert process.returncode == 0, process.stderr
  assert [line["transitions"] for line in log(beside)] == [200, 400, 600, 800]
  assert all(line["returns"]["easy"] < 1000 for line in log(beside))


def test_learners_are_saved_within_seconds(tmp_path):
  path, state = tmp_path / "data.h5", tmp_path / "data.state.safetensors"
  process = subprocess.Popen(list(map(str, [BFM, "collect", "point_mass", "--with", "td3", *EARLY, "-q",
                                            "--envs", 4, "--steps", "1G", "-o", path])))
  end = time.time() + 45
  while not state.exists() and time.time() < end:
    time.sleep(0.05)
  process.kill()
  process.wait()
  assert state.exists()
  rows = rows_of(path)
  process = run("collect", "--resume", "--steps", rows + 400, "-o", path)
  assert process.returncode == 0 and "scratch" not in process.stdout, process.stderr


def without_names(path):
  """Rewrite the state as earlier versions did, without the names of environment and task."""
  with safe_open(path, "np") as file:
    kept = {key: text for key, text in file.metadata().items() if key not in ("env", "task")}
  save_file(load_file(path), path, kept)


def test_learners_with_a_large_seed_resume(tmp_path):
  path = tmp_path / "data.h5"
  collect("point_mass", path, "--with", "rnd", "--envs", 2, "--steps", 100, "--seed", 2**63 - 1)
  process = run("collect", "-r", "--steps", 200, "-o", path)
  assert process.returncode == 0, process.stderr
  assert info(path)["transitions"] == 200


def test_the_state_of_other_learners_is_rejected(tmp_path):
  for env in ("point_mass", "cheetah"):
    collect(env, tmp_path / f"{env}.h5", "--with", "rnd", "--envs", 2, "--steps", 100)
  easy = tmp_path / "easy.h5"
  collect("point_mass", easy, "--with", "td3", "--task", "easy", "--envs", 2, "--steps", 100)
  state = tmp_path / "cheetah.state.safetensors"
  go_on = ["collect", "--resume", "--steps", 200, "-o", tmp_path / "cheetah.h5"]
  for name, who in [("point_mass", "rnd in point_mass"), ("easy", "td3 easy in point_mass")]:
    shutil.copy(tmp_path / f"{name}.state.safetensors", state)
    assert f"{state} holds the state of {who}, but the data is from rnd in cheetah" in refused(*go_on)
  shutil.copy(tmp_path / "point_mass.state.safetensors", state)
  without_names(state)
  assert "the state of other learners in another domain, but the data is from rnd in cheetah" in refused(*go_on)
  without_names(tmp_path / "point_mass.state.safetensors")
  process = run("collect", "--resume", "--steps", 200, "-o", tmp_path / "point_mass.h5")
  assert process.returncode == 0, process.stderr


def test_d4rl(tmp_path):
  """Training to D4RL's levels takes too long for a test, so other policies take their places."""
  replay = tmp_path / "replay.h5"
  collect("hopper", replay, "--with", "d4rl-medium-replay", "--until", -100, "--envs", 4, "--steps",
          4000, "--eval-every", 400)
  tables, notes = read(replay)
  assert len(tables["step"]) == 400 == notes["planned_rows"]

  path = tmp_path / "medium.h5"
  error = refused("collect", "hopper", "--with", "d4rl-medium", "--steps", 300, "--train-steps", 200,
                  "--envs", 4, *TINY, "-o", path)
  assert "medium begins at 1065" in error and "--train-steps" in error
  shutil.copy(tmp_path / "replay.run.safetensors", tmp_path / "medium.medium.safetensors")
  process = run("collect", "--resume", "-o", path)
  assert process.returncode == 0, process.stderr
  tables, notes = read(path)
  assert len(tables["step"]) == 300 and notes["collector"] == "d4rl-medium"
  assert tables["rewards"].any() and tables["terminals"].any()

  for level in ["medium", "expert"]:
    shutil.copy(tmp_path / "replay.run.safetensors", tmp_path / f"both.{level}.safetensors")
  collect("hopper", tmp_path / "both.h5", "--with", "d4rl-medium-expert", "--steps", 200, "--envs", 4)
  tables, notes = read(tmp_path / "both.h5")
  assert json.loads(notes["sources"]) == ["medium", "expert"]
  assert np.bincount(tables["source"]).tolist() == [100, 100]


def test_the_agent_of_a_level_is_the_closest_to_it(tmp_path):
  """The agent with the return closest to the level is kept, not the last one. A second run that ends at
  this agent's evaluation has the same parameters."""
  seek = ["--with", "d4rl-medium-replay", "--until", 1e6, "--envs", 4, "--eval-every", 200]
  collect("hopper", tmp_path / "all.h5", *seek, "--steps", 2000)
  returns = {line["transitions"]: line["returns"]["run"] for line in log(tmp_path / "all.log.jsonl")}
  assert len(returns) == 10
  best = max(returns, key=returns.get)
  assert best < 2000, "choose another seed: the last evaluation must not be the best"
  collect("hopper", tmp_path / "part.h5", *seek, "--steps", best)
  kept, part = (load_file(tmp_path / name) for name in ("all.nearest.safetensors",
                                                        "part.run.safetensors"))
  last = load_file(tmp_path / "all.run.safetensors")
  assert all((kept[name] == part[name]).all() for name in part)
  assert any((kept[name] != last[name]).any() for name in last)


def test_policies_get_equal_shares(tmp_path):
  """Even if a killed collector has lost more rows of one policy than of the other."""
  collect("point_mass", tmp_path / "a.h5", "--with", "td3", "--envs", 4, "--steps", 100)
  model, path = tmp_path / "a.easy.safetensors", tmp_path / "b.h5"
  collect("point_mass", path, "--with", "policy", "--model", f"{model},{model}", "--envs", 4,
          "--steps", 200)
  with h5py.File(path, "r+") as file:
    sources = file["infos/source"]
    sources[np.flatnonzero(sources[:])[:6]] = 0
  process = run("collect", "--resume", "--steps", 401, "-o", path)
  assert process.returncode == 0, process.stderr
  assert np.bincount(read(path)[0]["source"]).tolist() == [201, 200]


def test_resume_keeps_the_agent_closest_to_the_level(tmp_path):
  """The first evaluation is the closest to the level; those after the resume are not."""
  seek = ["--with", "d4rl-medium-replay", "--envs", 4, "--eval-every", 200]
  first, path = tmp_path / "first.h5", tmp_path / "data.h5"
  collect("hopper", first, *seek, "--until", 1e6, "--steps", 200)
  level = log(tmp_path / "first.log.jsonl")[0]["returns"]["run"] + 1e-3
  collect("hopper", path, *seek, "--until", level, "--steps", 400)
  kept = load_file(tmp_path / "first.run.safetensors")
  process = run("collect", "--resume", "--steps", 1000, "-o", path)
  assert process.returncode == 0, process.stderr
  nearest = load_file(tmp_path / "data.nearest.safetensors")
  assert all((kept[name] == nearest[name]).all() for name in kept)
  lines = log(tmp_path / "data.log.jsonl")
  assert len(lines) > 2 and {line["nearest"] for line in lines} == {lines[0]["returns"]["run"]}


def test_resume_checks_whether_the_return_is_reached(tmp_path):
  path = tmp_path / "data.h5"
  collect("hopper", path, "--with", "td3", "--until", -100, "--envs", 4, "--steps", 4000,
          "--eval-every", 400)
  process = run("collect", "--resume", "--steps", 8000, "-o", path)
  assert process.returncode == 0, process.stderr
  assert info(path)["transitions"] == 400


def test_an_agent_of_the_first_level_may_be_the_expert(tmp_path):
  seek = ["--envs", 4, "--eval-every", 200]
  collect("hopper", tmp_path / "a.train.h5", *seek, "--with", "d4rl-medium-replay", "--steps", 1000)
  before = (tmp_path / "a.train.nearest.safetensors").read_bytes()
  (tmp_path / "a.medium.safetensors").write_bytes(before)
  collect("hopper", tmp_path / "a.h5", *seek, "--with", "d4rl-medium-expert", "--steps", 100,
          "--train-steps", 1200)
  lines = log(tmp_path / "a.train.log.jsonl")
  best = max(lines, key=lambda line: line["returns"]["run"])
  assert lines[-1]["nearest"] == best["returns"]["run"]
  assert best["transitions"] <= 1000, "choose another seed: the best evaluation must be before the level"
  assert (tmp_path / "a.expert.safetensors").read_bytes() == before

  (tmp_path / "a.medium.safetensors").unlink()
  error = refused("collect", "--resume", "--steps", 200, "-o", tmp_path / "a.h5")
  assert "a.medium.safetensors is missing" in error and "put it back" in error


def test_recordings_of_levels_have_half_the_noise(tmp_path):
  collect("hopper", tmp_path / "a.h5", "--with", "td3", "--task", "run", "--envs", 4, "--steps", 100)
  policy = tmp_path / "a.run.safetensors"
  shutil.copy(policy, tmp_path / "b.medium.safetensors")
  collect("hopper", tmp_path / "b.h5", "--with", "d4rl-medium", "--envs", 4, "--steps", 100)
  collect("hopper", tmp_path / "c.h5", "--with", "policy", "--model", policy, "--sigma", 0.1, "--envs",
          4, "--steps", 100)
  np.testing.assert_array_equal(read(tmp_path / "b.h5")[0]["actions"],
                                read(tmp_path / "c.h5")[0]["actions"])


def test_a_diverging_learner_keeps_the_data(tmp_path):
  path = tmp_path / "data.h5"
  process = run("collect", "point_mass", "--with", "td3", *EARLY, "--lr", 10, "--tau", 1, "--gamma",
                1, "--updates", 20, "--task", "1e30 * x", "--envs", 4, "--steps", "1M", "-o", path)
  assert process.returncode == 7, process.stderr
  tables, _ = read(path)
  rows = len(tables["step"])
  assert f"the {rows} transitions collected before are in" in process.stderr
  assert process.stderr.count("\n") == 1 and rows > 0


@pytest.mark.parametrize("arguments, part", [
    (["walker", "--with", "mod"], "did you mean mood?"),
    (["walker", "--with", "mood", "--envs", 10], "multiple of the 4 agents of mood"),
    (["walker", "--with", "mood", "--task", "run"], "leave out --task"),
    (["walker", "--with", "td3"], "--task spin: walker has stand, walk, run, spin"),
    (["walker", "--with", "td3", "--task", "jump"], "jump"),
    (["walker", "--with", "mood", "--steps", 0], "steps is 0"),
    (["walker", "--with", "d4rl-medium"], "not for walker"),
    (["hopper", "--with", "d4rl-medium", "--task", "5"], 'd4rl-medium learns the task run, not "5"'),
    (["hopper", "--with", "d4rl-medium-replay", "--task", "5"], "leave out --task"),
    (["walker", "--with", "policy"], "--model"),
    (["walker", "--with", "rnd", "--hiden", 16], "did you mean --hidden?"),
    (["walker", "--with", "rnd", "--until", 900], "--until is for learners with a --task"),
    (["hopper", "--with", "d4rl-medium", "--until", 900], "until is 900, but --with is d4rl-medium"),
    (["walker", "--task", "run", "--until", 900], "until is 900, but --with is random"),
])
def test_rejected_commands_leave_no_files(arguments, part, tmp_path):
  assert part in refused("collect", *arguments, "-o", tmp_path / "data.h5")
  assert not list(tmp_path.iterdir())


def test_missing_and_damaged_companions(tmp_path):
  path = tmp_path / "data.h5"
  assert "nothing.safetensors" in refused("collect", "point_mass", "--with", "policy", "--model",
                                          tmp_path / "nothing.safetensors", "-o", path)
  assert not path.exists()
  collect("point_mass", path, "--with", "mood", "--envs", 2, "--steps", 100)
  state = tmp_path / "data.state.safetensors"
  state.write_bytes(state.read_bytes()[:-8])
  assert "state.safetensors" in refused("collect", "-r", "--steps", 200, "-o", path)
  state.unlink()
  assert "start from scratch" in run("collect", "-r", "--steps", 200, "-o", path).stdout
  assert info(path)["transitions"] == 200
