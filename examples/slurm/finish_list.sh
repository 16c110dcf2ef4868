#!/bin/sh
#SBATCH --job-name=dgx-finish --requeue --open-mode=append --signal=B:USR1@60
# After verify_list.sh, however its jobs ended (--dependency=afterany:ID): finish_list.sh LIST DATA.h5 KEY.pem VERDICTS [OPTION …]
# Takes the verdicts that are there, makes those that are missing, names the lines that have none with the reason, and counts. Ends with 0 if
# every proof has a verdict. Where its time is over first, it goes back into the queue, and loses nothing.
. "${DGX_SLURM:?is the folder of the job scripts}/functions.sh"
list=$1 staged=$2 original=$2 key=$3 verdicts=$4; shift 4  # not copied: mostly no data is needed
resumable dgx-verify batch "$list" --data "$staged" --key "$key" -o "$verdicts" "$@" >"$verdicts.log"
[ "$code" -ne 75 ] || exit 75
grep -e ': failed:' -e ': inconclusive:' "$verdicts.log"
dgx-inspect "$verdicts"/*[0-9a-f].json --summary
[ "$code" -ne 1 ] || code=0
exit "$code"
