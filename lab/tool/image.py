# SPDX-License-Identifier: Apache-2.0
"""Root file systems for programs that need more than static binaries: Debian packages with all dependencies, unpacked into a squashfs.
No maintainer script runs, so neither chroot nor root is needed; the only user inside is root.
"""

import shutil
import subprocess

from . import apt, cache
from .cache import LabError

# name: (suites, preferred first; packages, the first one gives the image its version)
IMAGES = {
    "redis": ([apt.TRIXIE, apt.SID], ["redis-server", "redis-tools", "sqlite3", "libsqlite3-0"]),
    "damo": ([apt.SID, apt.FORKY], ["damo", "python3"]),
}
# Merged-/usr links come from base-files. The shell and the small tools that scripts expect are in no package's
# dependencies.
ALWAYS = ["base-files", "dash", "coreutils", "grep", "sed", "procps"]


def obtain(name, refresh=False):
    suites, packages = IMAGES[name]
    return cache.obtain("image", name, suites, lambda suite: suite.closure(*packages, *ALWAYS), _build, refresh)


def path(entry):
    return cache.folder(entry) / "root.squashfs"


def _build(packages, folder):
    root = folder / "root"
    packages.unpack(folder / "debs", root)
    for rest in ("doc", "man", "locale", "info", "lintian", "bash-completion", "zoneinfo"):
        shutil.rmtree(root / "usr/share" / rest, ignore_errors=True)
    etc = root / "etc"
    etc.mkdir(exist_ok=True)
    (etc / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n")
    (etc / "group").write_text("root:x:0:\nnogroup:x:65534:\n")
    (etc / "hosts").write_text("127.0.0.1 localhost\n")
    command = ["mksquashfs", root, folder / "root.squashfs", "-comp", "lz4", "-all-root", "-no-xattrs", "-no-progress", "-quiet"]
    try:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    except FileNotFoundError:
        raise LabError("no mksquashfs to pack the image with", "apt-get install squashfs-tools") from None
    shutil.rmtree(root)
    return {}
