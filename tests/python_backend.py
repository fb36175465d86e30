"""A second backend, to hold the seam to its word: every step in plain Python, element by element.

It shares nothing with the operators' numpy kernels. Elements are addressed by their ONNX index
through the row offsets and strides of a step's views, so that rows may lie anywhere; sums that must
not be rounded on the way (a pixel of a convolution, the powers of a Softmax) are doubles in the
workspace that the plan has for the step.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import exp, inf, prod
from struct import Struct
from typing import Any

import numpy as np

from csdfgen.backends.numpy.arrays import HostMemory, allocate_pools
from csdfgen.backends.numpy.bound import NumpyBound, moves
from csdfgen.errors import PlanError
from csdfgen.model.network import Layer, Shape, Tensor
from csdfgen.model.rows import Rows, Window
from csdfgen.ops import get_operator
from csdfgen.ops.base import Mode, Phase, stored_rows
from csdfgen.ops.windows import list_windows
from csdfgen.program.instructions import Constants, Instruction
from csdfgen.program.steps import ALIGNMENT, Call, Code, Memory, Move, Step, View, split_by_image

__all__ = ["PYTHON", "PythonKernels"]

Index = tuple[int, ...]

_CODES = {"float16": Struct("=e"), "float32": Struct("=f"), "float64": Struct("=d")}
_DOUBLE = _CODES["float64"]

# Elements ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Cells:
    """Elements of a tensor by ONNX index, those of the stored rows from `first` on that a view has."""

    memory: Memory
    view: View
    tensor: Tensor
    first: int
    code: Struct

    @property
    def shape(self) -> Shape:
        return self.tensor.shape

    def place(self, index: Index) -> tuple[memoryview, int]:
        """Pool and byte offset in it. A row that the step does not have is an error, not another
        row.
        """
        axis, view = self.tensor.row_axis, self.view
        row, rest = 0, index
        if axis is not None:
            row, rest = index[axis] - self.first, (*index[axis + 1 :], *index[:axis])
        if not 0 <= row < view.count:
            raise IndexError(f"row {row + self.first} of '{self.tensor.name}' is not in the step")
        for piece in view.pieces:
            if rest[view.along] < piece.shape[view.along]:
                view = piece
                break
            behind = rest[view.along] - piece.shape[view.along]
            rest = (*rest[: view.along], behind, *rest[view.along + 1 :])
        return self.memory[view.pool].data, view.rows[row] + sum(
            map(operator.mul, rest, view.strides)
        )

    def get(self, index: Index) -> float:
        value: float = self.code.unpack_from(*self.place(index))[0]
        return value

    def put(self, index: Index, value: float) -> None:
        self.code.pack_into(*self.place(index), value)


@dataclass(frozen=True, slots=True)
class _Constant:
    """Elements of a constant operand by ONNX index."""

    array: np.ndarray

    @property
    def shape(self) -> Shape:
        return self.array.shape

    def get(self, index: Index) -> float:
        return float(self.array.item(index))


_Operand = _Cells | _Constant


@dataclass(frozen=True, slots=True)
class _Doubles:
    """The workspace of a step as numbers: its bytes and no others, so that more is an error."""

    block: memoryview

    def get(self, position: int) -> float:
        value: float = _DOUBLE.unpack_from(self.block, 8 * position)[0]
        return value

    def put(self, position: int, value: float) -> None:
        _DOUBLE.pack_into(self.block, 8 * position, value)


def _cells(memory: Memory, view: View, tensor: Tensor, first: int) -> _Cells:
    return _Cells(memory, view, tensor, first, _CODES[view.format.dtype])


def _indices(tensor: Tensor, rows: Rows) -> Iterator[Index]:
    """ONNX indices of rows of a tensor; of all elements if it has no row axis."""
    ranges = [range(size) for size in tensor.shape]
    if tensor.row_axis is not None:
        ranges[tensor.row_axis] = range(rows.start, rows.stop)
    return product(*ranges)


def _broadcast(operand: _Operand, index: Index) -> float:
    """The element of an operand that meets an element of the result."""
    shape = operand.shape
    behind = index[len(index) - len(shape) :]
    return operand.get(tuple(0 if n == 1 else i for i, n in zip(behind, shape, strict=True)))


# Steps -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Work:
    """A step of one image: operands by input position, where results are formed, scratch."""

    layer: Layer
    phase: Phase
    operands: tuple[_Operand | None, ...]
    out: _Cells
    scratch: _Doubles

    @property
    def x(self) -> _Operand:
        assert self.operands[0] is not None
        return self.operands[0]

    @property
    def given(self) -> list[_Operand]:
        """The operands that are not absent."""
        return [operand for operand in self.operands if operand is not None]

    @property
    def indices(self) -> Iterator[Index]:
        return _indices(self.layer.output, self.phase.out)

    @property
    def accumulates(self) -> bool:
        return get_operator(self.layer).mode(self.layer) is Mode.ACCUMULATE

    @property
    def read(self) -> tuple[Tensor, Rows]:
        """The first operand and its rows that are at hand."""
        tensor, rows = self.layer.inputs[0], self.phase.ins[0]
        assert tensor is not None and rows is not None
        return tensor, rows


def _operand(layer: Layer, phase: Phase, position: int, view: View | None, memory: Memory) -> Any:
    tensor, rows = layer.inputs[position], phase.ins[position]
    if view is not None and tensor is not None and rows is not None:
        return _cells(memory, view, tensor, stored_rows(layer, position, rows).start)
    constant = layer.constants.get(position)
    return None if constant is None else _Constant(constant)


def _work(step: Step, memory: Memory) -> _Work:
    layer, phase = step.layer, step.phase
    operands = [
        _operand(layer, phase, position, view, memory) for position, view in enumerate(step.inputs)
    ]
    (held,) = step.states or step.outputs
    out = _cells(memory, held, layer.output, phase.out.start)
    pad = step.workspace
    block = memory[pad.pool].data[pad.offset : pad.offset + pad.size]
    return _Work(layer, phase, tuple(operands), out, _Doubles(block))


def _after(step: Step, layer: Layer) -> Step:
    """A layer of the epilogue as a step that works in place on what the step has written."""
    ins = get_operator(layer).input_rows(layer, step.phase.out)
    inputs = tuple(None if rows is None else step.outputs[0] for rows in ins)
    phase = Phase(step.phase.out, ins)
    return replace(step, layer=layer, phase=phase, inputs=inputs, states=())


def _copied(work: _Work, outputs: _Cells) -> None:
    """Sums that were held apart become the output."""
    for index in work.indices:
        outputs.put(index, work.out.get(index))


# Operators ---------------------------------------------------------------------------------------


def _elementwise(function: Callable[..., float]) -> Callable[[_Work], None]:
    def kernel(work: _Work) -> None:
        given = work.given
        for index in work.indices:
            work.out.put(index, function(*(_broadcast(one, index) for one in given)))

    return kernel


def _clip(work: _Work) -> None:
    low, high = work.layer.attributes["min"], work.layer.attributes["max"]
    low, high = -inf if low is None else low, inf if high is None else high
    for index in work.indices:
        work.out.put(index, min(max(work.x.get(index), low), high))


def _leaky_relu(work: _Work) -> None:
    alpha = work.layer.attributes["alpha"]
    for index in work.indices:
        value = work.x.get(index)
        work.out.put(index, value if value >= 0 else alpha * value)


def _batch_normalization(work: _Work) -> None:
    epsilon = work.layer.attributes["epsilon"]
    _, scale, bias, mean, variance = work.given
    for index in work.indices:
        channel = (index[1] if len(index) > 1 else 0,)
        factor = scale.get(channel) / (variance.get(channel) + epsilon) ** 0.5
        work.out.put(index, (work.x.get(index) - mean.get(channel)) * factor + bias.get(channel))


def _softmax(work: _Work) -> None:
    """The powers of a group wait in the workspace for their sum: the result may overwrite x."""
    axes = work.layer.attributes["axes"]
    groups: dict[Index, list[Index]] = {}
    for index in work.indices:
        key = tuple(0 if axis in axes else i for axis, i in enumerate(index))
        groups.setdefault(key, []).append(index)
    for group in groups.values():
        top, total = max(map(work.x.get, group)), 0.0
        for position, index in enumerate(group):
            power = exp(work.x.get(index) - top)
            work.scratch.put(position, power)
            total += power
        for position, index in enumerate(group):
            work.out.put(index, work.scratch.get(position) / total)


def _concat(work: _Work) -> None:
    axis = work.layer.attributes["axis"]
    for index in work.indices:
        at = index[axis]
        for operand in work.given:
            if at < operand.shape[axis]:
                work.out.put(index, operand.get((*index[:axis], at, *index[axis + 1 :])))
                break
            at -= operand.shape[axis]


def _unravelled(number: int, shape: Shape) -> Index:
    found = []
    for size in reversed(shape):
        number, position = divmod(number, size)
        found.append(position)
    return tuple(reversed(found))


def _reshape(work: _Work) -> None:
    source, rows = work.read
    steps = [prod(source.shape[axis + 1 :]) for axis in range(len(source.shape))]
    for index in _indices(source, rows):
        number = sum(map(operator.mul, index, steps))
        work.out.put(_unravelled(number, work.layer.output.shape), work.x.get(index))


# Windows -----------------------------------------------------------------------------------------


def _axis_taps(window: Window, position: int, low: int, high: int) -> list[tuple[int, int]]:
    """(tap, place along the axis) of the taps of one position whose place is in [low, high)."""
    start = position * window.stride - window.pad_top
    places = [(tap, start + tap * window.dilation) for tap in range(window.kernel)]
    return [(tap, place) for tap, place in places if low <= place < high]


def _taps(work: _Work, position: Index) -> Iterator[tuple[Index, Index]]:
    """(tap, input position) of a window, as far as it lies inside the input; of a layer that
    accumulates, in the rows at hand.
    """
    tensor, rows = work.read
    spans = [(0, size) for size in tensor.shape[2:]]
    if work.accumulates:
        spans[0] = rows.start, rows.stop
    windows = list_windows(work.layer.attributes)
    found = (_axis_taps(w, p, *s) for w, p, s in zip(windows, position, spans, strict=True))
    for pairs in product(*found):
        yield tuple(tap for tap, _ in pairs), tuple(place for _, place in pairs)


def _pool(
    combine: Callable[[float, float], float],
    empty: float,
    finish: Callable[[_Work, Index, float], float],
) -> Callable[[_Work], None]:
    def kernel(work: _Work) -> None:
        starts = work.phase.first or not work.accumulates
        ends = work.phase.last or not work.accumulates
        for index in work.indices:
            value = empty if starts else work.out.get(index)
            for _, place in _taps(work, index[2:]):
                value = combine(value, work.x.get((*index[:2], *place)))
            work.out.put(index, finish(work, index, value) if ends else value)

    return kernel


def _mean(work: _Work, index: Index, total: float) -> float:
    """A sum divided by the taps that count: those in the padding too, if the layer says so."""
    attributes, sizes = work.layer.attributes, work.x.shape[2:]
    count = 1
    for window, position, size in zip(list_windows(attributes), index[2:], sizes, strict=True):
        low, high = 0, size
        if attributes["count_include_pad"]:
            low, high = -window.pad_top, size + window.pad_bottom
        count *= len(_axis_taps(window, position, low, high))
    return total / max(count, 1)


def _conv(work: _Work) -> None:
    """A pixel at a time: the sums of all its channels are formed in the workspace."""
    output = work.layer.output
    n, channels, *_ = output.shape
    pixels = sorted({(index[0], *index[2:]) for index in work.indices})
    for image, *position in pixels:
        assert image < n
        cell = [(image, channel, *position) for channel in range(channels)]
        _conv_begin(work, cell)
        for tap, place in _taps(work, tuple(position)):
            _conv_tap(work, image, tap, place)
        for channel, index in enumerate(cell):
            work.out.put(index, work.scratch.get(channel))


def _conv_begin(work: _Work, cell: Sequence[Index]) -> None:
    bias = work.operands[2] if len(work.operands) > 2 else None
    goes_on = work.accumulates and not work.phase.first
    for channel, index in enumerate(cell):
        start = 0.0 if bias is None else bias.get((channel,))
        work.scratch.put(channel, work.out.get(index) if goes_on else start)


def _conv_tap(work: _Work, image: int, tap: Index, place: Index) -> None:
    weights = work.operands[1]
    assert weights is not None
    outs, ins = weights.shape[0] // work.layer.attributes["group"], weights.shape[1]
    for channel in range(work.x.shape[1]):
        group, inner = divmod(channel, ins)
        value = work.x.get((image, channel, *place))
        for out in range(group * outs, (group + 1) * outs):
            term = value * weights.get((out, inner, *tap))
            work.scratch.put(out, work.scratch.get(out) + term)


# Matrix products ---------------------------------------------------------------------------------


def _gemm(work: _Work) -> None:
    if work.layer.attributes.get("flattened"):
        _flattened(work)
        return
    attributes = work.layer.attributes
    a, b, *c = work.given
    across_a, across_b = attributes["transA"], attributes["transB"]
    terms = range(a.shape[0 if across_a else 1])
    for i, j in work.indices:
        total = sum(
            a.get((k, i) if across_a else (i, k)) * b.get((j, k) if across_b else (k, j))
            for k in terms
        )
        addend = _broadcast(c[0], (i, j)) if c else 0.0
        work.out.put((i, j), attributes["alpha"] * total + attributes["beta"] * addend)


def _flattened(work: _Work) -> None:
    """Of a map that is read row by row; the weights have its storage order."""
    source, rows = work.read
    _, weights, *bias = work.given
    axis = source.row_axis
    for index in work.indices:
        start = bias[0].get(index) if bias else 0.0
        total = start if work.phase.first else work.out.get(index)
        for read in _indices(source, rows):
            stored = (0, *read)
            if axis is not None:
                stored = (read[axis], *read[axis + 1 :], *read[:axis])
            total += work.x.get(read) * weights.get((*stored, index[1]))
        work.out.put(index, total)


_KERNELS: Mapping[str, Callable[[_Work], None]] = {
    "Add": _elementwise(operator.add),
    "AveragePool": _pool(operator.add, 0.0, _mean),
    "BatchNormalization": _batch_normalization,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "Flatten": _reshape,
    "Gemm": _gemm,
    "GlobalAveragePool": _pool(operator.add, 0.0, _mean),
    "LeakyRelu": _leaky_relu,
    "MaxPool": _pool(max, -inf, lambda work, index, value: value),
    "Mul": _elementwise(operator.mul),
    "Relu": _elementwise(lambda value: max(value, 0.0)),
    "Reshape": _reshape,
    "Softmax": _softmax,
}

# The set -----------------------------------------------------------------------------------------


class PythonKernels:
    """Plain Python over the bytes of the pools."""

    name = "python"

    code = "Python"

    rereads_weights = tall_slabs = emits = self_timed = False
    shares_memory = True

    variants = ""

    origin = "", ""

    profile = "numpy-core"

    def peak(self) -> float | None:
        """Nobody asks for speed here."""
        return None

    def alignment(self, pool: str) -> int:
        """That of other host memory."""
        return ALIGNMENT

    def variants_of(self, layer: Layer, rows: int) -> tuple[str, ...]:
        """There is one way alone."""
        return ()

    def forms_of(self, layer: Layer, rows: int) -> tuple[()]:
        """There is one form alone."""
        return ()

    def shared(self, threads: int) -> PythonKernels:
        """One thread does it all."""
        return self

    def refusal(self, layer: Layer) -> str | None:
        """Operators that are not in the table, elements that are no floats, computed bounds."""
        if layer.op_type not in _KERNELS:
            return f"{layer.op_type} is none of {', '.join(_KERNELS)}"
        for tensor in (*layer.inputs, *layer.outputs):
            if tensor is not None and tensor.dtype not in _CODES:
                return f"'{tensor.name}' is {tensor.dtype}, none of {', '.join(_CODES)}"
        if layer.op_type == "Clip" and "bounds" in layer.attributes:
            return "its bounds are computed"
        return None

    def workspace(self, step: Step, limit: int | None = None) -> int:
        """Doubles: a Conv has one for each channel of a pixel, a Softmax one for each power of a
        group.
        """
        return max(8 * _doubles(one) for one in (step.layer, *step.layer.epilogue))

    def used(self, step: Step, size: int) -> int:
        """All that it needs, however much more there is."""
        return self.workspace(step)

    def lower(self, step: Step | Move, constants: Constants) -> list[Instruction]:
        """A step as it is: what it does is found in it when it runs. Rows come and go by numpy."""
        if isinstance(step, Move):
            return moves(step)
        needed = self.workspace(step)
        if needed > step.workspace.size:
            raise PlanError(
                f"firing {step.firing} ({step.actor}): needs {needed} bytes of workspace, "
                f"its plan has {step.workspace.size}"
            )
        return [Instruction(_STEP, (step,), ())]

    def moves(self, made: Sequence[Instruction]) -> bool:
        """No: an instruction is a step, with its rows where they are."""
        return False

    def allocate(self, pools: Mapping[str, int], *, shrinks: bool = False) -> HostMemory:
        """Arrays of bytes."""
        return allocate_pools(pools, shrinks=shrinks)

    def upload(self, constants: Constants) -> Constants:
        """Steps have theirs."""
        return constants

    def bind(self, program: Code, memory: HostMemory, constants: Constants) -> _Bound:
        """One call for each image and layer, and one that takes sums into an output apart."""
        return _Bound(program, memory)


_STEP = "step"


class _Bound:
    """Steps in memory; moves are numpy's."""

    driven = None

    def __init__(self, program: Code, memory: HostMemory) -> None:
        moving = [one for one in program.instructions if one.kernel != _STEP]
        code = replace(program, instructions=tuple(moving))
        self._moves = NumpyBound(code, memory, program.constants)  # type: ignore[type-var]
        self._runs: list[Callable[[], None]] = []
        moved = 0
        for one in program.instructions:
            if one.kernel == _STEP:
                (step,) = one.fields
                self._runs.append(partial(_run, step, memory))
            else:
                self._runs.append(self._moves.prepared([moved]))
                moved += 1

    def open(self, port: int, array: np.ndarray | None, first: int = 0) -> None:
        self._moves.open(port, array, first)

    def wait(self) -> None:
        """What was started has ended."""

    def mark(self) -> None:
        """The host has the clock."""

    def prepared(self, numbers: Sequence[int]) -> Callable[[], None]:
        runs = [self._runs[number] for number in numbers]

        def run() -> None:
            for one in runs:
                one()

        return run


def _run(step: Step, memory: Memory) -> None:
    for one in split_by_image(step):
        for function, arguments in _calls(one, memory):
            function(*arguments)


def _doubles(layer: Layer) -> int:
    """Numbers that a layer keeps in the workspace."""
    shape = layer.output.shape
    if layer.op_type == "Conv":
        return shape[1]
    if layer.op_type == "Softmax":
        return prod(shape[axis] for axis in layer.attributes["axes"])
    return 0


def _calls(step: Step, memory: Memory) -> list[Call]:
    work = _work(step, memory)
    calls: list[Call] = [(_KERNELS[step.layer.op_type], (work,))]
    if work.accumulates and not step.phase.last:
        return calls
    if step.states:
        outputs = _cells(memory, step.outputs[0], step.layer.output, step.phase.out.start)
        calls.append((_copied, (work, outputs)))
    for layer in step.layer.epilogue:
        calls.append((_KERNELS[layer.op_type], (_work(_after(step, layer), memory),)))
    return calls


PYTHON = PythonKernels()
