# SPDX-License-Identifier: Apache-2.0
"""Checks what scattered.sh prints and writes."""

from tool.suite import boot, check, is_valid

LONG = True


def run(work, options):
    guest = boot(work, options, "scattered", "--mode", "deterministic", "--seed", options.seed, "--timeout", "480")
    report, summary = guest.json("scattered.json"), guest.json("scattered.summary.json")
    split, huge = guest.number("scattered.split") or 0, 300
    check(f"huge pages that all have a few hot base pages are split ({split} of {huge})", split >= 0.8 * huge, split)
    share = report.get("hot_share_end") or 0
    # A huge page has 82 hot base pages: whole, fast memory holds less than half of them.
    check(f"0.8 of the hot base pages are fast at the end ({share:.2f})", share >= 0.8, share)
    check("the program ends intact, the manager with status 0, its summary valid", guest.is_intact("scattered")[0] and guest.number("scattered.load") == 0
          and is_valid(summary)[0], (guest.is_intact("scattered"), is_valid(summary)))
