# SPDX-License-Identifier: Apache-2.0
"""Runs each contender on the same workload, one guest per run.

Each contender has up to two runs of each workload. The *concurrent* run (two processors) measures times: when the hot set is in fast memory,
how long it stays there, and the manager's cost. The *deterministic* run (one processor, whose clock counts instructions) measures the
program's progress relative to `hold`. The difference is the cost of being managed, as all programs share the one processor. Emulated
wall-clock speed is not used, as it is meaningless.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from . import board
from .report import document, json_file

LAB = Path(__file__).resolve().parent.parent
BASE_PAGE = 4096

# name: arguments of `lab-load`; a comma separates programs that run at the same time
STANDARD = {
    "hot128": "gups --size 700M --hot 128M --hot-share 0.9 --write-share 0.5 --jump 50s --duration 90s --node 1",
    "scatter128": "gups --size 700M --hot 128M --scatter --hot-share 0.9 --write-share 0.5 --jump 50s --duration 90s --node 1",
    # A sleeping bystander and a program overflow fast memory; then a third program repeatedly needs memory for
    # a second. Most memory is touched every few seconds. (In TPP's programs 55 to 80 % is idle for two
    # minutes.)
    "burst": "fill --size 60M --hold 45s , gups --size 400M --hot 64M --hot-share 0.99 --write-share 0.5 --duration 40s --node 0 , "
             "burst --size 24M --delay 10s --period 5s --bursts 6 --live 1s",
}
CONTENDERS = ["hold", "tierline", "tierline:hint_faults", "tierline:damon", "tierline:soft_dirty", "tpp", "kernel", "damo"]

# key, heading, format
COLUMNS = [
    ("contender", "contender", str), ("tracker", "tracker", str), ("workload", "workload", str),
    ("t90_seconds", "90 % fast [s]", "{:.1f}".format), ("t90_after_jump_seconds", "after jump [s]", "{:.1f}".format),
    ("hot_share_steady", "steady", "{:.3f}".format), ("hot_share_end", "end", "{:.3f}".format),
    ("burst_fast_mean", "bursts fast", "{:.3f}".format), ("burst_fast_least", "least", "{:.3f}".format),
    ("bystander_share", "bystander", "{:.3f}".format), ("kernel_demoted", "kernel demoted", "{:,}".format),
    ("fast_share", "fast accesses", "{:.3f}".format), ("moved_pages", "moved", "{:,}".format),
    ("needed_pages", "needed", "{:,}".format), ("accesses_vs_hold", "accesses/hold", "{:.3f}".format),
    ("cpu_share_converging", "CPU conv.", "{:.1%}".format), ("cpu_share_steady", "CPU steady", "{:.2%}".format),
    ("rss_bytes", "RSS", lambda n: f"{n / 2**20:.1f} MiB"),
]


def main():
    if "--board" in sys.argv[1:]:
        return board.main([word for word in sys.argv[1:] if word != "--board"])
    options = _parser().parse_args()
    workloads = {"custom": _custom(options)} if options.size else {name: STANDARD[name] for name in options.workload}
    rows = []
    for name, words in workloads.items():
        done = None
        for contender in _with_hold(options):
            row, accesses = _contest(options, contender, name, words)
            done = done or (accesses if contender == "hold" else None)
            row["accesses_vs_hold"] = accesses / done if accesses and done else None
            rows.append(row)
            print(_line(row), file=sys.stderr, flush=True)
    print(json.dumps(rows, indent=1) if options.json else _table(rows))
    if options.markdown:
        options.markdown.write_text(_document(options, rows), encoding="utf-8")
        print(f"lab/compare: wrote {options.markdown}", file=sys.stderr)
    return 0


def _parser():
    parser = argparse.ArgumentParser(prog="lab/compare", description=__doc__.splitlines()[0])
    parser.add_argument("--board", action="store_true", help="many programs under few contenders instead: lab/compare --board --help")
    parser.add_argument("--contender", action="append", help=f"may be repeated; one of {', '.join(CONTENDERS)}, another POLICY[:TRACKER][/KNOBS] of "
                        "Tierline, or a command of another manager, containing {pid} (see --file); default: all named here")
    parser.add_argument("--workload", action="append", choices=STANDARD, help="default: all")
    parser.add_argument("--mode", choices=["both", "concurrent", "deterministic"], default="both")
    parser.add_argument("--file", action="append", default=[], metavar="HOST[:GUEST]", help="copy into the guest")
    parser.add_argument("--kernel", default="7.2")
    parser.add_argument("--fast", default="400M")
    parser.add_argument("--slow", default="2G")
    parser.add_argument("--timeout", type=float, default=600, help="limit for one run, in seconds of the host's time")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="save the raw reports of all runs")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", type=Path, metavar="FILE.md", help="also write the results as a document, with command, commit, host and date")
    own = parser.add_argument_group("your own workload instead of the standard ones")
    own.add_argument("--size", help="size of the program, as in 700M")
    own.add_argument("--hot", default="128M", help="size of its hot set")
    own.add_argument("--scatter", action="store_true", help="scatter the hot pages instead of one range")
    own.add_argument("--hot-share", default="0.9", help="share of accesses to the hot set")
    own.add_argument("--write-share", default="0.5", help="share of accesses that also store")
    own.add_argument("--skew", default="0", help="Zipf exponent inside the hot set")
    own.add_argument("--jump", help="when the hot set moves to other pages, as in 50s")
    own.add_argument("--duration", default="90s")
    parser.set_defaults(workload=None, contender=None)
    return _Defaults(parser)


class _Defaults:
    """Fills in list defaults after parsing, as argparse would append to them."""

    def __init__(self, parser):
        self.parser = parser

    def parse_args(self):
        options = self.parser.parse_args()
        options.workload = options.workload or list(STANDARD)
        options.contender = options.contender or CONTENDERS
        return options


def _with_hold(options):
    """Puts `hold` first, as the progress of others is relative to it."""
    if options.mode == "concurrent":
        return options.contender
    return ["hold"] + [c for c in options.contender if c != "hold"]


def _custom(options):
    words = ["gups", "--size", options.size, "--hot", options.hot, "--hot-share", options.hot_share, "--write-share", options.write_share,
             "--skew", options.skew, "--duration", options.duration, "--node", "1"]
    words += ["--scatter"] * options.scatter + (["--jump", options.jump] if options.jump else [])
    return " ".join(words)


def _contest(options, contender, workload, words):
    """Runs one contender on one workload; returns its row and its accesses in the deterministic mode."""
    timed = {} if options.mode == "deterministic" else _run(options, contender, workload, words, "concurrent")
    counted = {} if options.mode == "concurrent" else _run(options, contender, workload, words, "deterministic")
    report = (timed or counted).get("report") or {}
    summary = (timed or counted).get("summary") or {}
    converging, steady = _cpu_shares((timed or counted).get("cpu", []), report)
    jumps = 2 if report.get("jumped_seconds") else 1
    hot_pages = report.get("hot_pages")
    bursts, bystander = ((timed or counted).get(load) or {} for load in ("burst", "fill"))
    vmstat = report.get("vmstat") or {}
    return {
        "contender": contender.partition(":")[0] if contender in CONTENDERS else contender,
        "tracker": summary.get("tracker"),
        "workload": workload,
        "t90_seconds": report.get("t90_seconds"),
        "t90_after_jump_seconds": report.get("t90_after_jump_seconds"),
        "hot_share_steady": report.get("hot_share_steady"),
        "hot_share_end": report.get("hot_share_end"),
        "fast_share": (counted.get("truth") or {}).get("fast_share"),
        "burst_fast_mean": bursts.get("fast_share_mean"),
        "burst_fast_least": bursts.get("fast_share_least"),
        "bystander_share": bystander.get("node_share_end"),
        "kernel_demoted": sum(count for name, count in vmstat.items() if name.startswith("pgdemote_")) if bursts else None,
        "moved_pages": vmstat.get("pgmigrate_success"),
        "needed_pages": hot_pages * jumps if hot_pages else None,
        "accesses_vs_hold": None,
        "cpu_share_converging": converging,
        "cpu_share_steady": steady,
        "rss_bytes": summary.get("metrics", {}).get("manager_resident_bytes"),
    }, (counted.get("report") or {}).get("accesses")


def _run(options, contender, workload, words, mode):
    """Boots one guest for one run. Returns its results; nothing if the run failed."""
    with tempfile.TemporaryDirectory(prefix="compare.") as folder:
        here = options.keep / f"{workload}-{contender.replace(':', '-').split()[0].replace('/', '_')}-{mode}" if options.keep else Path(folder)
        here.mkdir(parents=True, exist_ok=True)
        command = [LAB / "lab", "run", "--kernel", options.kernel, "--fast", options.fast, "--slow", options.slow,
                   "--mode", mode, "--timeout", str(options.timeout), "--get", f"/out:{here}/out",
                   "--file", f"{LAB}/guest/contest:/job/contest"]
        command += [word for file in options.file for word in ("--file", file)]
        command += ["--image", "damo"] if contender == "damo" else []
        command += ["--truth", here / "truth.json"] if mode == "deterministic" else []
        command += ["--", "/job/contest", contender, *words.split()]
        with open(here / "log", "wb") as log:
            status = subprocess.run([str(word) for word in command], stdout=log, stderr=log).returncode
        if status:
            print(f"{contender} on {workload} ({mode}) failed with status {status}:", file=sys.stderr)
            sys.stderr.write("".join((here / "log").read_text(errors="replace").splitlines(keepends=True)[-8:]))
            return {}
        return {"report": json_file(here / "out/gups.json"), "burst": json_file(here / "out/burst.json"), "fill": json_file(here / "out/fill.json"),
                "summary": json_file(here / "out/summary.json"),
                "cpu": _ndjson(here / "out/cpu.ndjson"), "truth": _truth(here / "truth.json")}


def _ndjson(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []


def _truth(path):
    """The share of misses served by fast memory between the workload's first and last marker."""
    whole = json_file(path)
    marks = {mark["id"]: mark for mark in (whole or {}).get("markers", [])}
    if 1 not in marks or 3 not in marks:
        return None
    fast, slow = (marks[3][kind] - marks[1][kind] for kind in ("fast_misses", "slow_misses"))
    return {"fast_share": fast / (fast + slow) if fast + slow else None}


def _cpu_shares(readings, report):
    """CPU share of the manager and its kernel threads, while the hot set is being moved and afterwards."""
    start = report.get("t_start_seconds")
    points = [(r["t_seconds"] - start, sum(p["run_seconds"] or 0 for p in r["processes"])) for r in readings] if start else []
    if len(points) < 4 or not any(cpu for _, cpu in points):
        return None, None
    end, jump = report["elapsed_seconds"], report.get("jumped_seconds")
    moving = [(0, report.get("t90_seconds") or jump or end)]
    if jump:
        moving.append((jump, jump + (report.get("t90_after_jump_seconds") or end)))
    spent = {True: [0.0, 0.0], False: [0.0, 0.0]}
    for (t0, c0), (t1, c1) in zip([(0.0, 0.0), *points], points):
        kind = spent[any(a < t1 and t0 < b for a, b in moving)]
        kind[0] += max(0.0, c1 - c0)  # the time of a process that has ended is no longer counted
        kind[1] += t1 - t0
    return tuple(cpu / time if time > 0 else None for cpu, time in (spent[True], spent[False]))


def _cell(row, column):
    key, _, form = column
    return "–" if row.get(key) is None else form(row[key])


def _table(rows):
    columns = [column for column in COLUMNS if any(row.get(column[0]) is not None for row in rows)]
    cells = [[heading for _, heading, _ in columns]] + [[_cell(row, column) for column in columns] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(w) if i < 3 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))) for row in cells)


def _document(options, rows):
    """The table as Markdown, with command, commit, host, date, and what was not run."""
    columns = [column for column in COLUMNS if any(row.get(column[0]) is not None for row in rows)]
    table = [[heading for _, heading, _ in columns]] + [[_cell(row, column) for column in columns] for row in rows]
    left_out = [f"contender {name}" for name in CONTENDERS if name not in options.contender]
    if not options.size:
        left_out += [f"workload {name}" for name in STANDARD if name not in options.workload]
    modes = {"both": "both modes", "concurrent": "concurrent mode only", "deterministic": "deterministic mode only"}[options.mode]
    notes = [f"A guest of QEMU with {options.fast} of fast and {options.slow} of slow memory, kernel {options.kernel}, {modes}; one run each. Costs of",
             "the kernel are 5 to 40 times those of real processors, and wall-clock speed is meaningless."]
    notes += ["", "Not run: " + ", ".join(left_out) + "."] if left_out else []
    return document("The lab", ["lab/compare", *sys.argv[1:]], notes, table)


def _line(row):
    return ", ".join(f"{column[1]} {_cell(row, column)}" for column in COLUMNS if row.get(column[0]) is not None)
