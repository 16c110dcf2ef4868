#!/bin/sh
# Every enumerated case of the matrix, and COUNT (default 300) drawn ones, with the kernels that are generated for each, on the emulated device: some three minutes.
set -eu
build=$1
here=$(cd "$(dirname "$0")/.." && pwd)
cmake --build "$build" -j "${JOBS:-2}" --target matrix_test
exec "$build/tests/matrix/matrix_test" --vectors "$here/vectors/matrix.json" --device "$build/lib/libdgx_cuda_emulated.so" --count "${COUNT:-300}"
