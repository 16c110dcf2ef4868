#!/bin/sh
# Every float through the contract's functions, against MPFR (tests/slow/functions.cc).
set -eu
build=$1
cmake --build "$build" --target functions_proof || { echo "needs libmpfr-dev and libgmp-dev" >&2; exit 1; }
exec "$build/tests/slow/functions_proof"
