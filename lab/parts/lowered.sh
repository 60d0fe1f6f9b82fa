# SPDX-License-Identifier: Apache-2.0
# A daemon, and limits that are lowered by 100 MB in their files: of a Redis in base pages, then of a program in huge pages.
. /job/suite-lib.sh
echo always >/sys/kernel/mm/transparent_hugepage/enabled
apps=/etc/tierline/apps.d
mkdir -p $apps /sys/fs/cgroup/a /sys/fs/cgroup/b
echo +memory >/sys/fs/cgroup/cgroup.subtree_control

# lower CGROUP MIB NAME TIME: lowers the limit, and watches the group from then on.
lower() {
	used $1
	fact $3.before $fast
	fact $3.limit $2
	hundredths
	lowered=$hundredths
	printf 'cgroup = "%s"\nlimit = "fast=%sMiB"\n' $1 $2 >$apps/$1.toml
	kill -HUP $daemon
	watch $3 $4 $1
	fact $3.began $((began - lowered))
}

server a 52000
printf 'cgroup = "a"\nlimit = "fast=200MiB"\n' >$apps/a.toml
settings >/out/lowered.before
tierline daemon --summary /out/lowered.summary.json >/out/lowered.out 2>/out/lowered.err &
daemon=$!
sleep 12
lower a 100 base 300

kill $server
wait $server
# Memory is charged to the group in which it was filled.
echo $$ >/sys/fs/cgroup/b/cgroup.procs
load huge --size 220M --hot 24M --duration 8s --node 0 --thp always
echo $$ >/sys/fs/cgroup/cgroup.procs
printf 'cgroup = "b"\nlimit = "fast=200MiB"\n' >$apps/b.toml
kill -HUP $daemon
sleep 3
go huge
sleep 5
# Memory that the server left is scattered, so some huge pages may have come to slow memory.
used b
lower b $((fast / 1048576 - 98)) huge 200
ended huge.load $load
kill -TERM $daemon
ended lowered.status $daemon
same lowered
