# SPDX-License-Identifier: Apache-2.0
# Every tracker by its name: it sees, pages move, and the machine is as it was.
. /job/suite-lib.sh

for tracker in accessed hint_faults damon soft_dirty; do
	# A value to put back for the one who changes it, silence for the others.
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
# As 7.2 boots by default, DAMON is taken.
settings >/out/taken.before
stat=/sys/module/damon_stat/parameters/enabled
if [ -e $stat ]; then
	echo Y >$stat
	settings >/out/taken.before
	try taken tierline attach -p 1 --tracker damon --duration 1s
	same taken
fi
