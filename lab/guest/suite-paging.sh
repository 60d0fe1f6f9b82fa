# SPDX-License-Identifier: Apache-2.0
# Unused memory is paged out to compressed swap while the program runs, and is read back unchanged.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
tmo="--policy first-touch+tmo --knobs swap=1,tmo_interval=0.5,tmo_ratio=0.1"

try noswap tierline attach -p 1 --duration 1s $tmo
swap 256M
mkdir /sys/fs/cgroup/tenant
load tmo --size 100M --hot 16M --hot-share 1 --duration 20s
echo $load >/sys/fs/cgroup/tenant/cgroup.procs
settings >/out/tmo.before
attach tmo --cgroup tenant $tmo --events /out/tmo.events
go tmo
sleep 17
fact tmo.swapped_kib $(sed -n 's/^VmSwap:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$load/status)
fact tmo.refaults $(sed -n 's/^workingset_refault_anon //p' /proc/vmstat)
ended tmo.load $load
ended tmo.status $manager
same tmo
