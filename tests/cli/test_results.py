"""The numbers of the README and of results/tables.md are those that bfm paper show prints."""
import functools
import json
import re

import pytest
from conftest import ROOT, run

GROUPS = {"tasks in the data": "in", "tasks not in the data": "new"}


def cells_of(line):
  return [cell.strip() for cell in line.strip().strip("|").split("|")]


def rows_below(page, heading):
  """The rows of the first table after a heading."""
  text = (ROOT / page).read_text().partition(heading)[2]
  lines = text[text.index("\n|"):].strip().split("\n\n")[0].splitlines()
  return [cells_of(line) for line in lines[2:]]


@functools.cache
def shown(table):
  """What bfm paper show prints, by domain, data, task and method."""
  lines = run("paper", "show", table, "--json", cwd=ROOT).stdout.splitlines()
  items = [json.loads(line) for line in lines]
  return {(x["domain"], x["data"], x["task"], x["method"].lower()): x for x in items}


def number(domain, data, method, group):
  """Our number for a method; those that the paper's tables lack are in the table six."""
  for table in (data, "six"):
    item = shown(table).get((domain, data, group, method), {})
    if "ours" in item:
      return item
  raise AssertionError(f"bfm paper show has no {method} on {domain}'s {data} data")


def is_printed(text, item):
  """Whether a text such as "863 ± 8" is the number, rounded. JSON rounds to 0.1 before."""
  numbers = [float(x) for x in text.split(" ± ")]
  values = [item[key] for key in ("ours", "ours_std") if key in item]
  return len(numbers) == len(values) and all(
      round(abs(a - b), 6) <= 0.5 + 0.05 for a, b in zip(numbers, values))


RETURNS = [row for row in rows_below("README.md", "## Numbers") if ", tasks " in row[0]]


def test_the_readme_has_four_returns():
  assert len(RETURNS) == 4


@pytest.mark.parametrize("row", RETURNS, ids=lambda row: row[0])
def test_returns_of_the_readme(row):
  domain, method, tasks, steps, seeds = row[0].split(", ")
  item = number(domain, "mood", method, GROUPS[tasks])
  assert is_printed(re.fullmatch(r"\[(.*)\]\(.*\)", row[1])[1], item), item
  assert re.match(r"paper (\d+)", row[2])[1] == f"{item['paper']:.0f}"
  assert steps == f"{item['steps'] // 1000}k steps" and seeds == f"{item['seeds']} seeds"


def bold_numbers():
  """The rows of tables.md with bold numbers: domain, data, method; steps and seeds; these numbers."""
  label = None
  for row in rows_below("results/tables.md", "we assume a million."):
    label = row[0] or label
    bold = [x.strip("*") for x in row if x.startswith("**")]
    if bold:
      plain = re.sub(r" \(\w{7}\)| \(\[.*?\).*?\)", "", label)  # without commits and reports
      domain, method = plain.replace("RND data, ", "").split(", ")[:2]
      yield domain, "rnd" if "RND data" in label else "mood", method, row[1], bold


BOLD = list(bold_numbers())


def test_bold_numbers_were_found():
  assert len(BOLD) > 25 and all(len(row[-1]) == 2 for row in BOLD)


@pytest.mark.parametrize("domain, data, method, made, bold", BOLD)
def test_bold_numbers_are_those_of_paper_show(domain, data, method, made, bold):
  items = [number(domain, data, method, group) for group in ("in", "new")]
  assert all(map(is_printed, bold, items)), items
  steps, seeds = items[0]["steps"], items[0]["seeds"]
  assert made == f"{'1M' if steps == 1_000_000 else f'{steps // 1000}k'}, {seeds}"
