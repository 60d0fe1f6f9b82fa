# SPDX-License-Identifier: Apache-2.0
# What the guests of lab/suite share. A script sources it, says facts on stdout (`key=value`) and leaves files in /out;
# lab/suite reads both and judges.
mkdir -p /out
ladder=/sys/kernel/mm/damon/admin/kdamonds

fact() {
	echo "$1=$2"
}

# try NAME CMD…: its status is a fact, its words are files.
try() {
	name=$1
	shift
	timeout -s KILL 60 "$@" >/out/$name.out 2>/out/$name.err
	fact $name.status $?
}

# load NAME [WORDS OF gups]: a load that waits for `go NAME`, populated; $load is its pid.
load() {
	name=$1
	shift
	rm -f /tmp/$name.go /tmp/$name.ready
	lab-load gups --start-file /tmp/$name.go --report /out/$name.json --verify "$@" >/tmp/$name.ready 2>/out/$name.load.err &
	load=$!
	until grep -q READY /tmp/$name.ready; do
		kill -0 $load 2>/dev/null || return 1
		sleep 0.1
	done
}

go() {
	touch /tmp/$1.go
}

# attach NAME [WORDS]: manages $load in the background; $manager is its pid.
attach() {
	name=$1
	shift
	tierline attach -p $load --summary /out/$name.summary.json "$@" >/out/$name.out 2>/out/$name.err &
	manager=$!
}

# ended NAME PID: waits, and its status is the fact NAME.
ended() {
	wait $2
	fact $1 $?
}

migrated() {
	sed -n 's/^pgmigrate_success //p' /proc/vmstat
}

# Every setting that Tierline may change, with its value.
settings() {
	for file in /proc/sys/kernel/numa_balancing* /sys/kernel/debug/sched/numa_balancing/* /sys/kernel/mm/numa/demotion_enabled /proc/sys/vm/watermark_scale_factor \
		/sys/module/damon_*/parameters/enabled $ladder/nr_kdamonds $ladder/*/state /proc/sys/kernel/perf_event_* \
		/sys/kernel/mm/transparent_hugepage/enabled /sys/bus/pci/devices/*/enable; do
		[ -f $file ] && echo $file: $(cat $file)
	done
	sed 's/^/dynamic event: /' /sys/kernel/tracing/dynamic_events
	for file in /run/tierline/*; do
		[ -e $file ] && echo left: $file
	done
}

# same NAME: says whether settings are as /out/NAME.before has them; the difference is the fact.
same() {
	settings >/out/$1.after
	fact $1.changed "$(diff /out/$1.before /out/$1.after | grep '^[+-][^+-]' | tr '\n' ' ')"
}
