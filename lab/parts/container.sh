# SPDX-License-Identifier: Apache-2.0
# The daemon in a container, built and started by the commands that stand at the head of the recipe, on a Debian with podman.
. /job/suite-lib.sh
echo 1 >/proc/sys/kernel/numa_balancing
echo 0 >/sys/kernel/mm/numa/demotion_enabled
settings >/out/container.before
mkdir -p /etc/tierline/apps.d /run/tierline /tmp/source/packaging/container /tmp/source/target/container
printf 'match = { comm = "^lab-load$" }\n' >/etc/tierline/apps.d/load.toml
# podman keeps its images in an overlay, which cannot be on another overlay.
mount -t tmpfs tmpfs /var/lib/containers
cd /tmp/source
mv /job/Containerfile packaging/container
# The guest's clock is behind that of the machine that packed the archive.
tar -m -C target/container -xzf /job/tierline.tar.gz

# recipe WORDS: prints the command at the head of the recipe that begins with these words.
recipe() {
	awk -v words="# *$*" '$0 ~ "^" words { on = 1 } on { more = /\\$/; gsub(/^# *|\\$/, ""); printf "%s ", $0; on = more }' packaging/container/Containerfile
}

try build sh -c "$(recipe podman build)"
load container --size 160M --hot 48M --duration 12s
try start sh -c "$(recipe podman run)"
go container
ended container.load $load
try inside podman exec tierline tierline status --json
try outside tierline status --json
try stop podman stop tierline
try logs podman logs tierline
same container
