"""Which format does calibration give each tensor, in int8 and in int16?

In int8 the integers cover the range that a threshold method chooses (`thresholds`), within the values that readers
distinguish: HardSwish maps all values below -3 to 0, Sigmoid all above 7 to nearly 1, and no result of it is above 1. In
int16 there are enough integers for all possible values. Sources: https://onnx.ai/onnx/operators/onnx__HardSwish.html,
onnx__HardSigmoid.html, onnx__Clip.html.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import onnx
from onnx import numpy_helper

from csdfgen.errors import InputError
from csdfgen.model.formats import Format
from csdfgen.model.network import Network
from csdfgen.precision.calibrate import Calibration
from csdfgen.precision.products import KINDS, number
from csdfgen.precision.ranges import EVERYTHING, Observer, Range, choose_format
from csdfgen.precision.thresholds import adjust_range, threshold
from csdfgen.precision.wish import METHOD, Wish
from csdfgen.precision.writer import Skeleton, find_softmax_ranges, join_ranges

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
    summed = _summed(model)
    more = min(MORE_OF_FEW, 1 + 1 / images)
    for name in found.leaders:
        one = seen.observed[name]
        told = _with_a_step(useful.get(name, EVERYTHING), one)
        seen_there = one.within(*told)
        kept = threshold(
            seen_there,
            wish.method if wish.method != "kl" or summed & set(found.members(name)) else "minmax",
            wish.percentile,
        )
        ends = found.bounds.get(name, told)
        clipped[name] = _times(more, kept, ends)
        if wish.method == METHOD:
            clipped[name] = adjust_range(seen_there, clipped[name], ends)
        bounds = found.bounds.get(name, useful_wide.get(name, EVERYTHING))
        whole[name] = _all_of(bounds, threshold(one, "minmax"))
    for name, least in find_softmax_ranges(model, network).items():
        if name in found.tensors:
            low, high = clipped[found.tensors[name]]
            clipped[found.tensors[name]] = low, max(high, least)
    clipped, whole = (join_ranges(model, found, one) for one in (clipped, whole))
    return (
        {name: choose_format(one, "uint8") for name, one in clipped.items()},
        {name: choose_format(one, "int16") for name, one in whole.items()},
    )


def _summed(model: onnx.ModelProto) -> set[str]:
    """Tensors that a layer with weights reads, through other layers or at once. Relative entropy weighs values by how
    often they occur: that of others, scores and probabilities above all, would cut off what the network answers, and no
    sum makes up for it. TensorRT leaves them in float32.
    """
    found: set[str] = set()
    for node in reversed(model.graph.node):
        if node.op_type in KINDS or found.intersection(node.output):
            found.update(node.input)
    return found


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


# Values that need no integers --------------------------------------------------------------------


def useful_ranges(model: onnx.ModelProto, found: Skeleton, levels: int) -> dict[str, Range]:
    """Leader -> the range outside of which it has no values, or its readers do not distinguish them, where there is
    one. model: the float one. levels: number of integers; values within half a step count as the same.
    """
    constants = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    ends = {one.name for one in model.graph.output}
    readers: dict[str, list[onnx.NodeProto]] = {}
    makers: dict[str, onnx.NodeProto] = {}
    for node in model.graph.node:
        makers.update(dict.fromkeys(node.output, node))
        for name in node.input:
            readers.setdefault(name, []).append(node)
    ranges = {}
    for leader in found.leaders:
        members = set(found.members(leader))
        # operators that pass on the same integers neither make nor distinguish values
        reading = [
            node
            for name in members
            for node in readers.get(name, ())
            if not members.issuperset(node.output)
        ]
        making = [makers.get(name) for name in members]
        making = [node for node in making if node is None or not members & set(node.input)]
        told = EVERYTHING
        if reading and not ends & members:
            told = _joined(_useful(node, constants, levels) for node in reading)
        made = _joined(EVERYTHING if node is None else _possible(node) for node in making)
        low, high = max(told[0], made[0]), min(told[1], made[1])
        if (low, high) != EVERYTHING:
            ranges[leader] = low, high
    return ranges


def _joined(ranges: Iterable[Range]) -> Range:
    lows, highs = zip(*ranges, strict=True)
    return min(lows), max(highs)


def _possible(node: onnx.NodeProto) -> Range:
    """The range of an operator's results, whatever its input."""
    match "" if node.domain else node.op_type:
        case "Sigmoid" | "HardSigmoid" | "Softmax":
            return 0.0, 1.0
        case "Tanh" | "Softsign":
            return -1.0, 1.0
    return EVERYTHING


def _useful(node: onnx.NodeProto, constants: Mapping[str, np.ndarray], levels: int) -> Range:
    """Between which values of its input an operator's result changes."""
    if node.domain:
        return EVERYTHING
    match node.op_type:
        case "Relu":
            return 0.0, math.inf
        case "HardSwish":
            return -3.0, math.inf
        case "HardSigmoid":
            alpha, beta = number(node, "alpha", 0.2), number(node, "beta", 0.5)
            return (-beta / alpha, (1 - beta) / alpha) if alpha > 0 else EVERYTHING
        case "Clip":
            return _clip(node, constants)
        case "Sigmoid":
            return -math.log(2 * levels), math.log(2 * levels)
        case "Tanh":
            return -math.log(2 * levels) / 2, math.log(2 * levels) / 2
    return EVERYTHING


def _clip(node: onnx.NodeProto, constants: Mapping[str, np.ndarray]) -> Range:
    found = list(EVERYTHING)
    for k, name in enumerate(node.input[1:3]):
        if name in constants and constants[name].size == 1:
            found[k] = float(constants[name].reshape(-1)[0])
    return found[0], found[1]
