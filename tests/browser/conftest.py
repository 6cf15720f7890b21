"""A browser with the playground: Debian's Chromium without a window, drawing by SwiftShader. Without
a real Chromium (Ubuntu's package is a stub for a snap) or without selenium, the tests are skipped."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BFM = os.environ.get("BFM", str(ROOT / "build" / "bfm"))
BUILD = ROOT / os.environ.get("BFM_BUILD", "build")



def reason_to_skip():
  """Why there is no browser, or None."""
  try:
    import selenium  # noqa: F401
  except ImportError:
    return "no selenium: scripts/deps.sh browser installs it"
  chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
  if not chromium or not driver:
    return "no chromium or no chromedriver: scripts/deps.sh browser installs them"
  version = subprocess.run([chromium, "--version"], capture_output=True, text=True, check=False).stdout
  return None if version.startswith("Chromium") else "chromium is a stub for a snap here"


def pytest_collection_modifyitems(items):
  why = reason_to_skip()
  for item in items if why else []:
    item.add_marker(pytest.mark.skip(reason=why))


class Server:
  """bfm serve on a port of its own."""

  def __init__(self, *arguments, port=0):
    self.process = subprocess.Popen([BFM, "serve", "--port", str(port), *map(str, arguments)],
                                    stdout=subprocess.PIPE, text=True, cwd=ROOT)
    line = self.process.stdout.readline()
    self.address = re.search(r"http://\S+", line)[0]
    self.origin, self.token = self.address.split("/#")
    self.port = int(self.origin.rsplit(":", 1)[1])

  def stop(self):
    self.process.send_signal(signal.SIGTERM)
    self.process.wait(timeout=20)


@pytest.fixture(scope="session")
def server():
  server = Server("models/walker.safetensors")
  yield server
  server.stop()


def start(downloads, *flags):
  from selenium import webdriver
  options = webdriver.ChromeOptions()
  options.binary_location = shutil.which("chromium")
  for flag in ("--headless=new", "--no-sandbox", "--window-size=1280,800", "--disable-dev-shm-usage",
               *(flags or ("--use-angle=swiftshader", "--enable-unsafe-swiftshader"))):
    options.add_argument(flag)
  options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
  options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
  service = webdriver.ChromeService(shutil.which("chromedriver"))
  driver = webdriver.Chrome(options=options, service=service)
  # without a GPU, shadows would take the CPU that the robot needs
  driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {
      "source": "try { localStorage['bfm.quality'] ??= 'light' } catch {}"})
  return driver


@pytest.fixture(scope="session")
def downloads(tmp_path_factory):
  return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="session")
def chromium(downloads):
  driver = start(downloads)
  yield driver
  driver.quit()


@pytest.fixture(scope="session")
def blind(downloads):
  """A browser without WebGL."""
  driver = start(downloads, "--disable-gpu", "--disable-3d-apis")
  yield driver
  driver.quit()


class Page:
  """The page in a browser, as a user sees it."""

  def __init__(self, driver, server):
    self.driver, self.server = driver, server

  def open(self, fragment="", size=(1280, 800), fresh=True):
    """Load the page, with nothing in the browser's storage if it is fresh."""
    self.size(*size)
    self.driver.get("about:blank")
    if fresh:
      self.driver.execute_cdp_cmd("Storage.clearDataForOrigin", {
          "origin": self.server.origin, "storageTypes": "local_storage"})
    self.driver.get(f"{self.server.origin}/#{fragment or self.server.token}")
    self.until("window.bfm")
    return self

  def size(self, width, height):
    self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})

  def js(self, code, *arguments):
    return self.driver.execute_script(code, *arguments)

  def find(self, selector):
    return self.driver.find_element("css selector", selector)

  def text(self, selector):
    return self.js("return document.querySelector(arguments[0]).textContent", selector)

  def click(self, selector):
    self.find(selector).click()

  def until(self, what, seconds=45, message=""):
    """Wait until a JavaScript expression or a function is true, and return its value."""
    end = time.monotonic() + seconds
    while True:
      value = what() if callable(what) else self.js(f"return {what}")
      if value:
        return value
      assert time.monotonic() < end, (message or what, self.state())
      time.sleep(0.05)

  def state(self):
    """What the page says, for the message of a failed test."""
    return self.js("""return {status: document.querySelector('#status')?.textContent,
      error: document.querySelector('#error')?.textContent, frames: window.bfm?.framesReceived,
      score: document.querySelector('#score')?.textContent}"""), self.driver.get_log("browser")

  def acting(self, prompt, seconds=45):
    self.until(f"document.querySelector('#status').textContent === {json.dumps('acting: ' + prompt)}",
               seconds)

  @property
  def score(self):
    try:
      return float(self.text("#score"))
    except ValueError:
      return float("nan")

  def type(self, text, selector="#reward", enter=True):
    from selenium.webdriver.common.keys import Keys
    field = self.find(selector)
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(text)
    if enter:
      field.send_keys(Keys.ESCAPE, Keys.ENTER)

  def tell(self, text, seconds=45):
    """Type a reward, apply it and wait until the robot pursues it."""
    self.type(text)
    self.acting(text, seconds)

  def frames(self, count=5):
    """Wait for so many further frames."""
    before = self.js("return bfm.framesReceived")
    self.until(f"bfm.framesReceived >= {before + count}")


def severe(driver):
  """Errors that the browser has logged: of scripts, of the content security policy, of files."""
  return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.fixture
def page(chromium, server):
  chromium.get_log("browser")
  yield Page(chromium, server)
  assert severe(chromium) == []
