# SPDX-License-Identifier: Apache-2.0
"""Converts the JSON lines of `neoprof-bench --waveform` to an SVG: the ports during a copy of the histogram."""

import json
import sys

NAMES = {0x800: "SET_HIST_EN", 0x900: "GET_NR_HIST_BIN", 0xA00: "GET_HIST"}
LEFT, STEP, ROW = 130, 6, 46

rows = [json.loads(line) for line in sys.stdin]
width = LEFT + STEP * len(rows) + 20
out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="270" font-family="sans-serif" font-size="11">',
       "<!-- SPDX-License-Identifier: Apache-2.0 -->",
       f'<rect width="{width}" height="270" fill="white"/>',
       '<text x="10" y="20" font-size="14">The copy of the histogram: accesses wait, and 64 bins are announced when the copy is whole</text>']


def x(cycle):
    return LEFT + STEP * cycle


for cycle in range(0, len(rows), 10):
    out.append(f'<line x1="{x(cycle)}" x2="{x(cycle)}" y1="35" y2="240" stroke="#eee"/>')
    out.append(f'<text x="{x(cycle)}" y="256" text-anchor="middle" fill="#777">{cycle}</text>')
out.append('<text x="10" y="256" fill="#777">cycle</text>')
for number, signal in enumerate(["taken", "ready"]):
    base = 70 + ROW * number
    points = []
    for row in rows:
        y = base - (18 if row[signal] else 0)
        points += [f"{x(row['cycle'])},{y}", f"{x(row['cycle'] + 1)},{y}"]
    out.append(f'<text x="10" y="{base - 4}">{"access_taken" if signal == "taken" else "bus_ready"}</text>')
    out.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="#4f81bd"/>')
for number, (signal, label) in enumerate([("asked", "request"), ("answered", "answer")]):
    base = 70 + ROW * (2 + number)
    out.append(f'<text x="10" y="{base - 4}">{label}</text>')
    for row in rows:
        if row[signal]:
            text = NAMES[row[signal]] if signal == "asked" else ("done" if row[signal] == 0x800 else str(row["value"]))
            colour = "#c0504d" if signal == "asked" else "#4f81bd"
            out.append(f'<rect x="{x(row["cycle"])}" y="{base - 18}" width="{STEP}" height="18" fill="{colour}"/>')
            if signal == "answered":
                out.append(f'<text x="{x(row["cycle"]) + 3}" y="{base + 11}" text-anchor="middle" font-size="10">{text}</text>')
            elif row["cycle"] in (10, 20) or (row[signal] == 0xA00 and rows[row["cycle"] - 10]["asked"] != 0xA00):
                out.append(f'<text x="{x(row["cycle"])}" y="{base - 22}" font-size="10" text-anchor="{"end" if row["cycle"] == 10 else "start"}">{text}</text>')
print("\n".join(out + ["</svg>"]))
