# SPDX-License-Identifier: Apache-2.0
# Wrong input, missing prerequisites, and a fast tier filled by another program.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
chmod 755 /run # as everywhere else
echo nobody::65534:65534::/:/lab/bin/sh >>/etc/passwd
settings >/out/refused.before

# The load belongs to the user, so that only the privilege is missing.
echo 'lab-load gups --size 60M --hot 16M --duration 5s --verify --start-file /tmp/mine.go --report - >/tmp/mine.out & echo $! >/tmp/mine.pid; wait $!' >/tmp/mine.sh
su nobody -s /lab/bin/sh -c 'sh /tmp/mine.sh' &
mine=$!
until grep -q READY /tmp/mine.out 2>/dev/null; do sleep 0.1; done

try pid tierline attach -p 99999
try kernelpid tierline attach -p 2
try notpid tierline attach -p 12x
try nothing tierline attach
try nocgroup tierline attach --cgroup no/such/group
try notiers tierline attach -p 1 --tiers fast=0,slow=9
try notracker tierline attach -p 1 --tracker acessed
echo 'max_rat = "1GB/s"' >/tmp/typo.toml
try typo tierline attach -p 1 --config /tmp/typo.toml
try typorun tierline run --config /tmp/typo.toml -- true
mkdir -p /etc/tierline
cp /tmp/typo.toml /etc/tierline/tierline.toml
try typodefault tierline status
rm /etc/tierline/tierline.toml
try set tierline run --set interval=50 -- true

try others su nobody -s /lab/bin/sh -c "tierline attach -p 1 --duration 1s"
touch /tmp/mine.go # the load's five seconds are for the attaches below
try own su nobody -s /lab/bin/sh -c "tierline attach -p $(cat /tmp/mine.pid) --duration 1s"
try ownstate su nobody -s /lab/bin/sh -c "tierline attach -p $(cat /tmp/mine.pid) --duration 1s --state-dir /tmp/nobody"
try ownrun su nobody -s /lab/bin/sh -c "tierline run -- sh -c 'exit 7'"
try owndoctor su nobody -s /lab/bin/sh -c "tierline doctor --json"
ended mine.load $mine
cp /tmp/mine.out /out/mine.out

# Without /proc/kcore the next tracker of the ladder is used.
mount --bind /dev/null /proc/kcore
try kcore tierline attach -p 1 --tracker accessed --duration 1s
try ladder tierline attach -p 1 --duration 1s
umount /proc/kcore
try strict tierline run --strict --tracker pebs -- true
same refused

# A bystander occupies most of fast memory and never accesses it; the kernel would demote it to make room.
echo 1 >/sys/kernel/mm/numa/demotion_enabled
fill=$(($(sed -n 's/.*MemFree: *\([0-9]*\) kB/\1/p' /sys/devices/system/node/node0/meminfo) / 1024 - 50))
load crowded --size 200M --hot 96M --duration 10s
lab-load fill --node 0 --size ${fill}M --hold 13s --report /out/bystander.json >/tmp/full &
bystander=$!
until grep -q READY /tmp/full; do sleep 0.1; done
attach crowded
go crowded
ended crowded.load $load
ended crowded.status $manager
ended bystander.status $bystander

# Fast memory fills up while pages move to it.
echo 0 >/sys/kernel/mm/numa/demotion_enabled
load rush --size 200M --hot 96M --duration 9s
attach rush --max-rate 32MB/s
go rush
sleep 1
lab-load fill --node 0 --size 280M --hold 5s --touch 1s --report /out/rusher.json >/dev/null &
rusher=$!
ended rush.load $load
ended rush.status $manager
ended rusher.status $rusher
dmesg | grep -E 'Out of memory|oom-kill|BUG|Oops|WARNING:' | head -3 >/out/dmesg
