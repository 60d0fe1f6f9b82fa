# SPDX-License-Identifier: Apache-2.0
# A program in huge pages whose hot base pages are scattered over all of them.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
echo always >/sys/kernel/mm/transparent_hugepage/enabled

splits() {
	sed -n 's/^thp_split_page //p' /proc/vmstat
}

split=$(splits)
tierline run --summary /out/scattered.summary.json -- \
	lab-load gups --size 600M --hot 96M --scatter --thp always --verify --duration 45s --report /out/scattered.json >/out/scattered.out 2>/out/scattered.err
fact scattered.load $?
fact scattered.split $(($(splits) - split))
