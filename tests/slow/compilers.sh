#!/bin/sh
# Other compilers and other optimisation, the same bits: builds the training programs and checks the stored digests, the whole quickstart too.
# Needs clang++.
set -eu
build=$1
command -v clang++ >/dev/null || { echo "tests/slow/compilers.sh: clang++ is not installed" >&2; exit 1; }
here=$(cd "$(dirname "$0")/.." && pwd)

check() { # NAME COMPILER FLAGS
  folder=$build-$1
  cmake --preset release -S "$here/.." -B "$folder" -DDGX_TORCH=off -DDGX_TESTS=OFF "-DCMAKE_CXX_COMPILER=$2" \
    "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=$3" >"$folder.log" 2>&1 || { cat "$folder.log" >&2; exit 1; }
  cmake --build "$folder" -j "${JOBS:-$(nproc)}" --target dgx-pack dgx-train
  echo "$1: $("$2" --version | head -n 1), $3"
  /usr/bin/python3 "$here/repro/quickstart.py" --bin "$folder/bin" --full
}

check gcc-plain g++ -O1
check gcc-native g++ '-O3 -march=native'
check clang clang++ -O3
check clang-plain clang++ -O1
