"""Scan: rows are turns, the states go from phase to phase, as those of recurrent layers do.

Source: https://onnx.ai/onnx/operators/onnx__Scan.html. The body is a list of layers, each computed in one go for each
turn. What they hand to each other is in the workspace; the states are outputs that every phase updates
(`Operator.held`). Where no result of the turns is used, the layer accumulates over what it scans first. Which Scans
become such layers is decided when a network is read (`csdfgen.reading.scanned`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from csdfgen.errors import ModelError
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
    """

    read: tuple[tuple[int | None, ...], ...]
    made: tuple[tuple[int, ...], ...]
    states: tuple[int, ...]
    results: tuple[int, ...]


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
    return Mode.ROWS if layer.attributes["wiring"].results else Mode.ACCUMULATE


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
    """The states; those of a layer that accumulates are outputs like any other."""
    results = len(layer.attributes["wiring"].results)
    return frozenset(range(results, len(layer.outputs)) if results else ())


def _turns(layer: Layer, out: Rows) -> int:
    if _mode(layer) is Mode.ROWS:
        return len(out)
    return layer.computed(0).shape[layer.attributes["scan_axes"][0]]


def _cost(layer: Layer, out: Rows) -> int:
    """Multiply-accumulates of the body's products; of a body without any, its elements."""
    work = {True: 0, False: 0}
    for one in layer.attributes["body"]:
        operator = _operator(one)
        work[operator.multiplies] += operator.cost(one, Rows(0, one.output.rows))
    return _turns(layer, out) * max(1, work[True] or work[False])


# The kernel ---------------------------------------------------------------------------------------


def _operator(layer: Layer) -> Operator:
    from csdfgen.ops import get_operator  # the table has this operator, too

    return get_operator(layer)


class _Pool:
    """Arrays of the workspace: one that nobody reads any more is used again for a result that is as large."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._free: dict[int, list[np.ndarray]] = {}

    def take(self, tensor: Tensor) -> np.ndarray:
        """An array of a tensor's shape, in the order in which it is stored, and its bytes."""
        free = self._free.setdefault(tensor.nbytes, [])
        return free.pop() if free else self._scratch.take((tensor.nbytes,), "uint8")

    def give(self, raw: np.ndarray) -> None:
        self._free[raw.nbytes].append(raw)


@dataclass(frozen=True, slots=True)
class _Part:
    """A layer of the body. ends: values that nobody reads behind it."""

    layer: Layer
    emit: Emit
    phase: Phase
    read: tuple[int | None, ...]
    made: tuple[int, ...]
    ends: tuple[int, ...]


def _parts(layer: Layer) -> tuple[_Part, ...]:
    body, wiring = layer.attributes["body"], layer.attributes["wiring"]
    last = {v: k for k, read in enumerate(wiring.read) for v in read if v is not None}
    last.update({v: k for k, made in enumerate(wiring.made) for v in made if v not in last})
    kept = {*wiring.states, *wiring.results}
    found = []
    for k, (one, read, made) in enumerate(zip(body, wiring.read, wiring.made, strict=True)):
        phase = single_phase(_operator(one), one)
        assert phase is not None
        ends = tuple(v for v, at in last.items() if at == k and v not in kept)
        found.append(_Part(one, _operator(one).kernel(one), phase, read, made, ends))
    return tuple(found)


def _kernel(layer: Layer) -> Emit:
    """The calls of each turn: those of the body's layers, and copies of the new states over the old ones."""
    parts, wiring, axes = _parts(layer), layer.attributes["wiring"], layer.attributes["scan_axes"]
    begun, count = _states(layer), len(layer.inputs)

    def turn(
        values: dict[int, np.ndarray], results: Mapping[int, np.ndarray], scratch: Scratch
    ) -> Iterator[Call]:
        pool, raw = _Pool(scratch), dict[int, np.ndarray]()
        for part in parts:
            made = []
            for number, tensor in zip(part.made, part.layer.outputs, strict=True):
                if number in results:
                    values[number] = results[number]
                    made.append(tensor.to_storage(values[number]))
                    continue
                raw[number] = pool.take(tensor)
                made.append(raw[number].view(tensor.dtype).reshape(tensor.storage_shape))
                values[number] = tensor.to_onnx(made[-1])
            slabs = [
                None if v is None else value_slab(part.layer, k, values[v], part.phase)
                for k, v in enumerate(part.read)
            ]
            mark = scratch.mark
            yield from part.emit(Work(part.phase, slabs, made, scratch))
            scratch.rewind(mark)
            for number in part.ends:
                if number in raw:
                    pool.give(raw[number])

    def emit(work: Work) -> Iterator[Call]:
        scratch = work.scratch
        scratch.indivisible = True  # a turn takes what it takes
        made = len(wiring.results)
        states = [array[0, ...] for array in work.results[made:]]  # of a scalar, too
        if work.phase.first:
            for position, state in zip(begun, states, strict=True):
                slab = work.slabs[position]
                yield (
                    np.copyto,
                    (state, layer.constants[position] if slab is None else slab[0, ...]),
                )
        captured = range(begun.stop, count)
        slabs = ((k, work.slabs[k]) for k in captured)
        given = {k: slab[0, ...] for k, slab in slabs if slab is not None}
        given.update(zip(begun, states, strict=True))
        turns, mark = len(work.held), scratch.mark
        for number in range(1 if scratch.declares else turns):
            values = dict(given)
            for k, axis in enumerate(axes):
                slab, rows = work.slabs[k], work.phase.held(k)
                assert slab is not None
                place = number + work.held.start - rows.start
                values[k] = _turned(layer.inputs[k], axis, slab[place : place + 1])
            results: dict[int, np.ndarray] = {}
            for tensor, value, array in zip(
                layer.outputs, wiring.results, work.results, strict=False
            ):
                assert tensor.row_axis is not None
                results[value] = _turned(tensor, tensor.row_axis, array[number : number + 1])
            yield from turn(values, results, scratch)
            for state, value in zip(states, wiring.states, strict=True):
                yield np.copyto, (state, values[value])
            scratch.rewind(mark)

    return emit


def _turned(tensor: Tensor | None, axis: int, row: np.ndarray) -> np.ndarray:
    """View of one row along an axis in ONNX order, without the axis."""
    assert tensor is not None
    return replace(tensor, row_axis=axis).to_onnx(row)[(slice(None),) * axis + (0, ...)]


def value_slab(layer: Layer, position: int, value: np.ndarray, phase: Phase) -> np.ndarray | None:
    """What the only phase of a layer reads of a value in ONNX order."""
    tensor, rows = layer.inputs[position], phase.ins[position]
    if tensor is None or rows is None:
        return None
    along = replace(tensor, row_axis=layer.input_axes[position])
    return along.to_storage(value)[rows.start : rows.stop]


OPERATORS: tuple[Operator, ...] = (
    Operator(
        "Scan",
        build=_build,
        input_rows=_input_rows,
        kernel=_kernel,
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
        structure="row-phased along the scanned axis; accumulating if only the last states are read",
        notes="Each phase updates the states. A backward Scan, or one with branches, is unrolled when the model is loaded.",
        multiplies=True,
    ),
)
