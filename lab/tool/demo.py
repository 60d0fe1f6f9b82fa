#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs Redis on a machine with a fast and a slow memory node three times, from the same start; prints a chart and a table. Prepared by ./demo.

Each run is a guest in the deterministic mode (one processor, whose clock counts instructions). Redis is filled; its first keys are placed
in fast memory until that is full. Then a client requests keys with a skewed distribution, the hot ones scattered over the key space, and
the contender starts. Half-way other keys become hot. The plugin of QEMU sees every load and store. With --quick, no guest is started: the
same three contenders manage a benchmark on the model.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LAB = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(LAB))

from tool.chart import chart  # noqa: E402 - needs the path above

PAGE = 4096

CONTENDERS = [("hold", "never moved"), ("kernel", "the kernel's own tiering"), ("tierline", "Tierline")]
FAST, SLOW = "160M", "1G"
# A value of 4000 bytes fills one page (Redis allocates 4096), so a hot key is a hot page.
KEYS, VALUE = 50_000, 4000
HOT_KEYS, HOT_SHARE, GET_SHARE = 0.02, 0.9, 0.98
INTERVAL = "250ms"
SEED = 42

# The scenario of --quick, and who takes part: titles and the model's policies.
SCENARIO, SCENARIO_JUMP = "scenarios/policy/jump.toml", 30
MODELLED = [("never moved", "first-touch"), ("the kernel's own tiering", "linux"), ("Tierline", "tierline")]

# key, heading (two lines), format
COLUMNS = [
    ("title", "", "pages are", str), ("fast_share", "accesses served", "by fast memory", "{:.1%}".format),
    ("modelled_seconds_per_request", "time per request", "(modelled)", lambda s: f"{s * 1e6:.1f} µs"),
    ("t90_seconds", "90 % of the hot", "set fast after", "{:.1f} s".format),
    ("t90_after_change_seconds", "again after", "the change", "{:.1f} s".format),
    ("moved_pages", "pages", "moved", "{:,}".format), ("needless_pages", "of them", "needless", "{:,}".format),
    ("cpu_seconds", "manager's", "CPU", "{:.2f} s".format), ("rss_bytes", "manager's", "memory", lambda n: f"{n / 2**20:.1f} MiB"),
]


def main():
    options = _parser().parse_args()
    if options.quick:
        return _quick(options)
    rows, runs, begun = [], [], time.monotonic()
    hold = None
    for number, (contender, title) in enumerate(CONTENDERS, 1):
        _say(f"[{number}/{len(CONTENDERS)}] {title}")
        run = _run(options, contender)
        if run is None:
            return 1
        hold = hold or run
        runs.append((title, run))
        rows.append({"contender": contender, "title": title, **_row(run, hold)})
        _say(f"      {rows[-1]['requests']:,} requests; {_cell(rows[-1], COLUMNS[1])} of accesses fast ({time.monotonic() - begun:.0f} s so far)")
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        curves = [(title, [_fast_share(*pair) for pair in itertools.pairwise(_marks(run))]) for title, run in runs]
        print(f"\nAccesses served by fast memory over time (a full block: all)\n{chart(curves, 1.0, options.duration / 2, options.duration)}")
        print(f"\n{_table(rows)}\n\n{_verdict(rows, options.seed + 1)}\n\n{_legend(options, rows)}\n\n{NEXT}")
    return 0


def _quick(options):
    """Runs the contenders on the model and prints the same kind of chart."""
    command = [options.tierline, "sim", LAB.parent / SCENARIO, "--json", "--seed", options.seed, "--policy", ",".join(policy for _, policy in MODELLED)]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stderr)
        return 1
    runs = json.loads(done.stdout)["runs"]
    curves = [(title, [row["programs"][0]["throughput_per_second"] for row in run["series"]]) for (title, _), run in zip(MODELLED, runs)]
    means = [run["overall"]["programs"][0]["throughput_per_second"] for run in runs]
    if options.json:
        print(json.dumps([{"title": title, "throughput_per_second": mean, "series": values} for (title, values), mean in zip(curves, means)], indent=1))
        return 0
    highest = max(max(values) for _, values in curves)
    print(f"GUPS, a benchmark with 4 of 36 GiB hot, on a modelled machine with 7.2 GiB of fast memory and CXL memory\n"
          f"Throughput over time (a full block: {highest / 1e6:.0f} million updates a second)\n{chart(curves, highest, SCENARIO_JUMP, runs[0]['seconds'])}\n\n"
          f"Over the whole run: {', '.join(f'{title} {mean / 1e6:.0f}' for (title, _), mean in zip(curves, means))} million updates a second: "
          f"Tierline {means[2] / means[1]:.2f} times the kernel's.\n\n"
          f"Next: ./demo runs Redis on an emulated machine; tierline sim {SCENARIO} --plot run.svg draws this in full")
    return 0


def _verdict(rows, another_seed):
    """One line: Tierline against the kernel's tiering."""
    kernel, tierline = rows[1], rows[2]
    fewer = 1 - tierline["modelled_seconds_per_request"] / kernel["modelled_seconds_per_request"]
    ahead = tierline["fast_share"] > kernel["fast_share"] and fewer > 0
    return (f"{'Tierline is ahead' if ahead else 'Tierline is not ahead'}: {tierline['fast_share']:.1%} of accesses from fast memory, the kernel "
            f"{kernel['fast_share']:.1%}; a request takes {abs(fewer):.1%} {'less' if fewer >= 0 else 'more'} time. Another seed: ./demo --seed {another_seed}")


def _parser():
    parser = argparse.ArgumentParser(prog="./demo", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the table as an array, in base units; null: unknown")
    parser.add_argument("--quick", action="store_true", help="half a minute instead: a benchmark on the model, without a guest")
    parser.add_argument("--tierline", default="target/release/tierline", help="the program for --quick")
    parser.add_argument("--seed", type=int, default=SEED, help=f"seed of the load and of the guest ({SEED})")
    parser.add_argument("--duration", type=float, default=16, help="length of the load, in seconds of the guest's time (16)")
    parser.add_argument("--kernel", choices=["7.2", "6.12"], default="7.2", help="the guest's kernel (7.2)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="save the raw reports of all runs")
    parser.add_argument("--timeout", type=float, default=900, help="limit for one run, in seconds of the host's time (900)")
    return parser


def _run(options, contender):
    """Boots one guest for one run. Returns its results, or None after a failure, which is printed."""
    with tempfile.TemporaryDirectory(prefix="tierline-demo.") as folder:
        here = (options.keep or Path(folder)) / contender
        here.mkdir(parents=True, exist_ok=True)
        command = [LAB / "lab", "run", "--kernel", options.kernel, "--image", "redis", "--mode", "deterministic", "--seed", options.seed, "--thp", "never",
                   "--fast", FAST, "--slow", SLOW, "--timeout", options.timeout, "--file", f"{LAB}/guest/demo-job:/job/demo-job",
                   "--get", f"/out:{here}/out", "--truth", here / "truth.json", "--", "demo-job", contender, KEYS, VALUE,
                   f"{options.duration}s", "--jump", f"{options.duration / 2}s", "--seed", options.seed, "--hot-keys-share", HOT_KEYS, "--hot-share", HOT_SHARE, "--get-share", GET_SHARE, "--interval", INTERVAL]
        guest = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        words = []
        try:
            for line in guest.stdout:
                if line.startswith("progress: "):
                    _say(f"      {line.removeprefix('progress: ').rstrip()}")
                else:
                    words.append(line)
            guest.wait()
        finally:
            guest.terminate()  # no guest may remain, whatever ends this run
        if guest.returncode:
            _say(f"Error: the run of {contender} failed with status {guest.returncode}:\n  " + "  ".join(words[-12:])
                 + "Hint: run lab/selftest to see whether the lab works on this machine")
            return None
        return _read(here)


def _read(here):
    out = here / "out"
    whole = {name: json.loads((out / f"{name}.json").read_text()) for name in ("load", "before", "after")}
    whole["summary"] = json.loads((out / "summary.json").read_text()) if (out / "summary.json").exists() else None
    whole["markers"] = json.loads((here / "truth.json").read_text())["markers"]
    whole["used_bytes"] = int(_words(out / "memory", ":")["used_memory"])
    whole["moved"] = int(_words(out / "vmstat.after")["pgmigrate_success"]) - int(_words(out / "vmstat.before")["pgmigrate_success"])
    whole["free_pages"] = int(_words(out / "node0", skip=2)["MemFree:"]) * 1024 // PAGE
    return whole


def _words(file, separator=None, skip=0):
    """Parses `name value` lines into a dict."""
    lines = (line.split(separator)[skip:] for line in file.read_text().splitlines())
    return {line[0]: line[1].strip() for line in lines if len(line) > 1}


def _row(run, hold):
    first, *_, last = marks = _marks(run)
    requests = run["load"]["requests"]
    summary = (run["summary"] or {}).get("metrics")
    needed = round(_needed_pages(run) * _arrived(run, hold))
    return {
        "fast_share": _fast_share(first, last),
        "modelled_seconds_per_request": (last["modelled_ps"] - first["modelled_ps"]) / 1e12 / requests,
        "t90_seconds": _t90(run, marks, _reached(hold), 0),
        "t90_after_change_seconds": _t90(run, marks, _reached(hold), run["load"]["jumped_seconds"]),
        "moved_pages": run["moved"],
        "needless_pages": max(0, run["moved"] - needed),
        "needed_pages": needed,
        "cpu_seconds": summary["manager_cpu_seconds_total"] + summary["tracker_cpu_seconds_total"] if summary else 0.0 if run is hold else None,
        "rss_bytes": summary["manager_resident_bytes"] if summary else 0 if run is hold else None,
        "requests": requests,
        "fast_share_wanted": _reached(hold),
    }


def _marks(run):
    """The plugin's counts at the start of the load (1), at each interval (4) and at its end (3)."""
    return [mark for mark in run["markers"] if mark["id"] in (1, 3, 4)]


def _fast_share(before, after):
    fast, slow = (after[kind] - before[kind] for kind in ("fast_misses", "slow_misses"))
    return fast / (fast + slow) if fast + slow else 0.0


def _hot_traffic():
    """Share of requests for hot keys: the hot requests, and the other requests that hit a hot key by chance."""
    return HOT_SHARE + (1 - HOT_SHARE) * HOT_KEYS


def _reached(hold):
    """The fast share of accesses at which 90 % of the hot set is in fast memory."""
    return _fast_share_with(hold, 0.9)


def _fast_share_with(hold, hot_part):
    """The fast share of accesses if this part of the hot values, and no other value, is in fast memory.

    Not all accesses go to values; the client and Redis's other memory count too. Under `hold` the values stay where the fill put them.
    So the excess of the fast share over the share of Redis's pages in fast memory belongs to the other accesses.
    """
    first, *_, last = _marks(hold)
    landed, share = 1 - _slow_part(hold["before"]), _fast_share(first, last)
    beside = max(0.0, (share - landed) / (1 - landed)) if landed < 1 else 1.0
    return beside + (1 - beside) * hot_part * _hot_traffic()


def _arrived(run, hold):
    """Progress of the fast share from `hold` (0) to a hot set wholly in fast memory (1), in the last interval."""
    (first, *_, last), (*_, before, end) = _marks(hold), _marks(run)
    start = _fast_share(first, last)
    gained = _fast_share(before, end) - start if run is not hold else 0.0
    return min(1.0, max(0.0, gained / (_fast_share_with(hold, 1.0) - start)))


def _t90(run, marks, wanted, since):
    """Time from `since` to the end of the first interval after it with at least the wanted fast share."""
    change = run["load"]["jumped_seconds"]
    for sample, earlier, before, after in zip(run["load"]["samples"], [{"t_seconds": 0}, *run["load"]["samples"]], marks, marks[1:]):
        if since == 0 and sample["t_seconds"] > change:
            return None
        if earlier["t_seconds"] >= since and _fast_share(before, after) >= wanted:
            return sample["t_seconds"] - since
    return None


def _slow_part(before):
    nodes = {node: pages["anon_pages"] for node, pages in before["nodes"].items()}
    return nodes.get("1", 0) / sum(nodes.values())


def _needed_pages(run):
    """Moves needed: the hot pages that were in slow memory, and a cold page moved out for each that finds no free room.

    Hot are the values of the hot keys before and after the change, and all memory of Redis other than values: each of its pages serves dozens of keys.
    """
    index = max(0, run["used_bytes"] - KEYS * PAGE) // PAGE
    promoted = round((2 * KEYS * HOT_KEYS + index) * _slow_part(run["before"]))
    return promoted + max(0, promoted - run["free_pages"])


def _cell(row, column):
    value = row[column[0]]
    if value is None:
        return "not reached" if column[0].startswith("t90_") else "unknown"
    return column[3](value)


def _table(rows):
    cells = [[column[1] for column in COLUMNS], [column[2] for column in COLUMNS], *([_cell(row, column) for column in COLUMNS] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(COLUMNS))]
    lines = ["  ".join(cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths))).rstrip() for row in cells]
    return "\n".join([*lines[:2], "-" * max(map(len, lines)), *lines[2:]])


def _legend(options, rows):
    return f"""\
Redis with {KEYS:,} values of {VALUE:,} bytes ({KEYS * PAGE >> 20} MiB) in a guest with {FAST} of fast memory (including the kernel's) and {SLOW}
of slow memory. {HOT_KEYS:.0%} of the keys, scattered, get {HOT_SHARE:.0%} of the requests. The load runs for {options.duration:g} s of the
guest's time; other keys become hot half-way.
  accesses  Loads and stores of user programs (Redis, client, Tierline) that missed the cache, counted by the lab's QEMU plugin.
  modelled  Instructions and misses of these programs at round costs (0.3 ns; 80 ns fast, 200 ns slow); not a claim about a real CPU.
  90 %      Time from the start of the load, in steps of {INTERVAL}, until {rows[0]['fast_share_wanted']:.1%} of accesses were fast. This is the share with
            90 % of the hot values in fast memory, no cold value, and all other memory as in the first run.
  needless  Pages moved minus pages needed: the hot pages that were slow and the cold pages that made room for them, in proportion to the
            progress that the fast share shows at the end. Without a manager: pages that the kernel moved for its own reasons.
  CPU       In the guest's time. For the kernel's tiering it is unknown, as it cannot be separated from other work of the kernel."""


NEXT = """\
Next:
  ./test                        checks all of this
  lab/compare --help            other workloads, trackers and contenders
  tierline run -- YOUR PROGRAM  on a machine with two tiers (cargo build --release -p tierline);
  tierline doctor               checks whether your machine is one"""


def _say(line):
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
