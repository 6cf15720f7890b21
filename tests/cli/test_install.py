"""make install: an installed bfm is complete, can be moved, and knows nothing of the checkout."""
import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import BFM, ROOT, refused

BUILD = os.path.relpath(os.path.dirname(os.path.abspath(BFM)), ROOT)
WALKER = ROOT / "examples/walker.c"
POLICY = ROOT / "tests/processors/policy.c"
COMMANDS = ("collect data train learn sweep plot tasks names robot prompt play serve export eval bias "
            "paper bench info").split()

pytestmark = pytest.mark.skipif("-san" in BUILD, reason="programs of users are not sanitized")


def call(*words, **options):
  """Run a command that must succeed; return its output."""
  process = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=120,
                           **options)
  assert process.returncode == 0, (words, process.stdout, process.stderr)
  return process.stdout


def make(target, stage, prefix="/opt/bfm"):
  # an outer make's flags and its pool of jobs are not ours
  plain = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
  return call("make", target, f"BUILD={BUILD}", f"DESTDIR={stage}", f"PREFIX={prefix}", "NVCC=",
              cwd=ROOT, env=plain)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
  """An installation that was moved after make install."""
  folder = tmp_path_factory.mktemp("install")
  make("install", folder / "stage")
  shutil.move(folder / "stage/opt/bfm", folder / "moved")
  return folder / "moved"


def away(prefix, *words, **options):
  """Run a program where the checkout cannot be seen, in another folder and an empty environment."""
  hide = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
          'mount -t tmpfs none "$0" && exec "$@"', ROOT]
  plain = {"PATH": "/usr/bin:/bin"}
  hidden = subprocess.run([*hide, "true"], capture_output=True, env=plain).returncode == 0
  return call(*(hide if hidden else []), *words, cwd=prefix, env=plain, **options)


def needed(file):
  """The entries of a file's dynamic section by their tags."""
  rows = re.findall(r"\((\w+)\).*?\[(.*?)\]", call("readelf", "-dW", file))
  return {tag: [value for name, value in rows if name == tag] for tag, _ in rows}


# ---------------------------------- what is installed ---------------------------------------------


def test_the_program_runs_without_the_checkout(prefix):
  assert "speed" in away(prefix, prefix / "bin/bfm", "names", "walker")
  assert away(prefix, prefix / "bin/bfm", "--version").startswith("bfm ")
  z = json.loads(away(prefix, prefix / "bin/bfm", "prompt", "share/bfm/models/walker.safetensors",
                      "--task", "run", "--json"))
  assert len(z["z"]) == 64


def test_a_robot_can_start_from_the_text_of_a_built_in_one(prefix):
  assert "stand" in away(prefix, prefix / "bin/bfm", "tasks", "share/bfm/robots/walker.yaml")


def test_no_path_of_the_build_is_left(prefix):
  for file in (prefix / "bin/bfm", prefix / "lib/libbfm.so"):
    section = needed(file)
    places = section.get("RPATH", []) + section.get("RUNPATH", [])
    assert places and all(place.startswith("$ORIGIN") for place in ":".join(places).split(":"))
    assert ".deps" not in places[0] and str(ROOT).encode() not in file.read_bytes()
  for file in [*prefix.glob("lib/pkgconfig/*"), *prefix.glob("lib/cmake/bfm/*")]:
    text = file.read_text()
    assert str(ROOT) not in text and "/opt/bfm" not in text and "@" not in text, text


def test_names_of_the_libraries(prefix):
  version = away(prefix, prefix / "bin/bfm", "--version").split()[1]
  library = prefix / "lib/libbfm.so"
  (soname,) = needed(library)["SONAME"]
  assert version.startswith(soname.removeprefix("libbfm.so."))
  assert (prefix / "lib" / soname).resolve().name == f"libbfm.so.{version}"
  assert not library.readlink().is_absolute()


def test_the_policy_runtime_needs_libc_and_libm_only(prefix):
  section = needed(prefix / "lib/libbfm_policy.so")
  assert set(section["NEEDED"]) <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
  assert section["SONAME"][0] == needed(prefix / "lib/libbfm.so")["SONAME"][0].replace(
      "libbfm", "libbfm_policy")


def test_files_are_readable_by_all(prefix):
  for path in prefix.rglob("*"):
    mode = path.stat().st_mode
    assert mode & 0o444 == 0o444 and not mode & 0o022, path
  assert (prefix / "share/doc/bfm/licenses/mujoco/LICENSE").exists()


def test_uninstall_removes_all(prefix, tmp_path):
  call("cp", "-a", "--link", prefix, tmp_path / "copy")
  (tmp_path / "copy/share/man/man1/other.1").write_text("")
  make("uninstall", "", tmp_path / "copy")
  assert [path.name for path in tmp_path.rglob("*") if not path.is_dir()] == ["other.1"]


# ---------------------------------- programs of users ---------------------------------------------


def stands(prefix, program, **environment):
  """Runs examples/walker.c, which prints for how many of its 400 steps the walker stood."""
  words = [f"{name}={value}" for name, value in environment.items()]
  out = away(prefix, "env", *words, program, prefix / "share/bfm/models/walker.safetensors")
  assert int(re.search(r": (\d+) of 400", out)[1]) > 200


def pkg_config(prefix, *words):
  path = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
  return call("pkg-config", *words, env=path).split()


def test_pkg_config(prefix, tmp_path):
  flags = pkg_config(prefix, "--cflags", "--libs", "bfm")
  call("cc", "-Wall", "-Werror", WALKER, *flags, f"-Wl,-rpath,{prefix}/lib", "-o", tmp_path / "walker")
  stands(prefix, tmp_path / "walker")


def test_the_static_library(prefix, tmp_path):
  flags = pkg_config(prefix, "--cflags", "bfm")
  libraries = [word.replace("-lbfm", "-l:libbfm.a")
               for word in pkg_config(prefix, "--static", "--libs", "bfm")]
  call("cc", WALKER, *flags, *libraries, f"-Wl,-rpath,{prefix}/lib/bfm", "-o", tmp_path / "walker")
  assert not [name for name in needed(tmp_path / "walker")["NEEDED"] if name.startswith("libbfm")]
  stands(prefix, tmp_path / "walker", BFM_MODELS=prefix / "share/bfm/robots")


def test_pkg_config_of_the_policy_runtime(prefix, tmp_path):
  """tests/processors/policy.c compares its actions with known ones."""
  for link in ("-lbfm_policy", "-l:libbfm_policy.a"):
    flags = " ".join(pkg_config(prefix, "--cflags", "--static", "--libs", "bfm_policy"))
    call("cc", POLICY, *flags.replace("-lbfm_policy", link).split(), f"-Wl,-rpath,{prefix}/lib", "-o",
         tmp_path / "policy")
    assert "plain: ok" in away(prefix / "share/bfm", tmp_path / "policy")


@pytest.mark.skipif(not shutil.which("cmake"), reason="CMake is not here")
def test_cmake(prefix, tmp_path):
  shutil.copy(WALKER, tmp_path)
  shutil.copy(POLICY, tmp_path)
  shutil.copy(POLICY.with_name("walker.h"), tmp_path)
  (tmp_path / "CMakeLists.txt").write_text("""
    cmake_minimum_required(VERSION 3.16)
    project(walker C)
    find_package(bfm 0.2 REQUIRED COMPONENTS bfm policy)
    find_package(bfm 0.1 QUIET)
    if(bfm_FOUND)
      message(FATAL_ERROR "0.1 is another interface")
    endif()
    add_executable(walker walker.c)
    target_link_libraries(walker bfm::bfm)
    add_executable(policy policy.c)
    target_link_libraries(policy bfm::policy)
  """)
  call("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
  call("cmake", "--build", tmp_path / "build")
  walker = subprocess.run([tmp_path / "build/walker", "no-such-model"], capture_output=True, text=True)
  assert walker.returncode == 1 and "no-such-model" in walker.stderr
  assert "plain: ok" in away(prefix / "share/bfm", tmp_path / "build/policy")


# ---------------------------------- manual pages --------------------------------------------------


def page(name):
  return call(BFM, "manual", *([name] if name else []), env={"SOURCE_DATE_EPOCH": "0"})


def test_every_command_has_a_page(prefix):
  pages = {path.name for path in (prefix / "share/man/man1").iterdir()}
  assert pages == {"bfm.1", *(f"bfm-{command}.1" for command in COMMANDS)}
  # every command that the program lists, and no other
  listed = re.findall(r"^  (\w+) +\w", call(BFM, "--help").partition("\n\n")[2], re.M)
  assert set(COMMANDS) | {"help"} == set(listed) - {"bfm"}


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_pages_name_all_options(name):
  text = page(name).replace("\\-", "-").replace("\\fR", "").replace("\\fB", "")
  assert text.startswith(".TH BFM") and " 1970-01-01 " in text.splitlines()[0]
  if name:
    flags = re.findall(r"^ .*?(--[a-z][a-z-]+)=?", call(BFM, "help", name), re.M)
    assert len(flags) > 2
    missing = {flag for flag in flags if flag not in text} - {"--usage", "--version"}
    assert not missing


@pytest.mark.skipif(not shutil.which("mandoc"), reason="mandoc is not here")
def test_pages_are_well_formed(prefix):
  pages = sorted((prefix / "share/man/man1").iterdir())
  assert call("mandoc", "-Tlint", *pages) == ""
  text = call("mandoc", "-Tutf8", prefix / "share/man/man1/bfm-play.1")
  text = re.sub(".\b", "", text)  # bold letters are printed twice
  assert "--reward=EXPRESSION" in text and "EXAMPLES" in text


# ---------------------------------- completion ----------------------------------------------------

CASES = [
    (["tra"], {"train"}),
    (["train", "--al"], {"--algo", "--alpha"}),
    (["train", "--algo", "fb-a"], {"fb-aw", "fb-are", "fb-aware"}),
    (["train", "--f-norm", ""], {"on", "off"}),
    (["names", "wal"], {"walker", "walker2d"}),
    (["eval", "models/cheetah.safetensors", "--tasks", "walk,run"], {"walk,run", "walk,run_backward"}),
    (["play", "models/walker.safetensors", "-o", "no-such-fil"], set()),
    (["paper", "sh"], {"show"}),
    (["sweep", "sh"], {"show"}),
    (["paper", "show", "moo"], {"mood"}),
    (["bench", "--device", "c"], {"cpu", "cuda"}),
    (["help", "co"], {"collect"}),
    (["robot", "ne"], {"new"}),
    (["learn", "quad"], {"quadruped"}),
    (["info", "models/wal"], {"models/walker.safetensors"}),
    (["no-such-command", ""], set()),
]


def completed_by_bash(words):
  quoted = " ".join(f"'{word}'" for word in words)
  return call("bash", "-c", f"""source <('{BFM}' completion bash)
    COMP_WORDS=('{BFM}' {quoted}) COMP_CWORD={len(words)}; _bfm
    printf '%s\\n' "${{COMPREPLY[@]}}" """, cwd=ROOT)


def completed_by_zsh(words):
  """With zsh's own functions replaced by some that print what they are given."""
  quoted = " ".join(f"'{word}'" for word in words)
  return call("zsh", "-fc", f"""compdef() {{ [[ $* == '_bfm bfm' ]] }}
    _describe() {{ print -l -- "${{(@)${{(@P)2}}%%:*}}" }}
    _files() {{ print -l -- $PREFIX*(N) }}
    source <('{BFM}' completion zsh)
    words=('{BFM}' {quoted}) CURRENT={len(words) + 1} PREFIX='{words[-1]}'; _bfm""", cwd=ROOT)


SHELLS = {"bash": completed_by_bash, "zsh": completed_by_zsh}


@pytest.mark.parametrize("shell", [
    pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name), reason=f"no {name} here"))
    for name in SHELLS])
def test_completion(shell):
  for words, expected in CASES:
    assert set(SHELLS[shell](words).split()) == expected, words


def test_bash_divides_at_equals_signs():
  assert completed_by_bash(["train", "--algo", "=", "fb-a"]).split() == ["fb-aw", "fb-are", "fb-aware"]
  assert completed_by_bash(["train", "--f-norm", "="]).split() == ["on", "off"]


def test_errors():
  assert '"fish": name bash or zsh' in refused("completion", "fish")
  refused("completion")
  assert 'no manual page of "frain"' in refused("manual", "frain")
