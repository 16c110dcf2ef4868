#!/bin/sh
# One dispute, one ruling: the referee built here, by clang++, and for AArch64 (run by qemu-aarch64) gives the same bytes for every
# transcript of tests/vectors/dispute.json.
#
# Installs the cross compiler and qemu-user if they are missing, and takes AArch64's libsodium and libcrypto from the distribution into
# the build folder. Needs clang++.
set -eu
build=$1
here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here/.."
jobs=${JOBS:-2}
command -v clang++ >/dev/null || { echo "tests/slow/referee.sh: clang++ is not installed" >&2; exit 1; }
packages="g++-12-aarch64-linux-gnu gcc-12-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
missing=
for package in $packages; do
  case "$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null)" in ii*) ;; *) missing="$missing $package" ;; esac
done
if [ -n "$missing" ]; then
  as=
  [ "$(id -u)" -eq 0 ] || as=sudo
  $as apt-get update -q
  $as env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
fi

cmake --build "$build" -j "$jobs" --target dgx-referee dgx-key

clang=$build-clang-referee
cmake --preset release -B "$clang" -DDGX_TORCH=off -DDGX_TESTS=OFF -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ >"$clang.log" 2>&1 ||
  { cat "$clang.log" >&2; exit 1; }
cmake --build "$clang" -j "$jobs" --target dgx-referee

# That processor's packages, without telling this system of it.
arm=$(pwd)/build/referee-aarch64
if [ ! -e "$arm/sysroot/usr/lib/aarch64-linux-gnu/libsodium.a" ]; then
  mkdir -p "$arm/apt/state/lists/partial" "$arm/apt/cache/archives/partial"
  : >"$arm/apt/status"
  options="-o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State=$arm/apt/state -o Dir::State::status=$arm/apt/status
    -o Dir::Cache=$arm/apt/cache"
  apt-get -q $options update
  (cd "$arm/apt" && apt-get -q $options download libsodium-dev libssl-dev)
  for package in "$arm"/apt/*.deb; do dpkg-deb -x "$package" "$arm/sysroot"; done
fi
mkdir -p "$arm/headers"
for library in fmt nlohmann CLI; do
  [ -d "/usr/include/$library" ] || { echo "tests/slow/referee.sh: no /usr/include/$library" >&2; exit 1; }
  ln -sfn "/usr/include/$library" "$arm/headers/$library"
done
cmake -G Ninja -S tests/slow/referee -B "$arm" -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake" -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu \
  "-DDGX_HEADERS=$arm/headers" "-DDGX_SYSROOT=$arm/sysroot" -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O3" \
  >"$arm/cmake.log" 2>&1 || { cat "$arm/cmake.log" >&2; exit 1; }
cmake --build "$arm" -j "$jobs"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$build/bin/dgx-key" new "$work/referee" >/dev/null
/usr/bin/python3 tests/slow/referee.py "$work" "$build/bin/dgx-referee" "$clang/bin/dgx-referee" "qemu-aarch64 $arm/dgx-referee"
