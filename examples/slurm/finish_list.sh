#!/bin/sh
#SBATCH --job-name=dgx-finish
# After verify_list.sh, however its jobs ended (--dependency=afterany:ID): finish_list.sh LIST DATA.h5 KEY.pem VERDICTS [OPTION …]
# Takes the verdicts that are there, makes those that are missing, names the lines that have none with the reason, and counts. Ends with 0 if
# every proof has a verdict.
list=$1 data=$2 key=$3 verdicts=$4; shift 4
dgx-verify batch "$list" --data "$data" --key "$key" -o "$verdicts" "$@" >"$verdicts.log"; code=$?
grep -e ': failed:' -e ': inconclusive:' "$verdicts.log"
dgx-inspect "$verdicts"/*[0-9a-f].json --summary
[ "$code" -ne 1 ] || code=0
exit "$code"
