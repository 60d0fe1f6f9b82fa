# SPDX-License-Identifier: Apache-2.0
# Every tracker by name: it reports accesses, pages move, and all settings are restored.
. /job/suite-lib.sh

for tracker in accessed hint_faults damon soft_dirty; do
	# Balancing between sockets is on for accessed, which must restore it; the kernel never comes back to it from tiering.
	[ $tracker = accessed ]
	echo $((1 - $?)) >/proc/sys/kernel/numa_balancing
	load $tracker --size 100M --hot 16M --duration 7s
	settings >/out/$tracker.before
	attach $tracker --tracker $tracker
	go $tracker
	sleep 3
	settings >/out/$tracker.while
	ended $tracker.load $load
	ended $tracker.status $manager
	same $tracker
done
# The kernel has tiered memory, and balances between sockets.
echo 2 >/proc/sys/kernel/numa_balancing
load tiered --size 60M --hot 16M --duration 3s
go tiered
ended tiered.load $load
echo 1 >/proc/sys/kernel/numa_balancing
settings >/out/tiered.before
try tiered tierline attach -p 1 --duration 1s
try between tierline attach -p 1 --tracker hint_faults --duration 1s
try betweendoctor tierline doctor --json
same tiered
echo 0 >/proc/sys/kernel/numa_balancing
for tracker in pebs ibs page_idle; do
	try $tracker tierline attach -p 1 --tracker $tracker --duration 1s
done
# In a default boot of 7.2, damon_stat occupies DAMON.
settings >/out/taken.before
stat=/sys/module/damon_stat/parameters/enabled
if [ -e $stat ]; then
	echo Y >$stat
	settings >/out/taken.before
	try taken tierline attach -p 1 --tracker damon --duration 1s
	same taken
fi
