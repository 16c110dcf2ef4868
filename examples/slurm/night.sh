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

# ask FORM COMMAND …: prints what to give sbatch, for the array or for what follows it. A list with bad lines has a plan too; finish_list.sh names them.
ask() {
  form=$1; shift
  if [ -n "${DGX_PROFILE:-}" ]; then set -- "$@" --profile "$DGX_PROFILE"; else set -- "$@" --rate "$DGX_RATE"; fi
  lines=$("$@" --plan="$form" --threads "${SLURM_CPUS_PER_TASK:-1}" -q) || { code=$?; [ -n "$lines" ] || exit "$code"; }
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
    set -- --data "$data" --key "$key" "$@"
    limits=$(ask slurm dgx-verify batch "$list" --shard "0/$count" "$@")
    after=$(ask slurm-last dgx-verify batch "$list" --shard "0/$count" "$@" 2>/dev/null)
    shift 4
    array=$(sbatch --parsable ${SBATCH:-} $limits "$here/verify_list.sh" "$list" "$data" "$key" "$verdicts" "$@")
    last=$(sbatch --parsable ${SBATCH:-} $after --dependency="afterany:$array" "$here/finish_list.sh" "$list" "$data" "$key" "$verdicts" "$@") ;;
  proof)
    task=$1 proof=$2 from=$3 data=$4 key=$5 verdict=$6; shift 6
    set -- --from "$from" --data "$data" --key "$key" "$@"
    limits=$(ask slurm dgx-verify "$task" "$proof" --shard "0/$count" "$@")
    after=$(ask slurm-last dgx-verify "$task" "$proof" --shard "0/$count" "$@" 2>/dev/null)
    shift 6
    array=$(sbatch --parsable ${SBATCH:-} $limits "$here/verify_shard.sh" "$task" "$proof" "$from" "$data" "$verdict.shard" --key "$key" "$@")
    last=$(sbatch --parsable ${SBATCH:-} $after --dependency="afterany:$array" "$here/merge.sh" "$task" "$proof" "$verdict.shard" "$key" "$verdict" "$@") ;;
  *) sed -n 's/^#   //p' "$0" >&2; exit 2 ;;
esac
echo "$array $last"
