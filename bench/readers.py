"""Measure whether the time of every reader grows linearly with its file.

    python3 bench/readers.py [WORDS...]

Each reader reads a file of one, two and four times a size. The table shows the CPU seconds of the
smallest file, and how many times as many the others took. The seconds of a nearly empty file of the same
kind (the start-up) were subtracted. A linear reader shows 2 and 4; one that sorts a little more. CPU
seconds include those of child processes, such as gnuplot. WORDS choose readers by their names.
The program is $BFM, or build/bfm of the checkout.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
BFM = os.environ.get("BFM", str(ROOT / "build" / "bfm"))
TAKES = 3  # the fastest counts


def bfm(*arguments):
  """Run bfm and return its CPU seconds."""
  before = resource.getrusage(resource.RUSAGE_CHILDREN)
  process = subprocess.run([BFM, *map(str, arguments)], capture_output=True, text=True)
  after = resource.getrusage(resource.RUSAGE_CHILDREN)
  seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
  if process.returncode:
    raise SystemExit(process.stderr)
  return seconds


# ---------------------------------- safetensors -----------------------------------------------------


def write_model(path, metadata=(), tensors=()):
  """Write a model of the checkout with more metadata and more tensors, which are empty."""
  model = (ROOT / "models" / "walker.safetensors").read_bytes()
  length = int.from_bytes(model[:8], "little")
  header = json.loads(model[8:8 + length])
  header["__metadata__"].update({key: "value" for key in metadata})
  header.update({name: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for name in tensors})
  text = json.dumps(header).encode()
  text += b" " * (-len(text) % 8)
  path.write_bytes(len(text).to_bytes(8, "little") + text + model[8 + length:])


def tensors(folder, n):
  write_model(folder / "a.safetensors", tensors=[f"{k}.weight" for k in range(n)])
  return lambda: bfm("info", folder / "a.safetensors")


def metadata_keys(folder, n):
  write_model(folder / "a.safetensors", metadata=[f"key {k}" for k in range(n)])
  return lambda: bfm("info", folder / "a.safetensors")


# ---------------------------------- datasets --------------------------------------------------------


def write_dataset(path, rows, length, compression=None, **attributes):
  rng = np.random.default_rng(0)
  with h5py.File(path, "w") as file:
    for name, shape in (("observations", (rows, 4)), ("actions", (rows, 2)),
                        ("next_observations", (rows, 4)), ("rewards", (rows,))):
      values = rng.uniform(-1, 1, shape).astype("f4")
      file.create_dataset(name, data=values, compression=compression)
    file["terminals"] = np.zeros(rows, bool)
    file["timeouts"] = np.arange(rows) % length == length - 1
    file["infos/source"] = np.zeros(rows, "i4")
    for name, value in attributes.items():
      file.attrs[name] = value


def rows(folder, n):
  write_dataset(folder / "a.h5", n, 1000)
  return lambda: bfm("info", folder / "a.h5")


def compressed_rows(folder, n):
  write_dataset(folder / "a.h5", n, 1000, "gzip")
  return lambda: bfm("info", folder / "a.h5")


def short_episodes(folder, n):
  write_dataset(folder / "a.h5", 2 * n, 2)
  return lambda: bfm("info", folder / "a.h5")


def source_names(folder, n):
  for k in range(2):
    names = json.dumps([f"policy {k} {i}" for i in range(n)])
    write_dataset(folder / f"{k}.h5", 100, 100, sources=names)

  def merge():
    (folder / "all.h5").unlink(missing_ok=True)
    return bfm("data", "merge", folder / "0.h5", folder / "1.h5", "-o", folder / "all.h5")
  return merge


def minari_episodes(folder, n):
  with h5py.File(folder / "a.h5", "w") as file:
    for k in range(n):
      group = file.create_group(f"episode_{k}")
      group["observations"], group["actions"] = np.zeros((5, 4), "f4"), np.zeros((4, 2), "f4")
      group["rewards"] = np.zeros(4, "f4")
      group["terminations"] = group["truncations"] = np.zeros(4, bool)
  return lambda: bfm("info", folder / "a.h5")


def npz_episodes(folder, n):
  for k in range(n):
    np.savez(folder / f"{k}.npz", observation=np.zeros((5, 4), "f4"),
             action=np.zeros((5, 2), "f4"), discount=np.ones((5, 1), "f4"),
             reward=np.zeros((5, 1), "f4"))
  return lambda: bfm("info", folder)


# ---------------------------------- JSON ------------------------------------------------------------


def write_lines(path, lines):
  path.parent.mkdir(exist_ok=True)
  path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def evaluations(n, tasks=4):
  return ({"step": 1000 * (k // (2 * tasks) + 1), "seed": k // tasks % 2, "task": f"task{k % tasks}",
           "es": 0, "mean": k % 7 / 7, "std": 0.1, "episodes": 10} for k in range(n))


def training_log(folder, n):
  write_lines(folder / "a.jsonl", ({"step": k, "seconds": k, "losses": {"fb": -1.5}}
                                   for k in range(n)))
  return lambda: bfm("info", folder / "a.jsonl")


def evaluation_log(folder, n):
  write_lines(folder / "a.jsonl", evaluations(n))
  return lambda: bfm("info", folder / "a.jsonl")


def evaluation_of_many_tasks(folder, n):
  write_lines(folder / "a.jsonl", ({**line, "step": 1} for line in evaluations(n, n // 2)))
  return lambda: bfm("info", folder / "a.jsonl")


def curves_of_evaluations(folder, n):
  write_lines(folder / "run" / "eval.jsonl", evaluations(n))
  return lambda: bfm("plot", folder / "run", "-o", folder / "curves")


def curves_of_seeds(folder, n):
  lines = ({**line, "step": k % 4, "seed": k // 4, "task": "run"}
           for k, line in enumerate(evaluations(n)))
  write_lines(folder / "run" / "eval.jsonl", lines)
  return lambda: bfm("plot", folder / "run", "-o", folder / "curves")


def curves_of_a_collection(folder, n):
  write_lines(folder / "a.log.jsonl", ({"step": k, "transitions": k, "updates": k,
                                        "returns": {"easy": k / n}} for k in range(n)))
  return lambda: bfm("plot", folder / "a.log.jsonl", "-o", folder / "curves")


def write_ledger(folder, n):
  write_lines(folder / "ledger.jsonl", (
      {"run": "walker mood algo=fb-aware blocks=8 d=64", "more": "", "seed": k, "steps": 1000 + k % 3, "es": 0, "episodes": 10,
       "returns": {"run": 0.5, "walk": 0.5}} for k in range(n)))


def ledger(folder, n):
  write_ledger(folder, n)
  return lambda: bfm("info", folder / "ledger.jsonl")


def tables_of_a_ledger(folder, n):
  write_ledger(folder, n)
  (folder / "paper").symlink_to(ROOT / "results" / "paper")
  return lambda: bfm("paper", "show", "mood", "--results", folder)


def prompt(folder, n):
  (folder / "z.json").write_text(json.dumps({"z": [0.5] * n, "model": "a", "env": "walker"}))
  return lambda: bfm("info", folder / "z.json")


def goal(folder, n):
  (folder / "goal.json").write_text(json.dumps({"qpos": [0.5] * n, "qvel": [0.5] * n}))
  return lambda: bfm("info", folder / "goal.json")


# ---------------------------------- the table -------------------------------------------------------

# a reader, the command that was measured, and the smallest number of its parts
READERS = [
    (tensors, "info", 50000),
    (metadata_keys, "info", 200000),
    (rows, "info", 4000000),
    (compressed_rows, "info", 500000),
    (short_episodes, "info", 1000000),
    (source_names, "data merge", 100000),
    (minari_episodes, "info", 1000),
    (npz_episodes, "info", 5000),
    (training_log, "info", 200000),
    (evaluation_log, "info", 100000),
    (evaluation_of_many_tasks, "info", 50000),
    (curves_of_evaluations, "plot", 20000),
    (curves_of_seeds, "plot", 200000),
    (curves_of_a_collection, "plot", 10000),
    (ledger, "info", 100000),
    (tables_of_a_ledger, "paper show", 100000),
    (prompt, "info", 1000000),
    (goal, "info", 500000),
]


def seconds_of(reader, n):
  with tempfile.TemporaryDirectory() as folder:
    read = reader(Path(folder), n)
    return min(read() for _ in range(TAKES))


def main():
  print("| reader | command | 1x | CPU seconds | 2x | 4x |\n|---|---|---|---|---|---|")
  for reader, command, n in READERS:
    name = reader.__name__.replace("_", " ")
    if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
      continue
    start = seconds_of(reader, 4)
    one, two, four = (max(seconds_of(reader, n * times) - start, 1e-9) for times in (1, 2, 4))
    print(f"| {name} | `bfm {command}` | {n:,} | {one:.3f} | {two / one:.1f} | {four / one:.1f} |",
          flush=True)


if __name__ == "__main__":
  main()
