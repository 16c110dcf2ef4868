#!/bin/sh
# The kernels that are generated for every enumerated case of the matrix: on the emulated device, with COUNT (default 300) drawn ones; and what NVRTC makes of
# them, translated from its PTX.
set -eu
build=$1
here=$(cd "$(dirname "$0")/.." && pwd)
cmake --build "$build" -j "${JOBS:-2}" --target matrix_test
run() { "$build/tests/matrix/matrix_test" --vectors "$here/vectors/matrix.json" --device "$@"; }
run "$build/lib/dgx/libdgx_cuda_emulated.so" --count "${COUNT:-300}"
module=$build/lib/dgx/libdgx_cuda_translated.so
[ -e "$module" ] || { echo "tests/slow/generated.sh: built without nvcc: no PTX was run" >&2; exit 1; }
run "$module" --count 0
