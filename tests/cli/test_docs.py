"""The pages for people: links lead somewhere, commands have the options they name, the page that
follows the paper names what is in the source."""
import re
import subprocess
from pathlib import Path

import pytest
from conftest import BFM, ROOT, run

PAGES = sorted(path.relative_to(ROOT) for pattern in ("*.md", "docs/*.md", "models/*.md",
                                                      "results/*/README.md")
               for path in ROOT.glob(pattern))
COMMANDS = ("collect data train prompt eval bias play export plot paper info tasks names "
            "bench").split()


def headings(text):
  """The anchors that GitHub gives a page."""
  plain = (re.sub(r"[^\w\- ]", "", line.lower()) for line in re.findall(r"^#+ (.*)$", text, re.M))
  return [line.replace(" ", "-") for line in plain]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page):
  for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text()):
    if link.startswith("http"):
      continue
    path, _, anchor = link.partition("#")
    target = (ROOT / page).parent / path if path else ROOT / page
    assert target.exists(), link
    assert not anchor or anchor in headings(target.read_text()), link


def test_commands_have_the_options_they_are_shown_with():
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


def test_commands_can_be_typed_as_they_are_shown():
  """What a command is for stands after a #."""
  for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]:
    shown = re.findall(r"^    ((?:(?:build/)?bfm|make|tests/\S+)(?: .*)?)$", page.read_text(), re.M)
    for line in shown:
      assert not re.search(r"\S  +[^# ]", line), f"{page}: {line}"


def test_the_page_beside_the_paper_names_the_source():
  page = (ROOT / "docs/code.md").read_text()
  files = [path for path in ROOT.glob("src/*/*") if path.suffix in (".c", ".h", ".cu")]
  source = "".join(path.read_text() for path in files)
  words = set(re.findall(r"`([^`\n]+)`", page))
  stems = {path.stem for path in files}
  for stem in stems:
    assert {stem, stem + ".h"} & words, f"src/*/{stem}.* is not in docs/code.md"
  for word in words:
    if re.fullmatch(r"[A-Za-z]+_\w+", word):
      assert word in stems or re.search(rf"\b{word}\b", source), word
    if re.fullmatch(r"(src|tests|results|scripts)/[\w./]+", word):
      assert (ROOT / word).exists(), word


def test_the_static_library_shows_what_the_header_has():
  header = (ROOT / "include" / "bfm.h").read_text()
  listed = subprocess.run(["nm", "-g", "--defined-only", Path(BFM).with_name("libbfm.a")],
                          check=True, capture_output=True, text=True).stdout
  names = {line.split()[2] for line in listed.splitlines() if len(line.split()) == 3}
  names = {name for name in names if not name.startswith("__")}  # of sanitizers
  assert len(names) > 50 and all(re.search(rf"\b{name}\(", header) for name in names)
