# SPDX-License-Identifier: Apache-2.0
# A memory device that counts its accesses, and what policies make of it: each managed run is one line below.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
# Nine of ten accesses go to the hot set, the others anywhere. The observer asks for every page.
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
