"""The training view: runs that are laid over each other, one of which goes on while the page is open."""
import fcntl
import json
import os
import shutil
import time

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from conftest import ROOT, Page, Server, severe
from test_touch import CONTRAST

LOGS = ROOT / "results" / "runs" / "walker"
HOSTILE = "<img src=x onerror=alert(1)>"


class LiveRun:
  """A folder that grows like that of a run, whose lock is held meanwhile."""

  def __init__(self, folder, source, steps):
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"settings": {"steps": steps}}))
    self.folder, self.source = folder, source
    self.lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(self.lock, fcntl.LOCK_EX)

  def grow(self, step):
    """Write the lines up to a step, as a run does."""
    for name in ("log.jsonl", "eval.jsonl"):
      lines = [line for line in (self.source / name).read_text().splitlines(True)
               if json.loads(line)["step"] <= step]
      with open(self.folder / name, "a+", encoding="utf8") as file:
        file.seek(0)
        file.write("".join(lines[len(file.readlines()):]))

  def end(self):
    os.close(self.lock)


@pytest.fixture
def runs(tmp_path):
  """Two runs that are over, and one that goes on."""
  for name, steps in (("fb-aware", 175000), ("fb-aw-without-norm", 140000)):
    shutil.copytree(LOGS / name, tmp_path / name)
    (tmp_path / name / "run.json").write_text(json.dumps({"settings": {"steps": steps}}))
  live = LiveRun(tmp_path / "live", LOGS / "fb-aw", 140000)
  yield live
  try:
    live.end()
  except OSError:
    pass


@pytest.fixture
def training(chromium, runs):
  page = Page(chromium, Server("models/walker.safetensors", runs.folder.parent))
  page.open()
  page.until("!document.querySelector('#views').hidden")
  page.click("#tab-runs")
  page.until("document.querySelectorAll('.list li').length === 3")
  page.until("document.querySelectorAll('.plots .line').length > 20")
  yield page
  close(page)


def close(page):
  errors = severe(page.driver)
  page.driver.get("about:blank")
  page.server.stop()
  assert errors == []


def row(page, name):
  return page.js("""const row = [...document.querySelectorAll('.list li')].find((li) =>
    li.querySelector('.name').textContent === arguments[0]);
    return Object.fromEntries(['state', 'done', 'rate', 'health'].map((part) =>
      [part, row.querySelector('.' + part).textContent]).concat(
      [['part', row.querySelector('progress').value], ['at', row.getBoundingClientRect().top]]))""", name)


def lines(page, title):
  """How many curves a chart has."""
  return page.js("""return [...document.querySelectorAll('.plot')].find((plot) =>
    plot.querySelector('.title').textContent === arguments[0])?.querySelectorAll('.line, .curve-point').length""",
                 title)


def test_runs_are_laid_over_each_other(training):
  assert row(training, "fb-aware")["state"] == "finished in 2 min"
  assert row(training, "fb-aware")["done"] == "175k of 175k steps"
  diverged = row(training, "fb-aw-without-norm")
  assert diverged["state"] == "diverged" and diverged["health"].startswith("diverged F of replica 0")
  assert row(training, "live")["state"] == "starting"
  assert lines(training, "run") == lines(training, "mean of all") == 4  # with and without es
  assert lines(training, "largest F·B") == 2
  training.js("document.querySelector('.runs .pick [data-value=mean]').click()")
  training.until(lambda: lines(training, "run") == 2)
  training.js("document.querySelector('.list .name').click()")
  training.until(lambda: lines(training, "run") == 1)
  assert training.js("return document.querySelector('.list .name').ariaPressed") == "false"


def test_a_run_grows_and_nothing_jumps(training, runs):
  places = """return [...document.querySelectorAll('.list li, .runs section, .plot')].map((part) =>
    [part.className, Math.round(part.getBoundingClientRect().top)])"""
  before = training.js(places)
  runs.grow(30000)
  training.until(lambda: row(training, "live")["done"] == "30k of 140k steps")
  training.until(lambda: row(training, "live")["state"].endswith("left"))
  live = row(training, "live")
  assert "steps/s" in live["rate"]
  assert 0.2 < live["part"] < 0.22 and live["health"].startswith("healthy")
  training.until(lambda: lines(training, "largest F·B") == 3)
  runs.grow(70000)
  training.until(lambda: row(training, "live")["done"] == "70k of 140k steps")
  training.until(lambda: lines(training, "run") == 6)
  runs.grow(140000)
  runs.end()
  training.until(lambda: row(training, "live")["state"].startswith("finished in"))
  assert training.js(places) == before


def test_pointer_and_keyboard_read_a_chart(training):
  svg = training.find(".plots svg")
  training.js("document.querySelector('.plots').scrollIntoView({block: 'center'})")
  ActionChains(training.driver).move_to_element(svg).perform()
  training.until("!document.querySelector('.tip').hidden")
  assert training.text(".tip b").startswith("mean of all, step ")
  assert training.js("return document.querySelectorAll('.tip output').length") == 4
  ActionChains(training.driver).move_to_element(training.find("#robot")).perform()
  training.until("document.querySelector('.tip').hidden")

  def press(*keys):
    ActionChains(training.driver).send_keys(*keys).perform()

  training.js("document.querySelector('.runs .pick [aria-checked=true]').focus()")
  press(Keys.TAB)
  training.until("document.activeElement === document.querySelector('.plots svg')")
  assert training.text(".tip b") == "mean of all, step 175k"
  press(Keys.ARROW_LEFT)
  assert training.text(".tip b") == "mean of all, step 150k"
  press(Keys.HOME)
  assert training.text(".tip b") == "mean of all, step 25k"
  press(Keys.ARROW_DOWN)
  assert training.text(".tip b") == "stand, step 25k"
  press(Keys.ESCAPE)
  assert training.js("return document.querySelector('.tip').hidden")
  label = training.js("return document.activeElement.getAttribute('aria-label')")
  assert label.startswith("stand: ") and "at step 175k" in label
  press(Keys.TAB)  # the next group of charts
  assert training.js("return document.activeElement.closest('section').querySelector('h3').textContent"
                     ) == "Health"


@pytest.mark.parametrize("size", [(390, 844), (820, 900), (1000, 700), (1440, 900)])
def test_sizes(training, size):
  training.size(*size)
  time.sleep(0.3)
  enlarge = training.find(".runs > header button")
  for _ in range(2):
    wide = training.js("""const view = document.querySelector('.runs').getBoundingClientRect();
      return [document.documentElement.scrollWidth - innerWidth,
        ...[...document.querySelectorAll('.runs *')].filter((part) => part.checkVisibility())
          .map((part) => part.getBoundingClientRect()).filter(({right, left}) =>
            right > view.right + 9 || left < view.left - 9)]""")
    assert wide == [0] or wide[0] < 0 and len(wide) == 1, wide
    if enlarge.is_displayed():
      training.js("arguments[0].click()", enlarge)
      time.sleep(0.3)


def test_contrast(training):
  for _ in range(2):
    training.click("#theme")
    time.sleep(0.4)
    assert training.js(CONTRAST) == []


def test_words_of_files_are_text(chromium, tmp_path):
  folder = tmp_path / HOSTILE.replace("/", "")
  folder.mkdir()
  (folder / "run.json").write_text(json.dumps({"settings": {"steps": 10}}))
  (folder / "log.jsonl").write_text(json.dumps({"step": 5, HOSTILE[:20]: 1}) + "\n"
                                    + json.dumps({"step": 5, "diverged": HOSTILE}) + "\n")
  (folder / "eval.jsonl").write_text(json.dumps({"step": 5, "seed": 0, "es": 0, "task": HOSTILE,
                                                 "mean": 1}) + "\n")
  page = Page(chromium, Server(folder))
  page.open()  # there is no model: the runs are shown at once
  page.until("document.querySelectorAll('.plots svg').length > 0")
  assert page.js("return document.querySelectorAll('#runs img').length") == 0
  assert HOSTILE in page.text("#runs")

  # its first model is opened as soon as it is there
  shutil.copy(ROOT / "models" / "walker.safetensors", folder / "new")
  os.rename(folder / "new", folder / "model.safetensors")
  page.until("bfm.framesReceived > 10")
  close(page)
