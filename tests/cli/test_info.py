"""bfm info and bfm bench: intact files are described, damaged ones are rejected."""
import json
import os
import shutil
import subprocess
import time

import h5py
import numpy as np
import pytest
from conftest import BFM, ROOT, TINY, refused, run, write_dataset
from safetensors import safe_open
from safetensors.numpy import load_file, save_file


@pytest.fixture
def model(data, tmp_path):
  assert run("train", data, *TINY, "--f-norm", "on", "--steps", 3, "-o",
             tmp_path / "run").returncode == 0
  return tmp_path / "run" / "model.safetensors"


def describe(path):
  """Return what bfm info says of a file, as JSON."""
  process = run("info", "--json", path)
  assert process.returncode == 0, process.stderr
  return json.loads(process.stdout)


def test_dataset(data):
  info = describe(data)
  assert info["kind"] == "dataset" and info["env"] == "walker"
  assert (info["transitions"], info["episodes"], info["obs_dim"], info["act_dim"]) == (200, 4, 5, 2)
  assert -1 <= info["ranges"]["actions"]["min"] < info["ranges"]["actions"]["max"] <= 1
  assert "200" in run("info", data).stdout


def test_pieces_of_an_episode_are_joined(tmp_path):
  """Episode 0 is written in two pieces with other episodes between them. If a file is merged with
  itself, equal episode numbers of the two copies stay separate episodes."""
  rows = 20
  episode = np.repeat([0, 1, 0, 10, 9], 4)  # four rows each
  first = np.repeat([0, 1, 8, 10, 9], 4)    # infos/step of each piece's first row
  tables = {"infos/episode": episode, "infos/step": first + 2 * (np.arange(rows) % 4),
            "rewards": np.arange(rows, dtype="f4"), "timeouts": np.arange(rows) % 4 == 3}
  path = write_dataset(tmp_path / "pieces.h5", rows, **tables)
  found = describe(path)
  assert found["episodes"] == 4
  assert found["ranges"]["lengths"] == {"min": 4, "max": 8, "mean": 5}
  assert found["ranges"]["returns"] == {"min": 22, "max": 70, "mean": 47.5}
  process = run("train", path, *TINY, "--steps", 1, "-o", tmp_path / "run")
  assert "20 transitions in 4 episodes" in process.stdout, process

  # subsample takes an episode whole or cuts it in the order of its steps
  for seed in range(6):
    few = tmp_path / f"few{seed}.h5"
    assert run("data", "subsample", path, "--steps", 6, "--seed", seed, "-o", few).returncode == 0
    with h5py.File(few) as file:
      kept = dict(zip(*np.unique(file["infos/episode"][:], return_counts=True)))
      steps = sorted(file["infos/step"][file["infos/episode"][:] == 0])
    assert sorted(kept.values()) in ([2, 4], [6]) and steps == list(range(0, 2 * len(steps), 2))

  both = tmp_path / "both.h5"
  assert run("data", "merge", path, path, "-o", both).returncode == 0
  found = describe(both)
  assert found["episodes"] == 8 and found["ranges"]["lengths"]["max"] == 8
  assert found["ranges"]["returns"]["mean"] == pytest.approx(47.5)


def test_model_and_state(model):
  info = describe(model)
  assert info["kind"] == "model" and info["step"] == 3
  assert info["config"]["algo"] == "fb-aware" and info["config"]["blocks"] == 2
  assert info["tensors"]["pi.s.in.weight"]["shape"] == [16, 5]
  state = describe(model.parent / "state.safetensors")
  assert state["kind"] == "state" and len(state["tensors"]) > len(info["tensors"])
  text = run("info", model, model.parent / "state.safetensors").stdout
  assert "algo fb-aware" in text and "adam_m" in text


def test_policies_and_explorers(tmp_path):
  learner = ["--hidden", 16, "--batch", 16, "--device", "cpu", "--threads", 1, "--random-steps", 20]
  assert run("collect", "point_mass", "--with", "td3", "--task", "easy", *learner, "--envs", 2,
             "--steps", 300, "-o", tmp_path / "data.h5").returncode == 0
  policy, state = (tmp_path / f"data.{name}.safetensors" for name in ("easy", "state"))
  info = describe(policy)
  assert (info["kind"], info["env"], info["task"]) == ("policy", "point_mass", "easy")
  assert (info["obs_dim"], info["act_dim"], info["tasks"]) == (4, 2, 1) and info["step"] > 0
  assert info["config"]["algo"] == "td3"
  assert {name.split(".")[0] for name in info["tensors"]} == {"pi", "input"}
  info = describe(state)
  assert info["kind"] == "explorer" and (info["tasks"], info["envs"]) == (1, 2)
  text = run("info", policy, state).stdout
  assert "point_mass" in text and "algo td3" in text and "adam_m" in text

  rewrite(policy, put_nan)
  assert "pi.s.in.weight" in refused("info", policy)
  rewrite(state, lambda tensors, metadata: metadata.update(bfm="diary"))
  assert 'of the unknown kind "diary"' in refused("info", state)


def rewrite(path, change):
  """Change the model's tensors and metadata and save it again."""
  tensors = load_file(path)
  with safe_open(path, "np") as file:
    metadata = file.metadata()
  change(tensors, metadata)
  save_file(tensors, path, metadata=metadata)


def test_a_model_saved_by_another_library_is_accepted(model):
  rewrite(model, lambda tensors, metadata: None)
  assert run("info", model).returncode == 0


def put_nan(tensors, metadata):
  tensors["pi.s.in.weight"][0, 0] = np.nan


def drop_tensor(tensors, metadata):
  del tensors["pi.s.in.weight"]


def change_shape(tensors, metadata):
  tensors["pi.s.in.weight"] = tensors["pi.s.in.weight"].T.copy()


def change_config(tensors, metadata):
  metadata["config"] = metadata["config"].replace('"d":8', '"d":9')


def break_config(tensors, metadata):
  metadata["config"] = "{"


def change_layers(tensors, metadata):
  metadata["config"] = metadata["config"].replace('"f-norm":true', '"f-norm":false')


def drop_metadata(tensors, metadata):
  metadata.clear()


def break_step(tensors, metadata):
  metadata["step"] = "many"


@pytest.mark.parametrize("damage", [put_nan, drop_tensor, change_shape, change_config, break_config,
                                    break_step, change_layers, drop_metadata])
def test_damaged_models_are_rejected(damage, model):
  rewrite(model, damage)
  assert "model.safetensors" in refused("info", model)


@pytest.mark.parametrize("size", [0, 4, 100, -1])
def test_cut_files(size, data, model):
  for path in (data, model):
    path.write_bytes(path.read_bytes()[:size])
    assert path.name in refused("info", path)


# ---------------------------------- runs, logs, prompts ------------------------------------------


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
  """The folder of a run of two seeds with two evaluations, and with a prompt z of its first model."""
  folder = tmp_path_factory.mktemp("run")
  assert run("collect", "point_mass", "--steps", 1000, "-o", folder / "data.h5").returncode == 0
  process = run("train", folder / "data.h5", *TINY, "--seeds", 2, "--steps", 6, "--log-every", 2,
                "--eval-every", 3, "--eval-episodes", 2, "--eval-steps", 4, "--eval-es", "both", "-o",
                folder)
  assert process.returncode == 0, process.stderr
  assert run("prompt", folder / "model.0.safetensors", "--task", "easy", "-o",
             folder / "z").returncode == 0
  return folder


@pytest.fixture
def copy(run_folder, tmp_path):
  return shutil.copytree(run_folder, tmp_path / "copy")


def lines(path):
  return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run(run_folder):
  info = describe(run_folder)
  assert (info["kind"], info["env"], info["step"]) == ("run", "point_mass", 6)
  assert info["data"] == [str(run_folder / "data.h5")] and info["settings"]["eval-every"] == 3
  assert info["config"]["d"] == 8 and info["evaluated"]["step"] == 6
  assert info == {**describe(run_folder / "run.json"), "file": str(run_folder)}
  text = run("info", run_folder).stdout
  assert "steps 6, minutes 0, stride 1" in text and "algo fb-aware" in text and "data.h5" in text


def test_a_run_without_a_state_and_a_record_without_a_run(copy):
  (copy / "state.safetensors").unlink()
  assert describe(copy)["step"] == 6
  (copy / "run.json").rename(copy / "kept.json")
  assert {*describe(copy / "kept.json")} == {"file", "kind", "data", "settings"}


def test_evaluations(run_folder):
  info = describe(run_folder / "eval.jsonl")
  found = lines(run_folder / "eval.jsonl")
  last = [line for line in found if line["step"] == 6 and line["es"] == 32]
  assert (info["kind"], info["lines"]) == ("evaluations", len(found))
  for task, mean in info["returns"].items():
    assert mean == pytest.approx(np.mean([x["mean"] for x in last if x["task"] == task]), abs=1e-4)
  assert len(info["returns"]) == 5 and (info["evaluated"]["step"], info["evaluated"]["es"]) == (6, 32)
  assert info["evaluated"]["mean"] == pytest.approx(np.mean([x["mean"] for x in last]), abs=1e-4)


def test_logs(run_folder, tmp_path):
  info = describe(run_folder / "log.jsonl")
  assert (info["kind"], info["lines"]) == ("training log", 3)
  assert info["last"] == lines(run_folder / "log.jsonl")[-1]
  assert "step 6, seconds" in run("info", run_folder / "log.jsonl").stdout
  diverged = {"step": 6, "diverged": "F is 1e9", "lr": 1e-5}
  (tmp_path / "log.jsonl").write_text(json.dumps(diverged) + "\n")
  assert describe(tmp_path / "log.jsonl")["last"] == diverged

  collected = {"step": 9, "transitions": 99, "seconds": 1.5, "updates": 7, "returns": {"easy": 4.5},
               "losses": {"q": [1, 2]}}
  (tmp_path / "data.log.jsonl").write_text(2 * (json.dumps(collected) + "\n"))
  info = describe(tmp_path / "data.log.jsonl")
  assert (info["kind"], info["lines"]) == ("collection log", 2)
  assert {**info["last"], "returns": info["returns"], "losses": info["losses"]} == collected
  assert "easy 4.5" in run("info", tmp_path / "data.log.jsonl").stdout


def test_the_ledger_of_this_repository():
  path = ROOT / "results" / "ledger.jsonl"
  info, found = describe(path), lines(path)
  assert (info["kind"], info["lines"]) == ("ledger", len(found))
  assert info["last"]["run"] == found[-1]["run"] and info["returns"] == found[-1]["returns"]


def test_a_prompt(run_folder):
  info, kept = describe(run_folder / "z"), json.loads((run_folder / "z").read_text())
  assert (info["kind"], info["d"], info["prompt"]) == ("z", 8, {"task": "easy"})
  assert info["norm"] == pytest.approx(np.linalg.norm(kept["z"]), rel=1e-5)
  assert info["env"] == "point_mass" and info["model"].endswith("model.0.safetensors")


def test_goals(tmp_path):
  path = tmp_path / "goal.json"
  path.write_text(json.dumps({"qpos": [0.5] * 9, "qvel": [0] * 9}, indent=2))
  assert describe(path) == {"file": str(path), "kind": "goal", "qpos": 9, "qvel": 9}
  path.write_text('{"obs": [1, 2, 3]}')
  assert describe(path)["obs"] == 3
  for text, words in (('{"qpos": [0, null]}', "finite numbers"), ('{"obs": 3}', "finite numbers"),
                      ('{"qpos": [0], "qvle": [0]}', "did you mean qvel?")):
    path.write_text(text)
    assert words in refused("info", path)


def test_measurements(tmp_path):
  info = describe(ROOT / "results" / "runs" / "bench" / "h200-step.jsonl")
  found = lines(ROOT / "results" / "runs" / "bench" / "h200-step.jsonl")
  assert (info["kind"], info["lines"]) == ("measurements", len(found))
  assert {**info["last"], "options": info["options"]} == found[-1]
  process = run("bench", "act", "--preset", "small", "--seconds", "0.01", "--json")
  (tmp_path / "act.jsonl").write_text(process.stdout)
  assert "bench act, rows 256, es 32" in run("info", tmp_path / "act.jsonl").stdout


@pytest.mark.parametrize("command", ["eval", "bias"])
def test_measurements_of_models(run_folder, tmp_path, command):
  process = run(command, run_folder / "model.0.safetensors", "--tasks", "easy, x > 0",
                "--episodes", 2, "--steps", 3, "--json")
  (tmp_path / "found.jsonl").write_text(process.stdout)
  info, found = describe(tmp_path / "found.jsonl"), lines(tmp_path / "found.jsonl")
  assert (info["kind"], info["lines"]) == ("measurements", 2)
  assert {**info["last"], "returns": info["returns"]} == found[-1]


@pytest.mark.parametrize("name, damage, words", [
    ("log.jsonl", lambda text: text[:-9], "line 3 is not a whole JSON object"),
    ("log.jsonl", lambda text: text + "\0\0\0", "is zero"),
    ("log.jsonl", lambda text: "", "is empty"),
    ("log.jsonl", lambda text: text + '{"step": "many"}\n',
     "line 4 lacks fields that line 1 (training log) has"),
    ("log.jsonl", lambda text: "x" + text, "line 1 is not a whole JSON object"),
    ("eval.jsonl", lambda text: text.replace('"mean"', '"meen"'), "is JSON, but not a log"),
    ("eval.jsonl", lambda text: text + text[:40], "is not a whole JSON object"),
    ("run.json", lambda text: text[:-9], "is not a whole JSON object"),
    ("run.json", lambda text: text.replace('"data"', '"dada"'), "must have data files"),
    ("run.json", lambda text: text.replace('"stride":1', '"stride":-1'), "stride"),
    ("z", lambda text: text[:-9], "is not a whole JSON object"),
    ("z", lambda text: text.replace("[", '["x", '), "finite numbers"),
    ("z", lambda text: '{"z": []}', "finite numbers"),
    ("z", lambda text: '{"zed": 1}', "is JSON, but not a log"),
    ("z", lambda text: '{"step":1,"seconds":1,"file":1,"ranges":{"a":{}},"returns":[1]}', None)])
def test_damaged_records(name, damage, words, copy):
  text = (copy / name).read_text()
  (copy / name).write_text(damage(text))
  assert damage(text) != text
  if words is None:  # keys of other kinds of files do no harm
    assert run("info", copy / name).returncode == 0
    return
  sentence = refused("info", copy / name)
  assert words in sentence and name in sentence and sentence.count("\n") == 1


def test_damaged_runs(copy):
  shutil.copy(copy / "log.jsonl", copy / "eval.jsonl")
  assert "eval.jsonl is a training log, but must hold evaluations" in refused("info", copy)
  shutil.copy(copy / "model.0.safetensors", copy / "state.safetensors")
  assert "state.safetensors is not the state of a run" in refused("info", copy)
  (copy / "state.safetensors").write_text("hello")
  assert "state.safetensors" in refused("info", copy)
  (copy / "run.json").write_text("hello")
  assert "run.json is not a JSON object" in refused("info", copy)


def test_other_files(tmp_path):
  (tmp_path / "text").write_text("hello, this is not a model at all\n")
  assert "text: this is not a safetensors file" in refused("info", tmp_path / "text")
  refused("info", tmp_path)
  refused("info", tmp_path / "nothing")
  os.mkfifo(tmp_path / "pipe")
  assert f"{tmp_path}/pipe is a pipe, not a file" in refused("info", tmp_path / "pipe")
  data = write_dataset(tmp_path / "nan.h5", rows=200, actions=np.full((200, 2), np.nan))
  assert "NaN" in refused("info", data)


def test_datasets_without_a_signature_are_known_by_their_names(tmp_path):
  """A failed download, and an HDF5 file that begins with a user block."""
  page, block = tmp_path / "page.hdf5", tmp_path / "block.h5"
  page.write_text("<html>404 Not Found</html>\n")
  assert "page.hdf5 is not an HDF5 file" in refused("info", page)
  with h5py.File(write_dataset(tmp_path / "data.h5"), "r") as data, \
       h5py.File(block, "w", userblock_size=512) as file:
    for name in data:
      data.copy(name, file)
  assert describe(block)["transitions"] == 200


def test_pictures(tmp_path):
  picture = (ROOT / "docs/demo.png").read_bytes()
  shown = describe(ROOT / "docs/demo.png")
  width, height = (int.from_bytes(picture[at:at + 4], "big") for at in (16, 20))
  assert (shown["kind"], shown["width"], shown["height"]) == ("picture", width, height)
  cut, flipped = tmp_path / "cut.png", tmp_path / "flipped.png"
  cut.write_bytes(picture[:len(picture) // 2])
  flipped.write_bytes(picture[:5000] + bytes([picture[5000] ^ 1]) + picture[5001:])
  for damaged in cut, flipped:
    assert damaged.name in refused("info", damaged)

  plot = tmp_path / "plot.svg"
  plot.write_text('<?xml version="1.0"?>\n<svg width="4"><g/></svg>\n')
  assert describe(plot)["kind"] == "plot"
  plot.write_text('<?xml version="1.0"?>\n<svg width="4"><g/>')
  assert "cut" in refused("info", plot)


def box(name, *inside):
  body = b"".join(inside)
  return (8 + len(body)).to_bytes(4, "big") + name + body


def numbers(*values):
  return b"".join(value.to_bytes(4, "big") for value in values)


def test_films(tmp_path):
  clock = box(b"mvhd", numbers(0, 0, 0, 1000, 2500), bytes(80))
  place = box(b"tkhd", bytes(76), numbers(320 << 16, 240 << 16))
  sizes = box(b"stsz", numbers(0, 0, 75), bytes(300))
  track = box(b"trak", place, box(b"mdia", box(b"minf", box(b"stbl", sizes))))
  whole = box(b"ftyp", b"isom") + box(b"moov", clock, track) + box(b"mdat", bytes(999))
  film = tmp_path / "film.mp4"
  film.write_bytes(whole)
  shown = describe(film)
  assert shown["kind"] == "film" and (shown["width"], shown["height"]) == (320, 240)
  assert (shown["frames"], shown["seconds"]) == (75, 2.5)
  for size in range(8, len(whole), 37):
    film.write_bytes(whole[:size])
    assert "film" in refused("info", film)


def test_a_dataset_is_not_a_model(data):
  assert "a dataset" in refused("prompt", data, "--reward", "x")


def test_a_bad_file_does_not_hide_a_good_one(data, tmp_path):
  process = run("info", "--json", tmp_path / "nothing", data)
  assert process.returncode != 0 and json.loads(process.stdout)["kind"] == "dataset"


def test_bench_step():
  process = run("bench", "step", *TINY, "--seconds", "0.05", "--json")
  assert process.returncode == 0, process.stderr
  result = json.loads(process.stdout)
  assert result["steps_per_second"] > 0 and result["options"]["batch"] == 16
  alone = result["products_steps_per_second"]
  assert alone == max(result["own_products_steps_per_second"], result["onednn_products_steps_per_second"])
  assert result["share_of_products"] == pytest.approx(result["steps_per_second"] / alone)
  assert 0 < result["products_cpu_seconds_per_step"] and 0 < result["cpu_seconds_per_step"] < 1
  assert "matrix products alone" in run("bench", "step", *TINY, "--seconds", "0.05", "--seeds", "2").stdout


@pytest.mark.parametrize("rows", [0, 1])
def test_a_dataset_that_was_just_begun(tmp_path, rows):
  """Before its first rows are flushed, a dataset is incomplete, but not damaged."""
  begun, path = tmp_path / "all.h5", tmp_path / "begun.h5"
  assert run("collect", "point_mass", "--steps", 400, "-o", begun).returncode == 0
  with h5py.File(begun) as file, h5py.File(path, "w") as copy:
    for name in ("observations", "actions", "next_observations", "rewards", "terminals", "timeouts",
                 "infos/qpos", "infos/qvel"):
      copy[name] = file[name][:rows]
    for name, value in file.attrs.items():
      copy.attrs[name] = value
  process = run("info", path, "--json")
  assert process.returncode == 0 and not process.stderr, process.stderr
  info = json.loads(process.stdout)
  assert info["complete"] is False
  assert info["transitions"] == info["episodes"] == rows
  assert (info["env"], info["obs_dim"], info["act_dim"]) == ("point_mass", 4, 2)
  assert ("ranges" in info) == ("coverage" in info) == bool(rows)
  assert run("info", path).returncode == 0
  assert "transitions are too few to learn from" in refused("train", path, "-o", tmp_path / "run")
  with h5py.File(path, "a") as file:
    del file.attrs["planned_rows"]
  assert "transitions are too few to learn from" in refused("info", path)


def test_a_dataset_while_it_is_collected(tmp_path):
  """From the moment the file is there, bfm info describes it."""
  path = tmp_path / "data.h5"
  command = [BFM, "collect", "point_mass", "--steps", "2M", "--quiet", "-o", path]
  with subprocess.Popen(command, stderr=subprocess.DEVNULL) as collect:
    try:
      while not path.exists():
        assert collect.poll() is None
        time.sleep(0.001)
      process = run("info", path, "--json")
    finally:
      collect.kill()
  assert process.returncode == 0, process.stderr
  assert json.loads(process.stdout)["complete"] is False
