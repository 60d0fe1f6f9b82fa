# SPDX-License-Identifier: Apache-2.0
# Policies with a memory device that counts accesses: one managed run per line below.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
# A share of accesses goes to the hot set, the others anywhere. The observer queries every page.
program="--size 128M --hot 16M --scatter --interval 500ms --sample 4096 --mapping-sample 32768"

load hold $program --hot-share 0.9 --duration 1500ms
go hold
ended hold.load $load
# With 0.9, the other pages are accessed so often that promoting them repays within the 20 s of the default policy.
while read -r name duration share words; do
	load $name $program --hot-share $share --duration $duration
	settings >/out/$name.before
	attach $name $words
	go $name
	ended $name.load $load
	ended $name.status $manager
	same $name
done <<END
neoprof 3s 0.9 --tracker neoprof --policy neomem --knobs threshold=400
chmu 3s 0.9 --tracker chmu --policy neomem --knobs threshold=400
rule 5s 0.9 --tracker neoprof --policy neomem
default 3s 0.99 --tracker neoprof
END
