"""The whole program: help, errors of one sentence, and its output streams."""
import subprocess

import pytest
from conftest import BFM, refused, run


def test_help_names_commands_and_has_an_example():
  text = run("--help").stdout
  for word in ("train", "info", "bench", "bfm train data.h5"):
    assert word in text
  assert run("help").stdout == run("help", "help").stdout == run("help", "--help").stdout == text


def test_help_of_train_lists_the_options_of_the_agent():
  text = run("help", "train").stdout
  assert text == run("train", "--help").stdout
  for word in ("--algo=fb|", "--blocks=INT", "--resume", "--save-every=INT", "default 1024"):
    assert word in text


@pytest.mark.parametrize("command", ["collect", "data", "train", "prompt", "eval", "bias", "play",
                                     "export", "plot", "paper", "info", "tasks", "names", "bench"])
def test_help_fits_a_terminal(command):
  lines = run("help", command).stdout.splitlines()
  assert max(map(len, lines)) < 80
  assert not any(line.startswith("--") for line in lines)  # argp has broken a long line
  flags = [word for line in lines for word in line.split("  ") if word.startswith("--")]
  assert len({flag.split("=")[0] for flag in flags}) == len(flags)


def test_version():
  assert run("--version").stdout.startswith("bfm ")
  assert run("--version").stdout == run("train", "--version").stdout


@pytest.mark.parametrize("arguments, part", [
    (["trian"], "did you mean train?"),
    (["help", "inof"], "did you mean info?"),
    (["xyzzyplugh"], "bfm --help lists them"),
    (["train", "x.h5", "--blokcs", "2"], "did you mean --blocks?"),
    (["train", "x.h5", "--batch", "1", "-o", "r"], "batch is 1, but must be from 2 to 65536"),
    (["train", "x.h5", "--algo", "fbb", "-o", "r"], "fb|fb-aw|fb-are|fb-aware|lap|lap-aw"),
    (["train", "x.h5", "--steps", "0", "-o", "r"], "steps is 0"),
    (["train", "x.h5"], "-o"),
    (["train", "-o", "r"], "name a dataset"),
    (["bench"], "bfm bench step"),
    (["bench", "setp"], "did you mean step?"),
    (["bench", "nonsense"], "bfm bench step"),
    (["info"], "name a file"),
    (["data"], "name an action: merge, subsample or convert"),
    (["data", "xyzzy", "x.h5"], 'no action "xyzzy": name merge, subsample or convert'),
])
def test_bad_arguments_are_rejected_in_one_sentence(arguments, part, tmp_path):
  assert part in refused(*arguments, cwd=tmp_path)
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["names", "walker"]])
def test_lost_output_is_an_error(arguments):
  with open("/dev/full", "w") as full:
    process = subprocess.run([BFM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
  assert process.returncode == 4 and "cannot write to standard output" in process.stderr


def test_closed_streams_do_not_print_into_files(tmp_path):
  path = tmp_path / "data.h5"
  command = [BFM, "collect", "point_mass", "--steps", "100", "-o", path]
  process = subprocess.run(["sh", "-c", 'exec "$@" <&- >&-', "sh", *command], stderr=subprocess.PIPE,
                           text=True)
  assert process.returncode == 4 and "cannot write to standard output" in process.stderr
  assert "transitions    100" in run("info", path).stdout


def test_no_arguments_print_the_help():
  process = run()
  assert process.returncode != 0 and "bfm COMMAND" in process.stderr
