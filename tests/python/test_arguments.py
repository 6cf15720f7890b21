"""Arrays of every kind of number."""
import decimal

import numpy as np
import pytest

import bfm

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
    np.ma.masked_array(NUMBERS), [np.ma.masked_array(row) for row in NUMBERS]], ids=str)
def test_numbers_of_any_layout_are_converted(agent, values):
  z = np.ones(D)
  expected = agent.act(NUMBERS.astype(np.float32), z)
  assert np.array_equal(agent.act(values, z), expected)
  fixed = np.array(NUMBERS, np.float32)
  fixed.flags.writeable = False
  assert np.array_equal(agent.act(fixed, z), expected)


@pytest.mark.parametrize("values", [
    np.array([[True, False, True, True]]), np.array([[1, 0, 1, 1]], np.uint8),
    np.array([[1, 0, 1, 1]], ">i8"), [[True, 0.0, 1, np.float16(1)]]], ids=str)
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
