# SPDX-License-Identifier: Apache-2.0
# A machine that has run for a while: cold pages of files fill fast memory (`half`; `grow`: a program grows meanwhile), or all memory
# (`full`). A program beside the managed one has its memory in fast memory and does nothing.
. /job/suite-lib.sh
modprobe zram
mkdir -p /sys/fs/cgroup/aside
sh -c 'echo $$ >/sys/fs/cgroup/aside/cgroup.procs; exec lab-load fill --node 0 --size 40M --hold 1000s --report /dev/null' >/dev/null 2>&1 &
until used aside && [ $fast -ge 41943040 ]; do sleep 0.1; done
fact aside.before $fast
settings >/out/cache.before

refaults() {
	sed -n 's/^workingset_refault_file //p' /proc/vmstat
}

for case in half full grow; do
	case $case in full) size=2800M ;; *) size=700M ;; esac
	echo $size >/sys/block/zram0/disksize
	# The descriptor keeps the device's pages.
	exec 9</dev/zram0
	cat /dev/zram0 >/dev/null
	case $case in
	grow)
		lab-load grow --duration 12s --report /out/$case.json >/dev/null 2>&1 &
		load=$!
		;;
	*) load $case --size 300M --hot 64M --duration 10s ;;
	esac
	fact $case.free $(sed -n 's/^Node 0 MemFree: *\([0-9]*\) kB/\1/p' /sys/devices/system/node/node0/meminfo)
	read=$(refaults)
	attach $case
	go $case
	ended $case.load $load
	ended $case.status $manager
	fact $case.refaults $(($(refaults) - read))
	exec 9<&-
	echo 1 >/sys/block/zram0/reset
done
used aside
fact aside.after $fast

# A tenant whose own files exceed its limit.
mkdir -p /sys/fs/cgroup/own
echo 200M >/sys/block/zram0/disksize
exec 9</dev/zram0
sh -c 'echo $$ >/sys/fs/cgroup/own/cgroup.procs; exec cat /dev/zram0' >/dev/null
fact own.files $(sed -n 's/^inactive_file N0=\([0-9]*\) .*/\1/p' /sys/fs/cgroup/own/memory.numa_stat)
sh -c 'echo $$ >/sys/fs/cgroup/own/cgroup.procs
	exec lab-load gups --start-file /tmp/own.go --report /out/own.json --verify --size 200M --hot 48M --duration 10s' >/tmp/own.ready 2>/out/own.load.err &
load=$!
until grep -q READY /tmp/own.ready; do sleep 0.1; done
tierline attach --cgroup own --limit fast=60MiB --summary /out/own.summary.json >/out/own.out 2>/out/own.err &
manager=$!
go own
most=0
for at in $(seq 16); do
	sleep 0.5
	read -r _ node0 _ </sys/fs/cgroup/own/memory.numa_stat
	[ ${node0#N0=} -le $most ] || most=${node0#N0=}
done
fact own.most $most
ended own.load $load
kill -TERM $manager
ended own.status $manager
same cache
