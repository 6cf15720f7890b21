"""python -m bfm demo: the shipped cheetah follows rewards that were never part of its training."""
import time

import numpy as np

from ._lib import SHIPPED_MODEL
from .agent import load
from .env import Env

# what is asked for, and the reward that says so
PROMPTS = [
    ("trot at 2 to 2.5 m/s", "tolerance(speed, 2, 2.5, 1)"),
    ("run as fast as you can", "speed"),
    ("stand still", "tolerance(speed, -0.2, 0.2, 0.5)"),
    ("trot backward", "tolerance(speed, -3, -2, 2)"),
]
SLOWEST, FASTEST, WIDTH = -4, 8, 36  # of the scale, in m/s; its width in columns


def column(speed):
  """The column of a speed on the scale."""
  place = (np.clip(speed, SLOWEST, FASTEST) - SLOWEST) / (FASTEST - SLOWEST)
  return round(float(place) * (WIDTH - 1))


def gauge(speed):
  """A bar from 0 m/s to this speed."""
  zero, end = column(0), column(speed)
  row = ["·"] * WIDTH
  for i in range(min(zero, end), max(zero, end) + 1):
    row[i] = "█"
  row[zero] = "│"
  return "".join(row)


def follow(model, env, z, steps):
  """Act for so many control steps from a new start; return the mean speed of the later half."""
  obs, speeds = env.reset(), []
  for step in range(steps):
    obs = env.step(model.act(obs, z))
    if step >= steps // 2:
      speeds.append(env.reward("speed").mean())
  return np.mean(speeds)


def main(steps=400):
  """Print one line for each prompt, then what to try next."""
  model = load(SHIPPED_MODEL, device="cpu")
  env = Env(model.env, num_envs=8, seed=1)
  print(f"""This cheetah was trained without rewards. Each reward below is turned into a vector z, and the cheetah acts
on z at once, without further training. The speed is the mean over eight cheetahs.

{"asked":24}{"the reward, as typed":32}{"to z":>7}   {"speed, m/s":>{WIDTH - 6}}""")
  for name, reward in PROMPTS:
    start = time.perf_counter()
    z = model.prompt(reward=reward)
    seconds = time.perf_counter() - start
    speed = follow(model, env, z, steps)
    print(f"{name:24}{reward:32}{1000 * seconds:4.0f} ms   {gauge(speed)} {speed:5.1f}", flush=True)
  print(f"""
Type a reward of your own:
  bfm eval  {SHIPPED_MODEL} --tasks "speed * (height > 0.7)" --random
  bfm play  {SHIPPED_MODEL} --reward "speed > 3" -o run.mp4
  bfm serve {SHIPPED_MODEL} --open      # in a browser, while it runs
  bfm names cheetah                     # everything that a reward can name
Or in Python: model = bfm.load(bfm.SHIPPED_MODEL); z = model.prompt(reward="speed > 3"); model.act(obs, z)""")
