#!/bin/sh
# The built-in models on real data: the accuracies they reach, and their learning curves beside eager PyTorch's (curves.py): PyPI's 2.11
# if cmake/bootstrap.sh --bench has fetched it, else Debian's. About 25 minutes on two cores. BUILD/curves keeps the runs, so that it can be interrupted, the picture and the table.
set -eu
build=$1
here=$(cd "$(dirname "$0")/.." && pwd)
for package in python3-torch libopenblas0-pthread bible-kjv; do
  dpkg-query -W "$package" >/dev/null 2>&1 || { echo "needs $package" >&2; exit 1; }
done
cmake --build "$build" --target programs dgx_torch dgx_h5zstd
[ ! -d build/peer/torch ] || export PYTHONPATH="$PWD/build/peer"
exec /usr/bin/python3 -W ignore "$here/slow/curves.py" --bin "$build/bin" --plugins "$build/lib/dgx/hdf5-plugin" --folder "$build/curves"
