"""The checkout's own bfm, whatever is installed."""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT / "python", ROOT / "tests" / "golden", ROOT / "tests" / "oracle"):
  sys.path.insert(0, str(folder))
