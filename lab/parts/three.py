# SPDX-License-Identifier: Apache-2.0
"""Checks what three.sh prints and writes."""

from tool.suite import boot, check, tiers_are

LONG = True


def run(work, options):
    guest = boot(work, options, "three", "--shape", "three", "--mode", "deterministic", "--seed", options.seed, "--fast", "320M", "--thp", "never")
    check("three tiers of one node", tiers_are(guest.json("topology.out"), [("fast", [0]), ("middle", [1]), ("slow", [2])]), guest.output("topology")[:600])
    check("the load is intact", *guest.is_intact("three"))
    check("the manager's status is 0", guest.number("three.status") == 0, guest.output("three"))
    fast, middle, slow, _ = guest.pages("three.after", " anon=")
    hot = 260 * 256
    check(f"of a hot set of {hot} pages, {fast} pages of the program are in the fastest tier and {middle} in the next, {slow} remain",
          fast > 30000 and fast + middle >= 0.8 * hot, guest.facts)
