#!/usr/bin/env python3
"""Write the policy runtime as one C file and one header, build/bfm_policy.c and build/bfm_policy.h.

Each #include of a file in src is replaced by that file, a header with guards only once. Everything
but the functions of bfm_policy.h becomes static.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parent.parent
PARTS = ["text", "json", "kernels", "forward", "file", "act", "prompt", "open"]
HEAD = """// bfm_policy, the policy runtime of bfm, version {version}, in one file: compile it with your program and
// link libm. See bfm_policy.h. Written by make amalgamation from src/policy.

#if (defined(__unix__) || defined(__APPLE__)) && !defined(_POSIX_C_SOURCE) && !defined(_GNU_SOURCE)
#define _POSIX_C_SOURCE 200809L  // mmap and posix_memalign, under -std=c99
#endif

#define POLICY_INTERNAL static

"""


def version():
  text = (ROOT / "include/bfm.h").read_text()
  return ".".join(re.search(rf"#define BFM_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


def expand(path, seen):
  """The text of a file with the files of src that it includes."""
  text = path.read_text()
  if "#ifndef BFM_" in text:
    if path in seen:
      return ""
    seen.add(path)
  return re.sub(r'^#include "(policy/.*)"\n', lambda m: expand(ROOT / "src" / m[1], seen), text, flags=re.M)


def main(folder):
  folder = pathlib.Path(folder)
  folder.mkdir(exist_ok=True)
  seen = set()
  body = "\n".join(expand(ROOT / f"src/policy/{part}.c", seen) for part in PARTS)
  (folder / "bfm_policy.c").write_text(HEAD.format(version=version()) + body)
  (folder / "bfm_policy.h").write_text((ROOT / "include/bfm_policy.h").read_text())


if __name__ == "__main__":
  main(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build")
