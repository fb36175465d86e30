"""How is a periodic schedule stored in a file?

{"format": "csdfgen-starts", "version": 1, "graph": "cnn5", "period": "73/3", "throughput": "3/73", "unit": "1/3",
 "capacities": {"e12": 17},
 "starts": {"n1": [0, 12, 24], "n2": [36]}}

Firing n of iteration k of an actor starts at starts[actor][n] * unit + k * period. The capacities are the most tokens
that each channel holds, claimed space included (docs/model.md).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from math import lcm
from typing import Any

from csdfgen.dataflow import origin
from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.files import write_json
from schedules.periodic import PeriodicSchedule

FORMAT = "csdfgen-starts"
VERSION = 1


def time_unit(schedule: PeriodicSchedule) -> Fraction:
    """The largest fraction 1/n of a time unit that divides the period and all starts."""
    return Fraction(
        1,
        lcm(
            schedule.period.denominator,
            *(t.denominator for row in schedule.starts.values() for t in row),
        ),
    )


def schedule_span(graph: CsdfGraph, schedule: PeriodicSchedule) -> Fraction:
    """Time from the first start of an iteration to its last end."""
    times = {actor.name: actor.execution_times for actor in graph.actors}
    ends = (
        start + times[name][n % len(times[name])]
        for name, row in schedule.starts.items()
        for n, start in enumerate(row)
    )
    return max(ends) - min(start for row in schedule.starts.values() for start in row)


def to_json(
    graph: CsdfGraph, schedule: PeriodicSchedule, capacities: Mapping[str, int]
) -> dict[str, Any]:
    """A periodic schedule of a graph and the capacities of its channels, as JSON values."""
    unit = time_unit(schedule)
    return {
        "format": FORMAT,
        "version": VERSION,
        "graph": schedule.graph_name,
        "period": str(schedule.period),
        "throughput": str(1 / schedule.period),
        "unit": str(unit),
        **({"origin": origin.to_json(graph.origin)} if graph.origin is not None else {}),
        "capacities": dict(capacities),
        "starts": {
            name: [int(start / unit) for start in row] for name, row in schedule.starts.items()
        },
    }


def write_starts(
    path: str | os.PathLike[str],
    graph: CsdfGraph,
    schedule: PeriodicSchedule,
    capacities: Mapping[str, int],
) -> None:
    """Write a periodic schedule; equal schedules give equal bytes. Raises InputError."""
    write_json(path, to_json(graph, schedule, capacities))
