"""The reward language against dm_control: names, tolerances, its tasks' rewards, and random expressions
against the same arithmetic in Python."""
import functools
import math
import random
import re
from pathlib import Path

import numpy as np
import pytest

import bfm

suite = pytest.importorskip("dm_control.suite")
mujoco = pytest.importorskip("mujoco")
tolerance = pytest.importorskip("dm_control.utils.rewards").tolerance

DOMAINS = {"walker": "walk", "cheetah": "run", "quadruped": "walk", "humanoid": "walk",
           "point_mass": "easy"}
SIGMOIDS = ["gaussian", "linear", "quadratic", "cosine", "hyperbolic", "long_tail", "reciprocal",
            "tanh_squared"]


@functools.cache
def oracle(domain, task=None):
  return suite.load(domain, task or DOMAINS[domain], task_kwargs={"random": 0})


def put_state(physics, qpos, qvel, act):
  with physics.reset_context():
    physics.data.qpos[:] = qpos
    physics.data.qvel[:] = qvel
    if physics.model.na:
      physics.data.act[:] = act


@functools.cache
def states(domain, count):
  """States reached by random actions, with velocities and activations of all sizes."""
  env, rng = oracle(domain), np.random.RandomState(0)
  spec, rows = env.action_spec(), []
  while len(rows) < count:
    env.reset()
    for _ in range(20):
      env.step(rng.uniform(spec.minimum, spec.maximum))
    data = env.physics.data
    scale = rng.exponential()
    rows.append((data.qpos.copy(), scale * data.qvel + rng.randn(*data.qvel.shape),
                 np.array(data.act)))
  return [np.array(x) for x in zip(*rows)]


@functools.cache
def env_of(domain, count):
  return bfm.Env(domain, count, threads=1)


def values(domain, expression, *rows):
  """Like bfm.rewards, but with an existing environment, which is faster for many expressions."""
  env = env_of(domain, len(rows[0]))
  env.set_state(*rows)
  return env.reward(expression)


def assert_equal(expression, got, expected):
  np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12, err_msg=expression)


# ---------------------------------- tolerance ----------------------------------------------------

@pytest.mark.parametrize("sigmoid", SIGMOIDS)
@pytest.mark.parametrize("bounds", [(0, 0), (-1, 0.5), (0.3, math.inf), (-math.inf, 0.2)])
def test_tolerance(sigmoid, bounds):
  x = np.concatenate([np.linspace(-4, 4, 97), np.nan_to_num(bounds, posinf=1e6, neginf=-1e6)])
  qpos = np.stack([x, np.zeros_like(x)], axis=1)
  smallest = [0] if sigmoid in ("linear", "quadratic", "cosine") else []
  for margin in (0, 0.5, 2):
    for value in smallest + [0.01, 0.1, 0.5, 0.99]:
      expression = f"tolerance_{sigmoid}(root_x, {bounds[0]}, {bounds[1]}, {margin}, {value})"
      expected = tolerance(x, bounds, margin, sigmoid, value)
      assert_equal(expression, values("point_mass", expression, qpos, 0 * qpos), expected)


def test_tolerance_defaults():
  x = np.linspace(-2, 2, 101)
  qpos = np.stack([x, 0 * x], axis=1)
  for expression, expected in [("tolerance(root_x)", tolerance(x)),
                               ("tolerance(root_x, -1, 1)", tolerance(x, (-1, 1))),
                               ("tolerance(root_x, 0, 1, 2)", tolerance(x, (0, 1), 2))]:
    assert_equal(expression, bfm.rewards("point_mass", expression, qpos, 0 * qpos), expected)


# ---------------------------------- names --------------------------------------------------------

def named_quantities(physics):
  """{name: value} of the current state, by dm_control's names and MuJoCo's functions."""
  model, data = physics.model.ptr, physics.data.ptr
  mujoco.mj_subtreeVel(model, data)
  values = {}

  def put(name, parts, numbers):
    values.update(zip((f"{name}.{part}" for part in parts.split()), np.ravel(numbers)))

  frames = [("body", mujoco.mjtObj.mjOBJ_XBODY, model.nbody, data.xpos, data.xmat),
            ("site", mujoco.mjtObj.mjOBJ_SITE, model.nsite, data.site_xpos, data.site_xmat),
            ("geom", mujoco.mjtObj.mjOBJ_GEOM, model.ngeom, data.geom_xpos, data.geom_xmat)]
  for kind, object_type, count, position, rotation in frames:
    for i in range(count):
      if not (name := getattr(model, kind)(i).name):
        continue
      velocity = np.zeros(6)
      mujoco.mj_objectVelocity(model, data, object_type, i, velocity, 0)
      put(f"{kind}:{name}", "x y z", position[i])
      put(f"{kind}:{name}", "xx xy xz yx yy yz zx zy zz", rotation[i])
      put(f"{kind}:{name}", "wx wy wz vx vy vz", velocity)
      if kind == "body":
        put(name, "com.x com.y com.z", data.subtree_com[i])
        put(name, "com.vx com.vy com.vz", data.subtree_linvel[i])
        put(name, "angmom.x angmom.y angmom.z", data.subtree_angmom[i])

  for i in range(model.njnt):
    joint, q, v = model.joint(i), model.jnt_qposadr[i], model.jnt_dofadr[i]
    if joint.type[0] == mujoco.mjtJoint.mjJNT_FREE:
      put(f"joint:{joint.name}", "x y z qw qx qy qz", data.qpos[q:q + 7])
      put(f"joint:{joint.name}", "vx vy vz wx wy wz", data.qvel[v:v + 6])
    else:
      values[f"joint:{joint.name}"] = data.qpos[q]
      values[f"joint:{joint.name}.v"] = data.qvel[v]
  for i in range(model.nsensor):
    sensor, size = model.sensor(i), model.sensor_dim[i]
    numbers = data.sensordata[model.sensor_adr[i]:][:size]
    put(f"sensor:{sensor.name}", " ".join(map(str, range(size))), numbers)
    if size == 3:
      put(f"sensor:{sensor.name}", "x y z", numbers)
  for i in range(model.nu):
    name = model.actuator(i).name
    put(f"actuator:{name}", "u force", [data.ctrl[i], data.actuator_force[i]])
    if model.actuator_actadr[i] >= 0:
      values[f"actuator:{name}.act"] = data.act[model.actuator_actadr[i]]

  torso = model.body("torso").id if "torso" in physics.named.data.xpos.axes.row.names else 1
  values.update({"com.x": data.subtree_com[torso][0], "com.vx": data.subtree_linvel[torso][0],
                 "angmom.y": data.subtree_angmom[torso][1]})
  return values


@pytest.mark.parametrize("domain", DOMAINS)
def test_names(domain):
  physics, rows = oracle(domain).physics, states(domain, 3)
  expected = []
  for row in zip(*rows):
    put_state(physics, *row)
    expected.append(named_quantities(physics))

  def check(name, got):
    # forces agree less closely, because the contact solver is iterative
    loose = 1e-6 if any(word in name for word in ("force", "torque", "accel")) else 1e-12
    np.testing.assert_allclose(got, [x[name] for x in expected], loose, loose, err_msg=name)

  for name in expected[0]:
    check(name, values(domain, name, *rows))
  # bfm.rewards computes only what a name needs
  for name in random.Random(0).sample(sorted(expected[0]), 30):
    check(name, bfm.rewards(domain, name, *rows))


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_listed_name_can_be_used(domain):
  for name in env_of(domain, 3).names:
    try:
      values(domain, f"norm({name})", *states(domain, 3))
    except bfm.Error as error:
      assert "write " in str(error) or "is empty" in str(error)


# ---------------------------------- rewards of dm_control ----------------------------------------

SMALL_CONTROL = "(4 + mean(tolerance_quadratic(ctrl, 0, 0, 1, 0))) / 5"
WALKER_STAND = "(3 * tolerance(torso.z, 1.2, inf, 0.6) + (1 + torso.zz) / 2) / 4"
WALKER_MOVE = f"{WALKER_STAND} * (5 * tolerance_linear(com.vx, %g, inf, %g, 0.5) + 1) / 6"
HUMANOID_STAND = (f"{SMALL_CONTROL} * tolerance(head.z, 1.4, inf, 0.35)"
                  " * tolerance_linear(torso.zz, 0.9, inf, 1.9, 0)")
HUMANOID_MOVE = (f"{HUMANOID_STAND} * (5 * tolerance_linear(norm(com.vx, com.vy), %g, inf, %g, 0)"
                 " + 1) / 6")
QUADRUPED_MOVE = ("tolerance_linear(torso.zz, 1, inf, 2, 0)"
                  " * tolerance_linear(velocimeter.x, %g, inf, %g, 0.5)")
REWARDS = {
    ("walker", "stand"): WALKER_STAND,
    ("walker", "walk"): WALKER_MOVE % (1, 0.5),
    ("walker", "run"): WALKER_MOVE % (8, 4),
    ("cheetah", "run"): "tolerance_linear(com.vx, 10, inf, 10, 0)",
    ("quadruped", "walk"): QUADRUPED_MOVE % (0.5, 0.5),
    ("quadruped", "run"): QUADRUPED_MOVE % (5, 5),
    ("humanoid", "stand"): f"{HUMANOID_STAND} * mean(tolerance(com.vx, 0, 0, 2),"
                           " tolerance(com.vy, 0, 0, 2))",
    ("humanoid", "walk"): HUMANOID_MOVE % (1, 1),
    ("humanoid", "run"): HUMANOID_MOVE % (10, 10),
    ("point_mass", "easy"): "tolerance(dist(geom:pointmass, geom:target), 0, 0.015, 0.015) * "
                            + SMALL_CONTROL,
}


@pytest.mark.parametrize("domain, task", REWARDS)
def test_rewards_of_dm_control(domain, task):
  env, rows = oracle(domain, task), states(domain, 200)
  expected = []
  for row in zip(*rows):
    put_state(env.physics, *row)
    expected.append(env.task.get_reward(env.physics))
  assert_equal(task, bfm.rewards(domain, REWARDS[domain, task], *rows), expected)


# ---------------------------------- random expressions -------------------------------------------

BINARY = {
    **{op: (lambda op: lambda a, b: eval(f"a {op} b"))(op) for op in ("+", "-", "*")},
    "/": lambda a, b: a / b,
    **{op: (lambda op: lambda a, b: float(eval(f"a {op} b")))(op)
       for op in ("<", "<=", ">", ">=", "==", "!=")},
    "&&": lambda a, b: float(a != 0 and b != 0),
    "||": lambda a, b: float(a != 0 or b != 0),
}
LEVEL = {"||": 1, "&&": 2, "<": 3, "<=": 3, ">": 3, ">=": 3, "==": 3, "!=": 3, "+": 4, "-": 4,
         "*": 5, "/": 5}
CALLS = {"sin": math.sin, "exp": lambda x: math.exp(x), "abs": abs, "tanh": math.tanh,
         "min": min, "max": max, "norm": math.hypot, "not": lambda x: float(x == 0),
         "if": lambda c, a, b: a if c else b, "sum": lambda *x: sum(x), "floor": math.floor,
         "clip": lambda x, lo, hi: min(max(x, lo), hi)}
ARGUMENTS = {"min": 3, "max": 2, "norm": 2, "if": 3, "sum": 4, "clip": 3}


def grow(rng, depth):
  """(text, level of its outermost operator, function of x and y)"""
  kind = rng.random()
  if depth == 0 or kind < 0.1:
    if rng.random() < 0.6:
      name = rng.choice(["x", "y"])
      return {"x": "root_x", "y": "root_y"}[name], 9, lambda x, y: x if name == "x" else y
    number = rng.choice([0, 1, 2, 0.5, 3.25, 1e-3])
    return repr(number), 9, lambda x, y: float(number)
  if kind < 0.6:
    op = rng.choice(list(BINARY))
    (left, a, f), (right, b, g) = grow(rng, depth - 1), grow(rng, depth - 1)
    level = LEVEL[op]
    if a < level or (a == level == 3):
      left = f"({left})"
    if b <= level:
      right = f"({right})"
    return f"{left} {op} {right}", level, lambda x, y: BINARY[op](f(x, y), g(x, y))
  if kind < 0.7:
    text, level, f = grow(rng, depth - 1)
    if level < 6:
      text = f"({text})"
    sign = rng.choice("-!")
    return f"{sign}{text}", 6, lambda x, y: -f(x, y) if sign == "-" else float(f(x, y) == 0)
  if kind < 0.8:
    (a, level, f), (b, _, g), (c, _, h) = (grow(rng, depth - 1) for _ in range(3))
    if level == 0:
      a = f"({a})"
    return f"{a} ? {b} : {c}", 0, lambda x, y: g(x, y) if f(x, y) else h(x, y)
  if kind < 0.85:
    text, level, f = grow(rng, depth - 1)
    power = rng.choice([2, 3])
    base = text if level == 9 else f"({text})"
    return f"{base}^{power}", 7, lambda x, y: f(x, y) ** power
  name = rng.choice(list(CALLS))
  parts = [grow(rng, depth - 1) for _ in range(ARGUMENTS.get(name, 1))]
  text = f"{name}({', '.join(p[0] for p in parts)})"
  return text, 9, lambda x, y: CALLS[name](*(p[2](x, y) for p in parts))


def test_random_expressions():
  rng = random.Random(0)
  points = [(rng.uniform(-2, 2), rng.uniform(-2, 2)) for _ in range(8)]
  compared = 0
  for _ in range(1500):
    text, _, function = grow(rng, 4)
    try:
      expected = [float(function(x, y)) for x, y in points]
    except (ZeroDivisionError, OverflowError):
      continue
    if not all(map(math.isfinite, expected)) or max(map(abs, expected)) > 1e6:
      continue
    got = values("point_mass", text, np.array(points), np.zeros((8, 2)))
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9, err_msg=text)
    compared += 1
  assert compared > 500


# ---------------------------------- errors -------------------------------------------------------

@pytest.mark.parametrize("expression", ["", "toros.z", "torso.z >", "(torso.z", "sin(1, 2)",
                                        "torso", "__import__('os')", "x = 1", "1; 2", "\0", "é"])
def test_wrong_expressions(expression):
  with pytest.raises((bfm.Error, ValueError)):
    bfm.rewards("walker", expression, *states("walker", 1))


def own_states(domain, count):
  """States of bfm's own simulation, of a robot that is not here as one of dm_control's."""
  env = bfm.Env(domain, num_envs=count, seed=0)
  env.reset()
  for _ in range(5):
    env.step(np.full((count, env.act_dim), 0.3))
  return env.state()


def test_examples_of_the_documentation():
  """Every example of docs/rewards.md is a reward of its domain."""
  text = (Path(__file__).resolve().parents[2] / "docs" / "rewards.md").read_text()
  examples = re.findall(r"^\| (\w+): [^|]*\| `(.*)` \|$", text.split("## Examples")[1], re.M)
  assert len(examples) >= 9
  for domain, expression in examples:
    at = states(domain, 3) if domain in DOMAINS else own_states(domain, 3)
    assert np.isfinite(values(domain, expression, *at)).all()
