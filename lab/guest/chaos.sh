# SPDX-License-Identifier: Apache-2.0
# Faults while programs are managed; for lab/chaos. chaos.sh SEED PART[:WORDS]…  Each part prints rows: `row=PART|CASE|KEY=VALUE …`.
. /job/suite-lib.sh
RANDOM=$1
shift
echo 0 >/proc/sys/kernel/numa_balancing
mkdir -p /tmp/apps /sys/fs/cgroup/small
printf 'match = { comm = "^lab-load$" }\nlimit = "fast=64MiB"\n' >/tmp/apps/loads.toml
settings >/tmp/before

row() { # PART CASE [KEY=VALUE]…
	part=$1 case=$2
	shift 2
	echo "row=$part|$case|$*"
}

# snapshot: sets $snapshot to all settings and files left, as `settings` prints them, but starts no process: most of the time of a kill
# would go there. A socket that is left harms nobody: the next manager replaces it.
snapshot() {
	snapshot=
	for file in $setting_files /sys/kernel/tracing/dynamic_events; do
		while read -r line; do snapshot="$snapshot$file: $line;"; done <$file
	done 2>/dev/null
	for file in /run/tierline/*; do
		case $file in
		*.sock) ;;
		*) [ ! -e $file ] || snapshot="${snapshot}left: $file;" ;;
		esac
	done
}
snapshot
before_all=$snapshot

# recovered: restores what is left. $recovered is 1 if that worked and every setting is as before, $dirty is 1 if something was changed.
recovered() {
	snapshot
	dirty=1
	# The journal of a manager that changed nothing is no change.
	[ "${snapshot%%left:*}" != "$before_all" ] || dirty=0
	recovered=1
	tierline recover >/tmp/recover.out 2>&1 || recovered=0
	snapshot
	[ "$snapshot" = "$before_all" ] || recovered=0
	[ $recovered = 1 ] || { echo "--- $1"; cat /tmp/recover.out; settings | diff /tmp/before -; } >>/out/wrong.err
}

# spin TIME: up to so many hundredths of a second.
spin() {
	sleep $(printf 0.%02d $((RANDOM % 100)))
	[ $1 -le 100 ] || sleep $((RANDOM % ($1 / 100)))
}

# finish PART NAME: waits for a load, and whether its memory is as written.
finish() {
	wait $load
	row $1 program intact=$(($? == 0))
}

# kill:TIME: kill -9 of managers and daemons at any moment, for so many seconds.
chaos_kill() {
	load kill --size 160M --hot 48M --scatter --duration ${1}s
	program=$load
	lab-load forker --duration ${1}s --size 32M --report /out/kill.forker.json --start-file /tmp/kill.go >/dev/null &
	forker=$!
	# Managers come first, so that they get far in little time.
	renice -n 10 -p $program $forker >/dev/null
	go kill
	kills=0 moving=0 changed=0 kept=0 early=0
	while kill -0 $program 2>/dev/null; do
		case $((RANDOM % 6)) in
		0) words="attach -p $program --tracker hint_faults --max-rate 8MB/s" ;;
		1) words="attach -p $program,$forker --tracker accessed --max-rate 8MB/s" ;;
		2) words="attach -p $program --tracker damon" ;;
		3) words="attach -p $program --tracker soft_dirty --max-rate 8MB/s" ;;
		*) words="daemon --apps /tmp/apps --max-rate 8MB/s" ;;
		esac
		tierline $words >/dev/null 2>>/out/kill.err &
		manager=$!
		before=$(migrated)
		# A third while it starts, a third while it runs, a third while it ends.
		case $((RANDOM % 3)) in
		0) sleep $(printf 0.%02d $((RANDOM % 40))) ;;
		1) spin 200 ;;
		2)
			sleep 0.$((RANDOM % 10))
			kill -TERM $manager
			sleep $(printf 0.%03d $((RANDOM % 100)))
			;;
		esac
		kill -9 $manager 2>/dev/null || early=$((early + 1))
		wait $manager
		kills=$((kills + 1))
		[ $(($(migrated) - before)) -gt 0 ] && moving=$((moving + 1))
		recovered "kill -9 of $words"
		changed=$((changed + dirty)) kept=$((kept + 1 - recovered))
	done 2>/dev/null
	wait $forker
	row kill forker intact=$(($? == 0))
	load=$program
	finish kill
	row kill managers kills=$((kills - early)) ended=$early moving=$moving changed=$changed lost=$kept
}

# errors:TRACKER:CHANCE:AFTER:CALLS…: one manager for each call, of which some fail; `each`: for each of all calls; `pairs`: for
# each error of each call.
chaos_errors() {
	tracker=$1 chance=$2 after=$3
	shift 3
	case $1 in
	each) set -- $(lab-load faults --list | cut -d' ' -f1) ;;
	pairs) set -- $(lab-load faults --list | tr -d '[],' | while read call errors; do
		for error in $errors; do echo $call=$error; done
	done) ;;
	esac
	for calls; do
		name=errors.$tracker.$chance.$calls error= length=4s
		[ ${calls%=*} = $calls ] || { error="--errors ${calls#*=}" length=2s; }
		load $name --size 40M --hot 12M --duration $length
		timeout -s KILL 60 lab-load faults --calls ${calls%=*} $error --chance $chance --after $after --seed $RANDOM --report /out/$name.faults.json -- \
			tierline attach -p $load --tracker $tracker --summary /out/$name.summary.json >/dev/null 2>/out/$name.err &
		manager=$!
		go $name
		wait $load
		intact=$(($? == 0))
		wait $manager
		hung=$(($? != 0))
		recovered $name
		row errors $name hung=$hung intact=$intact changed=$dirty lost=$((1 - recovered))
	done
}

# space: state folders, events and summaries without room; too few descriptors; too little memory.
chaos_space() {
	load space --size 100M --hot 24M --duration 60s
	go space
	mkdir -p /tmp/full
	mount -t tmpfs -o size=16k tmpfs /tmp/full
	dd if=/dev/zero of=/tmp/full/up bs=4k 2>/dev/null
	manage() { # NAME WORDS
		name=space.$1
		shift
		timeout -s KILL 30 "$@" >/dev/null 2>/out/$name.err
		status=$?
		recovered $name
		row space $name status=$status changed=$dirty lost=$((1 - recovered))
	}
	manage state tierline attach -p $load --duration 2s --state-dir /tmp/full/state
	manage daemon timeout -s TERM 3 tierline daemon --apps /tmp/apps --state-dir /tmp/full/state
	manage reports tierline attach -p $load --duration 2s --events /tmp/full/events --summary /tmp/full/summary
	# Its folder is filled while it runs.
	rm /tmp/full/up
	(sleep 1.5; dd if=/dev/zero of=/tmp/full/up bs=4k 2>/dev/null) &
	manage later tierline attach -p $load --duration 3s --tracker hint_faults --state-dir /tmp/full/state --events /tmp/full/events
	rm /tmp/full/up
	for limit in 4 8 12 16 24 40; do
		manage files$limit sh -c "ulimit -n $limit; exec tierline attach -p $load --duration 1s"
	done
	manage filesdaemon sh -c "ulimit -n 24; exec timeout -s TERM 3 tierline daemon --apps /tmp/apps"
	for limit in 2M 5M; do
		echo $limit >/sys/fs/cgroup/small/memory.max
		manage memory$limit sh -c "echo \$\$ >/sys/fs/cgroup/small/cgroup.procs; exec tierline attach -p $load --duration 2s"
	done
	umount /tmp/full
	finish space
}

# stopped: a target that is stopped, one whose number passes to another process, and short processes without end.
chaos_stopped() {
	load stopped --size 100M --hot 24M --duration 8s
	timeout -s KILL 30 tierline attach -p $load --summary /out/stopped.summary.json >/dev/null 2>/out/stopped.err &
	manager=$!
	go stopped
	sleep 1
	kill -STOP $load
	sleep 2
	kill -CONT $load
	finish stopped
	wait $manager
	status=$?
	recovered stopped
	row stopped target status=$status changed=$dirty lost=$((1 - recovered))

	# The number of a managed program passes to one that nobody chose, whose pages must not move.
	load chosen --size 60M --hot 48M --duration 60s
	victim=$load
	load stays --size 60M --hot 8M --duration 12s
	other=$load
	go stays
	tierline attach -p $victim,$other --max-rate 64MB/s >/dev/null 2>/out/recycled.err &
	manager=$!
	go chosen
	sleep 2
	kill -9 $victim
	wait $victim
	tries=0
	while [ $tries -lt 50 ]; do
		echo $((victim - 1)) >/proc/sys/kernel/ns_last_pid
		lab-load gups --size 60M --hot 48M --duration 6s --verify --report /out/bystander.json >/dev/null &
		bystander=$!
		[ $bystander = $victim ] && break
		kill -9 $bystander
		wait $bystander
		tries=$((tries + 1))
	done 2>/dev/null
	sleep 4
	tierline status --json >/out/recycled.status.json 2>/dev/null
	named=$(grep -c "\"pid\": $victim," /out/recycled.status.json)
	wait $bystander
	intact=$(($? == 0))
	share=$(sed -n 's/.*"hot_share_end": //p' /out/bystander.json | tr -d ,)
	kill -TERM $manager
	wait $manager
	recovered recycled
	row stopped recycled same=$((bystander == victim)) intact=$intact listed=$named fast=$share changed=$dirty lost=$((1 - recovered))
	load=$other
	finish stopped

	# A thousand processes come and go below a managed shell.
	sh -c 'sleep 1; for process in $(seq 1000); do /lab/bin/busybox true; done' &
	shell=$!
	timeout -s KILL 60 tierline attach -p $shell --summary /out/short.summary.json >/dev/null 2>/out/short.err
	status=$?
	wait $shell
	recovered short
	row stopped short status=$status changed=$dirty lost=$((1 - recovered))
}

# hostile: names, mappings, reservations and pages far apart, beside a program that is to be managed.
chaos_hostile() {
	cp /lab/bin/lab-load /tmp/memtierd
	ln -s /lab/bin/lab-load "/tmp/$(printf 'e\033[31mvil\nx')"
	/tmp/memtierd fill --node 1 --size 1M --hold 60s --report /dev/null >/dev/null &
	enemy=$!
	"/tmp/$(printf 'e\033[31mvil\nx')" fill --node 1 --size 1M --hold 60s --report /dev/null >/dev/null &
	evil=$!
	for kind in "many --mappings 60000" "churn --mappings 10000 --churn" "reserve --reserve 65536G" "far --far 16384"; do
		what=${kind%% *}
		load hostile.$what --size 60M --hot 16M --duration 9s
		lab-load hostile ${kind#* } --duration 10s --report /out/hostile.$what.other.json >/tmp/$what.ready 2>&1 &
		bomb=$!
		until grep -q READY /tmp/$what.ready; do
			kill -0 $bomb 2>/dev/null || break
			sleep 0.1
		done
		timeout -s KILL 60 tierline attach -p $load,$bomb,$evil --duration 12s --summary /out/hostile.$what.summary.json >/dev/null 2>/out/hostile.$what.err &
		manager=$!
		go hostile.$what
		sleep 5
		peak=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$(pidof tierline)/status)
		tierline status >/out/hostile.status.out 2>&1
		escapes=$(grep -c "$(printf '\033\[31m')" /out/hostile.status.out)
		wait $load
		intact=$(($? == 0))
		wait $bomb
		intact=$((intact && $? == 0))
		wait $manager
		status=$?
		recovered hostile.$what
		share=$(sed -n 's/.*"hot_share_end": //p' /out/hostile.$what.json | tr -d ,)
		row hostile $what status=$status intact=$intact peak_kib=${peak:-0} fast=$share escapes=$escapes changed=$dirty lost=$((1 - recovered))
	done
	kill $enemy $evil
	wait
}

# soak:MINUTES: a daemon with fifty tenants at rest, and in each minute programs that come, work, fork and go.
chaos_soak() {
	for at in $(seq 50); do
		mkdir -p /sys/fs/cgroup/rest$at
		printf 'cgroup = "rest%s"\nlimit = "fast=4MiB"\n' $at >/tmp/apps/rest$at.toml
		lab-load fill --node $((at % 2)) --size 2M --hold 100000s --report /dev/null >/dev/null 2>&1 &
		echo $! >/sys/fs/cgroup/rest$at/cgroup.procs
	done
	tierline daemon --apps /tmp/apps --metrics 127.0.0.1:9273 >/dev/null 2>/out/soak.err &
	manager=$!
	minutes=0 intact=1
	while [ $minutes -lt $1 ]; do
		load soak --size 40M --hot 12M --duration 2s
		go soak
		wait $load || intact=0
		lab-load forker --duration 1s --size 8M --report /dev/null --start-file /tmp/soak.go >/dev/null || intact=0
		wget -q -O /dev/null http://127.0.0.1:9273/metrics
		sleep 55
		minutes=$((minutes + 1))
		rss=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$manager/status)
		[ $minutes -ne 10 ] || first=$rss
		echo "$minutes $rss" >>/out/soak.rss
	done
	kill -TERM $manager
	wait $manager
	status=$?
	recovered soak
	row soak daemon status=$status minutes=$minutes intact=$intact rss_kib=$rss grown_kib=$((rss - ${first:-$rss})) changed=$dirty lost=$((1 - recovered))
}

for part; do
	chaos_$(echo $part | tr ':' ' ' | cut -d' ' -f1) $(echo $part: | cut -d: -f2- | tr ':+' '  ')
done
