#!/bin/sh
#SBATCH --job-name=dgx-merge
# After verify_shard.sh, however its jobs ended (--dependency=afterany:ID): merge.sh TASK PROOF SHARDS KEY.pem VERDICT.json [OPTION …]
# A shard that is missing, damaged or there twice is named on standard error, with the command that mends it. DGX_POST is a command that hands the
# verdict on, such as "dgx-settle append ledger.jsonl --key operator.pem". Ends with 0 if there is a verdict, whatever it says.
task=$1 proof=$2 shards=$3 key=$4 verdict=$5; shift 5
if [ ! -e "$verdict" ]; then
  dgx-verify merge "$task" "$proof" "$shards"-*.json --key "$key" -o "$verdict" "$@"; code=$?
  [ "$code" -le 1 ] || exit "$code"
fi
[ -z "${DGX_POST:-}" ] || sh -c "$DGX_POST \"\$1\"" post "$verdict"
