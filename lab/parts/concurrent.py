# SPDX-License-Identifier: Apache-2.0
"""Checks what concurrent.sh prints and writes."""

import json
import re

from tool.suite import boot, check, is_valid, moved, tiers_are


def run(work, options):
    guest = boot(work, options, "concurrent")
    check("topology: fast is node 0 and slow node 1, from HMAT", tiers_are(guest.json("topology.out"), [("fast", [0]), ("slow", [1])])
          and [t["latency_ns"] for t in guest.json("topology.out")["tiers"]] == [70, 200], guest.output("topology"))
    findings = guest.json("doctor.out").get("findings", [])
    check("doctor: every finding states why and the next step", findings and guest.number("doctor.status") in (0, 1)
          and all(f["what"] and f["why_it_matters"] and f["next_step"] for f in findings), guest.output("doctor"))
    found = guest.json("trackers.out").get("trackers", [])
    rungs = {t["name"]: t["available"] for t in found}
    check("trackers: accessed, damon and soft_dirty are available, pebs and ibs are not", {n for n, here in rungs.items() if here}
          >= {"accessed", "damon", "soft_dirty"} and rungs["pebs"] is rungs["ibs"] is False, rungs)
    hint_faults = next((t for t in found if t["name"] == "hint_faults"), {})
    check("trackers: hint_faults is not, as the kernel balances between sockets", hint_faults.get("available") is False
          and "kernel.numa_balancing at 0 or 2" in json.dumps(hint_faults), hint_faults)
    check("policies and explain answer", guest.number("policies.status") == guest.number("explain.status") == 0
          and "What it does" in guest.text("explain.out"), guest.output("explain"))
    check("status without a manager: an empty list, status 0", guest.number("nobody.status") == 0
          and guest.json("nobody.out").get("managers") == [], guest.output("nobody"))

    for name, wanted, what in (("seven", 7, "the command's status"), ("killed", 137, "128 + 9 if it was killed"),
                               ("missing", 127, "127 if it does not exist"), ("unrunnable", 126, "126 if it cannot be executed")):
        check(f"run: {what} passes through", guest.number(f"{name}.status") == wanted, (guest.facts.get(f"{name}.status"), guest.output(name)))
    check("run --quiet: the command's output and nothing else", guest.output("stdout") == "all of it", guest.output("stdout"))
    check("run: a signal reaches the command, which sets the exit status", guest.number("signal.status") == 9, guest.facts.get("signal.status"))
    check("run: the kernel's balancing is off while the command runs", guest.facts.get("balancing.while") == "0", guest.facts.get("balancing.while"))
    check("run: the kernel's balancing is restored afterwards", *guest.is_restored("signal"))

    children = guest.json("children.json")
    check("children: the shell's status passes through, its child's memory is intact", guest.number("children.status") == 3
          and guest.is_intact("children")[0], (guest.facts.get("children.status"), guest.output("children")[-500:]))
    check(f"children: a load started by a shell is managed (hot share {children.get('hot_share_end') or 0:.2f})",
          (children.get("hot_share_end") or 0) > 0.3, children.get("hot_share_end"))
    check("children: the summary is valid", *is_valid(guest.json("children.summary.json")))
    check("children: no setting is left changed", *guest.is_restored("children"))
    managers = guest.json("status.out").get("managers", [])
    comms = [target["comm"].strip() for manager in managers for target in manager["targets"]]
    check("status: one manager, with the shell and its child", len(managers) == 1 and "lab-load" in comms and "sh" in comms, guest.output("status"))
    check("status: names contain no newline", "\n" not in "".join(t["comm"] for m in managers for t in m["targets"]), comms)
    check("status: as text", "lab-load" in guest.text("statustext.out") and "accessed" in guest.text("statustext.out"), guest.output("statustext"))
    check("status-interval: a line every 2 s", len(re.findall(r"^tierline: .*promoted", guest.text("children.err"), re.M)) >= 4, guest.text("children.err")[-500:])
    good, found = guest.is_error("second", "another tierline")
    check("a second manager is refused: status 2, Error and Hint", good, found)

    dry, summary = guest.number("dry.migrated"), guest.json("dry.summary.json")
    check(f"dry run: no page moves, except for TLB flushes ({dry})", dry is not None and dry <= 256, dry)
    events = [json.loads(line) for line in guest.text("dry.events").splitlines()]
    skipped = [e for e in events if e["event"] == "move" and e["outcome"] == "skipped"]
    check(f"dry run: every decision is recorded as skipped ({len(skipped)})", skipped and summary.get("dry_run") is True
          and moved(summary) == 0 and not any(e.get("outcome") == "done" for e in events), (events[:2], summary))
    check("dry run: the program is intact, and no setting is left changed", guest.is_intact("dry")[0] and guest.is_restored("dry")[0],
          (guest.is_intact("dry"), guest.is_restored("dry")))
    check(f"SIGTERM: status 0 and settings restored within 1.5 s ({guest.facts.get('leave.seconds')} s)", guest.number("leave.status") == 0
          and guest.is_restored("leave")[0] and guest.text("leave.while") != guest.text("leave.before")
          and float(guest.facts.get("leave.seconds") or 9) <= 1.5, (guest.facts.get("leave.status"), guest.is_restored("leave"), guest.output("leave")))
    check("--duration: status 0; the program continues and is intact", guest.number("limited.status") == 0 and guest.number("leave.alive") == 0
          and guest.is_intact("leave")[0], (guest.facts.get("limited.status"), guest.output("limited"), guest.is_intact("leave")))
