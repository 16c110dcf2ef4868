#!/bin/sh
# Forged trainings: ATTACKS (default 5,000) of each kind, replayed and disputed. tests/attacks/README.md has the table of 200 each.
set -eu
build=$1
cmake --build "$build" -j "${JOBS:-2}" --target rates_attack_test
DGX_ATTACKS=${ATTACKS:-5000} exec "$build/tests/attacks/rates_attack_test"
