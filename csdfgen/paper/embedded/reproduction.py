"""All numbers of paper 004 that can be computed, part by part, its techniques measured here, and what is left with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from csdfgen.paper.cells import Cell, Left, Progress
from csdfgen.paper.embedded.claims import claims
from csdfgen.paper.embedded.derived import table_5, table_6, table_7, table_8, table_9, table_a1
from csdfgen.paper.embedded.measured import effects
from csdfgen.paper.embedded.printed import LEFT
from csdfgen.paper.embedded.winograd import errors
from csdfgen.paper.turns import PART

PARTS: Mapping[str, Callable[[], Iterator[Cell]]] = MappingProxyType(
    {
        "5": table_5, "6": table_6, "7": table_7, "8": table_8, "9": table_9, "A1": table_a1, "claims": claims,
        "Winograd": errors,
    }
)  # fmt: skip
"""Table or section -> its cells, which are the same on every machine."""

Reproduction = tuple[dict[str, tuple[Cell, ...]], tuple[Left, ...]]


def reproduce(progress: Progress = lambda name: None) -> Reproduction:
    """The cells of every part, those that are measured last, and what is left out with its reason."""
    found: dict[str, tuple[Cell, ...]] = {}
    for name, made in PARTS.items():
        progress(name)
        found[name] = tuple(made())
    left = list(LEFT)
    progress(PART)
    found[PART] = tuple(effects(left))
    return found, tuple(left)
