"""Which form can a graph be written in? The options of `convert` that change no result, with their
values.
"""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from csdfgen.cli.capacities import CAPACITIES

__all__ = [
    "CapacitiesAs",
    "CapacitiesAsOption",
    "CapacitiesOption",
    "GcdOption",
    "OverlapOption",
    "SerialOption",
]

_FORM = "Form of the graph"
"""Heading in the help."""


class CapacitiesAs(str, enum.Enum):
    """How capacities are written."""

    channels = "channels"
    sizes = "sizes"


SerialOption = Annotated[
    bool | None,
    typer.Option(
        "--serial/--no-serial",
        rich_help_panel=_FORM,
        help="A one-token self-loop on every actor, or none: without, an actor may overlap with itself. \\[default: one on "
        "every actor in .xml, and of a model in .json, else as they are]",
        show_default=False,
    ),
]
OverlapOption = Annotated[
    bool,
    typer.Option(
        "--overlap/--no-overlap",
        rich_help_panel=_FORM,
        help="With or without self-loops for the rows that a layer keeps between phases; buffersize of SDF3 wants none.",
    ),
]
GcdOption = Annotated[
    bool,
    typer.Option(
        "--gcd",
        rich_help_panel=_FORM,
        help="Divide a channel's rates and initial tokens by their gcd: larger tokens.",
    ),
]
CapacitiesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--capacities",
        metavar=CAPACITIES,
        rich_help_panel=_FORM,
        help="Room of channels in tokens: by channel, of a schedule (.json), or the buffer sizes of a graph (.xml); repeatable.",
    ),
]
CapacitiesAsOption = Annotated[
    CapacitiesAs | None,
    typer.Option(
        "--capacities-as",
        rich_help_panel=_FORM,
        help="channels: a channel back with the free places, which every tool obeys; sizes: bufferSize, which SDF3 and Kiter "
        "only store. \\[default: channels, in .dot sizes]",
        show_default=False,
    ),
]
