# SPDX-License-Identifier: Apache-2.0
"""Checks what onetier.sh prints and writes."""

from tool.suite import boot, check


def run(work, options):
    guest = boot(work, options, "onetier", "--append", "numa=off")
    topology = guest.json("topology.out")
    check("one tier: topology reports it", guest.number("topology.status") == 0 and topology.get("tiers") == [] and topology.get("no_tiers"), guest.output("topology"))
    check("one tier: run runs its command unmanaged, with a message", guest.number("run.status") == 7 and "ran" in guest.text("run.out")
          and "unmanaged" in guest.text("run.err") and "nothing to tier" in guest.text("run.err"), (guest.facts.get("run.status"), guest.output("run")))
    check("one tier: the summary reports it", guest.json("run.summary.json").get("managed") is False, guest.text("run.summary.json"))
    good, found = guest.is_error("strict", "nothing to tier")
    check("one tier: run --strict refuses to run it", good and guest.number("strict.ran") == 1, found)
    check("one tier: attach is refused", *guest.is_error("attach", "nothing to tier"))
    ids = [finding["id"] for finding in guest.json("doctor.out").get("findings", [])]
    check("one tier: doctor reports it", "one-tier" in ids, ids)
