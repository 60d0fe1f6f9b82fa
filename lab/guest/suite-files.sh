# SPDX-License-Identifier: Apache-2.0
# A machine that has run for a while: cold pages of files fill fast memory (`half`; `grow`: a program grows meanwhile), or all memory (`full`). A program beside the managed one
# has its memory in fast memory and does nothing.
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
same cache
