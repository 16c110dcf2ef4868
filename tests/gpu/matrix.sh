#!/bin/sh
# usage: matrix.sh MATRIX_TEST VECTORS MODULE UNIT_TEST …: all forms of primitives on the GPU, and what unit tests say of devices; once more
# small ones under each tool of compute-sanitizer where it is found. Exits 77 without a GPU.
set -eu
test=$1 vectors=$2 module=$3
shift 3
if ! said=$("$test" --vectors "$vectors" --only product/outer --count 0 --device "$module" 2>&1); then
  case $said in
    *"--device cuda:"*) echo "skipped, no GPU: $(echo "$said" | grep -o -e '--device cuda:.*' | head -1)"; exit 77 ;;
  esac
fi
"$test" --vectors "$vectors" --device "$module"
export DGX_TEST_DEVICE="$module"
for unit; do "$unit" "[device]~[emulated]"; done
command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not installed: memcheck and racecheck were not run"; exit 0; }
for tool in memcheck racecheck initcheck synccheck; do
  compute-sanitizer --tool $tool --error-exitcode 9 "$test" --vectors "$vectors" --device "$module" --work 20000 --count 20
  for unit; do compute-sanitizer --tool $tool --error-exitcode 9 "$unit" "[device]~[emulated]"; done
done
