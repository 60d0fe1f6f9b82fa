# SPDX-License-Identifier: Apache-2.0
# Redis with a memory device that counts accesses. It is filled on the slow node, as another program occupies
# the fast one, and is managed from its start. Then the other program exits.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
echo 0 >/sys/kernel/mm/numa/demotion_enabled

lab-load fill --node 0 --size 300M --hold 600s --report /out/neighbour.json >/tmp/neighbour.ready &
neighbour=$!
until grep -q READY /tmp/neighbour.ready; do
	kill -0 $neighbour 2>/dev/null || exit 1
	sleep 0.1
done

settings >/out/redis.before
managed_redis redis --tracker neoprof
# One key in twenty gets nine of ten requests. A tenth of all requests write a value again, at another address.
client="lab-load redis-client --socket $socket --keys 20000 --value 4K --hot-keys-share 0.05 --interval 250ms"
$client --load-only --report /out/filled.json || exit 1
# Longer than the device counts between two clearings: what it counted while values were filled in shows no hot ones.
$client --duration 3s --report /out/slow.json
fact slow.load $?
kill $neighbour
$client --duration 2s --report /out/redis.json
fact redis.load $?
kill -TERM $manager
ended redis.status $manager
same redis
