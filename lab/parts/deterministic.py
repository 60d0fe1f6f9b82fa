# SPDX-License-Identifier: Apache-2.0
"""Checks what deterministic.sh prints and writes."""

import json

from tool.suite import boot, check, is_valid, moved


def run(work, options):
    guest = boot(work, options, "deterministic", "--mode", "deterministic", "--seed", options.seed)
    hold, managed, summary = guest.json("hold.json"), guest.json("managed.json"), guest.json("managed.summary.json")
    check("the memory of both programs is as written", guest.number("hold.status") == guest.number("managed.status") == 0
          and guest.is_intact("managed")[0], guest.facts)
    t90, again = managed.get("t90_seconds"), managed.get("t90_after_jump_seconds")
    check(f"90 % of the hot set is fast before the jump (after {t90} s)", t90 is not None, managed.get("hot_share_at_jump"))
    shares = {f"{s['t_seconds']:.0f} s": s["hot_share"] and round(s["hot_share"], 2) for s in managed.get("samples", [])}
    check(f"90 % of the new hot set is fast after the jump (after {again} s)", again is not None, f"shares over time, the jump at {managed.get('jumped_seconds')} s: {shares}")
    check("the hot set stays fast", (managed.get("hot_share_steady") or 0) >= 0.9 and (managed.get("hot_share_end") or 0) >= 0.9,
          (managed.get("hot_share_steady"), managed.get("hot_share_end")))
    migrated, needed = guest.number("migrated") or 0, 2 * managed.get("hot_pages", 0)
    check(f"no more than 1.2 times the needed pages moved ({migrated} of {needed} needed)", 0 < migrated <= 1.2 * needed, migrated)
    counted = moved(summary)
    check(f"the manager's count agrees with the kernel's ({counted}, {migrated})", abs(counted - migrated) <= 64, (counted, migrated))
    check("the manager's summary is valid", *is_valid(summary))
    check("the manager ended by itself, with status 0", guest.number("manager.status") == 0, guest.output("managed")[-500:])
    share = managed.get("accesses_per_second", 0) / hold.get("accesses_per_second", 1)
    # Guards against regressions. The promise for a longer run is 0.9, not held yet (SPECIFICATION.md).
    check(f"the program makes at least 0.7 of its unmanaged accesses in the same time ({share:.3f})", share >= 0.7, share)
    events = [json.loads(line) for line in guest.text("managed.events").splitlines()]
    moves = [event for event in events if event["event"] == "move"]
    check(f"every move has a reason ({len(moves)} moves)", moves and all(event.get("reason") for event in moves), moves[:1])
