# SPDX-License-Identifier: Apache-2.0
# One program, unmanaged and then managed, on a machine whose clock counts instructions.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
# As in the standard workload, a warm page gets a thirtieth of the accesses of a hot page.
program="--size 200M --hot 32M --hot-share 0.95"

load hold $program --duration 3s
go hold
ended hold.status $load

load managed $program --jump 8s --duration 18s
attach managed --events /out/managed.events
before=$(migrated)
go managed
ended managed.status $load
ended manager.status $manager
fact migrated $(($(migrated) - before))
