"""bfm train --algo bc, td3bc, iql, xql: policies of single tasks, their files, resuming, and errors."""
import json
import re
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest
from conftest import BFM, HERE, TINY, refused, run, write_dataset
from safetensors import safe_open
from safetensors.numpy import load_file

ALGOS = ["bc", "td3bc", "iql", "xql"]
SMALL = [*HERE, "--batch", "16", "--hidden", "16"]


@pytest.fixture(scope="module")
def moves(tmp_path_factory):
  path = tmp_path_factory.mktemp("offline") / "data.h5"
  assert run("collect", "point_mass", "--steps", 1000, "-o", path).returncode == 0
  return path


def train(data, folder, algo, *more):
  process = run("train", data, *SMALL, "--algo", algo, "-o", folder, *more)
  assert process.returncode == 0, process.stderr
  return process


def lines(path):
  return [json.loads(line) for line in path.read_text().splitlines()]


def names(folder):
  return sorted(path.name for path in folder.iterdir() if path.suffix not in (".svg", ".png"))


@pytest.mark.parametrize("algo", ALGOS)
def test_a_policy_is_trained_evaluated_and_described(algo, moves, tmp_path):
  folder = tmp_path / "run"
  process = train(moves, folder, algo, "--task", "easy", "--steps", 20, "--log-every", 10,
                  "--eval-every", 10, "--eval-episodes", 2, "--eval-steps", 5)
  assert names(folder) == ["best.safetensors", "eval.jsonl", "log.jsonl", "model.safetensors",
                           "run.json", "state.safetensors"]
  assert f"{algo}, batch 16" in process.stdout and str(folder / "model.safetensors") in process.stdout
  assert [line["step"] for line in lines(folder / "log.jsonl")] == [10, 20]
  assert "actor" in lines(folder / "log.jsonl")[0]
  found = lines(folder / "eval.jsonl")
  assert [(l["step"], l["seed"], l["task"], l["es"], l["episodes"]) for l in found] == [
      (10, 0, "easy", 0, 2), (20, 0, "easy", 0, 2)]
  with safe_open(folder / "model.safetensors", "np") as file:
    head = file.metadata()
  assert head["bfm"] == "policy" and head["env"] == "point_mass" and head["task"] == "easy"
  info = json.loads(run("info", "--json", folder).stdout)
  assert info["config"]["algo"] == algo and info["env"] == "point_mass" and info["step"] == 20
  assert ("expectile" in info["config"]) == (algo == "iql") and "replay" not in info["config"]
  config = json.loads(run("info", "--json", folder / "model.safetensors").stdout)["config"]
  assert ("alpha" in config) == (algo == "td3bc") and "nstep" not in config

  value = run("eval", folder / "model.safetensors", "--episodes", 2, "--steps", 5, "--json")
  assert json.loads(value.stdout)["task"] == "easy"
  assert json.loads(value.stdout)["mean"] == pytest.approx(found[-1]["mean"], abs=1e-4)
  other = run("eval", folder / "model.safetensors", "--tasks", "x > 0,new", "--episodes", 1,
              "--steps", 2, "--json")
  assert len(other.stdout.splitlines()) > 2
  assert run("play", folder / "model.safetensors", "--steps", 3, "-o",
             tmp_path / "strip.png").returncode == 0
  error = refused("prompt", folder / "model.safetensors", "--task", "easy")
  assert "the policy of a single task, easy" in error and "bfm eval" in error


def test_tasks_and_seeds_have_policies_of_their_own(moves, tmp_path):
  both, one = tmp_path / "both", tmp_path / "one"
  tasks = "easy, x > 0.1"
  more = ["--steps", 8, "--eval-every", 8, "--eval-episodes", 1, "--eval-steps", 3]
  train(moves, both, "iql", "--task", tasks, "--seeds", 2, "--seed", 5, *more)
  models = [f"{name}.{task}.{seed}.safetensors" for name in ("best", "model")
            for task in ("easy", "task1") for seed in range(2)]
  assert names(both) == sorted([*models, "eval.jsonl", "log.jsonl", "run.json", "state.safetensors"])
  found = lines(both / "eval.jsonl")
  assert [(l["task"], l["seed"]) for l in found] == [("easy", 5), ("easy", 6), ("x > 0.1", 5),
                                                     ("x > 0.1", 6)]
  assert len(lines(both / "log.jsonl")[0]["value"]) == 4
  train(moves, one, "iql", "--task", "x > 0.1", "--seed", 6, *more)
  assert "model.safetensors" in names(one)
  alone, beside = (load_file(path) for path in (one / "model.safetensors",
                                                both / "model.task1.1.safetensors"))
  for name in alone:
    np.testing.assert_allclose(beside[name], alone[name], rtol=1e-3, atol=1e-5)
  config = json.loads(run("info", "--json", both / "model.task1.1.safetensors").stdout)["config"]
  assert config["seed"] == 6 and config["seeds"] == 1
  # without --task, all tasks of the data
  assert "tasks  easy\n" in train(moves, tmp_path / "bc", "bc", "--steps", 2).stdout


@pytest.mark.parametrize("algo", ALGOS)
def test_resume_is_bit_identical_to_an_uninterrupted_run(algo, moves, tmp_path):
  flags = ["--task", "easy,x", "--seeds", 2, "--log-every", 5, "--eval-every", 6,
           "--eval-episodes", 1, "--eval-steps", 3]
  anneal = ["--anneal", 20] if algo in ("iql", "xql") else []
  train(moves, tmp_path / "whole", algo, *flags, *anneal, "--steps", 20)
  train(moves, tmp_path / "parts", algo, *flags, *anneal, "--steps", 7)
  process = run("train", "--resume", "--device", "cpu", "-o", tmp_path / "parts", "--steps", 20)
  assert process.returncode == 0, process.stderr
  assert "from step 7 on" in process.stdout
  for name in ("state.safetensors", "model.easy.0.safetensors", "best.x.1.safetensors"):
    assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()
  evaluations = [[l for l in lines(tmp_path / part / "eval.jsonl") if l["step"] != 7]
                 for part in ("whole", "parts")]
  assert evaluations[0] == evaluations[1] and len(evaluations[0]) == 4 * 4


def test_ctrl_c_saves_and_resume_continues(moves, tmp_path):
  folder = tmp_path / "run"
  process = subprocess.Popen([BFM, "train", moves, *SMALL, "--algo", "td3bc", "--task", "easy",
                              "--steps", "100M", "-o", folder], stderr=subprocess.PIPE, text=True)
  while not (folder / "log.jsonl").exists() or not (folder / "log.jsonl").read_text():
    assert process.poll() is None, process.stderr.read()
    time.sleep(0.02)
  process.send_signal(signal.SIGINT)
  _, error = process.communicate(timeout=30)
  assert process.returncode == 130 and "--resume" in error
  step = int(re.search(r"stopped at step (\d+)", error)[1])
  done = run("train", "--resume", "-o", folder, "--steps", step + 3)
  assert done.returncode == 0 and "done   3 steps" in done.stdout


def test_rewards_are_of_the_state_after_the_action(moves, tmp_path):
  with h5py.File(moves) as file:
    n = len(file["actions"])
    tables = {name: file[name][:] for name in ("observations", "actions", "next_observations",
                                               "terminals", "timeouts", "infos/qpos", "infos/qvel")}
  x = tables["infos/qpos"][:, 0]
  ends = tables["timeouts"].astype(bool) | tables["terminals"].astype(bool)
  ends[-1] = True
  wanted = np.where(ends, x, np.roll(x, -1))
  assert np.abs(wanted[~ends] - tables["next_observations"][~ends, 0]).max() < 1e-5
  # the same rewards, stored, for a task whose rewards the file has
  hopper = write_dataset(tmp_path / "hopper.h5", rows=n, obs=11, act=3, env="hopper",
                         rewards=wanted.astype("f4"))
  error = refused("train", write_dataset(tmp_path / "zeros.h5", obs=11, act=3, env="hopper"), *SMALL,
                  "--algo", "iql", "--task", "run", "-o", tmp_path / "no")
  assert "the task run of hopper needs rewards in the data, but they are all 0" in error
  off, returns = tmp_path / "off", tmp_path / "returns"
  train(hopper, returns, "iql", "--task", "run", "--steps", 2, "--log-every", 1)
  train(hopper, off, "iql", "--task", "run", "--steps", 2, "--log-every", 1, "--reward-scale", "off")
  starts = np.flatnonzero(np.r_[True, (np.arange(n) % 50 == 49)[:-1]])
  sums = np.add.reduceat(wanted, starts)
  scale = 1000 / (sums.max() - sums.min())
  critic = [lines(folder / "log.jsonl")[0]["critic"] for folder in (off, returns)]
  value = [lines(folder / "log.jsonl")[0]["q"] for folder in (off, returns)]
  assert value[0] == value[1]  # the same Q before the first update
  assert scale > 10 and critic[1] > scale * critic[0]


def test_options_that_do_not_apply_are_refused(moves, tmp_path):
  bad = lambda *flags: refused("train", moves, *HERE, "-o", tmp_path / "bad", *flags)
  assert "--blocks is not an option of iql" in bad("--algo", "iql", "--blocks", 8)
  assert "--expectile is not an option of td3bc" in bad("--algo", "td3bc", "--expectile", 0.8)
  assert "--gamma is not an option of bc" in bad("--algo", "bc", "--gamma", 0.9)
  assert "--prompt-states is an option of agents that are prompted, but iql" in bad(
      "--algo", "iql", "--prompt-states", 10)
  assert "--expectile is an option of single-task agents, not of fb" in bad(
      "--algo", "fb", "--expectile", 0.8)
  assert "--expectile is an option of single-task agents, not of fb-aware" in bad("--expectile", 0.8)
  assert "--task is an option of bc, td3bc, iql and xql" in bad("--task", "easy")
  assert "--eval-episodes needs --eval-every" in bad("--algo", "iql", "--eval-episodes", 3)
  assert "did you mean iql?" in bad("--algo", "iqd")
  error = bad("--algo", "iql", "--task", "easi")
  assert "--task easi: " in error and "did you mean the task easy?" in error
  error = bad("--algo", "iql", "--task", "in,new", "--seeds", 20)
  assert "5 tasks with 20 seeds are 100 policies; a run trains at most 64" in error
  assert "--task has easy twice: name each task once" in bad("--algo", "iql", "--task", "in,easy")
  nobody = write_dataset(tmp_path / "nobody.h5", env="")
  error = refused("train", nobody, *SMALL, "--algo", "iql", "--task", "run", "-o", tmp_path / "bad")
  assert "the data does not say its domain: give --env" in error
  error = refused("train", write_dataset(tmp_path / "walker.h5", obs=24, act=6), *SMALL, "--algo",
                  "iql", "--task", "run", "-o", tmp_path / "bad")
  assert "no infos/qpos and infos/qvel" in error
  assert not (tmp_path / "bad").exists()
  help = run("train", "--help").stdout
  assert "Single-task agents (--algo bc, td3bc, iql or xql)" in help
  assert "--expectile" in help and "--nstep" not in help


def test_a_resume_keeps_the_run(moves, tmp_path):
  folder = tmp_path / "run"
  train(moves, folder, "iql", "--task", "easy", "--steps", 3)
  again = lambda *flags: refused("train", "--resume", "-o", folder, *flags)
  assert "the policy's learning rate falls to 0 at step 3" in again("--steps", 5)
  assert "lr is 0.0003 in the run in" in again("--lr", "1e-3")
  assert 'task is "easy" in the run in' in again("--task", "x")
  assert "has another algorithm" in again("--algo", "bc")
  assert run("train", "--resume", "-o", folder, "--algo", "iql").stdout.endswith("done already\n")
  agent = tmp_path / "agent"
  assert run("train", moves, *TINY, "--steps", 2, "-o", agent).returncode == 0
  assert "has another algorithm" in refused("train", "--resume", "-o", agent, "--algo", "iql")


def test_divergence_stops_the_run(moves, tmp_path):
  folder = tmp_path / "run"
  process = run("train", moves, *SMALL, "--algo", "td3bc", "--task", "easy", "--lr", 10, "--steps",
                "2k", "--save-every", 1, "-o", folder)
  assert process.returncode == 7, (process.returncode, process.stderr)
  assert "the models and the state of step" in process.stderr and "mean of Q" in process.stderr
  assert "model.safetensors" in names(folder)
