#!/bin/sh
# A Slurm of its own on loopback, for tests: no cgroups, no systemd, no database, its own munge.
#
#   sh tests/cluster/slurm.sh up FOLDER NODES     starts it; two CPUs a node; FOLDER/slurm.conf is its SLURM_CONF. 77, with a reason, where it cannot run
#   sh tests/cluster/slurm.sh down FOLDER         ends what up has started, by its process ids
#   sh tests/cluster/slurm.sh node FOLDER N       starts a node's daemon again
set -eu
what=$1 folder=$2
skip() { echo "skipped: $1"; exit 77; }

end() { # PIDFILE
  [ -s "$1" ] || return 0
  pid=$(cat "$1")
  kill "$pid" 2>/dev/null || return 0
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do kill -0 "$pid" 2>/dev/null || return 0; sleep 0.1; done
  kill -9 "$pid" 2>/dev/null || :
}

case $what in
  down) for file in "$folder"/run/slurmd.*.pid "$folder/run/slurmctld.pid" "$folder/run/munged.pid"; do end "$file"; done; exit 0 ;;
  node) slurmd -f "$folder/slurm.conf" -N "n$3"; exit 0 ;;
  up) nodes=$3 ;;
  *) sed -n 's/^#   //p' "$0" >&2; exit 2 ;;
esac

PATH=$PATH:/usr/sbin:/sbin
for program in munged slurmctld slurmd sbatch; do command -v "$program" >/dev/null || skip "$program is not installed (slurmctld slurmd slurm-client munge)"; done
port=${DGX_SLURM_PORT:-17000} user=$(id -un)
mkdir -p "$folder/run" "$folder/log" "$folder/state" "$folder/spool" "$folder/munge"; chmod 755 "$folder"; chmod 700 "$folder/munge"
cat >"$folder/slurm.conf" <<CONF
ClusterName=dgx
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$folder/run/munge.socket,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd.%n.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.%n.log
# At once, where a cluster would take its time.
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0
SlurmdTimeout=6
KillWait=5
MinJobAge=3600
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
NodeName=n[0-$((nodes - 1))] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[$((port + 10))-$((port + 9 + nodes))] CPUs=2 RealMemory=4096 State=UNKNOWN
PartitionName=night Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=3
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10
CONF
export SLURM_CONF="$folder/slurm.conf"
(umask 077; head -c 128 /dev/urandom >"$folder/munge/key")
munged --force --key-file="$folder/munge/key" --socket="$folder/run/munge.socket" --pid-file="$folder/run/munged.pid" \
  --log-file="$folder/munge/munged.log" --seed-file="$folder/munge/seed" --num-threads=2 || skip "munged does not start here"
slurmctld -f "$SLURM_CONF" || skip "slurmctld does not start here"
node=0
while [ "$node" -lt "$nodes" ]; do
  mkdir -p "$folder/spool/n$node"
  slurmd -f "$SLURM_CONF" -N "n$node" || { sh "$0" down "$folder"; skip "slurmd does not start here"; }
  node=$((node + 1))
done
tries=0
until [ "$(sinfo -h -N -p night -o %T 2>/dev/null | grep -cx idle)" -ge "$nodes" ]; do
  tries=$((tries + 1))
  [ "$tries" -lt 300 ] || { tail -n 5 "$folder"/log/*.log >&2; sh "$0" down "$folder"; skip "the nodes do not come up here"; }
  sleep 0.1
done
