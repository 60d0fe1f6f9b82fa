# SPDX-License-Identifier: Apache-2.0
"""A QEMU independent of the system's: unpacked with all its libraries, started through its own loader.

11 is sid's, with fast CXL memory and the present plugin interface. 10 is the fallback, from bookworm-backports: equally good for NUMA
machines, a hundred times slower with CXL memory. Both run on any Debian, whatever its C library.
"""

import shutil

from . import apt, cache
from .cache import LabError, say

QEMUS = {"11": [apt.SID, apt.FORKY], "10": [apt.BOOKWORM, apt.TRIXIE]}


def obtain(name=None, refresh=False):
    """The QEMU of this major version; without a name, 11, or 10 if 11 is not available."""
    if name:
        return _fetch(name, refresh)
    try:
        return _fetch("11", refresh)
    except LabError as error:
        say(f"{error}; using QEMU 10 instead")
        return _fetch("10", refresh)


def command(entry):
    """The command that starts it, and its environment."""
    root = cache.folder(entry) / "root"
    libraries = root / "usr/lib/x86_64-linux-gnu"
    loader = next(path for path in (root / "usr/lib64/ld-linux-x86-64.so.2", root / "lib64/ld-linux-x86-64.so.2",
                                    libraries / "ld-linux-x86-64.so.2") if path.is_file())
    paths = [libraries, root / "lib/x86_64-linux-gnu", libraries / "pulseaudio"]
    words = [loader, "--library-path", ":".join(str(path) for path in paths if path.is_dir()),
             root / "usr/bin/qemu-system-x86_64", "-L", root / "usr/share/qemu", "-L", root / "usr/share/seabios",
             "-L", root / "usr/lib/ipxe/qemu"]
    return [str(word) for word in words], {"QEMU_MODULE_DIR": str(libraries / "qemu")}


def major(entry):
    return int(entry["version"].split(":")[-1].split(".")[0])


def _fetch(name, refresh):
    return cache.obtain("qemu", name, QEMUS[name], lambda suite: suite.closure("qemu-system-x86"), _build, refresh)


def _build(packages, folder):
    root = folder / "root"
    packages.unpack(folder / "debs", root)
    for rest in ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/zoneinfo", "etc", "usr/lib/systemd"):
        shutil.rmtree(root / rest, ignore_errors=True)
    return {}
