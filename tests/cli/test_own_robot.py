"""A robot of one's own, by the path of its file: in datasets, in models, and far away from its files."""
import shutil

import h5py
import numpy as np
import pytest
from conftest import TINY, refused, run
from playground import Client, Server
from safetensors import safe_open
from safetensors.numpy import save_file

XML = """<mujoco model="cart">
  <asset><mesh name="wedge" file="meshes/wedge.obj"/></asset>
  <worldbody>
    <light pos="0 0 3"/>
    <geom name="floor" type="plane" size="9 9 1"/>
    <body name="cart" pos="0 0 .2">
      <joint name="slide" type="slide" axis="1 0 0"/>
      <geom type="mesh" mesh="wedge" mass="1"/>
      <body name="pole" pos="0 0 .1">
        <joint name="hinge" axis="0 1 0" range="-90 90"/>
        <geom type="capsule" fromto="0 0 0 0 0 .5" size=".03" mass=".2"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="push" joint="slide" gear="10" ctrlrange="-1 1"/></actuator>
</mujoco>
"""
WEDGE = "v 0 0 0\nv .2 0 0\nv 0 .2 0\nv 0 0 .1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n"
YAML = """# a cart with a pole
model: cart.xml
episode: 50
aliases: {upright: pole.zz}
tasks:
  balance: {reward: upright, help: keep the pole up}
  far: {reward: cart.x, kind: new, help: go far}
"""


def write_robot(folder):
  (folder / "meshes").mkdir()
  (folder / "meshes/wedge.obj").write_text(WEDGE)
  (folder / "cart.xml").write_text(XML)
  (folder / "cart.yaml").write_text(YAML)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
  """A folder with a dataset and a model of the cart, whose own files are gone, and the robot's name."""
  folder = tmp_path_factory.mktemp("made")
  write_robot(folder)
  for command in (["collect", "cart.yaml", "--with", "random", "--steps", 600, "--envs", 4, "-o", "d.h5"],
                  ["train", "d.h5", "--steps", 3, *TINY, "-o", "run"]):
    process = run(*command, cwd=folder)
    assert not process.returncode, process.stderr
  with h5py.File(folder / "d.h5") as file:
    name = file.attrs["env"]
    tables = sorted(f"{group}{key}" for group in ("", "meshes/") for key in file["robot/" + group])
    assert tables == ["cart.xml", "cart.yaml", "meshes", "meshes/wedge.obj"]
    assert bytes(file["robot/meshes/wedge.obj"][:]) == WEDGE.encode()
  for path in ("cart.xml", "cart.yaml", "meshes"):
    (shutil.rmtree if path == "meshes" else (lambda p: p.unlink()))(folder / path)
  return folder, name


def test_everything_works_without_the_robot_s_files(made, tmp_path):
  folder, name = made
  assert name.startswith("cart#") and len(name) == len("cart#") + 8
  model = tmp_path / "model.safetensors"
  shutil.copy(folder / "run/model.safetensors", model)
  for command in (["prompt", model, "--reward", "upright"],
                  ["prompt", model, "--task", "far"],
                  ["eval", model, "--tasks", "in", "--episodes", "1"],
                  ["play", model, "--task", "balance", "-o", tmp_path / "strip.png", "--steps", 8],
                  ["export", model, "-o", tmp_path / "small.safetensors"],
                  ["prompt", tmp_path / "small.safetensors", "--task", "balance"],
                  ["names", model],
                  ["tasks", folder / "d.h5"],
                  ["train", folder / "d.h5", "--steps", 2, *TINY, "-o", tmp_path / "again"],
                  ["collect", "--resume", "--steps", 700, "-o", folder / "d.h5"]):
    process = run(*command, cwd=tmp_path)
    assert not process.returncode, (command, process.stderr)
    assert "warning" not in process.stderr
  assert "keep the pole up" in run("tasks", model).stdout
  info = run("info", model).stdout
  assert name in info and "cart.yaml" in info


def test_the_playground_offers_the_robot(made):
  folder, name = made
  server = Server(folder / "run/model.safetensors")
  try:
    client = Client(server)
    assert [model["domain"] for model in client.hello["models"]] == [name]
    scene = client.open()
    assert [body["name"] for body in scene["bodies"]] == ["world", "cart", "pole"]
    assert {task["name"] for task in scene["tasks"]} == {"balance", "far"}
    client.say("prompt", slot=0, kind="reward", text="upright")
    assert len(client.read("prompted")["z"]) == 8
    client.say("prompt", slot=0, kind="pose", qpos=[0.5, 0.1])
    assert client.read("prompted")["kind"] == "pose"
    assert client.count_frames(0.5) > 0
  finally:
    assert server.stop() == (0, "")


def test_single_task_policies_carry_the_robot(made, tmp_path):
  folder, name = made
  options = ["--steps", 2, "--device", "cpu", "--batch", 16, "--hidden", 16]
  process = run("train", folder / "d.h5", "--algo", "bc", "--task", "balance", *options, "-o", tmp_path / "t")
  assert not process.returncode, process.stderr
  policy = tmp_path / "t/model.safetensors"
  process = run("eval", policy, "--tasks", "balance", "--episodes", 1, cwd=tmp_path)
  assert not process.returncode, process.stderr
  assert name in process.stdout


def test_a_changed_robot_is_noticed(tmp_path):
  write_robot(tmp_path)
  collect = ["collect", "cart.yaml", "--with", "random", "--envs", 4, "-o", "d.h5"]
  assert not run(*collect, "--steps", 300, cwd=tmp_path).returncode
  assert not run("train", "d.h5", "--steps", 2, *TINY, "-o", "run", cwd=tmp_path).returncode
  prompt = ["prompt", "run/model.safetensors", "--task", "balance"]
  assert not run(*prompt, cwd=tmp_path).stderr

  (tmp_path / "cart.yaml").write_text(YAML.replace("pole.zz", "2 * pole.zz"))
  process = run(*prompt, cwd=tmp_path)
  assert not process.returncode
  assert "cart.yaml has changed since cart#" in process.stderr
  message = refused(*collect, "--steps", 400, "--resume", cwd=tmp_path)
  assert "d.h5 holds data of cart#" in message and "cart.yaml is now cart#" in message
  message = refused("train", "d.h5", "--env", "cart.yaml", "--steps", 2, *TINY, "-o", "b", cwd=tmp_path)
  assert "the data is of cart#" in message
  assert not (tmp_path / "b").exists()


def test_foreign_data_of_an_own_robot(made, tmp_path):
  folder, name = made
  write_robot(tmp_path)
  with h5py.File(folder / "d.h5") as source, h5py.File(tmp_path / "foreign.h5", "w") as file:
    for key in ("observations", "actions", "terminals", "timeouts", "infos/qpos", "infos/qvel"):
      file[key] = source[key][:]
  process = run("train", "foreign.h5", "--env", "cart.yaml", "--steps", 2, *TINY, "-o", "run", cwd=tmp_path)
  assert not process.returncode, process.stderr
  assert name in run("info", tmp_path / "run/model.safetensors").stdout
  process = run("train", "--resume", "--steps", 4, "-o", "run", cwd=tmp_path)
  assert not process.returncode, process.stderr


# ---------------------------------- hostile files --------------------------------------------------


def name_of(stem, files):
  """The name that bfm gives to a robot of these files."""
  number = 0xcbf29ce484222325
  for name in sorted(files):
    for byte in name.encode() + b"\0" + len(files[name]).to_bytes(8, "little") + files[name]:
      number = (number ^ byte) * 0x100000001b3 % 2**64
  return f"{stem}#{(number ^ number >> 32) % 2**32:08x}"


def rewrite(source, target, change):
  """Writes a model with other files of its robot, under their own name."""
  with safe_open(source, "numpy") as file:
    tensors = {key: file.get_tensor(key) for key in file.keys()}
    metadata = file.metadata()
  files = {key[len("robot/"):]: bytes(value) for key, value in tensors.items() if key.startswith("robot/")}
  assert name_of("cart", files) == metadata["env"]
  tensors = {key: value for key, value in tensors.items() if not key.startswith("robot/")}
  change(files)
  for key, value in files.items():
    tensors["robot/" + key] = np.frombuffer(value, "u1")
  metadata["env"] = name_of("cart", files)
  save_file(tensors, target, metadata)


def replace(name, old, new):
  def change(files):
    assert old.encode() in files[name]
    files[name] = files[name].replace(old.encode(), new.encode())
  return change


def add(name, text="x"):
  return lambda files: files.update({name: text.encode()})


HOSTILE = {
    "absolute": (replace("cart.xml", "meshes/wedge.obj", "/etc/passwd"), "/etc/passwd"),
    "up": (replace("cart.xml", "meshes/wedge.obj", "../wedge.obj"), "../wedge.obj"),
    "outside": (replace("cart.xml", "meshes/wedge.obj", "meshes/other.obj"), "not among the robot's files"),
    "include": (replace("cart.xml", "<worldbody>", "<include file='b.xml'/><worldbody>"), "include"),
    "plugin": (replace("cart.xml", "<worldbody>", "<extension><plugin plugin='x'/></extension><worldbody>"),
               "plugin"),
    "second": (add("b.xml", "<mujoco/>"), "two models"),
    "compiled": (add("a.mjb"), ".mjb"),
    "named": (add("../evil.obj"), "../evil.obj"),
    "rooted": (add("/evil.obj"), "/evil.obj"),
    "model": (replace("cart.yaml", "cart.xml", "/cart.xml"), None),
    "yaml": (replace("cart.yaml", "pole.zz", "pole.zq"), "has no 'zq'"),
    "broken": (replace("cart.xml", "</mujoco>", "</muj"), "cart.xml"),
    "none": (lambda files: files.pop("cart.xml"), "model"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_models_are_refused(made, tmp_path, case):
  change, sentence = HOSTILE[case]
  model = tmp_path / "m.safetensors"
  rewrite(made[0] / "run/model.safetensors", model, change)
  process = run("prompt", model, "--task", "balance", cwd=tmp_path)
  if sentence is None:  # the model's name is only a name: the file in the bundle is used
    assert not process.returncode, process.stderr
    return
  assert process.returncode > 0 and sentence in process.stderr, process.stderr
  assert process.stderr.count("\n") == 1


def test_a_robot_under_another_name_is_refused(made, tmp_path):
  with safe_open(made[0] / "run/model.safetensors", "numpy") as file:
    tensors = {key: file.get_tensor(key) for key in file.keys()}
    metadata = file.metadata()
  metadata["env"] = "cart#00000000"
  save_file(tensors, tmp_path / "m.safetensors", metadata)
  message = refused("prompt", tmp_path / "m.safetensors", "--task", "balance")
  assert "the files of the robot cart#00000000 are not its own" in message
  tensors = {key: value for key, value in tensors.items() if not key.startswith("robot/")}
  save_file(tensors, tmp_path / "m.safetensors", metadata)
  message = refused("prompt", tmp_path / "m.safetensors", "--task", "balance")
  assert "the robot cart#00000000 is not known here: give the path" in message


def test_hostile_datasets_are_refused(made, tmp_path):
  source = made[0] / "d.h5"

  def spoiled(change):
    path = tmp_path / "d.h5"
    shutil.copy(source, path)
    with h5py.File(path, "a") as file:
      change(file["robot"])
    return refused("train", path, "--steps", 1, *TINY, "-o", tmp_path / "run")

  def link(robot):
    del robot["cart.xml"]
    robot["cart.xml"] = h5py.ExternalLink("/etc/passwd", "/")
  assert "is a link" in spoiled(link)

  def numbers(robot):
    del robot["cart.xml"]
    robot["cart.xml"] = np.zeros(3)
  assert "not a table of bytes" in spoiled(numbers)

  def other(robot):
    del robot["cart.xml"]
    robot["cart.xml"] = np.frombuffer(XML.replace("gear", "gear ").encode(), "u1")
  assert "are not its own" in spoiled(other)

  def huge(robot):
    robot.create_dataset("b.obj", (1 << 40,), "u1", chunks=True)
  assert "not a table of bytes" in spoiled(huge)
  assert not (tmp_path / "run").exists()


# ---------------------------------- names and paths ------------------------------------------------


def test_paths_that_are_no_robots(tmp_path):
  assert "cannot open no.xml" in refused("collect", "no.xml", "-o", tmp_path / "d.h5", cwd=tmp_path)
  (tmp_path / "b.yaml").write_text("model: nothing.xml\n")
  message = refused("collect", "b.yaml", "-o", tmp_path / "d.h5", cwd=tmp_path)
  assert message.startswith("bfm: b.yaml:1:8:") and "nothing.xml" in message
  assert "is not known here" in refused("tasks", "cart#12345678")
  assert not (tmp_path / "d.h5").exists()


def test_names_are_safe_and_short(tmp_path):
  name = "a ver(y) #long näme " + 60 * "x" + ".xml"
  (tmp_path / name).write_text(XML.replace("file=\"meshes/wedge.obj\"", "builtin=\"wedge\" params=\"8 4 1 1 0\"")
                               .replace('<mesh name="wedge" builtin="wedge" params="8 4 1 1 0"/>', "")
                               .replace('type="mesh" mesh="wedge"', 'type="box" size=".1 .1 .1"'))
  process = run("collect", name, "--with", "random", "--steps", 20, "--envs", 2, "-o", "d.h5", cwd=tmp_path)
  assert not process.returncode, process.stderr
  with h5py.File(tmp_path / "d.h5") as file:
    stem, mark = file.attrs["env"].split("#")
    assert len(stem) == 40 and stem.startswith("a_ver_y___long_n") and len(mark) == 8
