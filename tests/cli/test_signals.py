"""Signals: a run that is told to stop, or whose terminal is closed, saves and can be resumed."""
import os
import pty
import signal
import subprocess
import time

import pytest
from conftest import BFM, TINY, run
from safetensors import safe_open

RUNS = {
    "train": ["train", "data.h5", *TINY, "--steps", "1G", "--log-every", "10", "-o", "run"],
    "collect": ["collect", "point_mass", "--with", "td3", "--task", "x", "--hidden", "16",
                "--batch", "16", "--envs", "4", "--steps", "1G", "-o", "new.h5"],
}
STARTED = {"train": "run/log.jsonl", "collect": "new.h5"}


def start(name, folder, **options):
  process = subprocess.Popen([BFM, *RUNS[name]], cwd=folder, **options)
  path = folder / STARTED[name]
  while not (path.exists() and path.stat().st_size) and process.poll() is None:
    time.sleep(0.02)
  time.sleep(0.2)
  assert process.poll() is None
  return process


def check_saved(name, folder):
  if name == "train":
    with safe_open(folder / "run" / "state.safetensors", "np") as file:
      steps = int(file.metadata()["step"]) + 5
    more = ["train", "-r", "-o", "run", "--steps", steps]
  else:
    assert (folder / "new.state.safetensors").exists()
    more = ["collect", "--resume", "--steps", "100", "-o", "new.h5"]
  process = run(*more, cwd=folder)
  assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_saves_and_stops(name, number, data, tmp_path):
  process = start(name, tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
  process.send_signal(number)
  if number == signal.SIGHUP:  # the shell and the kernel may both send it
    process.send_signal(number)
  _, error = process.communicate(timeout=60)
  assert process.returncode == 128 + number, error
  assert "stopped at" in error
  check_saved(name, tmp_path)


@pytest.mark.parametrize("name", RUNS)
def test_a_closed_terminal_saves_and_stops(name, data, tmp_path):
  master, slave = pty.openpty()

  def take_terminal():
    os.setsid()
    import fcntl
    import termios
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

  process = start(name, tmp_path, stdin=slave, stdout=slave, stderr=slave,
                  preexec_fn=take_terminal)
  os.close(slave)
  os.close(master)
  assert process.wait(60) > 0
  check_saved(name, tmp_path)


def test_nohup_is_respected(data, tmp_path):
  process = start("train", tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                  preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
  process.send_signal(signal.SIGHUP)
  time.sleep(0.3)
  assert process.poll() is None
  process.send_signal(signal.SIGTERM)
  process.communicate(timeout=60)
  assert process.returncode == 128 + signal.SIGTERM


def test_a_closed_pipe_does_not_end_a_run(data, tmp_path):
  process = subprocess.Popen([BFM, "train", "data.h5", *TINY, "--steps", "200", "-o", "run"],
                             cwd=tmp_path, stdout=subprocess.PIPE)
  process.stdout.close()
  process.wait(60)
  with safe_open(tmp_path / "run" / "state.safetensors", "np") as file:
    assert file.metadata()["step"] == "200"
