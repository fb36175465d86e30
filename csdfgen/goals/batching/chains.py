"""What do algorithms that choose batches see of a network? A chain of stages with tables of time and bytes.

Tables hold what the variants of the network take; a number of images that was not looked at is made up of
those that were, one call after the other, so that no line is drawn through anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from csdfgen.goals.batching.stages import Call, Stage
from csdfgen.goals.batching.variants import Variant
from schedules.batches.chain import ChainLayer
from schedules.batches.plans import BatchFiring, ChainPlan

__all__ = ["calls_of", "layer_of"]


def layer_of(
    stage: Stage,
    several: Mapping[int, Variant],
    images: int,
    ends: tuple[int, int],
    charged: Callable[[Variant], np.ndarray],
) -> ChainLayer:
    """A stage for up to so many images at once. several: variants by images, from 2 on. ends: bytes of an image in
    front of it and behind it, 0 where the caller has them. charged: what each layer of a variant costs.
    """
    costs: list[float] = []
    workspace: list[int] = []
    for count in range(1, images + 1):
        variant = stage.one if count == 1 else several.get(count)
        if variant is None:
            known = max(size for size in (1, *several) if size < count)
            costs.append(costs[known - 1] + costs[count - known - 1])
            workspace.append(max(workspace[known - 1], workspace[count - known - 1]))
        else:
            costs.append(float(charged(variant)[stage.start : stage.stop].sum()))
            workspace.append(variant.inside(stage.start, stage.stop))
    return ChainLayer(
        f"layers {stage.start + 1} to {stage.stop}", tuple(costs), tuple(workspace), *ends
    )


def calls_of(plan: ChainPlan, several: Mapping[int, Variant]) -> tuple[Call, ...]:
    """The calls of a plan; those of numbers of images that have no variant taken apart."""
    found: list[Call] = []
    for firing in plan.firings:
        found += _apart(firing, several)
    return tuple(found)


def _apart(firing: BatchFiring, several: Mapping[int, Variant]) -> list[Call]:
    first, left = firing.first, firing.images
    found = []
    while left:
        size = max(size for size in (1, *several) if size <= left)
        found.append(Call(firing.layer, first, size))
        first, left = first + size, left - size
    return found
