#!/usr/bin/env python3
"""Format the C and CUDA sources: clang-format, then dense lists of named initializers.

clang-format puts every designated initializer on its own line, which makes a call such as
ops->gemm(ops, &(Gemm){.m = 1, .n = 2, …}) fifteen lines tall. After clang-format this script fills
such lists up to the column limit again. A list whose last element is followed by a comma keeps one
element per line.

  format.py            rewrite the files that git tracks
  format.py --check    change nothing; list the files that would change and exit with 1
"""

import pathlib
import re
import subprocess
import sys

COLUMNS = 100
PATTERNS = ["*.c", "*.h", "*.cu", "*.cuh"]
FIRST = re.compile(r"^(?P<head>.*?[{])(?P<element>[.[]\w[^{}]*?,)$")
ELEMENT = re.compile(r"^(?P<indent> *)(?P<element>[.[]\w.*)$")


def is_complete(text):
    """Whether an element ends on its own line: no bracket stays open, no comment follows."""
    return "//" not in text and all(text.count(a) == text.count(b) for a, b in ("()", "[]", "{}"))


def gather(lines, start, column):
    """The elements that follow line `start` at `column`, and the index behind the last of them."""
    elements, i = [], start + 1
    while i < len(lines):
        match = ELEMENT.match(lines[i])
        if not match or len(match["indent"]) != column:
            break
        text = match["element"]
        if not text.endswith(","):  # the last element, with the brackets that close the list
            body = re.sub(r"}[^{}]*$", "", text)
            if is_complete(body) and body != text:
                elements.append(text)
                i += 1
            break
        if not is_complete(text):
            break
        elements.append(text)
        i += 1
    return elements, i


def pack(text):
    lines, out, i = text.split("\n"), [], 0
    while i < len(lines):
        line = lines[i]
        match = FIRST.match(line)
        column = len(match["head"]) if match else -1
        if not match:
            match = ELEMENT.match(line)
            column = len(match["indent"]) if match and line.endswith(",") else -1
        if column < 0 or "//" in line or not is_complete(line[column:]):
            out.append(line)
            i += 1
            continue
        elements, end = gather(lines, i, column)
        if elements and elements[-1].endswith(",") and lines[end].lstrip().startswith("}"):
            out.extend(lines[i:end])  # a trailing comma: one element per line
            i = end
            continue
        for element in elements:
            if len(line) + 1 + len(element) <= COLUMNS:
                line += " " + element
            else:
                out.append(line)
                line = " " * column + element
        out.append(line)
        i = end
    return "\n".join(out)


def main():
    check = "--check" in sys.argv[1:]
    root = pathlib.Path(__file__).resolve().parent.parent
    listed = subprocess.run(["git", "ls-files", "--", *PATTERNS], cwd=root, check=True,
                            capture_output=True, text=True).stdout.split()
    different = []
    for name in listed:
        path = root / name
        if not path.exists():
            continue
        before = path.read_text()
        after = pack(subprocess.run([root / ".venv/bin/clang-format", "--style=file",
                                     f"--assume-filename={path}"], cwd=root, input=before,
                                    check=True, capture_output=True, text=True).stdout)
        if after == before:
            continue
        different.append(name)
        if not check:
            path.write_text(after)
    if check and different:
        print("format: run \"make format\"; these files would change:", *different, sep="\n  ")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
