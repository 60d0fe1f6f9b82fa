# SPDX-License-Identifier: Apache-2.0
"""Checks what sizes.sh prints and writes."""

from tool.suite import boot, check, metric

LONG = True


def run(work, options):
    settled, mb = {}, 1e6
    for size in (700, 4096, 12288):
        guest = boot(work, options, "sizes", "--mode", "deterministic", "--seed", options.seed, "--timeout", "900", "--slow", f"{size + 1024}M", args=[f"{size}M"])
        report, resident = guest.json("sizes.json"), metric(guest.json("sizes.summary.json"), "manager_resident_bytes")
        check(f"{size} MiB: 90 % of the hot set is fast after {report.get('t90_seconds')} s, which takes {(guest.number('placed') or 0) / 1e6:.1f} s of CPU",
              report.get("t90_seconds") is not None and guest.is_intact("sizes")[0] and guest.number("manager.status") == 0, (guest.facts, guest.output("sizes")))
        check(f"{size} MiB: resident memory of the manager is at most 20 MB and 8 bytes a page ({resident / mb:.1f} MB)", 0 < resident <= 20 * mb + 8 * size * 256, resident)
        settled[size] = ((guest.number("later") or 0) - (guest.number("settled") or 0)) / 40e6
    costs = ", ".join(f"{size} MiB {share:.2%}" for size, share in settled.items())
    check(f"once it is placed, 12 GiB cost at most twice as much as 0.7 GiB (of a CPU of 250 MIPS: {costs})", 0 < settled[12288] <= 2 * settled[700], settled)
