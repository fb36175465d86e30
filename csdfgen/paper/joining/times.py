"""Times of AlexNet's sub-models, from which the paper's claims are computed: it prints none of its own.

Measured with onnxruntime 1.23 on one thread of an Intel Xeon: convolutions gain nothing by a batch, fully connected layers do.
"""

from __future__ import annotations

from csdfgen.serving.times import Times, make_table

CONVOLUTIONS = 0.021
"""Seconds of all convolutions for an image."""

_DENSE = {1: 0.0151, 2: 0.0162, 4: 0.0179, 8: 0.0222, 16: 0.0255, 32: 0.0376}
"""Batch -> seconds of all fully connected layers."""

MOST = 64

SUB_MODELS = 6
"""The paper does not say how many; five groups of convolutions and the fully connected layers."""


def scale_alexnet(
    one: float | None = None, spread: float = 0.0, share: float | None = None
) -> Times:
    """The table, scaled so that one image takes `one` seconds, of which fully connected layers take this share: the more
    cores, the larger it is, as their weights come from memory.
    """
    whole = CONVOLUTIONS + _DENSE[1]
    one, share = one or whole, share or _DENSE[1] / whole
    each, factor = (1 - share) * one, share * one / _DENSE[1]
    sizes = (*_DENSE, MOST)
    slope = (_DENSE[32] - _DENSE[16]) / 16
    dense = {**_DENSE, MOST: _DENSE[32] + (MOST - 32) * slope}
    stages = {
        f"convolution {k + 1}": {b: each * b / (SUB_MODELS - 1) for b in sizes}
        for k in range(SUB_MODELS - 1)
    }
    last = {b: factor * seconds for b, seconds in dense.items()}
    return make_table("AlexNet", {**stages, "fully connected": last}, spread)


def flat_times() -> Times:
    """A network in which batches save 5 %, as in small convolutional ones."""
    part = {b: 0.004 * (0.05 + 0.95 * b) for b in (1, MOST)}
    return make_table("convolutional", {f"part {k + 1}": part for k in range(5)})
