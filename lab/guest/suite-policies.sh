# SPDX-License-Identifier: Apache-2.0
# A program whose hot set jumps, under one published policy after the other. suite-policies.sh THP JUMP END POLICY[:TRACKER]…, times in seconds.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
thp=$1 jump=$2 end=$3
shift 3
echo $thp >/sys/kernel/mm/transparent_hugepage/enabled

for case in "$@"; do
	policy=${case%%:*} tracker=${case#$policy} name=$(echo $case | tr ':+/' '---')
	settings >/out/$name.before
	tierline run --policy $policy ${tracker:+--tracker ${tracker#:}} --summary /out/$name.summary.json --events /out/$name.events -- \
		lab-load gups --size 600M --hot 96M --thp $thp --verify --jump ${jump}s --duration ${end}s --report /out/$name.json >/out/$name.out 2>/out/$name.err
	fact $name.status $?
	same $name
done
