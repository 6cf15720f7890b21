"""How fast bfm serve is: frames a client receives, the CPU it takes, and how soon a prompt takes effect.

    PYTHONPATH=tests/cli .venv/bin/python bench/serve.py [--model FILE] [--seconds 10] [--clients 1,4] [--json]

Clients of the protocol, which draw nothing, open a robot each and acknowledge every frame. Shares are of
one core: `service` is the thread that talks to the clients, `all` the whole server with the physics and
the policy. `prompt` is the time from sending a formula to the answer that the robot now acts for it,
while the robot moves; the median and the longest of 20 different formulas.
"""
import argparse
import json
import os
import statistics
import threading
import time
from pathlib import Path

from playground import WALKER, Client, Server

TICKS = os.sysconf("SC_CLK_TCK")
PROMPTS = 20


def cpu_seconds(stat):
  """CPU seconds of a thread or process so far."""
  fields = Path(stat).read_text().rsplit(")", 1)[1].split()
  return (int(fields[11]) + int(fields[12])) / TICKS


def frames(server, count, seconds):
  """Frames per second of every client, and the shares of a core."""
  clients = [Client(server, seconds=seconds + 60) for _ in range(count)]
  for client in clients:
    client.open()
  for client in clients:
    client.count_frames(0.5)
  rates, pid = [0.0] * count, server.process.pid
  stats = [f"/proc/{pid}/task/{pid}/stat", f"/proc/{pid}/stat"]

  def receive(i):
    rates[i] = clients[i].count_frames(seconds) / seconds

  threads = [threading.Thread(target=receive, args=(i,)) for i in range(count)]
  before, begin = [cpu_seconds(s) for s in stats], time.monotonic()
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  elapsed = time.monotonic() - begin
  service, everything = [(cpu_seconds(s) - b) / elapsed for s, b in zip(stats, before)]
  for client in clients:
    client.ws.close()
  return {"clients": count, "frames": sum(rates) / count, "slowest": min(rates), "service": service,
          "all": everything}


def prompts(server):
  """Seconds from a formula to its effect."""
  client, times = Client(server, seconds=300), []
  client.open()
  client.count_frames(1)
  for i in range(1, PROMPTS + 1):
    begin = time.monotonic()
    client.say("prompt", id=i, slot=-1, kind="reward", text=f"torso.z > {1 + i / 100}")
    answer = client.read("prompted", "refused", id=i)
    assert answer["type"] == "prompted", answer
    times.append(time.monotonic() - begin)
  before = client.count_frames(1)
  client.ws.close()
  return {"prompt": statistics.median(times), "longest": max(times), "frames": before}


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--model", default=WALKER)
  parser.add_argument("--seconds", type=float, default=10)
  parser.add_argument("--clients", default="1,4")
  parser.add_argument("--json", action="store_true")
  args = parser.parse_args()
  server = Server("--clients", 32, args.model)
  rows = [frames(server, int(count), args.seconds) for count in args.clients.split(",")]
  prompt = prompts(server)
  status, errors = server.stop()
  assert status == 0, errors
  if args.json:
    print(json.dumps({"frames": rows, "prompt": prompt}))
    return
  print("clients  frames/s  slowest  service     all")
  for row in rows:
    print(f"{row['clients']:7d}  {row['frames']:8.1f}  {row['slowest']:7.1f}  {row['service']:6.1%}  "
          f"{row['all']:6.1%}")
  print(f"prompt {prompt['prompt'] * 1e3:.0f} ms, longest {prompt['longest'] * 1e3:.0f} ms")


if __name__ == "__main__":
  main()
