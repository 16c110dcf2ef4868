#!/bin/sh
# Installs what building needs on Debian 12, and libtorch into build/deps. What is there is left alone, so that a second run costs
# nothing. DGX_TORCH=pypi (default) fetches libtorch from PyPI; off or a folder fetches nothing. With --tests, Debian's own PyTorch is
# installed, too: an older release, in which the tests script models as users do, clang-format, strace, and Open MPI; with --packages, what makes Debian packages;
# with --bench also what the benchmarks compare with, and nothing of ours links: OpenBLAS, jemalloc, and PyPI's PyTorch for Python in build/peer
# (5 GB, since its wheel wants CUDA's libraries), for torch.compile.
set -eu
cd "$(dirname "$0")/.."

PACKAGES="g++ cmake ninja-build ccache pkg-config libcli11-dev libfmt-dev libsodium-dev libssl-dev libhdf5-dev libzstd-dev
zlib1g-dev libjpeg62-turbo-dev libpng-dev libzip-dev libhwy-dev libcurl4-openssl-dev nlohmann-json3-dev catch2 scdoc openssl openssh-client xxd hdf5-tools python3-pip python3-h5py python3-numpy
python3-cryptography dataset-fashion-mnist"
case "${1:-}" in
  --tests) PACKAGES="$PACKAGES python3-torch clang-format-14 strace libopenmpi-dev openmpi-bin" ;;
  --packages) PACKAGES="$PACKAGES dpkg-dev file git" ;;
  --bench) PACKAGES="$PACKAGES python3-torch libopenblas0-pthread libjemalloc2" ;;
esac
TORCH=2.11.0
DEPS=build/deps
PEER=build/peer

say() { echo "bootstrap: $*" >&2; }

# Prints the packages that are not installed.
missing_packages() {
  for package in $PACKAGES; do
    case "$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null)" in ii*) ;; *) echo "$package" ;; esac
  done
}

install_packages() {
  command -v dpkg-query >/dev/null || { say "not a Debian system: make sure these are there: $PACKAGES"; return 0; }
  missing=$(missing_packages)
  [ -n "$missing" ] || return 0
  root=
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { say "error: run as root, or install sudo, to get:" $missing; exit 1; }
    root=sudo
  fi
  say "installing" $missing
  $root apt-get update -q
  $root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
}

# libtorch_cpu.so needs two of the CUDA libraries and finds them by its own run path; the other 3 GB stay away.
install_torch() {
  [ "${DGX_TORCH:-pypi}" = pypi ] || return 0
  [ ! -d "$DEPS/torch-$TORCH.dist-info" ] || [ ! -e "$DEPS/torch/lib/libtorch_cpu.so" ] || return 0
  say "fetching libtorch $TORCH into $DEPS"
  rm -rf "$DEPS" "$DEPS.new"
  /usr/bin/env PATH=/usr/bin:/bin python3 -m pip install -q --no-deps --no-cache-dir --disable-pip-version-check --root-user-action=ignore \
    --target "$DEPS.new" "torch==$TORCH" 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cupti==13.0.*'
  mv "$DEPS.new" "$DEPS"
}

# PyTorch for Debian's Python, with all that it asks for.
install_peer() {
  [ ! -d "$PEER/torch-$TORCH.dist-info" ] || return 0
  say "fetching PyTorch $TORCH for Python into $PEER"
  rm -rf "$PEER" "$PEER.new"
  /usr/bin/env PATH=/usr/bin:/bin python3 -m pip install -q --no-cache-dir --disable-pip-version-check --root-user-action=ignore \
    --target "$PEER.new" "torch==$TORCH" || { say "no PyTorch for Python: torch.compile is left out"; return 0; }
  mv "$PEER.new" "$PEER"
}

install_packages
mkdir -p build
install_torch
[ "${1:-}" != --bench ] || install_peer
