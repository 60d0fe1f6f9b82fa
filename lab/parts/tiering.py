# SPDX-License-Identifier: Apache-2.0
"""Checks what tiering.sh prints and writes."""

from tool.suite import boot, check, metric, moved, orders


def run(work, options):
    guest = boot(work, options, "tiering", "--mode", "deterministic", "--seed", options.seed, "--timeout", "480")
    report, summary = guest.json("kernel.json"), guest.json("kernel.summary.json")
    changed = {line.split(": ")[0].rsplit("/", 1)[-1] for line in set(guest.text("kernel.while").splitlines())
               - set(guest.text("kernel.before").splitlines()) if not line.startswith("left")}
    check("policy kernel: its mode, demotion and threshold are set while it runs", changed == {"numa_balancing", "demotion_enabled", "hot_threshold_ms"}, changed)
    vmstat, counters = report.get("vmstat") or {}, metric(summary, "vmstat_total") or {}
    promoted = moved(summary, "promote")
    check(f"policy kernel: the kernel promotes (hot share {report.get('hot_share_end') or 0:.2f}), and its count is reported ({promoted} pages)",
          0 < promoted == counters.get("pgpromote_success", 0) and abs(promoted - vmstat.get("pgpromote_success", 0)) <= promoted / 50, (counters, vmstat))
    check("policy kernel: Tierline itself moves nothing", guest.text("kernel.events").find('"move"') < 0 and (metric(summary, "migrator_busy_seconds_total") or {}).get("move") == 0
          and {outcome for _, outcome, _ in orders(summary)} <= {"done"}, guest.text("kernel.events")[:300])
    managers = guest.json("status.out").get("managers", [])
    check("policy kernel: status shows the kernel's counts", len(managers) == 1 and (metric(managers[0], "vmstat_total") or {}).get("numa_hint_faults", 0) > 0
          and "numa_hint_faults" in guest.text("statustext.out"), guest.output("status")[:600])
    check("policy kernel: the program ends intact, the manager with status 0", guest.is_intact("kernel")[0] and guest.number("kernel.status") == 0,
          (guest.is_intact("kernel"), guest.output("kernel")[-600:]))
    check("policy kernel: every setting has its old value again", *guest.is_restored("kernel"))
    check("policy kernel, kill -9: its settings stay, and recover restores them", guest.text("dead.while") != guest.text("dead.before")
          and guest.number("recover.status") == 0 and "numa_balancing" in guest.text("recover.out") and guest.is_restored("dead")[0],
          (guest.is_restored("dead"), guest.output("recover")))
    check("policy kernel refuses --dry-run and --tracker", guest.number("rehearsed.status") == guest.number("tracked.status") == 2, guest.output("rehearsed"))
    check("an unknown knob: status 2, and the known ones", guest.number("noknob.status") == 2 and "demote_scale" in guest.text("noknob.err"),
          guest.output("noknob"))

    burst, bystander, summary = guest.json("burst.json"), guest.json("bystander.json"), guest.json("burst.summary.json")
    shares = [round(b.get("fast_share") or 0, 3) for b in burst.get("bursts", [])]
    # At the first two bursts the reclaimer may have seen few idle pages yet.
    check(f"policy tpp over hint_faults: 70 % of each of the first two bursts of new pages are fast, 95 % of later ones ({shares})",
          summary.get("tracker") == "hint_faults" and len(shares) == 4 and min(shares[:2]) >= 0.7 and min(shares[2:]) >= 0.95,
          (shares, guest.output("burst")[-900:]))
    start, end = bystander.get("node_share_start"), bystander.get("node_share_end")
    check(f"policy tpp: a sleeping bystander loses no page ({start} before, {end} after)", start == end == 1.0, bystander)
    counters = metric(summary, "vmstat_total") or {}
    check("policy tpp: the kernel demotes nothing and promotes nothing", not any(name.startswith(("pgdemote", "pgpromote_success")) for name in counters), counters)
    crowd = guest.json("crowd.json")
    check(f"policy tpp: Tierline promotes and demotes ({moved(summary, 'promote')}, {moved(summary, 'demote')} pages; hot share "
          f"{crowd.get('hot_share_end') or 0:.2f})", moved(summary, "promote") > 0 and moved(summary, "demote") > 0, summary)
    check("policy tpp: all programs end intact, the manager with status 0", guest.is_intact("crowd")[0] and guest.number("burst.load") == 0
          and guest.number("bystander.load") == 0 and guest.number("burst.status") == 0, (guest.facts, guest.output("burst")[-600:]))
    check("policy tpp: every setting has its old value again", *guest.is_restored("burst"))
