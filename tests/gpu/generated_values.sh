#!/bin/sh
# usage: generated_values.sh MATRIX_TEST VECTORS MODULE UNIT_TEST: what is generated for single values, on the GPU. Exits 77 without a GPU or a compiler
# for it.
set -eu
. "$(dirname "$0")/found.sh"
gpu_or_skip "$1" "$2" "$3"
DGX_TEST_DEVICE=$3 exec "$4" "[generated]"
