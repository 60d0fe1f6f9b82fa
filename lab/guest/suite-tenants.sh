# SPDX-License-Identifier: Apache-2.0
# Two Redis servers under one manager, each in its own cgroup with its own limit. Then a second manager, with a limit that is
# 100 MiB lower for the first server. Then that server ends, and its cgroup is removed.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
echo 0 >/sys/kernel/mm/numa/demotion_enabled

# server NAME KEYS: starts a server in the cgroup NAME and fills it; $server is its pid.
server() {
	mkdir /sys/fs/cgroup/$1
	sh -c "echo \$\$ >/sys/fs/cgroup/$1/cgroup.procs
		exec redis-server --save '' --appendonly no --port 0 --unixsocket /tmp/$1.sock --daemonize no" >/out/$1.out 2>/out/$1.err &
	server=$!
	until [ -S /tmp/$1.sock ]; do
		kill -0 $server 2>/dev/null || exit 1
		sleep 0.1
	done
	lab-load redis-client --socket /tmp/$1.sock --keys $2 --value 4K --load-only --report /out/$1.filled.json || exit 1
}

# client NAME KEYS TIME: sends requests in the background; one key in twenty gets nine of ten requests.
client() {
	lab-load redis-client --socket /tmp/$1.sock --keys $2 --value 4K --hot-keys-share 0.05 --duration $3 --report /out/$1.json >/dev/null 2>&1 &
}

# used NAME: sets $fast and $slow to the bytes that a cgroup uses in node 0 and node 1.
used() {
	fast=0
	slow=0
	while read -r kind node0 node1; do
		case $kind in anon | file)
			fast=$((fast + ${node0#N0=}))
			slow=$((slow + ${node1#N1=}))
			;;
		esac
	done </sys/fs/cgroup/$1/memory.numa_stat
}

# hundredths: sets $hundredths to the time since boot.
hundredths() {
	read -r seconds _ </proc/uptime
	hundredths=${seconds%.*}${seconds#*.}
}

# watch FILE TIME: writes time and memory use of both cgroups to a file, for TIME hundredths of a second.
watch() {
	hundredths
	began=$hundredths
	while [ $((hundredths - began)) -lt $2 ]; do
		used a
		a="$fast $slow"
		used b
		hundredths
		echo "$((hundredths - began)) $a $fast $slow"
		sleep 0.02
	done >/out/$1
}

server a 36000
a=$server
server b 18000
b=$server
settings >/out/tenants.before
try above tierline attach --cgroup a --limit fast=9GiB
try unknown tierline attach --cgroup a --limit fats=1GiB
try twice tierline attach --cgroup a --cgroup /sys/fs/cgroup/a

attach="tierline attach --cgroup a --limit fast=130MiB --cgroup b --limit fast=50MiB"
$attach --summary /out/first.summary.json >/out/first.out 2>/out/first.err &
manager=$!
client a 36000 5s
client b 18000 5s
watch first.used 500
try status tierline status --json
try statustext tierline status
kill -TERM $manager
ended first.status $manager

attach="tierline attach --cgroup a --limit fast=30MiB --cgroup b --limit fast=50MiB"
$attach --summary /out/lowered.summary.json --events /out/lowered.events >/out/lowered.out 2>/out/lowered.err &
manager=$!
client a 36000 4s
client b 18000 4s
watch lowered.used 400
kill $a
wait $a
until rmdir /sys/fs/cgroup/a; do sleep 0.1; done
sleep 2
try vanished tierline status --json
kill -TERM $manager
ended lowered.status $manager
kill $b
wait $b
same tenants
