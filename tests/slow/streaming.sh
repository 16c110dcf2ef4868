#!/bin/sh
# A task on GIB (default 10) GiB of samples, that no program brings into memory (large.py): what every program takes. About ten minutes
# on two cores; the build folder's disk needs three times the samples.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
cmake --build "$build" -j "${JOBS:-2}" --target programs dgx_torch
exec /usr/bin/python3 "$here/large.py" streaming --gib "${GIB:-10}" --bin "$build/bin" --folder "$build"
