# SPDX-License-Identifier: Apache-2.0
"""Checks what refused.sh prints and writes."""

import json
import re

from tool.suite import boot, check, is_valid


def run(work, options):
    guest = boot(work, options, "refused")
    for name, words, what in (("pid", ["99999"], "a pid that does not exist"), ("kernelpid", ["kernel"], "a kernel thread"),
                              ("nocgroup", ["no/such/group"], "a cgroup that does not exist"), ("typo", ["max_rat", "max_rate"], "a config with a typo"),
                              ("typorun", ["max_rat", "max_rate"], "the same for run"), ("typodefault", ["/etc/tierline/tierline.toml", "max_rate"], "the same in /etc"),
                              ("notiers", ["9"], "a tier of a node that does not exist")):
        check(f"{what}: status 2, Error and Hint", *guest.is_error(name, *words))
    for name, word in (("notpid", "12x"), ("nothing", "--pid"), ("notracker", "accessed"), ("set", "interval")):
        err = guest.text(f"{name}.err")
        check(f"wrong usage ({name}): status 2, and the wrong word is named", guest.number(f"{name}.status") == 2 and word in err, (guest.facts.get(f"{name}.status"), err))

    check("an unprivileged user, another user's process: status 2, and the missing capability", *guest.is_error("others", "CAP_"))
    check("an unprivileged user, root's state folder: status 2, Error and Hint", *guest.is_error("own", "/run/tierline"))
    check("an unprivileged user, own process and state folder: managed with what is permitted, and the rest is reported", guest.number("ownstate.status") == 0
          and re.search(r"tracker: \w+; better ones .*ermission denied", guest.text("ownstate.err"), re.S), guest.output("ownstate"))
    check("run without privileges: the command runs unmanaged, with a message", guest.number("ownrun.status") == 7
          and "unmanaged" in guest.text("ownrun.err"), (guest.facts.get("ownrun.status"), guest.output("ownrun")))
    rights = [f for f in guest.json("owndoctor.out").get("findings", []) if f["id"] == "no-rights"]
    check("doctor names the missing capability", rights and "CAP_" in json.dumps(rights), guest.output("owndoctor")[:300])
    mine = guest.text("mine.out").partition("\n")[2]
    check("the user's program is intact", guest.number("mine.load") == 0 and '"tag_mismatches": 0' in mine, mine[-300:])

    check("--tracker accessed without /proc/kcore: status 2, Error and Hint", *guest.is_error("kcore", "kcore"))
    check("no tracker named: the next tracker of the ladder is used, with the reason", guest.number("ladder.status") == 0
          and re.search(r"tracker: hint_faults; better ones .*accessed: .*kcore", guest.text("ladder.err"), re.S), guest.output("ladder"))
    check("run --strict with an unavailable tracker: status 2", *guest.is_error("strict", "PEBS"))
    check("after all this, no setting is changed", *guest.is_restored("refused"))

    bystander, report = guest.json("bystander.json"), guest.json("crowded.json")
    start, end = bystander.get("node_share_start"), bystander.get("node_share_end")
    check(f"a bystander fills fast memory, demotion is on: its pages stay ({start} before, {end} after)", start is not None and start > 0.95 and end == start, (start, end))
    check("the program continues, intact, in the remaining room", guest.is_intact("crowded")[0] and guest.number("crowded.status") == 0
          and is_valid(guest.json("crowded.summary.json"))[0], (guest.is_intact("crowded"), guest.output("crowded")[-500:]))
    demoted = sum(count for name, count in (report.get("vmstat") or {}).items() if name.startswith("pgdemote"))
    check(f"some of its hot pages become fast (hot share {report.get('hot_share_end') or 0:.2f}), and the kernel demotes nothing ({demoted} pages)",
          (report.get("hot_share_end") or 0) > 0.05 and demoted == 0, report.get("vmstat"))
    check("fast memory fills up during moves: no process dies, no byte is lost", guest.is_intact("rush")[0]
          and guest.number("rush.status") == guest.number("rusher.status") == 0, (guest.is_intact("rush"), guest.facts, guest.output("rush")[-500:]))
    check("the kernel log has no errors", guest.text("dmesg") == "", guest.text("dmesg"))
