#!/bin/sh
# Install what make has built, or remove it again. make install and make uninstall call this script
# with BUILD, DEPS, PREFIX, LIBDIR, DESTDIR, VERSION, SERIES, LIBS, STRIP and RUNNER in the environment.
# All paths in the installed files are relative, so that the folders can be moved together.
#   scripts/install.sh [uninstall]
set -eu

root=${DESTDIR:-}$PREFIX
lib=${DESTDIR:-}$LIBDIR
share=$root/share
man=$share/man/man1

if [ "${1:-}" = uninstall ]; then
  rm -f "$root/bin/bfm" "$root/include/bfm.h" "$root/include/bfm_policy.h" "$man/bfm.1" "$man"/bfm-*.1 \
    "$share/bash-completion/completions/bfm" "$share/zsh/site-functions/_bfm" \
    "$lib"/libbfm.so* "$lib"/libbfm.a "$lib"/libbfm_policy.so* "$lib"/libbfm_policy.a \
    "$lib/pkgconfig/bfm.pc" "$lib/pkgconfig/bfm_policy.pc"
  rm -rf "$share/bfm" "$share/doc/bfm" "$lib/bfm" "$lib/cmake/bfm"
  echo "removed bfm from $root"
  exit
fi

# put FOLDER FILE...: copy files, with their modes for everyone
put() {
  folder=$1
  shift
  mkdir -p "$folder"
  for file; do
    mode=644
    [ ! -x "$file" ] || mode=755
    install -m $mode "$file" "$folder/"
  done
}

# fill FOLDER TEMPLATE: write a file of packaging with the values of this build
fill() {
  mkdir -p "$1"
  sed -e "s|@VERSION@|$VERSION|g" -e "s|@SERIES@|$SERIES|g" -e "s|@LIBS@|$LIBS|g" \
    -e "s|@UP@|$(realpath -m --relative-to="$LIBDIR" "$PREFIX")|g" \
    "packaging/$2.in" >"$1/$2"
  chmod 644 "$1/$2"
}

# library NAME FOLDER: libNAME.so with its links, and libNAME.a
library() {
  put "$lib" "$2/lib$1.so.$VERSION" "$BUILD/lib$1.a"
  ln -sf "lib$1.so.$VERSION" "$lib/lib$1.so.$SERIES"
  ln -sf "lib$1.so.$SERIES" "$lib/lib$1.so"
  "$STRIP" --strip-debug "$lib/lib$1.so.$VERSION" "$lib/lib$1.a"
  fill "$lib/pkgconfig" "$1.pc"
}

bfm() { ${RUNNER:-} "$BUILD/bfm" "$@"; }

put "$root/bin" "$BUILD/install/bfm"
"$STRIP" --strip-debug "$root/bin/bfm"
library bfm "$BUILD/install"
mujoco=$(readlink -f "$DEPS/lib/libmujoco.so")
put "$lib/bfm" "$mujoco"
ln -sf "${mujoco##*/}" "$lib/bfm/libmujoco.so"  # for programs that link libbfm.a
[ ! -e "$BUILD/libbfm_cuda.so" ] || put "$lib/bfm" "$BUILD/libbfm_cuda.so"
[ ! -e "$BUILD/libbfm_policy.so" ] || library bfm_policy "$BUILD"
put "$root/include" include/*.h
fill "$lib/cmake/bfm" bfmConfig.cmake
fill "$lib/cmake/bfm" bfmConfigVersion.cmake

put "$share/bfm/models" models/*
put "$share/bfm/robots" robots/*.yaml
cp -R .deps/models/. "$share/bfm/robots/"
put "$share/doc/bfm" LICENSE CHANGELOG.md
cp -R .deps/licenses "$share/doc/bfm/"

mkdir -p "$man" "$share/bash-completion/completions" "$share/zsh/site-functions"
for page in $(bfm manual --list); do
  command=${page#bfm}
  bfm manual ${command:+"${command#-}"} >"$man/$page.1"
done
bfm completion bash >"$share/bash-completion/completions/bfm"
bfm completion zsh >"$share/zsh/site-functions/_bfm"
chmod -R u=rwX,go=rX "$share/bfm" "$share/doc/bfm"
echo "installed bfm $VERSION in $root"
