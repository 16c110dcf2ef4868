#!/bin/sh
#SBATCH --job-name=dgx-merge
# After verify_shard.sh, however its jobs ended (--dependency=afterany:ID): merge.sh TASK PROOF SHARDS KEY.pem VERDICT.json [OPTION …]
# The options are those of the shards: what merge takes of them it is given, --beacon, --work-key and --trust; or --max-miss, of its own.
# A shard that is missing, damaged or there twice is named on standard error, with the command that mends it. DGX_POST is a command that hands the
# verdict on, such as "dgx-settle append ledger.jsonl --key operator.pem". Ends with 0 if there is a verdict, whatever it says.
task=$1 proof=$2 shards=$3 key=$4 verdict=$5; shift 5
left=$#
while [ "$left" -gt 0 ]; do
  word=$1 taken=1; shift
  case $word in
    --beacon | --round | --work-key | --trust | --max-miss) [ "$left" -lt 2 ] || { set -- "$@" "$word" "$1"; shift; taken=2; } ;;
    --beacon=* | --round=* | --work-key=* | --trust=* | --max-miss=*) set -- "$@" "$word" ;;
  esac
  left=$((left - taken))
done
if [ ! -e "$verdict" ]; then
  dgx-verify merge "$task" "$proof" "$shards"-*.json --key "$key" -o "$verdict" "$@"; code=$?
  [ -e "$verdict" ] || exit "$code"
fi
[ -z "${DGX_POST:-}" ] || sh -c "$DGX_POST \"\$1\"" post "$verdict"
