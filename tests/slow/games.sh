#!/bin/sh
# Disputes: GAMES (default 1,000,000) drawn games between somebody honest and a liar, from SEED (default 1). Nobody honest may lose, no game
# may be longer than the page says.
set -eu
build=$1
cmake --build "$build" -j "${JOBS:-2}" --target dispute_games
"$build/tests/slow/dispute_games" "${GAMES:-1000000}" "${SEED:-1}"
