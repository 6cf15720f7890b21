"""Ctrl-C and other signals during long calls, each in a process of its own: pytest has handlers."""
import re
import subprocess
import sys

import numpy as np
import pytest

import bfm

START = """
import os, signal, threading, time
import numpy as np
import bfm

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell has it ignored
rng = np.random.default_rng(0)
obs, act = rng.standard_normal((1000, 4)), rng.uniform(-1, 1, (1000, 2))

def make_agent():
  agent = bfm.Agent(4, 2, d=8, batch=64, hidden=64, feat=32, b_hidden=32, device="cpu", threads=1)
  agent.set_data(obs, act, obs + 0.1)
  return agent

def make_explorer():
  explorer = bfm.Explorer(4, 2, hidden=32, batch=32, device="cpu", threads=1)
  for i in range(50):
    explorer.add(obs[None, i:i + 1], act[None, i:i + 1], [[0.5]], [[1]], obs[None, i + 1:i + 2],
                 [[0]])
  return explorer

def press_ctrl_c(call, after=1):
  sent = []
  def send():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
  threading.Timer(after, send).start()
  try:
    call()
  except KeyboardInterrupt as error:
    print(f"after {time.monotonic() - sent[0]:.2f} s: {error}")
  assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


def run(script):
  """The output of a process that runs START and script."""
  process = subprocess.run([sys.executable, "-c", START + script], capture_output=True, text=True,
                           timeout=120)
  assert process.returncode == 0, process.stderr
  assert not process.stderr
  return process.stdout


def check_seconds(output):
  """Half a second is allowed on an idle machine; others may use this one."""
  seconds = re.match(r"after (\d+\.\d+) s: ", output)
  assert seconds and float(seconds[1]) < 5, output


def test_ctrl_c_ends_training_and_the_agent_can_go_on():
  check_seconds(run("""
agent, whole = make_agent(), make_agent()
press_ctrl_c(lambda: agent.train(10**9))
step = agent.step
assert 10 < step < 10**9
assert agent.train(5) == whole.train(step + 5)
found, expected = agent.tensors(), whole.tensors()
assert all(np.array_equal(found[name], expected[name]) for name in found)
"""))


def test_ctrl_c_ends_the_updates_of_an_explorer():
  check_seconds(run("""
explorer, whole = make_explorer(), make_explorer()
press_ctrl_c(lambda: explorer.update(10**9))
step = explorer.step
assert 10 < step < 10**9
explorer.update(5)
whole.update(step + 5)
found, expected = explorer.tensors(), whole.tensors()
assert all(np.array_equal(found[name], expected[name]) for name in found)
"""))


def test_ctrl_c_ends_an_evaluation():
  output = run("""
env = bfm.Env("point_mass", 50)
agent = make_agent()
agent.set_prompt("point_mass", env.obs(), *env.state())
z = np.ones((1, 8))
press_ctrl_c(lambda: agent.evaluate("x", episodes=20, steps=10**9, z=z))
assert np.isfinite(agent.evaluate("x", episodes=2, steps=3, z=z)["x"]).all()
""")
  check_seconds(output)
  assert "stopped after" in output


def test_no_ctrl_c_is_lost_on_the_way_into_a_callback():
  """The callback does little, so that many signals arrive before its first line."""
  run("""
env = bfm.Env("point_mass", 2)
agent = make_agent()
agent.set_prompt("point_mass", env.obs(), *env.state())
for i in range(40):
  signal.setitimer(signal.ITIMER_REAL, 0.01 + i * 1e-5)
  signal.signal(signal.SIGALRM, lambda number, frame: signal.raise_signal(signal.SIGINT))
  start = time.monotonic()
  try:
    agent.evaluate("x", episodes=1, steps=10**6, z=np.ones((1, 8)), threads=1)
    raise SystemExit("Ctrl-C was lost")
  except KeyboardInterrupt:
    pass
""")


def test_handlers_of_signals_change_no_results():
  """Without a stack of their own, handlers overwrite what oneDNN keeps below the stack pointer."""
  run("""
signal.signal(signal.SIGALRM, lambda number, frame: None)
results = []
for interval in (0, 1e-4):
  signal.setitimer(signal.ITIMER_REAL, interval, interval)
  agent = bfm.Agent(24, 6, d=64, algo="fb-aware", batch=256, hidden=256, feat=128, b_hidden=128,
                    device="cpu", threads=1)
  rng = np.random.default_rng(0)
  obs = rng.standard_normal((1000, 24))
  agent.set_data(obs, rng.uniform(-1, 1, (1000, 6)), obs + 0.1)
  agent.train(10)
  results.append(agent.act(obs, np.ones(64)))
signal.setitimer(signal.ITIMER_REAL, 0)
assert np.array_equal(*results)
""")


def test_parts_change_no_results(monkeypatch):
  """One step a part, and all steps in one."""
  from bfm import _interrupt  # pylint: disable=import-outside-toplevel
  rng = np.random.default_rng(0)
  obs, act = rng.standard_normal((100, 5)), rng.uniform(-1, 1, (100, 2))
  results = []
  for shortest, size in ((0, 1), (0, 7), (0, 1000), (1e9, 1)):
    monkeypatch.setattr(_interrupt, "SHORTEST", shortest)
    agent = bfm.Agent(5, 2, d=8, blocks=4, batch=16, hidden=24, feat=12, b_hidden=16, z_pool=5,
                      device="cpu", threads=1)
    explorer = bfm.Explorer(5, 2, hidden=16, batch=8, delay=3, device="cpu", threads=1)
    agent._parts.size = explorer._parts.size = size
    agent.set_data(obs, act, obs + 0.1)
    losses = agent.train(23)
    for i in range(20):
      explorer.add(obs[i].reshape(1, 1, -1), act[i].reshape(1, 1, -1), [[1]], [[1]],
                   obs[i + 1].reshape(1, 1, -1), [[0]])
    explorer.update(23)
    assert agent.step == explorer.step == 23
    results.append([*losses.values(), *agent.tensors().values(), *explorer.tensors().values(),
                    *explorer.losses().values()])
  for other in results[1:]:
    assert all(np.array_equal(x, y) for x, y in zip(results[0], other, strict=True))


@pytest.mark.parametrize("steps, words", [(-1, "-1"), (2.5, "2.5"), (2**63, str(2**63))])
def test_a_wrong_number_of_steps_does_none(steps, words):
  agent = bfm.Agent(5, 2, d=8, batch=16, hidden=24, feat=12, b_hidden=16, device="cpu")
  agent.set_data(np.ones((4, 5)), np.zeros((4, 2)), np.ones((4, 5)))
  with pytest.raises(bfm.ArgumentError, match=words):
    agent.train(steps)
  assert agent.step == 0
