"""bfm prompt and bfm export: z from rewards, goals and demonstrations; smaller models."""
import json

import h5py
import numpy as np
import pytest
from conftest import TINY, refused, run, train_point_mass, write_dataset
from safetensors import safe_open
from safetensors.numpy import load_file, save_file


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A folder with a dataset of point_mass and a run on it."""
  return train_point_mass(tmp_path_factory.mktemp("point_mass"), rows=2000, steps=20).parent


@pytest.fixture(scope="module")
def model(folder):
  return folder / "run" / "model.safetensors"


def prompt(model, *arguments):
  process = run("prompt", model, "--json", *arguments)
  assert process.returncode == 0, process.stderr
  return np.array(json.loads(process.stdout)["z"])


def observed(model, obs, folder):
  """Return the z of an observation as the goal."""
  (folder / "obs.json").write_text(json.dumps({"obs": obs.tolist()}))
  return prompt(model, "--goal", folder / "obs.json")


# ---------------------------------- tasks --------------------------------------------------------


def test_a_task_equals_its_expression(model):
  tasks = [json.loads(line) for line in run("tasks", "point_mass", "--json").stdout.splitlines()]
  for task in tasks:
    by_name, typed = (prompt(model, flag, task[key])
                      for flag, key in (("--task", "task"), ("--reward", "reward")))
    assert by_name.shape == (8,) and np.array_equal(by_name, typed)


def test_rewards_differ_and_scale(model):
  x, y = prompt(model, "--reward", "x"), prompt(model, "--reward", "y")
  assert not np.allclose(x, y)
  np.testing.assert_allclose(prompt(model, "--reward", "2*x")[:4], 2 * x[:4], rtol=1e-4, atol=1e-6)
  assert not np.allclose(prompt(model, "--reward", "x", "--softmax", 0.1), x)


def test_the_output_describes_the_prompt(model, tmp_path):
  text = run("prompt", model, "--reward", "x > 0.1").stdout
  assert "x > 0.1" in text and "prompt states" in text and "8 numbers" in text
  assert "the reward is 0 in all 2000 prompt states: it tells the agent nothing" in run("prompt", model, "--reward", "x > 9").stderr
  assert run("prompt", model, "--task", "easy", "-o", tmp_path / "z.json").returncode == 0
  saved = json.loads((tmp_path / "z.json").read_text())
  assert saved["env"] == "point_mass" and saved["prompt"] == {"task": "easy"}
  assert np.array_equal(prompt(model, "--z", tmp_path / "z.json"), np.array(saved["z"]))


def test_goals(model, tmp_path):
  states = load_file(model)
  named = run("prompt", model, "--goal", "x = 0.1, y = -0.1")
  assert named.returncode == 0 and "goal 0.1" in named.stdout
  row = int(named.stdout.split("prompt state ")[1].split()[0])
  off = np.abs(states["prompt.qpos"] - [0.1, -0.1]).max(1)
  assert off[row] <= 2 * off.min() + 1e-9

  goal = tmp_path / "goal.json"
  by_name = prompt(model, "--goal", "x = 0.1, y = -0.1")
  for name in ("obs", "state"):
    whole = ({"obs": states["prompt.obs"][row].tolist()} if name == "obs" else
             {part: states[f"prompt.{part}"][row].tolist() for part in ("qpos", "qvel")})
    goal.write_text(json.dumps(whole))
    np.testing.assert_allclose(prompt(model, "--goal", goal), by_name, atol=1e-4)


def test_z_of_a_demonstration_is_the_mean_over_its_states(model, folder, tmp_path):
  with h5py.File(folder / "data.h5") as file:
    obs, act, following = (file[name][:40] for name in ("observations", "actions",
                                                        "next_observations"))
  obs[1::2] = obs[1]
  obs[::2] = obs[0]
  demo = write_dataset(tmp_path / "demo.h5", rows=40, env="point_mass", observations=obs,
                       actions=act, next_observations=following)
  found = prompt(model, "--demo", demo)
  first, second = (observed(model, row, tmp_path) for row in obs[:2])
  assert not np.allclose(first[:4], second[:4], atol=1e-3)
  np.testing.assert_allclose(found[:4], (first + second)[:4] / 2, atol=1e-5)  # the first block


def test_a_cold_softmax_selects_the_best_state(model, tmp_path):
  states = load_file(model)
  best = states["prompt.obs"][states["prompt.qpos"][:, 0].argmax()]
  np.testing.assert_allclose(prompt(model, "--reward", "x", "--softmax", 1e-6),
                             observed(model, best, tmp_path), atol=1e-4)


@pytest.mark.parametrize("factor", ["1e-5", "1e-7", "1e-20", "1e-38"])
def test_the_scale_of_a_reward_does_not_matter(factor, model):
  direction = lambda z: z / np.linalg.norm(z)
  small = prompt(model, "--reward", f"{factor} * x")
  np.testing.assert_allclose(direction(small), direction(prompt(model, "--reward", "x")), atol=1e-5)
  assert np.linalg.norm(small) > 1e-9


# ---------------------------------- refusals -----------------------------------------------------


@pytest.mark.parametrize("flags, words", [
    (["--task", "esy"], "did you mean the task easy"), (["--reward", "x +"], "reward"),
    (["--reward", "1 - easy"], "the task easy is a whole reward and cannot be part of an expression"),
    (["--reward", "nothing.z > 1"], "nothing"), (["--goal", "x"], "x"),
    (["--goal", "x = red"], "x = red"), (["--goal", "q = 1"], "q"), (["--goal", "x = 1,"], "goal"),
    (["--goal", "x = "], "x = "), (["--goal", f"{'x + ' * 99} x = 1"], "at most 255"),
    (["--goal", "x = 1e300"], "goal \"x = 1e300\" is too far"),
    (["--z", ""], "the file to read needs a name"), (["--demo", "nowhere.h5"], "nowhere.h5"),
    (["--z", "nowhere.json"], "nowhere.json"), ([], "--reward"),
    (["--goal", "x = 0", "--softmax", "1"], "--softmax needs --reward or --task: --goal has no rewards"),
    (["--z", "z.json", "--softmax", "1"], "--z has no rewards"),
    (["--reward", "x", "--task", "easy"], "several"), (["--reward", "x", "--softmax", "0"], "softmax"),
    (["--reward", "1e39 + x"], "the reward of prompt state 0 is 1e+39"),
    (["--reward", "1e30 * (x + 1)"], "e+30, above 1e18: scale the reward down")])
def test_bad_prompts(flags, words, model):
  assert words in refused("prompt", model, *flags)


def test_inputs_are_not_overwritten(model, folder, tmp_path):
  goal, link = tmp_path / "goal.json", tmp_path / "link.json"
  goal.write_text('{"qpos": [0, 0]}')
  link.symlink_to(model)
  for path, output, flags in ((model, model, ["--task", "easy"]), (model, link, ["--task", "easy"]),
                              (goal, goal, ["--goal", goal]),
                              (folder / "data.h5", folder / "data.h5", ["--demo", folder / "data.h5"])):
    before = path.read_bytes()
    assert f"-o {output} would overwrite the input {path}" in refused("prompt", model, *flags, "-o", output)
    assert path.read_bytes() == before


@pytest.mark.parametrize("text, words", [
    ('{"qpos": [0]}', "qpos"), ('{"obs": [0, 0, 0]}', "obs"), ('{"qpos": [0, "a"]}', "qpos"),
    ('{"speed": 1}', "qpos"), ("[1, 2]", "JSON"), ("", "JSON"), ('{"z": [1]}', 'not "z"'),
    ('{"qpos": [0, 0], "qvle": [9, 9]}', "did you mean qvel?"), ("{}", 'no "qpos"'),
    ('{"obs": [0, 0, 0, 0], "qpos": [0, 0]}', '"obs" and more'),
    ('{"qpos": [0, 0]} {"qvel": [9, 9]}', 'unexpected text at byte 17, "{"qvel": [9, 9]}"'),
    ('{"qpos": [NaN, 0]}', 'unexpected text at byte 10, "NaN, 0]}"'), ("{", "not a JSON object"),
    ('{"qpos": [0, 1e30]}', "goal.json: qpos[0][1] is 1e+30, not within ±1e+10")])
def test_bad_goals(text, words, model, tmp_path):
  (tmp_path / "goal.json").write_text(text)
  sentence = refused("prompt", model, "--goal", tmp_path / "goal.json")
  assert words in sentence and "goal.json" in sentence


@pytest.mark.parametrize("change, words", [
    ({"env": "walker"}, "a prompt for walker, but the model is for point_mass"),
    ({"env": "walker", "z": [1] * 7}, "a prompt for walker"),
    ({"fingerprint": "0", "z": [1] * 7}, "for another model"),
    ({"z": [1e99] * 8}, 'element 0 of "z" is 1e+99'), ({"z": [1] * 7}, "must be 8 numbers, not 7"),
    ({"z": [1e20] * 8}, "z has the norm 2.83e+20"), ({"z": "a"}, "must be an array of 8 numbers"),
    ({"fingerprint": 3}, "for another model")])
def test_saved_prompts_that_do_not_fit(change, words, model, tmp_path):
  saved = tmp_path / "z.json"
  assert run("prompt", model, "--task", "easy", "-o", saved).returncode == 0
  saved.write_text(json.dumps({**json.loads(saved.read_text()), **change}))
  sentence = refused("prompt", model, "--z", saved)
  assert words in sentence and "z.json" in sentence


def test_a_saved_prompt_fits_only_its_model(model, folder, tmp_path):
  saved, half = tmp_path / "z.json", tmp_path / "half.safetensors"
  assert run("prompt", model, "--task", "easy", "-o", saved).returncode == 0
  z = prompt(model, "--z", saved)
  own = json.loads(saved.read_text())["fingerprint"]
  assert own in run("info", model).stdout and own in run("info", saved).stdout
  process = run("train", folder / "data.h5", *TINY, "--seed", 1, "--steps", 20, "-o", tmp_path / "run")
  assert process.returncode == 0, process.stderr
  other = tmp_path / "run" / "model.safetensors"
  for command in (["prompt"], ["eval", "--steps", 2], ["play", "-o", tmp_path / "film.png"]):
    sentence = refused(*command, other, "--z", saved)
    assert f"z.json is a prompt for another model, {model} with the fingerprint {own}" in sentence
    assert sentence.count("\n") == 1
  # an exported model has the fingerprint of its original; old prompts have no fingerprint
  assert run("export", model, "-o", half, "--half", "--members", 1).returncode == 0
  assert np.array_equal(prompt(half, "--z", saved), z)
  assert np.array_equal(prompt(model.parent / "state.safetensors", "--z", saved), z)
  saved.write_text(json.dumps({"z": z.tolist()}))
  assert np.array_equal(prompt(other, "--z", saved), z)
  assert run("prompt", other, "--z", saved, "-o", tmp_path / "again.json").returncode == 0
  assert "fingerprint" not in json.loads((tmp_path / "again.json").read_text())


def test_an_empty_output_name(model, tmp_path):
  assert "needs a name" in refused("prompt", model, "--task", "easy", "-o", "", cwd=tmp_path)
  assert not list(tmp_path.iterdir())


def test_demonstrations_that_are_empty_or_of_other_domains(model, tmp_path):
  empty = write_dataset(tmp_path / "empty.h5", rows=0, obs=4, env="point_mass")
  words = "empty.h5 has no transitions: a demonstration needs at least one"
  assert words in refused("prompt", model, "--demo", empty)
  write_dataset(empty, rows=1, obs=4, env="point_mass", next_observations=None)
  assert words in refused("prompt", model, "--demo", empty)
  one = write_dataset(tmp_path / "one.h5", rows=1, obs=4, env="point_mass")
  with h5py.File(one) as file:
    np.testing.assert_allclose(prompt(model, "--demo", one),
                               observed(model, file["observations"][0], tmp_path), atol=1e-6)
  other = write_dataset(tmp_path / "other.h5", obs=5)
  assert "5" in refused("prompt", model, "--demo", other)
  other = write_dataset(tmp_path / "walker.h5", obs=4)
  assert "walker" in refused("prompt", model, "--demo", other)


def test_models_of_other_domains_or_without_prompt_states(model, tmp_path):
  tensors = load_file(model)
  with safe_open(model, "np") as file:
    metadata = file.metadata()
  path = tmp_path / "other.safetensors"
  save_file(tensors, path, metadata={**metadata, "env": "walker"})
  assert "walker" in refused("prompt", path, "--reward", "1")
  state = model.parent / "state.safetensors"
  assert "it is a training state" in refused("prompt", state, "--reward", "1")
  assert "is a folder, not a file" in refused("prompt", model, "--z", tmp_path)
  bare = {name: x for name, x in tensors.items() if not name.startswith("prompt.")}
  save_file(bare, path, metadata=metadata)
  assert run("info", path).returncode == 0
  assert "no prompt states" in refused("prompt", path, "--task", "easy")
  for name, values in [("prompt.qpos", tensors["prompt.qpos"][1:]), ("prompt.obs", np.zeros(3, "f4")),
                       ("prompt.qvel", tensors["prompt.qvel"] * np.nan)]:
    save_file({**tensors, name: values}, path, metadata=metadata)
    assert "prompt." in refused("info", path)


# ---------------------------------- smaller models -----------------------------------------------


def test_an_exported_model_works_like_its_original(model, tmp_path):
  slim = tmp_path / "slim.safetensors"
  process = run("export", model, "-o", slim, "--members", 1, "--half", "--prompt-states", 100)
  assert process.returncode == 0, process.stderr
  assert slim.stat().st_size < model.stat().st_size / 2
  info = json.loads(run("info", "--json", slim).stdout)
  assert info["config"]["members"] == 1 and info["env"] == "point_mass"
  assert info["prompt_states"] == 100 and info["tensors"]["pi.s.in.weight"]["dtype"] == "BF16"
  assert "100" in run("info", slim).stdout
  goal = "x = 0.1, y = 0.1"
  assert prompt(slim, "--goal", goal).shape == (8,)
  whole = tmp_path / "whole.safetensors"
  assert run("export", model, "-o", whole).returncode == 0
  assert np.array_equal(prompt(whole, "--task", "easy"), prompt(model, "--task", "easy"))
  assert run("eval", slim, "--episodes", 2, "--steps", 3, "--es", 4).returncode == 0


def test_a_half_model_stays_half(model, tmp_path):
  half, again, fewer = (tmp_path / f"{name}.safetensors" for name in ("half", "again", "fewer"))
  assert run("export", model, "-o", half, "--half").returncode == 0
  assert run("export", half, "-o", again).returncode == 0
  assert again.read_bytes() == half.read_bytes()
  assert run("export", half, "-o", fewer, "--members", 1, "--prompt-states", 10).returncode == 0
  tensors = json.loads(run("info", "--json", fewer).stdout)["tensors"]
  types = {name: tensor["dtype"] for name, tensor in tensors.items()}
  assert {types[name] for name in types if not name.startswith("prompt.")} == {"BF16"}
  assert types["prompt.qpos"] == types["prompt.qvel"] == "F32"


def test_an_onnx_file_has_one_part(model, tmp_path):
  """tests/oracle/test_onnx.py runs the graphs."""
  for part in ("pi", "B", "F"):
    path = tmp_path / f"{part}.onnx"
    assert run("export", model, "-o", path, "--part", part).stdout.startswith(f"{path}: ")
    assert b"control_dt" in path.read_bytes() and path.read_bytes()[:2] == b"\x08\x07"
  path = tmp_path / "none"
  assert "--part is for a file whose name ends in .onnx" in refused("export", model, "-o", path,
                                                                   "--part", "B")
  path = tmp_path / "none.onnx"
  for flags, words in [(["--prompt-states", 5], "--prompt-states is for a file whose name ends in"),
                       (["--part", "V"], "pi|B|F"), (["--members", 3], "members must be 1 to")]:
    assert words in refused("export", model, "-o", path, *flags)
  assert not list(tmp_path.glob("none*"))


def test_bad_exports_are_rejected(model, tmp_path):
  assert "members" in refused("export", model, "-o", tmp_path / "x.safetensors", "--members", 3)
  assert "-o" in refused("export", model)
  before = model.read_bytes()
  assert "the model itself" in refused("export", model, "-o", model, "--members", 1)
  assert model.read_bytes() == before
  refused("export", model, "-o", tmp_path / "no" / "folder.safetensors")
