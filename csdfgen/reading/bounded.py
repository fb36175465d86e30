"""Tensors of which a part is there: how many positions NonZero and NonMaxSuppression find is known at run time only.

Such a tensor has the size that it has at most, along its *bounded* axis; what was found comes first
(`csdfgen.ops.selection`). Layers that keep positions apart compute the others as well, of numbers that mean nothing: a
box at index -1. So everything that reads a bounded tensor is looked at here, and is right for what was found, or refused:

- positions stay apart (arithmetic, a Gather by the indices that were found): the result is bounded too;
- a reduction, TopK, NonZero or NonMaxSuppression over the bounded axis reads a tensor that is filled with what does not
  count there (the lowest number for a maximum);
- the size itself, read by Shape, is an upper bound: as a size (of a Reshape, an Expand, K of TopK) it is what it should
  be, but nothing may be computed with it;
- an output of the network is `FILL` behind what was found (False, and 0 of unsigned integers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.ops import OPERATORS
from csdfgen.ops.composing import OPSET, Composition
from csdfgen.ops.selection import SELECTING, fill_value
from csdfgen.reading.onnx_file import label
from csdfgen.reading.onnx_graph import Operation

Operand = Tensor | np.ndarray


@dataclass(frozen=True, slots=True)
class _Bound:
    """A bounded axis, and which of the positions that `source` has along its own these are."""

    axis: int
    source: Tensor
    positions: range

    def cut(self, size: int) -> _Bound:
        """Of the first positions."""
        return replace(self, positions=self.positions[:size])


class _RefusedError(ModelError):
    """A layer that cannot be right for what was found."""


# What becomes of the axis -------------------------------------------------------------------------

Rule = Callable[[Layer, int, int], int | None]
"""(layer, position of the bounded operand, its bounded axis) -> the bounded axis of the outputs, None where there is none.
Raises _RefusedError.
"""


def _aligned(layer: Layer, position: int, axis: int) -> int:
    """Where operands are broadcast."""
    return axis + len(layer.output.shape) - len(layer.computed(position).shape)


def _moved(layer: Layer, position: int, axis: int) -> int:
    """Where axes are merged and split, as long as the bounded one stays as it is."""
    shape, out = layer.computed(position).shape, layer.output.shape
    before = prod(shape[:axis])
    for k, size in enumerate(out):
        if size == shape[axis] and prod(out[:k]) == before:
            return k
    raise _RefusedError("merges it with another axis, or splits it")


def _apart(layer: Layer, position: int, axis: int) -> int:
    """Where work is along axes, which are gone afterwards without `keepdims`."""
    axes = layer.attributes["axes"]
    if axis in axes:
        raise _RefusedError("computes along it")
    gone = 0 if layer.attributes.get("keepdims", True) else sum(k < axis for k in axes)
    return axis - gone


def _added_up(layer: Layer, position: int, axis: int) -> int:
    """CumSum and CumProd: forwards, the first sums are of the first elements."""
    if axis in layer.attributes["axes"] and layer.attributes["reverse"]:
        raise _RefusedError("adds up from its end")
    return axis


def _beside(layer: Layer, position: int, axis: int) -> int:
    """Concat and Split along another axis."""
    if axis == layer.attributes["axis"]:
        raise _RefusedError("joins or splits it")
    return axis


def _gathered(layer: Layer, position: int, axis: int) -> int | None:
    along = layer.attributes["axis"]
    if position == 1:
        return int(along + axis)
    if axis == along:
        return None
    more = len(layer.output.shape) - len(layer.computed(0).shape)
    return axis if axis < along else axis + more


def _gathered_elements(layer: Layer, position: int, axis: int) -> int | None:
    return None if position == 0 and axis == layer.attributes["axis"] else axis


def _gathered_nd(layer: Layer, position: int, axis: int) -> int | None:
    if position == 1 and axis == len(layer.computed(1).shape) - 1:
        raise _RefusedError("takes it for coordinates")
    if layer.attributes.get("batch_dims", 0):
        raise _RefusedError("has batch_dims")
    return axis if position == 1 else None


def _multiplied(layer: Layer, position: int, axis: int) -> int:
    """MatMul: an axis of a matrix that survives, or one of many matrices; counted from the back."""
    back = len(layer.computed(position).shape) - axis
    if back == (1 if position == 0 else 2) or len(layer.computed(position).shape) == 1:
        raise _RefusedError("sums over it")
    beside = layer.inputs[1 - position]
    other = layer.constants[1 - position].ndim if beside is None else len(beside.shape)
    return len(layer.output.shape) - back + (other == 1 and back > 1)


def _gemm(layer: Layer, position: int, axis: int) -> int:
    if position == 2:
        return _aligned(layer, position, axis)
    kept = (1 if layer.attributes["transA"] else 0, 0 if layer.attributes["transB"] else 1)
    if axis != kept[position]:
        raise _RefusedError("sums over it")
    return position


def _one_hot(layer: Layer, position: int, axis: int) -> int:
    return axis + (layer.attributes["axis"] <= axis)


def _repeated(layer: Layer, position: int, axis: int) -> int:
    if layer.attributes["repeats"][axis] != 1:
        raise _RefusedError("repeats it")
    return axis


def _of_images(layer: Layer, position: int, axis: int) -> int:
    """Where each image, of axis 0, is computed apart."""
    if axis or position:
        raise _RefusedError("mixes its positions")
    return 0


def _transposed(layer: Layer, position: int, axis: int) -> int:
    return int(layer.attributes["perm"].index(axis))


def _same(layer: Layer, position: int, axis: int) -> int:
    return axis


_ALONG_AXES = """
    ArgMax ArgMin LayerNormalization LogSoftmax LpNormalization RMSNormalization ReduceL1 ReduceL2 ReduceLogSum
    ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Softmax
"""
_ON_IMAGES = """
    AveragePool BatchNormalization Conv ConvTranspose DepthToSpace GlobalAveragePool GlobalMaxPool MaxPool SpaceToDepth
"""

_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), _moved),
        **dict.fromkeys(_ALONG_AXES.split(), _apart),
        **dict.fromkeys(_ON_IMAGES.split(), _of_images),
        **dict.fromkeys(("Concat", "Split"), _beside),
        **dict.fromkeys(("CumProd", "CumSum"), _added_up),
        "Expand": _aligned,
        "Gather": _gathered,
        "GatherElements": _gathered_elements,
        "GatherND": _gathered_nd,
        "Gemm": _gemm,
        "MatMul": _multiplied,
        "OneHot": _one_hot,
        "Slice": _same,
        "Tile": _repeated,
        "TopK": _same,
        "Transpose": _transposed,
    }
)
"""Operators, beside those that work element by element."""


def _lowest(kind: np.dtype[Any]) -> float:
    return -np.inf if kind.kind == "f" else 0 if kind.kind == "b" else np.iinfo(kind).min


def _highest(kind: np.dtype[Any]) -> float:
    return np.inf if kind.kind == "f" else 1 if kind.kind == "b" else np.iinfo(kind).max


_NEUTRAL: Mapping[str, Callable[[np.dtype[Any]], float]] = MappingProxyType(
    {
        **dict.fromkeys(("ArgMax", "ReduceLogSumExp", "ReduceMax"), _lowest),
        **dict.fromkeys(("ArgMin", "ReduceMin"), _highest),
        **dict.fromkeys(
            ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceSum", "ReduceSumSquare"), lambda kind: 0
        ),
        "ReduceProd": lambda kind: 1,
    }
)
"""Reduction -> what does not change its result."""


# Sizes --------------------------------------------------------------------------------------------

_KEEPING = frozenset(
    {"Concat", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose"}
    | {"Unsqueeze"}
)
"""Operators that only move sizes."""

_MAKING = frozenset({"ConstantOfShape", "Expand", "Range"})
"""Operators that make a constant of a size."""

_SIZES: Mapping[str, int] = MappingProxyType({"Expand": 1, "Reshape": 1, "Slice": 2, "TopK": 1})
"""Operator -> the operand that may be a size which is known as an upper bound."""

Fold = Callable[[Sequence[np.ndarray | None]], Sequence[np.ndarray]]
"""Operands of an operation of constants -> its results."""

_COUNTS = (
    "computes with a number of positions that NonZero or NonMaxSuppression finds, which is known at run time only; such a "
    "number may be a size of Reshape and Expand, an end of Slice, and K of TopK"
)


class Bounded:
    """The bounded tensors of a network, as it is built. add: takes the layers that fill one, and returns it."""

    def __init__(self, add: Callable[[Sequence[Layer], Node], Tensor]) -> None:
        self._add = add
        self._bounds: dict[str, _Bound] = {}
        self._sizes: dict[str, np.ndarray] = {}
        """Constant -> of each element the number, from 1 on, of the bound that it is the size of; 0: of none."""
        self._known: list[_Bound] = []
        self._lines: set[str] = set()
        """Constants of a size that is an upper bound."""
        self._made: dict[object, Tensor] = {}

    @property
    def axes(self) -> dict[str, int]:
        """Tensor -> its bounded axis."""
        return {name: bound.axis for name, bound in self._bounds.items()}

    @contextmanager
    def in_a_branch(self) -> Iterator[None]:
        """What is made during this block is not there outside of it. Raises ModelError for tensors that are bounded there."""
        made, before = dict(self._made), set(self._bounds)
        yield
        self._made = made
        if found := sorted(set(self._bounds) - before):
            raise ModelError(
                f"'{label(found[0])}' in a branch has as many positions as are found at run time"
            )

    # Layers

    def prepared(self, node: Node, names: Sequence[str]) -> Node:
        """The node, with operands filled where it looks along their bounded axis. names: of its operands. Raises
        ModelError.
        """
        if not self._bounds:
            return node
        self._check_constants(node, names)
        if node.op_type == "NonMaxSuppression":
            return self._of_boxes(node)
        data = node.operand(0)
        bound = self._bounds.get(data.name) if isinstance(data, Tensor) else None
        if bound is None:
            return node
        assert isinstance(data, Tensor)
        _check_indices(node, bound.axis)
        kind = np.dtype(data.dtype)
        if node.op_type == "NonZero":
            return self._with(node, 0, self._filled(data, bound, 0))
        if node.op_type in _NEUTRAL and bound.axis in _only(node).attributes["axes"]:
            value = _NEUTRAL[node.op_type](kind)
            return self._with(node, 0, self._filled(data, bound, value))
        if node.op_type == "TopK":
            layer = _only(node)
            if bound.axis == layer.attributes["axis"]:
                value = _lowest(kind) if layer.attributes["largest"] else _highest(kind)
                for tensor in layer.outputs:
                    self._bounds[tensor.name] = bound.cut(tensor.shape[bound.axis])
                return self._with(node, 0, self._filled(data, bound, value))
        return node

    def follow(self, layer: Layer) -> None:
        """Note which outputs of a layer are bounded. Raises ModelError where that would be wrong."""
        if layer.op_type in SELECTING:
            axis = SELECTING[layer.op_type]
            tensor = layer.output
            self._bounds[tensor.name] = _Bound(axis, tensor, range(tensor.shape[axis]))
        for position, read in enumerate(layer.inputs):
            bound = None if read is None else self._bounds.get(read.name)
            if bound is None or layer.op_type == "NonMaxSuppression":
                continue
            try:
                self._through(layer, position, bound)
            except _RefusedError as error:
                raise ModelError(
                    f"{error}: '{label(layer.computed(position).name)}' has as many positions along axis {bound.axis} as "
                    f"'{label(bound.source.name)}' finds, which is known at run time only; cut the model there, or "
                    "choose a fixed number with TopK before"
                ) from error

    def sized(self, node: Node, names: Sequence[str], layers: Sequence[Layer]) -> None:
        """Note that outputs are bounded whose sizes are upper bounds."""
        position = _SIZES.get(node.op_type, 0)
        marks = self._sizes.get(names[position]) if 0 < position < len(names) else None
        if marks is None:
            return
        (layer,) = layers
        rank = len(layer.output.shape)
        for place, mark in enumerate(marks.reshape(-1)):
            if not mark:
                continue
            axis = place
            if node.op_type == "Slice":
                given = node.operand(3)
                axis = place if given is None else int(np.asarray(given).reshape(-1)[place]) % rank
            elif node.op_type == "TopK":
                axis = int(layer.attributes["axis"])
            for output in layer.outputs:
                one = replace(self._known[mark - 1], axis=axis).cut(output.shape[axis])
                self._bounds.setdefault(output.name, one)

    def _through(self, layer: Layer, position: int, bound: _Bound) -> None:
        rule = _aligned if OPERATORS[layer.op_type].pointwise else _RULES.get(layer.op_type)
        if rule is None:
            raise _RefusedError("is not known to keep its positions apart")
        axis = rule(layer, position, bound.axis)
        if axis is None:
            indices = layer.inputs[1]
            if indices is not None and indices.name not in self._bounds:
                raise _RefusedError(
                    "gathers along it at computed indices, which may count from its end"
                )
            return
        positions = bound.positions
        if layer.op_type == "Slice":
            start, step = (layer.attributes[k][bound.axis] for k in ("starts", "steps"))
            count = layer.output.shape[axis]
            positions = positions[start : start + (count - 1) * step + 1 : step]
        for output in layer.outputs:
            known = self._bounds.setdefault(
                output.name, replace(bound, axis=axis, positions=positions)
            )
            if known.axis != axis:
                raise _RefusedError(f"makes axes {known.axis} and {axis} of numbers of positions")

    def filled_output(self, tensor: Tensor) -> Tensor:
        """An output of the network, with `FILL` behind what was found."""
        bound = self._bounds.get(tensor.name)
        if bound is None or tensor.name == bound.source.name:
            return tensor
        found = self._filled(tensor, bound, fill_value(np.dtype(tensor.dtype)))
        self._bounds[found.name] = bound
        return found

    def _of_boxes(self, node: Node) -> Node:
        """Scores of boxes that are not there are below every limit."""
        boxes, scores = node.operand(0), node.operand(1)
        bounds = [
            self._bounds.get(x.name) if isinstance(x, Tensor) else None for x in (boxes, scores)
        ]
        of_boxes, of_scores = bounds
        if of_boxes is None and of_scores is None:
            return node
        if of_boxes is None or of_scores is None or (of_boxes.axis, of_scores.axis) != (1, 2):
            raise ModelError(
                "of boxes and scores the boxes of one alone are of a number that is known at run time"
            )
        assert isinstance(scores, Tensor)
        least = node.operand(4)
        if isinstance(least, Tensor):
            return node  # is refused when the layer is built
        lowest = np.finfo(np.float32).min
        least = np.array(lowest, np.float32) if least is None else np.maximum(least, lowest)
        inputs = [*node.inputs, *[None] * 5][:5]
        inputs[1], inputs[4] = self._filled(scores, of_scores, -np.inf), least
        return replace(node, inputs=tuple(inputs))

    # Filling

    @staticmethod
    def _with(node: Node, position: int, tensor: Tensor) -> Node:
        inputs = list(node.inputs)
        inputs[position] = tensor
        return replace(node, inputs=tuple(inputs))

    def _written(self, name: str, write: Callable[[Composition], Any]) -> Tensor:
        """The tensor that layers make."""
        make = Composition(Node(name, "", OPSET, {}, (), ()))
        write(make)
        return self._add(make.layers, make.node)

    def _filled(self, tensor: Tensor, bound: _Bound, value: float) -> Tensor:
        """A tensor with a value where nothing was found; it is not bounded."""
        key = (tensor.name, value)
        if key not in self._made:
            flags = self._flags(bound)
            rank = len(tensor.shape)

            def write(make: Composition) -> Any:
                side = [1] * rank
                side[bound.axis] = len(bound.positions)
                there = make.reshaped(flags, tuple(side))
                return make("Where", there, tensor, np.array(value, tensor.dtype))

            self._made[key] = self._written(f"{tensor.name}/filled with {value:g}", write)
        return self._made[key]

    def _flags(self, bound: _Bound) -> Tensor:
        """Of each position whether something was found, shape (positions,)."""
        source, positions = bound.source, bound.positions
        key = (source.name, positions)
        if key not in self._made:

            def write(make: Composition) -> Any:
                axis = self._bounds[source.name].axis
                stop = positions[-1] + 1
                first = make.part(source, 1 - axis, 0, 1)
                one = make.reshaped(first, (source.shape[axis],))
                own = make.part(one, 0, positions.start, stop, positions.step)
                return make("GreaterOrEqual", own, np.array(0, np.int64))

            name = f"{source.name}/found {positions.start}:{positions.stop}:{positions.step}"
            self._made[key] = self._written(name, write)
        return self._made[key]

    # Constants

    def folded(
        self,
        operation: Operation,
        operands: Sequence[np.ndarray | None],
        results: Sequence[np.ndarray],
        fold: Fold,
    ) -> None:
        """Note which results of an operation of constants depend on a number that is known at run time. Raises
        ModelError where they would be wrong.
        """
        if not self._bounds:
            return
        op_type, outputs = operation.op_type, operation.outputs
        if any(n in self._lines for n in operation.inputs):
            operator = OPERATORS.get(op_type)
            if op_type not in _KEEPING | {"NonZero"} and not (operator and operator.pointwise):
                raise ModelError(_COUNTS)
            self._lines.update(n for n in outputs if n)
            return
        marks = self._marks(operation, operands, results, fold)
        if op_type in _MAKING and any(m.any() for m in marks):
            self._lines.update(outputs)
            return
        self._sizes.update((n, m) for n, m in zip(outputs, marks, strict=False) if n and m.any())

    def _marks(
        self,
        operation: Operation,
        operands: Sequence[np.ndarray | None],
        results: Sequence[np.ndarray],
        fold: Fold,
    ) -> Sequence[np.ndarray]:
        """The marks of each result; () where there are none."""
        op_type, names = operation.op_type, operation.inputs
        bound = self._bounds.get(names[0]) if names else None
        if op_type in ("Shape", "Size", "EyeLike") and bound is not None:
            if op_type != "Shape":
                raise ModelError(_COUNTS)
            given = operands[0]
            assert given is not None
            self._known.append(bound)
            shape = np.arange(1, given.ndim + 1)  # as that of an array whose sizes say their axes
            (axes,) = fold([np.broadcast_to(np.zeros(()), tuple(shape))])
            return [np.where(axes == bound.axis + 1, len(self._known), 0)]
        marked = [n in self._sizes for n in names]
        if not any(marked):
            return []
        given_marks = [
            None if o is None else self._sizes.get(n, np.zeros(o.shape, np.int64))
            for n, o in zip(names, operands, strict=True)
        ]
        if op_type == "Cast" or op_type in _MAKING:
            return [m for m in given_marks if m is not None]
        if op_type in _KEEPING and (op_type == "Concat" or not any(marked[1:])):
            data = given_marks if op_type == "Concat" else [given_marks[0], *operands[1:]]
            return fold(data)
        found = [m for m in given_marks if m is not None]
        if op_type == "Min":
            return [np.broadcast_to(np.maximum.reduce(found), results[0].shape)]
        if op_type == "Where" and not marked[0]:
            return [np.where(np.asarray(operands[0]), found[1], found[2])]
        other = operands[0 if marked[-1] else -1]
        if op_type == "Equal" and not all(marked) and other is not None and (other < 0).all():
            return []  # no size is negative, whatever it is
        raise ModelError(_COUNTS)

    def check_output(self, name: str) -> None:
        """Refuse a constant output that depends on what is found."""
        if name in self._sizes or name in self._lines:
            raise ModelError(f"output '{label(name)}' {_COUNTS}")

    def check_turns(self, names: Sequence[str]) -> None:
        """Refuse a loop whose number of turns may depend on what is found. names: of its operands."""
        for name in names:
            if name in self._bounds or name in self._sizes or name in self._lines:
                raise ModelError(_COUNTS)

    def _check_constants(self, node: Node, names: Sequence[str]) -> None:
        for position, name in enumerate(names):
            if name in self._sizes and _SIZES.get(node.op_type) != position:
                raise ModelError(_COUNTS)
            beside = any(isinstance(x, Tensor) and x.name in self._bounds for x in node.inputs)
            if name in self._lines and not (beside and OPERATORS[node.op_type].pointwise):
                raise ModelError(_COUNTS)


def _only(node: Node) -> Layer:
    return OPERATORS[node.op_type].build(node)


def _check_indices(node: Node, axis: int) -> None:
    """Refuse indices that count from the end of a bounded axis, which is another one each time."""
    data, given = node.operand(0), node.operand(1)
    assert data is not None
    if node.op_type in ("Gather", "GatherElements", "GatherND"):
        negative = isinstance(given, np.ndarray) and bool((given < 0).any())
    elif node.op_type == "Slice":
        keys = ("starts", "ends", "axes")
        found = [node.attributes.get(key, node.operand(k)) for k, key in enumerate(keys, 1)]
        starts, ends, axes = (None if x is None else np.asarray(x).reshape(-1) for x in found)
        if starts is None or ends is None:
            return
        named = np.arange(len(starts)) if axes is None else axes % len(data.shape)
        negative = any(
            k == axis and (a < 0 or b < 0) for k, a, b in zip(named, starts, ends, strict=False)
        )
    else:
        return
    if negative:
        raise ModelError(
            f"counts from the end of axis {axis} of its input, which has as many positions as are found at run time"
        )
