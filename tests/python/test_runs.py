"""bfm.collect and bfm.train: the files of the program, progress, and every way to stop."""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

import bfm

ROOT = Path(__file__).resolve().parents[2]
BFM = os.environ.get("BFM", str(ROOT / "build" / "bfm"))
TINY = {"d": 4, "blocks": 2, "batch": 8, "hidden": 8, "feat": 4, "b_hidden": 8, "z_pool": 4,
        "device": "cpu", "threads": 1, "prompt_states": 50}


def flags(options):
  return [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]


def program(*arguments):
  subprocess.run([BFM, *map(str, arguments)], check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  path = tmp_path_factory.mktemp("data") / "data.h5"
  assert bfm.collect("point_mass", steps=300, envs=4, seed=3, threads=1, output=path) == path
  return path


def test_the_files_are_those_of_the_program(data, tmp_path):
  program("collect", "point_mass", "--steps", 300, "--envs", 4, "--seed", 3, "--threads", 1, "-o",
          tmp_path / "data.h5")
  with h5py.File(data) as own, h5py.File(tmp_path / "data.h5") as other:
    assert dict(own.attrs) == dict(other.attrs)
    tables = [name for name in own if name != "infos"] + [f"infos/{name}" for name in own["infos"]]
    for name in tables:
      assert np.array_equal(own[name][()], other[name][()]), name

  options = TINY | {"steps": 12, "algo": "fb-aw", "blocks": 1, "seed": 5, "log_every": 4}
  model = bfm.train(data, output=tmp_path / "own", **options)
  program("train", data, *flags(options), "-o", tmp_path / "program")
  assert model == tmp_path / "own" / "model.safetensors"
  for name in ("model.safetensors", "state.safetensors", "run.json"):
    assert (tmp_path / "own" / name).read_bytes() == (tmp_path / "program" / name).read_bytes()
  assert bfm.load(model).options["algo"] == "fb-aw"


def test_several_datasets_and_seeds(data, tmp_path):
  models = bfm.train([data, str(data)], seeds=11, steps=2, output=tmp_path / "run", **TINY)
  assert models == [tmp_path / "run" / f"model.{seed}.safetensors" for seed in range(11)]
  assert all(path.exists() for path in models)


def test_with_learners_and_a_trailing_underscore(tmp_path):
  seen = []
  path = bfm.collect("point_mass", with_="td3", task="easy", steps=64, envs=4, hidden=8, batch=8,
                     random_steps=4, device="cpu", threads=1, eval_episodes=1,
                     output=tmp_path / "td3.h5", progress=seen.append)
  assert bfm.Explorer.load(path.with_suffix(".easy.safetensors"), device="cpu").obs_dim == 4
  assert seen[-1]["note"].startswith("easy ")


def test_progress_is_told_and_a_true_result_stops(data, tmp_path):
  seen = []

  def progress(now):
    seen.append(now)
    time.sleep(0.15)
    return now["stage"] == "train" and now["done"] >= 3

  with pytest.raises(bfm.Error, match="stopped at step .* of 40") as caught:
    bfm.train(data, steps=40, output=tmp_path / "parts", progress=progress, **TINY)
  assert caught.value.status == 8
  assert set(seen[-1]) == {"stage", "unit", "first", "done", "total", "seconds", "note"}
  assert (seen[-1]["stage"], seen[-1]["unit"], seen[-1]["total"]) == ("train", "steps", 40)
  assert seen[-1]["note"].startswith("fb ")
  stopped = seen[-1]["done"]
  assert 3 <= stopped < 40

  bfm.train(output=tmp_path / "parts", resume=True, device="cpu", threads=1, progress=seen.append)
  assert seen[-1]["first"] == stopped and seen[-1]["done"] == 40
  bfm.train(data, steps=40, output=tmp_path / "whole", **TINY)
  for name in ("model.safetensors", "state.safetensors"):
    assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_an_exception_in_the_callback_stops_the_run_and_is_raised(data, tmp_path):
  class Own(Exception):
    pass

  def progress(now):
    if now["stage"] in ("train", "collect"):
      raise Own(now["done"])

  with pytest.raises(Own):
    bfm.train(data, steps=10**9, output=tmp_path / "run", progress=progress, **TINY)
  assert (tmp_path / "run" / "state.safetensors").exists()
  with pytest.raises(Own):
    bfm.collect("point_mass", steps=10**7, output=tmp_path / "data.h5", progress=progress)
  bfm.collect(steps=50, output=tmp_path / "data.h5", resume=True)


def test_a_line_is_printed_when_it_is_asked_for(data, tmp_path, capfd):
  bfm.train(data, steps=4, output=tmp_path / "quiet", **TINY)
  assert capfd.readouterr() == ("", "")
  bfm.train(data, steps=4, output=tmp_path / "run", progress=True, **TINY)
  out, error = capfd.readouterr()
  assert not out and "train 4/4 steps" in error and error.endswith("\n")


SCRIPT = """
import signal, sys
import bfm
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell has it ignored
try:
  if sys.argv[1] == "train":
    bfm.train(sys.argv[3], output=sys.argv[2], steps=10**9, d=4, blocks=2, batch=8, hidden=8, feat=4,
              b_hidden=8, device="cpu", threads=1, progress=lambda now: print(now["stage"], flush=True))
  else:
    bfm.collect("point_mass", output=sys.argv[2], steps=10**9,
                progress=lambda now: print(now["stage"], flush=True))
except KeyboardInterrupt as error:
  assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
  print("interrupted:", error)
"""


@pytest.mark.parametrize("what, kept", [("train", "run/state.safetensors"), ("collect", "run")])
def test_ctrl_c_stops_and_saves(what, kept, data, tmp_path):
  process = subprocess.Popen([sys.executable, "-c", SCRIPT, what, tmp_path / "run", data], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
  while process.stdout.readline() != f"{what}\n":
    assert process.poll() is None, process.stderr.read()
  start = time.monotonic()
  process.send_signal(signal.SIGINT)
  out, error = process.communicate(timeout=60)
  assert time.monotonic() - start < 20  # about a second, on a machine that others use too
  assert process.returncode == 0 and not error, error
  assert "interrupted: stopped at" in out
  assert (tmp_path / kept).exists()


def test_arguments_that_cannot_be_used(data, tmp_path):
  out = tmp_path / "out"
  for wrong, part in [({"stpes": 5}, "did you mean steps"), ({"blokcs": 5}, "did you mean blocks"),
                      ({"steps": 0}, "steps is 0"), ({"steps": [1]}, "steps"),
                      ({"algo": "fb\0"}, "NUL"), ({"eval_steps": 5}, "--eval-every")]:
    with pytest.raises(bfm.ArgumentError, match=part):
      bfm.train(data, output=out, **wrong)
  for arguments in ((), ([],)):
    with pytest.raises(bfm.ArgumentError, match="data"):
      bfm.train(*arguments, output=out)
  with pytest.raises(bfm.ArgumentError, match="did you mean .walker"):
    bfm.collect("walkr", output=out)
  with pytest.raises(bfm.ArgumentError, match="environment"):
    bfm.collect(output=out)
  with pytest.raises(bfm.ArgumentError, match="5 is not a path"):
    bfm.collect("walker", output=5)
  assert not out.exists()


def test_a_nul_character_cuts_no_text(tmp_path):
  env = bfm.Env("point_mass")
  agent = bfm.Agent(env.obs_dim, env.act_dim, d=4, blocks=2, batch=8, hidden=8, feat=4, b_hidden=8,
                    device="cpu", threads=1)
  agent.set_prompt("point_mass", env.obs(), *env.state())
  cut = tmp_path / "a\0b"
  calls = [lambda: bfm.Env("point_mass\0"), lambda: env.reward("easy\0"),
           lambda: bfm.rewards("point_mass", "easy\0", env.state()[0]),
           lambda: bfm.pictures("point_mass", env.state()[0], cut),
           lambda: agent.prompt(reward="easy\0"), lambda: agent.prompt(goal="x = 1\0"),
           lambda: agent.prompt(demo=cut), lambda: agent.prompt(z=cut), lambda: agent.save(cut),
           lambda: agent.save_state(cut), lambda: agent.export(cut), lambda: bfm.load(cut),
           lambda: agent.evaluate("easy\0", episodes=1), lambda: agent.set_prompt("point_mass\0"),
           lambda: bfm.Agent(4, 2, algo="fb\0"), lambda: bfm.Explorer.load(cut),
           lambda: bfm.collect("point_mass\0", output=tmp_path / "x"),
           lambda: bfm.collect("point_mass", output=cut), lambda: bfm.train(cut, output=tmp_path),
           lambda: bfm.train("data.h5", output=cut)]
  for call in calls:
    with pytest.raises(bfm.ArgumentError, match="NUL"):
      call()
  assert not list(tmp_path.iterdir())


def test_the_models_returned_are_those_of_the_run(data, tmp_path):
  """Files that lie in the folder already are not taken for models of the run."""
  folder = tmp_path / "run"
  folder.mkdir()
  for name in ("model.0.safetensors", "model.7.safetensors", "model.mine.safetensors"):
    (folder / name).write_text("")
  assert bfm.train(data, output=folder, steps=2, **TINY) == folder / "model.safetensors"
  output = os.fsencode(tmp_path / "two")
  assert bfm.train(os.fsencode(data), output=output, steps=2, seeds=2, **TINY) == [
      tmp_path / "two" / f"model.{seed}.safetensors" for seed in range(2)]
