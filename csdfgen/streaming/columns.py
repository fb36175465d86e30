"""How is an image that is wider than memory cut into strips of columns? Each strip overlaps its neighbours by what its columns
read beyond it, and is a stream of rows of its own.

What output columns read follows from the laws of rows (`csdfgen.phases.streaming`), of layers with rows and columns exchanged.
A column of a strip equals that of the whole if all that it depends on is inside the strip, or outside the image; strips start
at columns after which all layers repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor, gcd, inf, isinf, lcm
from typing import Any, NamedTuple

import numpy as np

from csdfgen.errors import CsdfgenError, InputError, ModelError, PlanError, option
from csdfgen.model.network import HEIGHTS, Layer, Network, Tensor
from csdfgen.ops import get_operator
from csdfgen.ops.base import Mode
from csdfgen.phases.passes import detach_sums
from csdfgen.phases.streaming import (
    RowRule,
    find_row_rule,
    find_stream_obstacle,
    widen_for_streams,
)

_ALIKE = frozenset(
    {"ArgMax", "ArgMin", "BatchNormalization", "Concat", "DepthToSpace", "LRN", "LayerNormalization", "LogSoftmax"}
    | {"LpNormalization", "Pad", "QLinearConcat", "Resize", "Slice", "Softmax", "SpaceToDepth", "Split", "Transpose"}
    | {"Upsample"}
)  # fmt: skip
"""Operators to which rows and columns are alike, beside windows, reductions, and what works element by element."""

_BY_AXIS = frozenset(
    {
        "dilations",
        "kernel_shape",
        "output_padding",
        "pads",
        "roi",
        "scales",
        "starts",
        "steps",
        "strides",
    }
)
"""Attributes with a value for each axis, or two."""

Range = tuple[float, float]
"""The first column, and the one behind the last; without bounds where the image ends."""


# Rows and columns exchanged -----------------------------------------------------------------------


def _exchange(shape: Sequence[Any], axis: int) -> tuple[Any, ...]:
    """Values of axes with those of an axis and the next one exchanged."""
    return (*shape[:axis], shape[axis + 1], shape[axis], *shape[axis + 2 :])


def _turn_tensor(tensor: Tensor) -> Tensor:
    axis = tensor.row_axis
    if axis is None:
        return tensor
    if axis + 1 >= len(tensor.shape):
        raise PlanError(f"'{tensor.name}' has no columns")
    return replace(tensor, shape=_exchange(tensor.shape, axis))


def _turn_attribute(name: str, value: Any, layer: Layer) -> Any:
    """A value of an attribute of a layer whose rows and columns are exchanged."""
    source = next(tensor for tensor in layer.inputs if tensor is not None)
    axis, rank = source.row_axis or 0, len(source.shape)
    places = _exchange(range(rank), axis)
    if name == "axis":
        return places[value]
    if name == "axes":
        return tuple(places[one] for one in value)
    if name == "perm":
        made = _exchange(range(rank), layer.output.row_axis or 0)
        return tuple(places[value[k]] for k in made)
    if name not in _BY_AXIS or "axis" in layer.attributes:
        return value
    windows = layer.attributes.get("kernel_shape")
    axis, rank = (axis, rank) if windows is None else (0, len(windows))
    parts = [value[k : k + rank] for k in range(0, len(value or ()), rank)]
    return value and tuple(one for part in parts for one in _exchange(part, axis))


def _turn_constant(constant: np.ndarray, layer: Layer) -> np.ndarray:
    """A constant that is broadcast against the output."""
    rank, axis = len(layer.output.shape), layer.output.row_axis
    if axis is None or constant.ndim == 0 or constant.ndim > rank:
        return constant
    return constant.reshape(_full(constant, rank)).swapaxes(axis, axis + 1)


def _full(constant: np.ndarray, rank: int) -> tuple[int, ...]:
    return (*(1,) * (rank - constant.ndim), *constant.shape)


def _turn_layer(layer: Layer) -> Layer:
    """A layer whose output rows are the columns of the given one. Raises PlanError for one that treats them otherwise."""
    operator = get_operator(layer)
    alike = operator.pointwise or layer.op_type in _ALIKE or layer.op_type.startswith("Reduce")
    if not alike and "kernel_shape" not in layer.attributes:
        raise PlanError(f"{layer.op_type} does not compute columns as it does rows")
    broadcast = "kernel_shape" not in layer.attributes and layer.op_type != "BatchNormalization"
    pairs = zip(layer.inputs, layer.input_axes, strict=True)
    if any(tensor is not None and tensor.row_axis != axis for tensor, axis in pairs):
        raise PlanError("reads rows along another axis")
    return replace(
        layer,
        inputs=tuple(tensor and _turn_tensor(tensor) for tensor in layer.inputs),
        outputs=tuple(map(_turn_tensor, layer.outputs)),
        attributes={
            name: _turn_attribute(name, value, layer) for name, value in layer.attributes.items()
        },
        constants={
            k: _turn_constant(one, layer) if broadcast else one
            for k, one in layer.constants.items()
        },
        epilogue=tuple(map(_turn_layer, layer.epilogue)),
    )


def turn(network: Network) -> Network:
    """The layers of a network with rows and columns exchanged; what they multiply by is not. Raises PlanError."""
    layers, known = [], {network.inputs[0].name}
    for layer in network.layers:
        if not known & {one.name for one in layer.inputs if one}:  # of no image
            layers.append(layer)
            continue
        known |= {one.name for one in layer.outputs}
        try:
            layers.append(_turn_layer(layer))
        except PlanError as error:
            raise _refuse(layer.name, error.message) from None
    return replace(network, inputs=tuple(map(_turn_tensor, network.inputs)), layers=tuple(layers))


def _refuse(layer: str, reason: str) -> PlanError:
    way_out = f"leave {option('columns')} out"
    return PlanError(f"layer '{layer}' {reason}, so there are no strips of columns; {way_out}")


# What columns depend on ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Columns:
    """What the columns of a network depend on. network: with rows and columns exchanged. rules: of its layers, by name.

    rates: tensor -> its columns for one of the input. step: columns of the input after which all layers repeat.
    """

    network: Network
    rules: Mapping[str, RowRule]
    rates: Mapping[str, Fraction]
    step: int

    def find_right(self, read: Range, width: int) -> dict[str, Range]:
        """By tensor of a strip the columns that do not depend on any but these of the input."""
        source = self.network.inputs[0]
        found = {source.name: read}
        for layer in self.network.layers:
            rule = self.rules.get(layer.name)
            if rule is None:
                continue
            low, high = _meet(rule, [found.get(one.name) for one in layer.inputs if one])
            for one in layer.outputs:
                end = one.rows - int((source.rows - width) * self.rates[one.name])
                found[one.name] = (
                    low if isinf(low) else max(low, 0),
                    high if isinf(high) else min(high, end),
                )
        return found

    def find_overlap(self, outputs: Sequence[str], width: int) -> int:
        """Columns that a strip shares with the next one, whatever its width is; at least those of both that depend on others."""
        right = self.find_right((0, width), width)
        fresh = [floor((right[one][1] - right[one][0]) / self.rates[one]) for one in outputs]
        return width - min(fresh) // self.step * self.step


def _meet(rule: RowRule, known: Sequence[Range | None]) -> Range:
    """Output columns whose reads are within what is known of the operands."""
    low, high = -inf, inf
    for k, one in enumerate(known):
        if one is not None:
            low = max(low, _find_first(rule, k, one[0]))
            high = min(high, -_find_first(rule, k, one[1], behind=True))
    return low, high


def _find_first(rule: RowRule, operand: int, bound: float, *, behind: bool = False) -> float:
    """The first output column from which on none reads an operand before a bound; behind: minus the one behind the last that
    reads none from the bound on.
    """
    if isinf(bound):
        return -inf
    move, ends = rule.moves[operand], [reads[operand] for reads in rule.reads]
    found = []
    for place, one in enumerate(ends):
        if one is None:
            continue
        if behind:  # the last turn with one[1] + turn * move <= bound
            found.append(-(place + rule.step * ((int(bound) - one[1]) // move + 1)))
        else:  # the last turn with one[0] + turn * move < bound
            found.append(place + rule.step * (-((one[0] - int(bound)) // move) - 1) + 1)
    return max(found, default=-inf)


def find_columns(at_width: Callable[[int], Network]) -> Columns:
    """What the columns of a network depend on, by its width. Raises PlanError with the layer that keeps it from strips."""
    failed: CsdfgenError | None = None
    for width in HEIGHTS:
        try:
            one, wider = turn(at_width(width)), turn(at_width(2 * width))
        except (InputError, ModelError) as error:
            failed = failed or error
            continue
        obstacle = find_stream_obstacle(one, wider)
        if obstacle is not None:
            reason = obstacle.reason.replace("row", "column").replace("height", "width")
            raise _refuse(obstacle.layer, reason)
        rules = _find_rules(widen_for_streams(wider))
        if rules is not None:
            return _measure(widen_for_streams(wider), rules)
    raise failed or PlanError("the columns of some layer are too few to tell what they read")


def _find_rules(network: Network) -> dict[str, RowRule] | None:
    """The rules of layers that depend on the input; None if some layer has too few columns to tell."""
    known, rules = {network.inputs[0].name}, dict[str, RowRule]()
    for layer in network.layers:
        if not known & {one.name for one in layer.inputs if one}:
            continue
        rule = find_row_rule(layer)
        if get_operator(layer).mode(layer) is not Mode.ROWS:
            raise _refuse(layer.name, "needs all columns at once")
        if not isinstance(rule, RowRule):
            return None
        rules[layer.name] = rule
        known |= {one.name for one in layer.outputs}
    return rules


def _measure(network: Network, rules: Mapping[str, RowRule]) -> Columns:
    rates, steps = {network.inputs[0].name: Fraction(1)}, [1]
    for layer in network.layers:
        rule = rules.get(layer.name)
        if rule is None:
            continue
        moves = zip((one.name for one in layer.inputs if one), rule.moves, strict=True)
        found = {rates[name] * rule.step / move for name, move in moves if name in rates}
        if len(found) > 1:
            raise _refuse(layer.name, "joins columns of several scales")
        (rate,) = found
        steps.append((rate / rule.step).denominator)
        rates.update((one.name, rate) for one in layer.outputs)
    return Columns(network, rules, rates, lcm(*steps))


# Strips -------------------------------------------------------------------------------------------


class Strip(NamedTuple):
    """Columns of the input, and by output which columns of the result are kept, and where they are in that of the image."""

    read: slice
    kept: Mapping[str, tuple[slice, slice]]


@dataclass(frozen=True, eq=False)
class Cut:
    """An image in strips of equal width. whole, network: those for the image and for a strip. pixels: by what passes reduce, a
    number of columns of which all strips keep a multiple.
    """

    whole: Network
    network: Network
    strips: tuple[Strip, ...]
    pixels: Mapping[str, int]


def cut_columns(at_width: Callable[[int], Network], width: int, most: int) -> Cut:
    """Strips of at most so many columns of an image. Raises PlanError, and as `at_width`."""

    def detached(width: int) -> Network:
        return detach_sums(at_width(width))

    whole, columns = detached(width), find_columns(detached)
    outputs = {one.name: one.tensor.name for one in whole.outputs if one.tensor}
    for name in outputs.values():
        if name not in columns.rates:
            raise PlanError(f"output '{name}' has no columns; leave {option('columns')} out")
    _check_widths(columns, whole)
    overlap = columns.find_overlap([*outputs.values()], width)
    high = _choose_width(width, most, overlap, columns.step)
    _check_widths(columns, detached(high))
    starts = [0] if high == width else [*range(0, width - high, high - overlap), width - high]
    right, strips = columns.find_right((0, inf), high), []
    for start, after in zip(starts, [*starts[1:], None], strict=True):
        kept = {}
        for output, name in outputs.items():
            rate, low = columns.rates[name], int(right[name][0])
            first = int(start * rate)
            stop = _columns(whole.tensors[name]) if after is None else int(after * rate) + low
            place = slice(first + low if start else 0, stop)
            kept[output] = slice(place.start - first, place.stop - first), place
        strips.append(Strip(slice(start, start + high), kept))
    pixels = {
        one: gcd(*(strip.kept[one][0].stop - strip.kept[one][0].start for strip in strips))
        for one in outputs
    }
    return Cut(whole, at_width(high), tuple(strips), pixels)


def _choose_width(width: int, most: int, overlap: int, step: int) -> int:
    """The width of strips: of those that make the fewest the least. All are some steps less than the image."""
    if width <= most:
        return width
    high = width - -(-(width - most) // step) * step
    if high <= overlap:
        way_out = f"give {option('columns', min(width, overlap + step))} or more"
        raise PlanError(f"strips of {most:,} columns overlap by {overlap:,}; {way_out}")
    count = 1 - (high - width) // (high - overlap)
    return width - (count - 1) * (width - overlap) // count // step * step


def _check_widths(columns: Columns, network: Network) -> None:
    """Raise PlanError unless all that depends on the image is as wide as it should be, for an image of another width."""
    less = columns.network.inputs[0].rows - _columns(network.inputs[0])
    for name, rate in columns.rates.items():
        tensor = columns.network.tensors[name]
        if tensor.rows - _columns(network.tensors[name]) != less * rate:
            layer = columns.network.producer[name].name
            raise _refuse(layer, "has columns in no proportion to those of the image")


def _columns(tensor: Tensor) -> int:
    assert tensor.row_axis is not None
    return tensor.shape[tensor.row_axis + 1]
