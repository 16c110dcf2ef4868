#!/bin/sh
# Every write of train, prove, verify, bisect, settle, pack and key, cut and failed at every call to the system (cuts/cuts.py):
#
#   sh tests/run.sh --slow cuts                       all of them
#   ONLY=train POINTS=50 SEED=7 sh tests/run.sh --slow cuts    50 drawn points of each way to fail
set -eu
build=${1:-build/release}
cd "$(dirname "$0")/../.."
exec /usr/bin/python3 tests/slow/cuts/cuts.py --bin "$build/bin" --shim "$build/tests/slow/libcuts_shim.so" --seed "${SEED:-1}" \
  ${POINTS:+--points "$POINTS"} ${ONLY:+--only "$ONLY"}
