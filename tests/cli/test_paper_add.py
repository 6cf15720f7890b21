"""bfm paper add: runs of bfm train in the ledger, from the logs in their folders."""
import json
import resource
import shutil

import pytest
from conftest import ROOT, TINY, read_ledger, refused, run, write_dataset

TASKS = "stand walk run spin flip march skyreach pullup".split()
BARE = ["--domain", "walker", "--kind", "mood", "--algo", "fb-aw"]
OF_THE_RUN = ("run", "more", "seed", "steps", "es", "episodes", "eval_steps", "returns", "data",
              "transitions", "precision", "config", "config_hash")


def write_log(folder, steps=(10, 20), seeds=2, es=(0, 32), tasks=TASKS, scale=1):
  """Write the eval.jsonl of a run, with returns that tell its lines apart."""
  folder.mkdir(parents=True, exist_ok=True)
  lines = [{"step": step, "seed": seed, "task": task, "es": e, "std": 1, "episodes": 20,
            "mean": scale * (step + 100 * seed + e / 100 + i)}
           for step in steps for seed in range(seeds) for e in es for i, task in enumerate(tasks)]
  (folder / "eval.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
  (folder / "log.jsonl").write_text("".join(
      json.dumps({"step": step, "seconds": step / 2}) + "\n" for step in range(5, 100, 5)))
  return folder


def add(results, *arguments):
  """Add to the ledger in `results`; return the printed text and all lines of the ledger."""
  process = run("paper", "add", *arguments, "--results", results)
  assert process.returncode == 0, process.stderr
  return process.stdout, lines_of(results)


def lines_of(results):
  return read_ledger(results)


def of_the_run(lines):
  return sorted(({key: line.get(key) for key in OF_THE_RUN} for line in lines), key=json.dumps)


def test_a_bare_log_becomes_one_line_per_seed_and_es(tmp_path):
  log = write_log(tmp_path / "log")
  text, lines = add(tmp_path, log, *BARE, "--precision", "bf16", "--commit", "abc1234")
  assert text == "added   FB-AW: walker mood algo=fb-aw d=64, 2 seeds, 20 steps\n"
  assert sorted((x["seed"], x["es"]) for x in lines) == [(0, 0), (0, 32), (1, 0), (1, 32)]
  line = next(x for x in lines if x["seed"] == 1 and x["es"] == 32)
  assert line["run"] == "walker mood algo=fb-aw d=64" and line["more"] == ""
  assert line["returns"] == {task: 120.32 + i for i, task in enumerate(TASKS)}
  assert line["steps"] == 20 and line["episodes"] == 20 and line["seconds"] == 10
  assert line["precision"] == "bf16" and line["commit"] == "abc1234"
  assert line["curve"]["steps"] == [10, 20]
  assert line["source"] == "log" and line["folder"] == str(log)
  assert line["unknown"] == ["data", "transitions", "device", "version", "machine", "time"]
  # of the recipe, and completed
  assert line["config"]["ortho"] == 100 and line["config"]["z-groups"] == 1024


def test_a_full_disk_leaves_no_partial_results(tmp_path):
  log = write_log(tmp_path / "log")
  path = tmp_path / "ledger.jsonl"
  _, (line, *_) = add(tmp_path / "first", log, *BARE)
  kept = (json.dumps({**line, "run": "another"}) + "\n") * 3
  path.write_text(kept)
  room = len(kept) + len(json.dumps(line)) + 100  # enough for one of four lines
  limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
  error = refused("paper", "add", log, *BARE, "--results", tmp_path, preexec_fn=limit)
  assert "No space left" in error and path.read_text() == kept
  path.write_text(kept[:-20])  # the last line was cut off: it is removed before others are appended
  _, lines = add(tmp_path, log, *BARE)
  assert [x["run"] for x in lines][:2] == ["another"] * 2
  assert sorted((x["seed"], x["es"]) for x in lines[2:]) == [(0, 0), (0, 32), (1, 0), (1, 32)]


def test_adding_twice_adds_nothing(tmp_path):
  log = write_log(tmp_path / "log")
  add(tmp_path, log, *BARE)
  before = (tmp_path / "ledger.jsonl").read_bytes()
  text, _ = add(tmp_path, log, log, *BARE, "--commit", "abc1234")
  assert text == "done    FB-AW: walker mood algo=fb-aw d=64, 2 seeds, 20 steps\n" * 2
  assert (tmp_path / "ledger.jsonl").read_bytes() == before
  # a third seed, later
  write_log(log, seeds=3)
  text, lines = add(tmp_path, log, *BARE)
  assert text.startswith("added ") and len(lines) == 6


def test_an_evaluated_step_can_be_chosen(tmp_path):
  log = write_log(tmp_path / "log", steps=(10, 20, 30))
  _, lines = add(tmp_path, log, *BARE, "--steps", 20)
  assert {x["steps"] for x in lines} == {20} and {x["seconds"] for x in lines} == {10}
  assert lines[0]["curve"]["steps"] == [10, 20]
  _, lines = add(tmp_path, log, *BARE)
  assert [x["steps"] for x in lines] == [20] * 4 + [30] * 4


@pytest.mark.parametrize("missing", [1, len(TASKS), 2 * len(TASKS)])
def test_a_cut_evaluation_is_passed_over(missing, tmp_path):
  """It lacks a task, one es of a seed, or a seed."""
  log = write_log(tmp_path / "log")
  lines = (log / "eval.jsonl").read_text().splitlines(keepends=True)
  (log / "eval.jsonl").write_text("".join(lines[:-missing]))
  assert {x["steps"] for x in add(tmp_path, log, *BARE)[1]} == {10}
  error = refused("paper", "add", log, *BARE, "--steps", 20, "--results", tmp_path)
  task = TASKS[-1] if missing == 1 else TASKS[0]
  assert f"the evaluation of step 20 lacks walker's task {task} (seed 1, es " in error


def test_options_beyond_the_table_are_named(tmp_path):
  log = write_log(tmp_path / "log")
  more = [*BARE, "--preset", "small", "--lr", "3e-4", "--precision", "tf32", "--eval-steps", 250]
  _, lines = add(tmp_path, log, *more)
  assert lines[0]["more"] == "eval-steps=250 lr=0.0003 preset=small" and lines[0]["precision"] == "tf32"
  assert lines[0]["config"]["hidden"] == 256 and lines[0]["eval_steps"] == 250
  # a cell of another table is nearer
  _, lines = add(tmp_path / "wis", log, *BARE, "--weights", "wis", "--target", "mean")
  assert lines[0]["run"] == "walker mood algo=fb-aw weights=wis d=64" and lines[0]["more"] == ""


def test_the_recipe_of_another_version_is_not_an_option_beyond_the_table(tmp_path):
  log = write_log(tmp_path / "log")
  _, lines = add(tmp_path, log, *BARE, "--recipe", "ortho=1 f-norm=off")
  assert lines[0]["more"] == ""
  assert lines[0]["config"]["ortho"] == 1 and lines[0]["config"]["f-norm"] is False
  _, lines = add(tmp_path / "given", log, *BARE, "--ortho", 1)
  assert lines[0]["more"] == "ortho=1" and lines[0]["config"]["f-norm"] is True


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  """A folder in which a cell of the table first has been run, with its data and ledger."""
  folder = tmp_path_factory.mktemp("trained")
  process = run("paper", "run", "first", "--filter", "FB-AWARE", *TINY, "--es", 2, "--steps", 20,
                "--seeds", 2, "--data-steps", 500, "--episodes", 2, "--eval-steps", 5, "--data",
                folder / "data", "--runs", folder / "runs", "--results", folder)
  assert process.returncode == 0, process.stderr
  return folder


def test_a_folder_says_what_its_run_was(trained, tmp_path):
  (folder,) = (trained / "runs").iterdir()
  _, lines = add(tmp_path, folder)
  assert len(lines) == 4 and of_the_run(lines) == of_the_run(lines_of(trained))
  assert lines[0]["unknown"] == ["device", "commit", "machine", "time"]
  # the ledger of bfm paper run has these returns already
  text, after = add(trained, folder)
  assert text.startswith("done ") and not any("source" in x for x in after)


def test_an_added_run_is_not_run_again(trained, tmp_path):
  (folder,) = (trained / "runs").iterdir()
  flags = ["first", "--filter", "FB-AWARE", *TINY, "--es", 2, "--steps", 20, "--seeds", 2,
           "--episodes", 2, "--eval-steps", 5, "--data", trained / "data", "--runs",
           tmp_path / "runs", "--results", tmp_path]
  _, lines = add(tmp_path, folder)
  assert run("paper", "run", *flags).stdout.startswith("done ")
  # the method is shown with sampling: a log without it does not count
  kept = "".join(json.dumps(x) + "\n" for x in lines if not x["es"])
  (tmp_path / "ledger.jsonl").write_text(kept)
  assert run("paper", "run", *flags).stdout.startswith("train ")


def test_a_run_whose_data_is_gone_keeps_its_checksum(trained, tmp_path):
  (source,) = (trained / "runs").iterdir()
  folder = shutil.copytree(source, tmp_path / "run")
  record = json.loads((folder / "run.json").read_text())
  record["data"] = ["/gone/point_mass-random.h5"]
  (folder / "run.json").write_text(json.dumps(record))
  assert "add --kind" in refused("paper", "add", folder, "--results", tmp_path)
  _, lines = add(tmp_path, folder, "--kind", "random")
  assert lines[0]["data"] == {"file": "point_mass-random.h5", "checksum": record["checksum"]}
  assert "transitions" in lines[0]["unknown"] and "data" not in lines[0]["unknown"]


def test_data_that_has_changed_is_not_taken_for_that_of_the_run(trained, tmp_path):
  (source,) = (trained / "runs").iterdir()
  folder = shutil.copytree(source, tmp_path / "run")
  record = json.loads((folder / "run.json").read_text())
  other = tmp_path / "other.h5"
  assert run("collect", "point_mass", "--steps", 400, "-q", "-o", other).returncode == 0
  record["data"] = [str(other)]
  (folder / "run.json").write_text(json.dumps(record))
  _, lines = add(tmp_path, folder, "--kind", "random")
  assert lines[0]["data"] == {"file": "other.h5", "checksum": record["checksum"]}


def test_a_stride_has_the_checksum_of_all_transitions(tmp_path):
  """As bfm paper run records it, and unlike run.json."""
  data, folder, plain = (tmp_path / name for name in ("data.h5", "run", "plain"))
  assert run("collect", "point_mass", "--hold", 4, "--steps", 500, "-q", "-o", data).returncode == 0
  for path, flags in ((plain, []), (folder, ["--stride", 4, "--eval-every", 2, "--eval-steps", 2])):
    assert run("train", data, *TINY, *flags, "--steps", 2, "-o", path).returncode == 0
  checksums = [json.loads((x / "run.json").read_text())["checksum"] for x in (folder, plain)]
  _, lines = add(tmp_path, folder)
  assert lines[0]["data"]["checksum"] == checksums[1] != checksums[0]
  data.unlink()
  _, lines = add(tmp_path / "gone", folder, "--kind", "random")
  assert "data" in lines[0]["unknown"]


def test_what_the_folder_says_cannot_be_changed(trained, tmp_path):
  (folder,) = (trained / "runs").iterdir()
  for flag, value, part in (
      ("--domain", "walker", f"the run in {folder} has the domain point_mass, not walker: leave out"),
      ("--kind", "mood", f"the data of {folder} was collected with random: leave out --kind mood"),
      ("--d", "16", "state.safetensors has the configuration of the run: leave out --d"),
      ("--precision", "bf16", "has the precision f32, not bf16: leave out --precision"),
      ("--eval-steps", "7", "run.json has the length of episodes: leave out --eval-steps 7")):
    assert part in refused("paper", "add", folder, flag, value, "--results", tmp_path)
  assert not (tmp_path / "ledger.jsonl").exists()


@pytest.mark.parametrize("arguments, part", [
    ([], "name the folders of the runs"),
    (["none", *BARE], "none is not a folder: name that of a run of bfm train"),
    (["empty", *BARE], "empty has no eval.jsonl with evaluations"),
    (["log"], "log does not say which domain its run is of: add --domain"),
    (["log", "--domain", "wolker"], "did you mean 'walker'?"),
    (["log", "--domain", "walker"], "which kind of data its run was made with: add --kind"),
    (["log", *BARE[:4]], "log has no state.safetensors: add --algo"),
    (["log", "--domain", "cheetah", *BARE[2:]],
     "the evaluation of step 20 lacks cheetah's task walk_backward (seed 0, es 0)"),
    (["log", *BARE, "--steps", "15"], "no evaluation of step 15; the last is of 20"),
    (["log", *BARE[:2], "--kind", "moood", *BARE[4:]],
     'no table has data of the kind "moood" for walker, but of rnd, mood, mood-small, rnd-small'),
    (["log", *BARE[:2], "--kind", "rnd", "--algo", "lap", "--z-groups", "3"], "does not divide"),
    (["log", "--domain", "quadruped", "--kind", "mood", "--algo", "fb-are"],
     "no table has fb-are on quadruped's mood data"),
    (["log", *BARE, "--recipe", "ortho"], '--recipe is "ortho": name auto, none'),
    (["log", *BARE, "--recipe", "orto=1"], "did you mean ortho"),
    (["log", *BARE, "--seeds", "3"], "--seeds 3 is not an option of add"),
    (["log", *BARE, "--filter", "FB"], "--filter FB is not an option of add"),
    (["log", *BARE, "--device", "cpu"], "--device cpu is not an option of add"),
    (["log", *BARE, "--json"], "--json is an option of show, not of add"),
])
def test_what_cannot_be_added_is_refused(arguments, part, tmp_path):
  write_log(tmp_path / "log")
  (tmp_path / "empty").mkdir()
  error = refused("paper", "add", *arguments, cwd=tmp_path)
  assert part in error and error.count("\n") == 1
  assert not (tmp_path / "results").exists()
  assert "--kind mood is not an option of run" in refused("paper", "run", "mood", *BARE[2:4])


def test_single_task_agents_are_refused(tmp_path):
  data = write_dataset(tmp_path / "data.h5", obs=24, act=6)
  log = write_log(tmp_path / "log")
  (log / "run.json").write_text(json.dumps(
      {"data": [str(data)], "checksum": 1, "settings": {}, "algo": "iql"}))
  assert "is a run of iql, which learns policies of single tasks" in refused(
      "paper", "add", log, *BARE, "--results", tmp_path)


def numbers(results, table="mood"):
  text = run("paper", "show", table, "--json", "--results", results).stdout
  return [x for x in map(json.loads, text.splitlines()) if "ours" in x]


def test_added_runs_are_marked(tmp_path):
  shutil.copytree(ROOT / "results" / "paper", tmp_path / "paper")
  add(tmp_path, write_log(tmp_path / "log"), *BARE)
  text = run("paper", "show", "mood", "--filter", "walker FB-AW", "--results", tmp_path).stdout
  row = next(line.split() for line in text.splitlines() if line.startswith("in "))
  assert row[1:4] == ["72", "±71", "a"]  # 21.82 and 121.82, with es
  assert ("\na             20 of 1M steps, 2 of 5 seeds, 20 of 100 episodes, from the log of a bfm train "
          "run; dataset unknown\n") in text
  assert {x["source"] for x in numbers(tmp_path)} == {"log"}


def test_logs_of_two_folders_are_two_runs(tmp_path):
  """Nobody knows whether they had the same data."""
  shutil.copytree(ROOT / "results" / "paper", tmp_path / "paper")
  for name, scale in (("one", 1), ("other", 2)):
    add(tmp_path, write_log(tmp_path / name, scale=scale), *BARE)
  assert {x["seeds"] for x in numbers(tmp_path)} == {2}
  assert len(lines_of(tmp_path)) == 8
