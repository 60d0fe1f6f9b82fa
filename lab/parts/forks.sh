# SPDX-License-Identifier: Apache-2.0
# A program in huge pages that forks a child every second: what it writes to is then mapped by base pages.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
echo always >/sys/kernel/mm/transparent_hugepage/enabled

tierline run --summary /out/forks.summary.json -- \
	lab-load gups --size 600M --hot 96M --beside fork --thp always --verify --duration 30s --jump 15s --node 1 --report /out/forks.json >/out/forks.out 2>/out/forks.err
fact forks.load $?
