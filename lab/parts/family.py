# SPDX-License-Identifier: Apache-2.0
"""Checks what family.sh prints and writes."""

from tool.suite import boot, check


def run(work, options):
    guest = boot(work, options, "family", "--mode", "deterministic", "--seed", options.seed, "--thp", "never", "--timeout", "300")
    for case, what in (("shared", "shared memory"), ("private", "memory of before the fork")):
        report = guest.json(f"{case}.json")
        before, after = report.get("hot_share_at_jump") or 0, report.get("hot_share_end") or 0
        check(f"three processes in {what}: hot share {before:.3f} before the jump, {after:.3f} at the end", before >= 0.85 and after >= 0.85, report)
        check(f"{what}: as written, the manager's status is 0", guest.is_intact(case)[0] and guest.number(f"{case}.status") == 0, (guest.is_intact(case), guest.output(case)))
    check("all settings are restored", *guest.is_restored("family"))
