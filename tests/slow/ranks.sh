#!/bin/sh
# Messages, broadcasts and gathers beyond 2 GiB by MPI, whose own counts end there: 12 GiB of memory, a minute. And all that may happen to one of several ranks.
set -eu
build=$1
here=$(cd "$(dirname "$0")/.." && pwd)
cmake --build "$build" --target exchange_mpi_test dgx_mpi dgx-train dgx-submit dgx-pack dgx-plan dgx-key dgx_torch
/usr/bin/python3 "$here/interop/rank_failures.py" --bin "$build/bin" --plugins "$build/lib/dgx/hdf5-plugin" --all
exec /usr/bin/python3 "$here/unit/exchange/mpi.py" "$build/tests/unit/exchange/exchange_mpi_test" "$build/lib/dgx/libdgx_mpi.so" --large
