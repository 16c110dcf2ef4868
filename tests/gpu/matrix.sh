#!/bin/sh
# usage: matrix.sh MATRIX_TEST VECTORS MODULE UNIT_TEST …: all forms of primitives on the GPU, and what unit tests say of devices. Exits 77 without
# a GPU or NVRTC.
set -eu
test=$1 vectors=$2 module=$3
shift 3
"$test" --vectors "$vectors" --device "$module"
export DGX_TEST_DEVICE="$module"
for unit; do "$unit" "[device]~[emulated]"; done
