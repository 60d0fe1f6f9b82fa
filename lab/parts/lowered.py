# SPDX-License-Identifier: Apache-2.0
"""Checks what lowered.sh prints and writes."""

from tool.suite import boot, check


def run(work, options):
    # The kernel alone needs 0.92 s to move so many base pages on a processor of 250 MIPS.
    for mips, within in ((500, {"base": 1, "huge": 1}), (250, {"base": 3, "huge": 1})):
        guest = boot(work, options, "lowered", "--image", "redis", "--mode", "deterministic", "--mips", mips, "--seed", options.seed, "--timeout", "480")
        for size, what in (("base", "Redis, base pages"), ("huge", "a busy program, huge pages")):
            before, began = (guest.number(f"{size}.before") or 0) / (1 << 20), (guest.number(f"{size}.began") or 0) / 100
            used = [(row[0] + began, row[1] / (1 << 20)) for row in guest.used(size)]
            limit = guest.number(f"{size}.limit") or 0
            after = next((seconds for seconds, mib in used if mib <= limit * 1.02), float("inf"))
            check(f"{mips} MIPS, {what}: {before:.0f} MiB are {used[-1][1]:.1f} of {limit:.0f}, {after:.2f} s after the limit was lowered to that",
                  after <= within[size] and before > limit + 95 and limit - 3 <= used[-1][1] <= limit * 1.02, used[::3])
        check("the program's memory is as written, the daemon ends with status 0, all settings are restored", guest.is_intact("huge")[0]
              and guest.number("lowered.status") == 0 and guest.is_restored("lowered")[0], (guest.is_intact("huge"), guest.output("lowered")))
