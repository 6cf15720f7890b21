"""The table of the six claims: verdicts from a ledger, runs, plots, and data that can be made again."""
import json
import math
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest
from conftest import BFM, HERE, read_ledger, refused, run

STABLE = " ortho=100 f-norm=on beta=10"
WALKER = " preset=small batch=256 lr=3e-4 d=64" + STABLE
RUNS = {
    "FB": "walker mood-small algo=fb" + WALKER + " clip=4.6",
    "FB-AW": "walker mood-small algo=fb-aw" + WALKER + " clip=4.6",
    "FB-AWARE (8)": "walker mood-small algo=fb-aware blocks=8" + WALKER + " clip=4.6",
    "IQL": "walker mood-small algo=iql hidden=256 batch=256 lr=3e-4",
}
KNOWN, NEW = ("stand", "walk", "run", "spin"), ("flip", "march", "skyreach", "pullup")


def lines_of(method, values, es=0, **fields):
  """Return one line of the ledger per seed; `values` are the returns on the known tasks."""
  line = {"run": RUNS[method], "more": "", "steps": 100000, "es": es, "episodes": 20, "eval_steps": 0,
          "transitions": 500000, "data": {"checksum": 7}, "precision": "f32", **fields}
  return [{**line, "seed": seed, "returns": {**dict.fromkeys(KNOWN, value), **dict.fromkeys(NEW, 0)}}
          for seed, value in enumerate(values)]


def results(folder, *groups):
  (folder / "ledger.jsonl").write_text("".join(json.dumps(x) + "\n" for g in groups for x in g))
  text = run("paper", "show", "claims", "--json", "--results", folder)
  assert text.returncode == 0, text.stderr
  return [json.loads(line) for line in text.stdout.splitlines()]


def find(rows, claim, group="in", acting="mean", **fields):
  row, = [x for x in rows if x["claim"] == claim and x["group"] == group and x["acting"] == acting and
          all(x[name] == value for name, value in fields.items())]
  return row


# differences of 90, 100, 110, 100, 100: standard error 10 / sqrt(2) / sqrt(5), t 2.776445 for 4
HALF = 2.7764451052 * math.sqrt(50 / 5)


@pytest.mark.parametrize("a, b, verdict", [
    ([190, 200, 210, 200, 200], [100] * 5, "holds"),
    ([100] * 5, [190, 200, 210, 200, 200], "does not"),
    ([100, 100, 100, 100, 140], [110, 90, 100, 100, 100], "undecided"),
])
def test_the_interval_decides(a, b, verdict, tmp_path):
  rows = results(tmp_path, lines_of("FB-AW", a), lines_of("FB", b))
  row = find(rows, 1)
  assert (row["verdict"], row["seeds"], row["pilot"], row["steps"]) == (verdict, 5, False, 100000)
  assert row["mean_a"] == pytest.approx(np.mean(a)) and row["mean_b"] == pytest.approx(np.mean(b))
  if verdict == "holds":
    assert row["effect"] == pytest.approx(100)
    assert (row["low"], row["high"]) == pytest.approx((100 - HALF, 100 + HALF), abs=1e-6)
  assert find(rows, 1, group="all")["mean_a"] == pytest.approx(np.mean(a) / 2)
  assert find(rows, 1, acting="ES")["verdict"] == "not run"


@pytest.mark.parametrize("shift, spread, verdict", [
    (0, 1, "holds"), (15, 1, "holds"), (30, 1, "does not"), (-30, 1, "does not"), (0, 100, "undecided"),
    (18, 5, "undecided"),
])
def test_a_match_is_within_five_percent(shift, spread, verdict, tmp_path):
  a = [400 + shift + spread * k for k in (-2, -1, 0, 1, 2)]
  rows = results(tmp_path, lines_of("FB-AWARE (8)", a, es=32), lines_of("IQL", [400] * 5))
  row = find(rows, 6, acting="ES, mean", b="IQL")
  assert row["verdict"] == verdict and row["rule"] == "matches" and row["decides"]
  assert find(rows, 6, acting="ES, mean", b="XQL")["verdict"] == "not run"


@pytest.mark.parametrize("values, fields", [
    ([200, 210, 220, 230], {}),
    ([200, 210, 220, 230, 240], {"steps": 50000}),
    ([200, 210, 220, 230, 240], {"episodes": 10}),
    ([200, 210, 220, 230, 240], {"transitions": 400000}),
    ([200, 210, 220, 230, 240], {"more": "batch=64"}),
])
def test_anything_less_than_planned_is_a_pilot(values, fields, tmp_path):
  rows = results(tmp_path, lines_of("FB-AW", values, **fields),
                 lines_of("FB", [x - 100 for x in values], **fields))
  row = find(rows, 1)
  assert row["verdict"] == "holds" and row["pilot"] and row["seeds"] == len(values)
  text = run("paper", "show", "claims", "--results", tmp_path).stdout
  assert text.count("holds, pilot\n") == 2  # on the tasks of the data and on all
  assert "not run" in text


@pytest.mark.parametrize("field, value", [
    ("data", {"checksum": 8}), ("steps", 50000), ("more", "batch=64"), ("precision", "bf16"),
    ("eval_steps", 500),
])
def test_runs_that_were_made_differently_are_not_paired(field, value, tmp_path):
  rows = results(tmp_path, lines_of("FB-AW", [200] * 5), lines_of("FB", [100] * 5, **{field: value}))
  assert find(rows, 1)["verdict"] == "not run" and find(rows, 1)["seeds"] == 0


def test_runs_on_unknown_data_are_not_paired(tmp_path):
  """They may be of different data."""
  unknown = {"data": {}, "source": "log"}
  rows = results(tmp_path, lines_of("FB-AW", [200] * 5, **unknown), lines_of("FB", [100] * 5, **unknown))
  assert find(rows, 1)["verdict"] == "not run"


def test_only_seeds_of_both_methods_are_paired_and_the_last_line_counts(tmp_path):
  rows = results(tmp_path, lines_of("FB-AW", [0, 0, 0]), lines_of("FB", [100] * 2),
                 lines_of("FB-AW", [200, 220, 240, 260]))
  row = find(rows, 1)
  assert (row["seeds"], row["mean_a"], row["mean_b"], row["pilot"]) == (2, 210, 100, True)


def test_the_run_with_the_most_steps_is_shown(tmp_path):
  few = {"steps": 2000}
  rows = results(tmp_path, lines_of("FB-AW", [200] * 5), lines_of("FB", [100] * 5),
                 lines_of("FB-AW", [50] * 5, **few), lines_of("FB", [100] * 5, **few))
  assert (find(rows, 1)["steps"], find(rows, 1)["effect"]) == (100000, 100)


def test_one_seed_has_no_interval(tmp_path):
  row = find(results(tmp_path, lines_of("FB-AW", [200]), lines_of("FB", [100])), 1)
  assert "low" not in row and row["verdict"] == "undecided" and row["pilot"]


def test_over_optimism_is_the_share_of_the_prediction_that_is_earned(tmp_path):
  def biased(method, *pairs):
    lines = lines_of(method, [100] * 5)
    for line in lines:
      line["bias"] = {task: {"earned": e, "predicted": p} for task, (e, p) in zip(KNOWN, pairs)}
    return lines

  rows = results(tmp_path, biased("FB-AW", (90, 100), (100, 80), (50, 100), (100, -5)),
                 biased("FB", (10, 100), (0, 100), (-5, 100), (10, 20)))
  row = find(rows, 5, group="kept")
  assert (row["mean_a"], row["mean_b"], row["verdict"]) == (85, 15, "holds")


def test_plots(tmp_path):
  assert "nothing to draw" in refused("paper", "plot", "claims", "--results", tmp_path)
  curve = {"steps": [50000, 100000], **{task: [50, 100] for task in KNOWN}}
  results(tmp_path, lines_of("FB-AW", [200, 210, 220], es=32, curve=curve),
          lines_of("FB", [100, 120, 130], es=32, curve=curve))
  if not shutil.which("gnuplot"):
    pytest.skip("needs gnuplot")
  process = run("paper", "plot", "claims", "--results", tmp_path)
  assert process.returncode == 0, process.stderr
  assert process.stdout.split() == [f"{tmp_path}/claims{x}" for x in
                                    (".svg", ".png", "-curves.svg", "-curves.png")]
  text = (tmp_path / "claims.svg").read_text()
  assert "FB-AW − FB (in; ES)" in text and "holds, pilot" in text and "not run" in text
  assert "claim 1 (walker, mood-small)" in (tmp_path / "claims-curves.svg").read_text()


# ---------------------------------- running ------------------------------------------------------

TINY = [*HERE, "--d", 16, "--batch", 16, "--hidden", 16, "--feat", 8, "--b-hidden", 16, "--z-pool", 4,
        "--es", 2, "--steps", 20, "--seeds", 2, "--episodes", 2, "--eval-steps", 5, "--quiet"]


def paper(folder, *arguments):
  process = run("paper", "run", "claims", *arguments, *TINY, "--data", folder / "data", "--runs",
                folder / "runs", "--results", folder)
  assert process.returncode == 0, process.stderr
  return read_ledger(folder)


def test_goals_of_the_point_mass_run_from_end_to_end(tmp_path):
  lines = paper(tmp_path, "--filter", "point_mass", "--data-steps", 4000)
  assert len(lines) == 3 * 2 * 2 and {x["transitions"] for x in lines} == {4000}
  for line in lines:
    assert line["curve"]["steps"] == [4, 8, 12, 16, 20] and "bias" not in line
    assert len(line["curve"]["easy"]) == 5 and line["config"]["gamma"] == 0.95
  folder = next((tmp_path / "runs").iterdir())
  assert json.loads((folder / "run.json").read_text())["settings"]["stride"] == 20
  shown = run("paper", "show", "claims", "--filter", "point_mass", "--json", "--results", tmp_path)
  rows = [json.loads(x) for x in shown.stdout.splitlines()]
  assert [(x["seeds"], x["pilot"], x["decides"]) for x in rows] == [(2, True, True)] + 3 * [(2, True, False)]
  assert len(paper(tmp_path, "--filter", "point_mass", "--data-steps", 4000)) == len(lines)


@pytest.mark.parametrize("method, own", [("IQL", "expectile"), ("XQL", "loss-temperature"),
                                         ("TD3+BC", "alpha")])
def test_single_task_agents_are_cells(method, own, tmp_path):
  """Options that they do not have, such as --d, are left out; their own configuration is recorded."""
  (tmp_path / "data").mkdir()
  data = tmp_path / "data" / "walker-mood-small.h5"
  assert run("collect", "walker", "--steps", 500, "-o", data).returncode == 0
  arguments = ("--filter", f"walker {method}", "--data-steps", 500)
  lines = paper(tmp_path, *arguments)
  assert [(x["seed"], x["es"]) for x in lines] == [(0, 0), (1, 0)]
  for line in lines:
    assert line["more"] == "batch=16 eval-steps=5 hidden=16" and line["precision"] == "f32"
    assert set(line["returns"]) == set(KNOWN) and len(line["curve"]["run"]) == 5
    assert own in line["config"] and "d" not in line["config"] and line["config"]["hidden"] == 16
    assert line["config"].get("anneal", 20) == 20
  assert len(paper(tmp_path, *arguments)) == len(lines)


def test_the_bias_is_measured_where_a_claim_needs_it(tmp_path):
  (tmp_path / "data").mkdir()
  data = tmp_path / "data" / "walker-mood-small.h5"
  assert run("collect", "walker", "--steps", 500, "-o", data).returncode == 0
  lines = paper(tmp_path, "--filter", "walker mood-small FB", "--data-steps", 500)
  assert len(lines) == 8 and {line["run"] == RUNS["FB"] for line in lines} == {True, False}
  (folder,) = (tmp_path / "runs").glob("*-ortho-100-*")
  for line in lines:
    assert ("bias" in line) == (line["es"] == 0 and line["run"] == RUNS["FB"])
    if "bias" not in line:
      continue
    told = run("bias", folder / f"model.{line['seed']}.safetensors", "--tasks", "in", "--episodes", 2,
               "--steps", 5, "--json", *HERE)
    expected = {x["task"]: x for x in map(json.loads, told.stdout.splitlines())}
    assert set(line["bias"]) == set(expected) == set(KNOWN)
    for task, value in line["bias"].items():
      assert value["earned"] == pytest.approx(expected[task]["return"], abs=0.06)
      assert value["predicted"] == pytest.approx(expected[task]["predicted"], abs=0.06)


# ---------------------------------- data ---------------------------------------------------------

MOOD = ["walker", "--with", "mood", "--hidden", 16, "--batch", 16, "--envs", 4, "--random-steps", 100,
        "--device", "cpu", "--whole-episodes", "on", "--quiet"]


def tables(path):
  with h5py.File(path) as file:
    found = {}
    file.visititems(lambda name, x: found.update({name: x[...]}) if isinstance(x, h5py.Dataset) else None)
  return found


def is_equal(a, b):
  return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def checksum(path):
  """Return the checksum that a run of training on the file records."""
  folder = path.with_suffix(".run")
  process = run("train", path, *HERE, "--d", 4, "--batch", 8, "--hidden", 8, "--feat", 8, "--b-hidden", 8,
                "--steps", 1, "--prompt-states", 10, "-o", folder)
  assert process.returncode == 0, process.stderr
  return json.loads((folder / "run.json").read_text())["checksum"]


def test_the_same_command_makes_the_same_checksum(tmp_path):
  for name, threads in {"a": 1, "b": 2}.items():
    process = run("collect", *MOOD, "--steps", 3000, "--threads", threads, "-o", tmp_path / f"{name}.h5")
    assert process.returncode == 0, process.stderr
  assert is_equal(tables(tmp_path / "a.h5"), tables(tmp_path / "b.h5"))
  assert checksum(tmp_path / "a.h5") == checksum(tmp_path / "b.h5")


def test_an_interrupted_collection_has_the_same_first_rows(tmp_path):
  """Its resume begins new episodes, so that the rows after the interruption are others."""
  whole, cut = tmp_path / "whole.h5", tmp_path / "cut.h5"
  process = subprocess.Popen([BFM, "collect", *map(str, MOOD), "--steps", "3000", "-o", cut])
  while not cut.exists() and process.poll() is None:
    time.sleep(0.01)
  time.sleep(0.1)
  process.send_signal(signal.SIGINT)
  process.wait()
  before = len(tables(cut)["rewards"])
  assert run("collect", "--resume", "--quiet", "-o", cut).returncode == 0
  assert run("collect", *MOOD, "--steps", 3000, "-o", whole).returncode == 0
  a, b = tables(whole), tables(cut)
  assert 0 < before < 3000 == len(b["rewards"])
  by_step = [np.argsort(x["infos/step"]) for x in (a, b)]
  for name in ("observations", "actions", "rewards"):
    assert np.array_equal(a[name][by_step[0]][:before], b[name][by_step[1]][:before])
    assert not np.array_equal(a[name][by_step[0]][before:], b[name][by_step[1]][before:])


def test_a_pause_does_not_change_the_order_of_whole_episodes(tmp_path):
  flags = ["walker", "--with", "random", "--envs", "4", "--threads", "1", "--quiet"]

  def collect(name, whole, pause):
    path = tmp_path / name
    process = subprocess.Popen([BFM, "collect", *flags, "--whole-episodes", whole, "--steps", "12k",
                                "-o", path])
    while not path.exists() and process.poll() is None:
      time.sleep(0.005)
    if pause:  # longer than rows of an unfinished episode wait otherwise
      time.sleep(0.2)
      process.send_signal(signal.SIGSTOP)
      time.sleep(4.3)
      process.send_signal(signal.SIGCONT)
    assert process.wait() == 0
    return tables(path)

  undisturbed = collect("a.h5", "on", False)
  assert is_equal(undisturbed, collect("b.h5", "on", True))
  assert not is_equal(undisturbed, collect("c.h5", "off", True))


def test_the_commands_of_the_data_are_shown_and_used(tmp_path):
  text = run("paper", "show", "claims", "--results", tmp_path).stdout
  commands = [line.split()[1:] for line in text.splitlines() if line.startswith("  bfm collect")]
  assert [x[1] for x in commands] == ["walker", "walker", "point_mass"]
  paper(tmp_path, "--filter", "point_mass FB-AW", "--data-steps", 4000)
  with h5py.File(tmp_path / "data" / "point_mass-random-hold20.h5") as file:
    used = json.loads(file.attrs["options"])
  assert run(*commands[2], "--steps", 4000, cwd=tmp_path).returncode == 0
  with h5py.File(tmp_path / "point_mass-random-hold20.h5") as file:
    assert json.loads(file.attrs["options"]) == used
