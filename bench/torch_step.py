"""Steps per second of the fb-aware training step: bfm and PyTorch, on the CPU, in one run.

PyTorch computes the step of tests/oracle/reference.py, eager and compiled, in f32 and with bf16
autocast; bfm trains through its Python package. The contenders alternate, each for a few steps per
turn, and the median turn counts, so that a busy machine slows all of them alike.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OBS, ACT = 24, 6  # walker
PRECISIONS = ("f32", "bf16")


def avoid_crashing_amx():
  """Some virtual machines report AMX but trap on it: then keep oneDNN from using it, for both."""
  product = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a"
  if subprocess.run([sys.executable, "-c", product], check=False).returncode == -signal.SIGILL:
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"


def torch_turn(options, precision, compiled):
  """A function that computes one PyTorch step."""
  import reference
  import torch
  o = reference.Options(OBS, ACT, **options)
  agent = reference.Agent(reference.initial(o), o)
  N, draw = o.batch, torch.randn
  batch = (draw(N, OBS), draw(N, ACT).clamp(-1, 1), draw(N, OBS), torch.ones(N),
           draw(1, o.d).expand(N, -1).contiguous(), draw(N, ACT), draw(N, ACT))
  names = [name for name in agent.p if "_target." in name]
  targets = [agent.p[name] for name in names]
  online = [agent.p[name.replace("_target", "")].detach() for name in names]
  losses = torch.compile(reference.losses) if compiled else reference.losses

  def step():
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
      total, _ = losses(agent.p, o, *batch)
    agent.adam.zero_grad()
    total.backward()
    agent.adam.step()
    for target, value in zip(targets, online):
      target.lerp_(value, o.polyak)

  return step


def bfm_turn(options, precision, threads):
  """A function that computes one step of bfm, including sampling."""
  import bfm
  import numpy as np
  agent = bfm.Agent(OBS, ACT, device="cpu", precision=precision, threads=threads, **options)
  rng = np.random.default_rng(0)
  obs = rng.standard_normal((20000, OBS))
  agent.set_data(obs, rng.uniform(-1, 1, (len(obs), ACT)), obs + 0.1)
  return lambda: agent.train(1)


def contenders(options, threads):
  """{(name, precision): step}, without those that fail on this machine."""
  makers = {(who, precision): make for precision in PRECISIONS for who, make in (
      ("pytorch", lambda p=precision: torch_turn(options, p, False)),
      ("pytorch compiled", lambda p=precision: torch_turn(options, p, True)),
      ("bfm", lambda p=precision: bfm_turn(options, p, threads)))}
  result = {}
  for key, make in makers.items():
    try:
      step = make()
      step()
      step()
      result[key] = step
    except Exception as error:  # torch.compile needs a compiler, and old versions lack it
      print(f"{' '.join(key)} does not run on this machine: {str(error).splitlines()[0]}", file=sys.stderr)
  return result


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--batch", type=int, default=1024)
  parser.add_argument("--preset", default="paper", choices=("paper", "small"))
  parser.add_argument("--threads", type=int, default=2)
  parser.add_argument("--turns", type=int, default=5)
  parser.add_argument("--steps", type=int, default=3, help="steps per turn")
  parser.add_argument("--json", action="store_true")
  args = parser.parse_args()

  avoid_crashing_amx()
  sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "oracle")]
  import torch
  torch.set_num_threads(args.threads)
  options = {"algo": "fb-aware", "d": 64, "blocks": 8, "batch": args.batch, "preset": args.preset}
  steps = contenders(options, args.threads)
  rates = {key: [] for key in steps}
  for _ in range(args.turns):
    for key, step in steps.items():
      start = time.perf_counter()
      for _ in range(args.steps):
        step()
      rates[key].append(args.steps / (time.perf_counter() - start))
  median = {key: statistics.median(turns) for key, turns in rates.items()}

  rows = []
  for precision in PRECISIONS:
    peers = {who: rate for (who, p), rate in median.items() if p == precision and who != "bfm"}
    ours = median.get(("bfm", precision))
    rows += [{"who": who, "precision": precision, "steps_per_second": rate,
              "bfm_is_faster_by": ours / rate if ours else None} for who, rate in peers.items()]
    if ours:
      rows.append({"who": "bfm", "precision": precision, "steps_per_second": ours})
  if args.json:
    print(json.dumps({"torch": torch.__version__, "threads": args.threads, **options,
                      "rows": rows}))
    return
  print(f"fb-aware step, batch {args.batch}, {args.preset} widths, {args.threads} threads, "
        f"PyTorch {torch.__version__}")
  for row in rows:
    ratio = row.get("bfm_is_faster_by")
    print(f"  {row['who']:<17} {row['precision']:<5} {row['steps_per_second']:7.2f} steps/s"
          + (f"   bfm / it {ratio:5.2f}" if ratio else ""))


if __name__ == "__main__":
  main()
