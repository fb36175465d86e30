"""Which Scans and Loops become one layer, whose rows are turns? Those of a body that is a list of plain layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node, Tensor, filter_needed
from csdfgen.ops import OPERATORS, get_operator
from csdfgen.ops.base import Mode, output_format
from csdfgen.ops.scan import Body, single_phase
from csdfgen.reading.onnx_graph import Operation

Known = Tensor | np.ndarray | None

Turn = Callable[[Sequence[Tensor], Sequence[str]], list[Layer]]
"""(what the body reads, by position; names of its results) -> its layers. Raises ModelError where it has none."""

Make = Callable[..., Tensor]
"""(operator, *operands) -> what a layer makes of them."""


def scan_axis(
    operation: Operation, name: str, number: int, count: int, rank: int | None
) -> tuple[int, bool] | None:
    """The axis of one of `count` tensors (name: "input", "output") of a rank that a Scan scans or makes, and whether it goes
    backwards; None where it has no such axis. rank None: of what is not wanted, 0.
    """
    found = []
    for what in ("axes", "directions"):
        given = operation.attributes.get(f"scan_{name}_{what}")
        if given is not None and len(given.ints) != count:
            return None
        found.append(0 if given is None else int(given.ints[number]))
    axis, backwards = found
    if rank is not None and not -rank <= axis < rank:
        return None
    return (0 if rank is None else axis % rank), bool(backwards)


def _axes(operation: Operation, ranks: Sequence[int | None], name: str) -> list[tuple[int, bool]]:
    """The axes and directions of all of them."""
    count = len(ranks)
    found = [scan_axis(operation, name, k, count, rank) for k, rank in enumerate(ranks)]
    axes = [axis for axis in found if axis is not None]
    if len(axes) < count:
        raise ModelError("an axis is not there")
    return axes


@dataclass(frozen=True, slots=True)
class _Operand:
    """A state, or rows along an axis. known: what it begins with, or the rows. given: what it is in the body. end: the name of
    what a turn makes of a state; output: that of its output, "" for none.
    """

    known: Tensor | np.ndarray
    given: Tensor
    end: str = ""
    output: str = ""
    axis: int | None = None


_Result = tuple[str, str, int]
"""Name of what a turn makes, of the output that it is a part of, and the axis of turns there."""


def scan_layer(
    operation: Operation, operands: Sequence[Known], turn: Turn, fresh: Callable[[str], str]
) -> Layer:
    """The layer of a Scan. Raises ModelError for one that is to be written out; whatever is wrong with it is found there, too.

    turn: makes the layers of the body. fresh: makes a name that no tensor has.
    """
    body = operation.attributes["body"].g if "body" in operation.attributes else None
    scanned = operation.attributes["num_scan_inputs"].i if body is not None else 0
    if body is None or operation.opset < 9 or not 1 <= scanned <= len(operands):
        raise ModelError("it is none")
    count = len(operands) - scanned  # of states
    tensors = [one for one in operands[count:] if isinstance(one, Tensor)]
    if len(tensors) < scanned or len(body.input) != len(operands) or len(body.output) < count:
        raise ModelError("it scans constants")
    axes = _axes(operation, [len(t.shape) for t in tensors], "input")
    turns = {t.shape[k] for t, (k, _) in zip(tensors, axes, strict=True)}
    if len(turns) != 1:
        raise ModelError("it scans different numbers of rows")
    rows = []
    for tensor, (k, _) in zip(tensors, axes, strict=True):
        shape = (*tensor.shape[:k], *tensor.shape[k + 1 :])
        row = replace(tensor, name=fresh(f"{operation.name}/row"), shape=shape, row_axis=None)
        rows.append(_Operand(tensor, row, axis=k))
    given = [_given(one, fresh(f"{operation.name}/state")) for one in operands[:count]]
    ends = [fresh(f"{operation.name}:{k}") for k in range(len(body.output))]
    layers = turn([*given, *(one.given for one in rows)], ends)
    outputs = [*operation.outputs, *[""] * len(ends)][: len(ends)]
    forms = {t.name: t for layer in layers for t in layer.outputs}
    ranks = [len(forms[end].shape) + 1 if end in forms else None for end in ends[count:]]
    along = zip(ends[count:], outputs[count:], _axes(operation, ranks, "output"), strict=True)
    made = [((end, o, axis), back) for end, o, (axis, back) in along if o]
    backwards = (*(back for _, back in axes), *(back for _, back in made))
    states = [*map(_state, operands, given, ends, outputs)]
    wiring = Body((), (), (), (), backwards, *turns)
    return _layer(operation, states, rows, [one for one, _ in made], layers, wiring, fresh)


def loop_layer(
    operation: Operation,
    operands: Sequence[Known],
    turn: Turn,
    fresh: Callable[[str], str],
    make: Make,
    passes: bool,
) -> Layer:
    """The layer of a Loop, see `scan_layer`. The number of its turn is a state, if that is read, and so is whether it goes on, if
    that is computed. make: makes layers before it. passes: whether its body hands its condition on.
    """
    count, condition, *begun = [*operands, None, None][: max(2, len(operands))]
    body = operation.attributes["body"].g
    if len(body.input) != 2 + len(begun) or len(body.output) < 1 + len(begun):
        raise ModelError(f"it gives {len(begun)} states to a body of {len(body.input)} inputs")
    if any(one is not None and _given(one, "").elements != 1 for one in (count, condition)):
        raise ModelError("its number of turns or its condition is not one value")
    turns = None if isinstance(count, Tensor | None) else int(count.item())
    going, number = (
        Tensor(fresh("going"), (), Format("bool")),
        Tensor(fresh("turn"), (), Format("int64")),
    )
    given = [_given(one, fresh(f"{operation.name}/state")) for one in begun]
    ends = [fresh(f"{operation.name}:{k}") for k in range(len(body.output))]
    layers = turn([number, going, *given], ends)

    def add(op_type: str, *read: Known) -> Tensor:
        name = fresh(f"{operation.name}/{op_type}")
        layers.append(OPERATORS[op_type].build(Node(name, op_type, 14, {}, read, (name,))))
        return layers[-1].output

    def join(one: Tensor | None, other: Tensor | None, make: Make) -> Tensor | None:
        """Whether both say so; None: always."""
        scalars = [
            t if not t.shape else make("Reshape", t, np.empty(0, np.int64))
            for t in (one, other)
            if t is not None
        ]
        return make("And", *scalars) if len(scalars) > 1 else next(iter(scalars), None)

    begins = condition if isinstance(condition, Tensor) else None
    if turns == 0 or (isinstance(condition, np.ndarray) and not condition.item()):
        raise ModelError("it has no turns")
    makers = {t.name: layer for layer in layers for t in layer.outputs}
    last = makers.get(ends[0])
    always = last is not None and last.op_type == "Constant" and bool(last.constants[0].all())
    goes_on = last.output if last and (begins is not None or not (passes or always)) else None
    ahead = add("Add", number, np.array(1))
    if isinstance(count, Tensor):
        begins = join(make("Greater", count, np.zeros((), count.dtype)), begins, make)
        goes_on = join(add("Less", ahead, count), goes_on, add)
    elif goes_on is not None:
        goes_on = join(goes_on, None, add)
    if turns is None and goes_on is None:
        raise ModelError("it never ends")
    outputs = [*operation.outputs, *[""] * len(ends)][: len(ends) - 1]
    if (goes_on is not None or turns is None) and any(outputs[len(begun) :]):
        raise ModelError(
            "it makes as many rows as it has turns, which are counted at run time; remove its outputs of all turns, or fix their "
            "number"
        )
    states = [*map(_state, begun, given, ends[1:], outputs)]
    made = [
        (end, o, 0)
        for end, o in zip(ends[1 + len(begun) :], outputs[len(begun) :], strict=True)
        if o
    ]
    at = len(states) if goes_on is not None else None
    if goes_on is not None:
        states.append(_Operand(np.array(True) if begins is None else begins, going, goes_on.name))
    needed = filter_needed(layers, [*(one.end for one in states), *(end for end, _, _ in made)])
    if any(t is not None and t.name == number.name for layer in needed for t in layer.inputs):
        states.append(_Operand(np.array(0), number, ahead.name))
    return _layer(operation, states, [], made, layers, Body((), (), (), (), (), turns, at), fresh)


def _state(begin: Known, given: Tensor, end: str, output: str) -> _Operand:
    assert begin is not None
    return _Operand(begin, given, end, output)


def _given(operand: Known, name: str) -> Tensor:
    """What a state is in the body."""
    if operand is None:
        raise ModelError("a state begins with nothing")
    if isinstance(operand, Tensor):
        return replace(operand, name=name, row_axis=None)
    return Tensor(name, operand.shape, Format(operand.dtype.name))


def _plain(layer: Layer) -> Layer:
    """A layer of a body, which is computed in one go by the kernel of its operator alone. Both branches of an If are computed."""
    attributes = {k: v for k, v in layer.attributes.items() if k != "branch"}
    found = replace(layer, guards=(), attributes=MappingProxyType(attributes))
    operator = get_operator(found)
    same = operator.mode(found) is not Mode.ACCUMULATE or operator.state(found) == output_format(
        found
    )
    tensors = (*found.inputs, *found.outputs)
    plain = all(t is None or t.format == Format(t.dtype) for t in tensors)
    ends = (
        not layer.guards or found.op_type != "Loop" or found.attributes["wiring"].turns is not None
    )
    one = found.stored is None and not found.epilogue and single_phase(operator, found) is not None
    if not (same and plain and ends and one):
        raise ModelError(f"'{layer.name}' ({layer.op_type}) is not computed in one go")
    return found


def _layer(
    operation: Operation,
    states: Sequence[_Operand],
    rows: Sequence[_Operand],
    results: Sequence[_Result],
    layers: Sequence[Layer],
    wiring: Body,
    fresh: Callable[[str], str],
) -> Layer:
    """The layer, in whose body tensors have their numbers for names."""
    ends = [*(one.end for one in states), *(end for end, _, _ in results)]
    layers = [*map(_plain, filter_needed(layers, ends))]
    forms = {t.name: t for layer in layers for t in layer.outputs}
    if any(end not in forms or not forms[end].elements for end in ends):
        raise ModelError("a turn makes nothing of it")
    for one in states:
        form = forms[one.end]
        if (form.shape, form.format) != (one.given.shape, one.given.format):
            shapes = ("x".join(map(str, t.shape)) or "a scalar" for t in (one.given, form))
            raise ModelError("a state is {} before a turn and {} behind it".format(*shapes))
    given = [one.given.name for one in (*rows, *states)]
    inner = {*given, *forms}
    read = (t for layer in layers for t in layer.inputs if t is not None)
    captured = {t.name: t for t in read if t.name not in inner}
    number = {name: k for k, name in enumerate((*given, *captured, *forms))}

    def numbers(tensors: Sequence[Tensor | None]) -> tuple[Any, ...]:
        return tuple(None if t is None else number[t.name] for t in tensors)

    def named(tensors: Sequence[Tensor | None]) -> tuple[Any, ...]:
        return tuple(t and replace(t, name=str(number[t.name])) for t in tensors)

    body = tuple(
        replace(one, inputs=named(one.inputs), outputs=named(one.outputs)) for one in layers
    )
    wiring = replace(
        wiring,
        read=tuple(numbers(one.inputs) for one in layers),
        made=tuple(numbers(one.outputs) for one in layers),
        states=tuple(number[end] for end in ends[: len(states)]),
        results=tuple(number[end] for end in ends[len(states) :]),
    )
    weights = {id(c): c for layer in layers for c in layer.constants.values()}
    operands = [*(one.known for one in (*rows, *states)), *captured.values(), *weights.values()]
    inputs = tuple(one if isinstance(one, Tensor) else None for one in operands)
    outputs = []
    for end, output, k in results:
        shape, form_of = list(forms[end].shape), forms[end].format
        shape.insert(k, wiring.turns)  # type: ignore[arg-type]  # else there are no results
        outputs.append(Tensor(output, tuple(shape), form_of, k))
    lasts = (one.output or fresh(f"{operation.name}:state") for one in states)
    outputs += [replace(one.given, name=name) for one, name in zip(states, lasts, strict=True)]
    axes = tuple(one.axis for one in rows)
    return Layer(
        operation.name,
        operation.op_type,
        inputs,
        tuple(outputs),
        MappingProxyType({"scan_axes": axes, "body": body, "wiring": wiring}),
        MappingProxyType({k: one for k, one in enumerate(operands) if isinstance(one, np.ndarray)}),
        (*axes, *[None] * (len(inputs) - len(axes))),
    )
