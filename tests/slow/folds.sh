#!/bin/sh
# Games about folds of sizes around every limit, GAMES (default 2) attacks and defences each, between dgx-bisect and the second implementation, which
# lies: all sizes up to 4097, then those around 2048². SEED (default 1) draws where.
set -eu
build=$1
here=$(cd "$(dirname "$0")/.." && pwd)
cmake --build "$build" -j "${JOBS:-2}" --target programs dgx_h5zstd
for sizes in all large; do
  /usr/bin/python3 "$here/interop/fold_limits.py" --bin "$build/bin" --plugins "$build/lib/dgx/hdf5-plugin" --sizes "$sizes" --games "${GAMES:-2}" --seed "${SEED:-1}"
done
