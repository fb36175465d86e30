"""Which float operations between DequantizeLinear and QuantizeLinear are one operation on integers?

A model in QDQ form has a QuantizeLinear and a DequantizeLinear behind every tensor, and float operators
in between. Where all operands of an operation have just been dequantized, and its result is quantized at
once, the three are one operation on integers (QLinearConv and similar operators), with weights of one
byte. An operation that only moves values, or takes the largest, is applied to the integers themselves.
Relu and Clip in between become a range of the integers. The graph of the file is rewritten before
constants are folded, which would convert the weights to float.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import helper

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format, Stored
from csdfgen.ops import OPERATORS
from csdfgen.ops.base import MICROSOFT
from csdfgen.ops.composing import is_composed
from csdfgen.ops.integers import BYTES, STORED, limits
from csdfgen.reading.onnx_file import DAMAGED, label
from csdfgen.reading.onnx_graph import Graph, Operation
from csdfgen.reading.onnx_schema import WITH_16_BITS

_CLOSE = 1e-4
"""By how much, of it, the scale of a bias may differ from the product that it has to be."""

_QUANTIZING = frozenset({"DequantizeLinear", "QuantizeLinear"})
STORING = _QUANTIZING | {"QLinearConcat"}
"""Operators without which `fuse_dequantized` changes nothing."""

_BYTES_SINCE = {"MaxPool": 12, "Clip": 12, "Relu": 14, "Resize": 10}
"""First opset in which an operator takes integers of one byte; others take them in any."""


_PADS_SINCE = 11
"""First opset in which Pad takes integers, and its settings as inputs."""

_MOVING_NAMES = """
    DepthToSpace Dropout Expand Flatten Gather Identity MaxPool Reshape Slice SpaceToDepth Squeeze Tile
    Transpose Unsqueeze
"""
_MOVING = frozenset(_MOVING_NAMES.split())
"""Operators that move values, or take the largest, and so mean the same on integers."""


_MOVING_ALL = (_MOVING - {"Dropout"}) | {"Split"}
"""Those that take integers, also with several results."""


@dataclass(frozen=True, slots=True)
class _Quantized:
    """A name that stands for integers, with the names of their scale and zero point ("": none)."""

    name: str
    scale: str
    zero: str
    axis: int | None
    dtype: str


class _NoPatternError(Exception):
    """No pattern holds: the float operation stays."""


def fuse_dequantized(graph: Graph) -> Graph:
    """The graph with patterns on integers of one byte replaced. Raises ModelError for a bias whose
    scale is not the product of those of input and weights.
    """
    if any(op.op_type in _QUANTIZING for op in graph.operations):
        graph = _Rewriting(graph).done()
    if any(op.op_type == "QLinearConcat" for op in graph.operations):
        graph = _translated_apart(graph)
    return graph


def _translated_apart(graph: Graph) -> Graph:
    """The graph in which what a QLinearConcat joins has its scale and zero point: an operand of
    others is translated before, byte by byte, which its maker can do in its own slab.
    """
    found: list[Operation] = []
    for operation in graph.operations:
        if (operation.domain, operation.op_type) != (MICROSOFT, "QLinearConcat"):
            found.append(operation)
            continue
        made, inputs = operation.inputs[:2], list(operation.inputs)
        for k in range(2, len(inputs) - 2, 3):
            x, *form = inputs[k : k + 3]
            if x in graph.constants or _same(graph, form, made):
                continue
            name = graph.names.fresh(f"{operation.name}_{k}")
            identity = {"alpha": helper.make_attribute("alpha", 1.0)}
            more = {"name": name, "domain": MICROSOFT, "attributes": identity}
            operands = (x, *form, *made)
            found.append(operation.other("QLinearLeakyRelu", operands, (name,), **more))
            inputs[k : k + 3] = name, *made
        found.append(replace(operation, inputs=tuple(inputs)))
    return replace(graph, operations=tuple(found))


def _same(graph: Graph, one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether scales and zero points are constants with the same values."""
    if any(name not in graph.constants for name in (*one, *other)):
        return True  # an error that is reported when the layer is built
    pairs = zip(one, other, strict=True)
    return all(np.array_equal(graph.constants[a], graph.constants[b]) for a, b in pairs)


class _Rewriting:
    """One walk over the operations: each float one that a QuantizeLinear follows is tried."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._operations = list(graph.operations)
        self._maker = {o: op for op in graph.operations for o in op.outputs if o}
        self._readers: dict[str, list[Operation]] = {}
        for op in graph.operations:
            for name in (*op.inputs, *op.captured):
                self._readers.setdefault(name, []).append(op)
        self._replaced: dict[int, list[Operation]] = {}

    def done(self) -> Graph:
        """The graph with what could be replaced, without operations that nothing reads any more."""
        for operation in self._graph.operations:
            for attempt in (self._try, self._widen):
                try:
                    attempt(operation)
                except (_NoPatternError, *DAMAGED):  # which its operator reports later
                    continue
                break
        found: list[Operation] = []
        for operation in self._operations:
            found += self._replaced.get(id(operation), [operation])
        return replace(self._graph, operations=tuple(_read(found, self._graph.outputs)))

    def _try(self, operation: Operation) -> None:
        """Replace an operation, what clips it and what quantizes it. Raises _NoPatternError."""
        if operation.domain or operation.op_type not in _PATTERNS:
            raise _NoPatternError
        if len([o for o in operation.outputs if o]) != 1:
            raise _NoPatternError
        after, clips = self._end_of(operation, operation.outputs[0])
        made = self._format_of(after)
        name, clipped = self._stored(operation, clips, made)
        operands = [self.dequantized(n) for n in operation.inputs]
        match = _Match(self, operation, operands, replace(made, name=name))
        new = _PATTERNS[operation.op_type](match)
        self._replaced[id(after)] = [*new, *clipped]

    def _widen(self, operation: Operation) -> None:
        """Let a float operation read what was dequantized for it, and write what is quantized behind
        it. Raises _NoPatternError.
        """
        kind = OPERATORS.get(operation.op_type)
        if kind is None or operation.domain or operation.captured:
            raise _NoPatternError
        if operation.op_type == "DequantizeLinear" or id(operation) in self._replaced:
            raise _NoPatternError
        computed = [
            k for k, name in enumerate(operation.inputs) if name and not self._is_known(name)
        ]
        if not computed:
            raise _NoPatternError
        if operation.op_type in _MOVING_ALL and self._move(operation):
            return
        several = is_composed(kind) or computed != [0] or any(operation.outputs[1:])
        direction = operation.attributes.get("direction")
        several = several or (direction is not None and direction.s == b"bidirectional")
        if kind.parts is not None and several:
            raise _NoPatternError  # tensors between its layers have no format of their own
        inputs = list(operation.inputs)
        read: list[Format | None] = [None] * len(inputs)
        for k, name in enumerate(operation.inputs):
            with suppress(_NoPatternError):
                x = self.dequantized(name)
                if isinstance(x, _Quantized):
                    read[k], inputs[k] = self.format(x), x.name
        outputs = list(operation.outputs)
        written: list[Format | None] = [None] * len(outputs)
        behind: list[Operation] = []
        ends: list[Operation] = []
        for k, name in enumerate(operation.outputs):
            with suppress(_NoPatternError):
                after, clips = self._end_of(operation, name)
                made = self._format_of(after)
                form = self.format(made)
                outputs[k], clipped = self._stored(operation, clips, made)
                written[k] = form
                ends.append(after)
                behind += clipped
        if not any(read) and not any(written):
            raise _NoPatternError
        self._replaced.update((id(after), []) for after in ends)
        new = replace(
            operation,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            stored=Stored(tuple(read), tuple(written)),
        )
        self._replaced[id(operation)] = [new, *behind]

    def _move(self, operation: Operation) -> bool:
        """Let an operation that moves values move integers, and dequantize what it makes where that is
        not quantized as they are. False where it cannot, or where a scale changes.
        """
        x = self.dequantized(operation.inputs[0])
        if not isinstance(x, _Quantized) or not _moves(operation, x):
            return False
        rest = operation.inputs[1:]
        if self.format(x).axis is not None or any(self.dequantized(n) != n for n in rest if n):
            return False
        outputs, ends, behind = list(operation.outputs), [], []
        for k, name in enumerate(operation.outputs):
            if not name:
                continue
            if self._is_quantized(operation, name):
                after, clips = self._end_of(operation, name)
                made = self._format_of(after)
                if clips or not self.equal(x, made):
                    return False
                outputs[k] = made.name
                ends.append(after)
            elif name in self._graph.outputs:
                return False
            else:
                outputs[k] = self.fresh(f"{name}_{x.dtype}")
                behind.append(_dequantizing(operation, outputs[k], x, name))
        self._replaced.update((id(after), []) for after in ends)
        self._maker.update((after.outputs[0], after) for after in behind)
        moved = replace(operation, inputs=(x.name, *rest), outputs=tuple(outputs))
        self._replaced[id(operation)] = [moved, *behind]
        return True

    def _is_quantized(self, operation: Operation, name: str) -> bool:
        """Whether a QuantizeLinear alone reads a result."""
        try:
            self._end_of(operation, name)
        except _NoPatternError:
            return False
        return True

    def _end_of(self, operation: Operation, name: str) -> tuple[Operation, list[Operation]]:
        """The QuantizeLinear that alone reads a result, and the Relu and Clip in between. Raises
        _NoPatternError.
        """
        clips: list[Operation] = []
        while True:
            after = self._only_reader(name)
            if after.op_type == "QuantizeLinear":
                break
            if after.op_type not in ("Relu", "Clip") or operation.op_type in ("Relu", "Clip"):
                raise _NoPatternError
            clips.append(after)
            name = after.outputs[0]
        if id(after) in self._replaced:
            raise _NoPatternError  # taken in by what is in front of the Relu, or the Clip
        return after, clips

    def _stored(
        self, operation: Operation, clips: Sequence[Operation], made: _Quantized
    ) -> tuple[str, list[Operation]]:
        """The name that what is quantized gets, and the Clip of integers behind it, if there is one.
        Raises _NoPatternError.
        """
        low, high = self._range(clips, made)
        if (low, high) == limits(made.dtype):
            return made.name, []
        name = self.fresh(made.name)
        return name, [self._clipped(operation, name, made, low, high)]

    def _is_known(self, name: str) -> bool:
        """Whether a name is one of a constant, or of one dequantized."""
        if self.is_constant(name):
            return True
        form = self.dequantized(name)
        return isinstance(form, _Quantized) and self.is_constant(form.name)

    def format(self, form: _Quantized) -> Format:
        """Integers as layers know them. Raises _NoPatternError where widening a slab does not do."""
        scale = self.scale_of(form)
        zero = self.constant(form.zero).reshape(-1) if form.zero else np.zeros(1, form.dtype)
        single = scale.size == 1 and zero.size == 1
        if form.dtype not in STORED or not (single or self.is_constant(form.name)):
            raise _NoPatternError
        if zero.size not in (1, scale.size) or not np.all(np.isfinite(scale) & (scale > 0)):
            raise _NoPatternError
        numbers = tuple(float(v) for v in scale), tuple(int(v) for v in zero)
        return Format(form.dtype, *numbers, None if single else form.axis)

    # What a name is -------------------------------------------------------------------------------

    def _only_reader(self, name: str) -> Operation:
        """The one operation that reads a result. Raises _NoPatternError."""
        readers = self._readers.get(name, [])
        if name in self._graph.outputs or len(readers) != 1 or readers[0].inputs[:1] != (name,):
            raise _NoPatternError
        if readers[0].domain or name in (*readers[0].inputs[1:], *readers[0].captured):
            raise _NoPatternError
        return readers[0]

    def dequantized(self, name: str) -> _Quantized | str:
        """What a DequantizeLinear makes its output of; the name itself if none makes it."""
        maker = self._maker.get(name)
        if maker is None or maker.op_type != "DequantizeLinear" or maker.domain:
            return name
        return self._format_of(maker)

    def _format_of(self, operation: Operation) -> _Quantized:
        """The integers that a QuantizeLinear makes, or a DequantizeLinear reads. Raises _NoPatternError."""
        inputs = (*operation.inputs, "")[:3]
        scale, zero = self.constant(inputs[1]), inputs[2]
        if "block_size" in operation.attributes and operation.attributes["block_size"].i:
            raise _NoPatternError
        if operation.op_type == "QuantizeLinear":
            code = operation.attributes.get("output_dtype")
            if code is not None and code.i and not zero:
                raise _NoPatternError
            name = operation.outputs[0]
            dtype = str(self.constant(zero).dtype) if zero else "uint8"
        else:
            name = inputs[0]
            dtype = self._type_of(name, zero)
        axis = None
        if scale.size > 1:
            given = operation.attributes.get("axis")
            axis = 1 if given is None else given.i
        if scale.dtype != np.float32:
            raise _NoPatternError
        return _Quantized(name, inputs[1], zero, axis, dtype)

    def _type_of(self, name: str, zero: str) -> str:
        """The type of what is dequantized."""
        if zero:
            return str(self.constant(zero).dtype)
        if name in self._graph.constants:
            return str(self._graph.constants[name].dtype)
        raise _NoPatternError

    def constant(self, name: str) -> np.ndarray:
        """The constant of a name. Raises _NoPatternError."""
        if not name or name not in self._graph.constants:
            raise _NoPatternError
        return self._graph.constants[name]

    def is_constant(self, name: str) -> bool:
        """Whether a name is one of a constant."""
        return name in self._graph.constants

    def zero_of(self, form: _Quantized) -> int:
        """The zero point of a tensor."""
        return int(self.constant(form.zero).reshape(-1)[0]) if form.zero else 0

    def scale_of(self, form: _Quantized) -> np.ndarray:
        """The scale, or scales."""
        return self.constant(form.scale).reshape(-1)

    def equal(self, a: _Quantized, b: _Quantized) -> bool:
        """Whether integers of both mean the same."""
        return (a.dtype, self.zero_of(a)) == (b.dtype, self.zero_of(b)) and bool(
            np.array_equal(self.scale_of(a), self.scale_of(b))
        )

    # Ranges ---------------------------------------------------------------------------------------

    def _range(self, clips: Iterable[Operation], made: _Quantized) -> tuple[int, int]:
        """Lowest and highest integer that Relu and Clip leave. Raises _NoPatternError."""
        low, high = limits(made.dtype)
        for clip in clips:
            least, most = (0.0, np.inf) if clip.op_type == "Relu" else self._bounds(clip)
            low = max(low, self.as_integer(least, made))
            high = min(high, self.as_integer(most, made))
        if low > high:
            raise _NoPatternError
        return low, high

    def _bounds(self, clip: Operation) -> tuple[float, float]:
        given = [-np.inf, np.inf]
        for k, key in ((1, "min"), (2, "max")):
            if clip.opset < 11:
                if key in clip.attributes:
                    given[k - 1] = clip.attributes[key].f
            elif len(clip.inputs) > k and clip.inputs[k]:
                name = clip.inputs[k]
                form = self.dequantized(name)
                if isinstance(form, _Quantized):
                    integer = float(self.constant(form.name).reshape(-1)[0]) - self.zero_of(form)
                    given[k - 1] = integer * float(self.scale_of(form)[0])
                else:
                    given[k - 1] = float(self.constant(name).reshape(-1)[0])
        return given[0], given[1]

    def as_integer(self, value: float, form: _Quantized) -> int:
        """What a value is quantized to."""
        low, high = limits(form.dtype)
        quotient = np.rint(np.float32(value) / self.scale_of(form)[0]) + self.zero_of(form)
        return int(min(max(float(quotient), low), high))

    def _clipped(
        self, operation: Operation, name: str, made: _Quantized, low: int, high: int
    ) -> Operation:
        """The Clip of integers that narrows their range."""
        bounds = [
            self.add(f"{made.name}_{k}", np.array(v, made.dtype))
            for k, v in (("low", low), ("high", high))
        ]
        more = {"name": f"{operation.name}_range", "opset": max(operation.opset, 13)}
        return operation.other("Clip", (name, *bounds), (made.name,), **more)

    # New names ------------------------------------------------------------------------------------

    def fresh(self, name: str) -> str:
        """A name that nothing has yet."""
        return self._graph.names.fresh(name)

    def add(self, name: str, array: np.ndarray) -> str:
        """A new constant, and its name."""
        name = self.fresh(name)
        self._graph.constants[name] = array
        return name


def _moves(operation: Operation, x: _Quantized) -> bool:
    """Whether an operator that moves values takes integers of a type."""
    if operation.op_type == "MaxPool" and (x.dtype not in BYTES or any(operation.outputs[1:])):
        return False  # it moves no indices
    return operation.opset >= _BYTES_SINCE.get(operation.op_type, 0)


def _dequantizing(of: Operation, integers: str, form: _Quantized, name: str) -> Operation:
    """A DequantizeLinear behind an operation."""
    opset = max(of.opset, WITH_16_BITS if form.dtype not in BYTES else 13)
    operands = (integers, form.scale, form.zero)
    return of.other("DequantizeLinear", operands, (name,), name=f"{of.name}_{name}", opset=opset)


def _read(operations: Sequence[Operation], outputs: Iterable[str]) -> list[Operation]:
    """Operations whose results somebody reads."""
    wanted, kept = set(outputs), []
    for operation in reversed(operations):
        if any(o in wanted for o in operation.outputs if o):
            kept.append(operation)
            wanted.update((*operation.inputs, *operation.captured))
    return kept[::-1]


# Patterns ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Match:
    """A float operation with a quantized result. operands: integers where they were dequantized for the
    operation, else names. made: the integers that the result becomes.

    All methods raise _NoPatternError where no operation on integers computes the same.
    """

    rewriting: _Rewriting
    operation: Operation
    operands: Sequence[_Quantized | str]
    made: _Quantized

    def weights(self, k: int, axis: int | None, types: Sequence[str] = BYTES) -> _Quantized:
        """Operand k, of one of the types, quantized as a whole or along an axis."""
        operand = self.operands[k]
        if not isinstance(operand, _Quantized) or operand.dtype not in types:
            raise _NoPatternError
        if operand.axis not in (None, axis):
            raise _NoPatternError
        return operand

    def stored(self, k: int, types: Sequence[str] = BYTES) -> _Quantized:
        """Operand k, of one of the types, quantized as a whole to the type of the result."""
        operand = self.weights(k, None, types)
        if operand.dtype != self.made.dtype:
            raise _NoPatternError
        return operand

    def three(self, form: _Quantized) -> tuple[str, str, str]:
        """Integers, scale and zero point as operands of an operation; a zero point of 0 is added where
        there is none.
        """
        zero = form.zero
        if not zero:
            zero = self.rewriting.add(f"{form.name}_zero", np.zeros((), form.dtype))
        return form.name, form.scale, zero

    def bias(self, x: _Quantized, w: _Quantized) -> str:
        """The name of operand 2, a bias, as integers; "" for none."""
        bias, rewriting = (*self.operands, "", "")[2], self.rewriting
        if bias == "":
            return ""
        product = rewriting.scale_of(x) * rewriting.scale_of(w)
        if isinstance(bias, str):
            return rewriting.add(f"{bias}_integers", _integers(rewriting.constant(bias), product))
        if bias.dtype != "int32":
            raise _NoPatternError
        scale = rewriting.scale_of(bias)
        off = np.abs(scale - product) if scale.size in (1, product.size) else np.inf
        if np.any(off > _CLOSE * product):
            worst = int(np.argmax(off / product)) if scale.size > 1 else 0
            raise ModelError(
                f"the scale of its bias is {scale[min(worst, scale.size - 1)]:g}, that of input "
                f"times weight {product[min(worst, product.size - 1)]:g}; they must be equal",
                where=f"layer '{self.operation.name}' ({label(self.operation.op_type)})",
            )
        if bias.zero and np.any(rewriting.constant(bias.zero)):
            raise _NoPatternError
        return bias.name

    def new(
        self,
        op_type: str,
        *inputs: str,
        domain: str = MICROSOFT,
        keep: Sequence[str] = (),
        **more: Any,
    ) -> list[Operation]:
        """The operation on integers, with these attributes of the float one, and more."""
        attributes = {k: value for k, value in self.operation.attributes.items() if k in keep}
        attributes |= {k: helper.make_attribute(k, value) for k, value in more.items()}
        opset = 1 if domain else self.operation.opset
        given = {"domain": domain, "opset": opset, "attributes": attributes}
        return [self.operation.other(op_type, inputs, (self.made.name,), **given)]


Pattern = Callable[[_Match], list[Operation]]
"""What a float operation reads and makes -> operations on integers. Raises _NoPatternError."""


def _integers(bias: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A float bias as integers: some exporters leave it as it was. Raises _NoPatternError."""
    quotients = np.rint(bias.astype(np.float64) / scale)
    if bias.dtype != np.float32 or np.abs(quotients).max(initial=0) >= 2**31:
        raise _NoPatternError
    return quotients.astype(np.int32)


def _conv(match: _Match) -> list[Operation]:
    x, w = match.stored(0), match.weights(1, axis=0)
    if not match.rewriting.is_constant(w.name):
        raise _NoPatternError
    bias = match.bias(x, w)
    inputs = (*match.three(x), *match.three(w), *match.three(match.made)[1:])
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    return match.new("QLinearConv", *inputs, *([bias] if bias else []), domain="", keep=names)


def _matmul(match: _Match) -> list[Operation]:
    a, b, axis = match.stored(0), match.operands[1], None
    if isinstance(b, _Quantized) and match.rewriting.is_constant(b.name):
        axis = match.rewriting.constant(b.name).ndim - 1
    b = match.weights(1, axis)
    if match.rewriting.is_constant(a.name):
        raise _NoPatternError
    inputs = (*match.three(a), *match.three(b), *match.three(match.made)[1:])
    return match.new("QLinearMatMul", *inputs, domain="")


def _gemm(match: _Match) -> list[Operation]:
    given = match.operation.attributes
    if (*match.operands, "", "")[2] != "" and "beta" in given and given["beta"].f != 1:
        raise _NoPatternError
    if "alpha" in given and given["alpha"].f != 1:
        raise _NoPatternError  # the bias would be scaled with the product
    transposed = "transB" in given and given["transB"].i
    a, b = match.stored(0), match.weights(1, axis=0 if transposed else 1)
    bias = match.bias(a, b)
    inputs = (*match.three(a), *match.three(b), bias, *match.three(match.made)[1:])
    return match.new("QGemm", *inputs, keep=("alpha", "transA", "transB"))


def _elementwise(op_type: str, *names: str, operands: int = 1, **more: Any) -> Pattern:
    """The pattern of an operator on so many tensors of one byte an element. names: attributes that it
    keeps; more: those that it gets.
    """

    def pattern(match: _Match) -> list[Operation]:
        if len(match.operands) != operands:
            raise _NoPatternError
        forms = [*(match.stored(k) for k in range(operands)), match.made]
        inputs = [name for form in forms for name in match.three(form)]
        return match.new(op_type, *inputs[:-3], *inputs[-2:], keep=names, **more)

    return pattern


def _average(match: _Match) -> list[Operation]:
    holes = match.operation.attributes.get("dilations")
    if holes is not None and any(d != 1 for d in holes.ints):
        raise _NoPatternError
    names = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
    return _elementwise("QLinearAveragePool", *names)(match)


def _softmax(match: _Match) -> list[Operation]:
    return _elementwise("QLinearSoftmax", "axis", opset=match.operation.opset)(match)


def _concat(match: _Match) -> list[Operation]:
    forms = [match.stored(k, STORED) for k in range(len(match.operands))]
    if match.made.dtype not in BYTES:
        return _joined(match, forms)
    joined = [name for form in forms for name in match.three(form)]
    return match.new("QLinearConcat", *match.three(match.made)[1:], *joined, keep=("axis",))


def _joined(match: _Match, forms: Sequence[_Quantized]) -> list[Operation]:
    """Concat of integers of two bytes; those of another scale are translated before."""
    rewriting, operation, made = match.rewriting, match.operation, match.made
    found, names = [], []
    for k, form in enumerate(forms):
        name = form.name
        if not rewriting.equal(form, made):
            name = rewriting.fresh(f"{form.name}_{made.name}")
            stored = Stored((rewriting.format(form),), (rewriting.format(made),))
            more = {"name": f"{operation.name}_{k}", "opset": max(operation.opset, 13)}
            found.append(operation.other("Identity", (form.name,), (name,), stored=stored, **more))
        names.append(name)
    return [*found, replace(operation, inputs=tuple(names), outputs=(made.name,))]


def _moved(match: _Match) -> list[Operation]:
    """The operator itself, on integers of one scale."""
    operation = match.operation
    x = match.stored(0, STORED)
    if not _moves(operation, x) or not match.rewriting.equal(x, match.made):
        raise _NoPatternError
    if any(isinstance(operand, _Quantized) for operand in match.operands[1:]):
        raise _NoPatternError
    if operation.op_type == "Dropout":  # which takes no integers, and drops nothing
        return match.new("Identity", x.name, domain="")
    return [replace(operation, inputs=(x.name, *operation.inputs[1:]), outputs=(match.made.name,))]


def _padded(match: _Match) -> list[Operation]:
    """The value of the padding is quantized too: zeros are the zero point."""
    rewriting, operation, made = match.rewriting, match.operation, match.made
    x = match.stored(0, STORED)
    mode = operation.attributes.get("mode")
    inputs = (*operation.inputs, "", "", "")[:4]
    if (mode is not None and mode.s != b"constant") or operation.opset < _PADS_SINCE:
        raise _NoPatternError
    if not rewriting.equal(x, made) or not rewriting.is_constant(inputs[1]):
        raise _NoPatternError
    value = 0.0
    if inputs[2]:
        form = rewriting.dequantized(inputs[2])
        name = form if isinstance(form, str) else ""
        value = float(rewriting.constant(name).reshape(-1)[0])
    integer = np.array(rewriting.as_integer(value, made), made.dtype)
    names = [x.name, inputs[1], rewriting.add(f"{made.name}_value", integer), inputs[3]]
    names = names if inputs[3] else names[:3]
    return [replace(operation, inputs=tuple(names), outputs=(made.name,))]


def _resized(match: _Match) -> list[Operation]:
    mode = match.operation.attributes.get("mode")
    if mode is not None and mode.s != b"nearest":
        raise _NoPatternError
    return _moved(match)


_PATTERNS: Mapping[str, Pattern] = {
    **dict.fromkeys(_MOVING, _moved),
    "Add": _elementwise("QLinearAdd", operands=2),
    "AveragePool": _average,
    "Concat": _concat,
    "Conv": _conv,
    "Gemm": _gemm,
    "GlobalAveragePool": _elementwise("QLinearGlobalAveragePool"),
    "LeakyRelu": _elementwise("QLinearLeakyRelu", "alpha"),
    "MatMul": _matmul,
    "Mul": _elementwise("QLinearMul", operands=2),
    "Pad": _padded,
    "Relu": _elementwise("QLinearLeakyRelu", alpha=0.0),
    "Resize": _resized,
    "Sigmoid": _elementwise("QLinearSigmoid"),
    "Softmax": _softmax,
}
"""Float operator -> what it is between integers."""
