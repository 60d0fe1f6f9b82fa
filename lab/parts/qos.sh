# SPDX-License-Identifier: Apache-2.0
# Three programs in cgroups under one manager: Redis (latency-sensitive), a load that reads all its memory (a bandwidth target, the least
# important), and SQLite over a mapped file, of which a part is hot, that comes late and is the most important.
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
echo 0 >/sys/kernel/mm/numa/demotion_enabled
cd /sys/fs/cgroup
mkdir qos
echo "+memory +cpu +cpuset" >qos/cgroup.subtree_control
mkdir qos/redis qos/hog qos/late qos/idle
echo "90000 100000" >qos/hog/cpu.max

# program GROUP WORDS OF gups: starts a load in a cgroup, filled and waiting; $program is its pid.
program() {
	group=$1
	shift
	rm -f /tmp/$group.go
	sh -c "echo \$\$ >qos/$group/cgroup.procs; exec lab-load gups --start-file /tmp/$group.go --report /out/$group.json --verify --duration 200s $*" >/tmp/$group.ready 2>/out/$group.load.err &
	program=$!
	until grep -q READY /tmp/$group.ready; do
		kill -0 $program || exit 1
		sleep 0.1
	done
}

# database GROUP ROWS FIRST HOT: a file of so many rows, one a page, on node 1 and charged to a cgroup; SQLite waits there, and then maps it and
# scans fifty rows at a time, nine times in ten of the hot ones; $program is its pid.
database() {
	group=$1
	mkdir -p /tmp/db
	mount -t tmpfs -o size=200M,huge=never none /tmp/db
	echo 1 >qos/$group/cpuset.mems
	sh -c "echo \$\$ >qos/$group/cgroup.procs; exec sqlite3 /tmp/db/file" <<-SQL >/dev/null || exit 1
		PRAGMA journal_mode = off;
		CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB);
		WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < $2) INSERT INTO t SELECT i, CAST(printf('%03900d', i) AS BLOB) FROM c;
	SQL
	echo >qos/$group/cpuset.mems
	cat >/tmp/queries.sql <<-SQL
		PRAGMA mmap_size = 200000000; PRAGMA cache_size = 100;
		WITH RECURSIVE c(i, first) AS (SELECT 1, 1 UNION ALL
			SELECT i + 1, CASE abs(random()) % 10 WHEN 0 THEN abs(random()) % ($2 - 50) ELSE $3 + abs(random()) % ($4 - 50) END FROM c)
		SELECT total((SELECT total(length(substr(v, 1900, 8))) FROM t WHERE id BETWEEN first + 1 AND first + 50)) FROM c;
	SQL
	rm -f /tmp/$group.go
	sh -c "echo \$\$ >qos/$group/cgroup.procs; until [ -e /tmp/$group.go ]; do sleep 0.1; done; exec sqlite3 -batch -init /tmp/queries.sql /tmp/db/file .exit" >/out/$group.out 2>/out/$group.load.err &
	program=$!
}

# throttled NAME: reports a latency far above the target until the hog's CPU time is limited, at most forty times.
throttled() {
	tries=0
	while [ $((tries += 1)) -le 40 ]; do
		tierline qos report redis --latency 5us --samples 100 2>>/out/report.err
		sleep 0.5
		read -r quota _ <qos/hog/cpu.max
		[ $quota = 90000 ] || break
	done
	fact $1.tries $tries
	fact $1 "$(cat qos/hog/cpu.max)"
}

manage() {
	tierline attach --apps /tmp/apps --summary /out/$1.summary.json >/out/$1.out 2>/out/$1.err &
	manager=$!
	until tierline qos list >/tmp/list 2>&1; do
		kill -0 $manager || exit 1
		sleep 0.1
	done
}

server qos/redis 12000
redis=$server
program hog --size 200M --hot 1M --hot-share 0 --node 0
hog=$program
settings >/out/qos.before

mkdir /tmp/apps
cat >/tmp/apps/redis.toml <<EOF
type = "ls"
slo = "slow-share=20%"
priority = 2
cgroup = "qos/redis"
EOF
cat >/tmp/apps/hog.toml <<EOF
type = "bi"
slo = "1GB/s"
priority = 1
cgroup = "qos/hog"
EOF
manage first
touch /tmp/hog.go
lab-load redis-client --socket /tmp/redis.sock --keys 12000 --value 4K --hot-keys-share 0.05 --duration 190s --report /out/client.json >/dev/null 2>&1 &
client=$!
sleep 2
watch before 100 qos/redis qos/hog qos/late
try list1 tierline qos list --json
try text1 tierline qos list

# Refusals change nothing.
try impossible tierline qos submit x --type ls --slo 1ns --priority 9 --cgroup qos/idle
try taken tierline qos submit x --type ls --slo 5% --priority 2 --cgroup qos/idle
try gone tierline qos submit x --type ls --slo 5% --priority 9 --cgroup qos/none
try list2 tierline qos list --json

# A late one of the highest priority gets its memory.
database late 25000 5000 15000
late=$program
cksum </tmp/db/file >/tmp/db.before
try late tierline qos submit late --type ls --slo slow-share=5% --priority 3 --cgroup qos/late
touch /tmp/late.go
watch after 6000 qos/redis qos/hog qos/late
try list3 tierline qos list --json
watch held 100 qos/redis qos/hog qos/late
try list4 tierline qos list --json
try explain tierline qos explain late
try profile tierline qos profile late

# Redis has all its memory fast and still reports a miss: the hog's CPU time is limited until Redis is removed.
try ns tierline qos set redis --slo 1us
throttled cpu.first
try explainhog tierline qos explain hog
try removed tierline qos remove redis
sleep 1
fact cpu.lifted "$(cat qos/hog/cpu.max)"

# After kill -9 the limit stays until recover.
try again tierline qos submit redis --type ls --slo 1us --priority 2 --cgroup qos/redis
throttled cpu.second
kill -9 $manager
wait $manager 2>/dev/null
fact cpu.killed "$(cat qos/hog/cpu.max)"
try recover tierline recover
fact cpu.recovered "$(cat qos/hog/cpu.max)"

# A manager that ends by itself restores it, too.
manage second
try nanoseconds tierline qos set redis --slo 1us
throttled cpu.third
watch second 100 qos/redis qos/hog qos/late
kill -TERM $manager
ended second.status $manager
fact cpu.ended "$(cat qos/hog/cpu.max)"
fact late.alive $(($(kill -0 $late && echo 1)))
kill $client $late $hog $redis
wait $client $late $hog $redis
fact late.intact $(($(cksum </tmp/db/file | cmp -s - /tmp/db.before && echo 1)))
same qos
