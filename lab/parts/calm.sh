# SPDX-License-Identifier: Apache-2.0
# Fifty tenants that do nothing: what the daemon costs, how soon it answers, and that more requests than it serves delay nothing.
. /job/suite-lib.sh
apps=/etc/tierline/apps.d
mkdir -p $apps
for at in $(seq 50); do
	mkdir -p /sys/fs/cgroup/calm$at
	printf 'cgroup = "calm%s"\nlimit = "fast=4MiB"\n' $at >$apps/calm$at.toml
	lab-load fill --node $((at % 2)) --size 4M --hold 1000s --report /dev/null >/dev/null 2>&1 &
	echo $! >/sys/fs/cgroup/calm$at/cgroup.procs
done
mkdir -p /sys/fs/cgroup/busy
printf 'cgroup = "busy"\n' >$apps/busy.toml
sleep 2
tierline daemon --metrics 127.0.0.1:9273 --events /out/calm.events --summary /out/calm.summary.json >/out/calm.out 2>/out/calm.err &
daemon=$!
sleep 60
lab-load cpu --pid $daemon --report /out/calm.before
sleep 60
lab-load cpu --pid $daemon --report /out/calm.after
lab-load ask --address 127.0.0.1:9273 --requests 100 --every 100ms --report /out/calm.asked

# A program beside a thousand requests a second.
load busy --size 120M --hot 24M --duration 10s
echo $load >/sys/fs/cgroup/busy/cgroup.procs
sleep 10
go busy
lab-load ask --address 127.0.0.1:9273 --requests 10000 --every 1ms --report /out/calm.stormed
wait $load
fact busy.status $?
kill -TERM $daemon
ended calm.status $daemon
