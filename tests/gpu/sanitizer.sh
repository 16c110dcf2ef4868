#!/bin/sh
# usage: sanitizer.sh MATRIX_TEST VECTORS MODULE UNIT_TEST …: small forms of primitives on the GPU, and what unit tests say of devices, under each tool
# of compute-sanitizer. Exits 77 without a GPU, and without compute-sanitizer, unless DGX_TESTS_GPU (sh tests/run.sh --gpu) asks for all that needs a
# GPU: then its absence is a failure, unless DGX_TESTS_WITHOUT names it.
set -eu
test=$1 vectors=$2 module=$3
shift 3
"$test" --vectors "$vectors" --only product/outer --count 0 --device "$module"  # exits 77 without a GPU
case " ${DGX_TESTS_WITHOUT:-} " in
  *" compute-sanitizer "*) echo "skipped: told to do without compute-sanitizer"; exit 77 ;;
esac
if ! command -v compute-sanitizer >/dev/null; then
  if [ -n "${DGX_TESTS_GPU:-}" ]; then
    echo "FAILED: compute-sanitizer is not installed: memcheck, racecheck, initcheck and synccheck were not run (--without compute-sanitizer: never mind)"
    exit 1
  fi
  echo "skipped: compute-sanitizer is not installed"
  exit 77
fi
export DGX_TEST_DEVICE="$module"
for tool in memcheck racecheck initcheck synccheck; do
  compute-sanitizer --tool $tool --error-exitcode 9 "$test" --vectors "$vectors" --device "$module" --work 20000 --count 20
  for unit; do compute-sanitizer --tool $tool --error-exitcode 9 "$unit" "[device]~[emulated]"; done
done
