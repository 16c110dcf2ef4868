# What the job scripts of this folder share. A batch script runs from a copy, so night.sh, or you, say where the folder is: DGX_SLURM.

# stage FILE: prints where a copy of the file lies on the node's own disk. The first job on a node makes it, under a lock; the others wait for
# that. Where there is no room, or the folder is somebody else's, the file itself is used. Nothing depends on the copy being right: programs
# check it as they check the file.
stage() {
  folder=${DGX_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}/dgx-stage-$(id -u)
  mkdir -p -m 700 "$folder" 2>/dev/null
  if [ ! -O "$folder" ] || [ -L "$folder" ]; then echo "$1"; return; fi
  copy=$folder/$(stat -L -c %d-%i-%s-%Y "$1")-$(basename "$1")
  (
    flock 9
    [ -e "$copy" ] || { cp -- "$1" "$copy.part" && mv -- "$copy.part" "$copy"; } || rm -f -- "$copy.part"
  ) 9>"$copy.lock" 2>/dev/null
  if [ -e "$copy" ]; then echo "$copy"; else echo "$1"; fi
}

# resumable COMMAND …: runs a command that ends with 75 when it is asked to stop, and goes on when it is run again. Passes on the warning
# before the time limit or a preemption, and puts the job back into the queue after a 75. Sets code to the command's exit code, with which the
# job should end: a failure stays one.
resumable() {
  trap 'kill -USR1 "$child" 2>/dev/null' USR1 TERM
  "$@" & child=$!
  while :; do
    wait "$child"; code=$?
    # Above 128 it may be the signal that ended the wait, and the command goes on.
    if [ "$code" -le 128 ] || ! kill -0 "$child" 2>/dev/null; then break; fi
  done
  if [ "$code" -eq 75 ] && [ -n "${SLURM_JOB_ID:-}" ]; then
    # Where the site puts a 75 or a preempted job back itself (RequeueExit, PreemptMode), this is refused, and not needed.
    scontrol requeue "$SLURM_JOB_ID" 2>/dev/null
  fi
  return 0
}
