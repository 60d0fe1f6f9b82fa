# SPDX-License-Identifier: Apache-2.0
# A program in huge pages whose hot set jumps: managed from its start, then only after 6 s. huge.sh [JUMP [END]], in seconds.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
echo always >/sys/kernel/mm/transparent_hugepage/enabled
jump=${1:-7} end=${2:-15}
program="--size 600M --hot 96M --thp always"

huge() {
	sed -n 's/^thp_migration_success //p' /proc/vmstat
}

pages=$(migrated) huge=$(huge)
tierline run --summary /out/run.summary.json --events /out/run.events -- \
	lab-load gups $program --verify --jump ${jump}s --duration ${end}s --report /out/run.json >/out/run.out 2>/out/run.err
fact run.load $?
fact run.migrated $(($(migrated) - pages))
fact run.huge $(($(huge) - huge))

load late $program --jump $((jump + 6))s --duration $((end + 6))s
go late
sleep 6
pages=$(migrated) huge=$(huge)
attach late --events /out/late.events
ended late.load $load
ended late.status $manager
fact late.migrated $(($(migrated) - pages))
fact late.huge $(($(huge) - huge))
