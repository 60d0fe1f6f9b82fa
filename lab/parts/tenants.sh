# SPDX-License-Identifier: Apache-2.0
# Two Redis servers under one manager, each in its own cgroup with its own limit. Three managers, one after another: the first finds
# a server 100 MiB above its limit; the second is given the servers by pid, the third a cgroup inside another one. During the third,
# the first server leaves its cgroup, comes back and ends, and its cgroup is removed.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
echo 0 >/sys/kernel/mm/numa/demotion_enabled
cd /sys/fs/cgroup
mkdir both away
echo +memory >both/cgroup.subtree_control
mkdir both/a both/b

# client NAME SERVER KEYS TIME: sends requests in the background; one key in twenty gets nine of ten requests.
client() {
	lab-load redis-client --socket /tmp/$2.sock --keys $3 --value 4K --hot-keys-share 0.05 --duration $4 --report /out/$1.$2.json >/dev/null 2>&1 &
}

# manage NAME WORDS: starts a manager in the background; $manager is its pid.
manage() {
	name=$1
	shift
	tierline attach "$@" --summary /out/$name.summary.json >/out/$name.out 2>/out/$name.err &
	manager=$!
}

# observe NAME IDLE LOAD: watches both servers for IDLE seconds without load, then for LOAD seconds under load.
observe() {
	watch $1 ${2}00 both/a both/b
	client $1 a 29000 $3s
	clients=$!
	client $1 b 12000 $3s
	clients="$clients $!"
	watch $1.load ${3}00 both/a both/b
	wait $clients
}

stop() {
	kill -TERM $manager
	ended $1.status $manager
}

server both/a 29000
a=$server
server both/b 12000
b=$server
fact a $a
fact b $b
settings >/out/tenants.before
try above tierline attach --cgroup both/a --limit fast=9GiB
try unknown tierline attach --cgroup both/a --limit fats=1GiB
try twice tierline attach --cgroup both/a --cgroup /sys/fs/cgroup/both/a
try pidtwice tierline attach -p $a --limit fast=1GiB -p $a
try nogroup tierline attach --cgroup both/c

manage lowered --cgroup both/a --limit fast=48MiB --cgroup both/b --limit fast=50MiB
observe lowered 4 2
watch status.before 1 both/a both/b
try status tierline status --json
watch status.after 1 both/a both/b
try statustext tierline status
stop lowered

manage pids -p $a --limit fast=30MiB -p $b --limit fast=45MiB
observe pids 2 1
try pidstatus tierline status --json
for i in 1 2 3 4 5; do
	lab-load where --pid $a --report /out/a.where$i.json
	lab-load where --pid $b --report /out/b.where$i.json
	sleep 0.2
done
stop pids

manage nested --cgroup both --limit fast=25MiB --cgroup both/a --limit fast=20MiB -p $a --limit fast=10MiB
observe nested 2 1
try neststatus tierline status --json
mv both/a both/c 2>/dev/null
fact renamed $?
echo $a >away/cgroup.procs
sleep 2
try away tierline status --json
echo $a >both/a/cgroup.procs
sleep 2
try back tierline status --json
kill $a
wait $a
for _ in 1 2 3 4 5 6 7 8 9; do
	rmdir both/a && break
	sleep 0.1
done
sleep 2
try vanished tierline status --json
stop nested
kill $b
wait $b
same tenants
