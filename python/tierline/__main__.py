# SPDX-License-Identifier: Apache-2.0
"""`python -m tierline`, the backend of `tierline tune`. Prints the result as JSON on stdout and progress on stderr."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

from . import Scenario, Tuning, tune


def main() -> int:
    """Runs tuning with the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tierline")
    parser.add_argument("--policy", required=True)
    parser.add_argument("--machine")
    parser.add_argument("--workload", required=True)
    parser.add_argument("--ratio", type=_ratio)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()

    interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        interrupted = True
        # A second interrupt terminates at once.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    signal.signal(signal.SIGINT, interrupt)
    try:
        scenario = Scenario(asked.machine, asked.workload, ratio=asked.ratio, seconds=asked.seconds, seed=asked.seed)
        found = tune(
            scenario,
            asked.policy,
            trials=asked.trials,
            out=asked.out,
            seed=asked.seed,
            threads=asked.threads,
            progress=lambda now: _print_progress(now, asked.trials),
            stop=lambda: interrupted,
        )
    except (ValueError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    text = json.dumps(found, indent=2)
    if asked.out:
        Path(asked.out, "tuning.json").write_text(text + "\n", encoding="utf-8")
    print(text)
    return 0


def _print_progress(now: Tuning, trials: int) -> None:
    line = f"tierline: {now['trials']} of {trials} trials, best {now['gain']:.3f} of default, {now['cpu_seconds']:.0f} s of CPU"
    if sys.stderr.isatty():
        print(f"\r{line}", end="\n" if now["trials"] >= trials else "", file=sys.stderr, flush=True)
    elif now["trials"] >= trials or now["trials"] % max(trials // 10, 1) < 2:
        print(line, file=sys.stderr, flush=True)


def _ratio(text: str) -> tuple[int, int]:
    fast, slow = text.split(":")
    return int(fast), int(slow)


if __name__ == "__main__":
    sys.exit(main())
