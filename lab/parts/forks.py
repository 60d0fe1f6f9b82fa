# SPDX-License-Identifier: Apache-2.0
"""Checks what forks.sh prints and writes."""

from tool.suite import boot, check, is_valid

LONG = True


def run(work, options):
    guest = boot(work, options, "forks", "--mode", "deterministic", "--seed", options.seed, "--timeout", "480")
    report, summary = guest.json("forks.json"), guest.json("forks.summary.json")
    first = report.get("t90_seconds")
    check(f"90 % of the hot set of a program in huge pages that forks each second is fast within 5 s (after {first} s)", first is not None and first <= 5)
    share = report.get("hot_share_end") or 0
    check(f"0.8 of the next hot set is fast 15 s after the jump ({share:.2f})", share >= 0.8, [s.get("hot_share") for s in report.get("samples", [])][::4])
    check("the program ends intact, the manager with status 0, its summary valid", guest.is_intact("forks")[0] and guest.number("forks.load") == 0
          and is_valid(summary)[0], (guest.is_intact("forks"), is_valid(summary)))
