"""How many memories, how many images at a time? Options of `schedule`, `run` and `report`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["ItemsOption", "MemoriesGroup", "OffsetsOption"]

_PANEL = "Memories and frames"
"""Heading in the help."""

FastOption = Annotated[
    str | None,
    typer.Option(
        "--fast",
        metavar="SIZE",
        rich_help_panel=_PANEL,
        help="With --slow: a small fast memory, which holds the rows that are moved most; 256KiB.",
    ),
]
SlowOption = Annotated[
    str | None,
    typer.Option(
        "--slow",
        metavar="SIZE",
        rich_help_panel=_PANEL,
        help="With --fast: the large slow memory, which holds the others; 8MiB.",
    ),
]
FramesOption = Annotated[
    int | None,
    typer.Option(
        "--frames",
        metavar="N",
        min=1,
        max=1_000_000,
        rich_help_panel=_PANEL,
        help="Plan N images in one order, the next of which enters before the last has left; a batch of 1 becomes one of N. "
        "\\[default: 1]",
        show_default=False,
    ),
]
ItemsOption = Annotated[
    Path | None,
    typer.Option(
        "--items",
        metavar="FILE.csv",
        rich_help_panel=_PANEL,
        help="Write what is to be placed (rows and scratch, with lifetimes and bytes) as minimalloc's CSV, for any packer.",
    ),
]
OffsetsOption = Annotated[
    Path | None,
    typer.Option(
        "--offsets",
        metavar="FILE.csv",
        rich_help_panel=_PANEL,
        help="Place rows and scratch as a packer's solution of --items has it; everything else given as for --items.",
    ),
]


@dataclass(frozen=True, slots=True)
class MemoriesGroup:
    """These options as typed; `--items` and `--offsets` are of `schedule` alone."""

    fast: FastOption = None
    slow: SlowOption = None
    frames: FramesOption = None

    def read(self) -> Mapping[str, Any]:
        """What was given, by the name in `PlanOptions`. Raises InputError for a value that is none."""
        from csdfgen.model.options import PlanOptions
        from csdfgen.model.units import size_of

        found: dict[str, Any] = {}
        for name, text in (("fast", self.fast), ("slow", self.slow)):
            if text is not None:
                found[name] = size_of(text, name)
        if self.frames is not None:
            found["frames"] = self.frames
        PlanOptions(**found)
        return found
