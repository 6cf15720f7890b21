"""The policy runtime as a user builds it: one file, any compiler, libc and libm only."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
BFM = os.environ.get("BFM", str(ROOT / "build/bfm"))
STRICT = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-O2"]
COMPILERS = [["gcc", "-std=c99"], ["clang", "-std=c99"], ["g++", "-x", "c++", "-std=c++17"],
             ["clang++", "-x", "c++", "-std=c++17"]]
PROGRAM = """
#include <stdio.h>
#include "bfm_policy.h"
static char memory[1 << 21];
int main(int argc, char **argv) {
  bfm_policy *policy;
  bfm_policy_work *work;
  bfm_policy_error error;
  char *at = memory + (64 - (size_t)memory % 64) % 64;
  float obs[64] = {0}, z[64], act[64];
  if (argc < 2 || bfm_policy_open(&policy, argv[1], &error)) return puts(error.text), 1;
  for (int i = 0; i < 64; i++) z[i] = i % 2 ? 1.0f : -0.5f;
  size_t bytes = bfm_policy_work_bytes(policy, 2);
  if (bfm_policy_work_init(&work, policy, 2, at, bytes, &error)) return puts(error.text), 1;
  if (bfm_policy_act(policy, work, obs, z, NULL, act, NULL, &error)) return puts(error.text), 1;
  for (int i = 0; i < bfm_policy_get_info(policy)->act_dim; i++) printf("%.6f ", act[i]);
  bfm_policy_close(policy);
  return 0;
}
"""


def run(*command, **options):
  return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
  folder = tmp_path_factory.mktemp("amalgamation")
  run("python3", ROOT / "scripts/amalgamate.py", folder)
  (folder / "main.c").write_text(PROGRAM)
  return folder


@pytest.fixture(scope="module")
def actions(source):
  """What the runtime answers when built by gcc, as a reference for the other compilers."""
  return build_and_run(source, COMPILERS[0])


def build_and_run(source, compiler):
  name = source / compiler[0].replace("+", "p")
  run(*compiler, *STRICT, "-c", "bfm_policy.c", "-o", f"{name}.o", cwd=source)
  run(*compiler, *STRICT, "-c", "main.c", "-o", f"{name}.main.o", cwd=source)
  run(compiler[0], f"{name}.o", f"{name}.main.o", "-lm", "-o", name, cwd=source)
  return run(name, ROOT / "models/cheetah.safetensors").stdout


@pytest.mark.parametrize("compiler", COMPILERS, ids=lambda c: c[0])
def test_one_file_compiles_strictly_and_acts(source, actions, compiler):
  if not shutil.which(compiler[0]):
    pytest.skip(f"no {compiler[0]} here")
  theirs = [float(x) for x in build_and_run(source, compiler).split()]
  assert theirs == pytest.approx([float(x) for x in actions.split()], abs=2e-6)
  assert len(theirs) == 6


def test_needs_libc_and_libm_only_and_exports_its_interface(source, actions):
  needed = run("readelf", "-d", source / "gcc").stdout
  assert set(re.findall(r"\[(lib\w+)", needed)) <= {"libc", "libm"}
  exported = run("nm", "-g", "--defined-only", source / "gcc.o").stdout
  assert {line.split()[-1][:11] for line in exported.splitlines()} == {"bfm_policy_"}


def test_code_is_small(source, actions):
  sizes = run("size", "-A", source / "gcc.o").stdout
  assert sum(int(n) for n in re.findall(r"^\.(?:text|rodata)\S*\s+(\d+)", sizes, re.M)) <= 102400


def test_a_file_that_is_no_model_is_a_sentence(source, actions):
  result = subprocess.run([source / "gcc", ROOT / "README.md"], capture_output=True, text=True)
  assert result.returncode == 1 and result.stdout == "this is not a safetensors file\n"


def test_export_names_the_type_of_weights(tmp_path):
  out = tmp_path / "int8.safetensors"
  run(BFM, "export", ROOT / "models/cheetah.safetensors", "--weights", "int8", "-o", out)
  info = run(BFM, "info", out).stdout
  assert "velocity: rootx.v rootz.v (m/s)" in info and "control_dt     0.01 s" in info
  assert out.stat().st_size < 0.7 * (ROOT / "models/cheetah.safetensors").stat().st_size
  result = subprocess.run([BFM, "export", out, "--half", "--weights", "f32", "-o", tmp_path / "x"], capture_output=True,
                          text=True)
  assert result.returncode and "--half means --weights bf16: leave one of them out" in result.stderr
