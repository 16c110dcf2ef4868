#!/bin/sh
# Workers that send a thousandth of their numbers reach the accuracy of dense ones (dgc.py): the perceptron on Fashion-MNIST, 12 epochs, three seeds.
# About 25 minutes on two cores. BUILD/dgc keeps the runs, so that it can be interrupted.
set -eu
build=$1
here=$(cd "$(dirname "$0")/.." && pwd)
dpkg-query -W dataset-fashion-mnist >/dev/null 2>&1 || { echo "needs dataset-fashion-mnist" >&2; exit 1; }
cmake --build "$build" --target programs dgx_torch dgx_h5zstd
exec /usr/bin/python3 "$here/slow/dgc.py" --bin "$build/bin" --folder "$build/dgc"
