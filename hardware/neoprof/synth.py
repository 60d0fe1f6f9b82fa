#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""LUTs, flip-flops and memories of NeoProf after synthesis by Yosys, by width and depth. No placement, no timing.

hardware/neoprof/synth [--quick | FAMILY]   a Markdown table; --quick: the narrowest width only
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

HARDWARE = pathlib.Path(__file__).resolve().parent
SWEEP = [(12, 1), (12, 2), (12, 4), (15, 2), (19, 2)]
FAMILIES = [
    # name, command, cells counted as logic, flip-flops, memories
    ("UltraScale+", "synth_xilinx -family xcup -noiopad", r"LUT[1-6]", r"FD[RSCP]E.*", r"RAMB(18|36)E2|URAM288"),
    ("Intel (Cyclone V)", "synth_intel_alm -family cyclonev -noiopad", r"MISTRAL_ALUT.*", r"MISTRAL_FF", r"MISTRAL_M10K"),
]


def synthesise(command, width, depth, rtl=HARDWARE / "rtl", netlist=None):
    """Cells by type; writes the netlist to a file. A wrapper module sets the parameters, as Yosys would lose overridden ones."""
    sources = ["regs.sv"] + sorted(p.name for p in rtl.glob("*.sv") if p.name != "regs.sv")
    ports = (rtl / "neoprof.sv").read_text()
    ports = re.sub(r"//.*", "", re.search(r"\n\) \(\n(.*?)\n\);", ports, re.S).group(1))
    names = re.findall(r"(\w+)(?=,|\s*$)", ports, re.M)
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder) / "top.sv"
        top.write_text(
            f"module top ({ports});\n  neoprof #(.WIDTH_BITS({width}), .DEPTH({depth})) it ("
            + ", ".join(f".{name}({name})" for name in dict.fromkeys(names)) + ");\nendmodule\n")
        stat = pathlib.Path(folder) / "stat.json"
        commands = [
            f"read_verilog -sv {' '.join(str(rtl / s) for s in sources)} {top}",
            f"{command} -top top -flatten" if "xilinx" in command else f"{command} -top top",
            f"tee -q -o {stat} stat -json",
        ] + ([f"write_json {netlist}"] if netlist else [])
        script = "import sys; from pyosys import libyosys as ys; d = ys.Design(); [ys.run_pass(c, d) for c in sys.argv[1:]]"
        done = subprocess.run([sys.executable, "-c", script, *commands], capture_output=True, text=True)
        if not stat.exists():
            sys.exit(f"Error: Yosys fails\n{done.stdout[-1500:]}{done.stderr[-500:]}")
        return json.loads(stat.read_text())["design"]["num_cells_by_type"]


def main():
    sweep = SWEEP[:1] if "--quick" in sys.argv else SWEEP
    print("| family | W | D | LUTs | flip-flops | block memories | distributed memory |\n|---|---|---|---|---|---|---|")
    for name, command, *kinds in FAMILIES:
        if len(sys.argv) > 1 and sys.argv[1] not in ("--quick", name):
            continue
        for width, depth in sweep:
            cells = synthesise(command, width, depth)
            counts = [sum(n for cell, n in cells.items() if re.fullmatch(kind, cell)) for kind in kinds]
            blocks = ", ".join(f"{n} {cell}" for cell, n in sorted(cells.items()) if re.fullmatch(kinds[2], cell))
            small = ", ".join(f"{n} {cell}" for cell, n in sorted(cells.items()) if re.match(r"RAM\d|MISTRAL_MLAB", cell))
            print(f"| {name} | {1 << width} | {depth} | {counts[0]} | {counts[1]} | {blocks or '–'} | {small or '–'} |", flush=True)


if __name__ == "__main__":
    main()
