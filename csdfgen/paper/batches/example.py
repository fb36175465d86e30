"""The worked example of paper 000: three layers, two images, memory 7."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from csdfgen.paper.cells import Cell
from schedules.batches.baselines import plan_fixed
from schedules.batches.chain import Chain, ChainLayer
from schedules.batches.planning import plan_exhaustively, plan_printed
from schedules.batches.plans import ChainPlan, batches
from schedules.batches.replay import replay

IMAGES, MEMORY = 2, 7

EXAMPLE = Chain(
    tuple(
        ChainLayer(f"L{k}", (4, 6), workspace=(each, 2 * each), input_bytes=1, output_bytes=1)
        for k, each in ((1, 1), (2, 4), (3, 1))
    )
)
"""in(i,b) = out(i,b) = b; ws(1) = ws(3) = b, ws(2) = 4b; 4 an image alone, 3 each of two."""


def plan_cost(plan: ChainPlan | None) -> float:
    """Infinity where there is no plan."""
    return inf if plan is None else plan.cost


def example() -> Iterator[Cell]:
    """Time per image by the baseline, by Algorithm 1, and by all orders; the batches of each layer."""
    base, plan = plan_fixed(EXAMPLE, IMAGES, MEMORY), plan_printed(EXAMPLE, IMAGES, MEMORY, unit=1)
    assert base is not None and plan is not None
    yield _cell("baseline", "time per image", 12, base.cost_per_image)
    yield _cell("Algorithm 1", "time per image", 10, plan.cost_per_image)
    best = plan_cost(plan_exhaustively(EXAMPLE, IMAGES, MEMORY))
    yield _cell("all orders", "time per image", None, best / IMAGES)
    for number, batch in enumerate((2, 1, 2)):
        yield _cell("Algorithm 1", f"batches of L{number + 1}", batch, max(batches(plan, number)))
    yield _cell("Algorithm 1", "most memory at a call", None, replay(EXAMPLE, plan).peak)


def _cell(row: str, column: str, printed_as: float | None, ours: float) -> Cell:
    return Cell("section III", row, column, "", printed_as, ours, 0)
