# SPDX-License-Identifier: Apache-2.0
# A thousand requests a second: the steps of the daemon that manages a program, with and without them.
. /job/suite-lib.sh
mkdir -p /etc/tierline/apps.d /sys/fs/cgroup/busy
printf 'cgroup = "busy"\n' >/etc/tierline/apps.d/busy.toml
tierline daemon --metrics 127.0.0.1:9273 --summary /out/storm.summary.json >/out/storm.out 2>/out/storm.err &
daemon=$!
sleep 5
for phase in quiet storm; do
	load $phase --size 120M --hot 24M --duration 7s
	echo $load >/sys/fs/cgroup/busy/cgroup.procs
	sleep 2
	go $phase
	try $phase.before tierline status --json
	case $phase in
	quiet) sleep 5 ;;
	storm) lab-load ask --address 127.0.0.1:9273 --requests 5000 --every 1ms --report /out/asked.json ;;
	esac
	try $phase.after tierline status --json
	ended $phase.load $load
done
kill -TERM $daemon
ended storm.status $daemon
