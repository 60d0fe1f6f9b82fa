# SPDX-License-Identifier: Apache-2.0
# Commands and their output on a healthy machine.
. /job/suite-lib.sh

try topology tierline topology --json
try doctor tierline doctor --json
try trackers tierline trackers --json
try policies tierline policies --json
try explain tierline explain tierline
try nobody tierline status --json

try seven tierline run -- sh -c 'exit 7'
try killed tierline run -- sh -c 'kill -9 $$'
try missing tierline run -- no-such-command
echo text >/tmp/text
try unrunnable tierline run -- /tmp/text
try stdout tierline run --quiet -- echo -n 'all of it'

settings >/out/signal.before
tierline run -- sh -c 'trap "exit 9" TERM; touch /tmp/trapped; while :; do sleep 0.1; done' 2>/out/signal.err &
manager=$!
until [ -e /tmp/trapped ]; do sleep 0.1; done
fact balancing.while "$(cat /proc/sys/kernel/numa_balancing)"
kill -TERM $manager
ended signal.status $manager
same signal

# A shell starts the load and ends with its own status.
echo 0 >/proc/sys/kernel/numa_balancing
settings >/out/children.before
before=$(migrated)
tierline run --summary /out/children.summary.json --events /out/children.events --status-interval 2s -- \
	sh -c 'lab-load gups --size 200M --hot 48M --duration 12s --verify --report /out/children.json && exit 3' >/tmp/ready 2>/out/children.err &
manager=$!
until grep -q READY /tmp/ready; do sleep 0.2; done
sleep 5
try status tierline status --json
try statustext tierline status
fact balancing.quiet "$(cat /proc/sys/kernel/numa_balancing)"
try second tierline attach -p $(sed -n 's/^READY //p' /tmp/ready) --duration 2s
ended children.status $manager
fact children.migrated $(($(migrated) - before))
same children

# Dry run: everything except the moves.
load dry --size 200M --hot 48M --duration 8s
settings >/out/dry.before
attach dry --dry-run --events /out/dry.events
complete dry

# On a signal, and at a time limit, the manager ends and the load continues. (A process started with & by a
# script ignores SIGINT.)
load leave --size 100M --hot 16M --duration 9s
settings >/out/leave.before
attach leave --tracker hint_faults
go leave
sleep 2
settings >/out/leave.while
since=$(cut -d' ' -f1 /proc/uptime)
kill -TERM $manager
ended leave.status $manager
fact leave.seconds $(echo "$(cut -d' ' -f1 /proc/uptime) $since - p" | dc)
same leave
try limited tierline attach -p $load --duration 1s
kill -0 $load
fact leave.alive $?
ended leave.load $load
