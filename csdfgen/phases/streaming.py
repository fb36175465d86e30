"""Which networks may stream? Those whose rows follow one rule over all integers, so that an image without an end is computed by
the firings of a period again and again.

Of every layer: (S) a step of output rows moves the rows that it reads by a step; (C) the rows that are read at the ends of an
image are within the rule of its middle; (V) rows a step apart are the same function of what they read. With an image of another
height the rules, constants and settings of both are compared: models compute them from the height.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from csdfgen.model.deferred import Deferred
from csdfgen.model.network import Layer, Network, memoize_layer
from csdfgen.model.rows import Rows
from csdfgen.ops import get_operator
from csdfgen.ops.base import Mode, stored_rows
from csdfgen.ops.padding import widen
from csdfgen.ops.resampling import repeat_positions

_STEP = 64
"""Most output rows after which a rule repeats."""

_FEW = 16
"""Rows in the middle of an image that suffice to see that a rule does not repeat."""

_WHOLE = "needs all rows at once"

Reads = tuple[tuple[int, int] | None, ...]
"""By operand that is no constant the rows that an output row reads: the first one, and that behind the last; None for none."""


class Obstacle(NamedTuple):
    """Why a network cannot stream: a layer, what it does, and what can be done instead."""

    layer: str
    reason: str
    way_out: str

    def __str__(self) -> str:
        return f"layer '{self.layer}' {self.reason}, so the network cannot stream; {self.way_out}"


@dataclass(frozen=True, slots=True)
class RowRule:
    """What the output rows of a layer read, over all integers.

    moves: by operand, the rows that it moves with every `step` output rows. reads, kinds: of output rows 0 to step, what they
    read before it is cut to an image, and what their values depend on besides.
    """

    moves: tuple[int, ...]
    reads: tuple[Reads, ...]
    kinds: tuple[Hashable, ...]

    @property
    def step(self) -> int:
        """Output rows after which the rule repeats."""
        return len(self.reads)

    def read(self, row: int) -> Reads:
        """What an output row reads."""
        turn, place = divmod(row, self.step)
        return _move(self.reads[place], self.moves, turn)


def _move(reads: Reads, moves: Iterable[int], turns: int) -> Reads:
    pairs = zip(reads, moves, strict=True)
    return tuple(one and (one[0] + turns * by, one[1] + turns * by) for one, by in pairs)


def read_rows(layer: Layer, row: int) -> Reads:
    """The stored rows that an output row of an image reads."""
    rows = get_operator(layer).input_rows(layer, Rows(row, row + 1))
    stored = (stored_rows(layer, k, one) for k, one in enumerate(rows) if one is not None)
    return tuple((one.start, one.stop) if one else None for one in stored)


@memoize_layer
def find_row_rule(layer: Layer) -> RowRule | str | None:
    """The rule of a layer by rows, or what it does instead; None if its output is too low to tell."""
    count = layer.output.rows
    first = max(count // 4, count // 2 - 2 * _STEP)
    middle = range(first, count - first)
    if len(middle) < 4:
        return None
    reads = [read_rows(layer, row) for row in middle]
    kinds = [_find_kinds(layer, row) for row in middle]
    steps = (
        (step, moves)
        for step in range(1, min(_STEP, len(middle) // 2) + 1)
        for moves in [_find_moves(reads, step)]
        if moves is not None
    )
    first_step = next(steps, None)
    if first_step is None:
        return None if len(middle) < _FEW else _explain(layer, reads[len(reads) // 2])
    each = () if None in kinds else chain((first_step,), steps)
    alike = next((one for one in each if kinds[one[0] :] == kinds[: -one[0]]), None)
    if alike is None:
        return "computes a row in a way that depends on its number"
    rule = _anchor(first, reads, kinds, *alike)
    ends = {*range(min(count, 2 * _STEP)), *range(max(0, count - 2 * _STEP), count)}
    within = all(_is_within(read_rows(layer, row), rule.read(row), rule.moves) for row in ends)
    return rule if within else "reads other rows at the ends of an image than in its middle"


def _explain(layer: Layer, reads: Reads) -> str:
    """Why what the output row in the middle reads does not show a rule."""
    heights = [one.rows for one in layer.inputs if one is not None]
    pairs = [
        (one, height) for one, height in zip(reads, heights, strict=True) if one and height > 1
    ]
    if any(0 in (a, height - b) and 2 * (b - a) >= height for (a, b), height in pairs):
        return f"reads windows that are higher than the {max(heights):,} rows in which a rule is looked for"
    return "reads rows that do not move with those that it writes"


def _find_kinds(layer: Layer, row: int) -> Hashable | None:
    """What the values of a row depend on beside the rows read; None if they depend on its number."""
    each = (layer, *layer.epilogue)
    kinds = tuple(get_operator(one).find_row_kind(one, row) for one in each)
    return None if None in kinds else kinds


def _find_moves(reads: Sequence[Reads], step: int) -> tuple[int, ...] | None:
    """By operand the rows that all reads move in a step; None if they do not."""
    found = []
    for operand in zip(*reads, strict=True):
        moves = {
            (b[0] - a[0], b[1] - a[1]) if a and b else (a, b)
            for a, b in zip(operand, operand[step:], strict=False)
            if a or b
        }
        by = next(iter(moves), (0, 0))[0]
        if moves - {(by, by)} or not isinstance(by, int):
            return None
        found.append(by)
    return tuple(found) if max(found, default=0) > 0 else None


def _anchor(
    first: int, reads: Sequence[Reads], kinds: Sequence[Hashable], step: int, moves: tuple[int, ...]
) -> RowRule:
    """The rule, of which `reads` and `kinds` are known of rows from `first` on."""
    at = [(place - first) % step for place in range(step)]
    turned = [_move(reads[k], moves, -((first + k) // step)) for k in at]
    return RowRule(moves, tuple(turned), tuple(kinds[k] for k in at))


def _is_within(reads: Reads, rule: Reads, moves: Iterable[int]) -> bool:
    """Whether rows that are read are among those of the rule; of operands that it does not move, all are there."""
    return all(
        a is None or not by or (b is not None and b[0] <= a[0] and a[1] <= b[1])
        for a, b, by in zip(reads, rule, moves, strict=True)
    )


def has_end_of_its_own(layer: Layer) -> bool:
    """Whether the last rows of a layer are not known from the rows that it reads: it sums up all, crops, or resizes by a
    fraction. Its last phase has to wait for the end of a stream.
    """
    mode = get_operator(layer).mode(layer)
    rule = find_row_rule(layer) if mode is Mode.ROWS else None
    if not isinstance(rule, RowRule):
        return mode is Mode.ACCUMULATE
    heights = [tensor.rows for tensor in layer.inputs if tensor is not None]
    behind = zip(rule.read(layer.output.rows), heights, strict=True)
    is_fraction = rule.step > 1 and max(rule.moves) > 1
    return is_fraction or all(one is None or one[1] <= height for one, height in behind)


# Of a network ------------------------------------------------------------------------------------


def widen_for_streams(network: Network) -> Network:
    """The network with layers that read by one rule, where it costs no more than rows that stay in memory for longer."""
    return replace(network, layers=tuple(repeat_positions(widen(one)) for one in network.layers))


def find_stream_obstacle(network: Network, taller: Network | None = None) -> Obstacle | None:
    """The first layer that keeps a network from streaming along the rows of its first input, or None, once it is widened
    (`widen_for_streams`).

    Layers that are too low to tell are taken to stream. taller: the same model, of another height.
    """
    network = widen_for_streams(network)
    others = network.layers if taller is None else widen_for_streams(taller).layers
    if [one.op_type for one in network.layers] != [one.op_type for one in others]:
        one = network.layers[0]
        return Obstacle(one.name, "is followed by other layers at another height", FIXED_HEIGHT)
    found = _Found(network)
    for layer, other in zip(network.layers, others, strict=True):
        reason = found.refuse(layer) or _compare(layer, other)
        if reason:
            return Obstacle(layer.name, reason, found.find_way_out(layer))
    return None


def find_change(network: Network, other: Network) -> Obstacle | None:
    """The first layer that computes rows otherwise in an image of another height, or None. other: the same model, whose
    layers stream.
    """
    layers = {one.name: one for one in network.layers}
    for layer in other.layers:
        reason = (
            _compare(layers[layer.name], layer)
            if layer.name in layers
            else "is not there at another height"
        )
        if reason:
            return Obstacle(layer.name, reason, FIXED_HEIGHT)
    return None


FIXED_HEIGHT = "plan images of one height instead"

_REDUCTIONS = ("Global", "Reduce", "QLinearGlobal", "GRU", "LSTM", "RNN", "Scan")
"""How names of operators begin whose results over all rows are no larger for more rows."""


class _Found:
    """What is known of tensors: of which are rows there, one after the other, and which are there at the end alone; others are
    there from the start.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.by_rows = {one.name for one in network.inputs if one.rows > 1}
        self.at_the_end: set[str] = set()

    def refuse(self, layer: Layer) -> str | None:
        """Why a layer does not stream; what it writes is known then."""
        operands = [one for one in layer.inputs if one is not None]
        outputs = {one.name for one in layer.outputs}
        names = {one.name for one in operands}
        if not names & self.by_rows:
            self.at_the_end |= outputs if names & self.at_the_end else set()
            return None
        for one in operands:
            if one.name in self.at_the_end:
                return f"needs '{one.name}', which is not known before the last row"
        return "is in a branch of an If" if layer.guards else self._refuse_rows(layer)

    def _refuse_rows(self, layer: Layer) -> str | None:
        operator = get_operator(layer)
        mode, outputs = operator.mode(layer), [one.name for one in layer.outputs]
        if mode is Mode.ACCUMULATE and layer.op_type.startswith(_REDUCTIONS):
            self.at_the_end |= {*outputs}
            return None
        if mode is not Mode.ROWS:
            return _WHOLE
        held = operator.held(layer)
        self.at_the_end |= {name for k, name in enumerate(outputs) if k in held}
        self.by_rows |= {name for k, name in enumerate(outputs) if k not in held}
        rule = find_row_rule(layer)
        if not isinstance(rule, RowRule):
            return rule
        moves = zip((one.name for one in layer.inputs if one is not None), rule.moves, strict=True)
        return _WHOLE if any(not by and name in self.by_rows for name, by in moves) else None

    def find_way_out(self, layer: Layer) -> str:
        """What can be done instead."""
        inputs = {one.name for one in self.network.inputs}
        before = [one.name for one in layer.inputs if one and one.name in self.by_rows - inputs]
        if not before:
            return FIXED_HEIGHT
        return f"cut the model behind '{before[0]}' (onnx.utils.extract_model), or {FIXED_HEIGHT}"


def _compare(layer: Layer, other: Layer) -> str | None:
    """What depends on the height in two layers that are one in images of two heights."""
    if layer is other:
        return None
    pairs = zip((layer, *layer.epilogue), (other, *other.epilogue), strict=True)
    if any(_settings(a) != _settings(b) or _constants_differ(a, b) for a, b in pairs):
        return "has constants or settings that depend on the height"
    rule, taller = find_row_rule(layer), find_row_rule(other)
    if not isinstance(taller, RowRule):
        return taller
    same = rule == taller or _follows(layer, taller)  # of few rows, another rule may be seen
    return None if same else "reads other rows at another height"


def _follows(layer: Layer, rule: RowRule) -> bool:
    """Whether a layer of a low image computes all rows by a rule for which it is known that they can be, because what they read
    by it is there.
    """
    heights = [one.rows for one in layer.inputs if one is not None]
    for row in range(layer.output.rows):
        reads = rule.read(row)
        operands = zip(reads, rule.moves, heights, strict=True)
        there = all(one is None or not by or one[1] <= height for one, by, height in operands)
        within = _is_within(read_rows(layer, row), reads, rule.moves)
        if there and not (within and _find_kinds(layer, row) == rule.kinds[row % rule.step]):
            return False
    return True


def _settings(layer: Layer) -> dict[str, Any]:
    """Attributes that are no sizes."""
    return {
        name: value
        for name, value in layer.attributes.items()
        if isinstance(value, str | float)
        or (isinstance(value, tuple) and value and all(isinstance(x, float) for x in value))
    }


def _constants_differ(a: Layer, b: Layer) -> bool:
    return a.constants.keys() != b.constants.keys() or any(
        not _are_equal(one, b.constants[k]) for k, one in a.constants.items()
    )


def _are_equal(one: Any, other: Any) -> bool:
    """Whether constants are equal; those that are made alike of the same bytes of a file are not read for it."""
    if not isinstance(one, np.ndarray | Deferred):
        return type(one) is type(other) and bool(one == other)
    if isinstance(one, Deferred):
        alike = isinstance(other, Deferred) and one.make is other.make
        alike = alike and len(one.given) == len(other.given)
        same = alike and all(map(_are_equal, one.given, other.given))
    else:
        there = isinstance(other, np.ndarray)
        same = there and one.__array_interface__ == other.__array_interface__
    return same or np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
