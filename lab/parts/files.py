# SPDX-License-Identifier: Apache-2.0
"""Checks what files.sh prints and writes."""

import argparse

from tool.suite import boot, check


def run(work, options):
    for kernel in sorted({options.kernel, "6.12"} if options.long else {options.kernel}):
        # The kernel is asked through a node's `reclaim` (7.2) or through MGLRU (6.12).
        guest = boot(work, argparse.Namespace(**{**vars(options), "kernel": kernel}), "files", "--mode", "deterministic", "--seed", options.seed, "--timeout", "480")
        for case, what in (("half", "fast memory"), ("full", "all memory")):
            report, free = guest.json(f"{case}.json"), (guest.number(f"{case}.free") or 0) >> 10
            share, t90 = report.get("hot_share_end") or 0, report.get("t90_seconds") or float("inf")
            check(f"{kernel}, {what} full of cold files ({free} MiB of fast memory free): hot share {share:.3f} at the end, 90 % after {t90:.2f} s",
                  free < 64 and share >= 0.9, report)
            check(f"{kernel}, {what}: no page of a file had to be read again ({guest.number(f'{case}.refaults')})", guest.number(f"{case}.refaults") == 0)
            check(f"{kernel}, {what}: the program's memory is as written, the manager's status is 0", guest.is_intact(case)[0] and guest.number(f"{case}.status") == 0, (guest.is_intact(case), guest.output(case)))
        newest = guest.json("grow.json").get("newest_fast_mean") or 0
        check(f"{kernel}, fast memory full of cold files: {newest:.2f} of the newest 60 MiB of a program that grows is fast", newest >= 0.65, guest.json("grow.json"))
        check(f"{kernel}, a program that grows: status 0, of the manager, too", guest.number("grow.load") == 0 and guest.number("grow.status") == 0, guest.output("grow"))
        before, after = guest.number("aside.before"), guest.number("aside.after")
        check(f"{kernel}: a program that is not managed keeps its fast memory ({after} of {before} bytes)", before and after == before, (before, after))
        report, own = guest.json("own.json"), guest.number("own.files") or 0
        most = (guest.number("own.most") or 0) / (1 << 20)
        check(f"{kernel}, such a tenant's programs have at most {most:.1f} of 60 MiB", 40 < most <= 60 * 1.02, most)
        check(f"{kernel}, a tenant limited to 60 MiB with {own >> 20} MiB of cold files: hot share {report.get('hot_share_end') or 0:.3f} at the end",
              own > 150 << 20 and (report.get("hot_share_end") or 0) >= 0.9 and guest.is_intact("own")[0] and guest.number("own.status") == 0, (report, guest.output("own")))
        check(f"{kernel}: all settings are restored", *guest.is_restored("cache"))
