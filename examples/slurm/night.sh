#!/bin/sh
# Puts a night's work into the queue, each step after the one before it, and prints the ids of its jobs:
#   sh night.sh list N LIST DATA.h5 KEY.pem VERDICTS [OPTION …]            a list of proofs, by an array of N jobs
#   sh night.sh proof N TASK PROOF FROM DATA.h5 KEY.pem VERDICT.json [OPTION …]   one proof, by N shards, merged; OPTION says what is drawn
# DGX_RATE is the rate of a node, of all threads of a job, as dgx-profile prints it (or DGX_PROFILE such a profile), and SBATCH what else sbatch is
# to be told. What the jobs may take follows from that: dgx-verify(1), TIME AND MEMORY. Nothing is submitted if that cannot be said.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export DGX_SLURM="$here"
[ -n "${DGX_PROFILE:-}" ] || : "${DGX_RATE:?is the rate of a node}"

# ask COMMAND …: prints what to give sbatch. A list with bad lines has a plan too; finish_list.sh names them.
ask() {
  if [ -n "${DGX_PROFILE:-}" ]; then set -- "$@" --profile "$DGX_PROFILE"; else set -- "$@" --rate "$DGX_RATE"; fi
  lines=$("$@" --plan=slurm --threads "${SLURM_CPUS_PER_TASK:-1}" -q) || { code=$?; [ -n "$lines" ] || exit "$code"; }
  printf '%s\n' "$lines" | sed 's/^#SBATCH *//'
}

what=${1:-} count=${2:-}; [ "$#" -lt 2 ] || shift 2
case $what:$# in
  list:[0-3] | proof:[0-5]) what='' ;;
esac
case $what in
  list)
    list=$1 data=$2 key=$3 verdicts=$4; shift 4
    [ "$list" != - ] || { echo "night.sh: the list must be a file: each job reads it" >&2; exit 2; }
    limits=$(ask dgx-verify batch "$list" --data "$data" --shard "0/$count" --key "$key" "$@")
    array=$(sbatch --parsable ${SBATCH:-} $limits "$here/verify_list.sh" "$list" "$data" "$key" "$verdicts" "$@")
    last=$(sbatch --parsable ${SBATCH:-} --dependency="afterany:$array" "$here/finish_list.sh" "$list" "$data" "$key" "$verdicts" "$@") ;;
  proof)
    task=$1 proof=$2 from=$3 data=$4 key=$5 verdict=$6; shift 6
    limits=$(ask dgx-verify "$task" "$proof" --from "$from" --shard "0/$count" --key "$key" "$@")
    array=$(sbatch --parsable ${SBATCH:-} $limits "$here/verify_shard.sh" "$task" "$proof" "$from" "$data" "$verdict.shard" --key "$key" "$@")
    last=$(sbatch --parsable ${SBATCH:-} --dependency="afterany:$array" "$here/merge.sh" "$task" "$proof" "$verdict.shard" "$key" "$verdict" "$@") ;;
  *) sed -n 's/^#   //p' "$0" >&2; exit 2 ;;
esac
echo "$array $last"
