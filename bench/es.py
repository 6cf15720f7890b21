"""Why evaluation-based sampling helps or harms: F's judgement of sampled actions against the truth.

    PYTHONPATH=python .venv/bin/python bench/es.py MODEL [--tasks run,walk] [--json]

States are taken from episodes in which the policy's mean acts. At each, the policy's mean and
sampled actions are tried: the action for one control step, then the policy's mean. The physics are
deterministic, so one rollout is the truth: the discounted sum of the rewards, which F(s, a, z)·z
predicts. Sampling can only use the differences between the actions of one state, so everything is
measured there:

  spread       standard deviation of the true values over the actions, as a share of |mean value|
  error        the same of F's value minus the truth: above the spread, F's choice is mostly chance
  own          the same of F's value: far below the spread, F misses what the actions change
  members      the same of half the difference between F's first two members
  linear       share of the true values' variance that is linear in the action (adjusted R²); the rest
               is roughness, such as contacts, that a smooth F cannot follow
  rank         Spearman's correlation of F's values with the truth
  gain         true value of the chosen action minus that of the policy's mean, in units of the
               spread, by es-base; "best" is the truth's own choice. Below 0, the choice harms
  departs      share of states at which es-base gain prefers another action to the policy's mean
  long         Spearman's correlation of the truth with the sum of rewards without discount over the
               horizon: a low one says that gamma looks not far enough

Each is the mean over the states; ± is its standard error.
"""
import argparse
import json

import numpy as np

import bfm


def play(env, model, z, task, steps, gamma, first=None):
  """Discounted and plain sums of rewards over the steps; `first` replaces the first actions."""
  obs, value, plain = env.obs(), 0, 0
  for step in range(steps):
    act = first if step == 0 and first is not None else model.act(obs, z)
    obs = env.step(act)
    reward = env.reward(task)
    value, plain = value + gamma ** step * reward, plain + reward
  return value, plain


def visited_states(model, z, states, seed, steps=500):
  """States from different times of as many episodes of the policy's mean."""
  env = bfm.Env(model.env, num_envs=states, seed=seed)
  obs = env.reset()
  when = np.linspace(0, steps, states, endpoint=False).astype(int)
  kept = [np.empty_like(x) for x in env.state()]
  for step in range(steps):
    for own, now in zip(kept, env.state()):
      own[when == step] = now[when == step]
    obs = env.step(model.act(obs, z))
  return kept


def ranks(x):
  return np.argsort(np.argsort(x, -1), -1).astype(float)


def spearman(x, y):
  """Rank correlation along the last axis."""
  x, y = ranks(x), ranks(y)
  x, y = x - x.mean(-1, keepdims=True), y - y.mean(-1, keepdims=True)
  return (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1))


def linear_share(values, actions):
  """Adjusted R² of values [states, samples] regressed on actions [states, samples, act]."""
  found = []
  for y, x in zip(values, actions):
    x = np.concatenate([x, np.ones((len(x), 1))], 1)
    rest = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    found.append(1 - rest.var() / max(y.var(), 1e-30) * (len(y) - 1) / (len(y) - x.shape[1]))
  return np.array(found)


def judge(q):
  """The actions chosen for members' values q [M, states, samples], whose action 0 is the mean."""
  return {"mean": q.mean(0)[:, 1:].argmax(1) + 1, "min": q.min(0)[:, 1:].argmax(1) + 1,
          "gain": (q - q[:, :, :1]).min(0).argmax(1)}


def measure(model, task, states, samples, horizon, seed):
  gamma, sigma = model.options["gamma"], model.options["sigma"]
  z = model.prompt(reward=task)
  qpos, qvel, act = (x.repeat(samples, 0) for x in visited_states(model, z, states, seed))
  env = bfm.Env(model.env, num_envs=states * samples, seed=seed)
  env.set_state(qpos, qvel, act)
  obs = env.obs()
  rng = np.random.default_rng(seed)
  mu = model.act(obs, z)
  noise = rng.standard_normal(mu.shape) * (np.arange(len(mu)) % samples > 0)[:, None]
  actions = np.clip(mu + sigma * noise, -1, 1).astype(np.float32)
  q = (model.F(obs, actions, z) @ z).reshape(-1, states, samples).astype(np.float64)
  truth, plain = (x.reshape(states, samples)
                  for x in play(env, model, z, task, horizon, gamma, actions))

  sampled = truth[:, 1:]
  spread, size = sampled.std(1), abs(sampled.mean(1))
  live = spread > 1e-9  # elsewhere no action makes a difference, such as in a reward of zero
  if live.sum() < 2:
    return None
  estimate = q.mean(0)[:, 1:]
  found = {"spread": spread / size, "error": (estimate - sampled).std(1) / size,
           "own": estimate.std(1) / size,
           "linear": linear_share(sampled, actions.reshape(states, samples, -1)[:, 1:]),
           "rank": spearman(estimate, sampled), "long": spearman(sampled, plain[:, 1:])}
  if len(q) > 1:
    found["members"] = ((q[0] - q[1])[:, 1:] / 2).std(1) / size
  choices = judge(q) | {"best": truth.argmax(1)}
  for base, chosen in choices.items():
    found["gain." + base] = (truth[np.arange(states), chosen] - truth[:, 0]) / np.maximum(spread, 1e-9)
  found["departs"] = (choices["gain"] > 0).astype(float)
  summary = {key: (float(x[live].mean()), float(x[live].std(ddof=1) / np.sqrt(live.sum())))
             for key, x in found.items()}
  return {"task": task, "gamma": gamma, "states": int(live.sum()), "value": float(truth[:, 0].mean()),
          "predicted": float(q.mean(0)[:, 0].mean()), **summary}


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("model")
  parser.add_argument("--tasks", default="", help="names, separated by commas; default: all")
  parser.add_argument("--states", type=int, default=100)
  parser.add_argument("--samples", type=int, default=32, help="actions at a state, with the mean")
  parser.add_argument("--horizon", type=int, default=0, help="steps; default: 7 / (1 - gamma)")
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--json", action="store_true")
  o = parser.parse_args()
  model = bfm.load(o.model, device="cpu")
  horizon = o.horizon or round(7 / (1 - model.options["gamma"]))
  columns = ("spread", "error", "own", "members", "linear", "rank", "long", "gain.mean", "gain.min", "gain.gain",
             "gain.best", "departs")
  if not o.json:
    print(f"{o.model}, gamma {model.options['gamma']:g}, {o.states} states, {o.samples} actions, "
          f"{horizon} steps")
    print(f"{'task':16}" + "".join(f"{name:>15}" for name in columns))
  for task in o.tasks.split(",") if o.tasks else bfm.Env(model.env).tasks:
    line = measure(model, task, o.states, o.samples, horizon, o.seed)
    if line is None:
      print(json.dumps({"task": task, "states": 0}) if o.json else
            f"{task:16}  the actions make no difference")
    elif o.json:
      print(json.dumps({"model": o.model, **line}), flush=True)
    else:
      print(f"{task:16}" + "".join("{:>8.3f} ±{:5.3f}".format(*line[name]) if name in line else
                                   f"{'':15}" for name in columns), flush=True)


if __name__ == "__main__":
  main()
