"""All numbers of paper 003 that can be computed, part by part, and those that cannot with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from csdfgen.errors import InputError
from csdfgen.paper.cells import Cell, Left, Progress
from csdfgen.paper.formats.arithmetic import losses
from csdfgen.paper.formats.celsius import table_4_6
from csdfgen.paper.formats.claims import claims, counts, gains, table_4_1
from csdfgen.paper.formats.digits import table_4_7
from csdfgen.paper.formats.memory import table_4_2, table_4_3
from csdfgen.paper.formats.printed import LEFT

PARTS: Mapping[str, Callable[[], Iterator[Cell]]] = MappingProxyType(
    {
        "4.1": table_4_1, "4.2": table_4_2, "4.3": table_4_3, "4.5": gains, "4.6": table_4_6, "4.7": table_4_7,
        "section 4": counts, "claims": claims, "Listing 1.4": losses,
    }
)  # fmt: skip
"""Table or section -> its cells."""

Reproduction = tuple[dict[str, tuple[Cell, ...]], tuple[Left, ...]]


def reproduce(progress: Progress = lambda name: None) -> Reproduction:
    """The cells of every part, and what is left out; a part whose data is not installed is among the
    latter, with the reason.
    """
    found: dict[str, tuple[Cell, ...]] = {}
    left = list(LEFT)
    for name, made in PARTS.items():
        progress(name)
        try:
            found[name] = tuple(made())
        except InputError as error:
            left.append(Left(f"Table {name}", "its pictures are not here", 4, str(error)))
    return found, tuple(left)
