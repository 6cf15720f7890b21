"""bfm bias: earned and predicted returns in a table, in JSON and in a picture."""
import json
import os
import shutil

import numpy as np
import pytest
from conftest import refused, run

SHORT = ["--device", "cpu", "--threads", 1, "--episodes", 3, "--steps", 6]


def lines(command, *arguments):
  process = run(command, *arguments, "--json")
  assert process.returncode == 0, process.stderr
  return [json.loads(line) for line in process.stdout.splitlines()]


def test_one_line_for_each_model_and_task(models):
  found = lines("bias", *models, *SHORT, "--tasks", "easy, x > 0")
  assert [(line["model"], line["task"]) for line in found] == [
      (str(model), task) for model in models for task in ("easy", "x > 0")]
  for line in found:
    assert line["bias"] == pytest.approx(np.mean(line["biases"])) == pytest.approx(line["curve"][-1])
    assert line["std"] == pytest.approx(np.std(line["biases"], ddof=1))
    assert line["predicted"] == pytest.approx(line["return"] - line["bias"])
    assert len(line["curve"]) == 6
    if line["return"]:
      assert line["share"] == pytest.approx(line["bias"] / abs(line["return"]))
    else:
      assert line["share"] is None


def test_returns_equal_those_of_eval(models):
  options = [models[0], *SHORT, "--tasks", "x, y", "--es", 4, "--seed", 3]
  assert ([line["returns"] for line in lines("bias", *options)] ==
          [line["returns"] for line in lines("eval", *options)])


def test_seeds_of_a_run_are_averaged(models, tmp_path):
  other = shutil.copy(models[0], tmp_path / "other.safetensors")
  alone = run("bias", *models, *SHORT, "--tasks", "x").stdout
  assert alone.splitlines()[3].startswith("x ") and str(models[0].parent) not in alone
  table = run("bias", *models, other, *SHORT, "--tasks", "x").stdout.splitlines()[3:]
  assert [row.split()[-1] for row in table] == [str(models[0].parent), str(tmp_path / "other")]
  biases = [line["bias"] for line in lines("bias", *models, other, *SHORT, "--tasks", "x")]
  shown = [float(row.split("±")[0].split()[-1]) for row in table]
  assert shown == pytest.approx([np.mean(biases[:2]), biases[2]], abs=0.06)


def test_a_return_of_zero_has_no_share(models):
  row = run("bias", models[0], *SHORT, "--tasks", "1e-9 * (1 + x)").stdout.splitlines()[3]
  assert " 0.0 " in row and "%" not in row
  assert "%" in run("bias", models[0], *SHORT, "--tasks", "1 + x").stdout


@pytest.mark.skipif(not shutil.which("gnuplot"), reason="gnuplot draws")
def test_picture(models, tmp_path):
  process = run("bias", *models, *SHORT, "--tasks", "easy, x - y", "-o", tmp_path / "bias.png")
  assert process.returncode == 0, process.stderr
  assert process.stdout.endswith(f"{tmp_path}/bias.svg\n{tmp_path}/bias.png\n")
  assert sorted(os.listdir(tmp_path)) == ["bias.png", "bias.svg"]
  assert "x - y" in (tmp_path / "bias.svg").read_text()


def test_bad_arguments_are_rejected(models, tmp_path):
  assert "easy" in refused("bias", models[0], *SHORT, "--tasks", "eesy")
  assert "model" in refused("bias")
  assert "nowhere" in refused("bias", tmp_path / "nowhere")
  assert "state" in refused("bias", models[0].parent / "state.safetensors", *SHORT)
  assert "has 0 characters" in refused("bias", models[0], *SHORT, "-o", ".svg")
  assert "no-folder" in refused("bias", models[0], *SHORT, "-o", tmp_path / "no-folder" / "b.svg")
