# SPDX-License-Identifier: Apache-2.0
# What it costs to look at a program of a size: sizes.sh SIZE. 64 MiB of it are hot, and nothing changes.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
size=$1

# used: prints the CPU time of the manager's threads so far, in microseconds.
used() {
	cat /proc/$manager/task/*/schedstat | awk '{ sum += $1 } END { printf "%d\n", sum / 1000 }'
}

load sizes --size $size --hot 64M --duration 80s
attach sizes --duration 75s
go sizes
sleep 20
fact placed "$(used)"
sleep 10
fact settled "$(used)"
sleep 40
fact later "$(used)"
ended manager.status $manager
ended sizes.load $load
