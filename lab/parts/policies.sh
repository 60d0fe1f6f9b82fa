# SPDX-License-Identifier: Apache-2.0
# A program whose hot set jumps, under one policy after the other. policies.sh THP SIZE HOT JUMP END POLICY[:TRACKER]…, times in seconds.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
thp=$1 size=$2 hot=$3 jump=$4 end=$5
shift 5
echo $thp >/sys/kernel/mm/transparent_hugepage/enabled

for case in "$@"; do
	policy=${case%%:*} tracker=${case#$policy} name=$(echo $case | tr ':+/' '___')
	settings >/out/$name.before
	tierline run --policy $policy ${tracker:+--tracker ${tracker#:}} --summary /out/$name.summary.json --events /out/$name.events -- \
		lab-load gups --size $size --hot $hot --thp $thp --verify --jump ${jump}s --duration ${end}s --report /out/$name.json >/out/$name.out 2>/out/$name.err
	fact $name.status $?
	same $name
done
