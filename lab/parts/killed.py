# SPDX-License-Identifier: Apache-2.0
"""Checks what killed.sh prints and writes."""

from tool.suite import boot, check, is_valid, moved


def run(work, options):
    guest = boot(work, options, "killed")
    kills, moving, dirty = (guest.number(f"killed.{what}") or 0 for what in ("kills", "moving", "dirty"))
    check(f"kill -9 of {kills} managers in turn: the program continues, its memory intact", kills >= 3 and guest.is_intact("killed")[0], (kills, guest.is_intact("killed")))
    check(f"{moving} of them were killed while moving pages, {dirty} with settings changed", moving >= 1 and dirty >= 1, guest.facts)
    ids = [finding["id"] for finding in guest.json("doctor.out").get("findings", [])]
    check("doctor detects the settings left behind", "stale-journal" in ids, ids)
    check("recover restores the settings and reports it", guest.number("recover.status") == 0 and "numa_balancing" in guest.text("recover.out"), guest.output("recover"))
    check("after recover, no setting is left changed", *guest.is_restored("killed"))
    check("a second recover does nothing", guest.number("again.status") == 0 and guest.json("again.out").get("restored") == [], guest.output("again"))
    for name, what in (("ends", "exits"), ("dies", "is killed")):
        promoted = moved(guest.json(f"{name}.summary.json"), "promote")
        check(f"a target {what} during a move (after {promoted} pages): the manager ends with status 0", guest.number(f"{name}.status") == 0 and promoted > 0,
              (guest.facts.get(f"{name}.status"), guest.output(name)[-600:]))
    check("the target that exited was intact", *guest.is_intact("ends"))
    check("after the targets' ends, no setting is left changed", *guest.is_restored("ends"))
    forker, summary = guest.json("forker.json"), guest.json("forker.summary.json")
    wrong = [forker.get(key) for key in ("tag_mismatches", "children_mismatched", "children_died")]
    check(f"a target that forks constantly ({forker.get('forks')} times): every tag is correct", guest.number("forker.load") == 0 and wrong == [0, 0, 0],
          (guest.facts.get("forker.load"), forker))
    check("the manager of the forking target ends with status 0 and a valid summary", guest.number("forker.status") == 0 and is_valid(summary)[0],
          (guest.facts.get("forker.status"), is_valid(summary), guest.output("forker")[-500:]))
