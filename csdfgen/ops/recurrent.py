"""LSTM, GRU, RNN: rows are time steps, the state goes from phase to phase.

Source: https://onnx.ai/onnx/operators/onnx__LSTM.html (and GRU, RNN). The last hidden and cell
values, Y_h and Y_c, are outputs that every phase updates (`Operator.held`): a forward layer needs
the rows of one slab and its state, however long the sequence is. Without Y the layer accumulates
over its input. Backwards in time a layer needs its whole input; a layer of both directions is one
of each, whose results a Concat joins (`parts`), so that the forward one keeps to its slabs.

An LSTM of bytes, which `ops.dynamic` makes, reads what the inputs add to the gates (it has no W), and multiplies hidden
values, quantized by their range in every step, with integers R.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node, Shape, Tensor, memoize_layer
from csdfgen.model.rows import Rows
from csdfgen.ops._operands import check_word, node_layer
from csdfgen.ops.activation import OPERATORS as ACTIVATIONS
from csdfgen.ops.base import (
    Call,
    CountingScratch,
    Mode,
    Operator,
    Phase,
    Scratch,
    Work,
    make_phase_kernel,
    require_constant,
)
from csdfgen.ops.joining import OPERATORS as JOINING
from csdfgen.ops.quantized_products import OPERATORS as PRODUCTS
from csdfgen.ops.quantizing import OPERATORS as QUANTIZING
from csdfgen.ops.reducing import constant, data_input
from csdfgen.ops.scan import single_phase, value_slab

X, W, R, B, LENGTHS, INITIAL_H, INITIAL_C, PEEPHOLES, R_SCALE, R_ZERO = range(10)
"""Positions of the inputs. The last two are of an LSTM of bytes, one value or one for each gate and hidden value."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """gates: of the operator, in ONNX's order of their weights. functions: the default activations.
    states: hidden values, and cell values.
    """

    gates: int
    functions: tuple[str, ...]
    states: int = 1


_KINDS: Mapping[str, _Kind] = MappingProxyType(
    {
        "LSTM": _Kind(4, ("Sigmoid", "Tanh", "Tanh"), states=2),
        "GRU": _Kind(3, ("Sigmoid", "Tanh")),
        "RNN": _Kind(1, ("Tanh",)),
    }
)

_DIRECTIONS = ("forward", "reverse", "bidirectional")

_PARAMETERS: Mapping[str, tuple[float | None, float | None]] = MappingProxyType(
    {
        "Affine": (1.0, 0.0),
        "Elu": (1.0, None),
        "HardSigmoid": (0.2, 0.5),
        "LeakyRelu": (0.01, None),
        "Relu": (None, None),
        "ScaledTanh": (1.0, 1.0),
        "Sigmoid": (None, None),
        "Softplus": (None, None),
        "Softsign": (None, None),
        "Tanh": (None, None),
        "ThresholdedRelu": (1.0, None),
    }
)
"""Activation -> its default alpha and beta, None where it has none."""

_AMBIGUOUS = ("Affine", "ScaledTanh", "ThresholdedRelu")
"""Activations for which onnxruntime takes 0 instead of these defaults, which the operators of ONNX have."""


@dataclass(frozen=True, slots=True)
class Function:
    """An activation of a gate with its parameters."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0


# Building -----------------------------------------------------------------------------------------


def _functions(node: Node, count: int) -> tuple[Function, ...]:
    """The activations of a node, `count` of them. Values of alpha and beta go, in their order, to the
    activations that have one.
    """
    given = node.attributes.get("activations")
    default = _KINDS[node.op_type].functions
    names = list(given) if given else [*default] * (count // len(default))
    if len(names) != count:
        raise ModelError(f"'activations' has {len(names)} names, {count} are needed")
    known = {name.lower(): name for name in _PARAMETERS}
    alphas, betas = (list(node.attributes.get(f"activation_{k}") or ()) for k in ("alpha", "beta"))
    found = []
    for asked in names:
        name = known.get(asked.lower())
        if name is None:
            raise ModelError(f"activation '{asked}' is not one of {', '.join(_PARAMETERS)}")
        alpha, beta = _PARAMETERS[name]
        for key, value, values in (("alpha", alpha, alphas), ("beta", beta, betas)):
            if name in _AMBIGUOUS and value and not values:
                raise ModelError(
                    f"activation '{name}' has no {key}, which is {value:g} in ONNX and 0 in onnxruntime; give "
                    f"activation_{key} when the model is exported"
                )
        if alpha is not None and alphas:
            alpha = float(alphas.pop(0))
        if beta is not None and betas:
            beta = float(betas.pop(0))
        found.append(Function(name, alpha or 0.0, beta or 0.0))
    return tuple(found)


def _checked(node: Node, position: int, what: str, shape: Shape, dtype: str) -> None:
    operand = node.operand(position)
    if operand is None:
        return
    if operand.shape != shape or str(operand.dtype) != dtype:
        raise ModelError(
            f"input {position}, {what}, is {operand.dtype} of shape {list(operand.shape)}; {dtype} of "
            f"shape {list(shape)} is needed"
        )


def _sizes(node: Node) -> tuple[Tensor, int, int, int, int]:
    """(input, steps, batch, values, hidden values) of a node that fits. Raises ModelError."""
    x = data_input(node, ("float32", "float64"), 3)
    if len(x.shape) != 3:
        raise ModelError(f"input of shape {list(x.shape)} has {len(x.shape)} axes, 3 are needed")
    batch_first = bool(node.attributes.get("layout", 0))
    steps, batch = (x.shape[1], x.shape[0]) if batch_first else x.shape[:2]
    kind, directions = _KINDS[node.op_type], _directions(node)
    weights = require_constant(node, R)
    hidden = int(node.attributes.get("hidden_size") or weights.shape[-1])
    rows = kind.gates * hidden
    shape = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
    of_state = x.dtype if node.operand(R_SCALE) is None else str(weights.dtype)
    for position, what, wanted, dtype in (
        (W, "the weights", (directions, rows, x.shape[2]), x.dtype),
        (R, "the recurrent weights", (directions, rows, hidden), of_state),
        (B, "the bias", (directions, 2 * rows), x.dtype),
        (LENGTHS, "the lengths of the sequences", (batch,), "int32"),
        (INITIAL_H, "the first hidden values", shape, x.dtype),
        (INITIAL_C, "the first cell values", shape, x.dtype),
        (PEEPHOLES, "the peepholes", (directions, 3 * hidden), x.dtype),
    ):
        _checked(node, position, what, wanted, dtype)
    return x, steps, batch, x.shape[2], hidden


def _directions(node: Node) -> int:
    direction = check_word(node.attributes.get("direction", "forward"), "direction", _DIRECTIONS)
    return 2 if direction == "bidirectional" else 1


def _build(node: Node) -> Layer:
    """The layer of a node of one direction."""
    x, steps, batch, _, hidden = _sizes(node)
    kind, given = _KINDS[node.op_type], node.attributes
    layout = int(given.get("layout", 0))
    lengths = node.operand(LENGTHS)
    if isinstance(lengths, np.ndarray) and np.all(lengths >= steps):
        lengths = None
    names = [*node.outputs, *[""] * 3][: kind.states + 1]
    whole = (batch, steps, 1, hidden) if layout else (steps, 1, batch, hidden)
    state = (batch, 1, hidden) if layout else (1, batch, hidden)
    outputs = [Tensor(names[0], whole, x.format, 1 if layout else 0)] if names[0] else []
    for name, suffix in zip(names[1:], ("Y_h", "Y_c"), strict=False):
        outputs.append(Tensor(name or f"{node.name}:{suffix}", state, x.format))
    operands = [node.operand(k) for k in range(10)]
    operands[LENGTHS] = lengths
    axes: list[int | None] = [None] * len(operands)  # states and lengths are read in natural order
    axes[X] = 1 if layout else 0
    attributes = {
        "hidden_size": hidden,
        "reverse": given.get("direction", "forward") == "reverse",
        "functions": _functions(node, len(kind.functions)),
        "clip": float(given.get("clip") or 0.0),
        "input_forget": bool(given.get("input_forget", 0)),
        "linear_before_reset": bool(given.get("linear_before_reset", 0)),
        "axis": layout,
        "sequence": bool(names[0]),
    }
    return node_layer(node, operands, outputs, attributes, axes)


_SPLIT, _CONCAT = (
    next(one for one in JOINING if one.op_type == op_type) for op_type in ("Split", "Concat")
)


def _parts(node: Node) -> tuple[Layer, ...]:
    """The layers of a node: one; of both directions one of each, and what cuts their initial states and
    joins their outputs.
    """
    if _directions(node) == 1:
        return (_build(node),)
    kind, layout = _KINDS[node.op_type], int(node.attributes.get("layout", 0))
    _sizes(node)
    functions = _functions(node, 2 * len(kind.functions))
    layers: list[Layer] = []
    halves: list[list[Tensor | np.ndarray | None]] = [[], []]
    for k, operand in enumerate(node.inputs):
        shared = k in (X, LENGTHS) or operand is None
        if isinstance(operand, Tensor) and not shared:
            names = tuple(f"{node.name}:{operand.name}:{word}" for word in _DIRECTIONS[:2])
            axis = {"axis": layout, "num_outputs": 2}
            split = Node(f"{node.name}/split {k}", "Split", 18, axis, (operand,), names)
            layers.append(_SPLIT.build(split))
            for half, tensor in zip(halves, layers[-1].outputs, strict=True):
                half.append(tensor)
            continue
        axis_of_directions = layout if k in (INITIAL_H, INITIAL_C) else 0
        for number, half in enumerate(halves):
            if shared or operand is None:
                half.append(operand)
            else:
                assert isinstance(operand, np.ndarray)
                half.append(operand.take([number], axis_of_directions))
    for number, (word, half) in enumerate(zip(_DIRECTIONS, halves, strict=False)):
        own = functions[number * len(kind.functions) :][: len(kind.functions)]
        outputs = tuple(name and f"{name}:{word}" for name in node.outputs)
        attributes = {
            **node.attributes,
            "direction": word,
            "activations": [one.name for one in own],
            "activation_alpha": [one.alpha for one in own if _PARAMETERS[one.name][0] is not None],
            "activation_beta": [one.beta for one in own if _PARAMETERS[one.name][1] is not None],
        }
        part = replace(node, name=f"{node.name}/{word}", attributes=attributes)
        layers.append(_build(replace(part, inputs=tuple(half), outputs=outputs)))
    made = {t.name: t for layer in layers[-2:] for t in layer.outputs}
    for k, name in enumerate(node.outputs):
        if name:
            joined = tuple(made[f"{name}:{word}"] for word in _DIRECTIONS[:2])
            axis = {"axis": layout + 1 if k == 0 else layout}
            join = Node(f"{node.name}/join {k}", "Concat", 13, axis, joined, (name,))
            layers.append(_CONCAT.build(join))
    return tuple(layers)


# Rows ---------------------------------------------------------------------------------------------


def _mode(layer: Layer) -> Mode:
    if layer.attributes["reverse"]:
        return Mode.WHOLE
    return Mode.ROWS if layer.attributes["sequence"] else Mode.ACCUMULATE


def _steps(layer: Layer) -> int:
    return layer.computed(0).shape[1 if layer.attributes["axis"] else 0]


def _input_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    """The first phase alone reads what the states begin with."""
    found = [None if t is None else Rows(0, 1) for t in layer.inputs]
    if out.start:
        for position in {INITIAL_H, INITIAL_C} & set(range(len(found))):
            tensor = layer.inputs[position]
            found[position] = None if tensor is None else Rows(1, 1)
    found[X] = out if _mode(layer) is Mode.ROWS else Rows(0, _steps(layer))
    return tuple(found)


def _cost(layer: Layer, out: Rows) -> int:
    """Multiply-accumulates of both products."""
    count = len(out) if _mode(layer) is Mode.ROWS else _steps(layer)
    batch = layer.computed(0).shape[0 if layer.attributes["axis"] else 1]
    return count * batch * sum(layer.constants[k].size for k in (W, R) if k in layer.constants)


def _held(layer: Layer) -> frozenset[int]:
    """The states; those of a layer with its whole input are outputs like any other."""
    return frozenset(range(1, len(layer.outputs)) if _mode(layer) is Mode.ROWS else ())


def source_layout(layer: Layer) -> tuple[int, bool]:
    """Sequences of a batch, and whether stored rows of the input hold the values of a step and a sequence side by
    side, steps before sequences.
    """
    source, axis = layer.computed(0), layer.attributes["axis"]
    batch = source.shape[1 - axis]
    natural = source.row_axis is None or source.row_axis == axis
    return batch, natural and (axis == 0 or batch == 1)


# The kernel ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """of_input: (values, gates * hidden), None in an LSTM of bytes. of_state: (hidden, gates * hidden). bias: what is added to
    the products with the input. reset_bias: (hidden,) what is added to those with the state before a GRU's
    reset gate, None where there is none. peepholes: (3, hidden), of input, output and forget gate.
    """

    of_input: np.ndarray | None
    of_state: np.ndarray
    bias: np.ndarray
    reset_bias: np.ndarray | None
    peepholes: np.ndarray | None


@memoize_layer
def arrange_weights(layer: Layer) -> Weights:
    """The weights as kernels multiply by them; biases that are added to the same sums are one."""
    hidden, dtype = layer.attributes["hidden_size"], layer.computed(0).dtype
    of_input, of_state = None, np.ascontiguousarray(layer.constants[R][0].T)
    if W in layer.constants:
        of_input = np.ascontiguousarray(layer.constants[W][0].T)
    of_x, of_h = np.split(layer.constants.get(B, np.zeros((1, 2 * of_state.shape[1])))[0], 2)
    reset_bias = None
    if layer.attributes["linear_before_reset"]:
        reset_bias = of_h[-hidden:].astype(dtype)
        of_h = np.concatenate([of_h[:-hidden], np.zeros(hidden)])
    peepholes = layer.constants.get(PEEPHOLES)
    return Weights(
        of_input,
        of_state,
        (of_x + of_h).astype(dtype),
        reset_bias,
        None if peepholes is None else peepholes.reshape(3, hidden),
    )


def quantized_product(shape: Shape, weights: np.ndarray, zeros: np.ndarray) -> tuple[Layer, ...]:
    """The layers of a product of hidden values of this shape: what quantizes them by their range, and what multiplies with
    weights (hidden, outputs) of these zero points.
    """
    h = Tensor("h", shape)
    of = DYNAMIC.build(Node("", "DynamicQuantizeLinear", 24, {}, (h,), ("", "scale", "zero")))
    integers = _INTEGERS.build(Node("", "QuantizeLinear", 24, {}, (h, *of.outputs), ("y",)))
    operands = (integers.outputs[0], weights, of.outputs[1], zeros)
    return of, integers, _PRODUCT.build(Node("", "MatMulInteger", 24, {}, operands, ("sums",)))


DYNAMIC, _INTEGERS, _PRODUCT = (
    next(one for one in (*QUANTIZING, *PRODUCTS) if one.op_type == op_type)
    for op_type in ("DynamicQuantizeLinear", "QuantizeLinear", "MatMulInteger")
)


@cache
def _activation(function: Function, shape: Shape, dtype: str) -> Callable[[Work], Iterable[Call]]:
    """The kernel of an activation that is an operator."""
    tensor = Tensor("", shape, Format(dtype))
    operator = next(one for one in ACTIVATIONS if one.op_type == function.name)
    attributes = dict(operator.attributes)
    parameters = zip(("alpha", "beta"), (function.alpha, function.beta), strict=True)
    attributes.update((name, value) for name, value in parameters if name in attributes)
    return operator.kernel(
        Layer("", function.name, (tensor,), (tensor,), attributes, input_axes=(None,))
    )


def _applied(function: Function, array: np.ndarray, scratch: Scratch) -> list[Call]:
    """An activation in place."""
    alpha, beta = (array.dtype.type(value) for value in (function.alpha, function.beta))
    if function.name == "Affine":
        return [(np.multiply, (array, alpha, array)), (np.add, (array, beta, array))]
    if function.name == "ScaledTanh":
        return [
            (np.multiply, (array, beta, array)),
            (np.tanh, (array, array)),
            (np.multiply, (array, alpha, array)),
        ]
    emit = _activation(function, array.shape, array.dtype.name)
    one, mark = Rows(0, 1), scratch.mark
    calls = list(emit(Work(Phase(one, (one,)), [array[None]], [array[None]], scratch)))
    scratch.rewind(mark)
    return calls


class _Cell:
    """The calls of a step: new states out of old ones and of what the input adds to the gates.

    hidden, cell: the states (batch, hidden size). room: (batch, gates * hidden size) for the products with
    the state; other: (batch, hidden size).
    """

    def __init__(self, layer: Layer, states: Sequence[np.ndarray], scratch: Scratch) -> None:
        self.layer, self.scratch, self.weights = layer, scratch, arrange_weights(layer)
        self.states, self.h = states, states[0]
        self.size = layer.attributes["hidden_size"]
        self.functions = layer.attributes["functions"]
        clip = layer.attributes["clip"]
        self.limits = [self.h.dtype.type(side * clip) for side in (-1, 1)] if clip else None
        batch = len(self.h)
        self.room = scratch.take((batch, self.weights.of_state.shape[1]), self.h.dtype)
        self.other = scratch.take((batch, self.size), self.h.dtype)
        self.by_state: list[Call] = [(np.matmul, (self.h, self.weights.of_state, self.room))]
        if R_SCALE in layer.constants:
            self.by_state = self._by_bytes()

    def _by_bytes(self) -> list[Call]:
        """The product with the hidden values, quantized by their range."""
        zeros, scales = (self.layer.constants[k].squeeze() for k in (R_ZERO, R_SCALE))
        values, calls = {"h": self.h}, list[Call]()
        layers = quantized_product(self.h.shape, self.weights.of_state, zeros)
        for operator, layer in zip((DYNAMIC, _INTEGERS, _PRODUCT), layers, strict=True):
            phase = single_phase(operator, layer)
            assert phase is not None
            slabs = [
                None if t is None else value_slab(layer, k, values[t.name], phase)
                for k, t in enumerate(layer.inputs)
            ]
            made = [self.scratch.take(t.storage_shape, t.dtype) for t in layer.outputs]
            calls += operator.kernel(layer)(Work(phase, slabs, made, self.scratch))
            values |= {t.name: t.to_onnx(a) for t, a in zip(layer.outputs, made, strict=True)}
        factors = self.scratch.take(scales.shape, scales.dtype)
        return [
            *calls,
            (np.multiply, (values["scale"], scales, factors)),
            (np.copyto, (self.room, values["sums"], "same_kind")),
            (np.multiply, (self.room, factors, self.room)),
        ]

    def gate(self, array: np.ndarray, number: int) -> np.ndarray:
        return array[:, number * self.size : (number + 1) * self.size]

    def function(self, number: int, array: np.ndarray) -> list[Call]:
        clipped: list[Call] = []
        if self.limits:
            clipped = [(np.ndarray.clip, (array, *self.limits, array))]
        return clipped + _applied(self.functions[number], array, self.scratch)

    def product(self, gates: np.ndarray, first: int = 0, stop: int | None = None) -> list[Call]:
        """Adds the product with the hidden values to gates."""
        if stop is None and not first:
            return [*self.by_state, (np.add, (gates, self.room, gates))]
        part = slice(first * self.size, None if stop is None else stop * self.size)
        room = self.room[:, part]
        return [
            (np.matmul, (self.h, self.weights.of_state[:, part], room)),
            (np.add, (gates[:, part], room, gates[:, part])),
        ]

    def lstm(self, gates: np.ndarray) -> list[Call]:
        """Gates i, o, f, c; leaves c * f + i * g in the cell, and o * h(c) in the hidden values."""
        c, other, peepholes = self.states[1], self.other, self.weights.peepholes
        i, o, f, g = (self.gate(gates, k) for k in range(4))

        def peep(number: int, gate: np.ndarray) -> list[Call]:
            if peepholes is None:
                return []
            return [(np.multiply, (c, peepholes[number], other)), (np.add, (gate, other, gate))]

        calls = [*self.product(gates), *peep(0, i), *self.function(0, i)]
        if self.layer.attributes["input_forget"]:
            calls.append((np.subtract, (constant(1, f.dtype), i, f)))
        else:
            calls += [*peep(2, f), *self.function(0, f)]
        calls += [
            *self.function(1, g),
            (np.multiply, (c, f, c)),
            (np.multiply, (i, g, g)),
            (np.add, (c, g, c)),
            *peep(1, o),
            *self.function(0, o),
            (np.copyto, (other, c)),
            *_applied(self.functions[2], other, self.scratch),
            (np.multiply, (o, other, self.h)),
        ]
        return calls

    def gru(self, gates: np.ndarray) -> list[Call]:
        """Gates z, r, h; leaves (1 - z) * g + z * h in the hidden values."""
        h, other = self.h, self.other
        z, r, g = (self.gate(gates, k) for k in range(3))
        if self.weights.reset_bias is not None:
            inner, both = self.gate(self.room, 2), gates[:, : 2 * self.size]
            calls: list[Call] = [
                (np.matmul, (h, self.weights.of_state, self.room)),
                (np.add, (both, self.room[:, : 2 * self.size], both)),
                *self.function(0, r),
                (np.add, (inner, self.weights.reset_bias, inner)),
                (np.multiply, (r, inner, inner)),
                (np.add, (g, inner, g)),
            ]
        else:
            calls = [
                *self.product(gates, 0, 2),
                *self.function(0, r),
                (np.multiply, (r, h, other)),
                (
                    np.matmul,
                    (other, self.weights.of_state[:, 2 * self.size :], self.gate(self.room, 2)),
                ),
                (np.add, (g, self.gate(self.room, 2), g)),
            ]
        return [
            *calls,
            *self.function(0, z),
            *self.function(1, g),
            (np.subtract, (h, g, other)),
            (np.multiply, (z, other, other)),
            (np.add, (g, other, h)),
        ]

    def rnn(self, gates: np.ndarray) -> list[Call]:
        return [*self.product(gates), *self.function(0, gates), (np.copyto, (self.h, gates))]


_CELLS: Mapping[str, Callable[[_Cell, np.ndarray], list[Call]]] = MappingProxyType(
    {"LSTM": _Cell.lstm, "GRU": _Cell.gru, "RNN": _Cell.rnn}
)


def _state(layer: Layer, array: np.ndarray) -> np.ndarray:
    """View of a state as (batch, hidden size)."""
    return array[0, :, 0] if layer.attributes["axis"] else array[0, 0]


def _begun(layer: Layer, work: Work, states: Sequence[np.ndarray]) -> list[Call]:
    """The states before the first step."""
    calls: list[Call] = []
    for position, state in zip((INITIAL_H, INITIAL_C), states, strict=False):
        slab, known = work.slabs[position], layer.constants.get(position)
        given = slab if slab is not None else None if known is None else known[None]
        source = constant(0, state.dtype) if given is None else _state(layer, given)
        calls.append((np.copyto, (state, source)))
    return calls


def _emit(layer: Layer, work: Work) -> list[Call]:
    given, scratch, weights = layer.attributes, work.scratch, arrange_weights(layer)
    x, results = work.slab, list(work.results)
    y = results.pop(0)[:, 0] if given["sequence"] else None
    if given["axis"]:
        x, y = x.transpose(0, 2, 1), None if y is None else y.transpose(0, 2, 1)
    states = [_state(layer, array) for array in results]
    calls = _begun(layer, work, states) if work.phase.first else []
    cell = _Cell(layer, states, scratch)
    ends = _ends(layer, work, states, calls)
    steps, batch = x.shape[:2]
    wide = weights.of_state.shape[1]
    each = batch * wide * x.itemsize
    cell.scratch = trial = CountingScratch(scratch.room)
    _CELLS[layer.op_type](cell, np.empty((batch, wide), x.dtype))
    cell.scratch = scratch  # activations take theirs behind the gates
    room = scratch.room - trial.end
    room -= room % Scratch.ALIGN if trial.end else 0
    block = max(1, min(steps, room // max(1, each)))
    gates = scratch.take((block, batch, wide), x.dtype)
    starts = range(0, steps, block)
    for start in reversed(starts) if given["reverse"] else starts:
        count = min(block, steps - start)
        part, own = x[start : start + count], gates[:count]
        if weights.of_input is not None:
            calls.append((np.matmul, (part, weights.of_input, own)))
            part = own
        calls.append((np.add, (part, weights.bias, own)))
        order = range(count)
        for k in reversed(order) if given["reverse"] else order:
            made = _CELLS[layer.op_type](cell, own[k])
            if ends is not None:
                made = [*ends.before(), *made, *ends.behind(start + k)]
            calls += made
            if y is not None:
                calls.append((np.copyto, (y[start + k], states[0])))
                calls += [] if ends is None else ends.cleared(start + k, y[start + k])
    return calls


@dataclass(frozen=True, slots=True, eq=False)
class _Ends:
    """Sequences of their own lengths: behind its end, one keeps its states, and its outputs are 0.

    ended: (steps, batch, 1) whether a sequence has ended. saved: the states before a step.
    """

    ended: np.ndarray
    states: Sequence[np.ndarray]
    saved: Sequence[np.ndarray]

    def before(self) -> list[Call]:
        """What goes before the calls of a step."""
        return [(np.copyto, pair) for pair in zip(self.saved, self.states, strict=True)]

    def behind(self, step: int) -> list[Call]:
        """What goes behind them."""
        pairs = zip(self.states, self.saved, strict=True)
        return [(np.copyto, (*pair, "same_kind", self.ended[step])) for pair in pairs]

    def cleared(self, step: int, target: np.ndarray) -> list[Call]:
        """What goes behind the copy of the hidden values to the output."""
        zero = constant(0, target.dtype)
        return [(np.copyto, (target, zero, "same_kind", self.ended[step]))]


def _ends(
    layer: Layer, work: Work, states: Sequence[np.ndarray], calls: list[Call]
) -> _Ends | None:
    """The ends of sequences among the steps of a phase; None where lengths are not given."""
    slab, known = work.slabs[LENGTHS], layer.constants.get(LENGTHS)
    lengths = slab[0] if slab is not None else known
    if lengths is None:
        return None
    numbers = np.arange(work.held.start, work.held.stop, dtype=np.int32)[:, None, None]
    ended = work.scratch.take((len(numbers), len(lengths), 1), "bool")
    calls += [(np.less, (numbers, lengths[None, :, None], ended)), (np.logical_not, (ended, ended))]
    return _Ends(ended, states, [work.scratch.take(s.shape, s.dtype) for s in states])


def _repeats(layer: Layer) -> bool:
    """Whether no step depends on its number."""
    return layer.inputs[LENGTHS] is None and LENGTHS not in layer.constants


# The records --------------------------------------------------------------------------------------


ATTRIBUTES: Mapping[str, object] = {
    "activation_alpha": None,
    "activation_beta": None,
    "activations": None,
    "clip": None,
    "direction": "forward",
    "hidden_size": None,
}
"""What all of them have, also in onnxruntime's own domain, with defaults."""


def _recurrent(op_type: str, **attributes: object) -> Operator:
    return Operator(
        op_type,
        build=_build,
        parts=_parts,
        input_rows=_input_rows,
        kernel=make_phase_kernel(_emit),
        cost=_cost,
        mode=_mode,
        held=_held,
        shift_invariant=_repeats,
        constant_inputs=frozenset({W, R, B, PEEPHOLES}),
        attributes=MappingProxyType({**ATTRIBUTES, "layout": 0, **attributes}),
        structure="row-phased along time; whole if backward; accumulating if only the last states are read",
        notes="Each phase updates the states. A bidirectional layer becomes two layers.",
        multiplies=True,
    )


OPERATORS: tuple[Operator, ...] = (
    _recurrent("GRU", linear_before_reset=0),
    _recurrent("LSTM", input_forget=0),
    _recurrent("RNN"),
)
