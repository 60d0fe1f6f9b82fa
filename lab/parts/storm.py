# SPDX-License-Identifier: Apache-2.0
"""Checks what storm.sh prints and writes."""

from tool.suite import boot, check, metric

LONG = True


def run(work, options):
    # 250 MIPS do not suffice to ask so often beside a busy program.
    guest = boot(work, options, "storm", "--mode", "deterministic", "--mips", "1000", "--seed", options.seed, "--timeout", "480")
    asked = guest.json("asked.json")
    answers, shed = asked.get("answers", {}), (asked.get("shed") or {}).get("p99") or 9
    check(f"1000 MIPS, 1,000 requests a second for {asked.get('elapsed_seconds', 0):.1f} s: those over the limit are shed at once ({answers}, 99 of 100 in {shed * 1e3:.1f} ms)",
          0 < asked.get("elapsed_seconds", 0) < 5.5 and set(answers) == {"200", "429"} and answers["429"] > 5 * answers["200"] and shed <= 0.010, asked)

    def steps(phase):
        """Steps of the manager, and the share of them that began more than 10 ms late."""
        before, after = (metric((guest.json(f"{phase}.{when}.out").get("managers") or [{}])[0], "steps_total") or {} for when in ("before", "after"))
        made = {late: after.get(late, 0) - before.get(late, 0) for late in after}
        return sum(made.values()), (made.get("under_100ms", 0) + made.get("more", 0)) / max(1, sum(made.values()))

    (quiet, usual), (stormed, late) = steps("quiet"), steps("storm")
    # The standard deviation of the difference of two equal shares: five seconds are some hundred steps.
    chance = (usual * (1 - usual) * (1 / max(1, quiet) + 1 / max(1, stormed))) ** 0.5
    check(f"the manager's steps are not later for it: {late:.0%} of {stormed} began more than 10 ms late, {usual:.0%} of {quiet} without requests",
          quiet > 30 and stormed > 30 and late <= usual + 0.1 + 2 * chance, (steps("quiet"), steps("storm")))
    t90 = [guest.json(f"{phase}.json").get("t90_seconds") for phase in ("quiet", "storm")]
    check(f"a program has 90 % of its hot set fast after {t90[0]} s, and {t90[1]} s during requests", None not in t90 and guest.number("storm.status") == 0, guest.output("storm"))
