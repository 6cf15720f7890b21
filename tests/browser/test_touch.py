"""Touching and comparing: drags and pushes, the simulation's controls, robots side by side, the
keyboard, small screens."""
import time

import pytest

# where the torso is on the page, and its height
WHERE = """const {view} = bfm, {poses} = view.shown.slots[0], b = 7 * view.scene.camera.track;
  const box = view.canvas.getBoundingClientRect(), camera = view.eye.camera;
  const p = camera.position.clone().fromArray(poses, b).project(view.eye.of(0, view.chosen,
    box.width / box.height));
  return {x: box.left + box.width * (p.x + 1) / 2, y: box.top + box.height * (1 - p.y) / 2,
    z: poses[b + 2]}"""


def pointer(page, kind, x, y, buttons=1):
  page.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {
      "type": kind, "x": x, "y": y, "button": "left" if kind != "mouseMoved" else "none",
      "buttons": buttons, "clickCount": 1})


def still(page):
  """Pause, and return where the torso is then."""
  page.click("#pause")
  page.until("bfm.stats.paused")
  time.sleep(0.5)  # until the camera has arrived
  return page.js(WHERE)


def test_drag_lifts_the_torso(page):
  page.open().tell("stand")
  page.until(lambda: page.score > 0.8)
  torso = still(page)
  pointer(page, "mousePressed", torso["x"], torso["y"])
  page.until("!document.querySelector('#held').hidden")
  assert "torso" in page.text("#held")
  page.js("document.querySelector('#pause').click()")
  top = page.js("return document.querySelector('#view').getBoundingClientRect().top")
  highest, end = torso["z"], time.monotonic() + 6
  while time.monotonic() < end and highest < torso["z"] + 0.3:
    pointer(page, "mouseMoved", torso["x"], top + 10)
    time.sleep(0.1)
    highest = max(highest, page.js(WHERE)["z"])
  pointer(page, "mouseReleased", torso["x"], top + 10, 0)
  assert highest > torso["z"] + 0.3
  page.until("document.querySelector('#held').hidden")
  page.until(lambda: page.score > 0.8)


def test_push_by_click(page):
  page.open().tell("stand")
  page.until(lambda: page.score > 0.8)
  page.click("#pointer [data-value=push]")
  page.js("bfm.view.eye.turn(1.2, 0); bfm.view.request()")  # to look along the way
  torso, before = still(page), page.js("return bfm.stats.slots[0].speed")
  pointer(page, "mousePressed", torso["x"], torso["y"])
  pointer(page, "mouseReleased", torso["x"], torso["y"], 0)
  page.click("#pause")
  page.until(f"Math.abs(bfm.stats.slots[0].speed - {before}) > 0.4")


def test_pause_step_speed_and_reset(page):
  page.open().tell("walk")
  page.click("#pause")
  page.until("bfm.stats.paused")
  time.sleep(0.3)
  first = page.js("return bfm.stats.time")
  time.sleep(0.5)
  assert page.js("return bfm.stats.time") == pytest.approx(first)
  page.click("#step")
  page.until(f"bfm.stats.time > {first}")
  assert page.js("return bfm.stats.time") - first < 0.06
  page.click("#pause")
  page.until("!bfm.stats.paused")
  page.js("""const speed = document.querySelector('#speed'); speed.value = 0.2;
    speed.dispatchEvent(new Event('input'))""")
  page.until("bfm.stats.rate < 0.5")
  page.until("bfm.qpos[1] > 0.5")
  page.click("#reset")
  page.until("Math.abs(bfm.qpos[1]) < 0.2")
  start = page.js("return bfm.qpos[3]")
  page.click("#random")
  page.until(f"Math.abs(bfm.qpos[3] - {start}) > 0.2")


def test_compare_robots_side_by_side(page):
  page.open().tell("stand")
  page.click("#slots [data-value='4']")
  page.until("bfm.scene.slots === 4 && bfm.state.prompts.every(p => p.z)")
  assert page.js("return document.querySelectorAll('#labels button').length") == 4
  page.click("#labels [data-slot=C]")
  page.tell("upright * (speed > 2)")
  assert page.text("#labels [data-slot=C] span") == "upright * (speed > 2)"
  assert page.text("#labels [data-slot=A] span") == "stand"
  assert page.js("return new Set(bfm.state.prompts.map(p => p.z.join())).size") == 4
  page.click("#whom [data-slot='-1']")
  page.tell("spin")
  page.until("bfm.state.prompts.every(p => p.text === 'spin')")
  page.js("""const quality = document.querySelector('#quality'); quality.value = 'full';
    quality.dispatchEvent(new Event('change'))""")
  page.frames()


def test_narrow_screen(page):
  page.open(size=(390, 844)).tell("stand")
  page.until(lambda: page.score > 0.8)
  for tab in ("goal", "pose", "demo", "reward"):
    page.click(f"#tab-{tab}")
    assert page.js("return document.documentElement.scrollWidth") <= 390
  too_wide = page.js("""return [...document.querySelectorAll('button, input, select')].filter((part) => {
      const box = part.getBoundingClientRect();
      return box.width && box.right > innerWidth + 1 && !part.closest('.chips, .over');
    }).map((part) => part.id || part.textContent)""")
  assert too_wide == []
  view = page.js("return document.querySelector('#view').getBoundingClientRect().toJSON()")
  assert view["width"] == 390 and view["height"] > 200


def test_no_layout_jumps(page):
  page.open()
  page.until("bfm.z.length > 0")
  where = "return document.querySelector('#stage').getBoundingClientRect().top"
  top = page.js(where)
  for text in ("upright * toros.z", "height > 1"):
    page.type(text, enter=False)
    time.sleep(0.5)
    assert page.js(where) == top
  for tab in ("goal", "pose", "demo", "reward"):
    page.click(f"#tab-{tab}")
    assert page.js(where) == top
  page.click("#slots [data-value='2']")
  page.until("bfm.scene.slots === 2 && bfm.state.prompts[1]?.z")
  assert page.js(where) == top
  where = where.replace("#stage", "#take")
  top = page.js(where)
  page.click("#take-film")
  assert page.find("#taking").is_displayed() and page.js(where) == top
  page.click("#taking button")


def test_keyboard_alone(page):
  from selenium.webdriver.common.keys import Keys

  def press(*keys):
    page.driver.switch_to.active_element.send_keys(*keys)

  page.open()
  page.until("bfm.z.length > 0")
  press("/")
  press(Keys.CONTROL, "a")
  press("stand", Keys.ESCAPE, Keys.ENTER)
  page.acting("stand")
  page.until(lambda: page.score > 0.8)
  seen = []
  for _ in range(60):
    press(Keys.TAB)
    seen.append(page.js("const a = document.activeElement; return a.id || a.className || a.tagName"))
    outline = page.js("""const a = document.activeElement;
      return a === document.body || a.type === 'range' || a.type === 'text'
        || getComputedStyle(a).outlineStyle !== 'none'""")
    assert outline, seen[-1]
    if seen[-1] == "view":
      break
  assert {"apply", "chip", "view"} <= set(seen)
  press(" ")
  page.until("bfm.stats.paused")
  press(".")
  press(" ")
  page.until("!bfm.stats.paused")
  camera = page.js("return bfm.view.camera")
  press(Keys.ARROW_LEFT)
  press("+")
  assert page.js("return bfm.view.camera") != camera
  height = page.js("return bfm.stats.slots[0].height")
  for _ in range(3):
    press(Keys.SHIFT, Keys.ARROW_UP)
  page.until(f"Math.abs(bfm.stats.slots[0].height - {height}) > 0.1")
  press("2")
  page.until("bfm.scene.slots === 2")
  press("?")
  page.until("document.querySelector('#keys').open")
  press(Keys.ESCAPE)
  page.until("!document.querySelector('#keys').open")


def test_light_and_dark_have_readable_contrast(page):
  page.open()
  page.until("bfm.z.length > 0")
  for _ in range(2):
    page.click("#theme")
    page.until(lambda: page.js(CONTRAST) == [], message="texts of low contrast")


# Texts whose contrast with the nearest painted background is below 4.5
CONTRAST = """
  const channel = (x) => (x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const pen = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const numbers = (color) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = color;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const below = (part) => {
    for (; part; part = part.parentElement) {
      const paint = numbers(getComputedStyle(part).backgroundColor);
      if (paint[3] > 200) return paint;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll('body *')].filter((part) =>
    part.checkVisibility() && !part.closest('#rate, svg, dialog')
    && [...part.childNodes].some((node) => node.nodeType === 3 && node.data.trim())).map((part) => {
      const a = light(numbers(getComputedStyle(part).color)), b = light(below(part));
      return [part.textContent.trim().slice(0, 30), (Math.max(a, b) + .05) / (Math.min(a, b) + .05)];
    }).filter(([, ratio]) => ratio < 4.5);
"""
