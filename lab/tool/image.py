# SPDX-License-Identifier: Apache-2.0
"""Root file systems for programs that need more than static binaries: Debian packages with all dependencies, in a squashfs.

Most are unpacked only. No maintainer script runs, so neither chroot nor root is needed; the only user inside is root. Those of INSTALLED
are installed as on any machine, by mmdebstrap, which needs root. They contain systemd, which becomes the guest's first process.
"""

import shutil
import subprocess

from . import apt, cache
from .cache import LabError

# name: (suites, preferred first; packages, the first one gives the image its version)
IMAGES = {
    "redis": ([apt.TRIXIE, apt.SID], ["redis-server", "redis-tools", "sqlite3", "libsqlite3-0"]),
    "debian": ([apt.TRIXIE, apt.SID], ["redis-server", "systemd-sysv", "procps"]),
    "podman": ([apt.TRIXIE, apt.SID], ["podman", "crun", "dbus", "systemd-sysv", "procps"]),
    "damo": ([apt.SID, apt.FORKY], ["damo", "python3"]),
}
INSTALLED = {"debian", "podman"}
# Merged-/usr links come from base-files. The shell and the small tools that scripts expect are in no package's
# dependencies.
ALWAYS = ["base-files", "dash", "coreutils", "grep", "sed", "procps"]


def obtain(name, refresh=False):
    suites, packages = IMAGES[name]
    if name in INSTALLED:
        build = lambda found, folder: _install(found, folder, packages)
        return cache.obtain("image", name, suites, lambda suite: suite.closure(*packages, "apt"), build, refresh)
    return cache.obtain("image", name, suites, lambda suite: suite.closure(*packages, *ALWAYS), _build, refresh)


def path(entry):
    return cache.folder(entry) / "root.squashfs"


def _build(packages, folder):
    root = folder / "root"
    packages.unpack(folder / "debs", root)
    etc = root / "etc"
    etc.mkdir(exist_ok=True)
    (etc / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n")
    (etc / "group").write_text("root:x:0:\nnogroup:x:65534:\n")
    (etc / "hosts").write_text("127.0.0.1 localhost\n")
    _pack(root, folder, "-all-root")
    return {}


def _install(found, folder, packages):
    """A Debian as its installer leaves it, without manuals and translations."""
    root = folder / "root"
    # What was downloaded is not downloaded again.
    copy = f'--setup-hook=mkdir -p "$1/var/cache/apt/archives" && cp {folder}/debs/*.deb "$1/var/cache/apt/archives"'
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages)}", "--format=dir", copy,
               found.suite.name, root, apt.mirror()]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError:
        raise LabError("no mmdebstrap to install the image with", "apt-get install mmdebstrap") from None
    if done.returncode:
        raise LabError(f"mmdebstrap: {(done.stderr.strip().splitlines() or ['no message'])[-1]}", "it needs root")
    _pack(root, folder)
    return {}


def _pack(root, folder, *words):
    for rest in ("doc", "man", "locale", "info", "lintian", "bash-completion", "zoneinfo"):
        shutil.rmtree(root / "usr/share" / rest, ignore_errors=True)
    command = ["mksquashfs", root, folder / "root.squashfs", "-comp", "lz4", *words, "-no-xattrs", "-no-progress", "-quiet"]
    try:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    except FileNotFoundError:
        raise LabError("no mksquashfs to pack the image with", "apt-get install squashfs-tools") from None
    shutil.rmtree(root)
