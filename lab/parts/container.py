# SPDX-License-Identifier: Apache-2.0
"""Checks what container.sh prints and writes."""

import subprocess

from tool.suite import boot, check, LAB, metric, moved, TARGET

LONG = True


def run(work, options):
    binary = TARGET / "lab/x86_64-unknown-linux-gnu/guest/tierline"
    packed = subprocess.run([LAB.parent / "packaging/tarball", binary, work / "tarball"], capture_output=True, text=True)
    check("the tarball is built", packed.returncode == 0, packed.stderr)
    guest = boot(work, options, "container", "--image", "podman", "--mode", "deterministic", "--seed", options.seed, "--timeout", "400",
                 "--file", f"{packed.stdout.strip()}:tierline.tar.gz", "--file", LAB.parent / "packaging/container/Containerfile", shell="/bin/sh")
    check("the commands of the recipe build an image and start the daemon", guest.number("build.status") == guest.number("start.status") == 0, (guest.output("build"), guest.output("start")))
    share, asked = guest.json("container.json").get("hot_share_end") or 0, [(guest.json(f"{where}.out").get("managers") or [{}])[0] for where in ("inside", "outside")]
    check(f"it manages a program of the machine: hot share {share:.2f}", share >= 0.9 and guest.is_intact("container")[0] and moved(asked[0], "promote") > 0, guest.output("logs"))
    check("asked from inside and from outside, it answers", all("load" in (metric(status, "tenant_processes") or {}) for status in asked), guest.output("inside") + guest.output("outside"))
    check("podman stops it, and it is asked only once", guest.number("stop.status") == 0 and "SIGKILL" not in guest.output("stop"), guest.output("stop"))
    check("all settings are restored", *guest.is_restored("container"))
