# SPDX-License-Identifier: Apache-2.0
"""Checks what attach.sh prints and writes."""

from tool.suite import boot, check, is_valid, tiers_are


def attach(work, options, *words, title, slow=1):
    guest = boot(work, options, "attach", "--mode", "deterministic", "--seed", options.seed, *words)
    check(f"{title}: fast is node 0 and slow node {slow}", tiers_are(guest.json("topology.out"), [("fast", [0]), ("slow", [slow])]), guest.output("topology")[:600])
    check(f"{title}: run passes the status through", guest.number("seven.status") == 7, guest.output("seven"))
    trace = guest.json("recorded.out")
    check(f"{title}: record writes a complete trace of the program's 40 MiB", guest.number("record.status") == 0 and trace.get("error") is None
          and 0.99 < trace.get("touched_bytes", 0) / (40 << 20) < 1.5 and trace.get("epochs", 0) > 2, (guest.output("record")[-400:], trace))
    profile = guest.json("profile.out")
    private = next((heat for heat in profile.get("memory", []) if heat["kind"] == "anonymous"), {})
    used = next((span["used_bytes"] for span in private.get("within", []) if span["intervals"] == 1), 0)
    check(f"{title}: profile reports 8 MiB in use of the program's 40 MiB, also after its end", guest.number("profile.status") == 0
          and profile.get("intervals", 0) >= 3 and 0.95 < private.get("memory_bytes", 0) / (40 << 20) < 1.5 and 0.9 < used / (8 << 20) < 2, (guest.output("profile")[-400:], profile))
    report, summary = guest.json("attach.json"), guest.json("attach.summary.json")
    share = report.get("hot_share_end") or 0
    check(f"{title}: {summary.get('tracker')} promotes the hot set (90 % after {report.get('t90_seconds')} s, {guest.number('attach.migrated')} pages)",
          report.get("t90_seconds") is not None, (share, guest.output("attach")[-600:]))
    check(f"{title}: the program ends intact, the manager with status 0", guest.is_intact("attach")[0] and guest.number("attach.status") == 0,
          (guest.is_intact("attach"), guest.output("attach")[-600:]))
    check(f"{title}: the summary is valid", *is_valid(summary))
    check(f"{title}: no setting is left changed", *guest.is_restored("attach"))
    return guest


def run(work, options):
    attach(work, options, title=options.kernel)
