# SPDX-License-Identifier: Apache-2.0
# A process and two forked children that access the same pages: of shared memory, and of private memory from before the fork.
. /job/suite-lib.sh
settings >/out/family.before
for case in shared private; do
	case $case in shared) what=--shared ;; *) what= ;; esac
	load $case --size 300M --hot 24M --workers 2 --write-share 0 --jump 8s --duration 21s $what
	attach $case
	go $case
	ended $case.load $load
	ended $case.status $manager
done
same family
