# SPDX-License-Identifier: Apache-2.0
# Policies with a memory device that counts accesses: one managed run per line below.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
# Nine of ten accesses go to the hot set, the others anywhere. The observer queries every page.
program="--size 128M --hot 16M --scatter --hot-share 0.9 --interval 500ms --sample 4096 --mapping-sample 32768"

load hold $program --duration 1500ms
go hold
ended hold.load $load
while read -r name duration words; do
	load $name $program --duration $duration
	settings >/out/$name.before
	attach $name $words
	go $name
	ended $name.load $load
	ended $name.status $manager
	same $name
done <<END
neoprof 3s --tracker neoprof --policy neomem --knobs threshold=400
chmu 3s --tracker chmu --policy neomem --knobs threshold=400
rule 5s --tracker neoprof --policy neomem
default 3s --tracker neoprof
END
