#!/bin/sh
# Collect the licence texts for an archive that carries libraries of this system: those of bfm, of
# MuJoCo and the models, and of the package that owns each library.
#   scripts/licenses.sh FOLDER LIBRARY...
set -eu

out=$1
shift
mkdir -p "$out"
cp LICENSE "$out/LICENSE"
cp -R .deps/licenses/. "$out/"

# three.js in the page of bfm serve has its notice in its first lines, but not the words of its license,
# MIT, which are those of bfm's
mkdir -p "$out/three.js"
{ grep -m 1 Copyright .deps/web/three.js && sed '1,/Copyright/d' LICENSE; } >"$out/three.js/LICENSE"

# name of the package that owns a file; /lib may be a link to /usr/lib, and dpkg knows one of both
owner() {
  file=$(readlink -f "$1")
  { dpkg-query -S "$file" || dpkg-query -S "${file#/usr}"; } 2>/dev/null | cut -d: -f1 | head -n 1
}

for library; do
  package=$(owner "$library")
  text=/usr/share/doc/$package/copyright
  if [ -z "$package" ] || [ ! -e "$text" ]; then
    echo "licenses: no package of this system has a licence text for $library" >&2
    exit 1
  fi
  mkdir -p "$out/$package"
  cp -L "$text" "$out/$package/copyright"
done

# texts that the packages only refer to
grep -rhoE '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$out" | sort -u | while read -r text; do
  [ ! -f "$text" ] || { mkdir -p "$out/common-licenses" && cp -L "$text" "$out/common-licenses/"; }
done
