#!/bin/sh
# Markets: HISTORIES (default 100,000) drawn histories of a task from SEED (default 1), honest parties against liars, stallers and griefers.
# Nobody honest may lose, no wrong proof may be paid, every sum is conserved. Then all histories of small markets in which
# solvers name their verifiers and liars begin no games; where they begin one, all but those with more than one honest challenger of a wrong proof;
# where verifiers are drawn and liars begin none, all but those with three; and SEQUENCES (default 5,000) of those that draw, audit and force errors for each choice of who is honest,
# with GAMES (default 1) begun by others. Some are walked through again, to check that states which were taken for one may be.
set -eu
build=$1
cmake --build "$build" -j "${JOBS:-2}" --target market_histories market_explored
"$build/tests/slow/market_histories" "${HISTORIES:-100000}" "${SEED:-1}"
explored="$build/tests/slow/market_explored"
"$explored" 0 0 named
for choice in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 15; do "$explored" 0 0 drawn "$choice"; done
for choice in 1 3 4 5 7 8 9 11 13 15; do "$explored" 0 1 named "$choice"; done
"$explored" 0 1 named 0 whole
"$explored" 0 1 named 2 checked
"$explored" 0 0 named 6 checked
"$explored" 0 0 drawn 0 whole
"$explored" 0 0 drawn 2 checked
for kind in drawn audited forced; do "$explored" "${SEQUENCES:-5000}" "${GAMES:-1}" "$kind"; done
