#!/bin/sh
# The configuration matrix at length: every enumerated case, drawn ones for MINUTES (default 10), then NETWORKS (default 100) small
# networks put together at random, trained under every configuration. SEED=S repeats a run's drawn cases.
set -eu
build=$1
here=$(cd "$(dirname "$0")/.." && pwd)
cmake --build "$build" -j "${JOBS:-2}" --target matrix_test
"$build/tests/matrix/matrix_test" --vectors "$here/vectors/matrix.json" --minutes "${MINUTES:-10}" ${SEED:+--seed "$SEED"}
[ "${NETWORKS:-100}" -gt 0 ] || { echo "skipped: no networks were asked for (NETWORKS=0)"; exit 0; }
/usr/bin/python3 -W ignore "$here/models/random_networks.py" --bin "$build/bin" --count "${NETWORKS:-100}"
