"""Robots' files that are huge, are no files, or make a simulation that cannot run: one sentence, and no output."""
import os

import pytest
from conftest import refused, run

XML = """<mujoco>
  <worldbody>
    <body name="pole" pos="0 0 1">
      <joint name="hinge" axis="0 1 0"/>
      <geom size=".1"/>
    </body>
  </worldbody>
  <actuator><motor joint="hinge" ctrlrange="-1 1"/></actuator>
</mujoco>
"""
YAML = "model: pole.xml\nobserved:\n  all: [qpos, qvel]\n"


def collect(path):
  return ["collect", path.name, "--with", "random", "--steps", 20, "--envs", 2, "-o", "d.h5"]


def check_refused(path, sentence):
  message = refused(*collect(path), cwd=path.parent)
  assert sentence in message and message.count("\n") == 1, message
  assert not (path.parent / "d.h5").exists()


@pytest.fixture
def folder(tmp_path):
  (tmp_path / "pole.xml").write_text(XML)
  return tmp_path


def sparse(path):
  with open(path, "wb") as file:
    file.truncate(8 << 30)
  return path


@pytest.mark.parametrize("name, sentence", [("big.xml", "but at most 16.8 MB are allowed"),
                                            ("big.yaml", "but at most 262 kB are allowed")])
def test_huge_descriptions_are_not_read(folder, name, sentence):
  check_refused(sparse(folder / name), f"{name} has 8.59 GB, {sentence}")


def test_huge_assets_are_not_read(folder):
  sparse(folder / "big.stl")
  mesh = '<asset><mesh name="m" file="big.stl"/></asset><worldbody>'
  (folder / "mesh.xml").write_text(XML.replace("<worldbody>", mesh))
  check_refused(folder / "mesh.xml", "mesh.xml:2: big.stl has 8.59 GB, but at most 537 MB are allowed")
  sparse(folder / "big.npz")
  (folder / "a.yaml").write_text("model: pole.xml\nreset:\n  - states: big.npz\n")
  check_refused(folder / "a.yaml", "a.yaml:3:13: big.npz has 8.59 GB, but at most 537 MB are allowed")


def test_what_is_no_file(folder):
  os.mkfifo(folder / "pipe.xml")
  check_refused(folder / "pipe.xml", "pipe.xml is a pipe, not a file")
  (folder / "zero.yaml").symlink_to("/dev/zero")
  check_refused(folder / "zero.yaml", "zero.yaml is a device, not a file")
  (folder / "loop.xml").symlink_to("loop.xml")
  check_refused(folder / "loop.xml", "cannot open loop.xml")
  (folder / "a.yaml").write_text("model: pipe.xml\n")
  check_refused(folder / "a.yaml", "a.yaml:1:8: pipe.xml is a pipe, not a file")


@pytest.mark.parametrize("encode", [lambda text: b"\xef\xbb\xbf" + text.encode(),
                                    lambda text: text.replace("\n", "\r\n").encode(),
                                    lambda text: text.replace(": ", ":\t").encode()])
def test_other_editors(folder, encode):
  (folder / "a.yaml").write_bytes(encode(YAML))
  process = run(*collect(folder / "a.yaml"), cwd=folder)
  assert not process.returncode, process.stderr


def test_a_timestep_that_is_too_short(folder):
  (folder / "a.yaml").write_text("model: pole.xml\nedits: {change: {option: {timestep: 1e-9}}}\n")
  check_refused(folder / "a.yaml", "has 20000000 physics steps, but at most 10000 are supported")


def test_a_robot_that_always_diverges(folder):
  (folder / "a.yaml").write_text("model: pole.xml\nreset:\n  - noise: {qpos: normal 1e300}\n")
  check_refused(folder / "a.yaml", "diverge at once: check its initial states, timestep and controls")
