"""A robot that bfm has never seen, written here: it is simulated, learns without rewards, and reaches."""
import json
import statistics

import pytest
from conftest import run

XML = """<mujoco model="arm">
  <option timestep="0.01" gravity="0 0 0"/>
  <worldbody>
    <body name="upper" pos="0 0 .1">
      <joint name="shoulder" axis="0 0 1" damping="1"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" density="500"/>
      <body name="lower" pos=".3 0 0">
        <joint name="elbow" axis="0 0 1" range="-150 150" damping="1"/>
        <geom type="capsule" fromto="0 0 0 .2 0 0" size=".02" density="500" contype="0"/>
        <site name="hand" pos=".2 0 0"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="shoulder" gear="4" ctrlrange="-1 1"/>
    <motor joint="elbow" gear="4" ctrlrange="-1 1"/>
  </actuator>
</mujoco>
"""
EPISODE = 60
YAML = f"""# an arm on a table
model: arm.xml
substeps: 4
episode: {EPISODE}
observed:
  joints: [sin(shoulder), cos(shoulder), elbow]
  hand: [hand.x, hand.y]
reset:
  - joints: random
tasks:
  north: {{reward: "tolerance(dist(hand, 0.1, 0.4, 0.1), 0, 0.1, 0.2)", help: hold the hand in the north}}
"""
AGENT = ["--device", "cpu", "--threads", 1, "--algo", "fb", "--d", 16, "--hidden", 64, "--feat", 32,
         "--b-hidden", 64, "--batch", 256, "--gamma", 0.95, "--quiet"]


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
  """A folder with random moves of the arm, whose own files are gone."""
  folder = tmp_path_factory.mktemp("arm")
  (folder / "arm.xml").write_text(XML)
  (folder / "arm.yaml").write_text(YAML)
  process = run("collect", "arm.yaml", "--with", "random", "--hold", 5, "--steps", 20000, "--envs", 20,
                "--threads", 1, "--quiet", "-o", "arm.h5", cwd=folder)
  assert not process.returncode, process.stderr
  (folder / "arm.xml").unlink()
  (folder / "arm.yaml").unlink()
  return folder


def learned_return(folder, name, *options):
  """The median of the mean returns of three seeds that train with these options: one may fail."""
  process = run("train", "arm.h5", *AGENT, "--seeds", 3, *options, "-o", name, cwd=folder)
  assert not process.returncode, process.stderr
  means = []
  for seed in range(3):
    process = run("eval", f"{name}/model.{seed}.safetensors", "--tasks", "north", "--episodes", 20, "--json", cwd=folder)
    assert not process.returncode, process.stderr
    means.append(json.loads(process.stdout)["mean"])
  return statistics.median(means)


def test_an_invented_robot_learns_to_reach(arm):
  untrained = learned_return(arm, "untrained", "--lr", 0, "--steps", 1)
  assert untrained < EPISODE / 3  # chance, or learning would show nothing
  trained = learned_return(arm, "trained", "--lr", 1e-3, "--steps", 1500)
  assert trained > EPISODE * 2 / 3
