"""What another packer does: it reads the items of a CSV file and writes their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from csdfgen.errors import InputError, PlanError
from csdfgen.planning.packing import Items, minimalloc

__all__ = ["read_items", "write_solution"]


def read_items(path: str | Path) -> tuple[Items, np.ndarray | None]:
    """The items of a CSV file, all of one alignment, and their offsets if it is a solution.

    Offsets are not checked for overlaps. Raises InputError with the line of the first fault.
    """
    table = minimalloc._read(path)
    lines = table.lines
    alignments = {line.alignment: line.number for line in lines}
    if len(alignments) > 1:
        (one, first), (other, second) = list(alignments.items())[:2]
        raise InputError(
            f"alignment {one} in line {first} and {other} in line {second}; give all items the same alignment",
            where=table.path,
        )
    sizes, born, gone, offsets = (
        np.array([getattr(line, name) for line in lines], np.int64)
        for name in ("size", "lower", "upper", "offset")
    )
    names, alignment = [unquote(line.id) for line in lines], min(alignments, default=1)
    try:
        items = Items(sizes, born, gone, alignment=alignment, names=names)
    except PlanError as error:
        raise InputError(str(error), where=table.path) from None
    return items, offsets if table.solved else None


def write_solution(path: str | Path, items: Items, offsets: Sequence[int] | np.ndarray) -> None:
    """The file of `write_items` with the offsets of all items."""
    minimalloc.write_items(path, items)
    header, *lines = Path(path).read_text().splitlines()
    given = np.asarray(offsets)[np.flatnonzero(items.sizes)].tolist()
    solved = (f"{line},{offset}" for line, offset in zip(lines, given, strict=True))
    Path(path).write_text("".join(f"{line}\n" for line in (f"{header},offset", *solved)))
