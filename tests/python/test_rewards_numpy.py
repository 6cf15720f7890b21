"""The reward language against NumPy: thousands of random expressions, each grown as text together
with a function that evaluates the same tree on arrays.

Quantities get their values from rewards of their plain names. Arithmetic, comparisons, logic, min,
max, clip, floor, rint, abs, sign and sqrt have one right answer to the last bit. NumPy and libm may
round the other functions (sin, exp, powers, norms, tolerances, ...) differently. Therefore each tree
is evaluated several times: exactly, and with errors of a few last bits in the results of these
functions. Where the values differ by more than 1e-11, the expression is ill-conditioned in this
state (it rounds, compares or subtracts nearly equal numbers) and the state is left out: a few in a
thousand. Everything else has to agree to 1e-9.
"""
import functools
import itertools
import random

import numpy as np
import pytest

import bfm

RTOL = 1e-9
STATES = 200
TIMES = 4  # that each expression is evaluated
LAST_BITS = 16 * np.finfo(float).eps
LONGEST = 12000  # characters with vectors written out; the language allows 20,000

# ---------------------------------- values -------------------------------------------------------


class Values:
  """The quantities of some states. Arrays are [TIMES, states]: exact, with all results too large,
  with all too small, and with random errors; vectors are [size, TIMES, states]."""

  def __init__(self, read, count):
    self.read, self.count = functools.cache(read), count
    errors = np.random.default_rng(0).uniform(-LAST_BITS, LAST_BITS, (97, TIMES, count))
    errors[:, :3] = np.array([0, LAST_BITS, -LAST_BITS])[:, None]
    self.errors = itertools.cycle(1 + errors)

  def quantity(self, name):
    return np.broadcast_to(self.read(name), (TIMES, self.count))

  def inexact(self, x, *arguments):
    """Adds errors to the result of a function; given its arguments, not to small integers that come
    from integers, such as cos(0) and 2^3."""
    wrong = x * next(self.errors)
    if not arguments:
      return wrong
    integers = functools.reduce(np.logical_and, [a == np.rint(a) for a in arguments])
    return np.where(integers & (x == np.rint(x)) & (np.abs(x) < 1e6), x, wrong)


def constant(value):
  return lambda _: np.float64(value)


def compose(function, *nodes):
  return lambda values: function(*(node.value(values) for node in nodes))


def compose_inexact(function, *nodes):
  def value(values):
    arguments = [node.value(values) for node in nodes]
    return values.inexact(function(*arguments), *arguments)

  return value


# ---------------------------------- functions ----------------------------------------------------
# NumPy's minimum and maximum return either of 0 and -0; the language returns the first.


def smaller(a, b):
  return np.where(np.isnan(a) | np.isnan(b), np.nan, np.where(b < a, b, a))


def larger(a, b):
  return np.where(np.isnan(a) | np.isnan(b), np.nan, np.where(b > a, b, a))


def power(a, b):
  return np.power(a, b + np.zeros_like(a))  # NumPy takes sqrt(-inf) for (-inf)^0.5


def choose(condition, a, b):
  return np.where(np.isnan(condition), np.nan, np.where(condition != 0, a, b))


BINARY = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "<": np.less,
          "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal,
          "!=": np.not_equal, "&&": np.logical_and, "||": np.logical_or}
LEVEL = {"||": 1, "&&": 2, **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), 3), "+": 4, "-": 4,
         "*": 5, "/": 5}
TERNARY, COMPARISON, PREFIX, POWER, ATOM = 0, 3, 6, 7, 9

EXACT = {"abs": np.abs, "sign": np.sign, "floor": np.floor, "rint": np.rint, "sqrt": np.sqrt,
         "not": np.logical_not, "if": choose,
         "clip": lambda x, lo, hi: smaller(larger(x, lo), hi)}
INEXACT = {"exp": np.exp, "log": np.log, "log2": np.log2, "log10": np.log10, "sin": np.sin,
           "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
           "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
           "asinh": np.arcsinh, "log1p": np.log1p}
ARGUMENTS = {"if": 3, "clip": 3, "atan2": 2}


def total(_, x):
  return functools.reduce(np.add, x, 0.0)


REDUCTIONS = {"min": lambda _, x: functools.reduce(smaller, x),
              "max": lambda _, x: functools.reduce(larger, x),
              "sum": total,
              "mean": lambda _, x: total(_, x) / len(x),
              "norm": lambda v, x: np.sqrt(v.inexact(total(v, [a * a for a in x]), *x))}


def dot(values, a, b):
  return total(values, [values.inexact(x * y, x, y) for x, y in zip(a, b)])


def dist(values, a, b):
  return REDUCTIONS["norm"](values, [x - y for x, y in zip(a, b)])


PAIRS = {"dot": dot, "dist": dist}

# dm_control's sigmoids; r rounds
SIGMOIDS = {
    "gaussian": lambda r, x, v: r(np.exp(-0.5 * r(x * np.sqrt(-2 * r(np.log(v)))) ** 2)),
    "hyperbolic": lambda r, x, v: r(1 / np.cosh(r(x * np.arccosh(1 / v)))),
    "long_tail": lambda r, x, v: r(1 / (r((x * np.sqrt(1 / v - 1)) ** 2) + 1)),
    "reciprocal": lambda r, x, v: r(1 / (r(x * (1 / v - 1)) + 1)),
    "cosine": lambda r, x, v: until_1(r(x * np.arccos(2 * v - 1) / np.pi),
                                      lambda s: (1 + r(np.cos(np.pi * s))) / 2),
    "linear": lambda r, x, v: until_1(r(x * (1 - v)), lambda s: 1 - s),
    "quadratic": lambda r, x, v: until_1(r(x * np.sqrt(1 - v)), lambda s: 1 - r(s * s)),
    "tanh_squared": lambda r, x, v: fall_of_tanh(r, r(x * np.arctanh(np.sqrt(1 - v)))),
}
MAY_BE_0 = ("cosine", "linear", "quadratic")


def until_1(scaled, function):
  return np.where(np.isnan(scaled), np.nan, np.where(scaled < 1, function(scaled), 0))


def fall_of_tanh(r, scaled):
  return np.where(scaled > 20, 0, 1 - r(np.tanh(scaled) ** 2))  # from 20 on, every tanh is 1


def tolerance(values, sigmoid, x, lo=0.0, hi=0.0, margin=0.0, v=0.1):
  r = values.inexact
  smallest = v >= 0 if sigmoid in MAY_BE_0 else v > 0
  possible = (lo <= hi) & (margin >= 0) & ((margin == 0) & ~np.isnan(v) | smallest & (v < 1))
  distance = r(np.where(x < lo, lo - x, x - hi) / margin)
  fall = np.where(margin == 0, 0, SIGMOIDS[sigmoid](r, distance, v))
  result = np.where((lo <= x) & (x <= hi), 1, fall)
  return np.where(possible & ~np.isnan(x), result, np.nan)


# ---------------------------------- growing expressions ------------------------------------------


class Node:
  """A piece of an expression: its text, the level of its outermost operator, a function from Values
  to an array, the size of the vectors in it (0: none), whether it names a quantity, and the length
  of its text with vectors written out."""

  def __init__(self, text, level, value, *parts):
    self.text, self.level, self.value = text, level, value
    self.size = max((part.size for part in parts), default=0)
    self.named = any(part.named for part in parts)
    self.length = len(text) + sum(part.length - len(part.text) for part in parts)

  def numbers(self, values):
    """Its numbers as arguments of a function of vectors."""
    return list(self.value(values)) if self.size else [self.value(values)]

  def above(self, level):
    return self.text if self.level > level else f"({self.text})"


class Grower:

  def __init__(self, seed, names, vectors):
    self.rng = random.Random(seed)
    self.names, self.vectors = names, vectors  # vectors: {text: names of its numbers}
    self.used = set()

  def literal(self):
    text = self.rng.choice(["0", "1", "2", "3", "0.5", ".25", "1.5", "2.5", "0.1", "0.3", "7.",
                            "1e-3", "1E2", "12.75", "1e17", "1e250", "pi", "inf"])
    self.used.add(text)
    return Node(text, ATOM, constant({"pi": np.pi, "inf": np.inf}.get(text) or float(text)))

  def name(self):
    name = self.rng.choice(self.names)
    node = Node(name, ATOM, lambda values: values.quantity(name))
    node.named = True
    return node

  def vector(self, size):
    """A vector of this size, which may stand only in an argument of a function of vectors."""
    text = self.rng.choice([text for text in self.vectors if len(self.vectors[text]) == size])
    numbers = self.vectors[text]
    node = Node(text, ATOM, lambda values: np.stack([values.quantity(name) for name in numbers]))
    node.size, node.named, node.length = size, True, 4
    return node

  def leaf(self, size):
    if size and self.rng.random() < 0.6:
      return self.vector(size)
    return self.name() if self.rng.random() < 0.6 else self.literal()

  def not_a_number(self, depth, size):
    x = self.grow(depth - 1, size)
    zero, one = Node("0", ATOM, constant(0)), Node("1", ATOM, constant(1))
    inf = Node("inf", ATOM, constant(np.inf))
    return self.rng.choice([
        lambda: self.call("sqrt", self.prefix("-", one)),
        lambda: self.call("log", self.prefix("-", self.call("abs", x))),
        lambda: self.call("asin", self.binary("+", self.call("abs", x), one)),
        lambda: self.binary("/", zero, zero),
        lambda: self.binary("/", self.binary("*", x, zero), zero),
        lambda: self.binary("-", inf, inf),
        lambda: self.binary("*", x, self.binary("*", zero, inf)),
        lambda: self.binary("-", self.binary("+", x, inf), inf)])()

  def binary(self, op, a, b):
    self.used.add(op)
    level = LEVEL[op]
    left = a.above(level if level == COMPARISON else level - 1)  # no two comparisons in a row
    space = self.rng.choice(["", " "])
    number = lambda *x: BINARY[op](*x).astype(float)
    return Node(f"{left}{space}{op}{space}{b.above(level)}", level, compose(number, a, b), a, b)

  def prefix(self, sign, a):
    self.used.add(f"prefix {sign}")
    function = {"-": np.negative, "+": np.positive, "!": lambda x: (x == 0).astype(float)}[sign]
    return Node(f"{sign}{a.above(PREFIX - 1)}", PREFIX, compose(function, a), a)

  def power(self, a, b):
    self.used.add("^")
    return Node(f"{a.above(ATOM - 1)}^{b.above(PREFIX - 1)}", POWER, compose_inexact(power, a, b),
                a, b)

  def ternary(self, c, a, b):
    self.used.add("?")
    text = f"{c.above(TERNARY)} ? {a.text} : {b.text}"
    return Node(text, TERNARY, compose(choose, c, a, b), c, a, b)

  def call(self, name, *parts):
    self.used.add(name)
    if name in EXACT:
      value = compose(lambda *x: EXACT[name](*x).astype(float), *parts)
    else:
      value = compose_inexact(INEXACT[name], *parts)
    return Node(f"{name}({', '.join(part.text for part in parts)})", ATOM, value, *parts)

  def tolerance(self, depth, size):
    pick = self.rng.choice
    sigmoid = pick(list(SIGMOIDS))
    name = "tolerance" if sigmoid == "gaussian" and pick([0, 1]) else f"tolerance_{sigmoid}"
    self.used.add(name)
    fixed = lambda text: Node(text, ATOM, constant(float(text)))  # float() reads -inf as well
    parts = [self.grow(depth - 1, size)]
    count = pick([0, 2, 3, 4, 4])
    if count:
      parts += map(fixed, pick([("0", "0"), ("-1", "0.5"), ("0.3", "inf"), ("-inf", "0.2"),
                                ("-inf", "inf"), ("inf", "inf"), ("1", "1")]))
    if count > 2:
      parts.append(fixed(pick(["0", "0.5", "2", "10", "inf"])))
    if count > 3:
      parts.append(fixed(pick(["0.01", "0.1", "0.5", "0.99"] + ["0"] * (sigmoid in MAY_BE_0))))
    # bfm refuses impossible constant bounds; computed ones may be anything
    for i in range(1, len(parts)):
      if self.rng.random() < 0.3:
        computed = self.grow(depth - 2, size)
        if computed.named:
          parts[i] = computed
    if len(parts) > 2 and self.rng.random() < 0.3:  # computed, but in order
      lo = self.name()
      parts[1], parts[2] = lo, self.binary("+", lo, fixed(pick(["0", "0.5"])))

    value = lambda values: tolerance(values, sigmoid, *(part.value(values) for part in parts))
    return Node(f"{name}({', '.join(part.text for part in parts)})", ATOM, value, *parts)

  def reduction(self, depth, sized=False):
    """A function of any number of arguments, numbers and vectors."""
    name = self.rng.choice(list(REDUCTIONS))
    sizes = {len(numbers) for numbers in self.vectors.values()}
    sizes = sorted(size for size in sizes if size <= (3 if sized else 99))
    parts = []
    for _ in range(self.rng.choice([1, 1, 2, 2, 3, 12])):
      size = self.rng.choice(sizes) if self.rng.random() < 0.5 and len(parts) < 4 else 0
      parts.append(self.grow(min(depth - 1, 2) if size else depth - 1, size))
    return self.reduced(name, lambda values: REDUCTIONS[name](
        values, [x for part in parts for x in part.numbers(values)]), parts)

  def pair(self, depth):
    """A function of two vectors; numbers may take the place of a short one."""
    name = self.rng.choice(list(PAIRS))
    size = self.rng.choice(sorted({len(numbers) for numbers in self.vectors.values()}))
    sides = []
    for _ in range(2):
      if size == 3 and self.rng.random() < 0.4:
        sides.append([self.grow(min(depth - 1, 2)) for _ in range(size)])
      else:
        side = self.grow(min(depth - 1, 2), size)
        sides.append([side if side.size else self.vector(size)])
    value = lambda values: PAIRS[name](
        values, *([x for part in side for x in part.numbers(values)] for side in sides))
    return self.reduced(name, value, sides[0] + sides[1])

  def reduced(self, name, value, parts):
    self.used.add(name)
    node = Node(f"{name}({', '.join(part.text for part in parts)})", ATOM, value, *parts)
    node.length = len(name) + sum(part.length * max(1, part.size) + 2 for part in parts)
    node.size = 0
    return node

  def chain(self):
    """Arithmetic of a quantity and literals, which optimizers like to rearrange."""
    node = self.name()
    for _ in range(self.rng.choice([2, 3])):
      parts = [node, self.literal()]
      self.rng.shuffle(parts)
      node = self.binary(self.rng.choice("+-*/"), *parts)
    return node

  def grow(self, depth, size=0):
    """A random expression; with a size, one of vectors of this size and numbers."""
    kind = self.rng.random()
    if depth <= 0 or kind < 0.05:
      return self.leaf(size)
    if kind < 0.10:
      return self.chain()
    again = lambda: self.grow(depth - 1, size)
    if kind < 0.41:
      return self.binary(self.rng.choice(list(BINARY)), again(), again())
    if kind < 0.46:
      return self.prefix(self.rng.choice("-+!"), again())
    if kind < 0.51:
      exponent = again() if self.rng.random() < 0.3 else self.literal()
      return self.power(again(), self.prefix("-", exponent) if kind < 0.47 else exponent)
    if kind < 0.57:
      return self.ternary(again(), again(), again())
    if kind < 0.62:
      return self.not_a_number(depth, size)
    if kind < 0.72:
      return self.tolerance(depth, size)
    if kind < 0.84:
      return self.reduction(depth, size) if self.rng.random() < 0.7 or size else self.pair(depth)
    name = self.rng.choice(list(EXACT) * 2 + list(INEXACT))
    return self.call(name, *(again() for _ in range(ARGUMENTS.get(name, 1))))

  def expression(self):
    """A whole reward. Many tell NaN from infinity, which would both count as 0."""
    while True:
      node = self.grow(self.rng.choice([2, 3, 4, 4]))
      kind = self.rng.random()
      if kind < 0.2:
        value = lambda values, x=node.value: np.isnan(x(values)).astype(float)
        node = Node(f"({node.text}) != ({node.text})", COMPARISON, value, node, node)
      elif kind < 0.6:
        text = f"({node.text}) != ({node.text}) ? 1e10 : clip({node.text}, -1e9, 1e9)"
        value = lambda values, x=node.value: np.nan_to_num(np.clip(x(values), -1e9, 1e9), nan=1e10)
        node = Node(text, TERNARY, value, node, node, node)
      if node.length < LONGEST and len(node.text) < 4096:
        return node


# ---------------------------------- states -------------------------------------------------------

NAMES = {
    "walker": """
        qpos.0 qpos.1 qpos.2 qpos.3 qvel.0 qvel.1 qvel.5 right_knee right_knee.v torso.x torso.z
        torso.zz torso.vx torso.wy left_foot.x left_foot.z right_foot.z com.x com.z com.vx
        com.vz angmom.y torso.com.vx ctrl.0 speed height upright standing""".split(),
    "quadruped": """
        qpos.0 qpos.2 qpos.3 qpos.8 qvel.0 qvel.4 qvel.9 act.0 act.5 torso.x torso.y torso.z
        torso.xx torso.zz torso.vx torso.vy torso.wz com.x com.y com.z com.vx angmom.z ctrl.1
        velocimeter.x imu_gyro.z speed height upright""".split(),
}
XYZ, VEL = ".x .y .z".split(), ".vx .vy .vz".split()
VECTORS = {
    "walker": {"qpos": [f"qpos.{i}" for i in range(9)], "qvel": [f"qvel.{i}" for i in range(9)],
               "ctrl": [f"ctrl.{i}" for i in range(6)],
               **{name: [name.removesuffix(".pos") + part for part in XYZ]
                  for name in ("torso", "torso.pos", "left_foot", "right_foot", "com", "angmom")},
               **{f"{name}.vel": [name + part for part in VEL]
                  for name in ("torso", "com", "left_foot")},
               "torso.mat": [f"torso.{a}{b}" for a in "xyz" for b in "xyz"]},
    "quadruped": {"qpos": [f"qpos.{i}" for i in range(23)], "qvel": [f"qvel.{i}" for i in range(22)],
                  "act": [f"act.{i}" for i in range(12)], "ctrl": [f"ctrl.{i}" for i in range(12)],
                  **{name: [name + part for part in XYZ]
                     for name in ("torso", "com", "angmom", "imu_gyro", "velocimeter")},
                  **{f"{name}.vel": [name + part for part in VEL] for name in ("torso", "com")}},
}


@functools.cache
def environment(domain):
  return bfm.Env(domain, 10, seed=1, threads=1)


@functools.cache
def states(domain):
  """States after random actions with velocities of all sizes, and some with special numbers."""
  env, rng, rows = environment(domain), np.random.default_rng(0), []
  for _ in range(STATES // 10):
    for _ in range(3):
      env.step(rng.uniform(-1, 1, (10, env.act_dim)))
    rows.append(env.state())
  qpos, qvel, act = (np.concatenate(arrays) for arrays in zip(*rows))
  qvel[::3] *= rng.exponential(5, (len(qvel[::3]), 1))
  for array in (qpos, qvel, act):
    array[1] = 0
    array[2] = -0.0
    array[3] = 1
    array[4] = rng.integers(-5, 6, array.shape[1]) / 2  # halves, for rint
    array[5] = rng.choice([1e9, -1e9, 1e-200, 0.49999999999999994], array.shape[1])
  return qpos, qvel, act


def compare(node, values, compute, never_finite):
  """Compares one expression in all states and returns in how many it is ill-conditioned and NaN."""
  with np.errstate(all="ignore"):
    x = np.broadcast_to(node.value(values), (TIMES, values.count))
    exact, others = x[0], x[1:]
    close = np.abs(others - exact) <= 1e-11 * np.abs(exact)
  same = ((others == exact) | close | np.isnan(others) & np.isnan(exact)).all(0)
  finite = np.isfinite(exact)
  missing = np.isnan(exact).sum()
  if finite[same].any():
    expected = np.where(finite, exact, 0)
  elif same.all():
    expected = np.full(len(exact), never_finite)
  else:
    return len(exact), missing
  np.testing.assert_allclose(compute(node.text)[same], expected[same], rtol=RTOL, atol=0,
                             err_msg=node.text)
  return len(exact) - same.sum(), missing


SYNTAX = {*EXACT, *INEXACT, *REDUCTIONS, *PAIRS, *BINARY, "tolerance",
          *(f"tolerance_{sigmoid}" for sigmoid in SIGMOIDS), "?", "^", "prefix -", "prefix +",
          "prefix !", "pi", "inf"}


@pytest.mark.parametrize("domain", NAMES)
def test_random_expressions(domain):
  rows = states(domain)

  def compute(text):
    try:
      return bfm.rewards(domain, text, *rows, threads=1)
    except bfm.Error as error:
      assert f"NaN or infinite in all {STATES} states" in str(error), f"{text}: {error}"
      return np.full(STATES, np.nan)

  values = Values(compute, STATES)
  grower = Grower(domain, NAMES[domain], VECTORS[domain])
  count, left_out, nan = 1200, 0, 0
  for _ in range(count):
    out, missing = compare(grower.expression(), values, compute, np.nan)
    left_out += out
    nan += missing
  assert left_out < 0.01 * count * STATES
  assert nan > 0.05 * count * STATES
  assert grower.used >= SYNTAX


@pytest.mark.parametrize("domain", NAMES)
def test_random_expressions_of_an_environment(domain):
  """Env.reward, whose controls are those of the last step."""
  env = environment(domain)
  env.reset(seed=2)
  env.step(np.random.default_rng(3).uniform(-1, 1, (10, env.act_dim)))
  values = Values(env.reward, 10)
  grower = Grower(f"{domain} env", NAMES[domain], VECTORS[domain])
  for _ in range(150):
    compare(grower.expression(), values, env.reward, 0)
