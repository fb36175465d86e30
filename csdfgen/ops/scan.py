"""Scan and Loop: rows are turns, the states go from phase to phase, as those of recurrent layers do.

Sources: https://onnx.ai/onnx/operators/onnx__Scan.html, https://onnx.ai/onnx/operators/onnx__Loop.html. The body is a list
of layers, each computed in one go for each turn. What they hand to each other is in the workspace, once for all turns; the
states are outputs that every phase updates (`Operator.held`). Where no result of the turns is used, the layer accumulates
over what it scans first. Backwards, and where a Loop makes no rows, it is computed whole. A Loop scans nothing; its number
and its condition are states like others. Which Scans and Loops become such layers is decided when a network is read
(`csdfgen.reading.scanned`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from types import MappingProxyType

import numpy as np

from csdfgen.errors import ModelError, PlanError
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops.base import (
    REQUIRED,
    Call,
    Emit,
    Mode,
    Operator,
    Phase,
    Scratch,
    Work,
    axis_height,
    phases,
)


@dataclass(frozen=True, slots=True)
class Body:
    """What wires the layers of a body. Values have numbers: the inputs of the Scan (what is scanned, the states, what is
    captured), then what the layers make.

    read: by layer the values that it reads, None for a constant. made: by layer those that it makes. states: the values
    that states get; results: the values that a turn adds to the outputs that are not states.
    backwards: of what is scanned, then of the results, whether turns go from the last row to the first. turns: of a Loop, None
    for any number; going: the number of the state by which it ends, if there is one.
    """

    read: tuple[tuple[int | None, ...], ...]
    made: tuple[tuple[int, ...], ...]
    states: tuple[int, ...]
    results: tuple[int, ...]
    backwards: tuple[bool, ...] = ()
    turns: int | None = None
    going: int | None = None


def _build(node: Node) -> Layer:
    raise ModelError("a Scan is built with its body")


def single_phase(operator: Operator, layer: Layer) -> Phase | None:
    """The only phase of a layer that is computed in one go; None if there are several."""
    tensors = zip(layer.inputs, layer.input_axes, strict=True)
    tallest = max((axis_height(t, axis) for t, axis in tensors if t is not None), default=1)
    found = phases(operator, layer, max(tallest, layer.output.rows))
    return found[0] if len(found) == 1 else None


# Rows ---------------------------------------------------------------------------------------------


def _mode(layer: Layer) -> Mode:
    wiring = layer.attributes["wiring"]
    if any(wiring.backwards) or not (wiring.results or layer.attributes["scan_axes"]):
        return Mode.WHOLE
    return Mode.ROWS if wiring.results else Mode.ACCUMULATE


def _states(layer: Layer) -> range:
    """Positions of what the states begin with."""
    scanned = len(layer.attributes["scan_axes"])
    return range(scanned, scanned + len(layer.attributes["wiring"].states))


def _input_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    """The first phase alone reads what the states begin with; all read what the body captures."""
    found = [None if t is None else Rows(0, 1) for t in layer.inputs]
    by_rows = _mode(layer) is Mode.ROWS
    for position in _states(layer):
        if by_rows and out.start and found[position] is not None:
            found[position] = Rows(1, 1)
    for position, axis in enumerate(layer.attributes["scan_axes"]):
        tensor = layer.computed(position)
        found[position] = out if by_rows else Rows(0, tensor.shape[axis])
    return tuple(found)


def _held(layer: Layer) -> frozenset[int]:
    """The states; those of a layer that accumulates, or is computed whole, are outputs like any other."""
    results = len(layer.attributes["wiring"].results)
    return frozenset(range(results, len(layer.outputs)) if _mode(layer) is Mode.ROWS else ())


_SUPPOSED = 16
"""Turns of a Loop that ends by its condition alone, where costs are compared."""


def _turns(layer: Layer, out: Rows) -> int:
    if _mode(layer) is Mode.ROWS:
        return len(out)
    axes, turns = layer.attributes["scan_axes"], layer.attributes["wiring"].turns
    return layer.computed(0).shape[axes[0]] if axes else _SUPPOSED if turns is None else turns


def _cost(layer: Layer, out: Rows) -> int:
    """Multiply-accumulates of the body's products; of a body without any, its elements."""
    work = {True: 0, False: 0}
    for one in layer.attributes["body"]:
        operator = _operator(one)
        work[operator.multiplies] += operator.cost(one, Rows(0, one.output.rows))
    return _turns(layer, out) * max(1, work[True] or work[False])


# The kernel ---------------------------------------------------------------------------------------


def run_turns(
    turns: int | None,
    going: np.ndarray | None,
    before: Sequence[Call],
    body: Sequence[Call],
    behind: Sequence[Call],
) -> None:
    """The prepared call of turns. before, behind: copies of a row of each turn into an array, or of an array into a row, as
    (function, (target, source)), where rows have one axis more, of the turns.
    """
    for number in count() if turns is None else range(turns):
        if going is not None and not going.any():
            return
        for function, (target, rows) in before:
            function(target, rows[number])
        for function, arguments in body:
            function(*arguments)
        for function, (rows, source) in behind:
            function(rows[number, ...], source)


ENDS_ELSEWHERE = "such loops run on the processor; take backend native or numpy"


def unroll_turns(call: Call) -> Iterator[Call]:
    """The calls of turns, one after the other. Raises PlanError for turns whose number is not known."""
    turns, going, before, body, behind = call[1]
    if turns is None or going is not None:
        raise PlanError(f"an inner loop has a computed number of turns; {ENDS_ELSEWHERE}")
    for number in range(turns):
        yield from ((f, (target, rows[number])) for f, (target, rows) in before)
        yield from body
        yield from ((f, (rows[number, ...], source)) for f, (rows, source) in behind)


def _operator(layer: Layer) -> Operator:
    from csdfgen.ops import get_operator  # the table has this operator, too

    return get_operator(layer)


EmitInner = Callable[[Work, Sequence[np.ndarray | None]], Iterable[Call]]
"""(what the kernel of a layer of a body works with, the values that it reads in ONNX order) -> its calls."""


def emit_inner(layer: Layer) -> EmitInner:
    """Emits the calls of the operator of a layer of a body."""
    kernel = _operator(layer).kernel(layer)
    return lambda work, values: kernel(work)


class _Pool:
    """Arrays of the workspace: one that nobody reads any more is used again for a result that is as large."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._free: dict[int, list[np.ndarray]] = {}
        self._taken: dict[int, np.ndarray] = {}

    def take(self, number: int, tensor: Tensor) -> np.ndarray:
        """An array for a value, in the order in which its tensor is stored."""
        free = self._free.setdefault(tensor.nbytes, [])
        raw = free.pop() if free else self._scratch.take((tensor.nbytes,), "uint8")
        self._taken[number] = raw
        return raw.view(tensor.dtype).reshape(tensor.storage_shape)

    def give(self, number: int) -> None:
        """Nobody reads a value any more."""
        if number in self._taken:
            raw = self._taken.pop(number)
            self._free[raw.nbytes].append(raw)


@dataclass(frozen=True, slots=True)
class _Part:
    """A layer of the body. ends: values that nobody reads behind it."""

    layer: Layer
    emit: EmitInner
    phase: Phase
    read: tuple[int | None, ...]
    made: tuple[int, ...]
    ends: tuple[int, ...]


def _parts(layer: Layer, inner: Callable[[Layer], EmitInner]) -> tuple[_Part, ...]:
    body, wiring = layer.attributes["body"], layer.attributes["wiring"]
    last = {v: k for k, read in enumerate(wiring.read) for v in read if v is not None}
    last.update({v: k for k, made in enumerate(wiring.made) for v in made if v not in last})
    kept = {*wiring.states, *wiring.results}
    found = []
    for k, (one, read, made) in enumerate(zip(body, wiring.read, wiring.made, strict=True)):
        phase = single_phase(_operator(one), one)
        assert phase is not None
        ends = tuple(v for v, at in last.items() if at == k and v not in kept)
        found.append(_Part(one, inner(one), phase, read, made, ends))
    return tuple(found)


def make_kernel(layer: Layer, inner: Callable[[Layer], EmitInner] = emit_inner) -> Emit:
    """One call of all turns of a phase, with those of the body's layers and copies of new states over the old ones. inner: what
    emits those of a layer of the body.
    """
    parts, wiring, axes = (
        _parts(layer, inner),
        layer.attributes["wiring"],
        layer.attributes["scan_axes"],
    )
    begun, inputs, made = _states(layer), layer.inputs, len(wiring.results)

    def turn(values: dict[int, np.ndarray], pool: _Pool, scratch: Scratch) -> Iterator[Call]:
        for part in parts:
            arrays = []
            for number, tensor in zip(part.made, part.layer.outputs, strict=True):
                arrays.append(pool.take(number, tensor))
                values[number] = tensor.to_onnx(arrays[-1])
            given = [None if v is None else values[v] for v in part.read]
            layer, phase, mark = part.layer, part.phase, scratch.mark
            slabs = [
                None if v is None else value_slab(layer, k, v, phase) for k, v in enumerate(given)
            ]
            yield from part.emit(Work(phase, slabs, arrays, scratch), given)
            scratch.rewind(mark)
            for number in part.ends:
                pool.give(number)

    def emit(work: Work) -> Iterator[Call]:
        scratch = work.scratch
        scratch.indivisible = True  # a turn takes what it takes
        states = [array[0, ...] for array in work.results[made:]]  # of a scalar, too
        if work.phase.first:
            for position, state in zip(begun, states, strict=True):
                slab = work.slabs[position]
                begin = layer.constants[position] if slab is None else slab[0, ...]
                yield np.copyto, (state, begin)
        captured = ((k, work.slabs[k]) for k in range(begun.stop, len(inputs)))
        values = {k: slab[0, ...] for k, slab in captured if slab is not None}
        values.update(zip(begun, states, strict=True))
        pool, backwards = _Pool(scratch), iter(wiring.backwards or (False,) * (len(axes) + made))
        turns = len(work.held) if axes else len(work.phase.out) if made else wiring.turns
        before: list[Call] = []
        for k, axis in enumerate(axes):
            slab, start = work.slabs[k], work.held.start - work.phase.held(k).start
            assert slab is not None
            rows = _by_turn(inputs[k], axis, slab[start : start + turns], next(backwards))
            tensor = replace(layer.computed(k), shape=rows.shape[1:], row_axis=None)
            values[k] = tensor.to_onnx(pool.take(k, tensor))
            before.append((np.copyto, (values[k], rows)))
        body = [*turn(values, pool, scratch)]
        body += [(np.copyto, (s, values[v])) for s, v in zip(states, wiring.states, strict=True)]
        behind: list[Call] = []
        for tensor, value, array in zip(layer.outputs, wiring.results, work.results, strict=False):
            rows = _by_turn(tensor, tensor.row_axis, array, next(backwards))
            behind.append((np.copyto, (rows, values[value])))
        going = None if wiring.going is None else states[wiring.going]
        yield run_turns, (turns, going, before, body, behind)

    return emit


def _by_turn(
    tensor: Tensor | None, axis: int | None, rows: np.ndarray, backwards: bool
) -> np.ndarray:
    """View of rows along an axis with that axis first, the others in ONNX order, in the order of the turns."""
    assert tensor is not None and axis is not None
    found = np.moveaxis(replace(tensor, row_axis=axis).to_onnx(rows), axis, 0)
    return found[::-1] if backwards else found


def value_slab(layer: Layer, position: int, value: np.ndarray, phase: Phase) -> np.ndarray | None:
    """What the only phase of a layer reads of a value in ONNX order."""
    tensor, rows = layer.inputs[position], phase.ins[position]
    if tensor is None or rows is None:
        return None
    along = replace(tensor, row_axis=layer.input_axes[position])
    return along.to_storage(value)[rows.start : rows.stop]


_SCAN = Operator(
    "Scan",
    build=_build,
    input_rows=_input_rows,
    kernel=make_kernel,
    cost=_cost,
    since=9,
    mode=_mode,
    held=_held,
    shift_invariant=True,
    attributes=MappingProxyType(
        {
            "body": REQUIRED,
            "num_scan_inputs": REQUIRED,
            "scan_input_axes": None,
            "scan_input_directions": None,
            "scan_output_axes": None,
            "scan_output_directions": None,
        }
    ),
    structure="row-phased along the scanned axis; accumulating if only the last states are read; whole if backwards",
    notes="Each phase updates the states. A body whose layers take several phases is unrolled when the model is loaded.",
    multiplies=True,
)

OPERATORS: tuple[Operator, ...] = (
    _SCAN,
    replace(
        _SCAN,
        op_type="Loop",
        since=7,
        attributes=MappingProxyType({"body": REQUIRED}),
        structure="row-phased along what the turns make; whole if only the last states are read",
        notes="Ends early by a computed condition, or after a computed number of turns, if only the last states are read. Few "
        "turns of a known number are unrolled when the model is loaded.",
    ),
)
