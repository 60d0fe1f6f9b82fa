# SPDX-License-Identifier: Apache-2.0
# Functions shared by the guests of lab/suite; to be sourced. A script prints facts on stdout (`key=value`) and
# writes files to /out; lab/suite checks both.
mkdir -p /out
ladder=/sys/kernel/mm/damon/admin/kdamonds

fact() {
	echo "$1=$2"
}

# try NAME CMD…: runs a command; its status becomes a fact, its output goes to files.
try() {
	name=$1
	shift
	timeout -s KILL 60 "$@" >/out/$name.out 2>/out/$name.err
	fact $name.status $?
}

# load NAME [WORDS OF gups]: starts a populated load that waits for `go NAME`; $load is its pid.
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

# ended NAME PID: waits for a process; its status becomes the fact NAME.
ended() {
	wait $2
	fact $1 $?
}

# complete NAME: `go NAME`, until the load and its manager end; statuses, pages moved, and settings left changed become facts.
complete() {
	before=$(migrated)
	go $1
	ended $1.load $load
	ended $1.status $manager
	fact $1.migrated $(($(migrated) - before))
	same $1
}

# mappings NAME: which nodes have the pages of the load, by mapping, in /out/NAME.maps.
mappings() {
	cp /proc/$load/numa_maps /out/$1.maps
}

migrated() {
	sed -n 's/^pgmigrate_success //p' /proc/vmstat
}

# swap SIZE: sets up compressed swap in the guest's memory. Nothing waits for a disk, so runs are reproducible.
swap() {
	modprobe zram
	echo $1 >/sys/block/zram0/disksize
	mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
}

# The files of all settings that a manager may change; patterns.
setting_files="/proc/sys/kernel/numa_balancing* /sys/kernel/debug/sched/numa_balancing/* /sys/kernel/mm/numa/demotion_enabled /proc/sys/vm/watermark_*_factor \
	/proc/sys/vm/percpu_pagelist_high_fraction \
	/sys/module/damon_*/parameters/enabled $ladder/nr_kdamonds $ladder/*/state /proc/sys/kernel/perf_event_* \
	/sys/kernel/mm/transparent_hugepage/enabled /sys/bus/pci/devices/*/enable"

# Prints every setting that Tierline may change, with its value.
settings() {
	grep -sH '' $setting_files | sed 's/:\([^:]*\)$/: \1/'
	sed 's/^/dynamic event: /' /sys/kernel/tracing/dynamic_events
	for file in /run/tierline/*; do
		[ -e $file ] && echo left: $file
	done
}

# same NAME: compares the settings with /out/NAME.before; the difference becomes a fact.
same() {
	settings >/out/$1.after
	fact $1.changed "$(diff /out/$1.before /out/$1.after | grep '^[+-][^+-]' | tr '\n' ' ')"
}

# managed_redis NAME [WORDS]: starts a Redis that is managed from its start; $manager is the manager's pid, $socket the server's.
managed_redis() {
	name=$1
	shift
	socket=/tmp/redis.sock
	tierline run "$@" --summary /out/$name.summary.json -- \
		redis-server --save '' --appendonly no --port 0 --unixsocket $socket --daemonize no >/out/$name.out 2>/out/$name.err &
	manager=$!
	until [ -S $socket ]; do
		kill -0 $manager 2>/dev/null || exit 1
		sleep 0.1
	done
}

# server CGROUP KEYS: starts a Redis in a cgroup and fills it with values of 4 KiB; $server is its pid, /tmp/NAME.sock its socket.
server() {
	name=${1##*/}
	sh -c "echo \$\$ >/sys/fs/cgroup/$1/cgroup.procs; exec redis-server --save '' --appendonly no --port 0 --unixsocket /tmp/$name.sock --daemonize no" >/out/$name.out 2>/out/$name.err &
	server=$!
	until [ -S /tmp/$name.sock ]; do
		kill -0 $server 2>/dev/null || exit 1
		sleep 0.1
	done
	lab-load redis-client --socket /tmp/$name.sock --keys $2 --value 4K --load-only --report /out/$name.filled.json || exit 1
}

# used CGROUP: sets $used to the bytes that it uses in node 0 and node 1.
used() {
	fast=0
	slow=0
	# The first two lines are anon and file. A shell reads byte by byte, so the others are left out.
	while read -r kind node0 node1; do
		fast=$((fast + ${node0#N0=}))
		slow=$((slow + ${node1#N1=}))
		[ $kind != file ] || break
	done </sys/fs/cgroup/$1/memory.numa_stat
	used="$fast $slow"
}

# cold CGROUP…: prints the bytes of cold pages of files of each, in node 0 and node 1: they count for no limit.
cold() {
	for group; do
		sed 's/N[01]=//g' /sys/fs/cgroup/$group/memory.numa_stat | awk '
			{ fast[$1] = $2; slow[$1] = $3 }
			function cold(of, mapped, bytes) {
				mapped = of["file_mapped"] - of["shmem"]
				bytes = of["inactive_file"] - (mapped > 0 ? mapped : 0) - of["file_dirty"] - of["file_writeback"]
				return bytes > 0 ? bytes : 0
			}
			END { printf " %d %d", cold(fast), cold(slow) }'
	done
	echo
}

# hundredths: sets $hundredths to the time since boot.
hundredths() {
	read -r seconds _ </proc/uptime
	hundredths=${seconds%.*}${seconds#*.}
}

# watch NAME TIME CGROUP…: writes time and memory use of cgroups to a file, for TIME hundredths of a second; before that, the bytes of
# their cold files to another.
watch() {
	name=$1 time=$2
	shift 2
	cold "$@" >/out/$name.cold
	hundredths
	began=$hundredths
	while [ $((hundredths - began)) -lt $time ]; do
		row=
		for group; do
			used $group
			row="$row $used"
		done
		hundredths
		echo "$((hundredths - began))$row"
		sleep 0.05
	done >/out/$name.used
}
