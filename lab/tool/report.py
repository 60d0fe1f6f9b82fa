# SPDX-License-Identifier: Apache-2.0
"""Reports of runs, and documents made of them."""

import datetime
import json
import os
import shlex
import subprocess
from pathlib import Path

LAB = Path(__file__).resolve().parent.parent


def json_file(path):
    """The content of a JSON file; nothing if there is none."""
    return json.loads(path.read_text()) if path.exists() else None


def markdown(table):
    """A table whose first row is its heading."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (table[0], ["---"] * len(table[0]), *table[1:]))


def document(title, command, notes, *tables):
    """A Markdown document: the command that wrote it, commit, host and date, notes, and tables."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=LAB, capture_output=True, text=True).stdout.strip() or "unknown"
    kinds = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    host = f"{kinds[0] if kinds else 'an unknown processor'} with {len(os.sched_getaffinity(0))} cores"
    return "\n".join([f"# {title}", "", "Written by a command, not by hand:", "", "```", shlex.join(command), "```", "",
                      f"commit {commit}, on {host}, {datetime.date.today()}.", "", *notes, "", "\n\n".join(markdown(table) for table in tables), ""])
