"""Tests use the checkout's own bfm, whatever is installed."""
import os
import sys
from pathlib import Path

# tests run in parallel, one per core, so each process uses one thread
worker = os.environ.get("PYTEST_XDIST_WORKER")
if worker:
  cores = sorted(os.sched_getaffinity(0))
  os.sched_setaffinity(0, {cores[int(worker[2:]) % len(cores)]})

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT / "python", ROOT / "tests" / "golden", ROOT / "tests" / "oracle"):
  sys.path.insert(0, str(folder))
