"""bfm train: evaluations during the run, interruptions in an evaluation, recipes, divergence."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest
from conftest import BFM, HERE, TINY, refused, run, write_dataset
from safetensors import safe_open

EVAL = ["--eval-every", 20, "--eval-episodes", 3, "--eval-steps", 10, "--eval-es", "both",
        "--prompt-states", 200, "--es", 4]


@pytest.fixture(scope="module")
def point_mass(tmp_path_factory):
  path = tmp_path_factory.mktemp("data") / "point_mass.h5"
  process = run("collect", "point_mass", "--steps", 1000, "--envs", 4, "-o", path)
  assert process.returncode == 0, process.stderr
  return path


def lines(path):
  return [json.loads(line) for line in path.read_text().splitlines()]


def train(data, folder, *more):
  process = run("train", data, *TINY, "-o", folder, *more)
  assert process.returncode == 0, process.stderr
  return process


def score(evals, step, seed):
  return np.mean([e["mean"] for e in evals if (e["step"], e["seed"], e["es"]) == (step, seed, 4)])


@pytest.fixture(scope="module")
def evaluated(point_mass, tmp_path_factory):
  """The folder of an uninterrupted run with three evaluations."""
  folder = tmp_path_factory.mktemp("evaluated") / "run"
  train(point_mass, folder, "--steps", 50, "--seeds", 2, "--log-every", 10, *EVAL)
  return folder


def test_models_contain_prompt_states(evaluated):
  with safe_open(evaluated / "model.0.safetensors", "np") as file:
    assert file.metadata()["env"] == "point_mass"
    assert file.get_tensor("prompt.obs").shape == (200, 4)


def test_every_task_and_seed_is_evaluated(evaluated):
  evals = lines(evaluated / "eval.jsonl")
  tasks = {e["task"] for e in evals}
  assert {"easy", "reach_top_left"} <= tasks
  found = [(e["step"], e["seed"], e["es"], e["task"]) for e in evals]
  assert len(found) == len(set(found)) == 3 * 2 * 2 * len(tasks)
  assert [s for s in dict.fromkeys(e["step"] for e in evals)] == [20, 40, 50]
  assert not list(evaluated.glob("pending*"))


def test_more_seeds_are_evaluated_than_run_at_once(point_mass, tmp_path):
  train(point_mass, tmp_path / "run", "--steps", 20, "--seeds", 9, "--seed", 3, *EVAL,
        "--eval-tasks", "easy", "--eval-es", "on")
  evals = lines(tmp_path / "run" / "eval.jsonl")
  assert [(e["step"], e["seed"]) for e in evals] == [(20, 3 + i) for i in range(9)]
  assert len(list((tmp_path / "run").glob("best.*.safetensors"))) == 9


def test_the_best_model_is_kept(evaluated):
  evals = lines(evaluated / "eval.jsonl")
  for replica in range(2):
    with safe_open(evaluated / f"best.{replica}.safetensors", "np") as file:
      best = int(file.metadata()["step"])
    scores = [score(evals, step, replica) for step in (20, 40, 50)]
    assert score(evals, best, replica) == max(scores)


@pytest.mark.parametrize("before, after", [
    (["--eval-tasks", "x + 100"], ["--eval-tasks", "x"]),
    (["--eval-tasks", "x, y + 100"], ["--eval-tasks", "x"]),
    (["--eval-tasks", "x + 100", "--eval-es", "on"], ["--eval-tasks", "x", "--eval-es", "off"])])
def test_the_best_model_is_chosen_by_the_current_tasks(before, after, point_mass, tmp_path):
  train(point_mass, tmp_path / "run", "--steps", 20, *EVAL, *before)
  process = run("train", "--resume", "--steps", 60, "-o", tmp_path / "run", *after)
  assert process.returncode == 0, process.stderr
  evals = [e for e in lines(tmp_path / "run" / "eval.jsonl") if e["step"] > 20]
  most = max(e["es"] for e in evals)
  scores = {e["step"]: e["mean"] for e in evals if e["es"] == most}
  with safe_open(tmp_path / "run" / "best.safetensors", "np") as file:
    assert scores.get(int(file.metadata()["step"])) == max(scores.values())


def test_the_best_model_has_its_evaluation_in_the_log(point_mass, tmp_path):
  """The run is killed after its best step and resumed from an older one with another learning rate."""
  folder = tmp_path / "run"
  train(point_mass, folder, "--steps", 20, *EVAL)
  state, first = (folder / "state.safetensors").read_bytes(), lines(folder / "eval.jsonl")
  assert run("train", "--resume", "--steps", 60, "-o", folder).returncode == 0
  (folder / "best.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
  (folder / "state.safetensors").write_bytes(state)
  rest = lines(folder / "eval.jsonl")[len(first):]
  evals = [{**line, "mean": line["mean"] + 1000} for line in first] + rest
  (folder / "eval.jsonl").write_text("".join(json.dumps(line) + "\n" for line in evals))
  process = run("train", "--resume", *HERE, "--lr", 1e-6, "--steps", 40, "-o", folder)
  assert process.returncode == 0, process.stderr
  assert {line["step"] for line in lines(folder / "eval.jsonl")} == {20, 40}
  with safe_open(folder / "best.safetensors", "np") as file:
    assert int(file.metadata()["step"]) == 40


@pytest.mark.parametrize("flags", [["--eval-tasks", "easy"], ["--eval-episodes", 3],
                                   ["--eval-steps", 10], ["--eval-es", "both"]])
def test_options_of_evaluations_need_eval_every(flags, point_mass, tmp_path):
  error = refused("train", point_mass, *TINY, "--steps", 5, *flags, "-o", tmp_path / "run")
  assert flags[0] in error and "--eval-every" in error
  assert not (tmp_path / "run").exists()


def test_losses_and_rates_are_logged(evaluated):
  log = lines(evaluated / "log.jsonl")
  assert [line["step"] for line in log] == [10, 20, 30, 40, 50]
  assert all(line["rate"] > 0 and len(line["fb"]) == 2 for line in log)


@pytest.mark.skipif(not shutil.which("gnuplot"), reason="needs gnuplot")
def test_curves_are_drawn(evaluated, tmp_path):
  assert (evaluated / "curves.png").read_bytes().startswith(b"\x89PNG")
  assert "reach_top_left" in (evaluated / "curves.svg").read_text()
  process = run("plot", evaluated, evaluated, "-o", tmp_path / "both.svg")
  assert process.returncode == 0, process.stderr
  assert (tmp_path / "both.svg").exists() and (tmp_path / "both.png").exists()
  assert "no evaluations" in refused("plot", tmp_path, "-o", tmp_path / "x")
  assert "No such file" in refused("plot", tmp_path / "nowhere", "-o", tmp_path / "x")
  log = tmp_path / "mood.log.jsonl"
  log.write_text('{"step": 1, "transitions": 128, "losses": {}}\n')
  assert "no returns" in refused("plot", log, "-o", tmp_path / "x")
  log.write_text("".join('{"transitions": %d, "returns": {"stand": %d}}\n' % x for x in [(128, 3), (256, 9)]))
  assert run("plot", log, "-o", tmp_path / "x").returncode == 0
  assert "transitions" in (tmp_path / "x.svg").read_text()
  assert "transitions" not in (tmp_path / "both.svg").read_text()
  assert "stand" in (tmp_path / "x.svg").read_text()


@pytest.mark.skipif(not shutil.which("gnuplot"), reason="needs gnuplot")
def test_every_run_is_drawn_with_a_distinct_name(evaluated, tmp_path):
  runs = [tmp_path / place / "fb" for place in ("walker", "cheetah")] + [tmp_path / "fb-aw"]
  for folder in runs:
    folder.mkdir(parents=True)
    evals = [line for line in lines(evaluated / "eval.jsonl") if line["es"] == 0]
    (folder / "eval.jsonl").write_text("".join(json.dumps(line) + "\n" for line in evals))
  assert run("plot", "walker/fb", "cheetah/fb", "fb-aw", "-o", "x", cwd=tmp_path).returncode == 0
  names = set(re.findall("<text>([a-z/-]*fb[a-z-]*)</text>", (tmp_path / "x.svg").read_text()))
  assert names == {"walker/fb", "cheetah/fb", "fb-aw"}
  assert run("plot", *[runs[0]] * 32, "-o", tmp_path / "y").returncode == 0
  assert "more than 32 curves" in refused("plot", *[runs[0]] * 33, "-o", tmp_path / "z")


@pytest.mark.skipif(not shutil.which("gnuplot"), reason="needs gnuplot")
@pytest.mark.parametrize("steps, marks", [(2000, "0 500 1000 1500 2000"), (1500000, "0 500k 1M 1.5M"),
                                          (25000, "0 5000 10k 15k 20k 25k")])
def test_tick_marks_of_steps_are_not_rounded(steps, marks, tmp_path):
  line = {"step": steps, "seed": 0, "task": "run", "es": 0, "mean": 7, "std": 0, "episodes": 1}
  (tmp_path / "eval.jsonl").write_text(json.dumps(line) + "\n")
  assert run("plot", tmp_path, "-o", tmp_path / "x").returncode == 0
  texts = re.findall("<text>([^<]*)</text>", (tmp_path / "x.svg").read_text())
  panel = texts[:texts.index("return")]  # those of y have a space before them
  assert " ".join(text for text in panel if text and text[0] != " ") == marks


@pytest.mark.skipif(not shutil.which("gnuplot"), reason="needs gnuplot")
def test_a_truncated_picture_is_not_kept(evaluated, tmp_path):
  """On a full disk, gnuplot writes a part of the picture and exits with status 0."""
  tool = tmp_path / "gnuplot"
  tool.write_text(f'#!/bin/sh\n{shutil.which("gnuplot")} "$1" && truncate -s 999 {tmp_path}/x.png.*\n')
  tool.chmod(0o755)
  process = run("plot", evaluated, "-o", tmp_path / "x",
                env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
  assert process.returncode == 4, process
  assert f"cannot write {tmp_path / 'x.png'}: gnuplot left an incomplete file" in process.stderr
  assert [path.name for path in tmp_path.iterdir()] == ["gnuplot"]


def test_a_run_continues_without_gnuplot(point_mass, tmp_path):
  process = subprocess.run([BFM, "train", point_mass, *TINY, "-o", tmp_path / "run", "--steps", "2",
                            "--eval-tasks", "easy", *map(str, EVAL)], capture_output=True, text=True,
                           env={**os.environ, "PATH": str(tmp_path)})
  assert process.returncode == 0
  assert "gnuplot is not installed" in process.stderr
  assert len(lines(tmp_path / "run" / "eval.jsonl")) == 2


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_run_stopped_in_an_evaluation_resumes_it(end, point_mass, evaluated, tmp_path):
  folder = tmp_path / "run"
  flags = [*TINY, "--seeds", "2", "--log-every", "10", "--save-every", "10", *map(str, EVAL)]
  process = subprocess.Popen([BFM, "train", point_mass, *flags, "--steps", "50", "-o", folder],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
  while not list(folder.glob("pending.1*")) and process.poll() is None:
    time.sleep(0.001)
  process.send_signal(end)
  process.wait()
  again = run("train", "--resume", *HERE, "-o", folder)
  if again.returncode:  # killed before the first save
    shutil.rmtree(folder)
    train(point_mass, folder, *flags, "--steps", 50)
  assert lines(folder / "eval.jsonl") == lines(evaluated / "eval.jsonl")
  for name in ("model.0", "model.1", "best.0", "best.1"):
    name += ".safetensors"
    assert (folder / name).read_bytes() == (evaluated / name).read_bytes(), name


# ---------------------------------- recipes -------------------------------------------------------


def config_of(path):
  with safe_open(path, "np") as file:
    return json.loads(file.metadata()["config"])


def test_defaults_follow_the_kind_of_data(data, tmp_path):
  def chosen(name, collector, *flags):
    with h5py.File(data, "a") as file:
      file.attrs["collector"] = collector
    train(data, tmp_path / name, "--steps", 1, *flags)
    config = config_of(tmp_path / name / "model.safetensors")
    return config["ortho"], config["f-norm"]

  assert chosen("mood", "mood") == (100, True)
  assert chosen("plain", "mood", "--recipe", "none") == (1, False)
  assert chosen("typed", "mood", "--ortho", 7) == (7, True)
  assert chosen("rnd", "rnd") == (100, True)
  assert chosen("told", "rnd", "--recipe", "mood") == (100, True)
  for algo in ["fb", "fb-aw", "fb-are", "lap", "lap-aw"]:  # one for all that are compared
    assert chosen(algo, "mood", "--algo", algo, "--blocks", 1) == (100, True)


# ---------------------------------- divergence ----------------------------------------------------


def test_divergence_keeps_the_last_good_model(point_mass, tmp_path):
  folder = tmp_path / "run"
  process = run("train", point_mass, *TINY, "--lr", 1, "--steps", 5000, "-o", folder)
  assert process.returncode == 7, process
  assert "replica 0" in process.stderr and "last good" in process.stderr
  assert process.stderr.count("\n") == 1
  assert "diverged" in lines(folder / "log.jsonl")[-1]
  with safe_open(folder / "model.safetensors", "np") as file:
    assert all(np.isfinite(file.get_tensor(name)).all() for name in file.keys())
    assert int(file.metadata()["step"]) < 2000
  assert run("info", folder / "state.safetensors").returncode == 0


def test_a_restart_lowers_the_learning_rate(point_mass, tmp_path):
  folder = tmp_path / "run"
  train(point_mass, folder, "--lr", 1e-2, "--steps", 30)
  process = run("train", "--resume", *HERE, "-o", folder, "--lr", 1, "--steps", 600,
                "--on-divergence", "restart")
  log = [line for line in lines(folder / "log.jsonl") if "diverged" in line]
  assert log and [round(1 / line["lr"]) for line in log] == [3 ** (i + 1) for i in range(len(log))]
  assert process.returncode in (0, 7)
  if process.returncode == 7:
    assert len(log) > 4 and "after 4 restarts" in process.stderr


def test_a_run_killed_after_a_restart_keeps_the_lower_learning_rate(point_mass, tmp_path):
  folder = tmp_path / "run"
  train(point_mass, folder, "--lr", 1e-2, "--steps", 30)
  process = subprocess.Popen([BFM, "train", "--resume", *HERE, "-o", str(folder), "--lr", "1", "-q",
                              "--steps", "1000000", "--on-divergence", "restart"])
  while "diverged" not in (folder / "log.jsonl").read_text():
    assert process.poll() is None
    time.sleep(0.01)
  process.kill()
  process.wait()
  with safe_open(folder / "state.safetensors", "np") as state:
    assert round(1 / json.loads(state.metadata()["config"])["lr"]) in [3, 9, 27, 81]


# ---------------------------------- refusals ------------------------------------------------------


def test_a_failing_evaluation_loses_no_steps(point_mass, tmp_path):
  """A folder in the place of eval.jsonl makes the evaluation fail."""
  folder = tmp_path / "run"
  process = subprocess.Popen([BFM, "train", str(point_mass), *map(str, TINY), "--steps", "1000000", "-q",
                              "-o", str(folder), "--eval-tasks", "easy", *map(str, EVAL)],
                             stderr=subprocess.PIPE, text=True)
  file = folder / "eval.jsonl"
  while not file.exists() or not file.stat().st_size:
    assert process.poll() is None
    time.sleep(0.01)
  file.rename(folder / "aside")
  file.mkdir()
  *_, sentence = process.communicate(timeout=60)[1].splitlines()  # the curves may have lacked it before
  assert process.returncode == 4, sentence
  assert "the evaluation of step" in sentence and f"are in {folder}" in sentence
  file.rmdir()
  (folder / "aside").rename(file)
  with safe_open(folder / "state.safetensors", "np") as state:
    step = int(state.metadata()["step"])
  assert step > 20
  process = run("train", "--resume", "-o", folder, "--steps", step + 10)
  assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("flags, part", [
    (["--eval-tasks", "reach_top_lef"], "reach_top_left"),
    (["--eval-tasks", "easy,,easy"], "has an empty entry"),
    (["--eval-tasks", "nonsense + 1"], "nonsense"),
    (["--prompt-states", "0"], "prompt-states"),
    (["--env", "walker"], "walker"),
    (["--env", "wolker"], "did you mean 'walker'"),
    (["--recipe", "mud"], "recipe"),
])
def test_bad_options_of_evaluations(flags, part, point_mass, tmp_path):
  assert part in refused("train", point_mass, *TINY, "--steps", 5, *EVAL, *flags, "-o", tmp_path / "r")
  assert not (tmp_path / "r").exists()


def test_data_of_no_domain_cannot_be_evaluated(tmp_path):
  data = write_dataset(tmp_path / "data.h5", env="")
  assert "--env" in refused("train", data, *TINY, *EVAL, "-o", tmp_path / "run")
  assert not (tmp_path / "run").exists()


def test_a_task_without_an_expression_needs_rewards_other_than_0(tmp_path):
  data = tmp_path / "data.h5"
  assert run("collect", "hopper", "--steps", 200, "--envs", 4, "-o", data).returncode == 0
  error = refused("train", data, *TINY, *EVAL, "--steps", 20, "-o", tmp_path / "run")
  assert "the task run of hopper needs rewards in the data, but they are all 0" in error
  train(data, tmp_path / "speed", *EVAL, "--steps", 20, "--eval-tasks", "speed")
