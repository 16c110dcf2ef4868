#!/bin/sh
# Builds everything with its tests and runs them:
#
#   sh tests/run.sh                  the release build; what must always hold
#   sh tests/run.sh --asan           with the address and undefined-behaviour sanitizers
#   sh tests/run.sh --clang          with clang++
#   sh tests/run.sh --gpu            what needs a GPU, compute-sanitizer too; says so if there is no GPU
#   sh tests/run.sh --without NAME   with one optional thing hidden; which tests are then skipped is as tests/without.txt says.
#                                    --without list: the names. --gpu --without compute-sanitizer: its absence is no failure
#   sh tests/run.sh --slow NAME      one of the long tests of tests/slow (without NAME: lists them)
#   sh tests/run.sh -- ARGUMENT …    arguments for ctest, as -R cli/
#
# DGX_TORCH=pypi|off|FOLDER says where libtorch is (default pypi). JOBS is the number of compilers at a time (default: the CPUs of this
# job, at most 8); one test more than that runs at a time, as several wait for a clock.
set -eu
cd "$(dirname "$0")/.."

usage() { sed -n '2,15s/^# \{0,1\}//p' "$0" >&2; exit 2; }

preset=release build=build/release slow= gpu= without=
configure="-DDGX_TORCH=${DGX_TORCH:-pypi}"
while [ $# -gt 0 ]; do
  case "$1" in
    --asan) preset=asan build=build/asan ;;
    --clang) configure="$configure -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++" build=build/clang ;;
    --gpu) gpu=yes ;;
    --without) without=${2:-list}; [ $# -lt 2 ] || shift ;;
    --slow) slow=${2:-list}; [ $# -lt 2 ] || shift ;;
    --) shift; break ;;
    *) usage ;;
  esac
  shift
done

jobs=${JOBS:-$(nproc)}
[ "$jobs" -le 8 ] || jobs=8
tests=$((jobs + 1))

sh cmake/bootstrap.sh --tests
[ "$build" != build/clang ] || command -v clang++ >/dev/null || { echo "tests/run.sh: clang++ is not installed" >&2; exit 1; }
if [ "$slow" = list ]; then
  ls tests/slow | sed -n 's/\.sh$//p'
  exit 0
fi
if [ -n "$without" ]; then
  names=$(/usr/bin/python3 tests/without.py list)
  [ "$without" != list ] || { echo "$names"; exit 0; }
  echo "$names" | grep -qxF -e "$without" || { echo "tests/run.sh: --without $without: one of" $names >&2; exit 2; }
fi
cmake --preset "$preset" -B "$build" $configure >"$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }
cmake --build "$build" -j "$jobs"
if [ -n "$slow" ]; then
  [ -e "tests/slow/$slow.sh" ] || { echo "tests/run.sh: no tests/slow/$slow.sh" >&2; exit 2; }
  exec sh "tests/slow/$slow.sh" "$build"
fi
if [ -e "$build/lib/dgx/libdgx_cuda.so" ]; then
  nvidia-smi -L 2>/dev/null || echo "gpu/real: skipped, no GPU"
else
  echo "gpu: skipped, no nvcc: libdgx_cuda.so is not built"
fi
if [ -n "$gpu" ]; then
  export DGX_TESTS_GPU=yes DGX_TESTS_WITHOUT="$without"
  set -- -L gpu "$@"
elif [ -n "$without" ]; then
  exec /usr/bin/python3 tests/without.py run "$without" --build "$build" -- --output-on-failure -j "$tests" -E '^link/without$' "$@"
else
  set -- -j "$tests" "$@"
fi
exec /usr/bin/python3 tests/cases.py "$build/cases.xml" --test-dir "$build" --output-on-failure "$@"
