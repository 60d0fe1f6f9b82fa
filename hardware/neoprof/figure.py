# SPDX-License-Identifier: Apache-2.0
"""Converts the JSON lines of `neoprof-bench --undercount` to an SVG: bars by distance."""

import json
import sys

LEFT, BASE, STEP, HEIGHT = 70, 270, 70, 220
COLOURS = {"naive": "#c0504d", "ours": "#4f81bd"}

rows = [json.loads(line) for line in sys.stdin]
most = max(row["accesses"] for row in rows)
theta = rows[0]["theta"]
out = ['<svg xmlns="http://www.w3.org/2000/svg" width="680" height="330" font-family="sans-serif" font-size="12">',
       "<!-- SPDX-License-Identifier: Apache-2.0 -->",
       '<rect width="680" height="330" fill="white"/>',
       f'<text x="{LEFT}" y="22" font-size="14">Accesses to one page until it is reported, threshold {theta}</text>']
for value in range(0, most + 100, 100):
    y = BASE - HEIGHT * value / most
    out.append(f'<line x1="{LEFT - 5}" x2="640" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
    out.append(f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{value}</text>')
for row in rows:
    x = LEFT + 8 + STEP * (row["distance"] - 1) + (27 if row["pipeline"] == "ours" else 0)
    height = HEIGHT * row["accesses"] / most
    colour = COLOURS[row["pipeline"]]
    out.append(f'<rect x="{x}" y="{BASE - height:.1f}" width="25" height="{height:.1f}" fill="{colour}"/>')
    out.append(f'<text x="{x + 12}" y="{BASE - height - 4:.1f}" text-anchor="middle" font-size="10">{row["accesses"]}</text>')
    if row["pipeline"] == "ours":
        out.append(f'<text x="{x - 2}" y="{BASE + 18}" text-anchor="middle">{row["distance"]}</text>')
out.append(f'<text x="355" y="{BASE + 38}" text-anchor="middle">cycles from one access to the next</text>')
for i, (name, text) in enumerate([("naive", "read, add, write back, without forwarding"), ("ours", "ours")]):
    out.append(f'<rect x="380" y="{38 + 18 * i}" width="12" height="12" fill="{COLOURS[name]}"/>')
    out.append(f'<text x="398" y="{48 + 18 * i}">{text}</text>')
print("\n".join(out + ["</svg>"]))
