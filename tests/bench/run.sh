#!/bin/sh
# Measures, and prints one row a result: exact beside its peer in the same run, in turns, the median and the spread (half the distance
# between the quartiles), and how many times as fast it is.
#
#   sh tests/bench/run.sh                all that this build can measure
#   sh tests/bench/run.sh NAME           one of: peak, product, step, convolution, function, gpu, checkpoint, verify, batch, distributed, plans,
#                                        hash, ledger, dispute, start
#   sh tests/bench/run.sh --json [NAME]  a JSON object a row: name, dgx, peer, peer_name, ratio, threads, unit, spreads, bytes at peak, shares; before
#                                        them one that names the machine, as results.py wants a record
#
# Products and steps run twice, with the widest instructions and with both sides held to AVX2. OpenBLAS is told the widest kernels that
# the processor has; their name stands in the row. BUILD is the build folder (default build/release), DGX_TORCH as for tests/run.sh.
# gpu needs nvcc and a GPU; its peers are cuBLAS and a libtorch with CUDA, where they are found (LD_LIBRARY_PATH), and torch.compile.
# checkpoint, verify, batch, distributed and the steps on images need FASHION_MNIST, the folder with the four IDX files of that name (default: Debian's); the TorchScript steps
# need python3-torch, and torch.compile what cmake/bootstrap.sh --bench installs. DGX_BENCH_CLOCK=cpu counts processor time with one thread. Compare figures of one run only: another run is another
# load of the machine. chart.py beside this file draws the rows of --json.
set -eu
cd "$(dirname "$0")/../.."

usage() { sed -n '2,16s/^# \{0,1\}//p' "$0" >&2; exit 2; }

# Variables of the caller that would hold a peer to less than the machine can do.
unset NVIDIA_TF32_OVERRIDE OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OPENBLAS_NUM_THREADS ATEN_CPU_CAPABILITY MKL_ENABLE_INSTRUCTIONS ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA OMP_NUM_THREADS

json= name=all
for argument in "$@"; do
  case "$argument" in
    --json) json=--json ;;
    all|peak|product|step|convolution|function|gpu|checkpoint|verify|batch|distributed|plans|hash|ledger|dispute|start) name=$argument ;;
    *) usage ;;
  esac
done
build=${BUILD:-build/release}
[ -e "$build/build.ninja" ] || cmake --preset release -B "$build" "-DDGX_TORCH=${DGX_TORCH:-pypi}" >&2
tools=$build/bin
benches=$build/tests/bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

skip() { echo "tests/bench/run.sh: $*" >&2; return 0; }
has_flag() { grep -qw "$1" /proc/cpuinfo; }
make_target() { cmake --build "$build" --target "$@" >"$work/build.log" || { cat "$work/build.log" >&2; return 1; }; }
has_target() { cmake --build "$build" --target help >"$work/targets" && grep -q "^$1:" "$work/targets"; }
bench_of() { # TARGET OPTION...
  target=$1; shift
  has_target "$target" || { skip "$target needs libtorch"; return 0; }
  make_target "$target"
  "$benches/$target" $json "$@"
}
# Both sides: libtorch's own kernels, MKL's and oneDNN's; OpenBLAS's kernels for AVX2 are named Haswell. Inductor's cache does not know which
# instruction set a graph was compiled for, and a graph of the other one crashes: each has a cache of its own.
with_avx2() {
  env TORCHINDUCTOR_CACHE_DIR="$work/inductor-avx2" ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell "$@"
}
median() { sort -n | awk '{ x[NR] = $1 } END { print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2 }'; }
# row NAME THREADS UNIT DGX [PEER PEER_NAME]: in units of which less is better
row() {
  awk -v json="$json" -v name="$1" -v threads="$2" -v unit="$3" -v dgx="$4" -v peer="${5:-}" -v peer_name="${6:-}" 'BEGIN {
    ratio = peer == "" ? "null" : sprintf("%.3f", peer / dgx)
    if (json != "") printf "{\"name\":\"%s\",\"dgx\":%.5g,\"peer\":%s,\"peer_name\":%s,\"ratio\":%s,\"threads\":%d,\"unit\":\"%s\"}\n",
      name, dgx, peer == "" ? "null" : sprintf("%.5g", peer), peer == "" ? "null" : "\"" peer_name "\"", ratio, threads, unit
    else if (peer == "") printf "%-34s %d  dgx %9.4g %s\n", name, threads, dgx, unit
    else printf "%-34s %d  dgx %9.4g %s   %s %9.4g %s   ratio %.2f\n", name, threads, dgx, unit, peer_name, peer, unit, ratio
  }'
}

# What the machine can do at most.
bench_peak() { bench_of peak_bench; }

# GF/s of products, ours and those of the libraries found.
bench_product() {
  core=Haswell
  ! has_flag avx512f || core=SkylakeX
  (export OPENBLAS_CORETYPE=$core; bench_of matmul_bench)  # before a function, some shells would not export it
  ! has_flag avx512f || with_avx2 "$benches/matmul_bench" $json --isa avx2
}

# Sets $scripts to the option that names TorchScript models, and $compiled to the command that starts PyTorch's Python; empty where that is not there.
pythons_peers() {
  scripts= compiled=
  if /usr/bin/python3 -c 'import torch, h5py, numpy' 2>/dev/null; then
    /usr/bin/python3 tests/bench/scripted.py "$work"
    scripts="--scripts $work"
  else
    skip "the TorchScript steps need python3-torch"
  fi
  if [ -d build/peer/torch ]; then
    compiled="PYTHONPATH=build/peer exec /usr/bin/python3 tests/bench/compiled.py"
  else
    skip "torch.compile needs what sh cmake/bootstrap.sh --bench installs"
  fi
}

# Training steps against libtorch.
bench_step() {
  pythons_peers
  data=
  ! has_images || {
    gzip -dc "$images/train-images-idx3-ubyte.gz" | tail -c +17 >"$work/images"
    gzip -dc "$images/train-labels-idx1-ubyte.gz" | tail -c +9 >"$work/labels"
    data="--data $work"
  }
  (
    export TORCHINDUCTOR_CACHE_DIR="$work/inductor" CUDA_VISIBLE_DEVICES=
    bench_of step_bench $scripts $data --compiled "$compiled"
    ! has_target step_bench || ! has_flag avx512f || with_avx2 "$benches/step_bench" $json $scripts $data --compiled "$compiled" --isa avx2
  )
}

# On a GPU: products against cuBLAS, steps against a libtorch that has CUDA.
bench_gpu() {
  has_target gpu_product_bench || { skip "the GPU's products and steps need nvcc"; return 0; }
  make_target gpu_product_bench dgx_cuda
  "$benches/gpu_product_bench" $json --device "$build/lib/dgx/libdgx_cuda.so" || { code=$?; [ $code = 77 ] || return $code; return 0; }
  pythons_peers
  (
    export TORCHINDUCTOR_CACHE_DIR="$work/inductor-gpu"
    # The libtorch from PyPI without CUDA gives way to the same version with CUDA, which the Python has.
    [ "${DGX_TORCH:-pypi}" != pypi ] || export LD_LIBRARY_PATH="$PWD/build/peer/torch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    bench_of step_bench --device "$build/lib/dgx/libdgx_cuda.so" $scripts --compiled "$compiled"
  )
}

bench_convolution() { bench_of convolution_bench; }
bench_function() { bench_of functions_bench; }

# Finds Fashion-MNIST; false if that is not there.
has_images() {
  images=${FASHION_MNIST:-$(dirname "$(dpkg -L dataset-fashion-mnist 2>/dev/null | grep train-images)")}
  [ -e "$images/train-images-idx3-ubyte.gz" ] || { skip "no Fashion-MNIST in $images"; return 1; }
}

# Sets up $work with a key and Fashion-MNIST.
fashion() {
  has_images || return 1
  has_target dgx_torch || { skip "dgx-submit needs libtorch"; return 1; }
  [ ! -e "$work/data.h5" ] || return 0
  make_target dgx-pack dgx-key dgx-submit dgx-train dgx-prove dgx-verify dgx_torch
  "$tools/dgx-key" new "$work/key" >"$work/log"
  "$tools/dgx-pack" idx --images "$images/train-images-idx3-ubyte.gz" --labels "$images/train-labels-idx1-ubyte.gz" \
    --scale 0.00392156863 -o "$work/data.h5" >"$work/log"
}
submit() { # NAME OPTION...
  task=$1; shift
  "$tools/dgx-submit" --data "$work/data.h5" --model mlp:784-256-128-10 --loss cross-entropy \
    --optimizer sgd:lr=0.1,momentum=0.9 --batch 128 --key "$work/key.pem" -o "$work/$task.json" "$@" >"$work/log"
}
train_seconds() { # NAME THREADS
  rm -rf "$work/run"
  "$tools/dgx-train" "$work/$1.json" --data "$work/data.h5" -o "$work/run" --threads "$2" --json -q |
    sed -n 's/.*[{,]"seconds":\([0-9.]*\).*/\1/p' | head -1
}
# Wall seconds of a command.
wall() {
  begin=$(date +%s%N)
  "$@" >"$work/log"
  awk -v t=$(($(date +%s%N) - begin)) 'BEGIN { print t / 1e9 }'
}

# What checkpoints take from training: four epochs with the default interval beside a single segment, in turns.
bench_checkpoint() {
  fashion || return 0
  submit default --epochs 4
  submit single --epochs 4 --checkpoint-every 1000000
  for threads in 1 2; do
    : >"$work/default" && : >"$work/single"
    for _ in 1 2 3 4 5; do
      train_seconds default "$threads" >>"$work/default"
      train_seconds single "$threads" >>"$work/single"
    done
    row checkpoint-default-interval "$threads" s "$(median <"$work/default")" "$(median <"$work/single")" "no checkpoint but the last"
  done
}

# Proving, opening and verifying 5 of 100 segments beside the training.
bench_verify() {
  fashion || return 0
  submit verified --epochs 10 --checkpoint-every 47
  training=$(train_seconds verified 2)
  prove=$(wall "$tools/dgx-prove" "$work/verified.json" "$work/run" --key "$work/key.pem" -o "$work/proof.json")
  : >"$work/times"
  for n in 1 2 3 4 5; do
    wall "$tools/dgx-verify" "$work/verified.json" "$work/proof.json" --from "$work/run" --data "$work/data.h5" --fraction 0.05 \
      --key "$work/key.pem" -o "$work/verdict-$n.json" --threads 2 >>"$work/times"
  done
  row prove-100-segments 2 s "$prove" "$training" "the training"
  row verify-5-of-100-segments 2 s "$(median <"$work/times")" "$training" "the training"
}

# Many proofs in one call, a long list, and a dataset larger than memory should be: DGX_BENCH_GIB, 10 unless set.
bench_batch() {
  fashion || return 0
  /usr/bin/python3 -c 'import numpy' 2>/dev/null || { skip "batches need python3-numpy"; return 0; }
  /usr/bin/python3 tests/bench/batch.py "$tools" "$work" "${DGX_BENCH_GIB:-10}" | while read -r what unit value; do row "$what" 1 "$unit" "$value"; done
}

# A step on two ranks of one thread, beside one process of one thread.
bench_distributed() {
  fashion || return 0
  command -v mpirun >/dev/null || { skip "ranks need openmpi-bin"; return 0; }
  make_target dgx-plan dgx_mpi
  { /usr/bin/python3 tests/bench/distributed.py "$tools" "$work" "${TURNS:-5}" || echo failed; } | while read -r what threads unit value peer peer_name; do
    [ "$what" != failed ] || exit 1  # a pipe has the exit status of its end alone
    row "$what" "$threads" "$unit" "$value" "$peer" "$peer_name"
  done
}

# Steps of many ranks as they are foretold, of the GPT with 8 samples a rank, without workers and with one a rank.
bench_plans() {
  has_target dgx_torch || { skip "plans need libtorch"; return 0; }
  make_target plans_bench dgx-submit dgx-pack dgx-key
  folder=$(mktemp -d "$work/plans.XXXX")
  LC_ALL=C awk 'BEGIN { for (i = 0; i < 200000; ++i) printf "%c", 32 + (i * 7 + int(i / 9)) % 90 }' >"$folder/text"
  "$tools/dgx-pack" text "$folder/text" --context 256 -o "$folder/text.h5" -q >/dev/null
  "$tools/dgx-key" new "$folder/key" -q >/dev/null
  for workers in 1 2; do
    "$tools/dgx-submit" --data "$folder/text.h5" --model gpt:layers=6,width=384,heads=6,vocab=128,context=256 --loss cross-entropy --optimizer adamw:lr=1e-3 --batch $((8 * workers)) \
      --steps 6 --checkpoint-every 6 --seed 1 --key "$folder/key.pem" -o "$folder/gpt$workers.json" $([ "$workers" = 1 ] || echo --workers "$workers") -q >/dev/null
  done
  "$benches/plans_bench" "$folder/gpt1.program.jsonl" 8 1 samples $json
  "$benches/plans_bench" "$folder/gpt2.program.jsonl" 2 2 workers $json
}

# SHA-256 of a mebibyte as one message and as leaves of a tree, beside openssl's of one message.
bench_hash() {
  make_target sha256_bench
  peer=
  ! command -v openssl >/dev/null ||
    peer=$(openssl speed -seconds 1 -bytes 1048576 sha256 2>/dev/null | awk '/^sha256/ {printf "%.4f", $2 / 1e6}')
  "$benches/sha256_bench" | while read -r name speed _; do
    row "$name" 1 ns/B "$(awk "BEGIN { print 1 / $speed }")" "${peer:+$(awk "BEGIN { print 1 / $peer }")}" openssl
  done
}

# A ledger of LEDGER_ENTRIES small entries (100,000; the targets speak of 1,000,000), kept under BUILD since making it takes minutes: read, read again by one
# who remembers it, proved from; and by the programs: an append of 10,000 statements to a new ledger, and a check of the large one, twice.
bench_ledger() {
  make_target ledger_bench dgx-settle
  entries=${LEDGER_ENTRIES:-100000}
  folder=$build/bench-ledger-$entries
  mkdir -p "$folder"
  for threads in 1 2; do "$benches/ledger_bench" "$folder" "$entries" --threads $threads $json; done
  export XDG_STATE_HOME="$work/state"
  head -1 "$folder/bench.jsonl" >"$work/new.jsonl"
  head -1 "$folder/bench.receipts.jsonl" >"$work/new.receipts.jsonl"
  row settle-append-10000 2 s "$(wall "$tools/dgx-settle" append "$work/new.jsonl" "$folder/more.jsonl" --key "$folder/operator.pem" --threads 2 -q --after-pause)"
  row "settle-check-$entries" 2 s "$(wall "$tools/dgx-settle" check "$folder/bench.jsonl" --threads 2 -q)"
  row "settle-check-$entries-again" 2 s "$(wall "$tools/dgx-settle" check "$folder/bench.jsonl" --threads 2 -q)"
  bench_simulate
}

# A million simulated tasks in a hundred markets, on one thread and two.
bench_simulate() {
  make_target dgx-settle
  echo '{"beacon_source": 1, "audit_ppm": 50000}' >"$work/audited.json"
  for threads in 1 2; do
    row simulate-1000000-tasks $threads s "$(wall "$tools/dgx-settle" simulate --policy "$work/audited.json" --tasks "${SIMULATE_TASKS:-1000000}" --markets 100 \
      --seed 1 --threads $threads -q --json)"
  done
}

# A dispute at full size: 10^6 steps, 4,096 lines, 10^7 elements, and its referee: sizes and times, beside no peer.
bench_dispute() {
  make_target dispute_bench dgx-referee dgx-key
  folder=$(mktemp -d "$work/dispute.XXXX")
  "$build/bin/dgx-key" new "$folder/referee" >/dev/null
  "$build/tests/bench/dispute_bench" make "$folder" $json
  "$build/tests/bench/dispute_bench" judge "$folder" "$build/bin/dgx-referee" $json
  ! has_target dgx_torch || dispute_of_gpt
}

# A dispute by the programs about a GPT of 10.8 million parameters as it is captured: one flipped bit of a matrix product in the last step of a segment of ten.
dispute_of_gpt() {
  make_target dgx-pack dgx-submit dgx-train dgx-prove dgx-bisect dgx_torch
  programs=$(cd "$tools" && pwd)
  (
    cd "$folder"
    PATH=$programs:$PATH
    /usr/bin/python3 -c 'import numpy as np; x = np.random.default_rng(1).integers(0, 256, (64, 257)).astype("u1"); np.save("x.npy", x[:, :-1]); np.save("y.npy", x[:, 1:])'
    for who in solver challenger; do dgx-key new $who; done >log
    dgx-pack npy --x x.npy --y y.npy -o data.h5 >log
    dgx-submit --data data.h5 --model gpt:layers=6,width=384,heads=6,context=256,vocab=256 --loss cross-entropy --optimizer adamw:lr=3e-4 --batch 8 \
      --steps 20 --checkpoint-every 10 --seed 1 --key challenger.pem -o task.json >log
    product=$(sed -n 's/.*"k":"dot".*"s":\[2048,1536\].*"v":\([0-9]*\).*/\1/p' task.program.jsonl | head -1)
    dgx-train task.json --data data.h5 -o run --drill "step=9,op=$product,element=1234567,bit=20" -q >log 2>&1
    dgx-prove task.json run --key solver.pem -o proof.json >log
    dgx-bisect open task.json proof.json --segment 0 --from run --data data.h5 --key challenger.pem -o game.jsonl >log
    : >solver && : >challenger
    who=solver drill=--drill
    until dgx-bisect show game.jsonl --json | grep -q '"over":true'; do
      begin=$(date +%s%N)
      dgx-bisect move task.json game.jsonl --from run --data data.h5 --key $who.pem --notes notes-$who $drill >log 2>&1 || [ $? -eq 1 ]
      awk -v t=$(($(date +%s%N) - begin)) 'BEGIN { print t / 1e9 }' >>$who
      if [ $who = solver ]; then who=challenger drill=; else who=solver drill=--drill; fi
    done
  )
  row dispute-gpt-lines 1 lines "$(wc -l <"$folder/task.program.jsonl")"
  row dispute-gpt-messages 1 statements "$(wc -l <"$folder/game.jsonl")"
  row dispute-gpt-transcript 1 KiB "$(wc -c <"$folder/game.jsonl" | awk '{ print $1 / 1024 }')"
  for who in solver challenger; do row "dispute-gpt-move-of-$who" 2 s "$(median <"$folder/$who")"; done
  : >"$work/times"
  for n in 1 2 3 4 5 6 7 8 9; do
    wall sh -c "'$tools/dgx-referee' '$folder/game.jsonl' --key '$folder/referee.pem' -o '$folder/ruling.json' --force || [ \$? -eq 1 ]" >>"$work/times"
  done
  row dispute-gpt-referee 1 ms "$(median <"$work/times" | awk '{ print $1 * 1e3 }')"
}

# How long every program takes to say its version: what a script pays for each call; beside it, a shell that does nothing.
bench_start() {
  for source in tools/dgx-*.cc; do
    program=$(basename "$source" .cc)
    make_target "$program"
    : >"$work/times" && : >"$work/shell"
    for _ in 1 2 3 4 5 6 7 8 9; do
      wall "$tools/$program" --version >>"$work/times"
      wall /bin/sh -c : >>"$work/shell"
    done
    row "start-$program" 1 ms "$(median <"$work/times" | awk '{ print $1 * 1e3 }')" "$(median <"$work/shell" | awk '{ print $1 * 1e3 }')" "sh -c :"
  done
}

# The first line of a record.
name_machine() {
  model=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -1)
  family=$(sed -n 's/^cpu family[^:]*: *//p' /proc/cpuinfo | head -1).$(sed -n 's/^model[^a-z:]*: *//p' /proc/cpuinfo | head -1)
  sets=
  for flag in avx2 avx512f; do ! has_flag $flag || sets="$sets${sets:+, }\"${flag%f}\""; done
  echo "{\"machine\": \"${model:-unknown} (family $family), $(nproc) shared cores\", \"instruction_sets\": [$sets], \"commit\": \"$(git rev-parse --short HEAD)\", \"date\": \"$(date -u +%F)\"}"
}

[ -z "$json" ] || name_machine
for part in peak product step convolution function gpu checkpoint verify batch distributed plans hash ledger dispute start; do
  if [ "$name" = all ] || [ "$name" = "$part" ]; then "bench_$part"; fi
done
