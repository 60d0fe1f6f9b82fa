# SPDX-License-Identifier: Apache-2.0
# Fifty tenants that do nothing: what the daemon costs, and how soon it answers.
. /job/suite-lib.sh
apps=/etc/tierline/apps.d
mkdir -p $apps
for at in $(seq 50); do
	mkdir -p /sys/fs/cgroup/calm$at
	printf 'cgroup = "calm%s"\nlimit = "fast=4MiB"\n' $at >$apps/calm$at.toml
	lab-load fill --node $((at % 2)) --size 4M --hold 1000s --report /dev/null >/dev/null 2>&1 &
	echo $! >/sys/fs/cgroup/calm$at/cgroup.procs
done
sleep 2
tierline daemon --metrics 127.0.0.1:9273 --events /out/calm.events --summary /out/calm.summary.json >/out/calm.out 2>/out/calm.err &
daemon=$!
lab-load cpu --pid $daemon --every 5s >/out/calm.cpu 2>/out/calm.cpu.err &
cpu=$!
for at in $(seq 24); do
	sleep 5
	[ $((at % 4)) = 0 ] && tierline status >/out/calm.status.$at 2>&1
done
kill $cpu
kill -TERM $daemon
ended calm.status $daemon
