"""bfm names and bfm tasks: the names that rewards can use, and the built-in tasks."""
import json

from conftest import refused, run


def test_names():
  text = run("names", "humanoid").stdout
  for word in ("left_hand", "torso_subtreelinvel", "com.vx", "tolerance_tanh_squared", "upright"):
    assert word in text
  assert max(map(len, text.splitlines())) <= 120
  assert "of the whole robot (torso)" in text


def test_names_as_json():
  result = json.loads(run("names", "walker", "--json").stdout)
  assert result["domain"] == "walker" and "speed" in result["aliases"]
  names = {item["name"] for item in result["names"]}
  assert {"torso.z", "com.vx", "angmom.y", "right_knee.v", "ctrl", "torso.zz"} <= names


def test_tasks():
  text = run("tasks").stdout
  for domain in ("walker", "humanoid", "jaco", "point_mass"):
    assert f"\n{domain} " in "\n" + text
  assert "tolerance" not in text
  assert "tolerance" in run("tasks", "walker").stdout


def test_tasks_as_json():
  tasks = [json.loads(line) for line in run("tasks", "walker", "--json").stdout.splitlines()]
  assert {"stand", "walk", "run", "flip"} <= {task["task"] for task in tasks}
  assert all(task["domain"] == "walker" and task["reward"] and task["help"] for task in tasks)


def test_bad_arguments_are_rejected():
  assert "did you mean 'walker'" in refused("names", "wallker")
  assert "did you mean 'walker'" in refused("tasks", "wallker")
  refused("names")
  refused("names", "walker", "cheetah")
  refused("tasks", "walker", "cheetah")
