# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import final

@final
class Scenario:
    """An immutable scenario."""

    def __new__(
        cls,
        machine: str | None,
        workload: str,
        *,
        policy: str = "tierline",
        ratio: tuple[int, int] | None = None,
        seconds: float | None = None,
        seed: int | None = None,
        max_rate: int | None = None,
    ) -> Scenario:
        """A cell of `tierline sim` and `compare`: a machine of the list or a machine file, a workload as on the command line or a scenario file;
        `ratio` of fast to slow memory, default the machine's own; `max_rate` of moves in bytes per second. Missing: the scenario file's, or 60 s,
        seed 1, 10 GiB/s."""

    @staticmethod
    def parse(text: str) -> Scenario:
        """Parses a scenario file, as `tierline sim` does. Recordings (`trace`) are not read."""

    @staticmethod
    def arms(program: str, *, policy: str = "arms") -> Scenario:
        """ARMS' configuration of a program, as in the rows `A-`: `gups`, `silo-tpcc`, `silo-ycsb`, `xs-bench`, `graph`, `small-graph`, `btree`."""

    def under(self, policy: str, knobs: Mapping[str, float] | None = None) -> Scenario:
        """The same scenario with another policy and the given knobs, in base units."""

def policies() -> list[str]:
    """Names of the model's policies, the default first."""

def knobs(policy: str) -> list[tuple[str, str, str, str, float, float, float]]: ...
def run(scenarios: list[Scenario], threads: int | None) -> list[str]: ...
def compare_cells(
    policies: list[str],
    machines: list[str],
    workloads: list[str],
    ratios: list[tuple[int, int]],
    seconds: float | None,
    seed: int | None,
    threads: int | None,
) -> str: ...
def rows(ids: list[str], long: bool, threads: int | None) -> str: ...
