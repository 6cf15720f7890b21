"""Models of the peers, as they are: a few of those that bench/robots.py takes through the program."""
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import robots  # noqa: E402


@pytest.mark.parametrize("package, path, obs", [
    ("dm_control", "suite/acrobot.xml", 6),
    ("dm_control", "mujoco/testing/assets/cartpole_no_names.xml", 9),
    ("gymnasium", "envs/mujoco/assets/swimmer.xml", 7),
    ("gymnasium_robotics", "envs/assets/point/point.xml", 2),
])
def test_a_model_of_a_peer_works_as_it_is(tmp_path, package, path, obs):
  module = pytest.importorskip(package)
  row = robots.measure(Path(module.__file__).parent / path, tmp_path)
  assert row["collect"] > 0 and row["train"] > 0
  assert row["obs"] == obs


def test_a_model_without_actuators_is_refused_in_a_sentence(tmp_path):
  module = pytest.importorskip("dm_control")
  with pytest.raises(robots.Failed, match="the model has no actuators, so there is nothing to learn"):
    robots.measure(Path(module.__file__).parent / "suite/swimmer.xml", tmp_path)
