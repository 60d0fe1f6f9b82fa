# SPDX-License-Identifier: Apache-2.0
"""Checks what redis.sh prints and writes."""

import json

from tool.suite import boot, check, has_neoprof, is_valid, moved


def run(work, options):
    if not has_neoprof():
        return
    truth = work / "redis.json"
    guest = boot(work, options, "redis", "--image", "redis", "--mode", "deterministic", "--seed", options.seed, "--timeout", "600", "--neoprof", "--truth", truth)
    whole = json.loads(truth.read_text()) if truth.exists() else {"markers": []}
    # The plugin's counts from the start of a client, one per interval.
    begun = iter([at for at, mark in enumerate(whole["markers"]) if mark["id"] == 1])

    def slow_reads(name, intervals):
        """Slow reads per request, over the client's last `intervals` intervals."""
        report, start = guest.json(f"{name}.json"), next(begun, len(whole["markers"]))
        check(f"{name}: the client got {report.get('gets')} values, all as written", guest.number(f"{name}.load") == 0
              and report.get("gets") and not report.get("mismatches") and not report.get("misses"), report)
        requests = [0, *(sample["requests"] for sample in report.get("samples", []))]
        counts = [mark["slow_misses"] for mark in whole["markers"][start:]][:len(requests)]
        if len(counts) < len(requests) or len(requests) <= intervals:
            return 0
        return (counts[-1] - counts[-1 - intervals]) / (requests[-1] - requests[-1 - intervals])

    before, after = slow_reads("slow", 4), slow_reads("redis", 4)
    summary = guest.json("redis.summary.json")
    check(f"redis: slow reads per request {before:.1f} before there is room, {after:.1f} one second later, {moved(summary, 'promote')} pages promoted",
          0 < after < before / 3, summary)
    check("redis: tracker in use, server ended normally, no setting left changed", summary.get("tracker") == "neoprof" and guest.number("redis.status") == 0
          and guest.is_restored("redis")[0], (guest.is_restored("redis"), guest.output("redis")[-600:]))
    check("redis: the summary is valid", *is_valid(summary))
