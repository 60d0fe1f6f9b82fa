# SPDX-License-Identifier: Apache-2.0
"""Checks what trackers.sh prints and writes."""

from tool.suite import boot, check, is_valid, moved


def run(work, options):
    guest = boot(work, options, "trackers", "--mode", "deterministic", "--seed", options.seed)
    for tracker in ("accessed", "hint_faults", "damon", "soft_dirty"):
        report, summary = guest.json(f"{tracker}.json"), guest.json(f"{tracker}.summary.json")
        share, promoted = report.get("hot_share_end") or 0, moved(summary, "promote")
        check(f"{tracker}: is in use", summary.get("tracker") == tracker, guest.output(tracker)[-600:])
        if tracker in ("accessed", "soft_dirty"):  # the others need longer than a test may take: SPECIFICATION.md
            check(f"{tracker}: promotes hot pages (hot share {share:.2f}, {promoted} pages)", promoted > 0 and share > 0.3, (share, promoted))
        check(f"{tracker}: the program ends intact, the manager with status 0", guest.is_intact(tracker)[0] and guest.number(f"{tracker}.status") == 0,
              (guest.is_intact(tracker), guest.facts.get(f"{tracker}.status"), guest.output(tracker)[-600:]))
        check(f"{tracker}: the summary is valid", *is_valid(summary))
        before, meanwhile = (guest.text(f"{tracker}.{when}").splitlines() for when in ("before", "while"))
        count = len({line for line in set(before) ^ set(meanwhile) if not line.startswith("left")})
        check(f"{tracker}: every setting has its old value again ({count} differences while running)", *guest.is_restored(tracker))
        if tracker != "soft_dirty":
            check(f"{tracker}: settings are changed while it runs", count > 0, meanwhile)
    check("balancing between sockets after tiering: the manager is refused, and says how to go on", *guest.is_error("tiered", "numa_balancing=0"))
    check("--tracker hint_faults while the kernel balances between sockets: status 2, and the reason", *guest.is_error("between", "numa_balancing"))
    problems = [f["id"] for f in guest.json("betweendoctor.out").get("findings", []) if f["severity"] == "problem"]
    check("doctor reports the mode as a problem, and no setting is changed", "numa-balancing" in problems and guest.is_restored("tiered")[0],
          (problems, guest.is_restored("tiered")))
    for tracker in ("pebs", "ibs", "page_idle"):
        check(f"--tracker {tracker}: not available, with a hint", *guest.is_error(tracker))
    if "taken.status" in guest.facts:
        check("--tracker damon while damon_stat uses DAMON: status 2, and how to stop it", *guest.is_error("taken", "damon_stat"))
        check("damon_stat continues after the refusal", *guest.is_restored("taken"))
