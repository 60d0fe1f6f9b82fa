# SPDX-License-Identifier: Apache-2.0
"""Checks what sockets.sh prints and writes."""

from tool.suite import boot, check, metric, tiers_are


def run(work, options):
    guest = boot(work, options, "sockets", "--shape", "sockets", "--mode", "interleaved", "--fast", "640M", "--thp", "never")
    check("two sockets are two tiers of two nodes", tiers_are(guest.json("topology.out"), [("fast", [0, 1]), ("slow", [2, 3])]), guest.output("topology")[:600])
    for name in ("near", "wide"):
        check(f"{name}: the load is intact", *guest.is_intact(name))
        check(f"{name}: the manager's status is 0", guest.number(f"{name}.status") == 0, guest.output(name))
    before, after = (guest.pages(f"near.{when}", " anon=") for when in ("before", "after"))
    promoted = before[3] - after[3]
    check(f"of {promoted} pages promoted to two sockets, {after[0] - before[0]} went to that of their process, where less memory is free",
          promoted > 6000 and after[0] - before[0] >= 0.95 * promoted, (before, after))
    before, after = (guest.pages(f"wide.{when}") for when in ("before", "after"))
    # Other pages come up in their place, so the nodes' counts alone do not show how many went down from which.
    flows = {(int(a), int(b)): count // 4096 for a, to in (metric(guest.json("wide.summary.json"), "node_moved_bytes_total") or {}).items()
             for b, count in to.items()}
    down = {(a, b): flows.get((a, b), 0) for a in (0, 1) for b in (2, 3)}
    demoted, far = sum(down.values()), down[0, 3] + down[1, 2]
    check(f"of {demoted} pages demoted from a program on both sockets, {far} went to the slow node of the socket that they were not on",
          demoted > 1000 and far <= 0.05 * demoted, (flows, before, after))
    grown = [after[node] - before[node] - sum(count * ((b == node) - (a == node)) for (a, b), count in flows.items()) for node in range(4)]
    changed = set(guest.mappings("wide.after").items()) - set(guest.mappings("wide.before").items())
    check(f"the program's pages of each node are those that its moves leave there, but for {max(map(abs, grown))}",
          sum(before) > 0 and max(map(abs, grown)) <= 50, (flows, before, after, changed))
