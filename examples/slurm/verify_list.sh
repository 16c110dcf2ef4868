#!/bin/sh
#SBATCH --job-name=dgx-verify --requeue --open-mode=append --signal=B:USR1@60
# Verifies one part of a list of proofs, of as many parts as the array has jobs: verify_list.sh LIST DATA.h5 KEY.pem VERDICTS [OPTION …]
# A refuted proof is a result as an accepted one is. The job fails if a line could not be verified.
. "${DGX_SLURM:?is the folder of the job scripts}/functions.sh"
list=$1 key=$3 verdicts=$4; stage "$2"; shift 4
resumable dgx-verify batch "$list" --data "$staged" --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" --key "$key" -o "$verdicts" "$@"
[ "$code" -ne 1 ] || code=0
exit "$code"
