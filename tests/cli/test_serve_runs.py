"""The playground with runs: bfm train watched by a client of the protocol."""
import json
import os
import shutil
import signal
import subprocess
import time
from urllib.parse import urlsplit

import pytest

from conftest import BFM, HERE, TINY, run, train_point_mass

websocket = pytest.importorskip("websocket")

SAVING = ["--log-every", "100", "--save-every", "1000"]
JUDGED = ["--eval-every", "1000", "--eval-es", "both", "--eval-episodes", "2", "--eval-steps", "5"]


class Client:
  """A connection that keeps all texts of the server."""

  def __init__(self, address):
    parts = urlsplit(address)
    self.socket = websocket.create_connection(f"ws://{parts.netloc}/live", timeout=20,
                                              subprotocols=["bfm.v1", parts.fragment])
    self.texts = []
    self.frames = 0

  def say(self, **message):
    self.socket.send(json.dumps(message))

  def until(self, found, seconds=60):
    """Read until a text is found, and return it; frames are acknowledged."""
    end = time.monotonic() + seconds
    for text in self.texts:
      if found(text):
        return text
    while time.monotonic() < end:
      kind, data = self.socket.recv_data(control_frame=True)  # a ping returns too
      if kind == websocket.ABNF.OPCODE_CLOSE:
        break
      if kind == websocket.ABNF.OPCODE_BINARY:
        if data[0] == 1:
          self.frames += 1
          self.say(do="ack", seq=int.from_bytes(data[4:8], "little"))
      if kind != websocket.ABNF.OPCODE_TEXT:
        continue
      self.texts.append(json.loads(data))
      if found(self.texts[-1]):
        return self.texts[-1]
    heard = [(t["type"], t.get("label"), t.get("state"), t.get("error")) for t in self.texts]
    raise AssertionError(heard)

  def run(self, label, state):
    return self.until(lambda t: t["type"] == "run" and t["label"] == label and t["state"] == state)


class Server:
  def __init__(self, *arguments):
    self.process = subprocess.Popen([BFM, "serve", "--port", "0", "--device", "cpu", "--threads", "1",
                                     *map(str, arguments)], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
    line = self.process.stdout.readline()
    self.address = next((word for word in line.split() if word.startswith("http")), None)
    assert self.address, line + self.process.stderr.read()

  def stop(self):
    self.process.send_signal(signal.SIGINT)
    _, errors = self.process.communicate(timeout=30)
    assert self.process.returncode in (0, 130) and "Sanitizer" not in errors, errors


@pytest.fixture
def serve():
  servers = []

  def start(*arguments):
    servers.append(Server(*arguments))
    return servers[-1]

  yield start
  for server in servers:
    server.stop()


def start_training(folder, steps, *flags):
  """Start a run whose process lasts until it is stopped or done; return it once it has its record."""
  process = subprocess.Popen([BFM, "train", *map(str, flags), *HERE, "--quiet", "--steps", str(steps),
                              *SAVING, "-o", folder], stderr=subprocess.PIPE, text=True)
  for _ in range(600):
    if (folder / "run.json").exists():
      return process
    time.sleep(0.05)
  raise AssertionError(process.communicate())


def curve(message, part, key, name):
  return next(item["points"] for item in message[part] if item[key] == name)


def test_a_run_is_watched_until_its_end(tmp_path, serve):
  assert run("collect", "point_mass", "--steps", 1000, "-o", tmp_path / "data.h5").returncode == 0
  folder = tmp_path / "live"
  # without an end at first, so that a slow machine sees it run too
  training = start_training(folder, "100M", tmp_path / "data.h5", *TINY, *JUDGED)
  try:
    server = serve(folder)
    client = Client(server.address)
    hello = client.until(lambda t: t["type"] == "hello")
    assert hello["runs"] == ["live"]

    early = client.run("live", "running")
    assert early["steps"] == 100e6 and not early["finished"] and early["seconds_left"] > 0
    later = client.until(lambda t: t["type"] == "run" and t["step"] > early["step"] and t["returns"])
    assert later["rate"] > 0 and later["number"] > early["number"]
    assert {item["es"] for item in later["returns"]} == {0, 32}
    assert all(len(point) == 3 for item in later["returns"] for point in item["points"])
    assert curve(later, "losses", "name", "fb")[-1][0] <= later["step"]
    assert curve(later, "metrics", "name", "M.max")
    assert later["health"]["word"] in ("healthy", "watch") and later["health"]["text"]

    # the newest model acts: it is loaded while the robot moves
    model = client.until(lambda t: t["type"] == "model" and t["label"] == "live")
    assert model["domain"] == "point_mass" and model["run"] == "live"
    assert model["path"] == str(folder / "model.safetensors")
    client.say(do="open", model="live", slots=1, seed=0)
    assert client.until(lambda t: t["type"] in ("scene", "refused"))["type"] == "scene"
    client.say(do="prompt", id=1, slot=0, kind="reward", text="x", ramp=0, softmax=0)
    client.until(lambda t: t["type"] == "prompted")
    newer = client.until(lambda t: t["type"] == "model" and t["step"] > model["step"])
    client.until(lambda t: t["type"] == "run" and (t["model_step"] or 0) >= newer["step"])
    frames = client.frames
    client.until(lambda t: t["type"] == "stats" and client.frames > frames + 10)
  finally:
    training.send_signal(signal.SIGINT)
    training.communicate(timeout=60)
  assert training.returncode == 130
  stopped = client.run("live", "stopped")
  assert "saved at step" in stopped["note"] and stopped["seconds_left"] is None

  # resumed with fewer steps to go, it reaches its end
  steps = int(json.loads((folder / "log.jsonl").read_text().splitlines()[-1])["step"]) + 2000
  assert run("train", "--resume", "-o", folder, *HERE, "--steps", steps).returncode == 0
  finished = client.run("live", "finished")
  assert finished["finished"] and finished["step"] == finished["steps"] == steps
  # one who comes later sees the end at once
  assert Client(server.address).run("live", "finished")["step"] == steps


def test_runs_are_overlaid_and_others_are_left_out(tmp_path, serve):
  folder = train_point_mass(tmp_path, "--seeds", 2, "--eval-every", 4, "--eval-episodes", 2,
                            "--eval-steps", 3, steps=8)
  runs = tmp_path / "runs"
  runs.mkdir()
  for name in ("first", "second run"):
    shutil.copytree(folder, runs / name)
  (runs / "notes.txt").write_text("no run")
  client = Client(serve(runs).address)
  hello = client.until(lambda t: t["type"] == "hello")
  assert hello["runs"] == ["first", "second-run"]
  # of each run the newest models, then the best
  assert [item["label"] for item in hello["models"]] == [
      f"{run}.{model}" for run in hello["runs"] for model in ("0", "1", "best.0", "best.1")]
  assert [item["run"] for item in hello["models"]] == ["first"] * 4 + ["second-run"] * 4
  first, second = (client.run(label, "finished") for label in hello["runs"])
  assert first["returns"] == second["returns"] and first["model_step"] == 8
  steps = [[point[0] for point in item["points"]] for item in first["returns"]]
  assert steps and all(of_task == [4, 8] for of_task in steps)

  for label in ("second-run.1", "second-run.best.0"):
    client.say(do="open", model=label, slots=1, seed=0)
    assert client.until(lambda t: t["type"] == "refused" or t.get("model") == label)["type"] == "scene"


def test_a_run_is_judged_before_its_first_save(tmp_path, serve):
  folder = train_point_mass(tmp_path, steps=4)
  for path in folder.glob("*.safetensors"):
    path.unlink()
  message = Client(serve(folder).address).run("run", "finished")
  assert message["algo"] == "fb-aware" and message["health"]["F_bound"] == 141.42
  assert "of its bound" in message["health"]["text"] and message["model_step"] is None


def test_a_killed_run_is_interrupted(tmp_path, serve):
  assert run("collect", "point_mass", "--steps", 1000, "-o", tmp_path / "data.h5").returncode == 0
  folder = tmp_path / "killed"
  training = start_training(folder, "100M", tmp_path / "data.h5", *TINY)
  client = Client(serve(folder).address)
  client.run("killed", "running")
  training.kill()
  training.communicate()
  assert "ended at step" in client.run("killed", "interrupted")["note"]
  shutil.rmtree(folder)
  client.run("killed", "gone")


def test_an_idle_watch_costs_nothing(tmp_path, serve):
  folder = train_point_mass(tmp_path)
  server = serve(folder)
  client = Client(server.address)
  client.run("run", "finished")
  ticks = os.sysconf("SC_CLK_TCK")

  def seconds():
    with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as file:
      fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / ticks

  before, start = seconds(), time.monotonic()
  time.sleep(4)
  assert seconds() - before <= 0.01 * (time.monotonic() - start) + 2 / ticks
