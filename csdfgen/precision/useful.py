"""Which values of a tensor need no integers of their own? Those that all its readers take for the same, and
those that it cannot have.

HardSwish makes 0 of all that is below -3, Sigmoid all but 1 of what is above 7, and nothing above 1: integers that
would stand for such values are worth more elsewhere. Sources: https://onnx.ai/onnx/operators/onnx__HardSwish.html,
onnx__HardSigmoid.html, onnx__Clip.html.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import onnx
from onnx import numpy_helper

from csdfgen.precision.products import number
from csdfgen.precision.ranges import EVERYTHING, Range
from csdfgen.precision.writer import Skeleton

__all__ = ["useful_ranges"]


def useful_ranges(model: onnx.ModelProto, found: Skeleton, levels: int) -> dict[str, Range]:
    """Leader -> beyond which values there are none, or nobody tells them apart, for those where that is so. model:
    the float one. levels: of the integers, half a step of which counts as the same.
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
        # what hands on the same integers neither makes nor tells apart
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
    """Between which values an operator's results lie, whatever it is given."""
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
