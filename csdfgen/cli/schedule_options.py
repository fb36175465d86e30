"""What does `schedule` take beside a model's options?"""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from csdfgen.cli.capacities import CAPACITIES

__all__ = ["CapacitiesOption", "PeriodicOption", "Policy", "PolicyOption"]


class Policy(str, enum.Enum):
    """Which firing comes next: `schedules.static.POLICIES`."""

    demand = "demand"
    eager = "eager"
    layers = "layers"
    bounded = "bounded"
    self_timed = "self-timed"


PolicyOption = Annotated[
    Policy | None,
    typer.Option(
        "--policy",
        help="demand: as late as its reader allows; eager: as deep as possible; layers: one layer after another; bounded: as far "
        "ahead as the room that demand takes allows; self-timed (of graphs): as all actors would start at once. "
        "\\[default: demand; of a model the order of least memory that is found]",
        show_default=False,
    ),
]
PeriodicOption = Annotated[
    bool,
    typer.Option(
        "--periodic",
        help="Of a graph: start times that repeat with the shortest period, instead of an order.",
    ),
]
CapacitiesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--capacities",
        metavar=CAPACITIES,
        help="Of a graph: tokens that channels may hold, by channel, of a schedule (.json), or buffer sizes of a graph (.xml); "
        "repeatable.",
    ),
]
