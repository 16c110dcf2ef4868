#!/bin/sh
# Every float through the contract's functions, against MPFR (tests/slow/functions.cc); and through what nvcc made of them for a GPU, both ways, on the CPU
# (tests/gpu/functions.cc, tests/gpu/ptx). Without nvcc it ends as a failure, once the first is done.
set -eu
build=$1
cmake --build "$build" --target functions_proof || { echo "needs libmpfr-dev and libgmp-dev" >&2; exit 1; }
"$build/tests/slow/functions_proof"
module=$build/lib/dgx/libdgx_cuda_translated.so
[ -e "$module" ] || { echo "tests/slow/functions.sh: built without nvcc: what a GPU computes was not run" >&2; exit 1; }
for way in pairs binary64; do
  "$build/tests/gpu/functions_on_device" "$module" $way exp log tanh erf &
  "$build/tests/gpu/functions_on_device" "$module" $way expm1 log1p sin cos
  wait $!
done
