"""Telling the robot: rewards, goals, poses and demonstrations, errors, and links that hold them."""
import math
import time

import pytest


def test_walker_moves_within_seconds(page):
  begin = time.monotonic()
  page.open()
  page.until("bfm.z.length > 0 && bfm.framesReceived > 5")
  print(f"acting after {time.monotonic() - begin:.1f} s")
  assert page.find("#hint").is_displayed() and "Type a reward" in page.text("#hint")
  assert page.server.token not in page.js("return location.href")
  assert len(page.js("return bfm.qpos")) == 9


def test_stand_then_run(page):
  page.open().tell("stand")
  page.until(lambda: page.score > 0.8)
  stand = page.js("return bfm.z")
  begin = time.monotonic()
  page.tell("run")
  print(f"prompted after {time.monotonic() - begin:.1f} s")
  assert page.js("return bfm.z") != stand
  page.until("bfm.stats.slots[0].speed > 3")
  page.until(lambda: page.score > 0.5)


def test_apply_button_and_chips(page):
  page.open()
  page.until("bfm.z.length > 0")
  page.type("height > 1", enter=False)
  page.click("#apply")
  page.acting("height > 1")
  page.js("[...document.querySelectorAll('#tasks button')].find(b => b.textContent === 'spin').click()")
  page.acting("spin")
  assert page.js("return document.querySelector('#reward').value") == "spin"


def test_wrong_formula_leaves_the_robot_acting(page):
  page.open().tell("stand")
  page.until(lambda: page.score > 0.8)
  page.type("upright * toros.z")
  page.until("document.querySelector('#error').textContent.includes('toros.z')")
  underlined = "document.querySelector('#by-reward .under span')?.textContent"
  assert page.js(f"return {underlined}") == "toros.z"
  assert page.find("#reward").get_attribute("aria-invalid") == "true"
  page.frames(30)
  page.acting("stand")
  page.until(lambda: page.score > 0.8)
  page.click("#suggestion")
  assert page.find("#reward").get_attribute("value") == "upright * torso.z"
  page.until("document.querySelector('#error').textContent === ''")


def test_errors_are_shown_while_typing(page):
  page.open()
  page.until("bfm.z.length > 0")
  page.type("speed > ", enter=False)
  page.until("document.querySelector('#error').textContent !== ''")
  assert page.js("return document.querySelector('#error').getBoundingClientRect().height") > 0
  page.type("speed > 1", enter=False)
  page.until("document.querySelector('#error').textContent === ''")
  page.until("document.querySelector('#histogram figcaption').textContent.includes('mean')")


def test_completion_by_keyboard(page):
  from selenium.webdriver.common.keys import Keys
  page.open()
  page.until("bfm.z.length > 0")
  page.type("2 * upri", enter=False)
  field = page.find("#reward")
  page.until("document.querySelector('#names').hidden === false")
  assert field.get_attribute("aria-expanded") == "true"
  field.send_keys(Keys.ARROW_DOWN)
  chosen = field.get_attribute("aria-activedescendant")
  assert page.text(f"#{chosen} b") == "upright"
  field.send_keys(Keys.ENTER)
  assert field.get_attribute("value") == "2 * upright"
  assert field.get_attribute("aria-expanded") == "false"


def test_goal_pose_and_demonstration(page):
  page.open().tell("stand")
  page.click("#tab-goal")
  page.type("torso.z = 1.25, torso.zz = 1, speed = 0", "#goal")
  page.acting("torso.z = 1.25, torso.zz = 1, speed = 0")
  page.click("#tab-pose")
  page.until("document.querySelectorAll('#pose input').length >= 8")
  page.until("bfm.view.haunting !== null")
  page.js("""const knee = document.querySelector('#pose input[aria-label], #pose input');
    knee.value = 0.1; knee.dispatchEvent(new Event('input'))""")
  page.click("#apply-pose")
  page.acting("a pose")
  page.click("#tab-demo")
  page.until("bfm.view.haunting === null")
  page.click("#apply-demo")
  page.acting("demonstration")
  assert len(page.js("return bfm.z")) == 64
  assert page.text("#scored").startswith("mean of B·z") and not page.find("#histogram").is_displayed()


def test_link_restores_prompts_seed_and_camera(page):
  page.open().tell("stand")
  page.js("""const seed = document.querySelector('#seed'); seed.value = 12;
    seed.dispatchEvent(new Event('change'))""")
  page.until("bfm.scene.seed === 12")
  page.acting("stand")
  page.click("#slots [data-value='2']")
  page.until("bfm.scene.slots === 2 && bfm.state.prompts[1]?.z")
  page.click("#labels [data-slot=B]")
  page.tell("upright * (speed > 2)")
  page.js("bfm.view.eye.turn(0.5, -0.1); bfm.view.moved()")
  camera = page.js("return bfm.view.camera")
  page.until("location.hash.includes('camera') && location.hash.includes('speed')")
  time.sleep(0.4)
  fragment = page.js("return location.hash.slice(1)")
  assert page.server.token not in fragment

  page.open(fragment, fresh=False)
  page.until("bfm.scene?.slots === 2 && bfm.state.prompts[1]?.z")
  assert page.js("return bfm.scene.seed") == 12
  assert page.js("return bfm.state.prompts.map(p => p.text)") == ["stand", "upright * (speed > 2)"]
  restored = page.until("bfm.view.camera")
  assert all(math.isclose(a, b, abs_tol=0.05) for a, b in zip(restored, camera, strict=True))


@pytest.mark.parametrize("fragment, said", [
    ("robot=nobody&seed=-1&prompt=reward:&camera=1,2", "There is no robot called nobody here."),
    ("prompt=z:AAAA&prompt=pose:x&best=1e9", ""),
    ("seed=1.5&camera=0,0,0,0,0,0&prompt=reward:%00&prompt=pose:" + ",".join(["1"] * 9000), ""),
    ("prompt=reward:toros.z", "the model has nothing called 'toros.z'"),
])
def test_senseless_links_do_no_harm(page, fragment, said):
  page.open()
  page.until("bfm.z.length > 0")
  page.open(fragment, fresh=False)
  page.until("bfm.z.length > 0")
  page.acting("walk")
  page.frames()
  assert page.text("#toast").startswith(said) and bool(page.text("#toast")) == bool(said)
