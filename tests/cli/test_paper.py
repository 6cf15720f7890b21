"""bfm paper: the tables, the ledger, and resuming after an interruption."""
import fcntl
import json
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import BFM, HERE, ROOT, read_ledger, refused, run, write_dataset

# options that are not given, such as --blocks, are the table's
TINY = [*HERE, "--d", "8", "--batch", "16", "--hidden", "16", "--feat", "8", "--b-hidden", "16",
        "--z-pool", "4", "--es", "2", "--steps", "20", "--data-steps", "500", "--episodes", "2",
        "--eval-steps", "5"]
TASKS = {"easy", "reach_top_left", "reach_top_right", "reach_bottom_left", "reach_bottom_right"}


def places(folder):
  return ["--data", folder / "data", "--runs", folder / "runs", "--results", folder / "results"]


def paper(folder, action, *more):
  process = run("paper", action, *more, *places(folder))
  assert process.returncode == 0, process.stderr
  return process.stdout


def ledger(folder):
  return read_ledger(folder / "results")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
  """A folder in which the table first has been run with two seeds."""
  folder = tmp_path_factory.mktemp("paper")
  paper(folder, "run", "first", *TINY, "--seeds", 2)
  return folder


def returns(lines):
  return {(x["run"], x["seed"], x["es"]): x["returns"] for x in lines}


def test_all_tables_are_listed():
  process = run("paper", "list")
  for table in ("rnd", "mood", "ablations", "jaco-128", "d4rl", "dims", "blocks", "first"):
    assert any(line.startswith(table + " ") for line in process.stdout.splitlines())
  cells = run("paper", "list", "mood", "--filter", "humanoid").stdout.splitlines()
  assert len(cells) == 5 and all("d=128" in line for line in cells)


def test_the_ledger_has_one_line_per_seed_and_es(done):
  lines = ledger(done)
  assert len(lines) == 3 * 2 * 2 == len(returns(lines))
  for line in lines:
    assert set(line["returns"]) == TASKS
    assert line["steps"] == 20 and line["transitions"] == 500 and line["episodes"] == 2
    assert line["config"]["d"] == 8 and line["seconds"] > 0 and line["machine"] and line["time"]
    assert {"commit", "version", "device", "more"} <= set(line)


def test_lines_say_what_the_run_was_made_of(done):
  line = ledger(done)[0]
  (data,) = (done / "data").glob("*.h5")
  records = [json.loads(path.read_text()) for path in (done / "runs").glob("*/run.json")]
  assert {line["data"]["checksum"]} == {record["checksum"] for record in records}
  assert line["data"]["file"] == data.name and line["data"]["transitions"] == 500
  assert line["data"]["env"] == "point_mass" and line["data"]["collector"] == "random"
  assert line["data"]["options"]["steps"] == 500 and line["data"]["options"]["updates"] == 0
  assert line["precision"] == "f32" and line["eval_steps"] == 5
  config = line["config"]
  assert not {"device", "threads", "seed", "seeds", "precision"} & set(config)
  # effective values: of the recipe, the preset and the algorithm
  assert config["clip"] == 4.6 and config["hidden"] == 16 and config["z-groups"] > 0
  assert len({x["config_hash"] for x in ledger(done)}) == 3


def test_options_that_change_nothing_are_the_same_run(done):
  before = ledger(done)
  lr = str(ledger(done)[0]["config"]["lr"])
  output = paper(done, "run", "first", *TINY, "--lr", lr, "--seeds", 2, "--device", "cpu")
  assert output.count("done ") == 3 and "train" not in output
  assert ledger(done) == before


@pytest.mark.parametrize("change", ["data", "--polyak", "--steps", "--precision"])
def test_other_data_configurations_and_steps_are_other_runs(change, done, tmp_path):
  folder = tmp_path / "other"
  shutil.copytree(done, folder)
  before = ledger(folder)
  (data,) = (folder / "data").glob("*.h5")
  flags = [*TINY, "--filter", "FB-AW", "--seeds", 1]
  if change == "data":
    data.unlink()
    assert run("collect", "point_mass", "--with", "random", "--steps", 500, "--seed", 1, "-q",
               "-o", data).returncode == 0
  else:
    flags += {"--polyak": ["--polyak", 0.02], "--steps": ["--steps", 10],
              "--precision": ["--precision", "tf32"]}[change]
  assert "train " in paper(folder, "run", "first", *flags)
  fresh = ledger(folder)[len(before):]
  assert len(fresh) == 2
  old = next(x for x in before if x["run"] == fresh[0]["run"])
  differs = {key for key in ("config_hash", "steps", "precision") if fresh[0][key] != old[key]}
  if fresh[0]["data"]["checksum"] != old["data"]["checksum"]:
    differs.add("data")
  assert differs == {{"--polyak": "config_hash"}.get(change, change.strip("-"))}
  assert "train " not in paper(folder, "run", "first", *flags)


def test_finished_cells_are_skipped(done):
  before = ledger(done)
  output = paper(done, "run", "first", *TINY, "--seeds", 2)
  assert output.count("done ") == 3 and "train" not in output
  assert ledger(done) == before


def test_equal_options_in_another_order_are_recognized(done):
  before = ledger(done)
  pairs = [TINY[i:i + 2] for i in range(0, len(TINY), 2)]
  other = [word for pair in reversed(pairs) for word in pair]
  output = paper(done, "run", "first", *other, "--batch", "0.016k", "--seeds", 2)
  assert output.count("done ") == 3 and "train" not in output
  assert ledger(done) == before


def test_only_missing_seeds_are_run(done, tmp_path):
  shutil.copytree(done, tmp_path / "more")
  output = paper(tmp_path / "more", "run", "first", *TINY, "--seeds", 3, "--filter", "FB-AW")
  assert output.count("1 seed,") == 1  # FB-AW alone, not FB-AWARE (4)
  assert {x["seed"] for x in ledger(tmp_path / "more") if "fb-aw " in x["run"]} == {0, 1, 2}


def test_more_episodes_are_evaluated_again(done, tmp_path):
  folder = tmp_path / "more"
  shutil.copytree(done, folder)
  before = returns(ledger(folder))
  paper(folder, "run", "first", *TINY, "--seeds", 2, "--filter", "FB-AW", "--episodes", 5)
  fresh = ledger(folder)[len(before):]
  assert len(fresh) == 4 and {x["episodes"] for x in fresh} == {5}
  for key, values in returns(fresh).items():
    assert values != before[key]
  runs = list((folder / "runs").glob("*fb-aw-*"))
  evals = [json.loads(x) for x in (runs[0] / "eval.jsonl").read_text().splitlines()]
  assert {x["episodes"] for x in evals} == {5} and len(evals) == 2 * 2 * len(TASKS)


def test_other_episode_lengths_are_other_results(done, tmp_path):
  folder = tmp_path / "longer"
  shutil.copytree(done, folder)
  before = ledger(folder)
  assert all("eval-steps=5" in x["more"] for x in before)
  paper(folder, "run", "first", *TINY, "--seeds", 2, "--filter", "FB-AW", "--eval-steps", 10)
  fresh = ledger(folder)[len(before):]
  assert len(fresh) == 4 and all("eval-steps=10" in x["more"] for x in fresh)
  for key, values in returns(fresh).items():
    assert values != returns(before)[key]


@pytest.mark.parametrize("end, wait", [(signal.SIGINT, "pending.0*"), (signal.SIGKILL, "best.1*")])
def test_an_interrupted_table_resumes_without_loss(end, wait, done, tmp_path):
  command = [BFM, "paper", "run", "first", *TINY, "--seeds", "2", *map(str, places(tmp_path))]
  process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
  while not list(tmp_path.glob("runs/*aw-d*/" + wait)) and process.poll() is None:
    time.sleep(0.001)
  process.send_signal(end)
  process.wait()
  early = ledger(tmp_path)
  output = paper(tmp_path, "run", "first", *TINY, "--seeds", 2)
  assert "done    FB: " in output
  assert ledger(tmp_path)[:len(early)] == early
  assert returns(ledger(tmp_path)) == returns(ledger(done))


def test_data_collected_by_another_process_is_awaited(done, tmp_path):
  shutil.copytree(done / "data", tmp_path / "data")
  (data,) = (tmp_path / "data").glob("*.h5")
  command = [BFM, "paper", "run", "first", *TINY, "--seeds", "1", "--filter", "FB-AW"]
  with open(data, "r+b") as held:
    whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
    fcntl.fcntl(held, fcntl.F_OFD_SETLK, whole)
    process = subprocess.Popen([*command, *map(str, places(tmp_path))], stdout=subprocess.PIPE,
                               text=True)
    assert process.stdout.readline() == f"wait    for the process that writes {data}\n"
    assert process.poll() is None
  assert process.wait() == 0
  assert {x["seed"] for x in ledger(tmp_path)} == {0}


def test_an_interrupted_collection_with_enough_rows_is_used(done, tmp_path):
  paper_data = tmp_path / "data"
  paper_data.mkdir()
  (whole,) = (done / "data").glob("*.h5")
  cut = paper_data / whole.name
  process = subprocess.Popen([BFM, "collect", "point_mass", "--with", "random", "--steps", "50M",
                              "--threads", "1", "-q", "-o", cut])
  while not cut.exists() or run("info", cut, "--json").returncode:
    time.sleep(0.05)
  process.send_signal(signal.SIGINT)
  process.wait()
  rows = json.loads(run("info", cut, "--json").stdout)["transitions"]
  assert 500 <= rows < 50_000_000
  paper(tmp_path, "run", "first", *TINY, "--seeds", 1, "--filter", "FB-AW")
  assert {x["transitions"] for x in ledger(tmp_path)} == {rows}


def test_a_truncated_last_line_is_ignored_and_run_again(done, tmp_path):
  folder = tmp_path / "cut"
  shutil.copytree(done, folder)
  (path,) = folder.glob("results/ledger/*.jsonl")
  lines = path.read_text().splitlines(keepends=True)
  path.write_text("".join(lines[:-4]) + lines[-4][:40])
  paper(folder, "run", "first", *TINY, "--seeds", 2)
  (fresh,) = set(folder.glob("results/ledger/*.jsonl")) - {path}
  assert [json.loads(x)["run"] for x in lines[:-4] + fresh.read_text().splitlines()] == \
      [json.loads(x)["run"] for x in lines]
  paper(folder, "show", "first")
  fresh.write_text(fresh.read_text()[:-1])  # complete except for the newline
  assert "train" not in paper(folder, "run", "first", *TINY, "--seeds", 2)


def test_processes_share_a_table(done, tmp_path):
  """Four processes run the data once and each run once, and all end with the whole table."""
  flags = ["first", *TINY, "--seeds", 2, *places(tmp_path)]
  processes = [subprocess.Popen([BFM, "paper", "run", *map(str, flags)], stdout=subprocess.PIPE,
                                text=True) for _ in range(4)]
  outputs = [process.communicate(timeout=120)[0] for process in processes]
  assert [process.returncode for process in processes] == [0] * 4
  assert sum(output.count("train ") for output in outputs) == 3
  assert sum(output.count("collect ") for output in outputs) == 1
  assert returns(ledger(tmp_path)) == returns(ledger(done))
  assert len(ledger(tmp_path)) == len(ledger(done))


def test_our_numbers_are_printed_beside_the_papers(tmp_path):
  results = tmp_path / "results"
  shutil.copytree(ROOT / "results" / "paper", results / "paper")
  lines = [{"run": "walker mood algo=fb-aw d=64", "more": "", "seed": seed, "steps": 300000, "es": es,
            "episodes": 100, "returns": dict.fromkeys("stand walk run spin".split(), value + es)}
           for seed, value in enumerate((700, 720)) for es in (0, 32)]
  (results / "ledger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
  text = run("paper", "show", "mood", "--filter", "walker", "--results", results).stdout
  row = next(line for line in text.splitlines() if line.startswith("in "))
  assert "742 ±14  a   849" in row and "607" in row
  assert "\na             300k of 1M steps, 2 of 5 seeds; older line: dataset unknown\n" in text
  assert "5 of the paper's 50 numbers have one of ours beside them" in text and "4 of 5 cells" in text
  assert text.endswith('\n  bfm paper run mood --filter "walker"\n')
  numbers = [json.loads(x) for x in
             run("paper", "show", "mood", "--json", "--results", results).stdout.splitlines()]
  assert sum("paper" in x for x in numbers) == 190 and sum("ours" in x for x in numbers) == 5
  if shutil.which("gnuplot"):
    assert run("paper", "plot", "mood", "--results", results).returncode == 0
    assert (results / "mood.png").read_bytes().startswith(b"\x89PNG")


def shown(results, lines):
  """Return our number for FB on D4RL's hopper, with a ledger of these lines."""
  (results / "paper").mkdir(parents=True, exist_ok=True)
  shutil.copy(ROOT / "results" / "paper" / "d4rl.csv", results / "paper")
  line = {"run": "hopper d4rl-medium algo=fb d=64", "more": "", "steps": 1000, "es": 0}
  (results / "ledger.jsonl").write_text("".join(
      json.dumps({**line, "seed": seed, "episodes": episodes, "transitions": transitions,
                  "returns": {"run": 3254.572305 * score / 100 - 20.272305}}) + "\n"
      for seed, episodes, transitions, score in lines))
  text = run("paper", "show", "d4rl", "--filter", "hopper d4rl-medium FB", "--json",
             "--results", results).stdout
  ours, = [x for x in map(json.loads, text.splitlines()) if "ours" in x]
  return ours["ours"], ours.get("ours_std"), ours["seeds"], ours["episodes"]


def test_seeds_on_different_data_are_not_averaged(tmp_path):
  lines = [(seed, 10, 3000, 20) for seed in range(3)] + [(seed, 10, 4000, 60) for seed in range(2)]
  assert shown(tmp_path, lines) == (20, 0, 3, 10)
  assert shown(tmp_path, [*lines, (2, 10, 4000, 60)]) == (60, 0, 3, 10)
  assert shown(tmp_path, [*lines, (3, 10, 3000, 40)]) == (25, 10, 4, 10)


def test_episodes_are_counted_from_the_lines_shown(tmp_path):
  lines = [(0, 2, 3000, 20), (1, 2, 3000, 20)]
  assert shown(tmp_path, [*lines, (0, 100, 3000, 60)]) == (40, 28.3, 2, 2)
  assert shown(tmp_path, [*lines, (0, 100, 3000, 60), (1, 50, 3000, 60)]) == (60, 0, 2, 50)


CONFIG = {"d": 64, "blocks": 1, "z-groups": 1024, "hidden": 1024, "feat": 512, "b-hidden": 256,
          "ortho": 100, "f-norm": True}
FB = {"algo": "fb"}
AW = {"algo": "fb-aw"}
AWARE = {"algo": "fb-aware", "blocks": 8, "z-groups": 1}


def block(folder, runs):
  """Return what paper show prints of walker's MOOD data, by method, and as text. A run is its own
  configuration, its data's checksum (None: an older line), steps, return and number of seeds."""
  lines = []
  for method, checksum, steps, value, seeds in runs:
    config = {**CONFIG, **method}
    options = "".join(f" {k}={config[k]}" for k in ("algo", "blocks") if k in method)
    for seed in range(seeds):
      lines.append({"run": f"walker mood{options} d=64", "more": "", "seed": seed, "steps": steps,
                    "es": 0 if config["algo"] == "fb" else 32, "episodes": 10, "config": config,
                    "precision": "f32", "returns": {"stand": value + seed}})
      if checksum is not None:
        lines[-1]["data"] = {"checksum": checksum}
  folder.mkdir(exist_ok=True)
  (folder / "ledger.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
  shutil.copytree(ROOT / "results" / "paper", folder / "paper", dirs_exist_ok=True)
  flags = ["paper", "show", "mood", "--filter", "walker", "--results", folder]
  items = [json.loads(x) for x in run(*flags, "--json").stdout.splitlines()]
  shown = {x["method"]: x for x in items if x["task"] == "stand" and "ours" in x}
  return shown, run(*flags).stdout


def test_the_group_with_the_most_methods_is_compared(tmp_path):
  shown, text = block(tmp_path, [
      (AW, 5, 900000, 900, 5),  # has more steps and seeds, but stands alone
      (FB, 7, 1000, 100, 2), (AW, 7, 1000, 200, 2), (AWARE, 7, 1000, 300, 2)])
  assert {k: (x["ours"], x["steps"], x["comparable"]) for k, x in shown.items()} == {
      "FB": (100.5, 1000, True), "FB-AW": (200.5, 1000, True), "FB-AWARE (8)": (300.5, 1000, True)}
  rows = {x.split()[0]: x.split()[1:] for x in text.splitlines() if x.strip()}
  assert rows["steps"] == ["1000"] * 3 and rows["seeds"] == ["2"] * 3 and rows["episodes"] == ["10"] * 3


@pytest.mark.parametrize("change, says", [
    ({"checksum": 8}, "data 00000008, not 00000007"),
    ({"steps": 2000}, "2000 steps, not 1000"),
    ({"ortho": 1, "f-norm": False}, "ortho 1, not 100, f-norm off, not on"),
    ({"z-groups": 4}, "z-groups 4"),
    ({"checksum": None}, "older line: dataset unknown"),
])
def test_everything_else_is_marked_with_what_differs(change, says, tmp_path):
  change = dict(change)
  checksum, steps = change.pop("checksum", 7), change.pop("steps", 1000)
  shown, text = block(tmp_path, [(FB, 7, 1000, 100, 2), (AWARE, 7, 1000, 300, 2),
                                 ({**AW, **change}, checksum, steps, 200, 2)])
  assert shown["FB"]["comparable"] and shown["FB-AWARE (8)"]["comparable"]
  assert not shown["FB-AW"]["comparable"] and shown["FB-AW"]["differs"] == says
  assert f"; {says}\n" in text


@pytest.mark.parametrize("updates, says", [(0.05, ", data with 0.05 of 0.5 updates a transition"), (0.5, "")])
def test_rnd_data_with_fewer_updates_is_marked(updates, says, tmp_path):
  line = {"run": "walker rnd algo=fb d=64", "more": "", "seed": 0, "steps": 1000, "es": 0,
          "episodes": 10, "config": {**CONFIG, **FB}, "precision": "f32", "returns": {"stand": 1},
          "data": {"checksum": 7, "collector": "rnd", "options": {"updates": updates}}}
  (tmp_path / "ledger.jsonl").write_text(json.dumps(line) + "\n")
  shutil.copytree(ROOT / "results" / "paper", tmp_path / "paper")
  flags = ["paper", "show", "rnd", "--filter", "walker FB", "--results", tmp_path]
  assert f"\na             1000 of 1M steps, 1 of 5 seeds, 10 of 100 episodes{says}\n" in run(*flags).stdout
  item = next(x for x in map(json.loads, run(*flags, "--json").stdout.splitlines()) if "ours" in x)
  assert item.get("data_updates") == updates


def test_seeds_with_other_configurations_are_not_averaged(tmp_path):
  shown, _ = block(tmp_path, [(FB, 7, 1000, 100, 2), ({**FB, "ortho": 1}, 7, 1000, 500, 1)])
  assert shown["FB"]["ours"] == 100.5 and shown["FB"]["seeds"] == 2


WALKER = {"in": "stand walk run spin".split(), "new": "flip march skyreach pullup".split()}
WALKER["all"] = WALKER["in"] + WALKER["new"]
LAP_AW = {"algo": "lap-aw"}


def scored(folder, runs):
  """Return what paper show prints of walker's MOOD data, by method and group of tasks, and as text. A run
  is its own configuration, its data's checksum and its returns, [seeds, tasks]."""
  with open(folder / "ledger.jsonl", "w") as file:
    for method, checksum, scores in runs:
      options = "".join(f" {k}={method[k]}" for k in ("algo", "blocks") if k in method)
      for seed, row in enumerate(scores):
        line = {"run": f"walker mood{options} d=64", "more": "", "seed": seed, "steps": 1000,
                "es": 0 if method == FB else 32, "episodes": 10, "config": {**CONFIG, **method},
                "precision": "f32", "data": {"checksum": checksum},
                "returns": dict(zip(WALKER["all"], row))}
        file.write(json.dumps(line) + "\n")
  shutil.copytree(ROOT / "results" / "paper", folder / "paper", dirs_exist_ok=True)
  flags = ["paper", "show", "mood", "--filter", "walker", "--results", folder]
  items = [json.loads(x) for x in run(*flags, "--json").stdout.splitlines()]
  assert not [x for x in items if "iqm" in x and x["task"] not in WALKER]
  return {(x["method"], x["task"]): x for x in items if "iqm" in x}, run(*flags).stdout


def row(text, name):
  line, = [x for x in text.splitlines() if x.startswith(name + " ")]
  return line[20:].split()


def returns_like(value, seeds):
  return [[value + 10 * seed + 3 * task for task in range(8)] for seed in range(seeds)]


def test_statistics_of_groups_of_tasks(tmp_path):
  fb = [[100, 200, 300, 400, 500, 600, 700, 800], [150, 200, 290, 410, 530, 610, 640, 900]]
  aw = [[110, 190, 310, 400, 520, 600, 800, 800], [90, 220, 310, 450, 540, 650, 640, 950],
        [170, 200, 280, 480, 500, 590, 700, 1000]]
  shown, text = scored(tmp_path, [(FB, 7, fb), (AW, 7, aw)])
  assert {method for method, _ in shown} == {"FB", "FB-AW"}
  for group, tasks in WALKER.items():
    at = [WALKER["all"].index(task) for task in tasks]
    for method, scores in (("FB", fb), ("FB-AW", aw)):
      values = sorted(line[k] for line in scores for k in at)
      middle = values[len(values) // 4:len(values) - len(values) // 4]
      item = shown[method, group]
      assert item["iqm"] == pytest.approx(sum(middle) / len(middle), rel=1e-12)
      assert values[0] <= item["iqm_low"] < item["iqm"] < item["iqm_high"] <= values[-1]
    wins = [(x[k] > y[k]) + (x[k] == y[k]) / 2 for k in at for x in aw for y in fb]
    assert item["improvement"] == pytest.approx(sum(wins) / len(wins), rel=1e-12)
    assert item["improvement_low"] < item["improvement"] < item["improvement_high"]
    assert item["improvement_over"] == "FB" and "improvement" not in shown["FB", group]
  for group in ("in", "all"):
    assert row(text, "IQM " + group) == [f"{shown[x, group]['iqm']:.0f}" for x in ("FB", "FB-AW")]
  assert row(text, "P(> FB)") == ["-", f"{shown['FB-AW', 'all']['improvement']:.2f}"]
  assert scored(tmp_path, [(FB, 7, fb), (AW, 7, aw)]) == (shown, text)


def test_one_seed_has_no_interval(tmp_path):
  shown, text = scored(tmp_path, [(FB, 7, returns_like(100, 1)), (AW, 7, returns_like(50, 1))])
  assert shown["FB", "all"]["iqm"] == 110.5 and shown["FB-AW", "all"]["improvement"] == 0
  assert not [key for x in shown.values() for key in x if key.endswith("_low") or key.endswith("_high")]
  assert row(text, "P(> FB)") == ["-", "0.00"] and "\n  95% interval" not in text
  # a probability has an interval only if both methods have several seeds
  shown, _ = scored(tmp_path, [(FB, 7, returns_like(100, 1)), (AW, 7, returns_like(100, 3))])
  assert "iqm_low" in shown["FB-AW", "all"] and "improvement_low" not in shown["FB-AW", "all"]


def test_probabilities_need_comparable_runs(tmp_path):
  runs = [(FB, 8, returns_like(100, 2)), (AW, 7, returns_like(200, 2)), (LAP_AW, 7, returns_like(300, 2)),
          (AWARE, 7, returns_like(400, 2))]
  shown, text = scored(tmp_path, runs)
  assert {k: x.get("improvement_over") for k, x in shown.items() if k[1] == "all"} == {
      ("FB", "all"): None, ("FB-AW", "all"): None, ("LAP-AW", "all"): "FB-AW",
      ("FB-AWARE (8)", "all"): "FB-AW"}
  assert row(text, "P(> FB-AW)") == ["-", "-", "1.00", "1.00"] and "P(> A) " in text
  # no baseline: a single method in the group
  shown, text = scored(tmp_path, runs[:2])
  assert not [x for x in shown.values() if "improvement" in x] and "P(>" not in text


def test_seeds_without_a_task_are_left_out(tmp_path):
  shown, text = scored(tmp_path, [(FB, 7, [*returns_like(100, 2), [900] * 4])])
  # of 100, 103, 106, 109, 110, 113, 116, 119 and four times 900, three at each end
  assert shown["FB", "in"]["iqm"] == (109 + 110 + 113 + 116 + 119 + 900) / 6
  assert shown["FB", "all"]["seeds"] == 2 and shown["FB", "all"]["iqm"] == 115.5
  shown, text = scored(tmp_path, [(FB, 7, [[900] * 4] * 2)])
  assert set(shown) == {("FB", "in")} and "IQM all" not in text


def test_a_single_task_has_statistics_too(tmp_path):
  shown(tmp_path, [(seed, 10, 3000, score) for seed, score in enumerate((20, 40, 30))])
  flags = ["paper", "show", "d4rl", "--filter", "hopper d4rl-medium FB", "--results", tmp_path]
  item, = [x for x in map(json.loads, run(*flags, "--json").stdout.splitlines()) if "iqm" in x]
  assert item["task"] == "run" and item["iqm"] == pytest.approx(30)
  assert row(run(*flags).stdout, "IQM run") == ["30"]


def test_ledgers_of_several_versions_are_read_together(done, tmp_path):
  """A line of 0.1.0, one without a configuration, one of an unknown option, one of this version, and
  one of bfm paper add whose data nobody knows."""
  new = ledger(done)[0]
  old = {k: v for k, v in new.items() if k not in ("data", "precision", "eval_steps", "config_hash")}
  old["config"] = {**new["config"], "device": "auto", "seed": 0, "seeds": 2, "threads": 0,
                   "precision": "auto"}
  bare = {k: v for k, v in old.items() if k != "config"}
  later = {**new, "config": {**new["config"], "future-option": 3}}
  broken = {**new, "config": {**new["config"], "algo": "of-the-future"}}
  added = {k: v for k, v in {**new, "source": "log", "folder": "logs/run"}.items() if k != "data"}
  older = "older line: dataset unknown"
  for line, differs in ((old, older), (bare, older), (later, ""), (broken, ""), (new, ""),
                        (added, "dataset unknown")):
    (tmp_path / "ledger.jsonl").write_text(json.dumps(line) + "\n")
    item, *_ = map(json.loads, run("paper", "show", "first", "--json", "--results",
                                   tmp_path).stdout.splitlines())
    assert item["seeds"] == 1 and item["differs"] == differs
    assert item.get("source") == ("log" if line is added else None)


def test_a_ledger_of_several_versions_shows_each_line_as_what_it_is(tmp_path):
  """The reference is of this version; beside it stand a line of 0.1.0, an added run whose data is known,
  and one whose data is not."""
  cells = {"FB": "algo=fb", "FB-AW": "algo=fb-aw", "FB-AWARE (4)": "algo=fb-aware blocks=4",
           "FB-AWARE (8)": "algo=fb-aware blocks=8"}
  lines = []
  for method, options in cells.items():
    named = dict(x.split("=") for x in options.split())
    config = {**CONFIG, **named, "blocks": int(named.get("blocks", 1)),
              "z-groups": 1 if "blocks" in named else 1024}
    lines += [{"run": f"walker mood {options} d=64", "more": "", "seed": seed, "steps": 1000,
               "es": 0 if method == "FB" else 32, "episodes": 10, "config": config,
               "precision": "f32", "data": {"checksum": 7}, "returns": {"stand": 100 + seed}}
              for seed in range(2)]
  for line in lines[2:4]:
    del line["data"]  # 0.1.0
  for line in lines[4:6]:
    line["source"] = "log"
  for line in lines[6:]:
    line |= {"source": "log", "folder": "logs/run"}
    del line["data"]
  (tmp_path / "ledger.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
  shutil.copytree(ROOT / "results" / "paper", tmp_path / "paper")
  flags = ["paper", "show", "mood", "--filter", "walker", "--results", tmp_path]
  items = [x for x in map(json.loads, run(*flags, "--json").stdout.splitlines()) if "ours" in x]
  assert {x["method"]: (x["comparable"], x["differs"], x.get("source")) for x in items} == {
      "FB": (True, "", None), "FB-AW": (False, "older line: dataset unknown", None),
      "FB-AWARE (4)": (True, "", "log"), "FB-AWARE (8)": (False, "dataset unknown", "log")}
  text = run(*flags).stdout
  marks = dict(line.split(maxsplit=1) for line in text.splitlines() if line[1:9] == " " * 8
               and line[0].isalpha())
  made = "1000 of 1M steps, 2 of 5 seeds, 10 of 100 episodes"
  log = "from the log of a bfm train run"
  assert list(marks.values()) == [made, f"{made}; older line: dataset unknown", f"{made}, {log}",
                                  f"{made}, {log}; dataset unknown"]


def test_older_results_of_jaco_are_left_out(tmp_path):
  """The arm of 0.1.0 had a brick. Lines with data are of the present arm."""
  tasks = [f"reach_{x}_{y}" for x in ("top", "bottom") for y in ("left", "right")]
  tasks += [f"reach_random{i + 1}" for i in range(4)]
  old = [{"run": f"jaco rnd algo={algo} d={d}", "more": "", "seed": seed, "steps": 60000, "es": es,
          "episodes": 20, "returns": dict.fromkeys(tasks, 50), "config": {**CONFIG, "algo": algo}}
         for algo in ("fb", "fb-aw") for d in (64, 128) for seed in range(3) for es in (0, 32)]
  new = {**old[0], "steps": 1000, "es": 0, "returns": dict.fromkeys(tasks, 10),
         "data": {"checksum": 7}, "precision": "f32"}
  path = tmp_path / "ledger.jsonl"
  why = "24 older lines of jaco are left out: the arm then had a brick and other starts\n"
  shutil.copytree(ROOT / "results" / "paper", tmp_path / "paper")
  for lines, count in ((old, 0), ([*old, new], 11)):
    path.write_text("".join(json.dumps(x) + "\n" for x in lines))
    shown = {table: run("paper", "show", table, "--results", tmp_path).stdout
             for table in ("jaco-64", "jaco-128", "jaco-blocks", "rnd")}
    assert [why in text for text in shown.values()] == [True, True, True, False]
    items = [json.loads(x) for x in run("paper", "show", "jaco-64", "--json", "--results",
                                        tmp_path).stdout.splitlines()]
    ours = [x["ours"] for x in items if "ours" in x]
    assert ours == [10] * count
    listed = run("paper", "list", "--results", tmp_path).stdout
    assert listed.endswith("\n\n" + why) and f"\njaco-64          5{count > 0:5d}  " in listed
    assert run("paper", "list", "jaco-128", "--results", tmp_path).stdout.endswith(why)
  path.write_text(json.dumps(old[0]) + "\n")
  assert "1 older line of jaco is left out" in run("paper", "list", "--results", tmp_path).stdout
  if shutil.which("gnuplot"):
    process = run("paper", "plot", "jaco-64", "--results", tmp_path)
    assert process.stdout.splitlines()[-1].startswith("1 older line of jaco is left out")


def test_a_run_of_jaco_without_its_data_is_not_added(tmp_path):
  (tmp_path / "eval.jsonl").write_text(
      '{"step":1,"seed":0,"task":"reach_top_left","es":0,"mean":1,"std":1,"episodes":1}\n')
  error = refused("paper", "add", tmp_path, "--domain", "jaco", "--kind", "rnd", "--algo", "fb",
                  "--results", tmp_path)
  assert "may be of the earlier jaco, which had a brick before version 0.2" in error


@pytest.mark.skipif(not shutil.which("gnuplot"), reason="needs gnuplot")
def test_bars_below_zero_are_drawn(tmp_path):
  for score, below in ((30, False), (-30, True)):
    assert shown(tmp_path, [(0, 10, 3000, score)])[0] == score
    process = run("paper", "plot", "d4rl", "--filter", "hopper d4rl-medium", "--results", tmp_path)
    assert process.returncode == 0, process.stderr
    assert ("<text>-20</text>" in (tmp_path / "d4rl.svg").read_text()) == below


@pytest.mark.parametrize("table, cell, returns", [
    ("d4rl", "hopper d4rl-medium", {"run": 3234.3}),
    ("kitchen", "kitchen d4rl-mixed", {"partial": 0, "mixed": 4}),
])
def test_d4rl_is_normalized(tmp_path, table, cell, returns):
  results = tmp_path / "results"
  shutil.copytree(ROOT / "results" / "paper", results / "paper")
  line = {"run": f"{cell} algo=fb d=64", "more": "", "seed": 0, "steps": 1, "es": 0, "episodes": 1,
          "returns": returns}
  (results / "ledger.jsonl").write_text(json.dumps(line) + "\n")
  text = run("paper", "show", table, "--filter", cell, "--results", results).stdout
  assert " 100      a" in text
  if shutil.which("gnuplot"):
    assert run("paper", "plot", table, "--results", results).returncode == 0


def test_missing_means_of_the_paper_are_computed_from_its_tasks():
  text = run("paper", "show", "jaco-128", "--filter", "FB", cwd=ROOT).stdout.splitlines()
  means = {row: line.split()[-1] for line in text for row in ("in", "new") if line.startswith(row + " ")}
  assert means == {"in": "39", "new": "27"}


def test_methods_without_numbers_are_not_shown(tmp_path):
  shutil.copytree(ROOT / "results" / "paper", tmp_path / "paper")
  text = run("paper", "show", "kitchen", "--results", tmp_path).stdout
  assert text.split().count("paper") == 2 * 3 + 1 and " - " not in text
  assert "\npartial                    4      47        52\n" in text
  assert "0 of the paper's 6 numbers" in text and "6 of 6 cells" in text
  text = run("paper", "show", "first", "--results", tmp_path).stdout
  assert "point_mass" not in text and "3 of 3 cells" in text
  assert run("paper", "show", "first", "--json", "--results", tmp_path).stdout == ""


def published(folder, name, obs, act):
  """A file as D4RL publishes it: with the collector's policy beside the transitions, and no domain."""
  folder.mkdir(exist_ok=True)
  rows = 200
  path = write_dataset(folder / name, rows, obs, act, rewards=np.arange(rows, dtype="f4"))
  with h5py.File(path, "a") as file:
    del file.attrs["env"]
    file["metadata/algorithm"] = np.bytes_("SAC")
    file["metadata/policy/fc0/weight"] = np.zeros((obs, 4), "f4")
    file["infos/action_log_probs"] = np.zeros(rows, "f4")
  return path


@pytest.mark.parametrize("table, words, name, obs, act, tasks", [
    ("d4rl", "hopper d4rl-medium IQL", "hopper_medium-v2.hdf5", 11, 3, {"run"}),
    ("d4rl", "hopper d4rl-medium XQL", "hopper_medium-v2.hdf5", 11, 3, {"run"}),
    ("d4rl", "halfcheetah d4rl-medium-replay TD3+BC", "halfcheetah_medium_replay-v2.hdf5", 17, 6,
     {"run"}),
    ("d4rl", "walker2d d4rl-medium-expert BC", "walker2d_medium_expert-v2.hdf5", 17, 6, {"run"}),
    ("d4rl", "hopper d4rl-medium FB", "hopper_medium-v2.hdf5", 11, 3, {"run"}),
    ("kitchen", "kitchen d4rl-partial FB", "kitchen_microwave_kettle_light_slider-v0.hdf5", 60, 9,
     {"partial", "mixed"}),
    ("kitchen", "kitchen d4rl-mixed FB", "kitchen_microwave_kettle_bottomburner_light-v0.hdf5", 60, 9,
     {"partial", "mixed"}),
])
def test_files_are_found_as_d4rl_publishes_them(tmp_path, table, words, name, obs, act, tasks):
  published(tmp_path / "data", name, obs, act)
  text = paper(tmp_path, "run", table, *TINY, "--seeds", 2, "--filter", words)
  lines = ledger(tmp_path)
  assert "collect" not in text and {x["seed"] for x in lines} == {0, 1}
  for line in lines:
    assert line["data"]["file"] == name and tasks <= set(line["returns"])
  shutil.copytree(ROOT / "results" / "paper", tmp_path / "results" / "paper")
  shown = run("paper", "show", table, "--filter", words, "--json", "--results", tmp_path / "results")
  assert any("ours" in x and "paper" in x for x in map(json.loads, shown.stdout.splitlines()))


def test_the_name_that_bfm_gives_is_preferred_to_d4rls(tmp_path):
  published(tmp_path / "data", "hopper_medium-v2.hdf5", 11, 3)
  published(tmp_path / "data", "hopper-d4rl-medium.h5", 11, 3)
  paper(tmp_path, "run", "d4rl", *TINY, "--seeds", 1, "--filter", "hopper d4rl-medium BC")
  assert [x["data"]["file"] for x in ledger(tmp_path)] == ["hopper-d4rl-medium.h5"]


def test_a_missing_file_of_d4rl_is_named(tmp_path):
  (tmp_path / "data").mkdir()
  error = refused("paper", "run", "kitchen", "--filter", "d4rl-mixed", *places(tmp_path))
  assert f"{tmp_path}/data/kitchen-d4rl-mixed.h5 is missing" in error
  assert "kitchen_microwave_kettle_bottomburner_light-v0.hdf5" in error
  text = paper(tmp_path, "run", "d4rl", *TINY, "--seeds", 1, "--filter", "hopper d4rl-medium-replay BC")
  assert f"collect {tmp_path}/data/hopper-d4rl-medium-replay.h5, because neither it nor D4RL's " \
         "hopper_medium_replay-v2.hdf5 is there\n" in text


def test_options_of_single_task_agents_are_compared_with_their_own(tmp_path):
  published(tmp_path / "data", "hopper_medium-v2.hdf5", 11, 3)
  for words in ("FB", "XQL", "IQL"):
    paper(tmp_path, "run", "d4rl", *TINY, "--seeds", 1, "--filter", f"hopper d4rl-medium {words}")
  shutil.copytree(ROOT / "results" / "paper", tmp_path / "results" / "paper")
  shown = run("paper", "show", "d4rl", "--filter", "hopper d4rl-medium", "--json", "--results",
              tmp_path / "results").stdout
  items = {x["method"]: x for x in map(json.loads, shown.splitlines()) if "ours" in x}
  assert items["FB"]["comparable"]
  for method in ("IQL", "XQL"):
    assert items[method]["differs"] == "hidden 16, not 256, batch 16, not 256"


def test_a_folder_with_some_of_d4rls_files_is_not_filled_up(tmp_path):
  published(tmp_path / "data", "halfcheetah_medium-v2.hdf5", 17, 6)
  error = refused("paper", "run", "d4rl", *TINY, "--seeds", 1, *places(tmp_path))
  assert f"{tmp_path}/data has halfcheetah_medium-v2.hdf5, but not halfcheetah_medium_replay-v2.hdf5" in error
  assert "bfm collect halfcheetah --with d4rl-medium-replay" in error
  assert not (tmp_path / "runs").exists()  # before the first cell is trained
  text = paper(tmp_path, "run", "d4rl", *TINY, "--seeds", 1, "--filter", "halfcheetah d4rl-medium BC")
  assert "train   BC" in text


def test_the_list_shows_what_has_been_run(tmp_path):
  line = {"run": "hopper d4rl-medium algo=fb d=64", "more": "", "seed": 0, "steps": 40000, "es": 0,
          "episodes": 1, "returns": {"run": 1}}
  (tmp_path / "ledger.jsonl").write_text(json.dumps(line) + "\n")
  assert "\nd4rl            63    1  " in run("paper", "list", "--results", tmp_path).stdout
  cells = run("paper", "list", "d4rl", "--results", tmp_path).stdout.splitlines()
  assert [x.split()[-4:] for x in cells if "steps" in x] == [["40k", "steps,", "1", "seed"]]


def test_all_numbers_of_the_paper_are_stored():
  count = sum(len(path.read_text().splitlines()) - 1 for path in (ROOT / "results/paper").glob("*.csv"))
  assert count == 829


@pytest.mark.parametrize("arguments, part", [
    (["run"], "name a table"),
    (["run", "mod"], "did you mean mood"),
    (["shw", "mood"], "did you mean show"),
    (["show", "mood", "--steps", "40k"],
     "--steps 40k is an option of run; show uses the results in the ledger"),
    (["plot", "mood", "--algo", "fb"], "--algo fb is an option of run; plot uses the results in the ledger"),
    (["list", "--json"], "--json is an option of show, not of list"),
    (["show", "mood", "-o", "a.svg"], "-o a.svg is an option of plot, not of show"),
    (["run", "first", "--filter", "wolker"], 'no cell of the table first matches --filter "wolker"'),
    (["show", "first", "--filter", "wolker"], "no cell"),
    (["plot", "first"], "nothing to draw"),
    (["run", "first", "--steps", "x"], "steps"),
    (["run", "first", *TINY, "--seed", "7", "--seeds", "1"],
     "--seed 7 cannot be set: a cell always has the seeds 0, 1"),
    (["show", "mood", "--results", "/nonexistent"], "cannot open"),
])
def test_bad_arguments_are_rejected(arguments, part, tmp_path):
  assert part in refused("paper", *arguments, cwd=tmp_path)
  assert not list(tmp_path.iterdir())


def test_an_unwritable_ledger_is_noticed_before_the_run(tmp_path):
  (tmp_path / "results" / "ledger.jsonl").mkdir(parents=True)
  for action in ("run", "show"):
    output = refused("paper", action, "first", *places(tmp_path))
    assert "ledger.jsonl is a folder, not a file" in output
  (tmp_path / "results" / "ledger.jsonl").rmdir()
  shutil.rmtree(tmp_path / "results")
  (tmp_path / "results").write_text("")
  assert "results" in refused("paper", "run", "first", *places(tmp_path))
  assert not (tmp_path / "runs").exists() and not (tmp_path / "data").exists()


def test_a_damaged_ledger_is_refused(tmp_path):
  Path(tmp_path / "ledger.jsonl").write_text('{"run": 3}\n')
  assert "line 1" in refused("paper", "run", "first", "--results", tmp_path, cwd=tmp_path)


def test_the_ledger_marks_builds_of_modified_trees(tmp_path):
  """Every build updates the commit that the ledger records, even if it compiles nothing else."""
  git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "-c",
         "commit.gpgsign=false"]
  make = ["env", "-u", "MAKEFLAGS", "make", "-C", tmp_path, "BUILD=build", "build/src/sweep/journal.o"]
  for name, text in {"src/sweep/journal.c": "const char *commit = BFM_COMMIT;\n", "other": "",
                     "include/bfm.h": "", "scripts/deps.sh": "", "scripts/models.py": "",
                     ".venv/bin/python": "", ".deps/lib/libmujoco.so": "", ".deps/ready": "",
                     ".gitignore": "build\n", "Makefile": (ROOT / "Makefile").read_text()}.items():
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)

  def built():
    subprocess.run(make, check=True, capture_output=True)
    return b"-dirty" in (tmp_path / "build/src/sweep/journal.o").read_bytes()

  for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
    subprocess.run([*git, *words], check=True)
  assert not built()
  (tmp_path / "other").write_text("changed")
  assert built()
  subprocess.run([*git, "commit", "-qam", "two"], check=True)
  assert not built()
