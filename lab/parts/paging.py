# SPDX-License-Identifier: Apache-2.0
"""Checks what paging.sh prints and writes."""

from tool.suite import boot, check, is_valid, metric


def run(work, options):
    guest = boot(work, options, "paging", "--mode", "deterministic", "--seed", options.seed, "--timeout", "480")
    check("paging out private memory without swap: status 2, Error and Hint", *guest.is_error("noswap", "swap", "/proc/swaps"))

    def out(name):
        """MiB that are paged out, and pages that were read back."""
        return (guest.number(f"{name}.swapped_kib") or 0) / 1024, guest.number(f"{name}.read_back") or 0

    swapped, back = out("tmo")
    check(f"most of the 84 MiB that are never accessed are paged out ({swapped:.0f} MiB)", 60 <= swapped <= 88, swapped)
    check(f"few of the 16 MiB that are accessed are paged out ({back} pages were read back)", back <= 256, back)
    counted = (metric(guest.json("tmo.summary.json"), "tiering_pages_total") or {}).get("page_out_anon", 0) / 256
    check(f"the manager's count agrees with the kernel's ({counted:.0f} MiB)", swapped <= counted <= 1.2 * swapped, counted)
    # With a page read back every 100 us as the cost of a read, the thresholds are 10 and 5,000 pages a second.
    (held, patient), (taken, ruthless) = out("patient"), out("ruthless")
    check(f"memory that is used every few seconds: pages that are read back stop the paging out ({patient} pages and {held:.0f} MiB out; "
          f"{ruthless} and {taken:.0f} MiB with a threshold 500 times as high)", 0 < 2 * patient < ruthless and 2 * held < taken, (patient, held, ruthless, taken))
    for name in ("tmo", "patient", "ruthless"):
        check(f"{name}: the program ends intact, its memory read back, the manager with status 0, its summary valid", guest.is_intact(name)[0]
              and guest.number(f"{name}.status") == 0 and is_valid(guest.json(f"{name}.summary.json"))[0], (guest.is_intact(name), guest.output(name)[-600:]))
    check("all settings are restored", *guest.is_restored("tmo"))
