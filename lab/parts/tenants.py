# SPDX-License-Identifier: Apache-2.0
"""Checks what tenants.sh prints and writes."""

import statistics

from tool.suite import boot, check, is_valid, metric, usually_fast


def run(work, options):
    guest = boot(work, options, "tenants", "--image", "redis", "--mode", "deterministic", "--seed", options.seed, "--timeout", "480")
    mib = 1 << 20

    def at(value, limit):
        """At a limit, within 2 %."""
        return limit * 0.98 <= value <= limit * 1.02

    def at_most(value, limit, uncounted=0):
        """At a limit, and `uncounted` bytes; less by no more than a huge page, for which room may have been made."""
        return limit - 2 * mib <= value <= limit * 1.02 + uncounted

    def managed(name):
        """Processes and fast bytes of each tenant, as status showed them."""
        manager = (guest.json(f"{name}.out").get("managers") or [{}])[0]
        return metric(manager, "tenant_processes"), {tenant: tiers.get("fast") for tenant, tiers in (metric(manager, "tenant_used_bytes") or {}).items()}

    pids = [f"pid {guest.facts.get(name)}" for name in "ab"]
    check("a limit above the tier: status 2, the tier's capacity and a hint", *guest.is_error("above", "fast=9GiB", "the tier has"))
    check("a limit in an unknown tier: status 2, the tiers that exist", *guest.is_error("unknown", "fats", "fast"))
    check("one cgroup named twice: status 2, Error and Hint", *guest.is_error("twice", "named twice"))
    check("one process named twice: status 2, Error and Hint", *guest.is_error("pidtwice", f"process {guest.facts.get('a')} is named twice"))
    check("a cgroup that does not exist: status 2, Error and Hint", *guest.is_error("nogroup", "there is no cgroup v2 folder /sys/fs/cgroup/both/c"))

    idle, load = guest.used("lowered"), guest.used("lowered.load")
    a, b, *_ = usually_fast(load)
    check(f"two limited Redis, each at its own limit ({a / mib:.1f} of 48 MiB, {b / mib:.1f} of 50 MiB fast)",
          at(a, 48 * mib) and at(b, 50 * mib), (load[::5], metric(guest.json("lowered.summary.json"), "orders_bytes_total")))
    over, began = idle[0][1] - 48 * mib, next((row[0] for row in idle if row[1] < idle[0][1] - mib), 0)
    after = next((row[0] for row in idle if row[1] <= 48 * mib * 1.02), None)
    busy = (metric(guest.json("lowered.summary.json"), "migrator_busy_seconds_total") or {}).get("move", 0)
    check(f"{over / mib:.0f} MiB above a limit are gone {after} s after the start of the manager, the first of them after {began} s ({busy:.2f} s of moving in all)",
          over > 100 * mib and after is not None and after - began - busy <= 1, idle[::5])
    check(f"neither is above its limit under load (at most {max(row[1] for row in load) / mib:.1f} and {max(row[3] for row in load) / mib:.1f} MiB fast)",
          all(row[1] <= 48 * mib * 1.02 and row[3] <= 50 * mib * 1.02 for row in load), load[::5])
    moves = metric(guest.json("lowered.summary.json"), "orders_bytes_total") or {}

    def done(tenant, action):
        return sum(outcomes.get("done", 0) for outcomes in moves.get(tenant, {}).get(action, {}).values())

    above = {"both/a": over, "both/b": idle[0][3] - 50 * mib}
    lost = {tenant: done(tenant, "demote") - done(tenant, "promote") - more for tenant, more in above.items()}
    check(f"neither loses a page to the other: beyond what was above the limit, and what its own promotions replaced, {lost} bytes went down",
          all(bytes <= 2 * mib for bytes in lost.values()), moves)
    manager = (guest.json("status.out").get("managers") or [{}])[0]
    limits = {"both/a": {"fast": 48 * mib}, "both/b": {"fast": 50 * mib}}
    processes, shown = managed("status")
    check("status shows the tenants: processes, use and limits", processes == {"both/a": 1, "both/b": 1} and metric(manager, "tenant_limit_bytes") == limits
          and "48.0 MiB" in guest.text("statustext.out"), (processes, metric(manager, "tenant_limit_bytes"), guest.output("statustext")[:1500]))
    # Use dips during exchanges, so status is compared with the kernel's figures of just before and just after.
    around = guest.used("status.before") + guest.used("status.after")
    agree = [any(at_most(shown.get(tenant) or 0, row[column]) for row in around) for tenant, column in (("both/a", 1), ("both/b", 3))]
    check(f"the figures of status agree with the kernel's accounting ({shown})", all(agree), (shown, around))

    # What a process maps, not what its cgroup is charged for: up to 1.4 MiB more than the manager counts, presumably pages of files that the
    # kernel maps around an accessed one, which are known after sixteen scans.
    fast = [statistics.median(sum(guest.json(f"{name}.where{i}.json").get("nodes", {}).get("0", {}).values()) * 4096 for i in range(1, 6)) for name in "ab"]
    check(f"tenants named by pid, each at its own limit ({fast[0] / mib:.1f} of 30 MiB, {fast[1] / mib:.1f} of 45 MiB fast)",
          at_most(fast[0], 30 * mib, mib) and at_most(fast[1], 45 * mib, mib) and managed("pidstatus")[0] == {pids[0]: 1, pids[1]: 1}, (fast, managed("pidstatus")))

    a, b, *_ = usually_fast(guest.used("nested.load"))
    check(f"a cgroup in another one: each at its own limit ({a / mib:.1f} of 20 MiB inside, {b / mib:.1f} of 25 MiB fast)", at(a, 20 * mib) and at(b, 25 * mib), (a, b))
    owners = {name: managed(name)[0] for name in ("neststatus", "away", "back", "vanished")}
    outer, inner, named = "both", "both/a", pids[0]
    expected = {"neststatus": {outer: 1, inner: 1, named: 0}, "away": {outer: 1, inner: 0, named: 1},
                "back": {outer: 1, inner: 1, named: 0}, "vanished": {outer: 1, inner: 0, named: 0}}
    check("a process belongs to the innermost submitted cgroup; when it leaves that cgroup, to the tenant that names its pid; after its return, to the cgroup again", owners == expected, owners)
    check("a removed cgroup: its tenant ends with a message; the other is still managed", "removed; its tenant has ended" in guest.text("nested.err"), guest.output("nested")[-600:])
    check("the kernel refuses to rename a cgroup", guest.number("renamed") not in (None, 0), guest.facts.get("renamed"))
    for name in ("lowered", "pids", "nested"):
        summary = guest.json(f"{name}.summary.json")
        check(f"{name}: the manager ends with status 0, its summary valid", guest.number(f"{name}.status") == 0 and is_valid(summary)[0], (guest.output(name)[-600:], is_valid(summary)))
        for server in ("a", "b"):
            report = guest.json(f"{name}.{server}.json")
            check(f"{name}: the client of {server} got {report.get('gets')} values, all as written", report.get("gets") and not report.get("mismatches") and not report.get("misses"), report)
    check("all settings are restored", *guest.is_restored("tenants"))
