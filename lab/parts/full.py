# SPDX-License-Identifier: Apache-2.0
"""Checks what full.sh prints and writes."""

from tool.suite import boot, check, moved

LONG = True


def run(work, options):
    guest = boot(work, options, "full", "--image", "redis", "--mode", "deterministic", "--seed", options.seed, "--timeout", "480")
    report, summary = guest.json("full.json"), guest.json("full.summary.json")
    check(f"a Redis that is larger than fast memory: the client got {report.get('gets')} values, all as written", guest.number("full.load") == 0
          and report.get("gets") and not report.get("mismatches") and not report.get("misses"), report)
    # A reclaimer that each promotion wakes up took the text of programs thousands of times.
    check(f"{moved(summary, 'promote')} pages promoted into a full node, {guest.number('full.refaults')} pages of files read again",
          moved(summary, "promote") >= 1000 and guest.number("full.refaults") in range(501), (guest.facts, guest.output("full")[-600:]))
    check("the manager's status is 0, all settings are restored", guest.number("full.status") == 0 and guest.is_restored("full")[0], (guest.is_restored("full"), guest.output("full")[-600:]))
