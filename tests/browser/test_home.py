"""Taking home: texts that run, downloads; and bad days: lost connections, wrong tokens, no WebGL."""
import json
import os
import re
import subprocess
import sys
import time

import pytest

from conftest import BUILD, ROOT, Page, Server, severe

REWARD = "upright * (speed > 2) + 0 * abs(-1)"


def copied(page, how):
  """The text of a copy button."""
  page.click(f"#copy-{how}")
  text = page.text("#code pre")
  page.until("document.querySelector('#code').open")
  page.js("document.querySelector('#code').close()")
  return text


def run(*command, **options):
  process = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT, check=False,
                           **options)
  assert process.returncode == 0, process.stderr
  return process.stdout


def run_command(text, folder):
  """The command line, with few steps and its files in a folder."""
  text = text.replace("build/bfm", os.environ.get("BFM", f"{BUILD}/bfm"))
  for name in ("film.mp4", "goal.json", "z.json"):
    text = text.replace(name, str(folder / name))
  run("sh", "-c", f"{text} --steps 10 --width 64 --quiet")
  assert (folder / "film.mp4").stat().st_size > 500


def run_python(text, folder):
  text = re.sub(r"env\.episode_steps", "10", text)
  (folder / "taken.py").write_text(text)
  env = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "BFM_BUILD": str(BUILD)}
  return run(sys.executable, str(folder / "taken.py"), env=env)


def run_c(text, folder):
  (folder / "taken.c").write_text(text.replace("sizes.episode_steps", "10"))
  run("cc", "-Wall", "-Wextra", "-Werror", str(folder / "taken.c"), "-Iinclude", f"-L{BUILD}", "-lbfm",
      f"-Wl,-rpath,{BUILD}", "-o", str(folder / "taken"))
  return run(str(folder / "taken"))


def test_copied_texts_of_a_reward_run(page, tmp_path):
  page.open().tell(REWARD)
  run_command(copied(page, "cli"), tmp_path)
  assert "mean reward" in run_python(copied(page, "python"), tmp_path)
  assert "mean reward" in run_c(copied(page, "c"), tmp_path)


def test_copied_texts_of_a_pose_and_of_a_demonstration_run(page, tmp_path):
  page.open().tell("stand")
  page.click("#tab-pose")
  page.until("bfm.view.haunting !== null")
  page.click("#apply-pose")
  page.acting("a pose")
  run_command(copied(page, "cli"), tmp_path)
  run_python(copied(page, "python"), tmp_path)
  run_c(copied(page, "c"), tmp_path)
  page.click("#tab-demo")
  page.click("#apply-demo")
  page.acting("demonstration")
  run_command(copied(page, "cli"), tmp_path)
  run_python(copied(page, "python"), tmp_path)
  run_c(copied(page, "c"), tmp_path)


@pytest.mark.parametrize("word", ["it's $HOME `id` \"x\" \\n ??/ %s", "-x; rm"])
def test_quotes(page, word):
  """Whatever a path or a prompt contains stays one word of a shell, Python or C."""
  page.open()
  page.until("bfm.z.length > 0")
  quoted = page.driver.execute_async_script("""const [word, done] = arguments;
    import('/code.js').then((code) => done([code.shell(word), code.python(word), code.c(word)]))""", word)
  assert run("sh", "-c", f"printf %s {quoted[0]}") == word
  assert run(sys.executable, "-c", f"print({quoted[1]}, end='')") == word
  program = f"#include <stdio.h>\nint main(void) {{ fputs({quoted[2]}, stdout); }}\n"
  subprocess.run(["cc", "-x", "c", "-std=c11", "-Wall", "-Werror", "-o", "/dev/null", "-c", "-"],
                 input=program, text=True, check=True)


def test_downloads(page, downloads):
  page.open().tell("stand")
  page.click("#take-z")
  file = arrived(downloads, ".json")
  saved = json.loads(file.read_text())
  assert len(saved["z"]) == 64 and saved["env"] == "walker"
  page.js("document.querySelector('#take-seconds').value = '5'")
  page.until("!document.querySelector('#take-trajectory').disabled")
  page.click("#take-trajectory")
  assert arrived(downloads, ".h5").stat().st_size > 10000


def arrived(folder, suffix, seconds=40):
  """Wait for a download with this suffix."""
  end = time.monotonic() + seconds
  while time.monotonic() < end:
    files = list(folder.glob(f"*{suffix}"))
    if files:
      return files[0]
    time.sleep(0.1)
  raise AssertionError(f"no download ends with {suffix}")


# ---------------------------------- bad days --------------------------------------------------------

def test_dropped_connection_comes_back_with_the_same_state(page):
  page.open().tell("stand")
  page.js("""const es = document.querySelector('#es'); es.value = '8';
    es.dispatchEvent(new Event('change')); bfm.link.socket.close()""")
  page.until("document.querySelector('#status').textContent.includes('lost')")
  page.acting("stand")
  assert not page.find("#lost").is_displayed()
  page.frames(20)
  page.until(lambda: page.score > 0.8)
  assert page.js("return bfm.state.es") == 8


def test_server_that_restarts(chromium):
  server = Server("models/walker.safetensors")
  page = Page(chromium, server).open()
  page.tell("height > 1")
  server.stop()
  page.until("!document.querySelector('#lost').hidden")
  assert "Connection lost" in page.text("#lost")
  assert "The server ended the connection: the server was stopped. The robot" in page.text("#lost")
  again = Server("models/walker.safetensors", port=server.port)
  page.until("document.querySelector('#lost').textContent.includes('refuses')", 30)
  page.js("location.hash = arguments[0]", again.token)  # the new address, in the same tab
  page.acting("height > 1")
  assert again.token not in page.js("return location.href")
  page.frames()
  again.stop()
  page.until("!document.querySelector('#lost').hidden")
  chromium.get("about:blank")
  chromium.get_log("browser")  # of the connections that failed


def test_wrong_token(chromium, server):
  page = Page(chromium, server).open("0" * 32)
  page.until("document.querySelector('#lost').textContent.includes('Open the address')")
  assert page.find("#lost").is_displayed()
  page.open("robot=walker")
  page.until("document.querySelector('#lost').textContent.includes('token')")
  chromium.get("about:blank")
  chromium.get_log("browser")


def test_no_webgl(blind, server):
  page = Page(blind, server).open()
  page.until("bfm.z.length > 0")
  assert page.find("#still").is_displayed() and "WebGL" in page.text("#still")
  page.tell("stand")
  page.until(lambda: page.score > 0.8)
  page.click("#slots [data-value='2']")
  page.until("bfm.scene.slots === 2 && bfm.state.prompts[1]?.z")
  assert severe(blind) == []
