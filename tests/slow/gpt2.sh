#!/bin/sh
# GPT-2 small trains, commits and is replayed for a segment, within 16 GiB (large.py): what every program takes. About two minutes on
# two cores, 6 GB of disk in the build folder.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
cmake --build "$build" -j "${JOBS:-2}" --target programs dgx_torch
exec /usr/bin/python3 "$here/large.py" gpt2 --bin "$build/bin" --folder "$build"
