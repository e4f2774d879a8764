#!/bin/sh
# Installs the Debian packages that are missing: those named as arguments, or else what building
# needs (OpenCL because libdnnl-dev's CMake package looks for it). Does nothing, and
# needs no network, when all of them are there.
set -e

if [ $# -eq 0 ]; then
  set -- g++ cmake ninja-build make pkg-config python3 \
    libdnnl-dev ocl-icd-opencl-dev libhwy-dev libfmt-dev libcli11-dev nlohmann-json3-dev \
    libtomlplusplus-dev libpng-dev zlib1g-dev \
    libgtest-dev libgmock-dev
fi

if ! command -v dpkg-query >/dev/null; then
  echo "    not a Debian system; these packages are needed: $*"
  exit 0
fi

missing=
for package in "$@"; do
  # Node.js from elsewhere brings its own npm, beside which Debian's does not install.
  case $package in
    nodejs) command -v node >/dev/null && continue ;;
    npm) command -v npm >/dev/null && continue ;;
  esac
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing="$missing $package"
done
if [ -z "$missing" ]; then
  echo "    all $# packages are installed"
  exit 0
fi

as_root=
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "    missing:$missing; install them as root, or install sudo" >&2
    exit 1
  fi
  as_root=sudo
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
  "$@" >"$log" 2>&1 || {
    cat "$log" >&2
    exit 1
  }
}
echo "    apt-get update"
quietly $as_root apt-get update
echo "    apt-get install$missing"
quietly $as_root env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y --no-install-recommends $missing
