#!/bin/sh
# One training on several processes, of which one is killed on the way; then one process proves it and another verifies it. Its state is the one that a
# single process makes. Needs mpirun (Debian: openmpi-bin). Takes seconds; leaves everything in build/ranks.
#
#   sh examples/ranks.sh              with the programs of build/release
#   DGX_BIN=DIR sh examples/ranks.sh  with others
set -eu
cd "$(dirname "$0")/.."
PATH=${DGX_BIN:-$PWD/build/release/bin}:$PATH
command -v mpirun >/dev/null || { echo "ranks: mpirun is not installed (Debian: openmpi-bin)" >&2; exit 77; }
rm -rf build/ranks
mkdir -p build/ranks
cd build/ranks

say() { printf '\n%s\n' "== $*"; }
# on N OPTION…: trains on so many processes of this machine, though it may have fewer CPUs. Root, as in a container, has to ask for it.
on() {
  ranks=$1; shift
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 \
    mpirun --oversubscribe -n "$ranks" dgx-train task.json --data data.h5 --threads 1 --mpi "$@"
}

say "a text, and a task about it"
for name in submitter solver verifier; do dgx-key new "$name" -q; done
i=0
while [ $i -lt 400 ]; do echo "line $i of a text that says little, $((i * i)) times"; i=$((i + 1)); done >text.txt
dgx-pack text text.txt --context 32 -o data.h5 -q
dgx-submit --data data.h5 --model gpt:layers=2,width=32,heads=2,context=32 --loss cross-entropy --optimizer adamw:lr=3e-3 --batch 12 --steps 300 \
  --checkpoint-every 25 --seed 1 --key submitter.pem -o task.json -q

say "two processes, of which one is killed"
on 2 -o run -q 2>killed.log & pid=$!
while kill -0 $pid 2>/dev/null && [ "$(cat run/log.csv 2>/dev/null | wc -l)" -lt 60 ]; do sleep 0.1; done
victim='' here=$(pwd -P)
for process in /proc/[0-9]*; do
  [ "$(readlink "$process/cwd")" = "$here" ] || continue  # others train, too
  case $(tr '\0' ' ' 2>/dev/null <"$process/cmdline") in dgx-train*" -o run "*) victim=${process#/proc/} ;; esac
done
[ -z "$victim" ] || kill -9 "$victim" 2>/dev/null || echo "a fast machine is done"
wait $pid && code=0 || code=$?
echo "mpirun ended with $code"

say "five go on where they stood"
on 5 -o run

say "one process alone, for comparison"
dgx-train task.json --data data.h5 -o alone --threads 1 -q
cmp run/index.h5 alone/index.h5

say "one process proves the run, another verifies it"
dgx-prove task.json run --key solver.pem -o proof.json
dgx-verify task.json proof.json --from run --data data.h5 --all --key verifier.pem -o verdict.json --expect accepted
