#!/bin/sh
# Markets: HISTORIES (default 100,000) drawn histories of a task from SEED (default 1), honest parties against liars, stallers and griefers.
# Nobody honest may lose, no wrong proof may be paid, every sum is conserved.
set -eu
build=$1
cmake --build "$build" -j "${JOBS:-2}" --target market_histories
"$build/tests/slow/market_histories" "${HISTORIES:-100000}" "${SEED:-1}"
