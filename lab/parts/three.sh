# SPDX-License-Identifier: Apache-2.0
# Three tiers. A program in the slowest, whose hot set is larger than the fastest.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing

try topology tierline topology --json
load three --size 500M --hot 260M --hot-share 0.95 --node 2 --duration 24s
attach three
go three
sleep 20
mappings three.after
ended three.load $load
ended three.status $manager
