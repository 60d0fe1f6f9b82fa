# SPDX-License-Identifier: Apache-2.0
# Memory is paged out to compressed swap while the program that owns it runs: unused memory, which stays out; then memory that is used
# every few seconds and has to be read back, with a low and with a high stall threshold.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
tmo="--policy first-touch+tmo --knobs swap=1,tmo_interval=0.5,tmo_ratio=0.1"

# start NAME [WORDS OF gups]: starts a load in a cgroup of that name, to which its memory is then charged.
start() {
	mkdir /sys/fs/cgroup/$1
	echo $$ >/sys/fs/cgroup/$1/cgroup.procs
	load "$@"
	echo $$ >/sys/fs/cgroup/cgroup.procs
}

# paged NAME: what was paged out of a cgroup that is still out, and how many pages were read back.
paged() {
	fact $1.swapped_kib $(sed -n 's/^VmSwap:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$load/status)
	fact $1.read_back $(sed -n 's/^pgmajfault //p' /sys/fs/cgroup/$1/memory.stat)
}

try noswap tierline attach -p 1 --duration 1s $tmo
swap 256M
settings >/out/tmo.before
start tmo --size 100M --hot 16M --hot-share 1 --duration 15s
attach tmo --cgroup tmo $tmo
go tmo
sleep 14
paged tmo
ended tmo.load $load
ended tmo.status $manager

# Pages outside the hot set are used every six seconds or so.
for one in patient:0.001 ruthless:0.5; do
	name=${one%:*}
	start $name --size 100M --hot 16M --hot-share 0.9995 --duration 8s
	attach $name --cgroup $name $tmo,stall_threshold=${one#*:}
	go $name
	sleep 7
	paged $name
	ended $name.load $load
	ended $name.status $manager
done
same tmo
