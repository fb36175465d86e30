"""What did SDF3 and Kiter print? The rows of `expected.csv`, which is kept beside the repository
and not in it.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache

from csdfgen.dataflow.graph import CsdfGraph
from sdf3_bridge.sdf3read import read
from tests.graphs import SDF3_DATA

__all__ = ["Row", "graph_of", "rows"]


@dataclass(frozen=True, slots=True)
class Row:
    """One recorded value; tool `reference` is no tool, but what was computed for this collection."""

    graph: str
    tool: str
    command: str
    metric: str
    value: str
    seconds: str
    exit_code: str

    @property
    def name(self) -> str:
        """The graph without folder and suffix."""
        return self.graph.rpartition("/")[2].removesuffix(".xml")

    @property
    def algorithm(self) -> str:
        """What the tool was asked for."""
        return self.command.rpartition(" ")[2]

    @property
    def entries(self) -> dict[str, str]:
        """A value "A=1;B=2" by names; names may hold "="."""
        return {
            name: number
            for name, _, number in (item.rpartition("=") for item in self.value.split(";"))
        }


@cache
def rows() -> tuple[Row, ...]:
    """All rows about graphs that are not wrong on purpose, in their order."""
    with (SDF3_DATA / "expected.csv").open(newline="") as file:
        found = [
            Row(
                row["graph"],
                row["tool"],
                row["command"],
                row["metric"],
                row["value"],
                row["seconds"],
                row["exit_code"],
            )
            for row in csv.DictReader(file)
        ]
    return tuple(row for row in found if "/bad/" not in row.graph)


@cache
def graph_of(path: str) -> CsdfGraph:
    """A graph of the collection."""
    return read(SDF3_DATA / path)
