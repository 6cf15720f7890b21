#!/usr/bin/env bash
# Install the missing dependencies of bfm without questions; a second run changes nothing.
# make runs this script by itself.
#   deps.sh          libraries (apt), .venv for the tests, MuJoCo and the models under .deps/
#   deps.sh oracle   .venv-oracle: PyTorch, dm_control, gymnasium(-robotics), rliable, for comparisons;
#                    a MuJoCo of another version, in .deps/other
#   deps.sh lint     clang-tidy and cppcheck; clang with its sanitizers and fuzzer
#   deps.sh docs     .venv-docs: MkDocs, which builds the documentation site
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
  safetensors pytest pytest-xdist rliable==1.2.0 arch==7.2.0 'pandas<3')
browser_packages=(chromium chromium-driver)
browser_wheels=(numpy h5py safetensors pytest pytest-xdist websocket-client selenium)
slurm_packages=(slurmctld slurmd slurm-client munge)
docs_wheels=(mkdocs==1.6.1 mkdocs-material==9.8.1 mkdocstrings==1.0.8 mkdocstrings-python==2.0.11
  pymdown-extensions==12.3)
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
  docs) apt_install python3-venv && venv .venv-docs /usr/bin/python3 "" "${docs_wheels[@]}" ;;
  *) die "there is no \"$1\"; try: deps.sh [oracle|lint|docs|browser|slurm]" ;;
esac
# the targets of make that call this script for one part of it stay quiet
[ "$changed" = 1 ] || [ "${1:-base}" != base ] || say "all dependencies are installed"
