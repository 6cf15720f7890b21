"""The training step on a CPU at small and at the paper's sizes: bfm, its products alone, PyTorch.

Each turn measures all contenders one after the other, and the median turn counts, so that other work
slows all of them alike. PyTorch computes the step of tests/oracle/reference.py, eager and compiled;
`bfm bench step` measures bfm and its matrix products alone, the better of bfm's and oneDNN's. Also the
time of five seeds in one job over that of five jobs. Needs the environment of `scripts/deps.sh bench`:

  .venv-bench/bin/python bench/small_step.py --turns 5
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from torch_step import ACT, OBS, ROOT, torch_turn

SIZES = {"small-256": ("small", 256), "small-1024": ("small", 1024), "paper-1024": ("paper", 1024)}


def bfm_rates(preset, batch, threads, seconds, seeds=1):
  """{contender: steps per second}, as bfm bench measures them."""
  command = [os.environ.get("BFM", str(ROOT / "build" / "bfm")), "bench", "step", "--json",
             "--device", "cpu", "--preset", preset, "--batch", batch, "--threads", threads,
             "--seconds", seconds, "--seeds", seeds, "--obs", OBS, "--act", ACT]
  out = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
  result = json.loads(out.stdout)
  return {"bfm": result["steps_per_second"],
          "its products alone": result["products_steps_per_second"]}


def timed(step, seconds):
  """Steps per second over about so many seconds."""
  count, start = 0, time.perf_counter()
  while count < 2 or time.perf_counter() - start < seconds:
    step()
    count += 1
  return count / (time.perf_counter() - start)


def measure(preset, batch, args):
  """The median of each contender's turns at one size."""
  options = {"algo": "fb-aware", "d": 64, "blocks": 8, "batch": batch, "preset": preset}
  peers = {} if args.no_torch else {
      "PyTorch eager": torch_turn(options, "f32", False),
      "PyTorch compiled": torch_turn(options, "f32", True)}
  for step in peers.values():
    step()
    step()
  turns = []
  for _ in range(args.turns):
    turn = bfm_rates(preset, batch, args.threads, args.seconds)
    turn |= {name: timed(step, args.seconds) for name, step in peers.items()}
    five = bfm_rates(preset, batch, args.threads, args.seconds, seeds=5)
    turn["five seeds, each"] = 5 * five["bfm"]
    turns.append(turn)
  return {name: statistics.median(turn[name] for turn in turns) for name in turns[0]}, turns


def show(name, median):
  print(f"{name}:")
  for who, rate in median.items():
    print(f"  {who:<20} {rate:8.2f} steps/s   {median['bfm'] / rate:5.2f}: bfm over it")


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--sizes", default=",".join(SIZES), help="default: all of %(default)s")
  parser.add_argument("--threads", type=int, default=2)
  parser.add_argument("--turns", type=int, default=5)
  parser.add_argument("--seconds", type=float, default=2, help="of each contender in a turn")
  parser.add_argument("--no-torch", action="store_true", help="bfm and its products only")
  parser.add_argument("--json", action="store_true", help="one object per size, each on a line")
  args = parser.parse_args()
  for name in args.sizes.split(","):
    if name not in SIZES:
      parser.error(f"there is no size {name}: choose from {', '.join(SIZES)}")

  version = None
  if not args.no_torch:
    sys.path.insert(0, str(ROOT / "tests" / "oracle"))
    import torch
    torch.set_num_threads(args.threads)
    torch._dynamo.config.recompile_limit = 256  # each network is compiled, none runs eagerly
    version = torch.__version__
  for name in args.sizes.split(","):
    preset, batch = SIZES[name]
    median, turns = measure(preset, batch, args)
    if args.json:
      print(json.dumps({"bench": "small_step", "size": name, "threads": args.threads,
                        "torch": version, "load": os.getloadavg()[0], "median": median,
                        "turns": turns}), flush=True)
    else:
      show(name, median)


if __name__ == "__main__":
  main()
