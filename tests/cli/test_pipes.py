"""A pipe in place of an input file: bfm says so at once and does not wait for a writer."""
import os
import re
import shutil

import pytest

from conftest import HERE, ROOT, TINY, refused, run, train_point_mass


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  folder = tmp_path_factory.mktemp("pipes")
  train_point_mass(folder, "--eval-every", 2, "--eval-episodes", 1, rows=600, steps=4)
  return folder


@pytest.fixture
def pipe(tmp_path):
  os.mkfifo(tmp_path / "pipe")
  return tmp_path / "pipe"


def refuses(pipe, *arguments):
  assert f"{pipe} is a pipe, not a file" in refused(*arguments)


@pytest.mark.parametrize("option", ["--z", "--goal", "--demo"])
def test_prompts(trained, pipe, tmp_path, option):
  model = trained / "run" / "model.safetensors"
  refuses(pipe, "prompt", model, option, pipe)
  refuses(pipe, "play", model, option, pipe, *HERE, "-o", tmp_path / "a.png")


def test_eval(trained, pipe):
  refuses(pipe, "eval", trained / "run" / "model.safetensors", "--z", pipe, "--tasks", "easy", *HERE)
  refuses(pipe, "eval", pipe, "--tasks", "easy", *HERE)


@pytest.mark.parametrize("command", [
    ("prompt", "PIPE", "--task", "easy"),
    ("play", "PIPE", "--task", "easy", "-o", "a.png"),
    ("export", "PIPE", "-o", "b.safetensors"),
    ("train", "PIPE", *TINY, "--steps", "2", "-o", "run"),
    ("data", "merge", "PIPE", "-o", "b.h5"),
    ("collect", "point_mass", "--steps", "200", "--with", "policy", "--model", "PIPE", "-o", "b.h5"),
    ("collect", "point_mass", "--steps", "200", "--resume", "-o", "PIPE"),
    ("info", "PIPE"),
    ("plot", "PIPE"),
])
def test_files_on_the_command_line(pipe, command, tmp_path):
  command = [str(pipe) if word == "PIPE" else word for word in command]
  assert "is a pipe, not a file" in refused(*command, cwd=tmp_path)


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.npz", "a.h5", "a.safetensors", "a.png"])
def test_info_by_any_name(tmp_path, name):
  os.mkfifo(tmp_path / name)
  refuses(tmp_path / name, "info", tmp_path / name)


@pytest.mark.parametrize("name", ["run.json", "state.safetensors", "log.jsonl", "eval.jsonl"])
def test_files_of_a_run(trained, tmp_path, name):
  copy = tmp_path / "run"
  shutil.copytree(trained / "run", copy)
  (copy / name).unlink()
  os.mkfifo(copy / name)
  refuses(copy / name, "train", "--resume", "--steps", 6, "-o", copy, *HERE)
  if name == "eval.jsonl":
    refuses(copy / name, "plot", copy, "-o", tmp_path / "curves")
  if name != "log.jsonl":  # which info does not need beside the state
    refuses(copy / name, "info", copy)


def test_a_dataset_that_became_a_pipe(trained, tmp_path):
  """A resumed run reads the datasets that run.json names."""
  folder = tmp_path / "all"
  shutil.copytree(trained, folder)
  process = run("train", folder / "data.h5", *TINY, "--steps", 2, "-o", folder / "second")
  assert process.returncode == 0, process.stderr
  (folder / "data.h5").unlink()
  os.mkfifo(folder / "data.h5")
  refuses(folder / "data.h5", "train", "--resume", "--steps", 6, "-o", folder / "second", *HERE)


def test_the_folder_of_a_minari_dataset(tmp_path):
  (tmp_path / "data").mkdir()
  os.mkfifo(tmp_path / "data" / "main_data.hdf5")
  refuses(tmp_path / "data" / "main_data.hdf5", "info", tmp_path)


@pytest.mark.parametrize("name", ["ledger.jsonl", "paper/mood.csv"])
@pytest.mark.parametrize("action", ["show", "plot"])
def test_results_of_the_paper(tmp_path, name, action):
  (tmp_path / "paper").mkdir()
  os.mkfifo(tmp_path / name)
  output = ["-o", tmp_path / "a"] if action == "plot" else []
  refuses(tmp_path / name, "paper", action, "mood", "--results", tmp_path, *output)


def test_the_log_of_a_collection(tmp_path):
  begun = ["point_mass", "--with", "td3", "--task", "easy", "--steps", 400, *HERE]
  assert run("collect", *begun, "-o", tmp_path / "a.h5").returncode == 0
  log = tmp_path / "a.log.jsonl"
  log.unlink()
  os.mkfifo(log)
  begun[begun.index(400)] = 800
  refuses(log, "collect", *begun, "--resume", "-o", tmp_path / "a.h5")


def test_one_opener():
  """core/files.c opens every file that is read, so that no reader can wait for a pipe."""
  opens = re.compile(r'\bfopen\([^;]*"rb?"\)')
  for source in sorted((ROOT / "src").glob("*/*.c")):
    calls = [call for call in opens.findall(source.read_text()) if "/proc/cpuinfo" not in call]
    assert not calls, f"{source}: {calls} may wait for a pipe: use input_stream() or input_bytes()"
