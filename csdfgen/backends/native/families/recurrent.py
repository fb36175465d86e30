"""Which recurrent layers have a kernel? Those of usual activations, without lengths of sequences; also LSTMs of bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from csdfgen.backends.native import packing
from csdfgen.backends.native.families.byte_products import ByteConvStep, ByteTarget, product
from csdfgen.backends.native.families.common import FLOAT, Family, is_dense, memoize
from csdfgen.backends.native.families.product import GemmStep
from csdfgen.backends.native.structures import (
    CLIP,
    HARD_SIGMOID,
    NONE,
    PANEL,
    SIGMOID,
    TANH,
    Activation,
    ByteSource,
    constants,
    instruction,
    structure,
)
from csdfgen.model.network import Layer, Tensor
from csdfgen.ops.recurrent import (
    INITIAL_C,
    INITIAL_H,
    LENGTHS,
    R_SCALE,
    R_ZERO,
    Function,
    R,
    arrange_weights,
    quantized_product,
    source_layout,
)
from csdfgen.program.instructions import Constants, Instruction, Ref
from csdfgen.program.steps import Step, View

RNN, GRU, GRU_LINEAR, LSTM = constants("RNN", "GRU", "GRU_LINEAR", "LSTM")
RecurrentStep = structure("csdf_recurrent_step").record
RecurrentProduct = structure("csdf_recurrent_product").record

_ROWS = 16
"""Rows of the product with the input from which on more of them, whose gates take memory, are hardly faster."""


@dataclass(frozen=True, slots=True)
class _Packed:
    """What kernels read: see csdf_gemm_step for those of the input, csdf_recurrent_step for the others. An LSTM of bytes has no
    weights of the input, and the scales of those of the state.
    """

    of_input: np.ndarray
    bias: np.ndarray
    of_state: np.ndarray
    reset_bias: np.ndarray | None
    peepholes: np.ndarray | None


@dataclass(frozen=True, eq=False)
class _Recurrent(Family):
    """gates: in a panel. hidden: values, in whole panels. batch: sequences. source: the input. multiplied: the product of an
    LSTM of bytes with its hidden values, as its kernel wants it.
    """

    kernels = ("gemm_of", "recurrent_of", "recurrent_bytes_of")

    layer: Layer
    kind: int
    gates: int
    hidden: int
    batch: int
    source: Tensor
    functions: tuple[tuple[int, float, float], ...]
    packed: Callable[[], _Packed]
    multiplied: Callable[[], Any] | None
    joins = False

    def takes(self, step: Step) -> bool:
        """See `Family.takes`: values side by side, and states without gaps."""
        x = step.inputs[0]
        initial = step.inputs[INITIAL_H : INITIAL_C + 1]
        states = step.outputs[1:] if self.layer.attributes["sequence"] else step.outputs
        return (
            x is not None
            and all(
                is_dense(view) for view in (*initial, *states) if view is not None and view.rows
            )
            and not any(view.pieces for view in (*step.outputs, *initial) if view is not None)
            and all(
                one.shape[-1] == 1 or one.strides[-1] == FLOAT
                for one in (*self._read(step), *self._written(step))
            )
            and (not x.pieces or x.along == len(x.shape) - 1 - self.layer.attributes["axis"])
            and not (x.pieces and self.multiplied)
        )

    def workspace(self, step: Step, limit: int | None) -> int:
        steps, own = min(self._steps(step), -(-_ROWS // self.batch)), self._of_states()
        if (
            self.multiplied
        ):  # gates of a step, whose sums are in their place, hidden values as bytes, a zero point
            return own + self._of_gates(1) + self.batch * self.hidden + 1
        if limit is not None:
            steps = min(steps, (limit - own) // self._of_gates(1))
        return own + self._of_gates(max(1, steps))

    def _steps(self, step: Step) -> int:
        return len(step.phase.held(0))

    def _of_gates(self, steps: int) -> int:
        """Bytes of the gates of so many steps."""
        return FLOAT * steps * self.batch * self.gates * self.hidden

    def _of_states(self) -> int:
        return FLOAT * 3 * self.batch * self.hidden

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        given, pad, phase = self.layer.attributes, step.workspace, step.phase
        held = phase.held(0)
        written = [self._places(view) for view in self._written(step)]
        read = [(view, self._places(view)) for view in self._read(step)]
        if self.source.row_axis is None:
            read = [(view, places[held.start : held.stop]) for view, places in read]
        states = [Ref(view.pool, view.rows[0]) for view in step.outputs[len(written) :]]
        before: list[Ref | None] = [*states]
        if phase.first:
            before = [
                self._initial(step, position, constants) for position in (INITIAL_H, INITIAL_C)
            ]
        h, c = (*states, None)[:2]
        block = len(held)
        if not self.multiplied:
            block = (self.workspace(step, pad.size) - self._of_states()) // self._of_gates(1)
        starts = list(range(0, len(held), block))
        found: list[Instruction] = []
        for start in reversed(starts) if given["reverse"] else starts:
            steps = range(start, min(start + block, len(held)))
            order = steps[::-1] if given["reverse"] else steps
            by_bytes = None
            if self.multiplied:
                by_bytes = self._by_bytes(self.multiplied(), order, read, step, constants)
            else:
                found += self._products(order, read, step, constants)
            both = before, (h, c)
            found.append(self._recurrence(order, written, step, constants, both, by_bytes))
            before = [h, c]
        return found

    def _products(
        self,
        order: Sequence[int],
        read: Sequence[tuple[View, np.ndarray]],
        step: Step,
        constants: Constants,
    ) -> list[Instruction]:
        """What the inputs add to the gates of some steps, one piece of the input after the other."""
        pad, packed = step.workspace, self.packed()
        inputs, outputs = (
            packed.of_input.size // (self.gates * self.hidden),
            self.gates * self.hidden,
        )
        rows = len(order) * self.batch
        gates = pad.offset + self._of_states()
        target = [gates + FLOAT * outputs * row for row in range(rows)]
        found, first = [], 0
        for piece, places in read:
            size = piece.shape[-1] if len(read) > 1 else inputs
            made = GemmStep(
                inputs, outputs, first, 1, rows, 0, outputs, int(first == 0), 1, Activation(NONE, 0.0, 0.0),
                constants.weights(packed.of_input), constants.weights(packed.bias),
                constants.table("int32_t", [size]),
                constants.rows(piece.pool, places[list(order)].reshape(-1).tolist()),
                constants.rows(pad.pool, target),
            )  # fmt: skip
            found.append(instruction("gemm_of", made))
            first += size
        return found

    def _by_bytes(
        self,
        multiplied: Any,
        order: Sequence[int],
        read: Sequence[tuple[View, np.ndarray]],
        step: Step,
        constants: Constants,
    ) -> Ref:
        """What the kernel of an LSTM of bytes reads in some steps."""
        ((view, places),), pad, packed = read, step.workspace, self.packed()
        inputs, wide = self.layer.attributes["hidden_size"], self.gates * self.hidden
        sums = pad.offset + self._of_states()
        values = sums + self._of_gates(1)
        zero = values + self.batch * self.hidden

        def rows(first: int, apart: int) -> Ref:
            return constants.rows(pad.pool, [first + apart * b for b in range(self.batch)])

        own = ByteSource(rows(values, self.hidden), inputs, inputs)
        sources = [own, ByteSource(constants.rows(pad.pool, [zero]), 1, 1)]
        multiplied = ByteConvStep(
            multiplied.placed(constants), constants.table("csdf_byte_source", sources), 1, 1,
            ByteTarget(rows(sums, FLOAT * wide), FLOAT * wide, self.batch, 0, 1, 0, wide), None, 0, 0, 0,
        )  # fmt: skip
        made = RecurrentProduct(
            constants.rows(view.pool, places[list(order)].reshape(-1).tolist()),
            constants.table("csdf_byte_conv_step", [multiplied]),
            *(Ref(pad.pool, at) for at in (values, zero, sums)),
            *(constants.weights(array) for array in (packed.bias, packed.of_state)),
        )
        return constants.table("csdf_recurrent_product", [made])

    def _recurrence(
        self,
        order: Sequence[int],
        written: Sequence[np.ndarray],
        step: Step,
        constants: Constants,
        both: tuple[Sequence[Ref | None], Sequence[Ref | None]],
        by_bytes: Ref | None,
    ) -> Instruction:
        """The kernel on some steps. both: states before and behind them."""
        given, pad, packed = self.layer.attributes, step.workspace, self.packed()
        before, states = both
        out = None
        for places in written:
            out = constants.rows(step.outputs[0].pool, places[list(order)].reshape(-1).tolist())
        made = RecurrentStep(
            self.kind, len(order), self.batch, given["hidden_size"], int(given["input_forget"]), given["clip"] or inf,
            tuple(Activation(*one) for one in self.functions),
            constants.weights(packed.of_state) if by_bytes is None else None,
            None if packed.reset_bias is None else constants.weights(packed.reset_bias),
            None if packed.peepholes is None else constants.weights(packed.peepholes),
            Ref(pad.pool, pad.offset + self._of_states()),
            before[0], before[1] if self.kind == LSTM else None, *states, Ref(pad.pool, pad.offset), out, by_bytes,
        )  # fmt: skip
        return instruction("recurrent_of" if by_bytes is None else "recurrent_bytes_of", made)

    def _places(self, view: View) -> np.ndarray:
        """Offsets of the first value of every step and sequence, shape (steps, batch)."""
        inner = np.zeros((1, *view.shape[:-1]), np.int64)
        for axis, (size, stride) in enumerate(zip(view.shape[:-1], view.strides, strict=False)):
            inner += stride * np.arange(size).reshape(-1, *(1,) * (len(view.shape) - 2 - axis))
        found = np.asarray(view.rows).reshape(-1, *(1,) * (inner.ndim - 1)) + inner
        return found.reshape(-1, self.batch)

    def _read(self, step: Step) -> list[View]:
        """The pieces of the input, values last."""
        view = step.view(0)
        return [_values_last(one, self.source) for one in view.pieces or (view,)]

    def _written(self, step: Step) -> list[View]:
        """The sequence of outputs, if it is wanted, values last."""
        return [
            _values_last(view, tensor)
            for view, tensor in zip(step.outputs, self.layer.outputs, strict=True)
            if len(tensor.shape) == 4
        ]

    def _initial(self, step: Step, position: int, constants: Constants) -> Ref | None:
        view = step.inputs[position]
        if view is not None:
            return Ref(view.pool, view.rows[0])
        known = self.layer.constants.get(position)
        return None if known is None else constants.dense(known)


def _values_last(view: View, tensor: Tensor) -> View:
    """Rows along axis 1 end with the axis in front of it, of one sequence."""
    if tensor.row_axis != 1:
        return view
    return replace(view, shape=view.shape[:-1], strides=view.strides[:-1])


def _function(function: Function) -> tuple[int, float, float] | None:
    """An activation as the kernel has it; None if it does not."""
    known = {
        "HardSigmoid": (HARD_SIGMOID, function.alpha, function.beta),
        "Relu": (CLIP, 0.0, inf),
        "Sigmoid": (SIGMOID, 0.0, 0.0),
        "Tanh": (TANH, 0.0, 0.0),
    }
    return known.get(function.name)


def _by_panel(array: np.ndarray, gates: int, hidden: int) -> np.ndarray:
    """(..., gates * hidden size) as (panels, ..., gates, 16)."""
    *outer, wide = array.shape
    each = wide // gates
    filled = np.zeros((*outer, gates, hidden), np.float32)
    filled[..., :each] = array.reshape(*outer, gates, each)
    filled = filled.reshape(*outer, gates, hidden // PANEL, PANEL)
    return np.moveaxis(filled, -2, 0)


def _by_column(array: np.ndarray, gates: int, hidden: int) -> np.ndarray:
    """(..., gates * hidden size) as (..., panels * gates * 16), of the same type."""
    moved = np.moveaxis(_by_panel(array, gates, hidden), 0, -3)
    return moved.reshape(*array.shape[:-1], -1).astype(array.dtype)


def _packed(layer: Layer, kind: int, gates: int, hidden: int) -> _Packed:
    found, panels = arrange_weights(layer), hidden // PANEL
    bias = packing.conv_bias(_by_column(found.bias, gates, hidden), gates * hidden)
    peepholes = None
    if found.peepholes is not None:
        peepholes = _by_panel(found.peepholes, 1, hidden).reshape(panels, 3, PANEL).swapaxes(0, 1)
        peepholes = packing.aligned(peepholes)
    if found.of_input is None:
        scales = np.broadcast_to(layer.constants[R_SCALE].reshape(-1), found.bias.shape)
        scales = packing.aligned(_by_column(scales, gates, hidden))
        return _Packed(np.empty(0), bias, scales, None, peepholes)
    of_input = _by_column(found.of_input, gates, hidden)
    of_state = packing.aligned(_by_panel(found.of_state, gates, hidden))
    if kind == GRU:
        parts = of_state[..., :2, :], of_state[..., 2:, :]
        of_state = packing.aligned(np.concatenate([part.reshape(-1) for part in parts]))
    reset = found.reset_bias
    if reset is not None:
        reset = packing.aligned(_by_panel(reset, 1, hidden))
    return _Packed(packing.gemm_weights(of_input), bias, of_state, reset, peepholes)


def _multiplied(layer: Layer, gates: int, hidden: int, batch: int) -> Callable[[], Any] | None:
    """The product of an LSTM of bytes with its hidden values as its kernel wants it, in columns of panels; None if there is
    no such.
    """
    weights = arrange_weights(layer).of_state
    zeros = np.broadcast_to(layer.constants[R_ZERO].reshape(-1), weights.shape[-1])
    operands = (_by_column(array, gates, hidden) for array in (weights, zeros))
    *_, sums = quantized_product((batch, len(weights)), *operands)
    found = product(sums)
    return None if found is None else found.packed


def recurrent(layer: Layer) -> Family | None:
    """LSTM, GRU and RNN."""
    given = layer.attributes
    functions = tuple(_function(one) for one in given["functions"])
    batch, in_order = source_layout(layer)
    if layer.inputs[LENGTHS] is not None or LENGTHS in layer.constants or not in_order:
        return None
    source = layer.inputs[0]
    apart = any(one is not None and one.row_axis is not None for one in layer.inputs[1:])
    if source is None or apart or any(one is None for one in functions):
        return None
    kind = {"LSTM": LSTM, "GRU": GRU, "RNN": RNN}[layer.op_type]
    if kind == GRU and given["linear_before_reset"]:
        kind = GRU_LINEAR
    gates = layer.constants[R].shape[1] // given["hidden_size"]
    hidden = -(-given["hidden_size"] // PANEL) * PANEL
    known = tuple(one for one in functions if one is not None)
    packed = memoize(lambda: _packed(layer, kind, gates, hidden))
    multiplied = _multiplied(layer, gates, hidden, batch) if R_SCALE in layer.constants else None
    if R_SCALE in layer.constants and multiplied is None:
        return None
    return _Recurrent(layer, kind, gates, hidden, batch, source, known, packed, multiplied)
