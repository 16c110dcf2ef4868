#!/bin/sh
# Simulated markets beside the closed forms of dgx-money(7): break-even bonds within 2 %, volunteers within 5 %, rates, and the jackpot account, for five
# policies of which two are bad and four force errors. TASKS (default 200,000) for each.
set -eu
build=$1
cmake --build "$build" -j "${JOBS:-2}" --target dgx-settle
/usr/bin/python3 tests/slow/simulate.py "$build/bin/dgx-settle" "${TASKS:-200000}"
