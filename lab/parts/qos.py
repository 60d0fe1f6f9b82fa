# SPDX-License-Identifier: Apache-2.0
"""Checks what qos.sh prints and writes."""

import statistics

from tool.suite import boot, check

LONG = True


def run(work, options):
    guest = boot(work, options, "qos", "--image", "redis", "--mode", "deterministic", "--seed", options.seed, "--timeout", "600")
    mib = 1 << 20
    names = ("redis", "hog", "late")

    def listed(name):
        return {one["name"]: one for one in guest.json(f"{name}.out").get("applications", [])}

    def limit(one):
        return one["reserved_bytes"][0] + one["lent_bytes"][0] if one else 0

    def fast(name, group):
        return statistics.median(row[1 + 2 * names.index(group)] for row in guest.used(name))

    first, refused, earlier, after = listed("list1"), listed("list2"), listed("list3"), listed("list4")
    check("applications of a folder are admitted, with their target and state", list(first) == ["redis", "hog"] and first["redis"]["slo"] == "20.0 % slow accesses", guest.output("list1"))
    check("an impossible target: status 2, the best possible value and a hint", *guest.is_error("impossible", "1 ns cannot be met", "at best"))
    check("a duplicate priority: status 2, who has it, and a hint", *guest.is_error("taken", "priority 2 belongs to redis"))
    check("a cgroup that does not exist: status 2, Error and Hint", *guest.is_error("gone", "there is no cgroup v2 folder"))
    check("after refusals the same applications have the same targets", [(one["name"], one["slo"]) for one in refused.values()] == [(one["name"], one["slo"]) for one in first.values()], refused)

    late = after.get("late") or {}
    hot = 60 * mib
    got = next((row[0] for row in guest.used("after") if row[5] >= 0.9 * hot), None)
    check(f"SQLite, late and of the highest priority, gets its memory: {fast('held', 'late') / mib:.0f} MiB fast, {hot / mib:.0f} hot, after {got} s; "
          f"the hog has {fast('held', 'hog') / mib:.0f} instead of {fast('before', 'hog') / mib:.0f} MiB", got is not None
          and fast("held", "hog") < fast("before", "hog") - 20 * mib, (late, guest.used("after")[::6]))
    check(f"its target is met (slow share {late.get('slow_share')})", late.get("state") == "met", late)
    # Limits follow the free memory of the tier, so both those before and those after count.
    limits = {name: max(limit(earlier.get(name)), limit(after.get(name))) for name in names}
    over = {name: max(row[1 + 2 * names.index(name)] for row in guest.used("held")) / max(1, limits[name]) for name in names}
    limits = {name: round(bytes / mib) for name, bytes in limits.items()}
    check(f"without allocation nobody is more than 2 % above its limit (use by limit {({name: round(part, 3) for name, part in over.items()})}, limits {limits} MiB)",
          all(part <= 1.02 for part in over.values()), (over, after))
    check("explain tells what it has, what it needs, and who gave up what", "late is admitted" in guest.text("explain.out") and "go from hog to late" in guest.text("explain.out"), guest.output("explain"))
    check("profile predicts slow accesses by size of fast memory", guest.number("profile.status") == 0 and "0.0 %" in guest.text("profile.out"), guest.output("profile"))

    def quota(name):
        return int(guest.facts.get(name, "0").split()[0] or 0)

    mine, there = [quota(f"cpu.{name}") for name in ("first", "second", "third")], "90000 100000"
    check(f"CPU time of the hog is limited while Redis reports a miss ({', '.join(map(str, mine))} of 90000 us in 100 ms)", all(1000 <= own < 90000 for own in mine), guest.facts)
    check("explain tells for whom", "of its CPU time, for redis" in guest.text("explainhog.out"), guest.output("explainhog"))
    check("the limit that was there is back when Redis is removed", guest.facts.get("cpu.lifted") == there, guest.facts)
    check("after kill -9 the limit stays, and recover restores the one that was there", 1000 <= quota("cpu.killed") <= quota("cpu.second") and guest.facts.get("cpu.recovered") == there
          and "qos/hog/cpu.max = 90000 100000" in guest.text("recover.out"), (guest.facts, guest.output("recover")))
    check(f"under a second manager Redis keeps its fast memory ({fast('held', 'redis') / mib:.0f} MiB before, {fast('second', 'redis') / mib:.0f} now)",
          fast("second", "redis") > 0.9 * fast("held", "redis") > 0, guest.used("second")[::20])
    check("a manager that ends restores it", guest.number("second.status") == 0 and guest.facts.get("cpu.ended") == there, (guest.facts, guest.output("second")[-600:]))
    check("SQLite runs to the end, and its file is as written", guest.facts.get("late.alive") == guest.facts.get("late.intact") == "1", (guest.facts, guest.text("late.load.err")[-300:]))
    check("all settings are restored", *guest.is_restored("qos"))
