"""Which format has each tensor, by what calibration showed, in int8 and in int16?

In int8 integers cover what matters of what was seen (`thresholds`), within what readers tell apart (`useful`). In
int16 there are enough of them for all that there can be.
"""

from __future__ import annotations

import numpy as np
import onnx

from csdfgen.errors import InputError
from csdfgen.model.formats import Format
from csdfgen.model.network import Network
from csdfgen.precision.calibrate import Calibration
from csdfgen.precision.formats import format_of
from csdfgen.precision.ranges import EVERYTHING, Observer, Range
from csdfgen.precision.thresholds import settled, threshold
from csdfgen.precision.useful import useful_ranges
from csdfgen.precision.wish import METHOD, Wish
from csdfgen.precision.writer import Skeleton, joined_ranges, least_of_softmax

__all__ = ["tensor_formats"]

HEADROOM = 2.0
"""Tensors in int16 hold this times what was seen, where what they can be has no end: a bit of 16 is worth less
than a value that is cut.
"""

MORE_OF_FEW = 1.25
"""Tensors in int8 hold at most this times what few inputs showed: the next of n inputs goes beyond them once in
n + 1 times, and what is cut is off by far more than what is rounded.
"""

LEVELS = 2**8, 2**16
"""Integers that a tensor in int8 and one in int16 have."""


def tensor_formats(
    model: onnx.ModelProto,
    network: Network,
    found: Skeleton,
    seen: Calibration,
    images: int,
    wish: Wish,
) -> tuple[dict[str, Format], dict[str, Format]]:
    """The formats of tensors that lead, in int8 and in int16.

    model, network: the float one. images: how many were seen. Raises InputError for a tensor that was not seen.
    """
    unseen = [name for name in found.leaders if name not in seen.observed]
    if unseen:
        raise InputError(
            f"tensor '{unseen[0]}' is not computed here, so that its range is not known"
        )
    clipped: dict[str, Range] = {}
    whole: dict[str, Range] = {}
    useful, useful_wide = (useful_ranges(model, found, levels) for levels in LEVELS)
    more = min(MORE_OF_FEW, 1 + 1 / images)
    for name in found.leaders:
        one = seen.observed[name]
        told = _with_a_step(useful.get(name, EVERYTHING), one)
        seen_there = one.within(*told)
        kept = threshold(seen_there, wish.method, LEVELS[0], wish.percentile)
        ends = found.bounds.get(name, told)
        clipped[name] = _times(more, kept, ends)
        if wish.method == METHOD:
            clipped[name] = settled(seen_there, clipped[name], ends)
        bounds = found.bounds.get(name, useful_wide.get(name, EVERYTHING))
        whole[name] = _all_of(bounds, threshold(one, "minmax"))
    for name, least in least_of_softmax(model, network).items():
        if name in found.tensors:
            low, high = clipped[found.tensors[name]]
            clipped[found.tensors[name]] = low, max(high, least)
    clipped, whole = (joined_ranges(model, found, one) for one in (clipped, whole))
    return (
        {name: format_of(one, "uint8") for name, one in clipped.items()},
        {name: format_of(one, "int16") for name, one in whole.items()},
    )


def _times(factor: float, ends: Range, bounds: Range) -> Range:
    """A range that is wider, within bounds."""
    low, high = (float(min(max(factor * end, bounds[0]), bounds[1])) for end in ends)
    return low, high


def _all_of(bounds: Range, ends: Range) -> Range:
    """What int16 holds: all that there can be, where that has an end, else more than was seen."""
    wide = _times(HEADROOM, ends, bounds)
    low, high = (b if np.isfinite(b) else e for b, e in zip(bounds, wide, strict=True))
    return float(low), float(high)


def _with_a_step(found: Range, seen: Observer) -> Range:
    """A range and a step of int8 more on both sides, so that its ends are among what integers stand for."""
    span = min(found[1], seen.high) - max(found[0], seen.low)
    step = max(span, 0.0) / (LEVELS[0] - 1)
    return found[0] - step, found[1] + step
