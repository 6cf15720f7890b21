"""Whether the memory of bfm serve stays flat: clients that use everything, for an hour.

    PYTHONPATH=tests/cli .venv/bin/python bench/soak.py [--seconds 3600] [--clients 4] [--log soak.jsonl]

Each client sends random messages, takes films, trajectories and z, and now and then leaves, with or
without a word, and comes back. Every 30 seconds a line of the log says how much memory the server has
(VmRSS) and how much was done. At the end, the median of the last quarter is compared with that of the
second: the first one still fills caches.
"""
import argparse
import json
import random
import statistics
import threading
import time
from pathlib import Path

from playground import WALKER, Client, Closed, Server

FORMULAS = ["upright * (speed > 2)", "torso.z > 1.2", "speed", "tolerance(height, 0.4, 0.5, 0.2)", "-abs(speed)",
            "torso.zz", "exp(-torso.z)", "torso.angmom.y", "speed +", "no_such_name", "1 / 0"]
GOALS = ["torso.z = 1.25, torso.zz = 1, speed = 0", "torso.z = 0.3", "torso.z ="]


def megabytes(pid):
  """The server's resident memory."""
  lines = Path(f"/proc/{pid}/status").read_text().splitlines()
  return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


class Visitor:
  """A client that does what people do, in random order."""

  def __init__(self, server, seed, counts):
    self.server, self.random, self.counts, self.question = server, random.Random(seed), counts, 0

  def say(self, do, **fields):
    self.question += 1
    self.counts[do] = self.counts.get(do, 0) + 1
    self.client.say(do, id=self.question, **fields)

  def act(self, scene):
    """One random message."""
    draw, body = self.random, self.random.randrange(1, len(scene["bodies"]))
    slot = draw.randrange(self.slots)
    vector = lambda size: [draw.uniform(-size, size) for _ in range(3)]
    kind = draw.choices(["reward", "goal", "demo", "check", "drag", "release", "push", "reset", "speed", "act", "step",
                         "pause", "film", "trajectory", "z"],
                        [20, 5, 5, 20, 10, 10, 10, 4, 2, 2, 2, 2, 0.5, 2, 2])[0]
    if kind in ("reward", "goal"):
      text = draw.choice(FORMULAS if kind == "reward" else GOALS)
      self.say("prompt", slot=draw.choice([-1, slot]), kind=kind, text=text, ramp=draw.choice([0, 1]))
    elif kind == "demo":
      self.say("prompt", slot=slot, kind="demo", seconds=draw.uniform(0.5, 5))
    elif kind == "check":
      self.say("check", kind="reward", text=draw.choice(FORMULAS))
    elif kind == "drag":
      self.say("drag", slot=slot, body=body, at=[0, 0, 0], to=vector(2))
    elif kind == "push":
      self.say("push", slot=slot, body=body, at=[0, 0, 0], impulse=vector(10))
    elif kind == "reset":
      self.say("reset", how=draw.choice(["start", "random"]))
    elif kind == "speed":
      self.say("speed", factor=draw.choice([0.1, 1, 4]))
    elif kind == "act":
      self.say("act", es=draw.choice([0, 8, 32]), noise=draw.choice([0, 0.2]))
    elif kind == "pause":
      self.say("pause", on=draw.random() < 0.3)
    elif kind in ("film", "trajectory", "z"):
      self.say("take", slot=slot, what=kind, seconds=draw.uniform(1, 5))
    else:
      self.say(kind)

  def visit(self, end):
    """One connection, some minutes long."""
    self.client = Client(self.server, seconds=86400)
    self.slots = self.random.choice([1, 2, 4])
    scene = self.client.open(slots=self.slots)
    leave = min(end, time.monotonic() + self.random.uniform(30, 600))
    due = 0.0
    while time.monotonic() < leave:
      self.client.next()
      if time.monotonic() > due:
        self.act(scene)
        due = time.monotonic() + self.random.expovariate(2)
    self.counts["frames"] = self.counts.get("frames", 0) + self.client.frames
    self.client.cut() if self.random.random() < 0.5 else self.client.ws.close()

  def run(self, end):
    while time.monotonic() < end:
      try:
        self.visit(end)
        self.counts["visits"] = self.counts.get("visits", 0) + 1
      except Closed as reason:
        self.counts[f"dropped: {reason}"] = self.counts.get(f"dropped: {reason}", 0) + 1


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--seconds", type=float, default=3600)
  parser.add_argument("--clients", type=int, default=4)
  parser.add_argument("--log", type=Path)
  args = parser.parse_args()
  server = Server("--clients", args.clients + 1, WALKER)
  counts = [{} for _ in range(args.clients)]
  begin = time.monotonic()
  threads = [threading.Thread(target=Visitor(server, i, counts[i]).run, args=(begin + args.seconds,))
             for i in range(args.clients)]
  for thread in threads:
    thread.start()
  memory = []
  while any(thread.is_alive() for thread in threads):
    time.sleep(30)
    memory.append(megabytes(server.process.pid))
    done = {}
    for count in counts:
      for name, value in dict(count).items():
        done[name] = done.get(name, 0) + value
    row = json.dumps({"seconds": round(time.monotonic() - begin), "MB": round(memory[-1], 1),
                      "threads": server.tasks(), **done})
    print(row, flush=True)
    if args.log:
      with args.log.open("a") as log:
        log.write(row + "\n")
  status, errors = server.stop()
  quarter = len(memory) // 4
  second, last = statistics.median(memory[quarter:2 * quarter]), statistics.median(memory[-quarter:])
  print(f"second quarter {second:.0f} MB, last quarter {last:.0f} MB; exit status {status} {errors}")


if __name__ == "__main__":
  main()
