#!/bin/sh
# Disputes at random places of eleven models' programs, COUNT of them (default 5000), from SEED (default 1).
set -eu
build=$1
here=$(cd "$(dirname "$0")/.." && pwd)
cmake --build "$build" -j "${JOBS:-2}" --target programs play_disputes
exec /usr/bin/python3 -W ignore "$here/attacks/drilled_disputes.py" --bin "$build/bin" --player "$build/tests/attacks/play_disputes" \
  --disputes "${COUNT:-5000}" --seed "${SEED:-1}"
