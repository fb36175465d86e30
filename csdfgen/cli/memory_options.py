"""How many memories, how many images at a time? Options of `schedule`, `run` and `report`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["ItemsOption", "MemoriesGroup", "OffsetsOption", "Table"]

_PANEL = "Memories and frames"
"""Heading in the help."""

_MOST_IMAGES = 1_000_000


class Batching(str, enum.Enum):
    """`PlanOptions.batching`."""

    joint = "joint"
    vbs = "vbs"
    vbs_paper = "vbs-paper"
    greedy = "greedy"
    fbs = "fbs"


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
RequestsOption = Annotated[
    str | None,
    typer.Option(
        "--requests",
        metavar="R[,R...]",
        rich_help_panel=_PANEL,
        help="Plan R images that come together: which layers work on how many at once is chosen by --batching; --memory and "
        "--latency are those of all of them. Several numbers make a table of plans.",
    ),
]
BudgetsOption = Annotated[
    str | None,
    typer.Option(
        "--budgets",
        metavar="SIZE,SIZE...",
        rich_help_panel=_PANEL,
        help="With --requests: a table of plans, one for each number of images in each memory, of which a program takes "
        "what fits when it runs.",
    ),
]
BatchingOption = Annotated[
    Batching | None,
    typer.Option(
        "--batching",
        rich_help_panel=_PANEL,
        help="joint: images and slab heights together; vbs: a batch for each layer as in paper 000, corrected; vbs-paper: as "
        "printed; greedy: layer after layer; fbs: one batch for all. \\[default: joint, with --requests]",
        show_default=False,
    ),
]
BatchesOption = Annotated[
    str | None,
    typer.Option(
        "--batches",
        metavar="IMAGES",
        rich_help_panel=_PANEL,
        help="Of --frames images those that layers work on at once, whole: a number, all, or by name behind commas: "
        "1,fc6=all,conv5=6+2.",
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
class Table:
    """Numbers of images and budgets in bytes (none: any memory) of a table of plans."""

    requests: tuple[int, ...]
    budgets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MemoriesGroup:
    """These options as typed; `--items` and `--offsets` are of `schedule` alone."""

    fast: FastOption = None
    slow: SlowOption = None
    frames: FramesOption = None
    requests: RequestsOption = None
    budgets: BudgetsOption = None
    batching: BatchingOption = None
    batches: BatchesOption = None

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
        found |= self._several()
        PlanOptions(**found)
        return found

    def _several(self) -> Mapping[str, Any]:
        """What is said of requests and batches. Raises InputError for what contradicts itself."""
        from csdfgen.errors import InputError
        from csdfgen.phases.batches import parse_batches

        if self.requests is not None:
            for name, given in (("frames", self.frames), ("batches", self.batches)):
                if given is not None:
                    raise InputError(
                        f"--requests {self.requests} chooses what --{name} {given} gives; leave one of them out"
                    )
            way = Batching.joint if self.batching is None else self.batching
            return {"frames": max(self.counts()), "batching": way.value}
        if self.budgets is not None:
            raise InputError(
                f"--budgets {self.budgets} is of a table; say for how many images with --requests"
            )
        if self.batching is not None:
            raise InputError(
                f"--batching {self.batching.value} needs images to share out; say how many come together with --requests R"
            )
        if self.batches is None:
            return {}
        if self.frames is None:
            raise InputError(
                f"--batches {self.batches} is of several images; say how many with --frames N"
            )
        return {"batches": str(parse_batches(self.batches))}

    def counts(self) -> tuple[int, ...]:
        """Numbers of images of requests, in rising order. Raises InputError for what is none."""
        from csdfgen.errors import InputError

        parts = [part.strip() for part in (self.requests or "").split(",")]
        if not all(
            part.isascii() and part.isdigit() and 0 < int(part[:8]) <= _MOST_IMAGES
            for part in parts
        ):
            raise InputError(
                f"--requests {self.requests}: numbers of images from 1 to {_MOST_IMAGES:,} are needed, such as 16 or 1,4,16"
            )
        return tuple(sorted({int(part) for part in parts}))

    def table(self) -> Table | None:
        """What a table of plans is asked for; None where one plan is. Raises InputError."""
        from csdfgen.model.units import size_of

        if self.requests is None or (self.budgets is None and "," not in self.requests):
            return None
        budgets = (self.budgets or "").split(",") if self.budgets else []
        return Table(self.counts(), tuple(size_of(one.strip(), "budgets") for one in budgets))
