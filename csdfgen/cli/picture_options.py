"""Which pictures are drawn, and how is that typed? Options of `analyze` and `schedule`, read into
one request.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from csdfgen.errors import InputError

__all__ = [
    "ChartOption",
    "Draw",
    "GanttOption",
    "PictureGroup",
    "Pictures",
    "check_picture",
]

_PANEL = "Pictures"


class Draw(str, enum.Enum):
    """Which execution the charts show."""

    self_timed = "self-timed"
    static = "static"
    periodic = "periodic"


GanttOption = Annotated[
    Path | None,
    typer.Option(
        "--gantt",
        metavar="FILE.svg",
        rich_help_panel=_PANEL,
        help="Who fires when, transient and period marked.",
    ),
]
ChartOption = Annotated[
    str | None,
    typer.Option(
        "--chart",
        metavar="memory|arena|phases",
        rich_help_panel=_PANEL,
        help="Of a model: what is alive by layer, where it lies, or who fires when; written to the .svg of -o.",
    ),
]
OccupancyOption = Annotated[
    Path | None,
    typer.Option(
        "--occupancy",
        metavar="FILE.svg",
        rich_help_panel=_PANEL,
        help="What every channel holds over time, capacities marked.",
    ),
]
DotOption = Annotated[
    Path | None,
    typer.Option(
        "--dot",
        metavar="FILE.dot",
        rich_help_panel=_PANEL,
        help="The graph for Graphviz, with capacities and critical cycle.",
    ),
]
DrawOption = Annotated[
    Draw | None,
    typer.Option(
        "--draw",
        rich_help_panel=_PANEL,
        help="What the charts show: execution as soon as possible, one processor's order, or a periodic schedule; with --buffers "
        "in the least storage found, else in --capacities. \\[default: self-timed]",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Pictures:
    """Files to be drawn; None where the user asked for none."""

    gantt: Path | None = None
    occupancy: Path | None = None
    dot: Path | None = None
    draw: str = "self-timed"

    @property
    def asked(self) -> bool:
        return bool(self.files())

    def files(self) -> dict[str, Path]:
        """Option (without dashes) -> file."""
        found = {"gantt": self.gantt, "occupancy": self.occupancy, "dot": self.dot}
        return {name: path for name, path in found.items() if path is not None}


@dataclass(frozen=True, slots=True)
class PictureGroup:
    """The same as typed."""

    gantt: GanttOption = None
    occupancy: OccupancyOption = None
    dot: DotOption = None
    draw: DrawOption = None

    def read(self) -> Pictures:
        """The options as one value. Raises InputError for names that do not end as they should,
        typer.BadParameter.
        """
        draw = self.draw.value if self.draw else "self-timed"
        found = Pictures(self.gantt, self.occupancy, self.dot, draw)
        for name, path in found.files().items():
            check_picture(name, path, ".dot" if name == "dot" else ".svg")
        if self.gantt is not None and self.gantt == self.occupancy:
            raise typer.BadParameter(
                f"'{self.gantt}' is given twice; two charts are two files",
                param_hint="--occupancy",
            )
        if self.draw is not None and self.gantt is None and self.occupancy is None:
            raise typer.BadParameter(
                "says what charts show; add --gantt FILE.svg or --occupancy FILE.svg",
                param_hint="--draw",
            )
        return found


def check_picture(option: str, path: Path, suffix: str = ".svg") -> None:
    """Refuse a name that does not end as its content asks for. Raises InputError."""
    if path.suffix.lower() != suffix:
        raise InputError(f"--{option} writes {suffix}; give FILE{suffix}", where=str(path))
