#!/bin/sh
# A night on a real Slurm, which is started here on loopback (slurm.sh), and ended: night.py says what is done and what must hold.
#
#   sh tests/cluster/run.sh [BUILD [PART]]     BUILD: the build folder (default build/release); PART: list, proof, training or ledger alone
#
# Exit 77, with a reason, where Slurm cannot run.
set -eu
cd "$(dirname "$0")/../.."
build=${1:-build/release}
[ -x "$build/bin/dgx-verify" ] || { echo "$build has no programs: cmake --build $build --target programs" >&2; exit 1; }
work=$(mktemp -d "${TMPDIR:-/tmp}/dgx-cluster-XXXXXX")
trap 'sh tests/cluster/slurm.sh down "$work/slurm"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
PATH=$PATH:/usr/sbin:/sbin
sh tests/cluster/slurm.sh up "$work/slurm" 4
SLURM_CONF=$work/slurm/slurm.conf /usr/bin/python3 tests/cluster/night.py --bin "$(cd "$build/bin" && pwd)" --slurm "$work/slurm" --work "$work" ${2:+--only "$2"}
