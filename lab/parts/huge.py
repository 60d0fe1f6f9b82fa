# SPDX-License-Identifier: Apache-2.0
"""Checks what huge.sh prints and writes."""

import json

from tool.suite import boot, check, is_valid, moved, orders


def run(work, options):
    guest = boot(work, options, "huge", "--mode", "deterministic", "--seed", options.seed, "--timeout", "480")
    for name, since, what in (("run", 0, "from its start"), ("late", 6, "after 6 s")):
        report, summary = guest.json(f"{name}.json"), guest.json(f"{name}.summary.json")
        t90 = report.get("t90_seconds")
        shares = {f"{s['t_seconds']:.0f} s": s["hot_share"] and round(s["hot_share"], 2) for s in report.get("samples", [])}
        check(f"huge pages, managed {what}: 90 % of the hot set is fast within 5 s (after {t90 and t90 - since} s; {report.get('hot_share_end') or 0:.2f} of it at the end, "
              f"{(report.get('accesses') or 0) / 1e6:.0f} M accesses)", t90 is not None and t90 - since <= 5, shares)
        check("the hot set stays fast until the jump", (report.get("hot_share_at_jump") or 0) >= 0.9, report.get("hot_share_at_jump"))
        again = report.get("t90_after_jump_seconds")
        check(f"90 % of the new hot set is fast within 8 s of the jump (after {again} s)", again is not None and again <= 8, shares)
        moves = [event for event in map(json.loads, guest.text(f"{name}.events").splitlines()) if event["event"] == "move" and event["outcome"] == "done"]
        sizes = {size: sum(move["size"] == size for move in moves) for size in ("huge", "base")}
        whole, pages = guest.number(f"{name}.huge") or 0, guest.number(f"{name}.migrated") or 0
        check(f"huge pages are moved whole: {sizes['huge']} moves of huge pages and {sizes['base']} of base pages; the kernel counts {whole} and {pages - 512 * whole}",
              sizes["huge"] > 0 and abs(whole - sizes["huge"]) <= 2 and abs(pages - 512 * whole - sizes["base"]) <= 512, sizes)
        elsewhere = sum(pages for _, outcome, pages in orders(summary) if outcome == "elsewhere")
        check(f"pages are where they are believed to be ({elsewhere} base pages were not)", summary and elsewhere <= 512, orders(summary))
        promoted, needed = moved(summary, "promote"), 2 * report.get("hot_pages", 0)
        check(f"no more than 1.5 times the needed pages are promoted ({promoted} of {needed} needed)", 0 < promoted <= 1.5 * needed, orders(summary))
        check("the program ends intact, the manager with status 0, its summary valid", guest.is_intact(name)[0] and (guest.number(f"{name}.status") or 0) == 0
              and is_valid(summary)[0], (guest.is_intact(name), is_valid(summary)))
