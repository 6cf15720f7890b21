#!/bin/sh
# Lay the program, the library, the CUDA plugin, the GPU tests and every library they need that a
# bare Linux lacks in one folder, build/bundle, and pack it. The C and C++ runtimes and the driver's
# and CUDA's libraries are the target's own: it must be no older than this machine.
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

# paths of what the loader finds, less what every target has
runtime='c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s|cuda|cudart|cublas|cublasLt'
needed() {
  ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -Ev "/(ld-linux[^/]*|lib($runtime))\.so"
}
needed "$out"/*.so $(find "$out" -maxdepth 1 -type f -perm -100 ! -name '*.so') |
  while read -r path; do cp -L "$path" "$out/lib/"; done
# OpenGL without a window is looked for at run time: the dispatcher, to which a driver's own belongs
for name in libEGL.so.1 libGLdispatch.so.0; do
  path=$(ldconfig -p | awk -v name=$name '$1 == name {print $NF; exit}')
  [ -z "$path" ] || cp -L "$path" "$out/lib/$name"
done
[ ! -d .deps/models ] || cp -R .deps/models "$out/models"
[ ! -d .deps/licenses ] || cp -R .deps/licenses "$out/licenses"

# each program must find all of it in the bundle alone
for program in "$out"/bfm "$out"/libbfm.so; do
  missing=$(ldd "$program" | awk '/not found/ {print $1}')
  [ -z "$missing" ] || { echo "bundle: $program lacks $missing" >&2; exit 1; }
done

tar -C "$build" -cf - bundle | xz -T0 -6 >"$archive"
size=$(($(stat -c %s "$archive") / 1048576))
echo "$archive: $size MiB, $(find "$out/lib" -type f | wc -l) libraries"
[ "$size" -lt $limit ] || { echo "bundle: $size MiB are more than $limit" >&2; exit 1; }
