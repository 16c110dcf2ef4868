#!/bin/sh
# A model whose activations cross a cut in two bits reaches the accuracy of a whole one, and its messages come closer and closer to the activations
# (aqsgd.py): the perceptron on Fashion-MNIST, 12 epochs, three seeds. About 5 minutes on two cores. BUILD/aqsgd keeps the runs, so that it can be interrupted.
set -eu
build=$1
here=$(cd "$(dirname "$0")/.." && pwd)
dpkg-query -W dataset-fashion-mnist >/dev/null 2>&1 || { echo "needs dataset-fashion-mnist" >&2; exit 1; }
cmake --build "$build" --target programs dgx_torch dgx_h5zstd
HDF5_PLUGIN_PATH=$build/lib/dgx/hdf5-plugin exec /usr/bin/python3 "$here/slow/aqsgd.py" --bin "$build/bin" --folder "$build/aqsgd"
