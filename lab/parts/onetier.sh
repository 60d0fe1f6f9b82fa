# SPDX-License-Identifier: Apache-2.0
# A machine with one kind of memory.
. /job/suite-lib.sh
try topology tierline topology --json
try run tierline run --summary /out/run.summary.json -- sh -c 'echo ran; exit 7'
try strict tierline run --strict -- touch /tmp/ran
[ -e /tmp/ran ]
fact strict.ran $?
try attach tierline attach -p 1
try doctor tierline doctor --json
