"""One handle in many threads: all results are bit-identical to those of a single thread."""
import threading
from pathlib import Path

import numpy as np

import bfm

MODEL = Path(__file__).resolve().parents[2] / "models" / "walker.safetensors"
THREADS, ROWS = 8, 64


def in_threads(work):
  """Runs work(i) in THREADS threads and raises the first exception."""
  failures = []

  def guarded(i):
    try:
      work(i)
    except BaseException as error:  # pylint: disable=broad-except
      failures.append(error)

  threads = [threading.Thread(target=guarded, args=(i,)) for i in range(THREADS)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join(120)
    assert not thread.is_alive(), "a thread hangs"
  if failures:
    raise failures[0]


def test_threads_act_with_one_small_agent():
  """8 threads x 200 calls x 64 rows: 100,000 actions."""
  rng = np.random.default_rng(0)
  agent = bfm.Agent(5, 3, d=8, blocks=4, batch=16, hidden=16, feat=8, b_hidden=8, device="cpu")
  obs, z = rng.normal(size=(THREADS, ROWS, 5)), rng.normal(size=(THREADS, ROWS, 8))
  expected = [agent.act(obs[i], z[i]) for i in range(THREADS)]
  sampled = [agent.act(obs[i], z[i], es=4, seed=3) for i in range(THREADS)]
  prompts = [agent.prompt(demo=obs[i]) for i in range(THREADS)]

  def work(i):
    for k in range(200):
      assert np.array_equal(agent.act(obs[i], z[i]), expected[i])
      if k % 8 == 0:
        assert np.array_equal(agent.act(obs[i], z[i], es=4, seed=3), sampled[i])
        assert np.array_equal(agent.prompt(demo=obs[i]), prompts[i])

  in_threads(work)


def test_threads_act_and_prompt_with_the_shipped_model():
  model = bfm.load(MODEL, device="cpu")
  env = bfm.Env("walker", ROWS)
  obs = env.reset()
  rewards = ["torso.z > 1.1", "speed", "torso.zz", "upright * speed"] * 2
  z = [model.prompt(reward=reward) for reward in rewards]
  expected = [model.act(obs, z[i]) for i in range(THREADS)]

  def work(i):
    for _ in range(10):
      assert np.array_equal(model.act(obs, z[i]), expected[i])
    assert np.array_equal(model.prompt(reward=rewards[i]), z[i])

  in_threads(work)


def test_a_callback_cannot_change_the_agent_that_calls_it():
  """An evaluation shares its agent; training the agent from a callback would wait forever."""
  env = bfm.Env("point_mass", 30)
  agent = bfm.Agent(env.obs_dim, env.act_dim, d=8, batch=16, hidden=16, feat=8, b_hidden=8,
                    device="cpu", threads=1)
  agent.set_prompt("point_mass", env.reset(), *env.state())
  z = agent.prompt(reward="x + 1")
  seen = []

  def each(context, done, total):
    seen.append(agent.act(env.obs(), z))
    try:
      agent.set_data(np.ones((2, env.obs_dim)), np.zeros((2, env.act_dim)),
                     np.ones((2, env.obs_dim)))
    except bfm.ArgumentError as error:
      seen.append(str(error))
    return 1

  from bfm import _lib  # pylint: disable=import-outside-toplevel
  returns = np.empty((1, 1, 2))
  plan = _lib.Evaluation(tasks=(_lib.c_char_p * 1)(b"x"), task_count=1, episodes=2,
                         each=_lib.Evaluation.Each(each))
  status = _lib.lib.bfm_agent_evaluate(agent._handle, _lib.ctypes.byref(plan),
                                       _lib.pointer(returns))
  assert status == 8 and len(seen) == 2
  assert seen[1] == "a callback cannot change the handle that is calling it: return first"
