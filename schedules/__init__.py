"""Orders of firings and capacities of CSDF graphs: their search, their check, and their files.

schedule = SCHEDULERS["demand"](graph, 1)
check(graph, schedule)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from csdfgen.dataflow.graph import CsdfGraph
from schedules.check import check
from schedules.demand import bounded, demand_driven, eager, layers
from schedules.schedule import Firing, Schedule

__all__ = [
    "SCHEDULERS",
    "Firing",
    "Schedule",
    "bounded",
    "check",
    "demand_driven",
    "eager",
    "layers",
]

SCHEDULERS: Mapping[str, Callable[[CsdfGraph, int], Schedule]] = MappingProxyType(
    {"demand": demand_driven, "eager": eager, "layers": layers, "bounded": bounded}
)
"""Policy -> function that returns the schedule of a graph for a number of iterations."""
