#!/bin/sh
# Mutants: MUTANTS (default 60) small changes of the rules of money and disputes, drawn by SEED (default 1), each built and run against the tests of its file.
# None may survive that is not known to be equivalent.
set -eu
exec /usr/bin/python3 tests/slow/mutants.py --build "$1" --count "${MUTANTS:-60}" --seed "${SEED:-1}" --jobs "${JOBS:-2}"
