# SPDX-License-Identifier: Apache-2.0
"""What the parts of lab/suite have in common: checks, a guest's facts and files, and questions about a manager's summary."""

import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

LAB = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or LAB.parent / "target")
HUNG = 124  # status of lab/lab after a guest's timeout
OUTCOMES = {"done", "elsewhere", "busy", "dirtied", "shared", "no_room", "page_gone", "space_gone", "refused", "skipped"}  # names of outcomes in the core

part = threading.local()  # .checks: output lines of the part that this thread runs


def check(what, good, found=""):
    part.checks.append(f"{'ok    ' if good else 'FAILED'} {what}{'' if good else f': found {str(found)[:900]!r}'}")


class Guest:
    """Output and files of a guest."""

    def __init__(self, out, status, stdout, stderr):
        self.out, self.status, self.stderr = out, status, stderr
        self.facts = dict(line.split("=", 1) for line in stdout.splitlines() if re.match(r"[\w.]+=", line))

    def text(self, name):
        file = self.out / name
        return file.read_text(errors="replace") if file.exists() else ""

    def json(self, name):
        try:
            return json.loads(self.text(name))
        except ValueError:
            return {}

    def number(self, name):
        return int(self.facts[name]) if re.fullmatch(r"-?\d+", self.facts.get(name, "")) else None

    def output(self, name):
        return self.text(f"{name}.out") + self.text(f"{name}.err")

    def mappings(self, name):
        """Rows of `mappings`: the address and what the kernel says of it."""
        return dict(line.split(" ", 1) for line in self.text(f"{name}.maps").splitlines() if " " in line)

    def pages(self, name, of=""):
        """Base pages in nodes 0 to 3, of the mappings whose row has these words."""
        found = [re.findall(r" N(\d)=(\d+)", row) for row in self.mappings(name).values() if of in row]
        return [sum(int(pages) for row in found for at, pages in row if int(at) == node) for node in range(4)]

    def used(self, name):
        """Rows of `watch`: seconds, then fast and slow bytes of each cgroup, without files that were cold at the start."""
        cold = [int(word) for word in self.text(f"{name}.cold").split()]
        rows = [[int(word) for word in line.split()] for line in self.text(f"{name}.used").splitlines()]
        return [(row[0] / 100, *(used - idle for used, idle in zip(row[1:], cold))) for row in rows] or [(0,) * 7]

    def is_error(self, name, *words, status=2):
        """An error in the standard form: its status, `Error:`, a `Hint:`, and these words."""
        err = self.text(f"{name}.err")
        lines = err.splitlines()
        good = (any(line.startswith("Error: ") for line in lines) and any(line.startswith("Hint: ") for line in lines)
                and all(word in err for word in words))
        return good and self.number(f"{name}.status") == status, (self.facts.get(f"{name}.status"), err)

    def is_restored(self, name):
        return self.facts.get(f"{name}.changed") == "", self.facts.get(f"{name}.changed")

    def is_intact(self, name):
        """The load ended normally and found its memory as written."""
        found = self.json(f"{name}.json").get("verified") or {}
        intact = found.get("tag_mismatches") == 0 and found.get("stores_made") == found.get("stores_found")
        status = self.number(f"{name}.load")
        return intact and (status == 0 or status is None), (status, found, self.text(f"{name}.load.err")[-300:])

    def has_no_panic(self):
        return not re.search(r"panicked|the manager failed", "".join(f.read_text(errors="replace") for f in self.out.glob("*.err")))


def boot(work, options, script, *words, args=(), shell="sh"):
    """Runs one script in one guest. If the guest dies, that is a failed check with an empty result."""
    out = work / f"{script}-{time.monotonic_ns()}"
    out.mkdir()
    command = [LAB / "lab", "run", "--kernel", options.kernel, "--fast", "400M", "--slow", "2G", "--timeout", "180", *words,
               "--file", LAB / "guest/suite-lib.sh", "--file", LAB / f"parts/{script}.sh", "--get", f"/out:{out}",
               "--", shell, f"{script}.sh", *args]
    begun = time.monotonic()
    for _ in range(2):
        run = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if run.returncode != HUNG:
            break
        # An emulated machine may hang by itself: print all its output, and try once more.
        part.checks.append("HUNG   " + run.stdout.decode(errors="replace") + run.stderr.decode(errors="replace"))
    guest = Guest(out, run.returncode, run.stdout.decode(errors="replace"), run.stderr.decode(errors="replace"))
    if options.verbose:
        print(guest.facts, file=sys.stderr)
        for file in sorted(out.glob("*.err")):
            print(f"--- {file.name}\n{file.read_text(errors='replace')}", file=sys.stderr)
    check(f"the guest ended normally ({time.monotonic() - begun:.0f} s)", run.returncode in (0, 1) and guest.facts, guest.stderr[-900:])
    check("no panic and no failed manager", guest.has_no_panic(), guest.stderr[-300:])
    return guest


def usually_fast(rows):
    """Fast bytes of each cgroup of `watch`, in the median: new pages are fast until the next step, and an exchange takes pages down first."""
    return [statistics.median(row[at] for row in rows) for at in range(1, len(rows[0]), 2)]


def metric(summary, name):
    """A metric of a summary by name: a number, or numbers by label."""
    return summary.get("metrics", {}).get(name, 0)


def orders(summary):
    """(action, outcome, pages) for every kind of order in a summary."""
    tenants = summary.get("metrics", {}).get("orders_bytes_total", {})
    return [(action, outcome, count // 4096) for actions in tenants.values() for action, reasons in actions.items()
            for outcomes in reasons.values() for outcome, count in outcomes.items()]


def moved(summary, *actions):
    """Number of base pages promoted or demoted."""
    return sum(pages for action, outcome, pages in orders(summary) if outcome == "done" and action in (actions or ("promote", "demote")))


def is_valid(summary):
    """Conditions on the numbers of every summary."""
    positive = ("uptime_seconds", "samples_total", "manager_cpu_seconds_total", "manager_resident_bytes", "manager_metadata_bytes")
    wrong = [name for name in positive if not metric(summary, name) > 0]
    wrong += [f"outcome {outcome}" for _, outcome, _ in orders(summary) if outcome not in OUTCOMES]
    wrong += [key for key in ("policy", "tracker", "attention", "fingerprint") if not isinstance(summary.get(key), str)]
    wrong += ["schema_version"] if summary.get("schema_version") != 2 else []
    wrong += ["tiers"] if [t["name"] for t in summary.get("tiers", [])] != ["fast", "slow"] else []
    return not wrong, (wrong, summary)


def tiers_are(topology, nodes):
    return [(tier["name"], tier["nodes"]) for tier in topology.get("tiers", [])] == nodes


def has_neoprof():
    had = re.search(r"^qemu +11 ", subprocess.run([LAB / "lab", "list"], capture_output=True, text=True).stdout, re.M)
    if not had:
        part.checks.append("skipped: needs QEMU 11 for an external PCI device (lab/lab fetch --refresh)")
    return had
