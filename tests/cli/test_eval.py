"""bfm eval: returns of models in tables and in JSON."""
import json
import os
import signal
import subprocess

import numpy as np
import pytest
from conftest import BFM, TINY, refused, run, train_point_mass

SHORT = ["--episodes", 3, "--steps", 5]


def lines(*arguments):
  process = run("eval", *arguments, "--json")
  assert process.returncode == 0, process.stderr
  return [json.loads(line) for line in process.stdout.splitlines()]


def test_one_line_for_each_model_and_task(models):
  found = lines(*models, *SHORT, "--tasks", "easy, x > 0", "--random")
  assert [(line["model"], line["task"]) for line in found] == [
      (str(model), task) for model in [*models, "random"] for task in ("easy", "x > 0")]
  for line in found:
    assert len(line["returns"]) == 3 and line["episodes"] == 3
    assert line["mean"] == pytest.approx(np.mean(line["returns"]))
    assert line["std"] == pytest.approx(np.std(line["returns"], ddof=1))
    assert 0 <= min(line["returns"]) and max(line["returns"]) <= 5


def test_equal_seeds_give_equal_returns(models):
  first, again, other = (lines(models[0], *SHORT, "--tasks", "x", "--seed", seed, "--es", 4)[0]
                         for seed in (1, 1, 2))
  assert first == again and first["returns"] != other["returns"]


def test_tables(models):
  one = run("eval", models[0], *SHORT, "--random").stdout
  assert "easy" in one and "reach_top_left" in one and "random" in one and "over episodes" in one
  two = run("eval", *models, *SHORT, "--tasks", "in").stdout
  assert "over models" in two and str(models[1]) in two and "reach" not in two


def test_groups_of_tasks_mix_with_names_and_expressions(models):
  found = lines(models[0], *SHORT, "--tasks", "max(x, y), in, reach_top_left")
  assert [line["task"] for line in found] == ["max(x, y)", "easy", "reach_top_left"]


def test_long_rewards_are_cut_in_the_table_but_not_in_json(models):
  long = " + ".join(["(x > 0.1)"] * 8)
  table = run("eval", models[0], *SHORT, "--tasks", f"easy, {long}").stdout.splitlines()[1:4]
  assert long[:47] + "…" in table[2] and long[:48] not in table[2]
  numbers = [line.rindex("±") for line in table[1:]]
  assert numbers[0] == numbers[1]
  assert lines(models[0], *SHORT, "--tasks", long)[0]["task"] == long


def test_policies_of_a_single_task(models, tmp_path):
  data = tmp_path / "d.h5"
  process = run("collect", "point_mass", "--with", "td3", "--task", "easy", "--steps", 200, "--envs", 4,
                "--hidden", 16, "--batch", 16, "-o", data)
  assert process.returncode == 0, process.stderr
  policy = tmp_path / "d.easy.safetensors"
  assert [line["task"] for line in lines(policy, *SHORT)] == ["easy"]
  found = lines(models[0], policy, *SHORT, "--tasks", "x, y")
  assert [(line["model"], line["task"]) for line in found] == [
      (str(path), task) for path in (models[0], policy) for task in ("x", "y")]
  assert len(lines(policy, policy, *SHORT)) == 2
  process = run("collect", "point_mass", "--with", "td3", "--task", "x", "--steps", 200, "--envs", 4,
                "--hidden", 16, "--batch", 16, "-o", tmp_path / "x.h5")
  assert process.returncode == 0, process.stderr
  for other in (tmp_path / "x.policy.safetensors", models[0]):
    sentence = refused("eval", policy, other, *SHORT)
    assert f"{policy} and {other} are not for the same tasks" in sentence
  assert "takes no --es" in refused("eval", policy, *SHORT, "--es", 4)
  assert "--softmax" in refused("eval", policy, *SHORT, "--softmax", 1)


def test_a_saved_prompt_is_measured_by_tasks(models, tmp_path):
  assert run("prompt", models[0], "--task", "easy", "-o", tmp_path / "z.json").returncode == 0
  saved = lines(models[0], *SHORT, "--z", tmp_path / "z.json", "--tasks", "easy, x")
  assert [(line["task"], line["z"]) for line in saved] == [
      (task, str(tmp_path / "z.json")) for task in ("easy", "x")]
  prompted = {task: lines(models[0], *SHORT, "--tasks", task)[0]["returns"] for task in ("easy", "x")}
  assert saved[0]["returns"] == prompted["easy"] and saved[1]["returns"] != prompted["x"]


def test_d4rl_scores(tmp_path):
  assert run("collect", "hopper", "--steps", 200, "-o", tmp_path / "data.h5").returncode == 0
  process = run("train", tmp_path / "data.h5", *TINY, "--steps", 2, "-o", tmp_path / "run")
  assert process.returncode == 0, process.stderr
  model = tmp_path / "run" / "model.safetensors"
  own, other = lines(model, *SHORT, "--tasks", "run, torso.z")
  assert own["d4rl"] == pytest.approx(100 * (own["mean"] + 20.272305) / (3234.3 + 20.272305))
  assert "d4rl" not in other
  title, run_row, *_ = run("eval", model, *SHORT, "--tasks", "run, torso.z").stdout.splitlines()[1:]
  assert "D4RL" in title and float(run_row.split()[-1]) == pytest.approx(own["d4rl"], abs=0.06)


def test_bad_arguments_are_rejected(models, tmp_path):
  for typed in ("eesy", "EASY"):
    assert "did you mean the task easy?" in refused("eval", models[0], *SHORT, "--tasks", typed)
  assert 'no group of tasks "ALL"; did you mean all?' in refused("eval", models[0], "--tasks", "x, ALL")
  assert "x +" in refused("eval", models[0], *SHORT, "--tasks", "x +")
  assert "tasks" in refused("eval", models[0], "--tusks", "in")
  assert "nowhere" in refused("eval", tmp_path / "nowhere")
  assert "is a folder" in refused("eval", tmp_path)
  assert "has an empty entry" in refused("eval", models[0], "--tasks", "in,")
  assert "model" in refused("eval")
  assert """device is 'a"b'""" in refused("eval", models[0], "--device", 'a"b')
  (tmp_path / "z.json").write_text(json.dumps({"z": [1] * 8}))
  sentence = refused("eval", models[0], *SHORT, "--z", tmp_path / "z.json", "--tasks", "eesy")
  assert "did you mean the task easy?" in sentence
  (tmp_path / "z.json").write_text('{"z": [1, 2]}')
  assert "8 numbers" in refused("eval", models[0], *SHORT, "--z", tmp_path / "z.json")
  assert "--softmax" in refused("eval", models[0], "--z", tmp_path / "z.json", "--softmax", 1)
  state = models[0].parent / "state.safetensors"
  assert "or it is a training state" in refused("eval", state, *SHORT)


def test_ctrl_c_ends_with_a_sentence(models):
  process = subprocess.Popen([BFM, "eval", models[0], "--episodes", "1000", "--steps", "1000000"],
                             stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
  try:  # the handlers are there before the first output could be
    while "SigCgt" in (status := open(f"/proc/{process.pid}/status").read()):
      caught = int(status.split("SigCgt:")[1].split()[0], 16)
      if caught >> (signal.SIGINT - 1) & 1:
        break
    os.kill(process.pid, signal.SIGINT)
    out, error = process.communicate(timeout=60)
  finally:
    process.kill()
  assert process.returncode == 128 + signal.SIGINT and "stopped" in error and not out


def test_how_members_judge_sampled_actions(models, tmp_path):
  """--es-base replaces the model's own, which bfm train saves."""
  bases = {base: lines(models[0], *SHORT, "--tasks", "x", "--es", 16, "--es-base", base)[0]
           for base in ("mean", "min", "gain")}
  own = lines(models[0], *SHORT, "--tasks", "x", "--es", 16)[0]
  assert own["es_base"] == "mean" and own["returns"] == bases["mean"]["returns"]
  assert [line["es_base"] for line in bases.values()] == ["mean", "min", "gain"]
  assert len({tuple(line["returns"]) for line in bases.values()}) == 3
  trained = train_point_mass(tmp_path, "--seeds", 2, "--es-base", "gain") / "model.0.safetensors"
  saved = lines(trained, *SHORT, "--tasks", "x", "--es", 16)[0]
  assert saved["es_base"] == "gain" and saved["returns"] == bases["gain"]["returns"]
  assert "es_base" not in lines(models[0], *SHORT, "--tasks", "x")[0]
  table = run("eval", models[0], *SHORT, "--tasks", "x", "--es", 16, "--es-base", "min").stdout
  assert "the best of 16 sampled actions (es-base min)" in table


@pytest.mark.parametrize("command", [["eval"], ["bias"], ["play", "--task", "easy", "-o", "x.png"]])
def test_es_base_needs_es(models, command):
  assert ("--es-base min judges sampled actions: give their number, --es 32"
          in refused(*command, models[0], "--es-base", "min"))
  assert "es-base" in refused(*command, models[0], "--es", 4, "--es-base", "max")
