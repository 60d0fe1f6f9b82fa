#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves the update pipeline for every sequence of accesses up to a bound, and that each forwarding path is needed; proves that the queue of hot pages loses and invents none.

Needs pyosys, whose `sat` does the work; `hardware/neoprof/check` runs this. Prints a line of JSON for each claim. --quick: without faults.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

HARDWARE = pathlib.Path(__file__).resolve().parent.parent
RMW = ["match.sv", "rmw_ram.sv"]
LANE = RMW + ["sketch_lane.sv"]
CLAIMS = [
    # proof, sources, parameters, bound in cycles (of which the first are initialisation); the longest first
    ("lane_proof", LANE, {"WIDTH_BITS": 6, "COUNTER_BITS": 2, "BANK_BITS": 0}, 25),
    ("rmw_proof", RMW, {"ADDR_BITS": 6, "DATA_BITS": 2, "BANK_BITS": 0, "WAIT": 0}, 25),
    ("rmw_proof", RMW, {"ADDR_BITS": 6, "DATA_BITS": 2, "BANK_BITS": 2, "WAIT": 0}, 25),
    ("rmw_proof", RMW, {"ADDR_BITS": 6, "DATA_BITS": 1, "BANK_BITS": 0, "WAIT": 2}, 31),
    ("list_proof", ["hot_fifo.sv"], {"ADDR_BITS": 2}, 20),
    ("axi_proof", ["axi_lite.sv"], {}, 14),
]
FAULTS = {
    "rmw_ram.sv": [
        ("no forward from one cycle ahead", "assign old = same2 ? last_write : merged;", "assign old = merged;"),
        ("no forward from two cycles ahead", "merge |= {DATA_BITS{newest[2]}} & last_write;", ""),
        ("no forward from further ahead", "for (int d = 3; d <= LAST; d++) merge |=", "for (int d = 3; d < LAST; d++) merge |="),
        ("the artifact's forward of the wrong entry", "& written[d-1];", "& written[d > 3 ? d - 2 : 2];"),
    ],
    "hot_fifo.sv": [
        ("the queue takes one page too many", "last <= more[ADDR_BITS];", "last <= 1'b0;"),
        ("a pop removes two", "if (pop) head <= head + 1'b1;", "if (pop) head <= head + 2'd2;"),
        ("the page behind the oldest", "oldest <= pages[head];", "oldest <= pages[head + 1'b1];"),
    ],
    "axi_lite.sv": [
        ("a response does not wait", "if (bvalid && bready) bvalid <= 1'b0;", "if (bvalid) bvalid <= 1'b0;"),
        ("a response replaces one that waits", "assign can_read  = ar_held && !rvalid;", "assign can_read  = ar_held;"),
        ("a write before its data", "assign start_write = aw_held && w_held && !bvalid;", "assign start_write = aw_held && !bvalid;"),
        ("part of a word is written", "aw_addr[2:0] == 0 && &w_strb", "aw_addr[2:0] == 0 && w_strb != 0"),
        ("an address inside a word is read", ": ar_addr[2:0] == 0;", ": 1'b1;"),
        ("a request while another is in progress", "assign start = !busy && (start_write || can_read);", "assign start = start_write || can_read;"),
    ],
}

def holds(proof, sources, parameters, bound, fault=None):
    """Whether no sequence of `bound` cycles violates the claim, and the time. Runs in its own process, as Yosys logs to file descriptors."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        files = []
        for source in [HARDWARE / "rtl" / name for name in sources] + [HARDWARE / "formal" / f"{proof}.sv"]:
            text = source.read_text()
            if fault and source.name in FAULTS:
                assert text.count(fault[1]) == 1, fault[0]
                text = text.replace(fault[1], fault[2])
            files.append(folder / source.name)
            files[-1].write_text(text)
        settings = " ".join(f"-set {name} {value}" for name, value in parameters.items())
        chparam = [f"chparam {settings} {proof}"] if settings else []
        commands = [
            f"read_verilog -sv -formal {' '.join(map(str, files))}",
            *chparam,
            f"prep -top {proof} -flatten",
            "memory_map",
            "opt -full",
            "chformal -lower",
            "opt_clean",
            f"sat -tempinduct -tempinduct-baseonly -maxsteps {bound} -set-assumes -prove-asserts",
        ]
        script = "import sys; from pyosys import libyosys as ys; d = ys.Design(); [ys.run_pass(c, d) for c in sys.argv[1:]]"
        log = subprocess.run([sys.executable, "-c", script, *commands], capture_output=True, text=True).stdout
        if f"proved base case for {bound} steps: SUCCESS!" in log:
            return True, time.monotonic() - begun
        if "SAT temporal induction proof finished - model found for base case: FAIL!" in log:
            return False, time.monotonic() - begun
        raise RuntimeError(f"{proof}: neither proof nor counterexample in the output of Yosys\n{log[-2000:]}")


def main():
    good = True
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        def begin(claim):
            proof, sources, parameters, bound = claim
            faults = [] if "--quick" in sys.argv else next(of for source, of in FAULTS.items() if source in sources)
            return [pool.submit(holds, proof, sources, parameters, bound, fault) for fault in [None, *faults]]

        for (proof, _, parameters, bound), runs in [(claim, begin(claim)) for claim in CLAIMS]:
            (held, seconds), *others = [run.result() for run in runs]
            refuted = sum(not other for other, _ in others)
            good &= held and refuted == len(others)
            seconds += sum(more for _, more in others)
            print(json.dumps({"proof": proof, **parameters, "bound_cycles": bound, "holds": held, "faults": len(others),
                              "faults_refuted": refuted, "seconds": round(seconds, 1)}), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
