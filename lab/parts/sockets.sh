# SPDX-License-Identifier: Apache-2.0
# Two sockets with a fast and a slow node each (0 and 2, 1 and 3). One program runs on the socket with less free memory, with its memory
# in the other socket's slow node; another on socket 1, with more memory than its fast node has.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing

# on CPU NAME SECONDS [WORDS]: runs a managed load on one processor; its mappings before and at the end become files.
on() {
	cpu=$1 name=$2 seconds=$3
	shift 3
	taskset -p $((1 << cpu)) $$ >/dev/null
	load $name --duration $((seconds + 3))s "$@"
	taskset -p 3 $$ >/dev/null
	mappings $name.before
	attach $name
	go $name
	sleep $seconds
	# Nothing moves between the manager's counts and those of the kernel.
	kill -TERM $manager
	ended $name.status $manager
	mappings $name.after
	ended $name.load $load
}

try topology tierline topology --json
lab-load fill --size 80M --node 0 --hold 60s --report /out/filled.json >/tmp/filled &
until grep -q READY /tmp/filled; do sleep 0.1; done
on 0 near 7 --size 200M --hot 32M --hot-share 0.95 --node 3
kill %1
on 1 wide 9 --size 700M --hot 100M --hot-share 0.95
