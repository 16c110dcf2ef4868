#!/bin/sh
# Messages, broadcasts and gathers beyond 2 GiB by MPI, whose own counts end there: 12 GiB of memory, a minute.
set -eu
build=$1
here=$(cd "$(dirname "$0")/.." && pwd)
cmake --build "$build" --target exchange_mpi_test dgx_mpi
exec /usr/bin/python3 "$here/unit/exchange/mpi.py" "$build/tests/unit/exchange/exchange_mpi_test" "$build/lib/dgx/libdgx_mpi.so" --large
