#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Estimates NeoProf's clock rate on UltraScale+ from the netlist of Yosys: the slowest path between two registers.

hardware/neoprof/timing [--quick] [--before COMMIT]   Markdown; --quick: W = 4096 only; --before: also the sources of a commit
"""

import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
from collections import defaultdict

import synth

# Delays in ns. Ours, in the order of what routers report for speed grade -2: nothing here is a data sheet's number. A net costs 0.25 ns
# plus 0.05 ns for every doubling of its fan-out, at most 0.75 ns; a net from a LUT to the carry chain beside it nothing.
CLOCK_TO_Q = {"FD": 0.08, "RAMB": 1.05, "RAM": 0.60, "SRL": 0.60}
SETUP = {"FD": 0.05, "RAMB": 0.40, "RAM": 0.25, "SRL": 0.15}
LUT, CARRY_IN, CARRY_STEP, CARRY_OUT, MUXF = 0.10, 0.20, 0.03, 0.10, 0.12
SHAPES = [(12, 2), (19, 2)]


def net_delay(fanout):
    return min(0.75, 0.25 + 0.05 * math.log2(max(1, fanout)))


def kind(cell):
    for prefix in ("FD", "RAMB", "SRL", "RAM"):
        if cell.startswith(prefix):
            return prefix
    return None


def slowest(netlist):
    """The slowest path of a netlist: its delay, its LUT levels, and the names of its ends."""
    module = netlist["modules"]["top"]
    names = defaultdict(list)
    for name, net in module["netnames"].items():
        for bit in net["bits"]:
            names[bit].append(name)

    def name(bit):
        return min(names.get(bit, ["?"]), key=lambda n: (n.startswith("$") or "$" in n, len(n)))

    driver, sinks = {}, defaultdict(list)
    for label, cell in module["cells"].items():
        for port, bits in cell["connections"].items():
            for bit in bits:
                if isinstance(bit, str):
                    continue
                if cell["port_directions"][port] == "output":
                    driver[bit] = (label, port)
                else:
                    sinks[bit].append((label, port))

    arrival = {}  # of a net at its driver's pin: (ns, levels, path)
    state = {}

    def at(bit, sink):
        """Arrival at an input."""
        if isinstance(bit, str) or bit not in driver:
            return (0.0, 0, ())
        ns, levels, path = out(bit)
        cell = module["cells"][driver[bit][0]]["type"]
        near = (cell.startswith("LUT") and sink.startswith(("CARRY", "MUXF")) and len(sinks[bit]) == 1) or (
            cell.startswith("CARRY") and sink.startswith("CARRY")) or (cell.startswith("MUXF") and sink.startswith("MUXF"))
        return (ns + (0.0 if near else net_delay(len(sinks[bit]))), levels, path)

    def out(bit):
        if bit in arrival:
            return arrival[bit]
        label, port = driver[bit]
        cell = module["cells"][label]
        what = cell["type"]
        assert state.setdefault(bit, 0) == 0, f"a loop through {name(bit)}"
        state[bit] = 1
        if kind(what):
            result = (CLOCK_TO_Q[kind(what)], 0, (name(bit),))
            if kind(what) in ("RAM", "SRL"):  # the address is read without a clock
                for pin, bits in cell["connections"].items():
                    if re.match(r"(ADDR|A\d|DPRA|RADR|A$)", pin) and cell["port_directions"][pin] == "input":
                        for b in bits:
                            ns, levels, path = at(b, what)
                            result = max(result, (ns + LUT + MUXF, levels + 1, path + (name(bit),)))
        elif what.startswith("LUT") or what == "INV":
            ns, levels, path = max(at(b, what) for pin, bits in cell["connections"].items() if pin != "O" for b in bits)
            result = (ns + LUT, levels + 1, path + (name(bit),))
        elif what.startswith("CARRY"):
            result = (0.0, 0, ())
            for pin, bits in cell["connections"].items():
                if cell["port_directions"][pin] == "input":
                    for b in bits:
                        ns, levels, path = at(b, what)
                        step = CARRY_STEP if pin == "CI" else CARRY_IN
                        result = max(result, (ns + step + (CARRY_OUT if port == "O" else 0.0), levels, path + (name(bit),)))
        elif what.startswith("MUXF"):
            ns, levels, path = max(at(b, what) for pin, bits in cell["connections"].items() if pin != "O" for b in bits)
            result = (ns + MUXF, levels, path + (name(bit),))
        elif what.startswith(("BUFG", "IBUF", "OBUF")):
            result = max(at(b, what) for pin, bits in cell["connections"].items() if pin != "O" for b in bits)
        else:
            raise SystemExit(f"Error: no delay for a cell of type {what}")
        arrival[bit] = result
        return result

    sys.setrecursionlimit(100000)
    ends = []
    for label, cell in module["cells"].items():
        what = cell["type"]
        if not kind(what):
            continue
        for pin, bits in cell["connections"].items():
            if cell["port_directions"][pin] == "output" or re.match(r"(C|CLK|WCLK|CLKARDCLK|CLKBWRCLK)$", pin):
                continue
            if kind(what) in ("RAM", "SRL") and re.match(r"(ADDR[A-G]|DPRA|A\d|A$)", pin) and not re.match(r"ADDR[DH]", pin):
                continue
            for b in bits:
                ns, levels, path = at(b, what)
                if path:
                    target = [q for p, q in cell["connections"].items() if cell["port_directions"][p] == "output"]
                    target = name(next((b for bits in target for b in bits if not isinstance(b, str)), None))
                    ends.append((ns + SETUP[kind(what)], levels, path, f"{target}.{pin}"))
    return sorted(ends, reverse=True)


def report(title, rtl, shapes):
    """Rows of the table, and the slowest paths of the first shape."""
    paths = []
    for width, depth in shapes:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "netlist.json"
            cells = synth.synthesise("synth_xilinx -family xcup -noiopad", width, depth, rtl, path)
            ends = slowest(json.loads(path.read_text()))
        luts, flops, blocks = (sum(n for c, n in cells.items() if re.fullmatch(p, c)) for p in (r"LUT[1-6]", r"FD[RSCP]E.*", r"RAMB(18|36)E2"))
        small = sum(n for c, n in cells.items() if re.match(r"RAM\d|SRL", c))
        print(f"| {title} | {1 << width} | {depth} | {ends[0][0]:.2f} ns | {1000 / ends[0][0]:.0f} MHz | {max(e[1] for e in ends)} "
              f"| {luts} | {flops} | {blocks} | {small} |", flush=True)
        if not paths:
            seen = set()
            for ns, levels, path, end in ends:
                stem = re.sub(r"\d+", "#", path[0] + end)
                if stem not in seen and len(seen) < 8:
                    seen.add(stem)
                    paths.append(f"| {title} | {ns:.2f} ns | {levels} | `{path[0]}` | `{end}` |")
    return paths


def main():
    shapes = SHAPES[:1] if "--quick" in sys.argv else SHAPES
    print("# NeoProf: estimated clock rate and area\n\n<!-- Written by hardware/neoprof/timing; do not edit. -->\n")
    print("Yosys 0.70, `synth_xilinx -family xcup`, 8 banks, 16 K hot pages, a hotlist of 1024, counters of 16 bits. The slowest path "
          "between two\nregisters of one clock, by a delay model: LUT "
          f"{LUT} ns; carry chain {CARRY_IN} ns and {CARRY_STEP} ns for four bits; net 0.25 ns plus 0.05 ns for every doubling of\nits "
          f"fan-out, at most 0.75 ns; clock to output: register {CLOCK_TO_Q['FD']} ns, block memory {CLOCK_TO_Q['RAMB']} ns, distributed "
          f"memory {CLOCK_TO_Q['RAM']} ns; set-up {SETUP['FD']},\n{SETUP['RAMB']} and {SETUP['RAM']} ns. The delays are ours, of the order of "
          "speed grade -2. **An estimate before placement and routing: no device ran at this\nclock.** Inputs and outputs of the module are "
          "not included.\n")
    print("| design | W | D | slowest path | clock | LUT levels, at most | LUTs | flip-flops | block memories | small memories |\n"
          "|---|---|---|---|---|---|---|---|---|---|")
    paths = []
    if "--before" in sys.argv:
        commit = sys.argv[sys.argv.index("--before") + 1]
        with tempfile.TemporaryDirectory() as folder:
            archive = subprocess.run(["git", "archive", commit, "rtl"], cwd=synth.HARDWARE, capture_output=True, check=True).stdout
            subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
            paths += report(f"before ({commit})", pathlib.Path(folder) / "rtl", shapes)
    paths += report("this", synth.HARDWARE / "rtl", shapes)
    print(f"\nSlowest paths at W = {1 << shapes[0][0]}, one for each pair of registers:\n\n| design | delay | LUT levels | from | to |\n|---|---|---|---|---|")
    print("\n".join(paths))


if __name__ == "__main__":
    main()
