"""All numbers of paper 000 that can be computed, part by part, what is modelled to compare with its curves, and what
cannot be computed, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType

from csdfgen.paper.batches.errata import errata
from csdfgen.paper.batches.example import example
from csdfgen.paper.batches.model_tables import figure_2, figure_7, figure_8, table_3
from csdfgen.paper.batches.modelled import (
    NETWORKS,
    Point,
    figure_7_points,
    figure_8_points,
    model_tables,
    modelled_tables,
)
from csdfgen.paper.batches.printed import LEFT
from csdfgen.paper.batches.random_chains import Comparison, compare_planners
from csdfgen.paper.cells import Cell, Left, Progress
from schedules.batches.planning import PRINTED_UNIT


@dataclass(frozen=True, slots=True)
class Reproduction:
    """cells: by part. points: by figure. left: not computed."""

    cells: Mapping[str, tuple[Cell, ...]]
    points: Mapping[str, tuple[Point, ...]]
    left: tuple[Left, ...]


def comparisons(found: Mapping[str, Comparison]) -> Iterator[Cell]:
    """Random networks, a row a way to plan."""
    said = {
        "printed": "Algorithm 1",
        "gathering": "with waiting images",
        "searched": "and all orders searched",
    }
    for name, one in found.items():
        columns = {
            "with a plan": one.feasible,
            "optimal": one.optimal,
            "costlier": one.worse,
            "no plan found": one.missed,
            "below the optimum, or wrong": one.below,
        }
        for column, count in columns.items():
            yield Cell("random networks", said[name], column, "", None, count, 0)
        yield Cell("random networks", said[name], "costlier by up to, %", "%", None, 100 * one.largest, 1)  # fmt: skip


PARTS: Mapping[str, Callable[[], Iterator[Cell]]] = MappingProxyType(
    {
        "worked example": example,
        "memory": lambda: chain(table_3(), figure_2(), figure_7(), figure_8()),
        "random networks": lambda: comparisons(compare_planners()),
        "modelled": modelled_tables,
        "errata": errata,
    }
)
"""Part -> its cells."""


def reproduce(progress: Progress = lambda name: None) -> Reproduction:
    """Everything; the tables of the networks are made once and take most of the time."""
    for name in NETWORKS:
        progress(f"tables of {name}")
        model_tables(name, "gathering")
        model_tables(name, "printed", PRINTED_UNIT)
    cells: dict[str, tuple[Cell, ...]] = {}
    for name, made in PARTS.items():
        progress(name)
        cells[name] = tuple(made())
    points = {"Figure 7": figure_7_points(), "Figure 8": figure_8_points()}
    return Reproduction(MappingProxyType(cells), MappingProxyType(points), LEFT)
