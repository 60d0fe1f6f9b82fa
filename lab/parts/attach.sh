# SPDX-License-Identifier: Apache-2.0
# Short test: one program, the default tracker. attach.sh [WORDS OF gups]
. /job/suite-lib.sh
echo 0 >/proc/sys/kernel/numa_balancing
try topology tierline topology --json
try trackers tierline trackers --json
try seven tierline run -- sh -c 'exit 7'
try record tierline record -o /tmp/record.trace --epoch 500ms -- lab-load gups --size 40M --hot 8M --duration 2s --report /dev/null
try recorded tierline trace info --json /tmp/record.trace
try profile tierline profile --json --interval 1s -- sh -c 'exec lab-load gups --size 40M --hot 8M --hot-share 1 --duration 5s --report /dev/null >/dev/null'
settings >/out/attach.before
load attach --size 120M --hot 24M --duration 6s "$@"
attach attach
complete attach
