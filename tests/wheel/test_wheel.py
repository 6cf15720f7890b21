"""The wheel in dist, in an empty environment and an empty folder: make test-wheel."""
import os
import re
import signal
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADER = (ROOT / "include/bfm.h").read_text()
VERSION = ".".join(re.search(rf"BFM_VERSION_{part} (\d+)", HEADER)[1]
                   for part in ("MAJOR", "MINOR", "PATCH"))


@pytest.fixture(scope="session")
def wheel():
  found = list((ROOT / "dist").glob("bfm-*.whl"))
  assert len(found) == 1, "run make wheel"
  return found[0]


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
  """A function that runs a program of an environment with nothing but the wheel."""
  folder = tmp_path_factory.mktemp("wheel")
  subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
  subprocess.run([folder / "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", wheel],
                 check=True)
  work = folder / "work"
  work.mkdir()

  def start(program, *arguments, **options):
    return subprocess.Popen([folder / "venv/bin" / program, *map(str, arguments)], cwd=work, text=True,
                            env={"HOME": str(work), "PATH": os.environ["PATH"]}, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

  def run(program, *arguments, status=0, stdin=""):
    process = start(program, *arguments)
    out, error = process.communicate(stdin, timeout=300)
    assert process.returncode == status, error
    return out + error

  run.start, run.folder = start, folder
  return run


def python(installed, text):
  return installed("python", "-c", text)


def test_the_demo_prompts_the_shipped_model(installed):
  text = installed("python", "-m", "bfm", "demo")
  speeds = {line.split("  ")[0]: float(line.split()[-1])
            for line in text.splitlines() if " ms " in line}
  assert len(speeds) == 4
  assert 2 <= speeds["trot at 2 to 2.5 m/s"] <= 3 and abs(speeds["stand still"]) < 0.3
  assert speeds["run as fast as you can"] > 4 and speeds["trot backward"] < -2
  assert "bfm play" in text and str(ROOT) not in text


def test_the_version_is_that_of_the_header(installed, wheel):
  assert f"bfm-{VERSION}-py3-none-manylinux_" in wheel.name
  assert python(installed, "import bfm; print(bfm.__version__)").strip() == VERSION
  assert installed("bfm", "--version").strip() == f"bfm {VERSION}"


def test_collect_train_and_prompt(installed):
  installed("bfm", "collect", "point_mass", "--steps", "2k", "-o", "data.h5")
  installed("bfm", "train", "data.h5", "--preset", "small", "--batch", 64, "--steps", 20, "-o", "run")
  installed("bfm", "prompt", "run/model.safetensors", "--reward", "x > 0.1", "-o", "z.json")
  installed("bfm", "export", "run/model.safetensors", "-o", "policy.onnx")
  text = python(installed, "import bfm\n"
                "m = bfm.load('run/model.safetensors'); z = m.prompt(z='z.json')\n"
                "e = bfm.Env(m.env, num_envs=3); print(m.act(e.reset(), z).shape)\n"
                "assert abs(m.prompt(demo='data.h5')).sum() > 0")
  assert text.strip() == "(3, 2)"


def test_every_robot_is_there(installed):
  text = python(installed, "import bfm; from bfm.env import domains\n"
                "for name in domains(): bfm.Env(name).reset(); print(name)")
  assert len(text.split()) == 16


def test_the_command_is_the_program_itself(installed):
  """Exit codes, standard input and signals are the program's own."""
  assert "bfm: " in installed("bfm", "info", "missing.h5", status=4)
  assert "did you mean" in installed("bfm", "colect", status=2)
  model = python(installed, "import bfm; print(bfm.SHIPPED_MODEL)").strip()
  process = installed.start("bfm", "serve", model, "--port", 0)
  assert "http://" in process.stdout.readline()
  assert Path(f"/proc/{process.pid}/exe").resolve().name == "bfm"
  process.send_signal(signal.SIGTERM)
  assert process.wait(timeout=30) in (0, 128 + signal.SIGTERM)


def test_mujoco_in_another_folder_is_found(installed):
  """As after pip install --user, where MuJoCo may belong to the system."""
  site = next(installed.folder.glob("venv/lib/python3*/site-packages"))
  other = installed.folder / "other"
  other.mkdir()
  (site / "mujoco").rename(other / "mujoco")
  (site / "other.pth").write_text(str(other))
  try:
    assert python(installed, "import bfm; print(bfm.__version__)").strip() == VERSION
    assert "cheetah" in installed("bfm", "tasks", "cheetah")
  finally:
    (other / "mujoco").rename(site / "mujoco")
    (site / "other.pth").unlink()


def test_contents(wheel):
  with zipfile.ZipFile(wheel) as archive:
    sizes = {info.filename: info.compress_size for info in archive.infolist()}
    meta = Parser().parsestr(archive.read(f"bfm-{VERSION}.dist-info/METADATA").decode())
    licences = [name for name in sizes if "/licenses/licenses/" in name and name[-1] != "/"]
    texts = b"".join(archive.read(name) for name in licences)
  assert "mujoco==3.17.0" in meta.get_all("Requires-Dist")
  assert meta["License-Expression"] == "MIT"

  models = sum(size for name, size in sizes.items() if name.startswith(("bfm/models/", "bfm/shipped/")))
  assert sum(sizes.values()) - models < 25e6
  assert 1e6 < sizes["bfm/shipped/cheetah.safetensors"] < 5e6
  libraries = [name.split("/")[1] for name in sizes if name.startswith("bfm.libs/lib")]
  assert any("dnnl" in name for name in libraries)
  assert not [name for name in libraries if re.match("lib(mujoco|hdf5|curl|krb5|ldap|gnutls)", name)]
  owners = {name.split("/licenses/licenses/")[1].split("/")[0] for name in licences}
  assert owners >= {"mujoco", "dm_control", "gymnasium", "gymnasium_robotics", "three.js", "common-licenses",
                    "LICENSE"}
  for library in libraries:
    stem = re.match(r"lib([a-zA-Z]+)", library)[1].lower().replace("crypto", "ssl")
    assert any(stem in owner.lower() for owner in owners), library
  assert all(words in texts for words in (b"HDF5", b"GCC RUNTIME LIBRARY EXCEPTION", b"Three.js Authors"))


def test_no_path_of_the_machine_that_built_it(installed):
  site = next(installed.folder.glob("venv/lib/python3*/site-packages"))
  for file in [site / "bfm/libbfm.so", site / "bfm/bin/bfm", *site.glob("bfm.libs/*")]:
    dynamic = subprocess.run(["readelf", "-d", file], check=True, capture_output=True, text=True).stdout
    for paths in re.findall(r"(?:RPATH|RUNPATH|rpath|runpath).*\[(.*)\]", dynamic):
      assert all(path.startswith("$ORIGIN") for path in paths.split(":")), (file, paths)
