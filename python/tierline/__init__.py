# SPDX-License-Identifier: Apache-2.0
"""Tierline's model of tiered memory: run policies, compare them, recompute published figures, tune knobs.

Tables are dictionaries of columns of equal length, as `pyarrow.table` and `pandas.DataFrame` accept them. Figures are in base units:
bytes, seconds, operations per second; otherwise the name states the unit.

    >>> import tierline
    >>> gups = tierline.Scenario("arms-optane", "gups:hot=8GiB", ratio=(1, 8))
    >>> tierline.simulate(gups.under("hemem", {"hot_reads": 4})).throughput
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from . import _tierline
from ._tierline import Scenario, policies
from .tuning import Tuning, tune

__all__ = ["Knob", "Result", "Scenario", "Table", "Tuning", "compare", "knobs", "policies", "reproduce", "simulate", "simulate_all", "tune"]

Table: TypeAlias = dict[str, list[Any]]


@dataclass(frozen=True)
class Knob:
    """An adjustable number of a policy."""

    name: str
    about: str
    unit: str
    form: str
    """`real`, `whole` or `switch` (0 or 1)."""
    least: float
    most: float
    default: float


def knobs(policy: str) -> list[Knob]:
    """The knobs of a policy, in order of declaration."""
    return [Knob(*knob) for knob in _tierline.knobs(policy)]


@dataclass(frozen=True)
class Result:
    """The result of a scenario."""

    report: dict[str, Any]
    """The report, as printed by `tierline sim --json`."""

    @property
    def throughput(self) -> float:
        """Operations per second of the first program over the whole run, including the time until pages are placed."""
        return float(self.report["overall"]["programs"][0]["throughput_per_second"])

    @property
    def fingerprint(self) -> str:
        """Hash of all events: the same seed and code give the same fingerprint."""
        return str(self.report["fingerprint"])

    def series(self) -> Table:
        """One row per interval. Columns are named after programs and tiers, as in `dram.latency_ns`."""
        return _columns(_flat(row) for row in self.report["series"])


def simulate(scenario: Scenario) -> Result:
    """Runs a scenario. Other threads of Python continue meanwhile."""
    return simulate_all([scenario])[0]


def simulate_all(scenarios: Sequence[Scenario], *, threads: int | None = None) -> list[Result]:
    """Runs scenarios on all cores, or on this many threads. The results do not depend on the number of threads."""
    return [Result(json.loads(report)) for report in _tierline.run(list(scenarios), threads)]


def compare(
    policies: Iterable[str],
    *,
    machines: Iterable[str] = (),
    workloads: Iterable[str] = ("gups",),
    ratios: Iterable[tuple[int, int]] = (),
    seconds: float | None = None,
    seed: int | None = None,
    threads: int | None = None,
) -> Table:
    """Runs every policy with every workload on every machine: the rows of `tierline compare`. No machine: the default one, or the scenario file's."""
    text = _tierline.compare_cells(list(policies), list(machines), list(workloads), list(ratios), seconds, seed, threads)
    return _columns(json.loads(text))


def reproduce(*ids: str, long: bool = False, threads: int | None = None) -> Table:
    """Published figures and ours: the rows of these ids (`C-F7*` matches a prefix), or all rows. `published`, `ours` and `kinds` are lists."""
    return _columns(json.loads(_tierline.rows(list(ids), long, threads)))


def _columns(rows: Iterable[dict[str, Any]]) -> Table:
    rows = list(rows)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Flattens one row of a report: numbers only; those of programs and tiers get their names as prefix."""
    flat = {name: value for name, value in row.items() if not isinstance(value, list)}
    for part in [*row["programs"], *row["tiers"]]:
        for name, value in part.items():
            if name == "shares":
                tiers = (tier["name"] for tier in row["tiers"])
                flat |= {f"{part['name']}.share.{tier}": share for tier, share in zip(tiers, value, strict=False)}
            elif isinstance(value, int | float) or value is None:
                flat[f"{part['name']}.{name}"] = value
    return flat
