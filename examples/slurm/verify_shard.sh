#!/bin/sh
#SBATCH --job-name=dgx-shard --requeue --open-mode=append --signal=B:USR1@60
# Replays one part of a proof, of as many parts as the array has jobs: verify_shard.sh TASK PROOF FROM DATA.h5 SHARDS OPTION …
# Its shard is SHARDS-I.json. The options say what is drawn, and for whom: --beacon B.json, or --all --key verifier.pub.pem; and the --work-key.
. "${DGX_SLURM:?is the folder of the job scripts}/functions.sh"
task=$1 proof=$2 from=$3 shards=$5 data=$4; shift 5
# A shard that an earlier job of this index has made is as good as a new one; one that is damaged, merge.sh names.
[ ! -e "$shards-$SLURM_ARRAY_TASK_ID.json" ] || exit 0
stage "$data"
resumable dgx-verify "$task" "$proof" --from "$from" --data "$staged" --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" \
  -o "$shards-$SLURM_ARRAY_TASK_ID.json" "$@"
exit "$code"
