#!/bin/sh
# The NEON kernels, on this machine: builds what computes for AArch64 and runs the matrix with its stored digests, the function
# vectors and the executor's tests under qemu-aarch64. COUNT (default 40) drawn cases besides the enumerated ones.
#
# Installs the cross compiler and qemu-user if they are missing. Builds into build/neon.
set -eu
cd "$(dirname "$0")/../.."
build=build/neon
packages="g++-12-aarch64-linux-gnu gcc-12-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
missing=
for package in $packages; do
  case "$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null)" in ii*) ;; *) missing="$missing $package" ;; esac
done
if [ -n "$missing" ]; then
  root=
  [ "$(id -u)" -eq 0 ] || root=sudo
  $root apt-get update -q
  $root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
fi

# Libraries that are headers only; the rest of this processor's headers must stay out of sight.
mkdir -p "$build/headers"
for library in catch2 fmt hwy nlohmann; do
  [ -d "/usr/include/$library" ] || { echo "tests/slow/neon.sh: no /usr/include/$library" >&2; exit 1; }
  ln -sfn "/usr/include/$library" "$build/headers/$library"
done
cmake -G Ninja -S tests/slow/neon -B "$build" -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake" -DDGX_HEADERS="$PWD/$build/headers" \
  -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O3 -g1" >"$build/cmake.log" 2>&1 || { cat "$build/cmake.log" >&2; exit 1; }
cmake --build "$build" -j "${JOBS:-2}"
qemu-aarch64 "$build/tests/matrix/matrix_test" --vectors tests/vectors/matrix.json --count "${COUNT:-40}"
ctest --test-dir "$build" --output-on-failure -j "${JOBS:-2}" -E '^matrix$'
