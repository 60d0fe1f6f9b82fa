# SPDX-License-Identifier: Apache-2.0
# Every tracker by name: it reports accesses, pages move, and all settings are restored.
. /job/suite-lib.sh

for tracker in accessed hint_faults damon soft_dirty; do
	# NUMA balancing on for hint_faults, which must restore it; off for the others.
	[ $tracker = hint_faults ]
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
