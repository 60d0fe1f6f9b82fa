# SPDX-License-Identifier: Apache-2.0
"""The command line."""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

from . import cache, guest, image, kernel, qemu
from .cache import LabError, say
from .machine import SHIFTS, Machine, size

# Debian packages that the lab needs on the host, in addition to python3 and dpkg.
HOST_PACKAGES = ["debian-archive-keyring", "dpkg-dev", "mmdebstrap", "squashfs-tools", "zstd"]


def main():
    options = _parser().parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):  # like Ctrl-C: leave through every `finally` and `with`
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        return options.do(options)
    except LabError as error:
        print(f"Error: {error}", file=sys.stderr)
        if error.hint:
            print(f"Hint: {error.hint}", file=sys.stderr)
        return guest.FAILED
    except KeyboardInterrupt:
        return 130


def _run(options):
    if not options.command:
        raise LabError("no command to run in the guest", "lab/lab run [options] -- CMD ARGS…, or lab/lab shell")
    return guest.run(_job(options))


def _shell(options):
    options.command = []
    return guest.shell(_job(options))


def _job(options):
    deterministic = options.mode == "deterministic"
    machine = Machine(fast=size(options.fast), slow=size(options.slow), shape=options.shape, mode=options.mode, seed=options.seed, mips=options.mips,
                      cpus=options.cpus or (1 if deterministic else 2), slow_latency_ns=options.slow_latency,
                      slow_bandwidth=options.slow_bandwidth)
    return guest.Job(
        machine=machine, kernel=kernel.obtain(options.kernel), qemu=qemu.obtain(options.qemu),
        image=image.obtain(options.image) if options.image else None, command=options.command,
        files=[(here, os.path.join("/job", there)) for here, there in (_pair(text, lambda here: Path(here).resolve().name) for text in options.file)],
        get=[_pair(text, lambda there: Path(there).name) for text in options.get],
        thp=options.thp or "", neoprof=options.neoprof, damon_stat=options.damon_stat, append=options.append, truth=options.truth,
        truth_options=options.truth_options, timeout_s=options.timeout, console=options.console)


def _pair(text, default):
    first, _, second = text.partition(":")
    return first, second or default(first)


def _fetch(options):
    kernels = list(kernel.KERNELS) if options.all else [options.kernel]
    for name in kernels:
        say(f"kernel {name}: {kernel.obtain(name, options.refresh)['release']}")
    for name in qemu.QEMUS if options.all else [None]:
        say(f"QEMU {qemu.obtain(name, options.refresh)['version']}")
    for name in image.IMAGES if options.all else []:
        say(f"image {name}: {image.obtain(name, options.refresh)['version']}")
    return 0


def _image(options):
    print(image.path(image.obtain(options.name, options.refresh)))
    return 0


def _list(_):
    for kind, things in cache.manifest().items():
        for name, entry in things.items():
            print(f"{kind:6} {name:6} {entry['version']:32} {entry['suite']:18} {entry['fetched']}  {cache.folder(entry)}")
    return 0


def _deps(_):
    print("\n".join(HOST_PACKAGES))
    return 0


def _build(options):
    """Static programs for the guest, and the plugin for QEMU. The plugin API of QEMU 10 differs from that of 11, so it needs its own build."""
    os.chdir(guest.LAB.parent)
    old = ["--features", "api4", "--target-dir", guest.TARGET / "plugin-api4"] if options.qemu == "10" else []
    plugin = subprocess.run(["cargo", "build", "--profile", "guest", "-p", "lab-plugin", *old])
    static = {**os.environ, "RUSTFLAGS": "-C target-feature=+crt-static"}
    programs = subprocess.run(["cargo", "build", "--profile", "guest", "--target", "x86_64-unknown-linux-gnu", "--target-dir", guest.TARGET / "lab",
                               "-p", "tierline", "-p", "lab-load"], env=static)
    return plugin.returncode or programs.returncode


def _parser():
    parser = argparse.ArgumentParser(prog="lab/lab", description="Boots machines with a fast and a slow memory node in QEMU, "
                                     "and runs commands in them.", epilog="See lab/README.md.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name, do, text):
        new = commands.add_parser(name, help=text, description=text)
        new.set_defaults(do=do)
        return new

    run = command("run", _run, "boot a guest, run a command in it, exit with its status (124: timed out, 125: the lab failed)")
    _guest_options(run)
    run.add_argument("--timeout", type=float, default=300, metavar="SECONDS", help="limit for the whole run, in the host's time (300)")
    run.add_argument("--get", action="append", default=[], metavar="GUESTPATH[:HOSTPATH]", help="copy a file or folder from the guest at the end")
    run.add_argument("--truth", type=Path, metavar="FILE.json", help="count every memory access with the QEMU plugin (lab/lab build)")
    run.add_argument("--truth-options", default="", metavar="K=V,…", help="further options of the plugin: kernel=0|1, llc=BYTES, ways=N")
    run.add_argument("--console", type=Path, metavar="FILE", help="save the kernel's messages")
    run.add_argument("command", nargs="*", metavar="CMD", help="after `--`; runs as root in /job")
    shell = command("shell", _shell, "boot to a shell on this terminal; Ctrl-A X kills the guest")
    _guest_options(shell)
    shell.set_defaults(timeout=0, get=[], truth=None, truth_options="", console=None)

    fetch = command("fetch", _fetch, "download a kernel and QEMU into the cache (run does this when they are missing)")
    fetch.add_argument("--kernel", choices=kernel.KERNELS, default="7.2")
    fetch.add_argument("--all", action="store_true", help="both kernels, QEMU 11 and 10, and all images")
    fetch.add_argument("--refresh", action="store_true", help="look for newer versions of what is cached")
    build = command("image", _image, "build a root file system for --image, and print its path")
    build.add_argument("name", choices=image.IMAGES)
    build.add_argument("--refresh", action="store_true", help="look for newer packages")
    programs = command("build", _build, "build the guest's programs (tierline, lab-load) and the plugin")
    programs.add_argument("--qemu", choices=qemu.QEMUS, default="11", help="QEMU version of the plugin (11)")
    command("list", _list, "list the cache")
    command("deps", _deps, "list the Debian packages that the lab needs on the host")
    return parser


def _guest_options(parser):
    machine = Machine()
    parser.add_argument("--kernel", choices=kernel.KERNELS, default="7.2", help="7.2: Debian sid's newest; 6.12: bookworm-backports' (7.2)")
    parser.add_argument("--qemu", choices=qemu.QEMUS, help="major version (11, or 10 if 11 is not available)")
    parser.add_argument("--fast", default="1G", metavar="SIZE", help="memory of node 0, with the processors (1G)")
    parser.add_argument("--slow", default="2G", metavar="SIZE", help="memory of node 1, without processors (2G)")
    parser.add_argument("--slow-latency", type=int, default=machine.slow_latency_ns, metavar="NS",
                        help=f"latency of node 1 in HMAT ({machine.slow_latency_ns}; node 0: {machine.fast_latency_ns})")
    parser.add_argument("--slow-bandwidth", default=machine.slow_bandwidth, metavar="PER_S",
                        help=f"bandwidth of node 1 in HMAT ({machine.slow_bandwidth}; node 0: {machine.fast_bandwidth})")
    parser.add_argument("--shape", choices=["numa", "three", "sockets", "cxl"], default="numa",
                        help="node 1 as plain memory; two slow nodes of different speed; two sockets with a fast and a slow node each; a CXL expander (numa)")
    parser.add_argument("--mode", choices=["concurrent", "interleaved", "deterministic"], default="concurrent",
                        help="several processors, the same in turns, or one whose clock counts instructions (concurrent)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the deterministic mode (1)")
    parser.add_argument("--mips", type=int, choices=sorted(SHIFTS), default=machine.mips, help=f"millions of instructions a second in that mode ({machine.mips})")
    parser.add_argument("--cpus", type=int, help="number of processors (2; deterministic: 1)")
    parser.add_argument("--thp", choices=["always", "madvise", "never"], help="transparent huge pages (the kernel's default)")
    parser.add_argument("--damon-stat", action="store_true", help="keep damon_stat on, the default of kernel 7.2")
    parser.add_argument("--append", default="", metavar="WORDS", help="further words for the kernel's command line")
    parser.add_argument("--neoprof", action="store_true",
                        help="emulate a NeoProf: a PCI device that counts accesses to node 1 (lab/lab build, QEMU 11)")
    parser.add_argument("--image", choices=image.IMAGES, help="run the command in this root file system")
    parser.add_argument("--file", action="append", default=[], metavar="HOST[:GUEST]", help="copy a file or folder into the guest (/job)")
