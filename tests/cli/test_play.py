"""bfm play: strips and films, and what it says where something is missing."""
import os
import shutil
import struct

import pytest
from conftest import TINY, refused, run


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  folder = tmp_path_factory.mktemp("point_mass")
  assert run("collect", "point_mass", "--steps", 1000, "-o", folder / "data.h5").returncode == 0
  process = run("train", folder / "data.h5", *TINY, "--steps", 5, "-o", folder / "run")
  assert process.returncode == 0, process.stderr
  return folder / "run" / "model.safetensors"


@pytest.fixture(autouse=True)
def leaks_of_mesa(tmp_path_factory, monkeypatch):
  """OSMesa keeps some memory of its own, which a sanitized build would report."""
  path = tmp_path_factory.mktemp("lsan") / "suppressions"
  path.write_text("leak:libOSMesa\nleak:libgallium\nleak:libEGL\nleak:libLLVM\n")
  monkeypatch.setenv("LSAN_OPTIONS", f"suppressions={path}:print_suppressions=0")


SMALL = ["--steps", 6, "--width", 64, "--quiet"]


def size_of_png(path):
  head = path.read_bytes()[:24]
  assert head[:8] == b"\x89PNG\r\n\x1a\n"
  return struct.unpack(">II", head[16:24])


def test_a_strip_with_the_reward_below(model, tmp_path):
  path = tmp_path / "strip.png"
  process = run("play", model, "--task", "easy", *SMALL, "--pictures", 4, "-o", path)
  assert process.returncode == 0, process.stderr
  width, height = size_of_png(path)
  assert width == 4 * 64 and height > 48
  process = run("play", model, "--goal", "x = 0.1", *SMALL, "--pictures", 4, "-o", path)
  assert process.returncode == 0 and size_of_png(path) == (256, 48)


def test_what_a_person_reads(model, tmp_path):
  process = run("play", model, "--reward", "x > 0", "--steps", 6, "--width", 64, "-o",
                tmp_path / "a.png")
  assert process.returncode == 0, process.stderr
  assert "in 6 steps" in process.stdout and "a.png" in process.stdout


@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="there is no ffmpeg")
def test_a_film(model, tmp_path):
  path = tmp_path / "a:film.mp4"
  process = run("play", model, "--task", "easy", *SMALL, "-o", path)
  assert process.returncode == 0, process.stderr
  assert path.read_bytes()[4:8] == b"ftyp"
  assert os.listdir(tmp_path) == ["a:film.mp4"]


def test_without_ffmpeg(model, tmp_path):
  sentence = refused("play", model, "--task", "easy", *SMALL, "-o", tmp_path / "film.mp4",
                     env={**os.environ, "PATH": str(tmp_path)})
  assert "ffmpeg" in sentence and "install" in sentence and not os.listdir(tmp_path)


def test_without_opengl(model, tmp_path):
  environment = {**os.environ, "BFM_GL": "none"}
  sentence = refused("play", model, "--task", "easy", *SMALL, "-o", tmp_path / "a.png",
                     env=environment)
  assert "OSMesa" in sentence and not os.listdir(tmp_path)
  assert run("prompt", model, "--task", "easy", env=environment).returncode == 0


def test_refusals(model, tmp_path):
  assert "film.mp4" in refused("play", model, "--task", "easy")
  assert "a.gif" in refused("play", model, "--task", "easy", "-o", tmp_path / "a.gif")
  assert "--reward" in refused("play", model, "-o", tmp_path / "a.png")
  assert "easy" in refused("play", model, "--task", "eesy", "-o", tmp_path / "a.png")
  assert "pictures" in refused("play", model, "--task", "easy", *SMALL, "--width", 4000,
                               "--pictures", 6, "-o", tmp_path / "a.png")
  assert "No such file" in refused("play", model, "--task", "easy", "--steps", 1000000, "-o",
                                   tmp_path / "no" / "a.png")
  assert not os.listdir(tmp_path)
