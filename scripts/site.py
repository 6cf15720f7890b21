#!/usr/bin/env python3
"""Prepare the pages of the documentation site: site.py FOLDER, then mkdocs builds from there.

The site has the repository's Markdown pages under the same paths. A link to a source file leads to
a page that shows it, a link to a folder to a page that lists it. reference/c.md is generated from
the comments in include/bfm.h."""
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LANGUAGES = {".c": "c", ".h": "c", ".cu": "cuda", ".cuh": "cuda", ".py": "python", ".sh": "bash",
             ".yaml": "yaml"}
HIDDEN = "---\nsearch:\n  exclude: true\n---\n\n"
COMMENT = re.compile(r"^//+ ?")
# lines of the header that are not part of the interface: of the preprocessor, ruled comments, and
# Doxygen's commands except @defgroup, which begins a section
SKIPPED = re.compile(r'''\#(if|ifndef|ifdef|else|elif|endif|include|undef|pragma)\b
                         |\#define\ BFM_(H|API|TO_STRING_?|DEPRECATED)\b|extern\ "C"|}$
                         |//\ -{5,}|///\ @(file|{|}|addtogroup)|BFM_DEPRECATED\(.*\)$''', re.X)
# Code of 100 columns fits beside the two sidebars of a 1280 pixel wide window.
STYLE = """\
.md-grid { max-width: 76rem; }
.md-typeset pre > code { font-size: .72em; }
.md-typeset table:not([class]) { font-size: .65rem; }
.md-typeset table:not([class]) :is(th, td) { padding: .5em .8em; min-width: 0; }
.md-typeset table:not([class]) code { word-break: normal; overflow-wrap: normal; }
.md-typeset h3 > code { overflow-wrap: anywhere; }
.md-typeset :is(p, li) > code { display: inline-block; max-width: 100%; }
"""


# ---------------------------------- pages of the repository -----------------------------------------

def tracked():
  """Files that git tracks or would add, relative to the root."""
  listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                          cwd=ROOT, check=True, capture_output=True, text=True).stdout
  return sorted(Path(line) for line in listed.splitlines() if (ROOT / line).is_file())


def is_shown(path):
  """Whether a file gets a page of its own; others are copied."""
  return path.suffix in LANGUAGES or path.name in ("LICENSE", "Makefile")


def site_target(page, target, wanted):
  """The site's form of a link on a page. Adds the file or folder that it leads to to `wanted`."""
  path, _, anchor = target.partition("#")
  if not path or "://" in target or target.startswith("mailto:"):
    return target
  full = (ROOT / page).parent.joinpath(path).resolve()
  relative = full.relative_to(ROOT)
  if full.is_dir():
    wanted.add(relative)
    index = "README.md" if (full / "README.md").exists() else "index.md"
    return path.rstrip("/") + "/" + index
  if full.suffix != ".md":
    wanted.add(relative)
  return target + ".md" if is_shown(relative) else target


def convert(page, text, wanted):
  """The text of a page with its links changed; indented code stays as it is. In tables, ± and the
  numbers beside it stay on one line."""
  def link(match):
    return f"]({site_target(page, match[1], wanted)})"

  def change(line):
    if line.startswith("    "):
      return line
    if line.startswith("|"):
      line = line.replace(" ± ", "\u00a0±\u00a0")
    return re.sub(r"\]\(([^)\s]+)\)", link, line)

  return "\n".join(change(line) for line in text.split("\n"))


# ---------------------------------- source files and folders ----------------------------------------

def summary(path):
  """The first sentence of a file's top comment."""
  text = (ROOT / path).read_text(errors="replace")
  if path.suffix == ".py":
    found = re.match(r'(?:#!.*\n)?"""(.*?)(?:"""|\n\n)', text, re.S)
    comment = found[1] if found else ""
  else:
    lines = re.match(r"(?:#!.*\n)?((?://|#).*\n)*", text)[0].splitlines()
    comment = " ".join(re.sub(r"^(//|#!?) ?", "", line) for line in lines
                       if not line.startswith("#!"))
  words = " ".join(comment.split()).replace("|", "\\|").replace("<", "&lt;")
  return re.split(r"(?<=[.:]) ", words)[0]


def source_page(path):
  text = (ROOT / path).read_text(errors="replace")
  language = LANGUAGES.get(path.suffix, "text")
  return f"{HIDDEN}# {path}\n\n``````{language}\n{text}\n``````\n"


def folder_page(folder, files):
  """A page with a table of the files directly in a folder and of its subfolders."""
  here = [path for path in files if path.parent == folder]
  below = sorted({path.relative_to(folder).parts[0] for path in files
                  if folder in path.parents and path.parent != folder})
  rows = [f"| [{name}/]({name}/index.md) | |" for name in below]
  for path in here:
    name = path.name + ".md" if is_shown(path) else path.name
    rows.append(f"| [{path.name}]({name}) | {summary(path) if path.suffix in LANGUAGES else ''} |")
  return f"{HIDDEN}# {folder}\n\n| file | |\n|---|---|\n" + "\n".join(rows) + "\n"


def add_folders(wanted, files):
  """Adds the files and subfolders of each wanted folder."""
  for folder in [path for path in wanted if (ROOT / path).is_dir()]:
    for path in files:
      if folder in path.parents and path.suffix != ".md":
        wanted.update([path, *(p for p in path.parents if folder in p.parents)])


# ---------------------------------- the C reference -------------------------------------------------

def blocks(header):
  """The paragraphs of the header: lists of lines, split at empty lines outside of braces."""
  block, depth = [], 0
  for line in header.splitlines():
    if SKIPPED.match(line):
      continue
    depth += line.count("{") - line.count("}")
    if line.strip() or depth > 0:
      block.append(line)
    elif block:
      yield block
      block = []
  if block:
    yield block


def split_comment(block):
  """Splits a paragraph into pairs of comment and declarations."""
  pairs, comment, code = [], [], []
  for line in block:
    if COMMENT.match(line):
      if code:
        pairs.append((comment, code))
        comment, code = [], []
      comment.append(COMMENT.sub("", line))
    else:
      # with BFM_API go the columns by which it indents the lines that follow
      line = re.sub(r"^BFM_API |^        (?=  )| BFM_DEPRECATED\([^)]*\)", "", line)
      code.append(re.sub(r"///<?", "//", line))
  return pairs + [(comment, code)]


def title(code):
  """The names that a declaration declares."""
  text = re.sub(r"//.*", "", "\n".join(code))
  names = re.findall(r"\b(bfm_\w+)\(", text) or re.findall(r"\b(bfm_\w+);", text)
  names = names or re.findall(r"#define (BFM_\w+)", text)
  return ", ".join(f"`{name}`" for name in dict.fromkeys(names))


def escape(line):
  """Text of a comment as Markdown; `code` and indented code are left alone."""
  if line.startswith("    "):
    return line
  parts = re.split(r"(`[^`]*`)", line)
  parts[::2] = [part.replace("<", "&lt;").replace("*", "\\*") for part in parts[::2]]
  return "".join(parts)


def prose(comment):
  return "\n".join(escape(line) for line in comment)


def c_reference():
  header = (ROOT / "include/bfm.h").read_text()
  out = ["# C reference", "", "Generated from [include/bfm.h](../include/bfm.h.md). "
         "[C guide](../docs/c.md).", ""]
  for block in blocks(header):
    group = re.match(r"/// @defgroup \w+ (.*)", block[0])
    if group:
      out += [f"## {group[1]}", ""]
      block = block[1:]
    for comment, code in split_comment(block):
      if code and title(code):
        out += [f"### {title(code)}", ""]
      out += [prose(comment), ""] if comment else []
      out += ["```c", *code, "```", ""] if code else []
  return "\n".join(out)


# ---------------------------------- writing the site ------------------------------------------------

def write(path, text):
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(text)


def main(out):
  files = [path for path in tracked() if path.parts[0] not in (".ci",)]
  shutil.rmtree(out, ignore_errors=True)
  wanted = {Path("include/bfm.h")}
  for page in [path for path in files if path.suffix == ".md"]:
    write(out / page, convert(page, (ROOT / page).read_text(), wanted))
  add_folders(wanted, files)
  for path in sorted(wanted):
    if (ROOT / path).is_dir():
      if not (ROOT / path / "README.md").exists():
        write(out / path / "index.md", folder_page(path, files))
    elif is_shown(path):
      write(out / f"{path}.md", source_page(path))
    else:
      (out / path).parent.mkdir(parents=True, exist_ok=True)
      shutil.copy(ROOT / path, out / path)
  write(out / "site.css", STYLE)
  write(out / "reference/c.md", c_reference())
  write(out / "reference/python.md", "# Python reference\n\n[Python guide](../docs/python.md).\n\n"
        "::: bfm\n")


if __name__ == "__main__":
  main(Path(sys.argv[1]))
