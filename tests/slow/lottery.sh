#!/bin/sh
# Forced errors: of VERDICTS (default 10,000) verdicts, half of them forced, a classifier trained on their bytes may not be right in more than
# 50 % and WITHIN (default 0.02), nor in less; they have one size, and dgx-verify takes one time. JOBS at a time (default 1).
set -eu
build=$1
cmake --build "$build" -j 2 --target dgx-programs dgx-submit dgx-settle dgx-key dgx-pack
/usr/bin/python3 tests/slow/lottery.py --bin "$build/bin" --verdicts "${VERDICTS:-10000}" --within "${WITHIN:-0.02}" --jobs "${JOBS:-1}"
