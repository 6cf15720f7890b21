#!/bin/sh
# Put the program, the library and its header, the CUDA plugin, the GPU tests and every library that
# they need and a bare Linux lacks into one folder, build/bundle, with all licence texts, and pack it. The target machine must have its own
# C and C++ runtimes, driver and CUDA libraries, none of them older than those of this machine.
#   scripts/bundle.sh [build folder] [archive]
set -eu

build=${1:-build}
out=$build/bundle
archive=${2:-$out.tar.xz}
limit=60  # MiB, packed

rm -rf "$out" "$archive"
mkdir -p "$out/lib"
library=$(readlink -f "$build/libbfm.so")
for file in bfm "${library##*/}" libbfm_cuda.so tests/unit/test_cuda; do
  [ ! -e "$build/$file" ] || cp "$build/$file" "$out/"
done
strip --strip-debug "$out"/* 2>/dev/null || true  # lib is a folder
cp -P "$build/libbfm.so" "$build/$(readlink "$build/libbfm.so")" "$out/"

# paths of the libraries that the loader finds, without those that every target has
runtime='c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s|cuda|cudart|cublas|cublasLt'
needed() {
  ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -Ev "/(ld-linux[^/]*|lib($runtime))\.so"
}
libraries=$(for file in bfm libbfm.so libbfm_cuda.so tests/unit/test_cuda; do
  [ ! -e "$build/$file" ] || needed "$build/$file" || true  # or none
done | sort -u)
# bfm loads EGL at run time: bundle the dispatcher, which finds the EGL of the target's driver
for name in libEGL.so.1 libGLdispatch.so.0; do
  libraries="$libraries $(ldconfig -p | awk -v name=$name '$1 == name {print $NF; exit}')"
done
for path in $libraries; do cp -L "$path" "$out/lib/"; done
[ ! -d .deps/models ] || cp -R .deps/models "$out/models"
mkdir -p "$out/include" && cp include/bfm.h "$out/include/"
# MuJoCo's text is among those of .deps, and no package owns its library
# shellcheck disable=SC2046  # a list of files
scripts/licenses.sh "$out/licenses" $(printf '%s\n' $libraries | grep -v libmujoco)

# each program must find all its libraries in the bundle
for program in "$out"/bfm "$out"/libbfm.so "$out"/test_cuda; do
  [ -e "$program" ] || continue
  missing=$(ldd "$program" | awk '/not found/ {print $1}')
  [ -z "$missing" ] || { echo "bundle: $program lacks $missing" >&2; exit 1; }
done

tar -C "$build" -cf - bundle | xz -T0 -6 >"$archive"
size=$(($(stat -c %s "$archive") / 1048576))
echo "$archive: $size MiB, $(find "$out/lib" -type f | wc -l) libraries"
[ "$size" -lt $limit ] || { echo "bundle: the archive has $size MiB, more than the limit of $limit MiB" >&2; exit 1; }
