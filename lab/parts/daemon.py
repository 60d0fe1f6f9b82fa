# SPDX-License-Identifier: Apache-2.0
"""Checks what daemon.sh prints and writes."""

from tool.suite import boot, check, is_valid, metric


def run(work, options):
    guest = boot(work, options, "daemon", "--image", "redis", "--mode", "deterministic", "--seed", options.seed, "--timeout", "480")
    mib, redis = 1 << 20, guest.facts.get("redis")

    def processes(name):
        return metric((guest.json(f"{name}.out").get("managers") or [{}])[0], "tenant_processes") or {}

    tasks = {line.split()[0]: line.split()[1:] for line in guest.text("tasks").splitlines()}
    check("while it runs, the thread of the API has no capability, that of the manager only those of its tracker; both have a filter of system calls",
          tasks == {"tierline": ["0000000000aa0006", "1", "2"], "api": ["0000000000000000", "1", "2"]}, tasks)
    after = guest.number("cache.1.after")
    check(f"a Redis that starts later is found by its rule (after {(after or 0) / 100} s)", after is not None and after <= 1000 and processes("status") == {"batch": 0, "cache": 1}, processes("status"))
    for limit in (64, 32):
        fast = (guest.number(f"under.{limit}") or 0) / 256
        # What a process maps; 1 MiB more than the manager counts, as for tenants named by pid.
        check(f"it stays within its limit, also after a reload ({fast:.1f} of {limit} MiB fast)", limit - 2 <= fast <= limit * 1.02 + 1, fast)
    text = guest.text("metrics")
    check("metrics are on the loopback port", text.endswith("# EOF\n") and 'tierline_tenant_processes{tenant="cache"} 1' in text, text[-900:])
    joined = guest.json("joined.json")
    check(f"a command of run is the daemon's tenant, and gets its hot set (90 % after {joined.get('t90_seconds')} s), until it ends", joined.get("t90_seconds") is not None
          and guest.number("joined.status") == 0 and "managed by the daemon" in guest.text("joined.err") and processes("after") == {"batch": 0, "cache": 1}, (guest.output("joined"), processes("after")))
    check("its memory is as written", *guest.is_intact("joined"))
    log = guest.text("daemon.err")
    check("a bad file is named with its line, and the old tenants stay", "cache.toml" in log and "line 1" in log and "old ones stay in force" in log, log[-600:])
    check("kill -9: recover restores all settings", guest.facts.get("recovered") == "" and guest.number("recover.status") == 0 and "numa_balancing" in guest.text("recover.out")
          and "/proc/sys/kernel/numa_balancing: 0" in guest.text("killed.while"), (guest.facts, guest.output("recover")))
    requested = next((name for name in processes("standing") if name.startswith(f"pid{redis}-")), None)
    check("the next daemon has the tenants of files, and the one that was requested, which names the process and goes before the rule",
          requested and processes("standing") == {"batch": 0, "cache": 0, requested: 1}, processes("standing"))
    client = guest.json("client.json")
    check(f"Redis goes on: {client.get('gets')} values, all as written", guest.number("client.status") == 0 and client.get("gets") and not client.get("mismatches") and not client.get("misses"), client)
    check("SIGTERM: attach and the daemon end with status 0, its summary is valid", guest.number("requested.status") == guest.number("daemon.status") == 0
          and is_valid(guest.json("again.summary.json"))[0], (guest.output("again"), is_valid(guest.json("again.summary.json"))))
    check("the state folder is empty, and no setting is left changed", *guest.is_restored("daemon"))
