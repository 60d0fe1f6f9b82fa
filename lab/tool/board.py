# SPDX-License-Identifier: Apache-2.0
"""The board: every program under every contender, from the same start, in one table.

Each run is a guest in the deterministic mode. Its score is the program's work (accesses, requests, edges) in a second of a modelled clock,
which counts every instruction of the processor, the kernel's and the manager's included, and each miss of user programs by its tier.
Scores are relative to `hold`, where no page moves. The *gain* is the part of the way from `hold` to a machine whose memory is all fast.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import math
import subprocess
import sys
from pathlib import Path

from . import guest
from .report import document, json_file

LAB = Path(__file__).resolve().parent.parent
FAST, SLOW = "400M", "1536M"
ALL_FAST = "2G"

# name: what it is
PROGRAMS = {
    "range": "random accesses, 96 of 600 MB hot, one range; it jumps half-way",
    "scatter": "the same, the hot pages scattered",
    "zipf": "Zipf 0.99 over 390 of 800 MB, more than fast memory; it jumps half-way",
    "scan": "range, while a thread reads all memory again and again",
    "churn": "range, while a thread maps, touches and unmaps 1 MiB every 2 ms",
    "fork": "range, in a process that forks every second",
    "shared": "range, in shared memory",
    "two": "two programs, range and scatter, 64 of 400 MB hot each",
    "grow": "memory that grows from 60 to 700 MB, the newest 60 MB hot",
    "graph": "PageRank, then connected components: 4 M vertices, 64 M edges",
    "redis": "Redis, 120,000 values of 4 KB, 4 % of the keys hot; they change half-way",
    "sqlite": "SQLite over a mapped file of 440 MB, 64 MB of rows hot; they change half-way",
}
# Pages that every contender has to move at least: the hot set before and after the change.
NEEDED = {"range": 2 * 24576, "scatter": 2 * 24576, "scan": 2 * 24576, "churn": 2 * 24576, "fork": 2 * 24576, "shared": 2 * 24576, "two": 4 * 16384}
IMAGES = {"redis": "redis", "sqlite": "redis"}
CONTENDERS = ["kernel", "tierline"]
WATERMARKS = ["kernel/100", "kernel/500"]
REFERENCES = ["hold", "fast"]


def main(words):
    options = _parser().parse_args(words)
    cells = [(program, thp, start, kernel) for kernel in options.kernel or ["7.2"] for start in options.start or ["run"]
             for thp in options.thp or ["never", "always"] for program in options.program or PROGRAMS]
    contenders = REFERENCES + (options.contender or CONTENDERS + (WATERMARKS if options.long else []))
    jobs = [(cell, contender) for cell in cells for contender in contenders]
    results = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = {pool.submit(_run, options, *job): job for job in jobs}
        for done in concurrent.futures.as_completed(waiting):
            results[waiting[done]] = done.result()
            print(f"[{len(results)}/{len(jobs)}] {_name(*waiting[done], options.seed)}: {_score_text(done.result())}", file=sys.stderr, flush=True)
    rows = [_row(cell, {contender: results[cell, contender] for contender in contenders}) for cell in cells]
    table = _table(rows, contenders[2:])
    print(json.dumps(rows, indent=1) if options.json else "\n".join(_line(cells) for cells in table))
    if options.markdown:
        notes = [f"A guest of QEMU with {FAST} of fast and {SLOW} of slow memory, deterministic mode, seed {options.seed}, one run each. All memory starts on the",
                 "slow node, except that of Redis and `grow`. A score of 1.00 is `hold`.", ""]
        notes += [f"- `{name}`: {PROGRAMS[name]}" for name in options.program or PROGRAMS]
        options.markdown.write_text(document("The board", ["lab/compare", "--board", *words], notes, table), encoding="utf-8")
    return 0 if all(results.values()) else 1


def _parser():
    parser = argparse.ArgumentParser(prog="lab/compare --board", description=__doc__.splitlines()[0])
    parser.add_argument("--program", action="append", choices=PROGRAMS, help="may be repeated; default: all")
    parser.add_argument("--thp", action="append", choices=["never", "madvise", "always"], help="huge pages; may be repeated; default: never and always")
    parser.add_argument("--start", action="append", choices=["run", "attach"], help="managed from the start, or after three seconds; default: run")
    parser.add_argument("--kernel", action="append", choices=["7.2", "6.12"], help="default: 7.2")
    parser.add_argument("--contender", action="append", help="kernel, kernel/WATERMARK_SCALE_FACTOR, or POLICY[:TRACKER] of Tierline; default: kernel, tierline")
    parser.add_argument("--long", action="store_true", help="also run the kernel with other watermarks")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--jobs", type=int, default=2, help="guests at a time (2); each uses one core")
    parser.add_argument("--keep", type=Path, default=LAB.parent / "target/board", help="folder of finished runs, which are not repeated with the same programs (target/board)")
    parser.add_argument("--timeout", type=float, default=900, help="limit for one run, in seconds of the host's time")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", type=Path, metavar="FILE.md", help="also write the table as a document")
    return parser


def _name(cell, contender, seed):
    program, thp, start, kernel = cell
    return f"{program}-{thp}-{start}-{kernel}-{contender.replace('/', '_').replace(':', '_')}-{seed}"


@functools.cache
def _build(contender):
    """Names the programs that a run depends on: runs of other builds are other runs. Only Tierline's contenders start Tierline."""
    is_ours = contender not in REFERENCES and contender.split("/")[0] != "kernel"
    files = [file for file in guest.PROGRAMS if file.exists() and (is_ours or file.name != "tierline")] + [LAB / "guest/board-job"]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def _run(options, cell, contender):
    """Boots one guest, or reads the result of an earlier one. Returns nothing if the run failed."""
    program, thp, start, kernel = cell
    here = options.keep / _build(contender) / _name(cell, contender, options.seed)
    if not (here / "done").exists():
        here.mkdir(parents=True, exist_ok=True)
        memory = [ALL_FAST, "256M"] if contender == "fast" else [FAST, SLOW]
        command = [LAB / "lab", "run", "--kernel", kernel, "--mode", "deterministic", "--seed", options.seed, "--thp", thp, "--fast", memory[0],
                   "--slow", memory[1], "--timeout", options.timeout, "--truth", here / "truth.json", "--get", f"/out:{here}/out",
                   "--file", f"{LAB}/guest/board-job:/job/board-job"]
        command += ["--image", IMAGES[program]] if program in IMAGES else []
        command += ["--", "/job/board-job", contender, start, program, options.seed]
        with open(here / "log", "wb") as log:
            status = subprocess.run([str(word) for word in command], stdout=log, stderr=log).returncode
        if status:
            print(f"{here.name} failed with status {status}:", file=sys.stderr)
            sys.stderr.write("".join((here / "log").read_text(errors="replace").splitlines(keepends=True)[-8:]))
            return None
        (here / "done").touch()
    return _read(here)


def _read(here):
    truth = json_file(here / "truth.json") or {}
    marks = truth.get("markers", [])
    first = next((mark for mark in marks if mark["id"] == 1), None)
    last = next((mark for mark in reversed(marks) if mark["id"] == 3), None)
    loads = [json_file(file) for file in sorted((here / "out").glob("load*.json"))]
    if not first or not last or not loads:
        print(f"{here.name}: no markers or no report", file=sys.stderr)
        return None
    spent = {key: last[key] - first[key] for key in ("all_instructions", "instructions", "fast_misses", "slow_misses")}
    costs = truth["constants"]
    seconds = (spent["all_instructions"] * costs["insn_ps"] + spent["fast_misses"] * costs["fast_ps"] + spent["slow_misses"] * costs["slow_ps"]) / 1e12
    vmstat = [dict(line.split() for line in (here / "out" / f"vmstat.{when}").read_text().splitlines()) for when in ("before", "after")]
    metrics = (json_file(here / "out/summary.json") or {}).get("metrics", {})
    return {
        "work_per_second": sum(load.get("accesses", load.get("requests")) for load in loads) / seconds,
        "fast_share": spent["fast_misses"] / max(1, spent["fast_misses"] + spent["slow_misses"]),
        "kernel_share": 1 - spent["instructions"] / spent["all_instructions"],
        "t90_seconds": loads[0].get("t90_seconds"),
        "t90_after_jump_seconds": loads[0].get("t90_after_jump_seconds"),
        "moved_pages": int(vmstat[1]["pgmigrate_success"]) - int(vmstat[0]["pgmigrate_success"]),
        "cpu_seconds": metrics.get("manager_cpu_seconds_total", 0) + metrics.get("tracker_cpu_seconds_total", 0) if metrics else None,
        "rss_bytes": metrics.get("manager_resident_bytes"),
    }


def _row(cell, results):
    hold, fast = results["hold"], results["fast"]
    row = {"program": cell[0], "huge_pages": cell[1], "start": cell[2], "kernel": cell[3], "contenders": {}}
    for contender, result in results.items():
        if not result or not hold:
            row["contenders"][contender] = None
            continue
        score = result["work_per_second"] / hold["work_per_second"]
        # Time for a unit of work, between that of `hold` and that of memory that is all fast.
        possible = 1 - hold["work_per_second"] / fast["work_per_second"] if fast else 0
        row["contenders"][contender] = {
            **result, "score": score, "gain": (1 - 1 / score) / possible if possible > 0.01 else None,
            "moved_over_needed": result["moved_pages"] / NEEDED[cell[0]] if cell[0] in NEEDED else None,
        }
    return row


def _score_text(result):
    return f"{result['work_per_second'] / 1e6:.3f} M/s, {result['fast_share']:.3f} fast" if result else "failed"


def _table(rows, contenders):
    table = [["program", "huge pages", "start", "kernel", "all fast", *contenders, *(f"{c}: gain, accesses fast, moved/needed" for c in contenders)]]
    ratios = {contender: [] for contender in contenders}
    for row in rows:
        cells = [row["program"], row["huge_pages"], row["start"], row["kernel"], _number(row["contenders"]["fast"], "score")]
        for contender in contenders:
            found = row["contenders"][contender]
            cells.append(_number(found, "score"))
            ratios[contender] += [found["score"]] if found else []
        cells += [", ".join(_number(row["contenders"][c], key) for key in ("gain", "fast_share", "moved_over_needed")) for c in contenders]
        table.append(cells)
    means = [f"{math.exp(sum(map(math.log, values)) / len(values)):.2f}" if values else "–" for values in ratios.values()]
    table.append(["geomean", "", "", "", "", *means, *[""] * len(contenders)])
    return table


def _number(found, key):
    return "–" if not found or found[key] is None else f"{found[key]:.2f}"


def _line(cells):
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, [8, 10, 6, 6, 8] + [9] * 20))
