"""Rewards of the tasks against dm_control if it has the task, else against formulas written here."""
import functools
from pathlib import Path

import mujoco
import numpy as np
import pytest

import bfm
from test_envs import (STATES, SUITE, flat, load, manipulation, observe, put_state, random_actions,
                       reached_states)

rewards = pytest.importorskip("dm_control.utils.rewards")

CORNERS = {"top_left": (-0.09, 0.09, 0.001), "top_right": (0.09, 0.09, 0.001),
           "bottom_left": (-0.09, -0.09, 0.001), "bottom_right": (0.09, -0.09, 0.001)}
RANDOM = np.random.default_rng(0).uniform((-0.2, -0.2, 0.02), (0.2, 0.2, 0.4), (4, 3)).round(4)
JACO_PLACES = CORNERS | {f"random{i + 1}": place for i, place in enumerate(RANDOM)}
TURNS = {"turn_up": (0, 1), "turn_down": (0, -1), "turn_left": (-1, 0), "turn_right": (1, 0)}
SUITE_TASKS = [
    ("walker", "stand"), ("walker", "walk"), ("walker", "run"),
    ("cheetah", "run"),
    ("quadruped", "walk"), ("quadruped", "run"),
    ("humanoid", "stand"), ("humanoid", "walk"), ("humanoid", "run"),
    ("point_mass", "easy"),
    ("fish", "upright"), ("fish", "swim"),
    ("finger", "spin"),
    ("acrobot", "swingup"), ("acrobot", "swingup_sparse"),
    ("dmc_hopper", "stand"), ("dmc_hopper", "hop"),
    *(("jaco", f"reach_{place}") for place in JACO_PLACES),
]


@functools.cache
def oracle(domain, task):
  if domain == "jaco":
    env = manipulation.load("reach_site_features", seed=0)
    env.task._target_placer = lambda random_state: JACO_PLACES[task.removeprefix("reach_")]
    env.reset()
    return env
  return load(domain, task)


def reward(env):
  physics = getattr(env, "_physics_proxy", env.physics)
  return env.task.get_reward(physics)


@pytest.mark.parametrize("domain,task", SUITE_TASKS)
def test_rewards_of_reached_states(domain, task):
  qpos, qvel, act = reached_states(domain)
  reference = oracle(domain, task)
  expected = []
  for row in zip(qpos, qvel, act):
    put_state(reference, *row)
    expected.append(reward(reference))

  env = bfm.Env(domain, STATES)
  env.set_state(qpos, qvel, act)
  np.testing.assert_allclose(env.reward(task), expected, rtol=1e-6, atol=1e-6)
  np.testing.assert_allclose(bfm.rewards(domain, task, qpos, qvel, act), expected, rtol=1e-6,
                             atol=1e-6)


@pytest.mark.parametrize("domain,task", SUITE_TASKS)
def test_rewards_of_steps(domain, task):
  """Rewards of 100 steps, which depend on the last action."""
  qpos, qvel, act = (x[:1] for x in reached_states(domain))
  reference, env = oracle(domain, task), bfm.Env(domain, 1)
  env.set_state(qpos, qvel, act)
  reference.reset()
  put_state(reference, qpos[0], qvel[0], act[0])
  for ours, theirs in zip(*random_actions(reference, np.random.RandomState(4), 100)):
    env.step(ours[None])
    assert env.reward(task)[0] == pytest.approx(reference.step(theirs).reward, abs=1e-5)


# ---------------------------------- tasks dm_control lacks ---------------------------------------


def linear(x, lo, hi, margin, value=0.0):
  return rewards.tolerance(x, (lo, hi), margin, "linear", value)


INF = float("inf")


def spin(p):
  return linear(p.named.data.subtree_angmom["torso"][1], 5, INF, 5)


def standing(p):
  height = rewards.tolerance(p.torso_height(), (1.2, INF), 0.6)
  return (3 * height + (1 + p.torso_upright()) / 2) / 4


def small_control(p):
  return (4 + rewards.tolerance(p.control(), margin=1, value_at_margin=0,
                                sigmoid="quadratic").mean()) / 5


def humanoid_standing(p):
  return (rewards.tolerance(p.head_height(), (1.4, INF), 0.35)
          * linear(p.torso_upright(), 0.9, INF, 1.9))


def upright(p):
  return linear(p.torso_upright(), 1, INF, 2)


def still(p):
  vx, vy, _ = p.center_of_mass_velocity()
  return np.exp(-(vx**2 + vy**2))


def z(p, body):
  return p.named.data.xpos[body, "z"]


def y(p, body):
  return p.named.data.xpos[body, "y"]


def facing(p):
  """Cosine between the fish's own y axis and the way from its mouth to the target."""
  way = p.named.data.geom_xpos["target"] - p.named.data.geom_xpos["mouth"]
  return p.named.data.xmat["torso"].reshape(3, 3)[:, 1] @ way / np.linalg.norm(way)


def acrobot_zz(p, body):
  return p.named.data.xmat[body, "zz"]


def hopper_standing(p):
  return rewards.tolerance(p.height(), (0.6, 2))


FORMULAS = {
    **{("finger", task): lambda p, x=x, z=z: float(
        np.linalg.norm(p.tip_position() - 0.13 * np.array([x, z])) <= 0.07)
       for task, (x, z) in TURNS.items()},
    ("finger", "spin_back"): lambda p: float(p.hinge_velocity() >= 15),
    ("finger", "spin_slowly"): lambda p: rewards.tolerance(p.hinge_velocity(), (-6, -4), 3),
    ("fish", "upside_down"): lambda p: rewards.tolerance(p.upright(), (-1, -1), 1),
    ("fish", "lie"): lambda p: rewards.tolerance(p.upright(), (0, 0), 0.5),
    ("fish", "face"): lambda p: linear(facing(p), 0.9, INF, 1.9),
    ("fish", "turn_away"): lambda p: linear(-facing(p), 0.9, INF, 1.9),
    ("fish", "orbit"): lambda p: rewards.tolerance(
        np.linalg.norm(p.mouth_to_target()), (0.15, 0.25), 0.15) * linear(
            np.linalg.norm(p.named.data.qvel["root"][:3]), 0.1, INF, 0.1),
    ("acrobot", "lift"): lambda p: linear(acrobot_zz(p, "upper_arm"), 0.95, INF, 1.95),
    ("acrobot", "fold"): lambda p: (1 + acrobot_zz(p, "upper_arm")) * (
        1 - acrobot_zz(p, "lower_arm")) / 4,
    ("acrobot", "whirl"): lambda p: linear(p.named.data.qvel["shoulder"].item(), 5, INF, 5),
    ("acrobot", "whip"): lambda p: linear(abs(p.named.data.qvel["elbow"].item()), 10, INF, 10),
    ("dmc_hopper", "hop_backward"): lambda p: hopper_standing(p) * linear(-p.speed(), 2, INF, 1, 0.5),
    ("dmc_hopper", "march"): lambda p: hopper_standing(p) * linear(p.speed(), 0.9, 1.1, 1),
    ("dmc_hopper", "jump"): lambda p: hopper_standing(p) * linear(z(p, "foot"), 0.4, INF, 0.4),
    ("dmc_hopper", "crouch"): lambda p: (1 + p.named.data.xmat["torso", "zz"]) / 2 * rewards.tolerance(
        p.height(), (0.3, 0.45), 0.2),
    ("walker", "spin"): spin,
    ("walker", "flip"): lambda p: standing(p) * (5 * spin(p) + 1) / 6,
    ("walker", "march"): lambda p: standing(p) * (
        5 * linear(p.horizontal_velocity(), 3.6, 4.4, 2, 0.5) + 1) / 6,
    ("cheetah", "walk"): lambda p: linear(p.speed(), 2, INF, 2),
    ("cheetah", "walk_backward"): lambda p: linear(-p.speed(), 2, INF, 2),
    ("cheetah", "run_backward"): lambda p: linear(-p.speed(), 10, INF, 10),
    ("cheetah", "march"): lambda p: linear(p.speed(), 4.5, 5.5, 5),
    ("quadruped", "stand"): upright,
    ("quadruped", "jump"): lambda p: upright(p) * linear(
        p.named.data.sensordata["center_of_mass"][2], 1, INF, 1, 0.5),
    ("quadruped", "march"): lambda p: upright(p) * linear(p.torso_velocity()[0], 2.25, 2.75, 2.5,
                                                          0.5),
    ("quadruped", "skip"): lambda p: upright(p) * linear(min(p.torso_velocity()[:2]), 1, INF, 1),
    ("humanoid", "march"): lambda p: small_control(p) * humanoid_standing(p) * (5 * linear(
        np.linalg.norm(p.center_of_mass_velocity()[:2]), 4.5, 5.5, 5) + 1) / 6,
    ("humanoid", "left_hand"): lambda p: still(p) * linear(p.torso_upright(), 0.9, INF, 1.9) * (
        z(p, "left_hand") > 2) * (z(p, "right_hand") < 0.9),
    ("humanoid", "right_hand"): lambda p: still(p) * linear(p.torso_upright(), 0.9, INF, 1.9) * (
        z(p, "left_hand") < 0.9) * (z(p, "right_hand") > 0.9),
    ("humanoid", "walk_open_hand"): lambda p: float(
        np.sum(p.center_of_mass_velocity()[:2]**2) > 5
        and abs(y(p, "left_hand") - y(p, "right_hand")) > 1.2),
    ("humanoid", "split"): lambda p: still(p) * (z(p, "pelvis") < 0.2) * (
        abs(y(p, "left_foot") - y(p, "right_foot")) > 0.5),
}
KNOWN = {"walker": "run", "cheetah": "run", "quadruped": "walk", "humanoid": "run", "fish": "swim",
         "finger": "spin", "acrobot": "swingup", "dmc_hopper": "stand"}


@pytest.mark.parametrize("domain,task", FORMULAS)
def test_formulas(domain, task):
  qpos, qvel, act = (x.copy() for x in reached_states(domain))
  if domain == "humanoid":  # after random actions it lies on the floor, where most rewards are zero
    qpos[::2, 2] += 1
    qvel[::3, :2] *= 5
  physics = oracle(domain, KNOWN[domain]).physics
  expected = []
  for i in range(STATES):
    with physics.reset_context():
      physics.data.qpos[:], physics.data.qvel[:] = qpos[i], qvel[i]
      if physics.model.na:
        physics.data.act[:] = act[i]
    # dm_control computes momenta of subtrees only on request
    mujoco.mj_subtreeVel(physics.model.ptr, physics.data.ptr)
    expected.append(FORMULAS[domain, task](physics))
  got = bfm.rewards(domain, task, qpos, qvel, act)
  np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("domain", [*SUITE, "jaco"])
def test_rewards_are_between_0_and_1(domain):
  qpos, qvel, act = reached_states(domain)
  for task in bfm.Env(domain, 1).tasks:
    values = bfm.rewards(domain, task, qpos, qvel, act)
    assert values.min() >= 0 and values.max() <= 1, task


@pytest.mark.parametrize("task", ["stand", "run"])
def test_returns_of_bfm_eval_equal_dm_controls(task):
  """The returns that bfm eval prints equal those of the shipped walker in dm_control."""
  folder, steps = Path(__file__).resolve().parents[2] / "models", 50
  model = bfm.load(folder / "walker.safetensors", device="cpu", threads=1)
  found = model.evaluate([task], episodes=2, steps=steps, seed=5)[task]
  z, reference = model.prompt(task=task), oracle("walker", task)
  for start, earned in zip(zip(*bfm.Env("walker", 2, seed=5).state()), found):
    reference.reset()
    put_state(reference, *start)
    obs, total = observe(reference), 0
    for _ in range(steps):
      step = reference.step(model.act(obs, z))
      obs, total = flat(step.observation), total + step.reward
    assert earned == pytest.approx(total, rel=1e-3)
