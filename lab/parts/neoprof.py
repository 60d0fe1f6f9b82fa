# SPDX-License-Identifier: Apache-2.0
"""Checks what neoprof.sh prints and writes."""

import json
import subprocess

from tool.suite import boot, check, has_neoprof, LAB, metric, part

LONG = True


def run(work, options):
    if not has_neoprof():
        return
    truth, log = work / "neoprof.json", work / "neoprof.log"
    guest = boot(work, options, "neoprof", "--mode", "deterministic", "--seed", options.seed, "--timeout", "900", "--neoprof", "--truth", truth,
                 "--truth-options", f"neoprof_log={log}")
    whole = json.loads(truth.read_text()) if truth.exists() else {"markers": []}
    # The plugin's counts at the start, at each interval, and at the end of each load, in the order of the guest's script.
    marks = iter(whole["markers"])
    loads = {name: [next(marks, None) for _ in range(len(guest.json(f"{name}.json").get("samples", [])))]
             for name in ("hold", "neoprof", "chmu", "rule", "default")}

    def slow_reads(name, intervals):
        """Slow reads per access of the load, over its last `intervals` intervals."""
        samples, counts = guest.json(f"{name}.json").get("samples", []), loads[name]
        if None in counts or len(counts) < intervals + 2:
            return None
        (a, b), (c, d) = (samples[-2 - intervals], samples[-2]), (counts[-2 - intervals], counts[-2])
        return (d["slow_misses"] - c["slow_misses"]) / (b["accesses"] - a["accesses"])

    before = slow_reads("hold", 1)
    for name in ("neoprof", "chmu", "rule", "default"):
        report, summary = guest.json(f"{name}.json"), guest.json(f"{name}.summary.json")
        pages, hot = report.get("pages", 0), report.get("hot_pages", 0)
        share = (report.get("samples") or [{}])[-1].get("hot_share") or 0
        fast = (report.get("mapping_samples") or [{}])[-1].get("fast_share") or 0
        found, others = round(share * hot), round(fast * pages - share * hot)
        often = report.get("parameters", {}).get("hot_share") or 0
        after, expected = slow_reads(name, 2), often * (1 - share) + (1 - often) * (1 - fast)
        what = (f"{name}: {metric(summary, 'samples_total')} pages reported, {found} of {hot} hot pages and {others} others promoted; slow reads per access "
                f"{before or 0:.4f} before, {after or 0:.4f} after, {expected:.4f} expected")
        if name != "rule":
            check(what, found >= 0.98 * hot and others <= 0.02 * hot and after is not None and abs(after / expected - 1) <= 0.05, summary)
        else:
            # With room for all, algorithm 1 repeatedly promotes the hottest part of the rest, until nothing is left.
            check(what, found >= 0.98 * hot, summary)
        check(f"{name}: tracker in use, program intact, no setting left changed", summary.get("tracker") == ("chmu" if name == "chmu" else "neoprof")
              and guest.is_intact(name)[0] and guest.number(f"{name}.status") == 0 and guest.is_restored(name)[0],
              (guest.is_intact(name), guest.is_restored(name), guest.output(name)[-600:]))
    counts = whole.get("neoprof") or {}
    check(f"neoprof: {counts.get('register_reads')} registers read, {counts.get('hot_pages_read')} of them hot pages", counts.get("register_reads"), counts)
    again = subprocess.run([LAB.parent / "hardware/neoprof/check", "--replay", log], capture_output=True, text=True)
    if again.returncode == 3:
        part.checks.append(f"skipped: replay on the hardware, as Verilator cannot be installed: {again.stderr.strip()}")
        return
    did = json.loads((again.stdout.splitlines() or ["{}"])[-1])
    check(f"neoprof: the hardware returns what the guest read: {did.get('accesses')} accesses, {did.get('register_reads')} registers read, "
          f"{did.get('comparisons')} comparisons, {did.get('mismatches')} mismatches", again.returncode == 0 and did.get("mismatches") == 0,
          (did, again.stderr[-600:]))
