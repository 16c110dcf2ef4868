#!/bin/sh
#SBATCH --job-name=dgx-train --requeue --open-mode=append --signal=B:USR1@120
# Trains a task, over as many jobs as it takes: train.sh TASK.json DATA.h5 RUN [OPTION …]. The memory and the time that it asks for:
#   sbatch $(dgx-train task.json --plan=slurm --profile p.json | sed 's/#SBATCH//') train.sh task.json train.h5 run
# With --validate it takes more of both: name the data to the plan, too. Two minutes before its time is over, or when it is preempted, it saves the state, ends with 75
# and goes back into the queue. A node that dies takes ten minutes of work with it at most, or what DGX_SAVE_EVERY says.
. "${DGX_SLURM:?is the folder of the job scripts}/functions.sh"
task=$1 run=$3; stage "$2"; shift 3
# --wait: on another node, the job that was requeued may still be ending.
resumable dgx-train "$task" --data "$staged" -o "$run" --save-every "${DGX_SAVE_EVERY:-10m}" --wait=5m "$@"
exit "$code"
