"""How does `csdfgen reproduce vbs` print? Cells beside print, and modelled times by memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from csdfgen.cli.reproduce_cells import print_cells, print_left
from csdfgen.cli.terminal import console, stages, table
from csdfgen.paper.batches.modelled import Point, point_json
from csdfgen.paper.batches.reproduction import reproduce

__all__ = ["print_batches"]


def print_batches() -> list[dict[str, Any]]:
    """Compute and print all of paper 000; cells, points and what is left out as JSON values."""
    with stages() as stage:
        found = reproduce(lambda name: stage(name))
    rows = print_cells(found.cells)
    for figure, points in found.points.items():
        _print_points(figure, points)
        rows += [point_json(figure, point) for point in points]
    return rows + print_left(found.left)


def _print_points(figure: str, points: Sequence[Point]) -> None:
    columns = ("MB", "fixed", "batch", "greedy", "Algorithm 1", "ours", "gain")
    title = f"{figure}, ms an image on a modelled K80"
    shown = table(title, "images", *columns, "rounds", right=("images", *columns))
    for point in points:
        times = (_time(t) for t in (point.greedy, point.algorithm_1, point.ours))
        shown.add_row(
            point.network,
            str(point.images),
            str(point.memory_mb),
            _time(point.fixed),
            str(point.batch),
            *times,
            f"{point.gain:.1f} %",
            "+".join(map(str, point.rounds)),
        )
    out = console()
    out.print(shown)
    out.print("fixed: the largest uniform batch; -: no plan\n")


def _time(ms: float | None) -> str:
    return "-" if ms is None else f"{ms:.3f}"
