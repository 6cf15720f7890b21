"""Arguments of all public functions: arrays of every kind of number, texts with a NUL character."""
import decimal
import inspect
from pathlib import Path

import numpy as np
import pytest

import bfm

NUL = "a\0b"
OBS, ACT, D = 4, 2, 8


@pytest.fixture(scope="module")
def agent():
  made = bfm.Agent(OBS, ACT, d=D, batch=2, hidden=8, feat=4, b_hidden=8, device="cpu", threads=1)
  env = bfm.Env("point_mass", 2)
  made.set_prompt("point_mass", env.obs(), *env.state())
  return made


@pytest.fixture(scope="module")
def explorer():
  return bfm.Explorer(OBS, ACT, hidden=8, batch=2, device="cpu", threads=1)


# ---------------------------------- arrays -------------------------------------------------------


class Table:
  """Like a table of pandas: it has no dimensions, but converts itself."""

  def __init__(self, values):
    self.values = values

  def __array__(self, dtype=None, copy=None):
    return np.asarray(self.values, dtype)


NUMBERS = np.array([[0.5, -1, 2, 0.25], [1, 0, -3, 4]])


@pytest.mark.parametrize("values", [
    NUMBERS.tolist(), tuple(map(tuple, NUMBERS)), list(NUMBERS), NUMBERS.astype("f2"),
    NUMBERS.astype("f4"), NUMBERS.astype(">f4"), NUMBERS.astype(">f8"), NUMBERS.astype("<f2"),
    NUMBERS.astype(">f2"), NUMBERS.astype(np.longdouble), np.asfortranarray(NUMBERS),
    NUMBERS[::-1][::-1], np.repeat(NUMBERS, 2, 1)[:, ::2], NUMBERS.astype(object), Table(NUMBERS),
    np.ma.masked_array(NUMBERS), [np.ma.masked_array(row) for row in NUMBERS]], ids=lambda values: type(values).__name__)
def test_numbers_of_any_layout_are_converted(agent, values):
  z = np.ones(D)
  expected = agent.act(NUMBERS.astype(np.float32), z)
  assert np.array_equal(agent.act(values, z), expected)
  fixed = np.array(NUMBERS, np.float32)
  fixed.flags.writeable = False
  assert np.array_equal(agent.act(fixed, z), expected)


@pytest.mark.parametrize("values", [
    np.array([[True, False, True, True]]), np.array([[1, 0, 1, 1]], np.uint8),
    np.array([[1, 0, 1, 1]], ">i8"), [[True, 0.0, 1, np.float16(1)]]], ids=lambda values: type(values).__name__)
def test_integers_and_truth_values_are_numbers(agent, values):
  z = np.ones(D)
  assert np.array_equal(agent.act(values, z), agent.act([[1.0, 0, 1, 1]], z))


def test_integers_beyond_the_exact_ones_of_float32_are_rounded(agent):
  z = np.ones(D)
  big = np.array([2**24 + 1, 3, 5, 7])
  assert np.array_equal(agent.act(big, z), agent.act(big.astype(np.float32), z))


STRUCTURED = np.zeros(2, [("x", float), ("y", float)])
MASKED = np.ma.masked_array(NUMBERS, NUMBERS == 2)


@pytest.mark.parametrize("values, words", [
    (NUMBERS + 1j, "is complex: give real numbers"), (NUMBERS.astype(complex), "is complex"),
    ((NUMBERS + 0j).tolist(), "is complex"), (NUMBERS.astype("c8"), "is complex"),
    (NUMBERS.astype(str), "is not an array of numbers: its type is <U"),
    (NUMBERS.astype("S"), r"is not an array of numbers: its type is \|S"),
    ([["1", "2", "3", "4"]], "is not an array of numbers: its type is <U1"),
    (NUMBERS.astype("M8[s]"), "is not an array of numbers: its type is datetime64"),
    (NUMBERS.astype("m8[s]"), "is not an array of numbers: its type is timedelta64"),
    (STRUCTURED, "is not an array of numbers: its type is .*'x'"),
    (np.zeros(2, "V8"), "is not an array of numbers"),
    ([[None, 1, 2, 3]], "is not an array of numbers: its type is object"),
    ([["1", None, 2, 3]], "is not an array of numbers: its type is object"),
    ([[decimal.Decimal(1)] * 4], "is not an array of numbers: its type is object"),
    ([[1, 2, 3, 4], [5, 6]], "is not an array of numbers: .*inhomogeneous"),
    ({1, 2, 3, 4}, "is not an array of numbers"), (MASKED, "has masked values: fill them"),
    (list(MASKED), "has masked values"), ([1, 2, 3, np.ma.masked], "has masked values"),
    (5, r"has shape \[\], expected \[N, 4\]"), (np.zeros((0, OBS)), "must be 1 or more, not 0"),
    ([], r"has shape \[0\], expected \[4\]"), (NUMBERS * np.nan, "has NaN"),
    (np.full((2, OBS), np.inf), "has an infinity"),
    ([1e39, 0, 0, 0], "beyond the range of float32"),
    ([[10**400, 0, 0, 0]], "is not an array of numbers: .*too large")], ids=str)
def test_other_arrays_are_refused(agent, values, words):
  z = np.ones(D)
  for call in (lambda: agent.act(values, z), lambda: agent.pi(values, z),
               lambda: agent.B(values, z)):
    with pytest.raises(bfm.ArgumentError, match=words):
      call()


def test_the_name_of_the_array_is_said(agent, explorer):
  env, rows = bfm.Env("point_mass", 2), np.ones((2, OBS))
  wrong = {"obs": rows + 1j, "act": np.ones((2, ACT)) + 1j, "z": np.ones(D) + 1j,
           "qpos": np.ones((2, 2)) + 1j}
  before = explorer.tensors()
  name, *_, last = before
  for call, said in [
      (lambda: agent.act(rows, wrong["z"]), "z"),
      (lambda: agent.F(rows, wrong["act"], np.ones(D)), "act"),
      (lambda: agent.set_data(wrong["obs"], np.ones((2, ACT)), rows), "obs"),
      (lambda: agent.set_prompt("point_mass", wrong["obs"]), "obs"),
      (lambda: agent.set_prompt("point_mass", rows, wrong["qpos"]), "qpos"),
      (lambda: agent.prompt(reward=[1j, 2], obs=rows), "reward"),
      (lambda: agent.prompt(goal=wrong["obs"][0]), "goal"),
      (lambda: agent.prompt(demo=wrong["obs"]), "demo"),
      (lambda: agent.prompt(goal={"qpos": wrong["qpos"][0]}), "qpos"),
      (lambda: agent.prompt(reward="x", softmax=1j), "softmax"),
      (lambda: agent.evaluate("x", 1, z=wrong["z"][None]), "z"),
      (lambda: agent.evaluate("x", 1, softmax=1j), "softmax"),
      (lambda: agent.set_tensors({"pi.trunk.4.bias": 1j}), "pi.trunk.4.bias is complex"),
      (lambda: explorer.set_tensors({name: before[name] + 1, last: 1j}), last),
      (lambda: explorer.act(wrong["obs"][None]), "obs"), (lambda: env.step(wrong["act"]), "action"),
      (lambda: env.set_state(wrong["qpos"]), "qpos"), (lambda: env.reset([1j, 0]), "which"),
      (lambda: bfm.rewards("point_mass", "easy", wrong["qpos"]), "qpos"),
      (lambda: bfm.pictures("point_mass", wrong["qpos"], "no/such/file.png"), "qpos")]:
    with pytest.raises(bfm.ArgumentError, match=said):
      call()
  assert np.array_equal(explorer.tensors()[name], before[name])


# ---------------------------------- texts --------------------------------------------------------


def methods(of):
  return {name: method for name, method in inspect.getmembers(of)
          if callable(method) and (name == "__init__" or not name.startswith("_"))}


FREE = {"resume", "progress", "explore", "half", "report"}  # anything is true or false, or called
OTHERS = {"vector", "dm_env"}  # need packages, and use their task only in a step


def test_a_nul_character_is_refused_by_every_argument(agent, explorer, tmp_path):
  """Texts would be cut, and nothing else can be a text."""
  rows, env = np.ones((2, OBS)), bfm.Env("point_mass", 2)
  qpos, qvel, act = env.state()
  transitions = {"obs": rows, "act": np.zeros((2, ACT)), "next_obs": rows}
  parts = {name: values[None] for name, values in transitions.items()}
  one = {name: values[:, :1] for name, values in parts.items()}
  path = tmp_path / "file"
  needed = {
      agent: {"__init__": {"obs_dim": OBS, "act_dim": ACT}, "update": transitions,
              "set_data": transitions, "train": {"steps": 0},
              "F": {"obs": rows, "act": np.zeros((2, ACT)), "z": np.ones(D)},
              "B": {"obs": rows}, "pi": {"obs": rows, "z": np.ones(D)}, "prompt": {},
              "set_prompt": {"env": "point_mass", "obs": rows, "qpos": qpos, "qvel": qvel,
                             "act": act},
              "act": {"obs": rows, "z": np.ones(D)}, "evaluate": {"tasks": "x", "episodes": 1},
              "save": {"path": path}, "export": {"path": path}, "save_state": {"path": path},
              "set_tensors": {"tensors": agent.tensors()}, "tensors": {}, "metrics": {}},
      explorer: {"__init__": {"obs_dim": OBS, "act_dim": ACT}, "load": {"path": path},
                 "act": {"obs": rows[None, :1]}, "update": {}, "losses": {}, "tensors": {},
                 "add": one | {"reward": [[1]], "discount": [[1]], "last": [[0]]},
                 "learn": parts | {"reward": [[1, 1]], "discount": [[1, 1]]},
                 "set_tensors": {"tensors": explorer.tensors()}, "save": {"path": path},
                 "save_state": {"path": path}},
      env: {"__init__": {"domain": "point_mass"}, "reset": {},
            "step": {"action": np.zeros((2, ACT))}, "set_state": {"qpos": qpos},
            "reward": {"task": "easy"}, "obs": {}, "state": {}, "close": {},
            "observation_spec": {}, "action_spec": {}},
      bfm: {"collect": {"env": "point_mass", "output": path},
            "train": {"data": path, "output": path},
            "load": {"path": path},
            "pictures": {"domain": "point_mass", "qpos": qpos, "path": path},
            "rewards": {"domain": "point_mass", "task": "easy", "qpos": qpos}}}

  def refused(call, arguments):
    with pytest.raises(bfm.ArgumentError) as caught:
      call(**arguments)
    return str(caught.value)

  for owner, given in needed.items():
    found = {name: method for name, method in methods(type(owner) if owner != bfm else bfm).items()
             if not inspect.isclass(method) and name not in OTHERS}
    assert set(found) == set(given)
    for name, arguments in given.items():
      method = type(owner) if name == "__init__" else getattr(owner, name)
      for parameter, kind in inspect.signature(method).parameters.items():
        if kind.kind == kind.VAR_KEYWORD:
          assert "NUL" in refused(method, arguments | {"device": NUL}), name
          assert "NUL" in refused(method, arguments | {"device\0": "cpu"}), name
        elif parameter == "tensors":
          assert "a\0b" in refused(method, {"tensors": {NUL: np.zeros(1)}})
        elif parameter not in FREE:
          refused(method, arguments | {parameter: NUL})
  for call in (lambda: bfm.load(Path(NUL)), lambda: bfm.load("~a\0b"), lambda: bfm.load(b"a\0b"),
               lambda: bfm.train([path, NUL], output=path), lambda: agent.prompt(goal=Path(NUL)),
               lambda: agent.evaluate(["x", NUL]), lambda: bfm.env.tasks(NUL)):
    with pytest.raises(bfm.ArgumentError, match="NUL"):
      call()
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options, words", [
    ({"lr": 1j}, "option lr is 1j, but must be a number, a text, True or False"),
    ({"lr": np.ones(2)}, r"option lr is \[1.0, 1.0\]"), ({"lr": None}, "option lr is None"),
    ({"algo": b"fb"}, "option algo is b'fb'"), ({"algo": "\ud800"}, "option algo is '.ud800'"),
    ({"z_mix": 0.5, "z-mix": 0.5}, "option z-mix is given twice")])
def test_options_that_are_neither_numbers_nor_texts_are_named(options, words):
  with pytest.raises(bfm.ArgumentError, match=words):
    bfm.Agent(OBS, ACT, **options)


def test_options_may_be_numbers_of_numpy():
  agent = bfm.Agent(OBS, ACT, d=np.int64(8), lr=np.array([0.5]), z_mix=np.float32(0.25),
                    device="cpu")
  assert [agent.options[name] for name in ("d", "lr", "z-mix")] == [8, 0.5, 0.25]


def test_a_path_that_is_no_text_is_refused():
  with pytest.raises(bfm.ArgumentError, match="a path is '.ud8ff': "):
    bfm.load("\ud8ff")
