# SPDX-License-Identifier: Apache-2.0
"""Checks what policies.sh prints and writes."""

from tool.suite import boot, check, is_valid, moved

LONG = True
# Each over the tracker that Tierline chooses.
PUBLISHED = ["tpp", "arms", "memtis", "neomem", "hemem", "hemem+colloid", "linux", "autotiering", "autonuma"]


def policy(work, options, case, thp, size, hot, within):
    guest = boot(work, options, "policies", "--mode", "deterministic", "--seed", options.seed, "--timeout", "480", args=(thp, size, hot, within, 2 * within, case))
    name = case.replace("+", "_")
    report, summary = guest.json(f"{name}.json"), guest.json(f"{name}.summary.json")
    samples, jumped = report.get("samples", []), report.get("jumped_seconds") or within

    def most(since, until):
        """Seconds from `since` until 80 % of the hot set is fast."""
        times = (s["t_seconds"] for s in samples if since < s["t_seconds"] <= until and (s["hot_share"] or 0) >= 0.8)
        return next((round(t - since, 1) for t in times), None)

    first, again = most(0, jumped), most(jumped, 2 * jumped)
    shares = {f"{s['t_seconds']:.0f} s": s["hot_share"] and round(s["hot_share"], 2) for s in samples[::4]}
    what = f"{case} over {summary.get('tracker')}, {size}, huge pages {thp}: 80 % of the hot set is fast within {within} s (after {first} s)"
    # AutoNUMA demotes nothing, so it cannot follow once fast memory is full.
    check(f"{what}, and of the next one (after {again} s; {moved(summary)} pages moved)", first is not None and (again is not None or case == "autonuma"), shares)
    check(f"{case}: the program ends intact, the manager with status 0, its summary valid, no setting left changed", guest.is_intact(name)[0]
          and guest.number(f"{name}.status") == 0 and is_valid(summary)[0] and guest.is_restored(name)[0], (guest.is_intact(name), is_valid(summary), guest.is_restored(name)))


def run(work, options):
    if not options.long:
        for case in ("tpp", "arms"):
            policy(work, options, case, "never", "200M", "32M", 10)
        return
    for thp in ("never", "always"):
        for case in PUBLISHED:
            policy(work, options, case, thp, "600M", "96M", 20)
