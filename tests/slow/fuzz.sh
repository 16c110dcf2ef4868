#!/bin/sh
# Every fuzz target under libFuzzer with the address and undefined-behaviour sanitizers, SECONDS_EACH (default 60) each:
#
#   sh tests/run.sh --slow fuzz            all of them
#   SECONDS_EACH=600 TARGETS="json program" sh tests/run.sh --slow fuzz
#   DGX_TORCH=off sh tests/run.sh --slow fuzz      all but archive, which needs libtorch
#
# Builds with clang++ into build/fuzzers, where corpora and crashes stay: a crash is a file crash-… in build/fuzzers/TARGET, and
# `build/fuzzers/tests/fuzz/replay_TARGET --file FILE` replays it.
set -eu
cd "$(dirname "$0")/../.."
command -v clang++ >/dev/null || { echo "tests/slow/fuzz.sh: clang++ is not installed" >&2; exit 1; }
build=build/fuzzers
seconds=${SECONDS_EACH:-60}
cmake --preset asan -B "$build" "-DDGX_TORCH=${DGX_TORCH:-pypi}" -DDGX_FUZZERS=ON -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
  -DCMAKE_CXX_FLAGS=-fsanitize=fuzzer-no-link >"$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }
targets=${TARGETS:-$(sed -n 's/^ *dgx_fuzz_target(\([a-z_]*\) .*/\1/p' tests/fuzz/CMakeLists.txt)}
[ "${DGX_TORCH:-}" != off ] || targets=$(echo $targets | sed 's/\<archive\>//')
programs=
for target in $targets; do programs="$programs fuzz_$target replay_$target"; done
cmake --build "$build" -j "${JOBS:-2}" --target $programs
export DGX_H5="$PWD/$build/libexec/dgx-h5"
export LSAN_OPTIONS="suppressions=$PWD/tests/fuzz/libtorch.supp:print_suppressions=0"
failed=
for target in $targets; do
  folder=$build/$target
  mkdir -p "$folder/corpus"
  "$build/tests/fuzz/replay_$target" --seeds "$folder/corpus"
  # libtorch's vectors are made by code without the sanitizer's marks.
  case $target in archive) most_mb=1024 options=detect_container_overflow=0 ;; *) most_mb=4096 options= ;; esac
  ASAN_OPTIONS="$options" "$build/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=30 -rss_limit_mb="$most_mb" -max_len=16384 -print_final_stats=1 \
    -artifact_prefix="$folder/" "$folder/corpus" >"$folder/log" 2>&1 || failed="$failed $target"
  printf '%-14s %12s inputs  %s\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/log")" \
    "$(case " $failed " in *" $target "*) echo "failed: see $folder/log" ;; *) echo ok ;; esac)"
done
[ -z "$failed" ]
