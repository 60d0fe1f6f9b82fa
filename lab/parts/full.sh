# SPDX-License-Identifier: Apache-2.0
# A Redis that is larger than fast memory, managed from its start. The text of all programs is in fast memory, too.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
echo 0 >/sys/kernel/mm/numa/demotion_enabled

settings >/out/full.before
managed_redis full
client="lab-load redis-client --socket $socket --keys 120000 --value 4000"
$client --load-only --report /out/filled.json || exit 1
$client --hot-keys-share 0.04 --hot-share 0.9 --get-share 0.98 --duration 12s --report /out/full.json >/dev/null
fact full.load $?
fact full.refaults $(sed -n 's/^workingset_refault_file //p' /proc/vmstat)
kill -TERM $manager
ended full.status $manager
same full
