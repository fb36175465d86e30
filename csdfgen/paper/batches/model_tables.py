"""What follows from the memory model alone, without any time: Table III's baseline, Figure 2, the deviation of
MobileNet, batches of the baseline, and how much the greedy rule needs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from statistics import pstdev

from csdfgen.paper.batches.memory import BATCHES, MB, call_bytes, make_chain
from csdfgen.paper.batches.networks import Module, Op, find_layer, get_layers, list_ops
from csdfgen.paper.batches.printed import FIGURE_7, FIGURE_8, MEMORIES, TABLE_3
from csdfgen.paper.cells import Cell
from schedules.batches.baselines import largest_uniform, plan_greedy
from schedules.batches.chain import Chain

_UNLISTED = "conv2/norm2"
"""The one layer between conv1 and pool2 that Table III does not list."""


def _untimed(layer: Op | Module, images: int) -> float:
    """A call costs one, whatever it does: what fits does not depend on it."""
    return 1.0


def table_3() -> Iterator[Cell]:
    """The baseline's column: one image."""
    for name, (baseline, _) in TABLE_3.items():
        free = 20 - call_bytes(find_layer("GoogleNet", name)) / MB
        yield Cell("Table III", name, "baseline", "MB", baseline, free, 2, within=0.01)


def figure_2() -> Iterator[Cell]:
    """ResNet50 by layers, and how much MobileNet's layers differ."""
    for name, printed in (("conv1", 10.7), ("res2a_branch2a", 2.3)):
        yield _need(
            f"ResNet50, {name}", printed, call_bytes(find_layer("ResNet50", name)) / MB, 1, ""
        )
    convolutions = {name: _convolutions(name) for name in ("ResNet50", "MobileNet-v1")}
    least = min(call_bytes(op, weights=False) for op in convolutions["ResNet50"] if op.kernel == 3)
    note = "of the 3x3 convolutions, without weights; the paper does not say which layer it means"
    yield _need("ResNet50, least layer", 1.07, least / MB, 2, note)
    sizes = [call_bytes(op, weights=False) / MB for op in convolutions["MobileNet-v1"]]
    note = f"of its {len(sizes)} convolutions, without weights"
    yield _need("MobileNet-v1, standard deviation", 1.45, pstdev(sizes), 2, note)


def _need(row: str, printed: float, ours: float, digits: int, note: str) -> Cell:
    return Cell("Figure 2", row, "batch 1", "MB", printed, ours, digits, note)


def _convolutions(network: str) -> list[Op]:
    return [op for op, _ in list_ops(get_layers(network)) if op.kind == "conv"]


def figure_7() -> Iterator[Cell]:
    """Batches of the baseline that its caption names."""
    chain = make_chain("ResNet50", _untimed)
    for memory, (_, baseline) in FIGURE_7.items():
        batch = largest_uniform(chain, BATCHES, memory * MB)
        yield Cell("Figure 7", f"ResNet50, {memory} MB", "batch of the baseline", "", baseline, batch, 0)  # fmt: skip


def figure_8() -> Iterator[Cell]:
    """The greedy rule on GoogleNet, with and without the layer that Table III does not list."""
    whole = make_chain("GoogleNet", _untimed)
    without = Chain(tuple(layer for layer in whole.layers if layer.name != _UNLISTED))
    for images, printed in FIGURE_8.items():
        row = f"greedy rule, request of {images}"
        least, full = (_least_memory(chain, images) for chain in (without, whole))
        fits = sum(least <= memory * MB for memory in MEMORIES)
        note = "" if fits == printed else f"it needs {least / MB:.1f} MB; the paper runs it in 35"
        column = "memory sizes with a plan"
        yield Cell("Figure 8", row, column, "", printed, fits, 0, note)
        note = f"with {_UNLISTED}, which Table III does not list, {full / MB:.1f}"
        yield Cell("Figure 8", row, "least memory", "MB", None, least / MB, 1, note)


def _least_memory(chain: Chain, images: int) -> int:
    """Bytes in which the greedy rule has a plan; what fits into some memory fits into more."""
    return bisect_left(
        range(1 << 40), True, key=lambda size: plan_greedy(chain, images, size) is not None
    )
