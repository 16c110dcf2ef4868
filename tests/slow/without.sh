#!/bin/sh
# Every test without each of the optional things in turn (NAMES="numpy h5py": those), compared with tests/without.txt: hours on two cores.
set -eu
exec /usr/bin/python3 tests/without.py check ${NAMES:-} --build "$1" --all
