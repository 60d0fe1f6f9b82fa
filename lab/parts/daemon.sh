# SPDX-License-Identifier: Apache-2.0
# The daemon on a real kernel: tenants by rule and by cgroup, commands that join it, a reload, a kill and a restart, a stop.
. /job/suite-lib.sh
echo 1 >/proc/sys/kernel/numa_balancing
echo 0 >/sys/kernel/mm/numa/demotion_enabled
settings >/out/daemon.before
apps=/etc/tierline/apps.d
mkdir -p $apps /sys/fs/cgroup/web /sys/fs/cgroup/batch
printf 'match = { comm = "^redis-server$", user = "root" }\nlimit = "fast=64MiB"\n' >$apps/cache.toml
printf 'cgroup = "batch"\n' >$apps/batch.toml

# daemon NAME: starts one, and waits until it answers; $daemon is its pid.
daemon() {
	tierline daemon --metrics 127.0.0.1:9273 --summary /out/$1.summary.json >/out/$1.out 2>/out/$1.err &
	daemon=$!
	until wget -q -O /dev/null http://127.0.0.1:9273/metrics 2>/dev/null; do
		kill -0 $daemon || exit 1
		sleep 0.1
	done
}

# processes TENANT NUMBER: waits until a tenant has so many processes; the time that took becomes a fact.
processes() {
	hundredths
	began=$hundredths
	until tierline status --json | tr -d ' \n' | grep -q "\"tenant_processes\":{[^}]*\"$1\":$2[,}]"; do
		hundredths
		[ $((hundredths - began)) -lt 2000 ] || break
		sleep 0.1
	done
	hundredths
	fact $1.$2.after $((hundredths - began))
}

# at_most MIB: waits until Redis has no more than this mapped from fast memory; what it has then becomes a fact.
at_most() {
	hundredths
	began=$hundredths
	while true; do
		pages=$(awk '{ for (at = 1; at <= NF; at++) if ($at ~ /^N0=/) pages += substr($at, 4) } END { print pages }' /proc/$redis/numa_maps)
		hundredths
		[ $((pages / 256)) -gt $1 ] && [ $((hundredths - began)) -lt 2000 ] || break
		sleep 0.1
	done
	fact under.$1 $pages
}

daemon daemon
for task in /proc/$daemon/task/*; do
	echo "$(cat $task/comm) $(sed -n 's/^CapEff:\t//p; s/^NoNewPrivs:\t//p; s/^Seccomp:\t//p' $task/status | tr '\n' ' ')"
done >/out/tasks

# A program that starts later is found by its rule, and is kept within its limit.
server web 26000
redis=$server
fact redis $redis
processes cache 1
at_most 64
try status tierline status --json
wget -q -O /out/metrics http://127.0.0.1:9273/metrics

# A command becomes a tenant until it ends.
go joined
try joined tierline run -- lab-load gups --size 120M --hot 24M --duration 8s --verify --start-file /tmp/joined.go --report /out/joined.json
tierline status --json >/out/after.out

# What a file says counts after a reload; a bad file changes nothing.
printf 'match = { comm = "^redis-server$", user = "root" }\nlimit = "fast=32MiB"\n' >$apps/cache.toml
kill -HUP $daemon
at_most 32
printf 'match = { comm = "(" }\n' >$apps/cache.toml
kill -HUP $daemon
until grep -q 'old ones stay in force' /out/daemon.err; do sleep 0.1; done
processes cache 1
printf 'match = { comm = "^redis-server$", user = "root" }\nlimit = "fast=32MiB"\n' >$apps/cache.toml

# A requested tenant outlives a killed daemon, and so does Redis.
tierline attach -p $redis >/out/requested.out 2>/out/requested.err &
requested=$!
until grep -q 'managed by the daemon' /out/requested.err; do sleep 0.1; done
kill -9 $daemon
wait $daemon 2>/dev/null
settings >/out/killed.while
try recover tierline recover
settings | grep -v '^left' >/tmp/recovered
fact recovered "$(grep -v '^left' /out/daemon.before | diff - /tmp/recovered | tr '\n' ' ')"
daemon again
processes pid$redis-$requested-0 1
try standing tierline status --json
lab-load redis-client --socket /tmp/web.sock --keys 26000 --value 4K --hot-keys-share 0.05 --duration 3s --report /out/client.json >/dev/null
fact client.status $?
kill -TERM $requested
ended requested.status $requested
processes cache 1
kill -TERM $daemon
ended daemon.status $daemon
same daemon
kill $redis
wait $redis
