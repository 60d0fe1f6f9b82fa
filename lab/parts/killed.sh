# SPDX-License-Identifier: Apache-2.0
# Managers and targets that are killed, exit or fork during moves.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing

# kill -9 during moves: a low rate keeps it moving all the time. Each start restores the settings that the
# previous one changed.
load killed --size 200M --hot 96M --scatter --duration 18s
settings >/out/killed.before
go killed
kills=0
moving=0
dirty=0
while kill -0 $load; do
	for tracker in hint_faults accessed damon soft_dirty accessed; do
		kill -0 $load || break
		tierline attach -p $load --tracker $tracker --max-rate 8MB/s 2>>/out/killed.err >&2 &
		manager=$!
		before=$(migrated)
		sleep $((RANDOM % 3)).$((RANDOM % 10))
		kill -9 $manager
		wait $manager 2>/dev/null
		kills=$((kills + 1))
		[ $(($(migrated) - before)) -gt 0 ] && moving=$((moving + 1))
		settings | grep -v ^left >/tmp/now
		grep -v ^left /out/killed.before | cmp -s - /tmp/now || dirty=$((dirty + 1))
	done
done 2>/dev/null
ended killed.load $load
fact killed.kills $kills
fact killed.moving $moving
fact killed.dirty $dirty

# `recover` restores the settings of the last one.
load last --size 60M --hot 16M --duration 8s
attach last --tracker hint_faults
go last
for tenth in $(seq 60); do
	grep -q numa_balancing /run/tierline/journal-$manager.json && break
	sleep 0.1
done
kill -9 $manager
wait $manager 2>/dev/null
settings >/out/last.while
fact killed.stale "$(ls /run/tierline | tr '\n' ' ')"
try doctor tierline doctor --json
try recover tierline recover
same killed
try again tierline recover --json
ended last.load $load

# A target that exits while its pages move.
settings >/out/ends.before
load ends --size 100M --hot 64M --duration 5s
attach ends --max-rate 4MB/s
go ends
ended ends.load $load
ended ends.status $manager
load dies --size 100M --hot 64M --duration 60s
attach dies --max-rate 4MB/s
before=$(migrated)
go dies
for tenth in $(seq 100); do
	[ $(($(migrated) - before)) -gt 300 ] && break
	sleep 0.1
done
kill -9 $load
ended dies.status $manager
same ends

# A target that continuously forks, exits, maps and unmaps.
lab-load forker --duration 8s --size 64M --report /out/forker.json --start-file /tmp/fork >/tmp/forker &
load=$!
until grep -q READY /tmp/forker; do sleep 0.1; done
attach forker
touch /tmp/fork
ended forker.load $load
ended forker.status $manager
