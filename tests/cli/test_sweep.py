"""bfm sweep: cells of a file, shared out among processes that may die at any moment."""
import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import BFM, ROOT, refused, run, write_dataset

NETS = """
  d: 4
  batch: 8
  hidden: 8
  feat: 8
  b-hidden: 8
  z-pool: 4
  threads: 1
  device: cpu
"""
SMALL = NETS + """
  es: 2
  eval-episodes: 1
  eval-steps: 2
  eval-tasks: reach_top_left,reach_top_right
"""
COLLECT = """
collect:
  data: {domain: point_mass, steps: 300, envs: 4, seed: [0, 1], threads: 1}
"""


def sweep(folder, text, *flags):
  (folder / "sweep.yaml").write_text(text)
  process = run("sweep", "sweep.yaml", "-o", "out", *flags, cwd=folder)
  assert process.returncode == 0, process.stderr
  return process.stdout


def raw_ledger(folder):
  return [json.loads(line) for path in sorted((folder / "out" / "ledger").glob("*.jsonl"))
          for line in path.read_text().splitlines()]


def listed(folder):
  """The states and the commands of all cells."""
  process = run("sweep", "sweep.yaml", "-o", "out", "--dry-run", cwd=folder)
  assert process.returncode == 0, process.stderr
  return [line.split(maxsplit=1) for line in process.stdout.splitlines()[:-1]]


def claim(folder, cell, number=1, **changes):
  """Write a claim as a process of another machine would."""
  content = {"state": "held", "host": "elsewhere", "process": 1, "machine": "a boot of its own",
             "start": "1", "expire": 2, "deaths": 0, "beat": 1, **changes}
  path = folder / "out" / "ledger" / f"{cell}.{number}.claim"
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(json.dumps(content).ljust(511) + "\n")
  return path


def names(folder):
  return [Path(command.split(" -o ")[1]).name.removesuffix(".h5") for _, command in listed(folder)]


# ---------------------------------- processes that die -------------------------------------------


def test_every_cell_has_one_result_although_processes_are_killed(tmp_path):
  """Four processes share 42 cells while one after the other is killed and replaced."""
  (tmp_path / "sweep.yaml").write_text(
      COLLECT + "common:" + SMALL + "  steps: 30\n  save-every: 5\n"
      "train:\n  data: data\n  algo: [fb, fb-aw]\n  seed: 0..9\n")
  command = [BFM, "sweep", "sweep.yaml", "-o", "out", "-q"]
  start = lambda: subprocess.Popen(command, cwd=tmp_path)
  choose = random.Random(7)
  workers, kills, until = [start() for _ in range(4)], 0, time.monotonic() + 60
  while any(worker.poll() is None for worker in workers):
    assert time.monotonic() < until
    time.sleep(choose.uniform(0.05, 0.5))
    at = choose.randrange(4)
    if kills < 20 and workers[at].poll() is None:
      workers[at].send_signal(signal.SIGKILL)
      workers[at].wait()
      workers[at], kills = start(), kills + 1
  assert kills >= 10 and all(worker.returncode == 0 for worker in workers)
  lines = raw_ledger(tmp_path)
  assert sorted(x["cell"] for x in lines) == sorted(names(tmp_path)) and len(lines) == 42
  assert not any("error" in x for x in lines)
  assert list(tmp_path.glob("out/ledger/*.2.claim"))  # cells were taken over
  assert {state for state, _ in listed(tmp_path)} == {"done"}
  for line in lines:
    if line["kind"] == "train":
      (result,) = line["results"]
      assert line["step"] == 30 and result["seed"] == int(line["options"]["seed"])
      assert len(result["returns"]) == 2


def test_an_interrupted_cell_is_given_back_and_resumed(tmp_path):
  text = COLLECT.replace("[0, 1]", "0") + "train:\n  data: data\n  algo: fb\n  log-every: 10" \
      + SMALL + "  steps: 200k\n"
  (tmp_path / "sweep.yaml").write_text(text)
  process = subprocess.Popen([BFM, "sweep", "sweep.yaml", "-o", "out"], cwd=tmp_path, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
  while not any(path.stat().st_size for path in tmp_path.glob("out/train/*/log.jsonl")):
    time.sleep(0.02)
  state, command = listed(tmp_path)[1]
  assert state == "running"
  process.send_signal(signal.SIGINT)
  _, error = process.communicate(timeout=30)
  assert process.returncode == 130
  assert "stopped in the cell data-fb-seed0-" in error and "the same bfm sweep command" in error
  assert [state for state, _ in listed(tmp_path)] == ["done", "waiting"]
  (log,) = tmp_path.glob("out/train/*/log.jsonl")
  before = json.loads(log.read_text().splitlines()[-1])["step"]
  (path,) = tmp_path.glob("out/ledger/data-fb-*.claim")
  assert json.loads(path.read_text())["state"] == "free"
  # the state is complete: the next process goes on from there
  process = subprocess.Popen([BFM, "sweep", "sweep.yaml", "-o", "out", "-q"], cwd=tmp_path)
  while json.loads(log.read_text().splitlines()[-1])["step"] <= before:
    time.sleep(0.02)
  steps = [json.loads(line)["step"] for line in log.read_text().splitlines()]
  process.kill()
  process.wait()
  assert steps == sorted(set(steps)) and steps[0] == 10


# ---------------------------------- claims of other machines -------------------------------------

ONE = "collect:\n  a: {domain: point_mass, steps: 200, envs: 4, threads: 1}\n"


@pytest.fixture
def one(tmp_path):
  (tmp_path / "sweep.yaml").write_text(ONE)
  return tmp_path, names(tmp_path)[0]


def test_a_dead_machines_claim_expires(one):
  folder, cell = one
  claim(folder, cell, host="gone", expire=1.5)
  assert listed(folder)[0][0] == "running"
  begin = time.monotonic()
  text = sweep(folder, ONE)
  assert 1.5 < time.monotonic() - begin < 10 and "wait" in text
  content = json.loads((folder / f"out/ledger/{cell}.2.claim").read_text())
  assert content["state"] == "done" and content["deaths"] == 1
  assert len(raw_ledger(folder)) == 1


def test_a_claim_that_is_renewed_stays_although_its_clock_is_wrong(one):
  """Only the content counts: the time of the file is a century ago."""
  folder, cell = one
  path = claim(folder, cell, expire=1)
  process = subprocess.Popen([BFM, "sweep", "sweep.yaml", "-o", "out", "-q"], cwd=folder)
  for beat in range(10):
    claim(folder, cell, expire=1, beat=beat + 2)
    os.utime(path, (0, 0))
    time.sleep(0.3)
    assert process.poll() is None and not raw_ledger(folder)
  assert process.wait(timeout=10) == 0 and len(raw_ledger(folder)) == 1


def test_a_dead_process_of_this_machine_is_replaced_at_once(one):
  folder, cell = one
  (folder / "sweep.yaml").write_text(ONE.replace("200", "20M"))
  process = subprocess.Popen([BFM, "sweep", "sweep.yaml", "-o", "out", "-q"], cwd=folder)
  while not list(folder.glob("out/ledger/*.claim")):
    time.sleep(0.02)
  process.kill()
  process.wait()
  (path,) = folder.glob("out/ledger/*.claim")
  mine = json.loads(path.read_text())
  # a process with the same number began at another time
  claim(folder, cell, **{**mine, "process": os.getpid()})
  begin = time.monotonic()
  sweep(folder, ONE)
  assert time.monotonic() - begin < 5 < mine["expire"]


@pytest.mark.skipif(subprocess.run(["unshare", "--uts", "true"], capture_output=True).returncode,
                    reason="new host names are not allowed here")
def test_two_hosts_share_a_folder(tmp_path):
  """Another host name is another machine: its processes are judged by their renewals alone."""
  (tmp_path / "sweep.yaml").write_text(
      COLLECT + "common:" + SMALL + "  steps: 10\ntrain: {data: data, algo: fb, seed: 0..3}\n")
  command = lambda host: ["unshare", "--uts", "sh", "-c",
                          f"hostname {host} && exec {BFM} sweep sweep.yaml -o out -q --expire 2"]
  start = lambda host: subprocess.Popen(command(host), cwd=tmp_path)
  first = start("bfm-a")
  while not list(tmp_path.glob("out/ledger/*.claim")):
    time.sleep(0.01)
  first.kill()
  first.wait()
  begin = time.monotonic()
  workers = [start("bfm-b"), start("bfm-c")]
  assert [worker.wait(timeout=40) for worker in workers] == [0, 0]
  lines = raw_ledger(tmp_path)
  assert sorted(x["cell"] for x in lines) == sorted(names(tmp_path)) and len(lines) == 10
  taken_over = list(tmp_path.glob("out/ledger/*.2.claim"))
  assert not taken_over or time.monotonic() - begin > 2
  writers = {path.name.split("-")[1] for path in tmp_path.glob("out/ledger/*.jsonl")}
  assert writers <= {"a", "b", "c"} and len(writers) >= 2


def test_a_suspended_process_of_this_machine_keeps_its_cell(one):
  folder, cell = one
  (folder / "sweep.yaml").write_text(ONE.replace("200", "300k"))
  start = lambda: subprocess.Popen([BFM, "sweep", "sweep.yaml", "-o", "out", "-q", "--expire", "1"],
                                   cwd=folder)
  first = start()
  while not list(folder.glob("out/data/*.h5")):
    time.sleep(0.01)
  first.send_signal(signal.SIGSTOP)
  second = start()
  time.sleep(2)
  assert second.poll() is None and not list(folder.glob("out/ledger/*.2.claim"))
  first.send_signal(signal.SIGCONT)
  assert first.wait(timeout=30) == second.wait(timeout=30) == 0
  assert len(raw_ledger(folder)) == 1


def test_a_process_that_lost_its_cell_writes_nothing_more(one):
  """The holder sleeps, another machine takes the cell over, the holder wakes up."""
  folder, cell = one
  text = ONE.replace("200", "200M")
  (folder / "sweep.yaml").write_text(text)
  cell = names(folder)[0]
  process = subprocess.Popen([BFM, "sweep", "sweep.yaml", "-o", "out", "--expire", "1"], cwd=folder,
                             text=True, stdout=subprocess.PIPE)
  while not list(folder.glob("out/data/*.h5")):
    time.sleep(0.02)
  claim(folder, cell, number=2, state="done")
  line = {"cell": cell, "kind": "collect", "options": {}, "seconds": 1}
  (folder / "out/ledger/elsewhere-1.jsonl").write_text(json.dumps(line) + "\n")
  output, _ = process.communicate(timeout=20)
  assert process.returncode == 0 and f"lost    {cell} to another process" in output
  assert raw_ledger(folder) == [line]


def test_a_cell_that_kills_its_processes_fails(one):
  folder, cell = one
  claim(folder, cell, number=1, expire=1, deaths=9)
  error = refused("sweep", "sweep.yaml", "-o", "out", cwd=folder)
  assert "1 of 1 cells failed" in error
  assert "10 processes ended in it without a result" in raw_ledger(folder)[0]["error"]


# ---------------------------------- failures -----------------------------------------------------


def test_failed_cells_are_listed_and_run_again_on_demand(tmp_path):
  write_dataset(tmp_path / "bad.h5", obs=4, env="point_mass", rewards=None)
  good = write_dataset(tmp_path / "good.h5", obs=4, env="point_mass")
  bad = (tmp_path / "bad.h5").read_bytes()
  text = "train:" + NETS + "  data: [good.h5, bad.h5]\n  steps: 5\n  eval-every: 0\n"
  (tmp_path / "sweep.yaml").write_text(text)
  (tmp_path / "bad.h5").write_bytes(bad[:1000])
  error = refused("sweep", "sweep.yaml", "-o", "out", cwd=tmp_path)
  assert "1 of 2 cells failed: bfm sweep show out lists them, --retry runs them again" in error
  assert [state for state, _ in listed(tmp_path)] == ["done", "failed"]
  shown = run("sweep", "show", "out", cwd=tmp_path).stdout
  assert "1 failed:\n  bad-fb-aware-seed0-" in shown and "bad.h5" in shown
  refused("sweep", "sweep.yaml", "-o", "out", cwd=tmp_path)
  assert len(raw_ledger(tmp_path)) == 2  # not tried again
  shutil.copy(good, tmp_path / "bad.h5")
  assert "2 of 2 cells have results" in sweep(tmp_path, text, "--retry")
  assert "failed" not in run("sweep", "show", "out", cwd=tmp_path).stdout


def test_a_folder_that_is_not_shared_is_noticed(tmp_path):
  text = COLLECT + "common:" + SMALL + "  steps: 5\ntrain: {data: data, algo: fb}\n"
  (tmp_path / "sweep.yaml").write_text(text.split("common")[0])
  sweep(tmp_path, (tmp_path / "sweep.yaml").read_text())
  shutil.rmtree(tmp_path / "out" / "data")
  (tmp_path / "sweep.yaml").write_text(text)
  error = refused("sweep", "sweep.yaml", "-o", "out", cwd=tmp_path)
  assert "was collected by another process, but is not here: all machines must share" in error


@pytest.mark.skipif(subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode,
                    reason="new mounts are not allowed here")
def test_a_read_only_folder_is_one_sentence(tmp_path):
  (tmp_path / "sweep.yaml").write_text(ONE)
  (tmp_path / "out").mkdir()
  script = f"mount --bind -o ro out out && mount -o remount,ro,bind out && " \
           f"exec {BFM} sweep sweep.yaml -o out"
  process = subprocess.run(["unshare", "--mount", "sh", "-c", script], cwd=tmp_path, text=True,
                           capture_output=True)
  if "mount:" in process.stderr:
    pytest.skip("mounting is not allowed here")
  assert process.returncode > 0 and process.stderr.count("\n") == 1
  assert "a folder that it can write into on all machines" in process.stderr
  assert "Read-only file system" in process.stderr


# ---------------------------------- the file -----------------------------------------------------


def test_all_combinations_become_commands_that_can_be_typed(tmp_path):
  write_dataset(tmp_path / "old.h5")
  (tmp_path / "sweep.yaml").write_text("""
collect:
  mood: {domain: [walker, cheetah], with: mood, steps: 1M}
  run: {domain: walker, with: td3, task: "speed > 1", steps: 100k}
common: {steps: 1k, z_mix: 0.25}
train:
  - {data: [mood, old.h5, [run, old.h5]], algo: [fb, fb-aw], seed: 3..5}
  - {data: run, algo: fb-aware, lr: [1e-4, 3e-4], z-mix: 0.5, eval-every: 0}
""")
  cells = [command for _, command in listed(tmp_path)]
  assert len(cells) == 3 + (2 + 1 + 1) * 2 * 3 + 2
  assert cells[0].startswith("bfm collect walker --with mood --steps 1000000 -o out/data/mood-walker")
  assert "--task 'speed > 1'" in cells[2]
  assert cells[3].startswith("bfm train out/data/mood-walker-seed0-")
  assert "--algo fb --seed 3 --steps 1000 --z-mix 0.25 --eval-every 1000 -o out/train/" in cells[3]
  assert "--seed 4" in cells[4]  # the last option changes fastest
  together = [x for x in cells if x.split(" --")[0].count(".h5") == 2]
  assert len(together) == 6 and "old.h5" in together[0] and "data/run-" in together[0]
  assert "--lr 0.0003 --z-mix 0.5 --eval-every 0 --steps 1000 -o" in cells[-1]


def test_the_example_of_the_documentation_can_be_read(tmp_path):
  page = (ROOT / "docs" / "cluster.md").read_text()
  lines = page.split("    # sweep.yaml: ")[1].split("\n\n")[0].splitlines()
  (tmp_path / "sweep.yaml").write_text("\n".join(["#", *lines[1:]]).replace("\n    ", "\n") + "\n")
  write_dataset(tmp_path / "old.h5")
  assert len(listed(tmp_path)) == 3 + 2 * 3 * 5 + (1 + 2 + 1) * 5


def test_a_cells_name_depends_on_its_options_alone(tmp_path):
  """More values, another order and another spelling keep the cells that are there."""
  write_dataset(tmp_path / "a.h5")
  (tmp_path / "sweep.yaml").write_text("train: {data: a.h5, algo: fb, steps: 1k, seed: 0..1}\n")
  before = names(tmp_path)
  (tmp_path / "sweep.yaml").write_text(
      "train:\n  seed: [2, 1, 0]\n  steps: [1e3]\n  algo: [fb, fb-aw]\n  data: a.h5\n")
  assert set(before) < set(names(tmp_path)) and len(names(tmp_path)) == 6


@pytest.mark.parametrize("text, part", [
    ("train: {data: a.h5, alog: fb}", 'sweep.yaml:1: bfm train has no option "alog"; did you mean algo?'),
    ("collect: {a: {domain: walker, stepz: 1}}", 'no option "stepz"; did you mean steps?'),
    ("trian: {data: a.h5}", 'a sweep has no part "trian"; did you mean train?'),
    ("train: {data: a.h5, algo: [fb, fb-awar]}", "did you mean fb-aware?"),
    ("train: {data: a.h5, seed: []}", "seed has no values: the grid is empty"),
    ("train: []", "has no cells"),
    ("collect: {}", "has no cells"),
    ("", "is empty: it must have collect: or train:"),
    ("train: {data: a.h5, seed: [1, 2, 1]}", "two cells are the same"),
    ("train: [{data: a.h5, lr: 1e-4}, {data: a.h5, lr: 0.0001}]", "two cells are the same"),
    ("train: {data: a.h5, seed: 1, seed: 2}", 'the key "seed" is here twice, first in line 1'),
    ("train: {data: a.h5, seed: 4..2}", "seed is 4..2, but a range goes up"),
    ("train: {data: a.h5, seed: 1..}", 'seed is "1.."'),
    ("train: {data: a.h5, lr: 1..2}", 'lr is "1..2", but must be a number'),
    ("train: {data: a.h5, batch: 1}", "batch is 1, but must be from 2"),
    ("train: {data: a.h5, algo: fb, blocks: 4}", "needs an auto-regressive algorithm"),
    ("train: {data: a.h5, task: run}", "--task is an option of bc, td3bc, iql and xql"),
    ("train: {algo: fb}", "need data"),
    ("train: {data: [[]]}", "a list of datasets is empty"),
    ("train: {data: []}", "data has no values"),
    ("train: &a {data: *a}", "a dataset must be a name or a file"),
    ("? [a]\n: b", "a key must be a text"),
    ("collect: {a: {domain: walker, with: td3, task: [" + "x + " * 62 + "x, y]}}", "too long to tell"),
    ("train: {data: b.h5}", 'data is "b.h5", which is neither a name under collect nor a file'),
    ("collect: {mood: {domain: walker}}\ntrain: {data: moood}", "did you mean mood?"),
    ("collect: {a: {with: mood}}", "a needs a domain"),
    ("collect: {a: {domain: wolker}}", "did you mean"),
    ("collect: {a b: {domain: walker}}", '"a b" cannot name a dataset'),
    ("collect: [walker]", "collect must be a mapping"),
    ("train: {data: a.h5, lr: {a: 1}}", "a value of lr must be a text or a number"),
    ("train: {data: a.h5, seed: 0..9999, lr: [1, 2]}", "more than 10000 cells"),
    ("train: {data: a.h5", "this is not YAML"),
])
def test_mistakes_in_the_file_are_named(text, part, tmp_path):
  write_dataset(tmp_path / "a.h5")
  (tmp_path / "sweep.yaml").write_text(text)
  error = refused("sweep", "sweep.yaml", "-o", "out", cwd=tmp_path)
  assert part in error and error.count("\n") == 1
  assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments, part", [
    ([], "name the file of a sweep"),
    (["none.yaml", "-o", "out"], "cannot open none.yaml"),
    (["sweep.yaml"], "name the folder of the sweep: bfm sweep sweep.yaml -o runs/sweep"),
    (["sweep.yaml", "-o", "sweep.yaml"], "can write into on all machines"),
    (["sweep.yaml", "other", "-o", "out"], "name one file"),
    (["sweep.yaml", "-o", "out", "--json"], "--json is an option of bfm sweep show"),
    (["show"], "name the folder"),
    (["show", "none"], "none has no results of a sweep"),
    (["show", "none", "--retry"], "--retry is not an option of show"),
    (["sweep.yaml", "-o", "out", "--expire", "0"], "expire is 0, but must be from 1"),
    (["sweep.yaml", "-o", "out", "--retri"], "did you mean --retry?"),
])
def test_bad_arguments_are_rejected(arguments, part, tmp_path):
  (tmp_path / "sweep.yaml").write_text(ONE)
  assert part in refused("sweep", *arguments, cwd=tmp_path)


def test_a_damaged_ledger_is_refused_and_a_cut_line_is_ignored(one):
  folder, _ = one
  sweep(folder, ONE)
  (path,) = folder.glob("out/ledger/*.jsonl")
  text = path.read_text()
  path.write_text(text[:40])
  assert "1 of 1 cells have results" in sweep(folder, ONE, "--expire", "1")
  path.write_text('{"cell": 3}\n')
  for arguments in (["sweep.yaml", "-o", "out"], ["show", "out"]):
    assert f"{path.name}: line 1 is not a result of bfm sweep" in refused("sweep", *arguments,
                                                                         cwd=folder)
  path.write_text("{cut\n" + text)
  assert "line 1 is not a result" in refused("sweep", "show", "out", cwd=folder)


# ---------------------------------- results ------------------------------------------------------


def write_results(folder):
  """A ledger with two algorithms, three seeds each, by two processes."""
  rng = np.random.default_rng(0)
  lines, values = [], {}
  for algo in ("fb", "fb-aw"):
    for seed in range(3):
      returns = {task: rng.normal(100, 10) for task in ("stand", "walk")}
      values.setdefault(algo, []).append(returns)
      options = {"algo": algo, "seed": str(seed), "steps": "10", "eval-every": "10"}
      lines.append({"cell": f"{algo}-{seed}", "kind": "train", "options": options, "data": ["mood"],
                    "seconds": 1 + seed, "step": 10, "log": {"step": 10, "fb": float(seed)},
                    "results": [{"seed": seed, "es": es, "returns": returns if es else {"stand": 0}}
                                for es in (0, 32)], "time": f"2026-01-01T00:00:0{seed}Z"})
  # a failure before and a second result after the first do not count twice
  lines.append({"cell": "fb-0", "kind": "train", "options": {}, "error": "x", "time": "2025"})
  lines.append(dict(lines[0], time="2026-02-01T00:00:00Z"))
  (folder / "ledger").mkdir(parents=True)
  for i in range(2):
    (folder / "ledger" / f"host-{i}.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines[i::2]))
  return values


def test_means_and_intervals_are_those_of_the_seeds(tmp_path):
  values = write_results(tmp_path)
  process = run("sweep", "show", tmp_path, "--json", "--value", "return,walk,fb,seconds")
  rows = [json.loads(line) for line in process.stdout.splitlines()]
  assert [row["options"] for row in rows] == [{"algo": "fb"}, {"algo": "fb-aw"}]
  for row in rows:
    seeds = values[row["options"]["algo"]]
    for name, numbers in {"return": [np.mean(list(x.values())) for x in seeds],
                          "walk": [x["walk"] for x in seeds], "fb": [0, 1, 2],
                          "seconds": [1, 2, 3]}.items():
      half = 4.302653 * np.std(numbers, ddof=1) / np.sqrt(3)  # Student's t, two degrees, 95%
      expected = {"seeds": 3, "mean": np.mean(numbers), "low": np.mean(numbers) - half,
                  "high": np.mean(numbers) + half}
      assert row[name] == pytest.approx(expected, rel=1e-5)
    assert len(row["cells"]) == 3
  text = run("sweep", "show", tmp_path).stdout
  assert text.splitlines()[0].split() == ["algo", "seeds", "return"]
  mean = np.mean([np.mean(list(x.values())) for x in values["fb"]])
  assert text.splitlines()[1].startswith(f"fb         3  {mean:.1f} ± ")


def test_values_that_no_result_has_are_rejected(tmp_path):
  write_results(tmp_path)
  assert 'no result has a value "wallk"; did you mean walk?' in \
      refused("sweep", "show", tmp_path, "--value", "wallk")


@pytest.mark.skipif(not shutil.which("gnuplot"), reason="gnuplot is not here")
def test_results_are_drawn_with_intervals(tmp_path):
  write_results(tmp_path)
  process = run("sweep", "show", tmp_path, "--value", "return,walk", "-o", tmp_path / "plot.png")
  assert process.returncode == 0, process.stderr
  picture = (tmp_path / "plot.svg").read_text()
  assert "algo fb-aw" in picture and ">walk<" in picture and "95% interval" in picture
  assert (tmp_path / "plot.png").stat().st_size > 1000
