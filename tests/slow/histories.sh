#!/bin/sh
# Markets: HISTORIES (default 100,000) drawn histories of a task from SEED (default 1), honest parties against liars, stallers and griefers.
# Nobody honest may lose, no wrong proof may be paid, every sum is conserved. Then all histories of small markets in which
# solvers name their verifiers, and SEQUENCES (default 5,000) of those of each other kind and choice of who is honest, with GAMES (default 1) begun by others.
set -eu
build=$1
cmake --build "$build" -j "${JOBS:-2}" --target market_histories market_explored
"$build/tests/slow/market_histories" "${HISTORIES:-100000}" "${SEED:-1}"
"$build/tests/slow/market_explored" 0 "${GAMES:-1}" named
for kind in drawn audited forced; do "$build/tests/slow/market_explored" "${SEQUENCES:-5000}" "${GAMES:-1}" "$kind"; done
