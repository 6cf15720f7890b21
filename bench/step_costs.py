"""The cost of a training step by width, batch, d, blocks K, seeds and threads: a table and a chart.

One thing at a time is changed from --preset small --batch 256. Times are CPU time of one thread,
which other work on the machine changes little; those by threads are wall-clock time. Rounds over all
points are repeated, and the median of a point counts.

  python3 bench/step_costs.py --rounds 3          measures, writes OUT.jsonl and draws OUT.svg
  python3 bench/step_costs.py --draw              draws again from OUT.jsonl
"""
import argparse
import json
import os
import statistics
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "results" / "runs" / "bench" / "step-costs.jsonl"
CHART = ROOT / "results" / "step-costs.svg"
BASE = {"preset": "small", "batch": 256, "device": "cpu"}


def width(n):
  return {"hidden": n, "feat": n // 2, "b-hidden": n // 2}


# panel: (label of the x axis, {x: options beyond BASE})
PANELS = {
    "width": ("hidden width of F and pi", {n: width(n) for n in (64, 128, 256, 512, 1024)}),
    "batch": ("batch", {n: {"batch": n} for n in (64, 128, 256, 512, 1024, 2048)}),
    "d": ("d, length of z", {n: {"d": n} for n in (16, 32, 64, 128, 256)}),
    "blocks": ("blocks K", {n: {"blocks": n} for n in (1, 2, 4, 8, 16)}),
    "seeds": ("seeds in one job", {n: {"seeds": n} for n in (1, 2, 3, 5, 8)}),
    "threads": ("threads", {n: {"threads": n} for n in (1, 2, 4, 8, 16, 32)}),
}


def points():
  """[(panel, x, options)]; a machine has no more threads than cores."""
  cores = os.cpu_count()
  return [(panel, x, {**BASE, "threads": 1, **options})
          for panel, (_, xs) in PANELS.items() for x, options in xs.items()
          if panel != "threads" or x <= cores]


def measure(panel, options, seconds):
  program = os.environ.get("BFM", str(ROOT / "build" / "bfm"))
  words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
  out = subprocess.run([program, "bench", "step", "--json", "--seconds", str(seconds), *words],
                       check=True, capture_output=True, text=True)
  result = json.loads(out.stdout)
  if panel != "threads":
    return {"ms": 1e3 * result["cpu_seconds_per_step"],
            "products_ms": 1e3 * result["products_cpu_seconds_per_step"]}
  return {"ms": 1e3 / result["steps_per_second"],
          "products_ms": 1e3 / result["products_steps_per_second"]}


def measure_all(rounds, seconds):
  pending = points()
  found = [[] for _ in pending]
  for _ in range(rounds):
    for turns, (panel, _, options) in zip(found, pending):
      turns.append(measure(panel, options, seconds))
  return [{"bench": "step_costs", "panel": panel, "x": x, "options": options, "rounds": rounds,
           "load": os.getloadavg()[0],
           **{key: statistics.median(turn[key] for turn in turns) for key in turns[0]}}
          for turns, (panel, x, options) in zip(found, pending)]


def draw(rows):
  """Six panels by gnuplot: milliseconds of a step, and of its products alone."""
  lines = ["set terminal svg size 1080,640 font 'sans-serif,12' background 'white'",
           f"set output '{CHART}'", "set multiplot layout 2,3",
           "set logscale xy 2", "set format y '%.4g'", "set grid lc '#dddddd'", "set key bottom right"]
  for panel, (label, _) in PANELS.items():
    mine = [row for row in rows if row["panel"] == panel]
    block = "\n".join(f"{row['x']} {row['ms']} {row['products_ms']}" for row in mine)
    ticks = ", ".join(str(row["x"]) for row in mine)
    lines += [f"${panel} << EOD", block, "EOD", f"set xlabel '{label}'", f"set xtics ({ticks})",
              f"set xrange [{0.9 * mine[0]['x']}:{1.1 * mine[-1]['x']}]",
              f"set yrange [{0.5 * min(row['products_ms'] for row in mine)}:*]",
              "set ylabel 'ms per step'",
              f"plot ${panel} using 1:2 with linespoints lw 2 pt 7 lc '#1b5e9e' title 'step', "
              f"${panel} using 1:3 with linespoints lw 1 pt 6 lc '#999999' title 'products alone'"]
  subprocess.run(["gnuplot"], input="\n".join(lines) + "\n", text=True, check=True)


def main():
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--rounds", type=int, default=3)
  parser.add_argument("--seconds", type=float, default=2, help="of each measurement")
  parser.add_argument("--draw", action="store_true", help="measure nothing, draw the stored numbers")
  args = parser.parse_args()
  if not args.draw:
    rows = measure_all(args.rounds, args.seconds)
    DATA.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
  rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
  for row in rows:
    print(f"{row['panel']:<8} {row['x']:>5} {row['ms']:9.3f} ms, products {row['products_ms']:9.3f} ms "
          f"({100 * row['products_ms'] / row['ms']:3.0f}%)")
  draw(rows)


if __name__ == "__main__":
  main()
