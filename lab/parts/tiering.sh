# SPDX-License-Identifier: Apache-2.0
# The kernel's tiering, driven by Tierline; then our own instead, with bursts of new pages and a bystander.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing

load kernel --size 200M --hot 32M --hot-share 0.95 --duration 15s
settings >/out/kernel.before
attach kernel --policy kernel --knobs hot_threshold=0.5 --max-rate 64GB/s --events /out/kernel.events
go kernel
sleep 11
settings >/out/kernel.while
try status tierline status --json
try statustext tierline status
ended kernel.load $load
ended kernel.status $manager
same kernel

load dead --size 60M --hot 16M --duration 6s
settings >/out/dead.before
attach dead --policy kernel
go dead
until grep -q 2 /proc/sys/kernel/numa_balancing; do sleep 0.1; done
kill -9 $manager
wait $manager 2>/dev/null
settings >/out/dead.while
try recover tierline recover
same dead
ended dead.load $load
try rehearsed tierline run --policy kernel --dry-run -- true
try tracked tierline run --policy kernel --tracker accessed -- true
try noknob tierline run --policy tpp --knobs no_such=1 -- true

lab-load fill --size 60M --hold 34s --report /out/bystander.json >/tmp/full &
bystander=$!
until grep -q READY /tmp/full; do sleep 0.1; done
load crowd --size 400M --hot 64M --hot-share 0.99 --node 0 --duration 26s
lab-load burst --start-file /tmp/crowd.go --size 24M --delay 10s --period 5s --bursts 4 --live 1s --report /out/burst.json >/tmp/burst &
burst=$!
until grep -q READY /tmp/burst; do sleep 0.1; done
# Fast memory is full now, and the machine's owner has enabled demotion by the kernel.
echo 1 >/sys/kernel/mm/numa/demotion_enabled
settings >/out/burst.before
tierline attach -p $load,$burst --policy tpp --tracker hint_faults --summary /out/burst.summary.json >/out/burst.out 2>/out/burst.err &
manager=$!
go crowd
ended crowd.load $load
ended burst.load $burst
ended burst.status $manager
ended bystander.load $bystander
same burst
