#!/bin/sh
# Measures, and prints one line a result:
#
#   sh tests/bench/run.sh                all that this build can measure
#   sh tests/bench/run.sh NAME           one of: matmul, step, convolution, checkpoint, sha256, start
#   sh tests/bench/run.sh --json [NAME]  lines of JSON where a benchmark has them
#
# BUILD is the build folder (default build/release), DGX_TORCH as for tests/run.sh. checkpoint needs FASHION_MNIST, the folder with the
# four IDX files of that name. Compare figures of one run only: another run is another load of the machine.
set -eu
cd "$(dirname "$0")/../.."

usage() { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }

json= name=all
for argument in "$@"; do
  case "$argument" in
    --json) json=--json ;;
    all|matmul|step|convolution|checkpoint|sha256|start) name=$argument ;;
    *) usage ;;
  esac
done
build=${BUILD:-build/release}
[ -e "$build/build.ninja" ] || cmake --preset release -B "$build" "-DDGX_TORCH=${DGX_TORCH:-pypi}" >&2
wanted() { [ "$name" = all ] || [ "$name" = "$1" ]; }
make_target() { cmake --build "$build" --target "$@" >&2; }
has_target() { cmake --build "$build" --target help | grep -q "^$1:"; }
report() { # NAME VALUE UNIT
  if [ -n "$json" ]; then
    printf '{"bench":"%s","value":"%s","unit":"%s"}\n' "$1" "$2" "$3"
  else
    printf '%s: %s %s\n' "$1" "$2" "$3"
  fi
}

# GF/s of products, ours and those of the libraries found.
bench_matmul() {
  make_target matmul_bench
  OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-SkylakeX} "$build/tests/bench/matmul_bench"
}

# A training step against eager libtorch.
bench_step() {
  has_target step_bench || { echo "tests/bench/run.sh: step needs libtorch" >&2; return 0; }
  make_target step_bench
  "$build/tests/bench/step_bench" $json
}

# GF/s of 3×3 convolutions and their gradients against eager libtorch.
bench_convolution() {
  has_target convolution_bench || { echo "tests/bench/run.sh: convolution needs libtorch" >&2; return 0; }
  make_target convolution_bench
  "$build/tests/bench/convolution_bench" $json
}

# What checkpoints take from training: four epochs with the default interval and with a single segment, the best of five in turns.
bench_checkpoint() {
  [ -n "${FASHION_MNIST:-}" ] || { echo "tests/bench/run.sh: checkpoint needs FASHION_MNIST" >&2; return 0; }
  make_target dgx-pack dgx-key dgx-submit dgx-train dgx_torch
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  tools=$build/bin
  "$tools/dgx-key" new "$work/key" >/dev/null
  "$tools/dgx-pack" idx --images "$FASHION_MNIST/train-images-idx3-ubyte.gz" \
    --labels "$FASHION_MNIST/train-labels-idx1-ubyte.gz" --scale 0.00392156863 -o "$work/data.h5" >/dev/null
  submit() {
    "$tools/dgx-submit" --data "$work/data.h5" --model mlp:784-256-128-10 --loss cross-entropy \
      --optimizer sgd:lr=0.1,momentum=0.9 --batch 128 --epochs 4 --key "$work/key.pem" "$@" >/dev/null
  }
  seconds_of() { # TASK
    rm -rf "$work/run"
    "$tools/dgx-train" "$work/$1.json" --data "$work/data.h5" -o "$work/run" --threads 1 --json |
      sed -n 's/.*"seconds":"\{0,1\}\([0-9.]*\).*/\1/p' | head -1
  }
  submit -o "$work/default.json"
  submit --checkpoint-every 1000000 -o "$work/single.json"
  for _ in 1 2 3 4 5; do
    printf '%s %s\n' "$(seconds_of default)" "$(seconds_of single)"
  done >"$work/seconds"
  best() { cut -d' ' -f "$1" "$work/seconds" | sort -n | head -1; }
  report train-default-interval "$(best 1)" s
  report train-single-segment "$(best 2)" s
  report checkpoint-share "$(awk "BEGIN {printf \"%.1f\", ($(best 1) / $(best 2) - 1) * 100}")" %
}

# SHA-256 in GB/s, ours and openssl's.
bench_sha256() {
  make_target sha256_bench
  "$build/tests/bench/sha256_bench" $json
  ! command -v openssl >/dev/null ||
    report sha256-openssl "$(openssl speed -seconds 1 -bytes 1048576 sha256 2>/dev/null | awk '/^sha256/ {printf "%.2f", $2 / 1e6}')" GB/s
}

# How long every program takes to say its version: what a script pays for each call.
bench_start() {
  for source in tools/dgx-*.cc; do
    program=$(basename "$source" .cc)
    make_target "$program"
    best=
    for _ in 1 2 3 4 5; do
      begin=$(date +%s%N)
      "$build/bin/$program" --version >/dev/null
      took=$((($(date +%s%N) - begin) / 1000))
      [ -n "$best" ] && [ "$best" -le "$took" ] || best=$took
    done
    report "start-$program" "$(awk "BEGIN {printf \"%.1f\", $best / 1000}")" ms
  done
}

for part in matmul step convolution checkpoint sha256 start; do
  if wanted "$part"; then "bench_$part"; fi
done
