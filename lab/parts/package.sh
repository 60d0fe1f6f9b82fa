# SPDX-License-Identifier: Apache-2.0
# The life of the package on a Debian with systemd and Redis: installed, used, killed, upgraded, removed, purged.
. /job/suite-lib.sh
echo 1 >/proc/sys/kernel/numa_balancing
echo 0 >/sys/kernel/mm/numa/demotion_enabled

# trace: prints every file, unit, user and group of the machine. What dpkg and systemd keep about packages does not count.
trace() {
	find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /lab -o -path /job -o -path /out -o -path /var/log \
		-o -path /var/lib/dpkg -o -path /var/lib/redis -o -path /var/lib/systemd -o -path '/var/cache/*' \) -prune -o -print | sort
	cut -d: -f1 /etc/passwd /etc/group
	systemctl list-unit-files --no-legend --no-pager tierline.service
}

# redis NAME TIME: requests, all values checked.
redis() {
	lab-load redis-client --socket /run/redis/redis.sock --keys 26000 --value 4K --hot-keys-share 0.05 --duration $2 --report /out/$1.client.json >/dev/null
	fact $1.client $?
	used system.slice/redis-server.service
	fact $1.fast $fast
}

# active NAME: waits until the service is active; its main process becomes a fact.
active() {
	for tenth in $(seq 100); do
		[ "$(systemctl is-active tierline)" = active ] && break
		sleep 0.1
	done
	fact $1.active "$(systemctl is-active tierline)"
	fact $1.main "$(systemctl show -P MainPID tierline)"
}

printf 'unixsocket /run/redis/redis.sock\nsave ""\n' >>/etc/redis/redis.conf
systemctl restart redis-server
# It is filled on the slow node, as another program occupies the fast one.
lab-load fill --node 0 --size 290M --hold 600s --report /out/neighbour.json >/tmp/neighbour.ready &
neighbour=$!
until grep -q READY /tmp/neighbour.ready && [ -S /run/redis/redis.sock ]; do sleep 0.1; done
lab-load redis-client --socket /run/redis/redis.sock --keys 26000 --value 4K --load-only --report /out/filled.json >/dev/null
kill $neighbour
settings >/out/package.before
trace >/out/trace.before
redis unmanaged 1s

# Two commands, and Redis is managed.
try install dpkg -i /job/1.deb
timeout 60 tierline attach --comm '^redis-server$' --duration 10s --summary /out/attach.summary.json >/out/attach.out 2>/out/attach.err &
attach=$!
sleep 2
redis attached 6s
ended attach.status $attach
same package

# As a service.
printf 'unit = "redis-server.service"\nlimit = "fast=24MiB"\n' >/etc/tierline/apps.d/redis.toml
try enable systemctl enable --now tierline
active first
sleep 5
redis service 2s
watch service 100 system.slice/redis-server.service
try status tierline status --json
try outsider setpriv --reuid redis --regid redis --clear-groups tierline status
try member setpriv --reuid redis --regid redis --groups tierline tierline status
systemctl show tierline -P CapabilityBoundingSet >/out/bounding
for task in /proc/$(systemctl show -P MainPID tierline)/task/*; do
	echo "$(cat $task/comm) $(sed -n 's/^CapEff:\t//p; s/^CapBnd:\t//p; s/^Seccomp_filters:\t//p' $task/status | tr '\n' ' ')"
done >/out/tasks

# The watchdog is content for longer than its time.
sleep 40
active later

# A killed daemon is started again. In between its settings were restored.
systemctl kill -s KILL tierline
for tenth in $(seq 100); do
	[ "$(systemctl show -P NRestarts tierline)" = 1 ] && break
	sleep 0.1
done
active killed
try reload systemctl reload tierline

# An upgrade: a requested tenant and a changed configuration file stay.
tierline attach --cgroup system.slice/systemd-journald.service >/out/requested.out 2>/out/requested.err &
requested=$!
until grep -q 'managed by the daemon' /out/requested.err; do
	kill -0 $requested || break
	sleep 0.1
done
echo '# mine' >>/etc/tierline/tierline.toml
try upgrade dpkg -i --force-confold /job/2.deb
active upgraded
try version dpkg-query -W -f '${Version}' tierline
# Its tenants' programs are found within the first steps.
for tenth in $(seq 100); do
	try upgradedstatus tierline status --json
	tr -d ' \n' </out/upgradedstatus.out | grep -q '"tenant_processes":{[^}]*,' && break
	sleep 0.1
done
fact mine "$(grep -c '^# mine' /etc/tierline/tierline.toml)"
kill $requested
ended requested.status $requested
redis upgraded 2s

# Removed, the machine is as before; purged, the files are too.
try remove dpkg -r tierline
fact removed.active "$(systemctl is-active tierline)"
settings >/out/removed.after
fact removed.changed "$(grep -v '^left' /out/removed.after | diff /out/package.before - | tr '\n' ' ')"
fact removed.left "$(ls /run/tierline 2>/dev/null | tr '\n' ' ')"
redis removed 1s
rm /etc/tierline/apps.d/redis.toml
try purge dpkg -P tierline
trace >/out/trace.after
fact purged.trace "$(diff /out/trace.before /out/trace.after | grep '^[<>]' | tr '\n' ' ')"
same package
journalctl -o short-monotonic -u tierline --no-pager >/out/journal
systemctl --failed --no-legend --plain >/out/failed
