"""Errors of --device cuda without a usable GPU, with fake drivers and plugins."""
import os
import subprocess
from pathlib import Path

import pytest
from conftest import BFM, ROOT, refused, run

ASK = ["bench", "step", "--preset", "small", "--seconds", "0.01", "--device", "cuda"]
PLUGIN = Path(BFM).parent / "libbfm_cuda.so"

DRIVER = """
int cuInit(unsigned flags) { return flags; }
int cuDeviceGetCount(int *count) { return *count = DEVICES, 0; }
int cuDriverGetVersion(int *version) { return *version = 11020, 0; }
"""
CALLER = """
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
static int fail(int status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  return status;
}
int main(int count, char **words) {
  void *plugin = dlopen(words[1], RTLD_NOW), *ops = 0;
  if (!plugin) return printf("no plugin: %s", dlerror()), 99;
  int (*open)(void **, int, int, const char *, unsigned, void *) = dlsym(plugin, "bfm_cuda_open");
  return open(&ops, 0, 0, words[2], strtoul(words[3], 0, 10), fail);
}
"""


def compile_c(path, source, *flags):
  code = path.with_suffix(".c")
  code.write_text(source)
  subprocess.run(["cc", "-o", path, code, *flags], check=True)
  return path


def with_driver(folder, devices, **variables):
  compile_c(folder / "libcuda.so.1", DRIVER, "-shared", "-fPIC", f"-DDEVICES={devices}")
  return {**os.environ, "LD_LIBRARY_PATH": str(folder), **variables}


def test_a_driver_without_a_gpu(tmp_path):
  env = with_driver(tmp_path, 0)
  assert "the NVIDIA driver finds none" in refused(*ASK, env=env)
  assert run(*ASK[:-1], "auto", env=env).returncode == 0  # on the CPU


@pytest.mark.parametrize("plugin, part", [
    ("missing.so", "cannot load the CUDA plugin"),
    ("libother.so", "is not a plugin of bfm"),
])
def test_a_missing_or_foreign_plugin(plugin, part, tmp_path):
  compile_c(tmp_path / "libother.so", "int x;", "-shared", "-fPIC")
  env = with_driver(tmp_path, 1, BFM_CUDA_PLUGIN=str(tmp_path / plugin))
  assert part in refused(*ASK, env=env)

  # --device auto uses the CPU silently if the plugin is missing, but a broken plugin is an error
  any_device = [*ASK[:-1], "auto"]
  if plugin == "missing.so":
    assert run(*any_device, env=env).returncode == 0
  else:
    error = refused(*any_device, env=env)
    assert part in error and "--device cpu" in error


def test_a_truncated_plugin(tmp_path):
  plugin = compile_c(tmp_path / "libcut.so", "int x[9999] = {1};", "-shared", "-fPIC")
  whole = plugin.read_bytes()
  env = with_driver(tmp_path, 1, BFM_CUDA_PLUGIN=str(plugin))
  assert "is not a plugin of bfm" in refused(*ASK, env=env)
  for size in (len(whole) - 1, len(whole) // 2, 4096, 64):
    plugin.write_bytes(whole[:size])
    words = f"libcut.so is truncated: it has {size} of {len(whole)} bytes"
    assert words in refused(*ASK, env=env) and words in refused(*ASK[:-1], "auto", env=env)
  plugin.write_bytes(whole[:63])
  assert "cannot load the CUDA plugin" in refused(*ASK, env=env)


def test_the_plugin_is_searched_beside_the_program(tmp_path):
  """Even if the shell finds the program by PATH and the current folder has a file named bfm."""
  (tmp_path / "bfm").mkdir()
  env = with_driver(tmp_path, 1, PATH=f"{Path(BFM).parent}:{os.environ['PATH']}")
  process = subprocess.run(["bfm", *ASK], capture_output=True, text=True, env=env, cwd=tmp_path)
  assert process.returncode == 6 and str(tmp_path) not in process.stderr, process.stderr


@pytest.mark.skipif(not PLUGIN.exists(), reason="the CUDA plugin is not built")
def test_a_driver_too_old(tmp_path):
  assert "the NVIDIA driver supports CUDA 11.2" in refused(*ASK, env=with_driver(tmp_path, 1))


@pytest.mark.skipif(not PLUGIN.exists(), reason="the CUDA plugin is not built")
def test_a_plugin_of_another_build(tmp_path):
  caller = compile_c(tmp_path / "caller", CALLER, "-ldl")
  own = run("--version").stdout.split()[1]
  ops = subprocess.check_output(["cksum", ROOT / "src" / "ops" / "ops.h"], text=True).split()[0]
  for version, operations in ((own, "8"), ("0.0.1", ops)):
    process = subprocess.run([caller, PLUGIN, version, operations], capture_output=True, text=True)
    if process.returncode == 99:
      pytest.skip(process.stdout)  # cuBLASLt is not installed
    assert process.returncode and f"is of bfm {own} (operations {ops})" in process.stdout
    assert f"the program is of {version} ({operations})" in process.stdout
    assert "build both from one checkout" in process.stdout
