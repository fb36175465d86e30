"""Which Scans become one layer, whose rows are turns? Those forwards, of a body that is a list of plain layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Tensor, filter_needed
from csdfgen.ops import get_operator
from csdfgen.ops.base import Mode, output_format
from csdfgen.ops.scan import Body, single_phase
from csdfgen.reading.onnx_graph import Operation

Known = Tensor | np.ndarray | None

Turn = Callable[[Sequence[Tensor], Sequence[str]], Sequence[Layer] | None]
"""(what the body reads, by position; names of its results) -> its layers; None where it has others."""


def scan_axis(
    operation: Operation, name: str, number: int, count: int, rank: int | None
) -> int | None:
    """The axis of one of `count` tensors (name: "input", "output") of a rank that a Scan scans or makes; None where it goes
    backwards, or has no such axis. rank None: of what is not wanted, 0.
    """
    found = []
    for what in ("axes", "directions"):
        given = operation.attributes.get(f"scan_{name}_{what}")
        if given is not None and len(given.ints) != count:
            return None
        found.append(0 if given is None else int(given.ints[number]))
    axis, backwards = found
    if backwards or (rank is not None and not -rank <= axis < rank):
        return None
    return 0 if rank is None else axis % rank


def _axes(operation: Operation, ranks: Sequence[int | None], name: str) -> list[int] | None:
    """The axes of all of them; None where one has none."""
    count = len(ranks)
    found = [scan_axis(operation, name, k, count, rank) for k, rank in enumerate(ranks)]
    axes = [axis for axis in found if axis is not None]
    return axes if len(axes) == count else None


def scan_layer(
    operation: Operation, operands: Sequence[Known], turn: Turn, fresh: Callable[[str], str]
) -> Layer | None:
    """The layer of a Scan; None for one that is to be written out. Whatever is wrong with it is found there, too.

    turn: makes the layers of the body. fresh: makes a name that no tensor has.
    """
    body = operation.attributes["body"].g if "body" in operation.attributes else None
    scanned = operation.attributes["num_scan_inputs"].i if body is not None else 0
    if body is None or operation.opset < 9 or not 1 <= scanned <= len(operands):
        return None
    count = len(operands) - scanned  # of states
    rows, begun = operands[count:], operands[:count]
    tensors = [one for one in rows if isinstance(one, Tensor)]
    made = len(body.output) - count
    if len(tensors) < scanned or len(body.input) != len(operands) or made < 0:
        return None
    axes = _axes(operation, [len(t.shape) for t in tensors], "input")
    if axes is None or len({t.shape[k] for t, k in zip(tensors, axes, strict=True)}) != 1:
        return None
    turns = tensors[0].shape[axes[0]]
    states = [_form(one) for one in begun if one is not None]
    slices = [
        replace(t, shape=(*t.shape[:k], *t.shape[k + 1 :]), row_axis=None)
        for t, k in zip(tensors, axes, strict=True)
    ]
    given = [
        replace(one, name=fresh(f"{operation.name}/{k}"))
        for k, one in enumerate((*states, *slices))
    ]
    ends = [fresh(f"{operation.name}:{k}") for k in range(len(body.output))]
    layers = turn(given, ends) if len(states) == count else None
    if layers is None or not all(map(_is_plain, layers)):
        return None
    outputs = [*operation.outputs, *[""] * len(ends)][: len(ends)]
    wanted = [*ends[:count], *(e for e, o in zip(ends[count:], outputs[count:], strict=True) if o)]
    layers = filter_needed(layers, wanted)
    forms = {t.name: t for layer in layers for t in layer.outputs}
    if any(end not in forms for end in wanted):
        return None
    if any(
        (forms[end].shape, forms[end].format) != (state.shape, state.format)
        for end, state in zip(ends, states, strict=False)
    ):
        return None
    out_axes = _axes(
        operation, [len(forms[e].shape) + 1 if e in forms else None for e in ends[count:]], "output"
    )
    if out_axes is None:
        return None
    sequences = [
        Tensor(o, (*forms[e].shape[:k], turns, *forms[e].shape[k:]), forms[e].format, k)
        for e, o, k in zip(ends[count:], outputs[count:], out_axes, strict=True)
        if o
    ]
    last = [
        replace(state, name=output or fresh(f"{operation.name}:state {k}"))
        for k, (state, output) in enumerate(zip(states, outputs, strict=False))
    ]
    return _layer(
        operation.name, tensors, axes, begun, given, layers, wanted, count, [*sequences, *last]
    )


def _form(operand: Tensor | np.ndarray) -> Tensor:
    """What a state is in the body."""
    if isinstance(operand, Tensor):
        return replace(operand, row_axis=None)
    return Tensor("", operand.shape, Format(operand.dtype.name))


def _is_plain(layer: Layer) -> bool:
    """Whether a layer of a body is computed in one go, by the kernel of its operator alone."""
    operator = get_operator(layer)
    if layer.guards or layer.epilogue or layer.stored is not None or "branch" in layer.attributes:
        return False
    same = operator.mode(layer) is not Mode.ACCUMULATE or operator.state(layer) == output_format(
        layer
    )
    tensors = (*layer.inputs, *layer.outputs)
    plain = all(t is None or t.format == Format(t.dtype) for t in tensors)
    return same and plain and single_phase(operator, layer) is not None


def _layer(
    name: str,
    tensors: Sequence[Tensor],
    axes: Sequence[int],
    begun: Sequence[Known],
    given: Sequence[Tensor],
    layers: Sequence[Layer],
    wanted: Sequence[str],
    count: int,
    outputs: Sequence[Tensor],
) -> Layer:
    """The layer, in whose body tensors have their numbers for names. given: states, then what is scanned."""
    made = {t.name for layer in layers for t in layer.outputs}
    inner = {t.name for t in given} | made
    captured = {
        t.name: t for layer in layers for t in layer.inputs if t is not None and t.name not in inner
    }
    order = [*(t.name for t in given[count:]), *(t.name for t in given[:count]), *captured]
    number = {one: k for k, one in enumerate(order)}
    for tensor in (t for layer in layers for t in layer.outputs):
        number[tensor.name] = len(number)

    def named(tensor: Tensor | None) -> Any:
        return None if tensor is None else replace(tensor, name=str(number[tensor.name]))

    body = tuple(
        replace(
            layer, inputs=tuple(map(named, layer.inputs)), outputs=tuple(map(named, layer.outputs))
        )
        for layer in layers
    )
    wiring = Body(
        tuple(tuple(None if t is None else number[t.name] for t in one.inputs) for one in layers),
        tuple(tuple(number[t.name] for t in one.outputs) for one in layers),
        tuple(number[one] for one in wanted[:count]),
        tuple(number[one] for one in wanted[count:]),
    )
    operands: list[Known] = [*tensors, *begun, *captured.values()]
    weights = {id(c): c for layer in layers for c in layer.constants.values()}
    operands += weights.values()
    inputs = tuple(one if isinstance(one, Tensor) else None for one in operands)
    return Layer(
        name,
        "Scan",
        inputs,
        tuple(outputs),
        MappingProxyType({"scan_axes": tuple(axes), "body": body, "wiring": wiring}),
        MappingProxyType({k: one for k, one in enumerate(operands) if isinstance(one, np.ndarray)}),
        (*axes, *[None] * (len(inputs) - len(axes))),
    )
