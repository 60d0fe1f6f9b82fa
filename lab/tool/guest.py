# SPDX-License-Identifier: Apache-2.0
"""One boot, one command, one exit status.

Input: an archive, appended to the kernel's first file system, with the command, its files and guest/init. Output: five named virtio-serial
ports. `lab.out` and `lab.err` are relayed to stdout and stderr. `lab.end` carries a tar archive with the exit status and the requested
files. `lab.cpu` answers each byte with a line of host CPU times in nanoseconds (the guest's processors, all of QEMU, wall clock): the cost
of the guest's work, whatever else runs on the host. A byte written to `lab.ask` makes a hanging guest print the state of all tasks on its
console, and reset.
"""

import contextlib
import ctypes
import json
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import cache, image, qemu
from .cache import LabError
from .cpio import Archive
from .machine import Machine

LAB = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or LAB.parent / "target")
PROGRAMS = [TARGET / "lab/x86_64-unknown-linux-gnu/guest" / name for name in ("tierline", "lab-load")]
PLUGINS = {11: TARGET / "guest/liblab_plugin.so", 10: TARGET / "plugin-api4/guest/liblab_plugin.so"}  # by QEMU, see lab/plugin

TIMED_OUT, FAILED = 124, 125
PADDING = 4 << 20  # bytes
LAST_WORDS_S = 15  # time for the guest to report the state of its tasks after the timeout


@dataclass
class Job:
    """What to boot, and what to run in it."""

    machine: Machine
    kernel: dict
    qemu: dict
    image: dict | None = None
    command: list = field(default_factory=list)  # none: an interactive shell
    files: list = field(default_factory=list)    # (here, in the guest)
    get: list = field(default_factory=list)      # (in the guest, here)
    thp: str = ""
    damon_stat: bool = False
    append: str = ""
    truth: Path | None = None
    truth_options: str = ""
    neoprof: bool = False
    timeout_s: float = 300
    console: Path | None = None


def run(job):
    """Boots, runs the command, relays its output, copies files back. Returns the exit status."""
    with _workplace() as work:
        work = Path(work)
        (work / "initrd").write_bytes(_first_files(job))
        ours, theirs = socket.socketpair()
        ask, asked = socket.socketpair()
        console = job.console or work / "console"
        started = time.monotonic()
        words = [*_qemu_words(job, work), "-serial", f"file:{console}",
                 *_port("out", f"file,path={work}/out"), *_port("err", f"file,path={work}/err"),
                 *_port("end", f"file,path={work}/end"), *_port("cpu", f"socket,fd={theirs.fileno()}"),
                 *_port("ask", f"socket,fd={asked.fileno()}")]
        with open(work / "qemu", "wb") as complaints, _started(words, job.qemu, pass_fds=[theirs.fileno(), asked.fileno()], start_new_session=True,
                                                               stdin=subprocess.DEVNULL, stderr=complaints) as process:
            theirs.close()
            asked.close()
            threading.Thread(target=_answer_cpu, args=(ours, process.pid), daemon=True).start()
            in_time = _relay(process, work, started + job.timeout_s)
            if not in_time:
                ask.sendall(b"?")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(LAST_WORDS_S)
        if not in_time:
            cache.say(f"timeout after {job.timeout_s:g} s: guest killed; its last output:\n{_last_words(work, console, 60)}")
            return TIMED_OUT
        return _finish(job, work, console)


def shell(job):
    """Boots to a shell on this terminal; leaving the shell ends the guest. Ctrl-A X kills it."""
    with _workplace() as work:
        work = Path(work)
        (work / "initrd").write_bytes(_first_files(job))
        words = [*_qemu_words(job, work), "-chardev", "stdio,id=tty,mux=on,signal=off", "-serial", "chardev:tty"]
        with _started(words, job.qemu) as process:
            return process.wait()


def _first_files(job):
    """The kernel's base files and ours: init, the command, its files."""
    archive = Archive()
    for name in ("init", "cxl-up"):
        archive.file(f"lab/{name}", (LAB / "guest" / name).read_bytes(), 0o755)
    archive.link("init", "lab/init")
    for program in PROGRAMS:
        if program.exists():
            archive.tree(program, f"lab/bin/{program.name}")
    command = shlex.join(job.command) if job.command else "sh -l"
    archive.file("lab/cmd", f"#!/lab/bin/sh\ncd /job\nexec {command}\n", 0o755)
    archive.file("lab/end", f"#!/lab/bin/sh\nexec tar -cf \"$1\" {shlex.join(['lab/status', *(there.strip('/') for there, _ in job.get)])}\n", 0o755)
    archive.file("lab/env", _environment(job))
    archive.folder("job")
    for there, _ in job.get:
        if not there.startswith("/") or there.startswith(("/proc/", "/sys/", "/dev/")):
            raise LabError(f"cannot copy {there} from the guest", "copy it to a regular file first, and give its full path")
    for here, there in job.files:
        if not Path(here).exists():
            raise LabError(f"no file {here} to copy into the guest")
        outside = job.image and not there.startswith(("/job/", "/lab/"))
        archive.tree(here, f"lab/files{there}" if outside else there.strip("/"))
    # Which memory is free at the start depends on the size of all files, so on that of the program under test, too. With a file of another
    # size for each seed, seeds differ in this as well, and their mean does not depend on it.
    archive.file("lab/padding", bytes(random.Random(job.machine.seed).randrange(PADDING)))
    return (cache.folder(job.kernel) / "base.cpio").read_bytes() + archive.bytes()


def _environment(job):
    """Shell assignments for init; exported ones are also visible to the command."""
    slow = "+".join(f"{lo:x}-{hi:x}" for lo, hi in job.machine.slow_ranges())
    return (f"export LAB_SHAPE={job.machine.shape} LAB_MODE={job.machine.mode} LAB_SLOW={slow}\n"
            f"LAB_IMAGE={'1' if job.image else ''} LAB_SHELL={'' if job.command else '1'} LAB_THP={job.thp}\n")


def _qemu_words(job, work):
    job.machine.check(qemu.major(job.qemu))
    kernel_words = ["console=ttyS0 quiet panic=-1 oops=panic tsc=reliable no_timer_check random.trust_cpu=on mitigations=off",
                    f"cryptomgr.notests=1 damon_stat.enabled={'Y' if job.damon_stat else 'N'}", *job.machine.kernel_words(), job.append]
    words = ["-name", "lab,debug-threads=on", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
             *job.machine.arguments(), "-kernel", cache.folder(job.kernel) / "vmlinux", "-initrd", work / "initrd",
             "-append", " ".join(kernel_words).strip(), "-device", "virtio-serial-pci,bus=pcie.0"]
    if job.image:
        words += ["-drive", f"file={image.path(job.image)},format=raw,if=none,id=root,readonly=on",
                  "-device", "virtio-blk-pci,drive=root,bus=pcie.0"]
    if job.truth or job.neoprof:
        plugin = PLUGINS[min(11, qemu.major(job.qemu))]
        if not plugin.exists():
            raise LabError(f"no plugin {plugin}", f"lab/lab build --qemu {min(11, qemu.major(job.qemu))}")
        slow = "+".join(f"{lo:x}-{hi:x}" for lo, hi in job.machine.slow_ranges())
        options = f",{job.truth_options}" if job.truth_options else ""
        if job.neoprof:
            words += _neoprof(job, work / "neoprof")
            options += f",neoprof={work}/neoprof"
        words += ["-plugin", f"{plugin},out={Path(job.truth or work / 'truth').absolute()},slow={slow}{options}"]
    return words


def _neoprof(job, socket_path):
    """QEMU's arguments for the plugin as a PCI device. Both ends are in the same QEMU, hence the long timeout. Writes are not posted, so
    that they are complete before the guest continues, as the deterministic mode requires."""
    if qemu.major(job.qemu) < 11:
        raise LabError(f"NeoProf with QEMU {qemu.major(job.qemu)}, which has no vfio-user-pci", "lab/lab fetch --refresh")
    device = {"driver": "vfio-user-pci", "bus": "pcie.0", "x-no-posted-writes": True, "x-msg-timeout": 600_000,
              "socket": {"type": "unix", "path": str(socket_path)}}
    return ["-device", json.dumps(device)]


def _port(name, backend):
    return ["-chardev", f"{backend.partition(',')[0]},id={name},{backend.partition(',')[2]}",
            "-device", f"virtserialport,chardev={name},name=lab.{name}"]


def _workplace():
    return tempfile.TemporaryDirectory(prefix="tierline-lab-")


class _started:
    """QEMU for the duration of a `with` block. It is killed at the end in any case, and with this process, even on SIGKILL."""

    def __init__(self, words, entry, **options):
        command, environment = qemu.command(entry)
        libc = ctypes.CDLL(None)
        self.process = subprocess.Popen([*command, *map(str, words)], env={**os.environ, **environment},
                                        preexec_fn=lambda: libc.prctl(1, signal.SIGKILL), **options)  # PR_SET_PDEATHSIG

    def __enter__(self):
        return self.process

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def _relay(process, work, deadline):
    """Relays the guest's output until QEMU ends (True) or time is up (False)."""
    streams = [(work / "out", sys.stdout.buffer), (work / "err", sys.stderr.buffer)]
    readers = []
    while True:
        ended = process.poll() is not None  # checked before the last read, so that no output is missed
        readers = readers or ([(open(file, "rb"), to) for file, to in streams] if all(file.exists() for file, _ in streams) else [])
        for reader, to in readers:
            while data := reader.read(1 << 16):
                to.write(data)
                to.flush()
        if ended or time.monotonic() > deadline:
            for reader, _ in readers:
                reader.close()
            return ended
        time.sleep(0.03)


def _finish(job, work, console):
    """The guest's exit status and files. If there is no status, the guest died; its last output is part of the error."""
    try:
        with tarfile.open(work / "end") as end:
            status = int(end.extractfile("lab/status").read())
            for there, here in job.get:
                _extract(end, there.strip("/"), Path(here))
    except (OSError, tarfile.TarError, KeyError, ValueError):
        raise LabError(f"the guest died before its command ended; its last output:\n{_last_words(work, console, 20)}",
                       "--console FILE saves the complete output") from None
    return status


def _last_words(work, console, lines):
    words = (work / "qemu").read_text(errors="replace") + (console.read_text(errors="replace") if console.exists() else "")
    return "\n".join(f"  {line}" for line in words.splitlines()[-lines:])


def _extract(archive, name, here):
    """One member, or a folder with all below it, written as `here`."""
    members = [member for member in archive.getmembers() if member.name == name or member.name.startswith(name + "/")]
    if not members:
        raise LabError(f"no /{name} in the guest")
    for member in members:
        target = here / member.name.removeprefix(name).strip("/") if member.name != name else here
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
        elif member.isfile():
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.extractfile(member) as source, open(target, "wb") as out:
                shutil.copyfileobj(source, out)


def _answer_cpu(ours, pid):
    """Serves port lab.cpu. QEMU's thread names distinguish the guest's processors from the rest."""
    with ours:
        try:
            while ours.recv(1):
                processors = total = 0
                for task in Path(f"/proc/{pid}/task").iterdir():
                    used_ns = int((task / "schedstat").read_text().split()[0])
                    total += used_ns
                    if (task / "comm").read_text().startswith(("CPU ", "ALL CPUs")):
                        processors += used_ns
                ours.sendall(b"%d %d %d\n" % (processors, total, time.monotonic_ns()))
        except OSError:
            return  # QEMU has ended
