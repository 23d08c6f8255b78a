#!/usr/bin/env bash
# A Slurm of one node for tests/test_slurm.py: as root, without systemd, on Debian or Ubuntu.
# All that it writes lies in one folder, but for a link at /etc/slurm/slurm.conf, where Slurm's
# commands look first; a machine that has a Slurm of its own is left alone.
#
#   tests/start_slurm.sh [FOLDER]
#   tests/start_slurm.sh stop [FOLDER]
set -euo pipefail
configured=/etc/slurm/slurm.conf

stop() {
    for daemon in slurmd slurmctld munged; do
        if [ -s "$1/$daemon.pid" ]; then kill "$(cat "$1/$daemon.pid")" 2>/dev/null || true; fi
    done
    if [ "$(readlink "$configured")" = "$1/slurm.conf" ]; then rm "$configured"; fi
}

if [ "${1:-}" = stop ]; then
    stop "${2:-/tmp/one-node-slurm}"
    exit
fi
folder=${1:-/tmp/one-node-slurm}
if [ -e "$configured" ] && [ "$(readlink "$configured")" != "$folder/slurm.conf" ]; then
    echo "there is a $configured: this machine has a Slurm of its own" >&2
    exit 1
fi
mkdir -p "$folder"/{state,spool}

if ! command -v slurmd slurmctld munged sbatch >/dev/null; then
    {
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            munge slurm-client slurmctld slurmd
    } >"$folder/install.log" 2>&1
fi

# A key and a socket of our own, for a munged that runs as root.
socket=$folder/munge.socket
if [ ! -s "$folder/munge.key" ]; then
    (umask 077 && head -c 128 /dev/urandom >"$folder/munge.key")
fi
if ! munge --socket "$socket" -n >/dev/null 2>&1; then
    munged --force --key-file "$folder/munge.key" --socket "$socket" --seed-file "$folder/seed" \
        --pid-file "$folder/munged.pid" --log-file "$folder/munged.log"
fi

host=$(hostname -s)
node=$(slurmd -C | grep -o 'CPUs=[0-9]*')
memory=$(($(slurmd -C | grep -o 'RealMemory=[0-9]*' | cut -d= -f2) * 9 / 10))
cat >"$folder/slurm.conf" <<CONF
ClusterName=one-node
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$socket
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=bf_interval=2,sched_interval=2
ReturnToService=2
KillWait=2
MinJobAge=3600
MpiDefault=none
MailProg=/bin/true
NodeName=$host NodeAddr=127.0.0.1 $node RealMemory=$memory
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
mkdir -p "$(dirname "$configured")"
ln -sf "$folder/slurm.conf" "$configured"

for daemon in slurmctld slurmd; do
    if ! { [ -s "$folder/$daemon.pid" ] && kill -0 "$(cat "$folder/$daemon.pid")" 2>/dev/null; }; then
        $daemon >>"$folder/$daemon.log" 2>&1
    fi
done
for _ in $(seq 60); do
    if sinfo --noheader --format %T 2>/dev/null | grep -q '^\(idle\|mixed\|allocated\)$'; then
        exit
    fi
    sleep 0.5
done
echo "the node does not come up; see $folder/*.log" >&2
tail -n 5 "$folder"/slurm*.log >&2
exit 1
