# SPDX-License-Identifier: Apache-2.0
"""A Debian cloud kernel, prepared to boot fast: the bare ELF inside vmlinuz, and a small first file system.

QEMU enters the ELF directly, which saves the guest a second of unpacking at emulated speed. The first file system is
busybox with the modules that lab machines use, already unpacked.
"""

import lzma
import re
import struct
import subprocess
import zlib

from . import apt, cache
from .cache import LabError, say
from .cpio import Archive

# Names for --kernel, and their suites, preferred first. Debian's newest kernel changes about weekly; the
# present one is used.
NEWEST = "7.2"
KERNELS = {NEWEST: [apt.SID, apt.FORKY], "6.12": [apt.BOOKWORM, apt.TRIXIE]}

MODULES = """cxl_acpi cxl_mem cxl_pci cxl_port cxl_pmem device_dax kmem dax_cxl dax_hmem virtio_blk squashfs overlay
    loop zram lz4_compress lz4hc_compress zstd_compress zsmalloc virtio_balloon virtio_mem""".split()


def obtain(name, refresh=False):
    return cache.obtain("kernel", name, KERNELS[name], lambda suite: _plan(name, suite), _build, refresh)


def _plan(name, suite):
    """From 7.x on, a kernel consists of three packages; before, of one. The metapackage names the release."""
    images = [dep for dep in suite.depends("linux-image-cloud-amd64") if dep.startswith("linux-image-")]
    if not images:
        raise LabError("linux-image-cloud-amd64 depends on no kernel package")
    release = images[0].removeprefix("linux-image-").removesuffix("-unsigned")
    if not release.startswith(f"{name}."):
        if name != NEWEST:
            raise LabError(f"{release} found instead of {name}")
        say(f"{suite.name} has a newer kernel: --kernel {name} selects {release}")
    split = [f"linux-binary-{release}", f"linux-modules-{release}", f"linux-base-{release}"]
    packages = split if suite.has(split[0]) else [f"linux-image-{release}-unsigned"]
    return suite.alone(*packages, "busybox-static")


def _build(packages, folder):
    root = folder / "root"
    packages.unpack(folder / "debs", root)
    order = next(root.glob("**/modules.order"))
    vmlinuz = next(file for file in root.glob("**/vmlinuz*") if file.is_file())
    (folder / "vmlinux").write_bytes(elf(vmlinuz.read_bytes()))
    (folder / "config").write_bytes(next(root.glob("**/config*")).read_bytes())
    release = order.parent.name
    (folder / "base.cpio").write_bytes(_base(root, order.parent, release))
    subprocess.run(["rm", "-rf", root], check=True)
    return {"release": release}


def elf(vmlinuz):
    """The kernel itself inside a bzImage. The header gives the position of the compressed payload (boot protocol 2.08)."""
    setup_sectors = vmlinuz[0x1F1] or 4
    offset, length = struct.unpack_from("<II", vmlinuz, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = vmlinuz[start:start + length - 4]  # the last word is the unpacked length
    if payload.startswith(b"\x28\xb5\x2f\xfd"):
        try:
            return subprocess.run(["zstd", "-dcq"], input=payload, capture_output=True, check=True).stdout
        except FileNotFoundError:
            raise LabError("this kernel is compressed with zstd", "apt-get install zstd") from None
    if payload.startswith(b"\xfd7zXZ"):
        return lzma.LZMADecompressor().decompress(payload)
    if payload.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(31).decompress(payload)
    raise LabError(f"unknown compression of the kernel ({payload[:4].hex()})")


def _base(root, modules, release):
    """busybox in /lab/bin with a link for each of its commands, and the unpacked modules with their index."""
    busybox = next(path for path in (root / "usr/bin/busybox", root / "bin/busybox") if path.exists())  # /usr or not
    stage = root / "stage"
    home = stage / "lib/modules" / release
    for packed, data in _with_dependencies(modules):
        target = home / packed.relative_to(modules).with_name(f"{packed.name.partition('.ko')[0]}.ko")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    for name in ("modules.builtin", "modules.order"):
        (home / name).write_bytes((modules / name).read_bytes())
    subprocess.run([busybox, "depmod", "-b", stage, release], check=True)

    archive = Archive()
    archive.file("lab/bin/busybox", busybox.read_bytes(), 0o755)
    for applet in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if applet != "busybox":
            archive.link(f"lab/bin/{applet}", "busybox")
    archive.link("bin", "lab/bin")
    archive.link("sbin", "lab/bin")
    archive.tree(home, f"lib/modules/{release}")
    return archive.bytes()


def _with_dependencies(folder):
    """The modules of the list that this kernel has, unpacked, with their dependencies, which each module names."""
    files = {file.name.partition(".ko")[0].replace("-", "_"): file for file in folder.rglob("*.ko*")}
    todo, done = [name for name in MODULES if name in files], {}
    while todo:
        name = todo.pop()
        if name in done:
            continue
        data = files[name].read_bytes()
        done[name] = lzma.decompress(data) if files[name].suffix == ".xz" else data
        depends = re.search(rb"\0depends=([^\0]*)\0", done[name])
        todo += [need for need in (depends[1].decode() if depends else "").replace("-", "_").split(",") if need]
    return [(files[name], data) for name, data in sorted(done.items())]
