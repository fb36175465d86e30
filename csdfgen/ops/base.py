"""The record of an operator, one for each ONNX operator; nothing else branches on operator types.

For a layer, a record gives its outputs (`build`), the input rows that output rows need
(`input_rows`), its cost, which outputs may share memory with which inputs (`aliases`), and how a
slab is computed (`kernel`). Rates, capacities, lifetimes and execution all follow from these
(docs/model.md).

A kernel *emits prepared calls*: given arrays (addresses and strides) for the slabs of one phase it
returns `(function, arguments)` pairs that compute the phase when called in order. Everything but the
data is known when it emits, so that a frame is a flat list of calls.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError, PlanError
from csdfgen.model.formats import Format, accumulator_type
from csdfgen.model.network import Layer, Node, Shape, Tensor
from csdfgen.model.rows import Rows, Slab, Window, slabs

Call = tuple[Callable[..., Any], tuple[Any, ...]]

MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators."""

TABLES = "ai.onnx.ml"
"""ONNX's domain for tables of features: trees, linear models."""

REQUIRED: Any = object()
"""Marks an attribute without a default."""


class Mode(enum.Enum):
    """How a layer's work divides into phases."""

    ROWS = "row-phased"
    ACCUMULATE = "accumulating"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class Phase:
    """What one firing of a layer works on.

    out: rows of the outputs it writes (`ROWS`); for `ACCUMULATE` and `WHOLE` all rows of the
        output, which an accumulating layer holds as its state from the first phase to the last.
    ins: by input position the rows that its slab holds, along `Layer.input_axes`; None for a
        constant.
    first, last: an accumulating layer initialises its state in the first phase, finishes in the
        last.
    image, images: which images; all rows are counted within one. Several are whole images.
    group: index of its group among the groups of images that share phases.
    """

    out: Rows
    ins: tuple[Rows | None, ...]
    first: bool = True
    last: bool = True
    image: int = 0
    images: int = 1
    group: int = 0

    def held(self, position: int) -> Rows:
        """The rows that it holds of an operand that is no constant."""
        rows = self.ins[position]
        assert rows is not None
        return rows

    def slab(self, rows: Rows) -> Slab:
        """Rows of an operand or a result of this phase, with their images."""
        return Slab(rows, self.image, self.images)


PREFERRED = 256 * 1024
"""Bytes of workspace with which kernels are fastest: panels stay in a second-level cache."""

LEAST = 8 * 1024
"""Bytes that a kernel always takes if they make it faster: with less, the overhead of calls dominates.
A smaller limit is kept, however slow the kernel is then.
"""

LITTLE, SHARE = 512, 32
"""Bytes, and fraction of what is read and written: less scratch would save too little for the calls that
it costs, so that a request for the least scratch gets this much.
"""


class Scratch:
    """Bump allocator over the workspace of one step; every step starts at its beginning again.

    limit: bytes that kernels should stay within: they choose their blocks by `room`, the same ones for a
        limit and for what they take under it. end: most bytes taken so far, with the gaps between aligned
        arrays. declares: the calls will not be made, so that a kernel need not prepare its weights or
        return any. asks: whether a kernel may take more than the limit where it would be slow with less.
        indivisible: set by a kernel for a step that would take twice the time in two halves.
    """

    ALIGN = 64
    declares = False
    asks = False
    at_any_price = False
    indivisible = False

    def __init__(self, buffer: np.ndarray) -> None:
        self._buffer = buffer
        self.limit = buffer.nbytes
        self.end = self._at = 0

    @property
    def room(self) -> int:
        """Bytes that the next array may have."""
        return max(0, self.limit - align_size(self._at))

    def little(self, touched: int) -> int:
        """Bytes that work which reads and writes so many is given at any price; 0 otherwise."""
        return max(LITTLE, touched // SHARE) if self.at_any_price else 0

    @property
    def bounded(self) -> bool:
        """Whether a kernel is to choose no slow blocks, even if others do not fit."""
        return self.asks and not self.at_any_price

    @property
    def mark(self) -> int:
        """What is taken now, for `rewind`."""
        return self._at

    def rewind(self, mark: int) -> None:
        """Return what was taken since the mark: later calls may use it again."""
        self._at = mark

    def take(self, shape: Shape, dtype: str | np.dtype[Any] = "float32") -> np.ndarray:
        """An uninitialised array in the workspace, aligned to 64 bytes. Raises PlanError."""
        dt = np.dtype(dtype)
        start = self._next(prod(shape) * dt.itemsize)
        if self._at > self._buffer.nbytes:
            raise PlanError(
                f"needs {self._at} bytes of workspace, its plan has {self._buffer.nbytes}"
            )
        return self._buffer[start : self._at].view(dt).reshape(shape)

    def _next(self, size: int) -> int:
        start = align_size(self._at)
        self._at = start + size
        self.end = max(self.end, self._at)
        return start


def align_size(size: int) -> int:
    """Where an array may start behind `size` bytes."""
    return -(-size // Scratch.ALIGN) * Scratch.ALIGN


class CountingScratch(Scratch):
    """Counts what a kernel would take; its arrays are real but never touched."""

    def __init__(self, limit: int | None = None) -> None:
        super().__init__(np.empty(0, np.uint8))
        self.limit = PREFERRED if limit is None else limit

    def take(self, shape: Shape, dtype: str | np.dtype[Any] = "float32") -> np.ndarray:
        array = np.empty(shape, dtype)
        self._next(array.nbytes)
        return array


class DeclaringScratch(CountingScratch):
    """Counts what a plan is to have for a kernel: what is emitted is thrown away."""

    declares = asks = True

    def __init__(self, limit: int | None = None) -> None:
        super().__init__(limit)
        self.at_any_price = limit is not None and limit < LEAST


class GivenScratch(CountingScratch):
    """Counts what a kernel takes of so many bytes: what is emitted is thrown away."""

    declares = True


@dataclass(frozen=True, slots=True)
class Work:
    """What a kernel emits calls for: one phase of a layer, with its arrays and a workspace.

    slabs[k]: shape (len(phase.ins[k]), *row shape along input_axes[k]), None for a constant; maybe
        strided, read only. Where the operator takes them (`Operator.takes`), a `Spread` instead.
    results[j]: shape (len(phase.out), *outputs[j].row_shape); maybe strided; every element is to be
        written.
    In a phase of several images (`Operator.joins`) both have a first axis of the images: slabs are a
    `Spread` of evenly spaced images, or a `Stack` of one for each image.
    """

    phase: Phase
    slabs: Sequence[np.ndarray | None]
    results: Sequence[np.ndarray]
    scratch: Scratch

    @property
    def slab(self) -> np.ndarray:
        """That of input 0, which is computed."""
        slab = self.slabs[0]
        assert slab is not None
        return slab

    @property
    def held(self) -> Rows:
        """Rows that the slab of input 0 holds."""
        return self.phase.held(0)

    @property
    def result(self) -> np.ndarray:
        """That of output 0."""
        return self.results[0]


Emit = Callable[[Work], Iterable[Call]]
"""What a phase has to work with -> the calls that compute it."""


def make_phase_kernel(make: Callable[[Layer, Work], Iterable[Call]]) -> Callable[[Layer], Emit]:
    """The kernel of an operator that prepares nothing once for a layer: (layer, work) -> calls."""
    return lambda layer: partial(make, layer)


class Takes(enum.Enum):
    """The slabs that a kernel takes; others are gathered in the workspace before."""

    EVEN = "evenly spaced rows"
    PIECES = "evenly spaced rows, maybe in pieces along the channels"
    SPREAD = "rows and pieces at any addresses"


class AliasKind(enum.Enum):
    """How an output may share memory with an input."""

    VIEW = "view"
    """The output is a part (or another reading) of the input's row; nothing is computed."""
    MERGE = "merge"
    """The input is a part of the output's row; whoever writes the input writes it there."""
    INPLACE = "inplace"
    """Row i of the output may overwrite row i of the input, once nobody else reads it."""
    CHOICE = "choice"
    """Row i of the output is row i of this input, or of another one: the one of the branch that was taken."""


@dataclass(frozen=True, slots=True)
class Alias:
    """Output `output` and input `position`, of one type, may share rows: row i of one is part of row i of the other.

    VIEW, MERGE: the smaller one covers [start, start + size) of dimension `dim` of the larger one's
    row shape; dim None: both cover the whole row (equal element order, possibly another shape).
    """

    kind: AliasKind
    position: int
    output: int = 0
    dim: int | None = None
    start: int = 0


def takes_single_images(layer: Layer, images: int) -> bool:
    """A kernel that takes one image at a time."""
    return False


_CONTRIBUTED = "https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md"


def onnx_page(op_type: str, domain: str = "") -> str:
    """The page of an operator in the ONNX documentation."""
    return f"https://onnx.ai/onnx/operators/onnx_{domain.replace('.', '')}_{op_type}.html"


def output_format(layer: Layer) -> Format:
    """An accumulating layer's state is its output in the making."""
    return layer.output.format


def accumulator_format(layer: Layer) -> Format:
    """The state of a layer that sums up: the output's elements in the type in which sums are formed."""
    return Format(accumulator_type(layer.output.dtype))


@dataclass(frozen=True, slots=True)
class Operator:
    """One ONNX operator: what it accepts and the functions that define it.

    build: Node -> Layer. Checks attributes and operands, settles output shapes, dtypes and row
        axes, and normalises attributes so that nothing later depends on the opset. Raises
        ModelError.
    input_rows: (layer, output rows) -> rows of each input along `layer.input_axes`, None for
        constants. For ACCUMULATE it is asked with all output rows; for WHOLE likewise.
    kernel: layer -> Emit. May prepare (pack) weights once.
    cost: (layer, output rows) -> work in multiply-accumulates, or elements where there are none.
    mode: how the layer divides into phases. accumulate_over: input position whose rows it
        accumulates.
    held: outputs of a row-phased layer that are no rows but states: the first phase claims them whole, each
        phase updates them, and they are complete with the last.
    parts: the layers that a node becomes where these may be several; then `build` is not asked.
    state: format in which an accumulating layer holds its outputs until the last phase. The kernel
        gets results of that type in every phase; where it is not the output's, the state is a buffer
        of its own, and the output is claimed by the last phase alone.
    aliases: the memory that outputs may share with inputs.
    rowwise: output row i depends on input row i alone, for every row-phased input of equal height.
    pointwise: each element of the output is a function of those that the operands have at its place.
    shift_invariant: interior phases differ by a shift of all row ranges only, so that prepared
        calls can be reused for equal addresses; of some layers only, where it is a function.
    pattern: (layer, output rows) -> all that the calls of a phase, and of its parts, depend on, beside addresses and the
        number of rows that it reads of each operand; None where that is not known.
    row_kind: (layer, output row) -> all that the values of a row depend on, beside what it reads, in an image of any height;
        None where they depend on its number. Without it, see `find_row_kind`.
    takes: (layer, input position) -> slabs that the kernel takes of an operand.
    joins: (layer, images) -> whether the kernel takes phases of so many whole images.
    window: the sliding window along the rows, for Algorithm 1 of paper 002.
    constant_inputs: positions that must be constants.
    domain: whose operator it is, "" for ONNX's own.
    multiplies: whether its cost is in multiply-accumulates, not elements.
    attributes: accepted attributes and their defaults; any other is refused.
    """

    op_type: str
    build: Callable[[Node], Layer]
    input_rows: Callable[[Layer, Rows], tuple[Rows | None, ...]]
    kernel: Callable[[Layer], Emit]
    cost: Callable[[Layer, Rows], int]
    since: int = 7
    mode: Callable[[Layer], Mode] = lambda layer: Mode.ROWS
    accumulate_over: int = 0
    held: Callable[[Layer], frozenset[int]] = lambda layer: frozenset()
    parts: Callable[[Node], tuple[Layer, ...]] | None = None
    state: Callable[[Layer], Format] = output_format
    aliases: Callable[[Layer], tuple[Alias, ...]] = lambda layer: ()
    window: Callable[[Layer], Window | None] = lambda layer: None
    rowwise: bool = False
    pointwise: bool = False
    shift_invariant: bool | Callable[[Layer], bool] = False
    pattern: Callable[[Layer, Rows], Hashable | None] = lambda layer, out: None
    row_kind: Callable[[Layer, int], Hashable | None] | None = None
    takes: Callable[[Layer, int], Takes] = lambda layer, position: Takes.EVEN
    joins: Callable[[Layer, int], bool] = takes_single_images
    constant_inputs: frozenset[int] = frozenset()
    attributes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    structure: str = "row-phased"
    notes: str = ""
    domain: str = ""
    multiplies: bool = False

    @property
    def url(self) -> str:
        """The operator's page in the documentation of its domain."""
        name = self.op_type.removeprefix(f"{self.domain}.")
        if self.domain == MICROSOFT:
            return f"{_CONTRIBUTED}#{self.domain}.{name}"
        return onnx_page(name, self.domain)

    def layers(self, node: Node) -> tuple[Layer, ...]:
        """The layers that a node becomes. Raises ModelError."""
        return (self.build(node),) if self.parts is None else self.parts(node)

    def repeats(self, layer: Layer) -> bool:
        """Whether interior phases differ by a shift alone: equal addresses mean equal calls."""
        shifted = self.shift_invariant
        alike = shifted(layer) if callable(shifted) else shifted
        return alike or (self.rowwise and _rows_alike(layer))

    def find_row_kind(self, layer: Layer, row: int) -> Hashable | None:
        """`row_kind`: one for all rows whose phases differ by a shift, or what the calls of a phase of this row depend on."""
        if self.row_kind is not None:
            return self.row_kind(layer, row)
        return 0 if self.repeats(layer) else self.pattern(layer, Rows(row, row + 1))

    def written(self, layer: Layer, out: Rows) -> tuple[Rows, ...]:
        """By output the rows that a phase writes, those of a state whole. out: see `Phase`."""
        held = self.held(layer)
        return tuple(Rows(0, t.rows) if k in held else out for k, t in enumerate(layer.outputs))

    def attribute(self, node: Node, name: str) -> Any:
        """Value of an accepted attribute, or its default."""
        value = node.attributes.get(name, self.attributes[name])
        if value is REQUIRED:
            raise ModelError(f"attribute '{name}' is missing")
        return value


def require_tensor(node: Node, position: int) -> Tensor:
    """The activation at a position; ModelError if it is a constant or absent."""
    operand = node.operand(position)
    if operand is None:
        raise ModelError(f"input {position} is absent, a computed tensor is needed")
    if not isinstance(operand, Tensor):
        message = f"input {position} is a constant, a computed tensor is needed"
        raise ConstantOperandError(message, operand=operand)
    return operand


class ConstantOperandError(ModelError):
    """An operand is a constant, and its operator reads rows of a tensor there."""

    def __init__(self, message: str, *, where: str = "", operand: np.ndarray | None = None) -> None:
        super().__init__(message, where=where)
        self.operand = operand


def build_with_tensors(
    make: Callable[[Node], tuple[Layer, ...]],
    node: Node,
    written: Callable[[str, np.ndarray], Tensor],
) -> tuple[Layer, ...]:
    """What is made of a node; a constant of which its operator reads rows is a tensor that a layer writes.

    written: (name, constant) -> that tensor. Raises ModelError.
    """
    try:
        return make(node)
    except ConstantOperandError as error:
        at = next((k for k, one in enumerate(node.inputs) if one is error.operand), None)
        if at is None or error.operand is None:
            raise
        tensor = written(f"{node.name}/input {at}", error.operand)
        inputs = (*node.inputs[:at], tensor, *node.inputs[at + 1 :])
        return build_with_tensors(make, replace(node, inputs=inputs), written)


class ComputedOperandError(ModelError):
    """An operand that must be a constant is an activation; what it is computed from, only the
    reader of the network knows.
    """

    def __init__(self, message: str, *, where: str = "", position: int = 0, name: str = "") -> None:
        super().__init__(message, where=where)
        self.position, self.name = position, name


def require_constant(node: Node, position: int) -> np.ndarray:
    """The constant at a position. Raises ModelError, ComputedOperandError if it is computed."""
    operand = node.operand(position)
    if operand is None:
        raise ModelError(f"input {position} is absent, it must be a constant")
    if not isinstance(operand, np.ndarray):
        raise ComputedOperandError(
            f"input {position} is computed at run time ('{operand.name}'), it must be a constant",
            position=position,
            name=operand.name,
        )
    return operand


def aligned_axis(tensor: Tensor, output: Tensor) -> int | None:
    """The axis of `tensor` that meets the row axis of `output` in broadcasting, None without one."""
    if output.row_axis is None:
        return None
    axis = output.row_axis - (len(output.shape) - len(tensor.shape))
    return axis if axis >= 0 else None


def _rows_alike(layer: Layer) -> bool:
    """Whether no operand of a row-by-row layer has values of its own for each row, but those read
    row by row, of which there is one at least.
    """
    pairs = zip(layer.inputs, layer.input_axes, strict=True)
    if layer.output.rows not in [axis_height(t, axis) for t, axis in pairs if t is not None]:
        return False
    for constant in layer.constants.values():
        axis = aligned_axis(Tensor("", constant.shape), layer.output)
        if axis is not None and constant.shape[axis] > 1:
            return False
    for tensor, axis in zip(layer.inputs, layer.input_axes, strict=True):
        if tensor is not None and not is_aligned(tensor, axis, layer.output):
            across = aligned_axis(tensor, layer.output)
            if across is not None and tensor.shape[across] > 1:
                return False
    return True


def is_aligned(tensor: Tensor, axis: int | None, output: Tensor) -> bool:
    """Whether rows of `tensor` along `axis` are the rows of `output`, one for one."""
    return (
        axis is not None
        and axis == aligned_axis(tensor, output)
        and tensor.shape[axis] == output.rows
    )


def axis_height(tensor: Tensor, axis: int | None) -> int:
    """Rows of a tensor when it is read along `axis`; 1 for natural order."""
    return 1 if axis is None else tensor.shape[axis]


def broadcast_rows(
    layer: Layer, out: Rows, alike: Callable[[int], bool]
) -> tuple[Rows | None, ...]:
    """`input_rows` that are the output's for operands at some positions, for which alike holds; others are read whole."""
    pairs = enumerate(zip(layer.inputs, layer.input_axes, strict=True))
    return tuple(
        None if t is None else out if alike(k) else Rows(0, axis_height(t, axis))
        for k, (t, axis) in pairs
    )


def whole_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    """`input_rows` of an operator that reads all of every operand."""
    return broadcast_rows(layer, out, lambda position: False)


def aligned_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    """`input_rows` of elementwise operators: the same rows of operands that have them, else all."""
    found: list[Rows | None] = []
    for tensor, axis in zip(layer.inputs, layer.input_axes, strict=True):
        if tensor is None:
            found.append(None)
        elif is_aligned(tensor, axis, layer.output):
            found.append(out)
        else:
            found.append(Rows(0, axis_height(tensor, axis)))
    return tuple(found)


def operand_view(
    slab: np.ndarray, tensor: Tensor, axis: int | None, output: Tensor, out: Rows
) -> np.ndarray:
    """A slab of an operand (`aligned_rows`), broadcastable against (len(out), *output.row_shape)."""
    array = replace(tensor, row_axis=axis).to_onnx(slab)
    return broadcast_view(array, output, out, sliced=is_aligned(tensor, axis, output))


def broadcast_view(
    array: np.ndarray, output: Tensor, out: Rows, *, sliced: bool = False
) -> np.ndarray:
    """An array in ONNX axis order, broadcastable against (len(out), *output.row_shape).

    sliced: along the row axis the array holds rows `out` only; otherwise it is whole and cut here.
    """
    rank = len(output.shape)
    array = array.reshape((1,) * (rank - array.ndim) + array.shape)
    if output.row_axis is None:
        return array[None]
    k = output.row_axis
    if not sliced and array.shape[k] > 1:
        array = array[(slice(None),) * k + (slice(out.start, out.stop),)]
    return array.transpose(output.order)


def phases(operator: Operator, layer: Layer, height: int | Sequence[int]) -> tuple[Phase, ...]:
    """The phases of a layer, each of `height` rows of its output, or of its input to accumulate."""
    output_rows = Rows(0, layer.output.rows)
    whole = operator.input_rows(layer, output_rows)
    mode = operator.mode(layer)
    if mode is Mode.WHOLE:
        return (Phase(output_rows, whole),)
    if mode is Mode.ACCUMULATE:
        over = operator.accumulate_over
        tensor = layer.computed(over)
        parts = slabs(axis_height(tensor, layer.input_axes[over]), height)
        return tuple(
            Phase(
                output_rows, (*whole[:over], part, *whole[over + 1 :]), i == 0, i == len(parts) - 1
            )
            for i, part in enumerate(parts)
        )
    parts = slabs(layer.output.rows, height)
    return tuple(
        Phase(part, operator.input_rows(layer, part), i == 0, i == len(parts) - 1)
        for i, part in enumerate(parts)
    )


def stored_rows(layer: Layer, position: int, rows: Rows) -> Rows:
    """Rows of the stored tensor that are needed for `rows` along the layer's input axis."""
    tensor = layer.computed(position)
    return rows if layer.input_axes[position] == tensor.row_axis else Rows(0, tensor.rows)


def present_slab(stored: np.ndarray, layer: Layer, position: int, rows: Rows) -> np.ndarray:
    """The view of `rows` along the layer's input axis in the stored rows of `stored_rows`."""
    tensor = layer.computed(position)
    axis = layer.input_axes[position]
    if axis == tensor.row_axis:
        return stored
    return replace(tensor, row_axis=axis).to_storage(tensor.to_onnx(stored))[rows.start : rows.stop]


def allocate_targets(
    operator: Operator, layer: Layer, outputs: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """What the kernel of a layer is to write into: the outputs themselves, or new arrays for a state
    of another type, which are rounded into the outputs after the last phase.
    """
    if operator.mode(layer) is not Mode.ACCUMULATE:
        return list(outputs)
    dtype = np.dtype(operator.state(layer).dtype)
    return [o if o.dtype == dtype else np.empty(o.shape, dtype) for o in outputs]


def slice_targets(
    operator: Operator, layer: Layer, phase: Phase, targets: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Of whole outputs the rows that a phase writes."""
    rows = operator.written(layer, phase.out)
    return [target[r.start : r.stop] for target, r in zip(targets, rows, strict=True)]


def run_slab(
    operator: Operator,
    layer: Layer,
    phase: Phase,
    slabs: Sequence[np.ndarray | None],
    results: Sequence[np.ndarray],
) -> None:
    """Compute one phase at once, with a workspace of its own; for tests and for constants."""
    work = Work(phase, slabs, results, CountingScratch())
    for function, arguments in operator.kernel(layer)(work):
        function(*arguments)
