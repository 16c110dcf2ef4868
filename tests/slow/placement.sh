#!/bin/sh
# Drawn tasks, workers, ranks, plans, networks, parts and places to go on, against one process, for MINUTES (default 60) from SEED (default 1); before
# that, ranks that are killed KILLS times (default 20) in one run. Needs mpirun, NumPy and Debian's python3-torch.
set -eu
build=$1
cmake --build "$build" -j "${JOBS:-2}" --target dgx-programs dgx-train dgx-submit dgx-pack dgx-plan dgx-key dgx-prove dgx-verify dgx-inspect dgx_mpi dgx_torch
exec /usr/bin/python3 tests/slow/placement.py --bin "$build/bin" --plugins "$build/lib/dgx/hdf5-plugin" --minutes "${MINUTES:-60}" --seed "${SEED:-1}" --kills "${KILLS:-20}"
