"""The Markdown pages: links have targets, commands have the options that are shown, and functions are
in the files that the pages name."""
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BFM, ROOT, run

PAGES = sorted(path.relative_to(ROOT)
               for pattern in ("*.md", "[a-z]*/**/*.md")
               for path in ROOT.glob(pattern)
               if not re.match(r"build|runs$", path.relative_to(ROOT).parts[0]))
COMMANDS = ("collect data train prompt eval bias play export plot paper info tasks names robot "
            "bench").split()
SOURCES = [path for path in ROOT.glob("src/*/*") if path.suffix in (".c", ".h", ".cu", ".cuh")]


def without_code(text):
  """Remove indented commands: brackets in them are not links."""
  return re.sub(r"^    .*$", "", text, flags=re.M)


def links(page):
  """Pairs of text and target of the relative links of a page."""
  found = re.findall(r"\[([^\]]*)\]\(([^)\s]+)\)", without_code((ROOT / page).read_text()))
  return [(text, target) for text, target in found if not target.startswith("http")]


def target_path(page, target):
  path = target.partition("#")[0]
  return (ROOT / page).parent / path if path else ROOT / page


def anchors(text):
  """The anchors that GitHub gives the headings of a page."""
  plain = (re.sub(r"[^\w\- ]", "", line.lower()) for line in re.findall(r"^#+ (.*)$", text, re.M))
  return [line.replace(" ", "-") for line in plain]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_have_targets(page):
  for _, target in links(page):
    path, anchor = target_path(page, target), target.partition("#")[2]
    assert path.exists(), target
    assert not anchor or anchor in anchors(path.read_text()), target


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_names_are_in_the_files_they_link_to(page):
  for text, target in links(page):
    name = re.fullmatch(r"`([A-Za-z_]\w*)`", text)
    path = target_path(page, target)
    if name and path.is_file() and path.suffix != ".md":
      assert re.search(rf"\b{name[1]}\b", path.read_text()), f"{name[1]} is not in {target}"


def test_pages_and_names_were_found():
  assert len(PAGES) > 20
  assert sum(text.startswith("`") for page in PAGES for text, _ in links(page)) > 80


def test_commands_have_the_options_that_are_shown():
  flags = {command: set(re.findall(r"--[a-z][a-z-]*", run("help", command).stdout))
           for command in COMMANDS}
  shown = 0
  for page in PAGES:
    text = (ROOT / page).read_text().replace("\\\n", " ")
    spans = re.findall(r"^    (.*)$", text, re.M) + re.findall(r"`([^`]+)`", text)
    for span in spans:
      for command, rest in re.findall(r"\bbfm ([a-z]+)\b([^#]*)", span):
        if command in flags:
          unknown = set(re.findall(r"--[a-z][a-z-]*", rest)) - flags[command]
          assert not unknown, f"{page}: {span}"
          shown += 1
  assert shown > 100


def test_commands_can_be_typed_as_shown():
  """A comment on a command begins with #."""
  for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]:
    shown = re.findall(r"^    ((?:(?:build/)?bfm|make|tests/\S+)(?: .*)?)$", page.read_text(), re.M)
    for line in shown:
      assert not re.search(r"\S  +[^# ]", line), f"{page}: {line}"


def test_the_list_of_files_names_every_source_file():
  words = set(re.findall(r"`([^`\n]+)`", (ROOT / "docs/files.md").read_text()))
  stems = {path.stem for path in SOURCES}
  for stem in stems:
    assert {stem, stem + ".h"} & words, f"src/*/{stem}.* is not in docs/files.md"
  for word in words:
    if re.fullmatch(r"[a-z]\w*(\.h)?", word) and word not in ("bfm", "libbfm", "lap"):
      assert Path(word).stem in stems, f"docs/files.md names {word}, which is not there"


@pytest.mark.parametrize("page", ["code.md", "files.md", "transition.md", "questions.md"])
def test_the_pages_about_the_code_name_the_source(page):
  source = "".join(path.read_text() for path in [*SOURCES, *ROOT.glob("robots/*.yaml")])
  stems = {path.stem for path in SOURCES}
  for word in set(re.findall(r"`([^`\n]+)`", (ROOT / "docs" / page).read_text())):
    if re.fullmatch(r"[A-Za-z]+_\w+", word):
      assert word in stems or re.search(rf"\b{word}\b", source), word
    if re.fullmatch(r"(src|tests|results|scripts)/[\w./]+", word):
      assert (ROOT / word).exists(), word


def test_questions_are_answered_in_two_hops():
  """The README links to the questions, and every answer links to the place itself."""
  assert "docs/questions.md" in [target for _, target in links("README.md")]
  parts = re.split(r"^## (.*)$", (ROOT / "docs/questions.md").read_text(), flags=re.M)[1:]
  questions = dict(zip(parts[::2], parts[1::2]))
  assert len(questions) >= 10
  for question, answer in questions.items():
    assert question.endswith("?")
    assert re.search(r"\]\(\.\./(src|include|python|results|scripts|tests|models)/", answer), question


def test_the_index_of_results_names_every_report_and_run():
  index = [target for _, target in links("results/README.md")]
  for path in [*(ROOT / "results").glob("*.md"), *(ROOT / "results/runs").iterdir()]:
    name = str(path.relative_to(ROOT / "results"))
    assert name == "README.md" or name in index, name


def test_the_architecture_picture_is_up_to_date():
  drawn = subprocess.run([sys.executable, ROOT / "docs/architecture.py"], check=True,
                         capture_output=True, text=True).stdout
  assert drawn == (ROOT / "docs/architecture.svg").read_text(), "run make docs"


def test_the_static_library_exports_only_the_names_of_the_header():
  header = (ROOT / "include" / "bfm.h").read_text()
  listed = subprocess.run(["nm", "-g", "--defined-only", Path(BFM).with_name("libbfm.a")],
                          check=True, capture_output=True, text=True).stdout
  names = {line.split()[2] for line in listed.splitlines() if len(line.split()) == 3}
  names = {name for name in names if not name.startswith("__")}  # sanitizers add these
  assert len(names) > 50 and all(re.search(rf"\b{name}\(", header) for name in names)
