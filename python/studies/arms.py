# SPDX-License-Identifier: Apache-2.0
"""ARMS' tuning study (section 3): HeMem's nine knobs tuned for each program of the rows `A-`.

    target/python/venv/bin/python python/studies/arms.py --trials 30

writes the results to crates/tierline-model/src/reproduce/arms/tuned.toml, from which `tierline reproduce A-F3` and others are computed.
Trials are kept in target/python/arms; an interrupted study resumes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tierline import Scenario, Tuning, tune

PROGRAMS = ("gups", "silo-tpcc", "silo-ycsb", "xs-bench", "graph", "small-graph", "btree")
ROOT = Path(__file__).resolve().parents[2]
FOUND = ROOT / "crates/tierline-model/src/reproduce/arms/tuned.toml"


def main() -> None:
    """Runs the study."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--out", type=Path, default=ROOT / "target/python/arms")
    asked = parser.parse_args()
    found = {}
    for program in PROGRAMS:
        scenario = Scenario.arms(program)
        found[program] = tune(scenario, "hemem", trials=asked.trials, out=asked.out / program)
        print(row(program, found[program]), flush=True)
    FOUND.write_text(written(found), encoding="utf-8")


def row(program: str, tuning: Tuning) -> str:
    """One line of output for a program."""
    knobs = ", ".join(f"{name}={value:.4g}" for name, value in tuning["best"]["knobs"].items())
    first = ", ".join(f"{name} {share:.2f}" for name, share in list(tuning["importance"].items())[:3])
    at, cpu = tuning["best"]["trial"], tuning["cpu_seconds"]
    return f"{program}: {tuning['gain']:.3f} of default in trial {at} of {tuning['trials']}, {cpu:.0f} s of CPU; {knobs}; most important: {first}"


def written(found: dict[str, Tuning]) -> str:
    """The settings in the format of tuned.toml."""
    some = next(iter(found.values()))
    minutes = sum(tuning["cpu_seconds"] for tuning in found.values()) / 60
    text = (
        "# SPDX-License-Identifier: Apache-2.0\n"
        "# HeMem's best settings by program, in base units: written by python/studies/arms.py.\n"
        f"# {some['engine']}, seed {some['seed']}, {minutes:.0f} CPU minutes.\n"
    )
    for program, tuning in found.items():
        text += f"\n# {tuning['gain']:.3f} of default, the best of {tuning['trials']} trials\n[{program}]\n"
        text += "".join(f"{name} = {value!r}\n" for name, value in tuning["best"]["knobs"].items())
    return text


if __name__ == "__main__":
    main()
