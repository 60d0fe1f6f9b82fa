# SPDX-License-Identifier: Apache-2.0
"""Checks what package.sh prints and writes."""

import re
import subprocess

from tool.suite import boot, check, is_valid, LAB, metric, moved, TARGET, usually_fast


def run(work, options):
    first = subprocess.run([LAB.parent / "packaging/deb", TARGET / "lab/x86_64-unknown-linux-gnu/guest/tierline", work / "deb"],
                           capture_output=True, text=True)
    check("the package is built", first.returncode == 0, first.stderr)
    if first.returncode:
        return
    # The same with a higher version.
    subprocess.run(["dpkg-deb", "-R", first.stdout.strip(), work / "deb/tree"], check=True)
    control = work / "deb/tree/DEBIAN/control"
    control.write_text(re.sub(r"^(Version: .*)$", r"\1+1", control.read_text(), flags=re.M))
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-b", work / "deb/tree", work / "deb/2.deb"], check=True, stdout=subprocess.DEVNULL)
    # dpkg as well as the shell are those of Debian, not busybox's.
    guest = boot(work, options, "package", "--image", "debian", "--mode", "deterministic", "--seed", options.seed, "--timeout", "480", "--file", f"{first.stdout.strip()}:1.deb",
                 "--file", work / "deb/2.deb", shell="/bin/sh")
    mib = 1 << 20

    def main(name):
        """The service's process, if it was active."""
        return guest.number(f"{name}.main") if guest.facts.get(f"{name}.active") == "active" else None

    def fast(name):
        return (guest.number(f"{name}.fast") or 0) / mib

    summary = guest.json("attach.summary.json")
    check(f"two commands, dpkg -i and attach, and Redis is managed ({moved(summary, 'promote') / 256:.1f} MiB promoted, {fast('unmanaged'):.1f} MiB fast before, {fast('attached'):.1f} after)",
          guest.number("install.status") == guest.number("attach.status") == 0 and moved(summary, "promote") >= 1024 and fast("attached") > fast("unmanaged") + 2 and is_valid(summary)[0], (guest.output("install"), guest.output("attach")))
    check("systemctl enable --now starts the service, which finds its tenant", guest.number("enable.status") == 0 and main("first")
          and metric((guest.json("status.out").get("managers") or [{}])[0], "tenant_processes") == {"redis": 1}, (guest.output("enable"), guest.text("journal")[-900:]))
    # The kernel's counts may miss 64 pages a processor, which is less than 2 % of this limit.
    watched = guest.used("service")
    limited = usually_fast(watched)[0] / mib
    check(f"its limit holds ({limited:.1f} of 24 MiB fast)", 0 < limited <= 24 * 1.02, watched)
    check("status: members of the group tierline may ask, others may not", guest.number("member.status") == 0 and "redis" in guest.text("member.out")
          and guest.number("outsider.status") == 2 and "Hint: " in guest.text("outsider.err"), (guest.output("member"), guest.output("outsider")))
    tasks = {line.split()[0]: line.split()[1:3] for line in guest.text("tasks").splitlines()}
    check("systemd bounds its capabilities, and its threads have what they need", tasks == {"tierline": ["0000000000aa0006", "0000000000aa0006"], "api": ["0000000000000000", "0000000000aa0006"],
          "systemctl": ["0000000000000000", "0000000000aa0006"]}, tasks)
    check("the watchdog is content for 40 s", main("later") and main("later") == main("first"), guest.text("journal")[-900:])
    check("a killed daemon: its settings are restored, and it is started again", main("killed") not in (None, main("first")) and "numa_balancing = 1" in guest.text("journal"), guest.text("journal")[-900:])
    upgraded = metric((guest.json("upgradedstatus.out").get("managers") or [{}])[0], "tenant_processes") or {}
    check("an upgrade starts the new program; a requested tenant and a changed configuration file stay", guest.number("reload.status") == guest.number("upgrade.status") == 0
          and main("upgraded") not in (None, main("killed")) and guest.text("version.out").endswith("+1") and len(upgraded) == 2 and guest.number("mine") == 1, (guest.output("upgrade"), upgraded, guest.facts))
    check("removed: the service has ended, all settings are restored, the state folder is empty", guest.number("remove.status") == 0 and guest.facts.get("removed.active") == "inactive"
          and guest.facts.get("removed.changed") == guest.facts.get("removed.left") == "", (guest.output("remove"), guest.facts))
    check("purged: every file, unit, user and group is as before", guest.number("purge.status") == 0 and guest.facts.get("purged.trace") == "" and guest.text("trace.before"), guest.facts.get("purged.trace"))
    for name in ("unmanaged", "attached", "service", "upgraded", "removed"):
        report = guest.json(f"{name}.client.json")
        check(f"{name}: the client got {report.get('gets')} values, all as written", guest.number(f"{name}.client") == 0 and report.get("gets") and not report.get("mismatches") and not report.get("misses"), report)
