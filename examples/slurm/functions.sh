# Functions that the job scripts of this folder share. A batch script runs from a copy, so night.sh, or you, say where the folder is: DGX_SLURM.

# The warning before the time limit or a preemption may come at any moment, also while a file is staged.
asked='' child=''
trap 'asked=1; [ -z "$child" ] || warn_child' USR1 TERM

# warn_child: passes the warning on to the child, every second until it has ended. Once is not enough: a shell that has forked, and not yet become the
# command, takes the signal and forgets it.
warn_child() { while kill -USR1 "$child" 2>/dev/null; do sleep 1; done & }

# put_back: puts the job back into the queue. Where the site does that itself after a 75 (RequeueExit) or a preemption (PreemptMode), it is refused,
# and not needed.
put_back() { [ -z "${SLURM_JOB_ID:-}" ] || scontrol requeue "$SLURM_JOB_ID" 2>/dev/null; }

# stage FILE: sets staged to where a copy of the file lies on the node's own disk, original to the file. The first job on a node makes the copy, under
# a lock; the others wait for that. Where there is no room, or the folder is somebody else's, staged is the file itself. Copies that no job has asked
# for in three days are removed. A job that is asked to stop here goes back into the queue, and ends with 75.
stage() {
  original=$1 staged=$1
  folder=${DGX_SCRATCH:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}/dgx-stage-$(id -u)
  mkdir -p -m 700 "$folder" 2>/dev/null
  if [ ! -e "$1" ] || [ ! -O "$folder" ] || [ -L "$folder" ]; then return 0; fi
  copy=$folder/$(stat -L -c %d-%i-%s-%Y "$1")-$(basename "$1")
  until_ended copy_once
  [ "$code" -ne 75 ] || { put_back; exit 75; }
  [ ! -e "$copy" ] || staged=$copy
}

# copy_once: makes copy of original, under a lock, if it is not there yet. For a shell of its own, as until_ended gives it.
copy_once() {
  exec 9>"$copy.lock" 2>/dev/null
  flock 9
  [ -e "$copy" ] || { cp -- "$original" "$copy.part" && mv -- "$copy.part" "$copy"; } || rm -f -- "$copy.part"
  touch -c -- "$copy"
  find "$folder" -type f -mtime +2 -delete
}

# until_ended COMMAND …: runs it, passes the warning on to it, and sets code to its exit code.
until_ended() {
  [ -z "$asked" ] || { code=75; return; }
  "$@" & child=$!
  # A warning may have come after the first line and before there was a child to pass it on to.
  [ -z "$asked" ] || warn_child
  while :; do
    wait "$child"; code=$?
    # Above 128 it may be the signal that ended the wait, and the command goes on.
    if [ "$code" -le 128 ] || ! kill -0 "$child" 2>/dev/null; then break; fi
  done
  child=''
  # Killed by the warning itself (USR1) while it started: it has done nothing.
  if [ -n "$asked" ] && [ "$code" -eq 138 ]; then code=75; fi
}

# resumable COMMAND …: runs a command that ends with 75 when it is asked to stop, and goes on when it is run again; then it puts the job back into the
# queue. If it cannot read something, and the staged copy is not the file, it removes the copy and runs the command with the file. Sets code to the
# command's exit code, with which the job should end: a failure stays one.
resumable() {
  until_ended "$@"
  if { [ "$code" -eq 65 ] || [ "$code" -eq 66 ]; } && [ "$staged" != "$original" ] && ! cmp -s -- "$original" "$staged"; then
    echo "$staged is damaged, and removed: once more with $original" >&2
    rm -f -- "$staged"
    for word; do
      shift
      [ "$word" != "$staged" ] || word=$original
      set -- "$@" "$word"
    done
    until_ended "$@"
  fi
  [ "$code" -ne 75 ] || put_back
  return 0
}
