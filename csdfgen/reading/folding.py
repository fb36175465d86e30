"""The values of operations whose operands are all known. The size of a result is bounded before it is
computed.

Source: https://onnx.ai/onnx/operators. Every chain that only computes shapes or constants is evaluated
here. An operation is evaluated only if the number of elements of its result can be bounded
beforehand: by the table below, then onnx's reference evaluator does it; or by our own operator,
then our own kernel does. So no file of a few bytes can ask for gigabytes or hours.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from csdfgen.errors import ModelError
from csdfgen.limits import FOLDED, FOLDING, STORED, Budget, Kind
from csdfgen.model.formats import Format
from csdfgen.model.network import Node, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops import OPERATORS, get_operator
from csdfgen.ops.base import build_with_tensors
from csdfgen.ops.evaluated import run_layer
from csdfgen.ops.selection import FILL, SELECTING
from csdfgen.reading.onnx_file import DAMAGED, Weight, label
from csdfgen.reading.onnx_graph import Constants, Operation
from csdfgen.reading.onnx_tensor import (
    DTYPES,
    FOUR_BITS,
    MAX_CONSTANT_ELEMENTS,
    decode,
    densify,
    file_bytes,
)

DESCRIPTION_ONLY: Mapping[str, frozenset[int]] = {
    "CastLike": frozenset({1}),
    "EyeLike": frozenset({0}),
    "Shape": frozenset({0}),
    "Size": frozenset({0}),
}
"""Positions at which an operator needs shape and element type alone, which are known of computed
tensors too.
"""

_FOR_EACH = 16
"""Bytes (and multiply-accumulates of our own kernels) that may be folded for each byte of initializers in the file, beyond
what a model without any may: weights are transposed, dequantized and merged by rights.
"""

_MANY = MAX_CONSTANT_ELEMENTS
_FEW = 2**20
"""Limit for operators that the reference evaluator walks through an element at a time."""

# The reference evaluator trusts its operands; what a damaged one makes it raise is of these kinds.
_EVALUATION_ERRORS = (*DAMAGED, AssertionError, AttributeError, NameError, RuntimeError)


def _operands(node: Node) -> list[np.ndarray]:
    return [i for i in node.inputs if isinstance(i, np.ndarray)]


def _broadcast(node: Node) -> int:
    """Elements of an elementwise result."""
    return prod(np.broadcast_shapes(*(a.shape for a in _operands(node))))


def _no_larger(node: Node) -> int:
    """Of results that hold no more than all operands together."""
    return sum(a.size for a in _operands(node))


def _times_rank(node: Node) -> int:
    return sum(a.size * a.ndim for a in _operands(node))


def _gathered(node: Node) -> int:
    data, indices = _operands(node)
    return indices.size * (data.size // max(1, data.shape[node.attributes.get("axis", 0)]))


def _gathered_nd(node: Node) -> int:
    data, indices = _operands(node)
    behind = node.attributes.get("batch_dims", 0) + indices.shape[-1]
    return indices.size // max(1, indices.shape[-1]) * prod(data.shape[behind:])


def _expanded(node: Node) -> int:
    data, shape = _operands(node)
    return prod(np.broadcast_shapes(data.shape, tuple(int(s) for s in shape)))


def _tiled(node: Node) -> int:
    data, repeats = _operands(node)
    return data.size * prod(max(0, int(r)) for r in repeats.reshape(-1))


def _filled(node: Node) -> int:
    return prod(max(0, int(s)) for s in _operands(node)[0].reshape(-1))


def _counted(node: Node) -> int:
    start, limit, delta = (a.item() for a in _operands(node))
    return max(0, int((limit - start) // delta) + 1)


def _windowed(node: Node) -> int:
    return max(0, int(_operands(node)[0].item()))


def _mel_matrix(node: Node) -> int:
    bins, length = (max(0, int(array.item())) for array in _operands(node)[:2])
    return bins * (length // 2 + 1)


_ELEMENTWISE = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Clip Cos Cosh
    Div Equal Erf Exp Floor Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Log Max Mean Min Mod Mul
    Neg Not Or Pow Reciprocal Relu Round Shrink Sigmoid Sign Sin Sinh Sqrt Sub Sum Tan Tanh Where Xor
"""
_REARRANGING = """
    BitCast Cast Concat CumProd CumSum Flatten Identity ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax
    ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Reshape Slice Split Squeeze Transpose Trilu Unsqueeze
"""
_ELEMENT_BY_ELEMENT = """
    ArgMax ArgMin Compress EyeLike GatherElements Hardmax ReverseSequence Scatter ScatterElements ScatterND TopK Unique
"""

_BOUNDS: Mapping[str, tuple[Callable[[Node], int], int]] = {
    **dict.fromkeys(_ELEMENTWISE.split(), (_broadcast, _MANY)),
    **dict.fromkeys(_REARRANGING.split(), (_no_larger, _MANY)),
    **dict.fromkeys(_ELEMENT_BY_ELEMENT.split(), (_no_larger, _FEW)),
    "CastLike": (lambda node: _operands(node)[0].size, _MANY),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), (_windowed, _MANY)),
    "ConstantOfShape": (_filled, _MANY),
    "Expand": (_expanded, _MANY),
    "Gather": (_gathered, _MANY),
    "GatherND": (_gathered_nd, _MANY),
    "MelWeightMatrix": (_mel_matrix, _FEW),
    "NonZero": (_times_rank, _MANY),
    "Range": (_counted, _MANY),
    "Shape": (lambda node: _operands(node)[0].ndim, _MANY),
    "Size": (lambda node: 1, _MANY),
    "Tile": (_tiled, _MANY),
}
"""Operator -> (most elements of its result, how many are accepted)."""

_KEEPING_TYPES = frozenset(f"{_ELEMENTWISE} {_REARRANGING} Expand Gather GatherND Tile".split()) - {
    "Cast"
}
"""Operators whose results have elements no wider than their operands."""


FOLDED_ONLY = frozenset({*_BOUNDS, "Constant"}) - frozenset(OPERATORS)
"""Operators that are evaluated when the model is loaded, and never run."""


def is_foldable(op_type: str) -> bool:
    """Whether an operation of constants can be evaluated."""
    return op_type in _BOUNDS or op_type == "Constant" or op_type in OPERATORS


def placeholder(tensor: Tensor) -> np.ndarray:
    """An array of a tensor's shape and element type that takes no memory; its elements mean
    nothing.
    """
    return np.broadcast_to(np.zeros((), tensor.dtype), tensor.shape)


class Folder:
    """Evaluates operations of constants within a budget of bytes for the whole model."""

    def __init__(self, directory: Path | None, constants: Constants | None = None) -> None:
        self._directory = directory
        self._constants = constants or Constants(directory, Budget())
        self._budget = self._constants.budget

    def fold(self, operation: Operation, node: Node) -> tuple[np.ndarray, ...]:
        """Results by output position. node.inputs are arrays, or None where absent.

        Raises ModelError if the result would be too large or cannot be evaluated.
        """
        if node.op_type == "Constant":
            return (self._constant(node),)
        node = replace(node, inputs=tuple(map(_in_bytes, node.inputs)))
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                results = self._evaluate(operation, node)
                if node.op_type in _SAME_ORDER:  # a view, and no copy of weights in a file
                    results = (_operands(node)[0].reshape(results[0].shape),)
        except _EVALUATION_ERRORS as error:
            raise ModelError(
                f"cannot be evaluated, its constants do not fit together: {label(str(error), 120)}"
            ) from error
        for array in results:
            if array.dtype.name not in DTYPES.values():
                raise ModelError(f"gives a constant of type {array.dtype}, which is not supported")
            if not any(np.may_share_memory(array, one) for one in _operands(node)):
                # one of a single value everywhere is only written out by its readers
                uniform = array.size > 1 and not any(array.strides)
                self._take(STORED if uniform else FOLDED, array.nbytes, "folds a constant")
        return results

    def _take(self, kind: Kind, count: int, why: str) -> None:
        more = 0
        if self._budget.taken(kind) + count > kind.most:
            more = _FOR_EACH * self._constants.file_bytes()
        self._budget.take(kind, count, why, more=more)

    def _evaluate(self, operation: Operation, node: Node) -> tuple[np.ndarray, ...]:
        if node.op_type not in _BOUNDS:
            return self._by_kernel(node)
        bound, limit = _BOUNDS[node.op_type]
        wide = max((one.itemsize for one in _operands(node)), default=8)
        if node.op_type == "ConstantOfShape":
            self._check_size(bound(node), limit, 0)
            return (_filled_array(node, self._directory),)
        self._check_size(bound(node), limit, wide if node.op_type in _KEEPING_TYPES else 8)
        if node.op_type in _DIRECT:
            return (_DIRECT[node.op_type](node),)
        if node.op_type in OPERATORS and all(array.size for array in _operands(node)):
            with suppress(ModelError):  # it is for computed operands; the reference takes more
                return self._by_kernel(node)
        return _by_reference(operation, node)

    def _by_kernel(self, node: Node) -> tuple[np.ndarray, ...]:
        """Results of our own operator for a single node, its first operand that may be computed taken for an activation."""
        operator, known = OPERATORS[node.op_type], dict[str, np.ndarray]()
        free = (k for k, one in enumerate(node.inputs) if one is not None)
        first = next((k for k in free if k not in operator.constant_inputs), None)
        if first is None:
            raise ModelError("has no first operand")

        def written(name: str, value: Any) -> Tensor:
            known[name] = value
            return Tensor(name, value.shape, Format(value.dtype.name))

        inputs = list(node.inputs)
        inputs[first] = written("constant", inputs[first])
        layers = build_with_tensors(operator.layers, replace(node, inputs=tuple(inputs)), written)
        self._check_size(max(t.elements for layer in layers for t in layer.outputs))
        work = sum(get_operator(one).cost(one, Rows(0, one.output.rows)) for one in layers)
        self._take(FOLDING, work, "folds a constant")
        for layer in layers:
            arrays = [None if t is None else known[t.name] for t in layer.inputs]
            results = run_layer(get_operator(layer), layer, arrays)
            known.update((t.name, a) for t, a in zip(layer.outputs, results, strict=True))
        if node.op_type in SELECTING:  # those that are found, without room for others
            (found,) = (known[name] for name in node.outputs)
            axis = SELECTING[node.op_type]
            known[node.outputs[0]] = np.compress(found.take(0, 1 - axis) != FILL, found, axis)
        nothing = np.empty(0)
        return tuple(known[name] if name else nothing for name in node.outputs)

    def _check_size(self, elements: int, limit: int = _MANY, wide: int = 4) -> None:
        why = f"would give a constant of up to {elements:,} elements"
        if elements > limit:
            raise ModelError(f"{why}, at most {limit:,} can be folded; {FOLDED.way}")
        self._take(FOLDED, elements * wide, why)
        self._take(FOLDED, -elements * wide, why)  # its own bytes are known when it is there

    def _constant(self, node: Node) -> np.ndarray:
        given = [k for k in node.attributes if k in _CONSTANT_VALUES]
        if len(given) != 1:
            raise ModelError(
                f"a Constant has one value of {', '.join(_CONSTANT_VALUES)}; this one has {len(given)}"
            )
        value = node.attributes[given[0]]
        if given[0] == "value":
            self._take(STORED, file_bytes(Weight(value), self._directory), "its value")
        return _CONSTANT_VALUES[given[0]](value, self._directory)


def _in_bytes(operand: Any) -> Any:
    """A constant of four bits an element as one of eight; any other operand as it is."""
    if not isinstance(operand, np.ndarray) or operand.dtype.name not in FOUR_BITS.values():
        return operand
    return operand.astype(operand.dtype.name.replace("4", "8"))


_CONSTANT_VALUES: Mapping[str, Callable[[Any, Path | None], np.ndarray]] = {
    "value": lambda tensor, directory: decode(Weight(tensor), directory),
    "sparse_value": densify,
    "value_float": lambda value, _: np.array(value, np.float32),
    "value_floats": lambda values, _: np.array(values, np.float32),
    "value_int": lambda value, _: np.array(value, np.int64),
    "value_ints": lambda values, _: np.array(values, np.int64),
}
"""Attribute of a Constant -> its array; strings are not supported."""


def _shape(node: Node) -> np.ndarray:
    shape = _operands(node)[0].shape
    return np.array(
        shape[node.attributes.get("start", 0) : node.attributes.get("end", len(shape))], np.int64
    )


def _divided(node: Node) -> np.ndarray:
    """Division as ONNX has it: of integers, towards zero."""
    a, b = _operands(node)
    if a.dtype.kind not in "iu":
        return np.asarray(np.true_divide(a, b))
    if not b.all():
        raise ModelError("divides integers by zero")
    towards_minus = a // b
    inexact = (a % b != 0) & ((a < 0) != (b < 0))
    return np.asarray(towards_minus + inexact.astype(a.dtype))


_DIRECT: Mapping[str, Callable[[Node], np.ndarray]] = {
    "Div": _divided,
    "Identity": lambda node: _operands(node)[0],
    "Shape": _shape,
    "Size": lambda node: np.array(_operands(node)[0].size, np.int64),
    "Transpose": lambda node: _operands(node)[0].transpose(node.attributes.get("perm")),
}
"""Where the reference evaluator is not needed, or differs from what runtimes do."""


_SAME_ORDER = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators whose results are their operands in another shape."""


def _filled_array(node: Node, directory: Path | None) -> np.ndarray:
    shape = tuple(int(s) for s in _operands(node)[0].reshape(-1))
    if min(shape, default=0) < 0:
        raise ModelError(f"is to fill a shape with a dimension of {min(shape)} elements")
    tensor = node.attributes.get("value")
    value = np.zeros(1, np.float32) if tensor is None else decode(Weight(tensor), directory)
    if value.size != 1:
        raise ModelError(f"is to fill with one value, it has {value.size}")
    return np.broadcast_to(value.reshape(()), shape)


def _by_reference(operation: Operation, node: Node) -> tuple[np.ndarray, ...]:
    """Results of onnx's reference evaluator for a single node."""
    from onnx.reference import ReferenceEvaluator  # loaded with the first constant that needs it

    names = [f"i{k}" if i is not None else "" for k, i in enumerate(node.inputs)]
    proto = operation.proto(names)
    untyped = onnx.TypeProto()
    graph = helper.make_graph(
        [proto],
        "constant",
        [helper.make_value_info(n, untyped) for n in names if n],
        [helper.make_value_info(n, untyped) for n in proto.output],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", node.opset)])
    feeds = {name: value for name, value in zip(names, node.inputs, strict=True) if name}
    return tuple(np.asarray(value) for value in ReferenceEvaluator(model).run(None, feeds))
