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

# Pages that were moved, without those that the kernel moved to make memory contiguous (reason 0).
tracing=/sys/kernel/tracing
[ -d $tracing/events ] || mount -t tracefs none $tracing
echo hist:keys=reason:vals=succeeded >$tracing/events/migrate/mm_migrate_pages/trigger
moved() {
	compacted=$(sed -n 's/^{ reason: *0 *}.* succeeded: *\([0-9]*\).*/\1/p' $tracing/events/migrate/mm_migrate_pages/hist)
	echo $(($(migrated) - ${compacted:-0}))
}

pages=$(moved) huge=$(huge)
tierline run --summary /out/run.summary.json --events /out/run.events -- \
	lab-load gups $program --verify --jump ${jump}s --duration ${end}s --report /out/run.json >/out/run.out 2>/out/run.err
fact run.load $?
fact run.migrated $(($(moved) - pages))
fact run.huge $(($(huge) - huge))

load late $program --jump $((jump + 6))s --duration $((end + 6))s
go late
sleep 6
pages=$(moved) huge=$(huge)
attach late --events /out/late.events
ended late.load $load
ended late.status $manager
fact late.migrated $(($(moved) - pages))
fact late.huge $(($(huge) - huge))
