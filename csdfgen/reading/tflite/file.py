"""What does a .tflite file hold? Nothing in it is trusted.

Source: schema.fbs of TensorFlow Lite (tensorflow/lite/schema), whose accessors the package `tflite` provides. They read
wherever an offset points, so that all reading is done here, within one net for what they raise, and arrays are copied
or viewed only after their sizes have been compared with the bytes that there are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from csdfgen.errors import InputError, ModelError, first_line
from csdfgen.reading.onnx_file import DAMAGED, check_file, label, text
from csdfgen.reading.onnx_tensor import MAX_ELEMENTS, MAX_RANK
from csdfgen.reading.tflite.sparse import densify

Shape = tuple[int, ...]

_TYPES = {
    "FLOAT32": "float32", "FLOAT16": "float16", "FLOAT64": "float64", "BOOL": "bool", "INT4": "int4", "INT8": "int8",
    "UINT8": "uint8", "INT16": "int16", "UINT16": "uint16", "INT32": "int32", "UINT32": "uint32", "INT64": "int64",
    "UINT64": "uint64", "RESOURCE": "resource",
}  # fmt: skip
"""TensorType -> type of elements; int4 are two a byte, a resource stands for a variable."""

_IDENTIFIER = b"TFL3"
BROKEN = (*DAMAGED, struct.error, AttributeError)
"""What a damaged file can make raise what reads it."""


_NONE = np.empty(0, np.float32)


@dataclass(slots=True, eq=False)
class Tensor:
    """A tensor as the file describes it.

    scale, zero: of one element, or one for each index of `axis`; none where it is not quantized. data: of a constant.
    open: the file leaves a size behind the first to who runs it, and has 1 in its place.
    """

    name: str
    shape: Shape
    dtype: str
    scale: np.ndarray = field(default_factory=lambda: _NONE)
    zero: np.ndarray = field(default_factory=lambda: _NONE)
    axis: int = 0
    data: np.ndarray | None = None
    variable: bool = False
    open: bool = False


@dataclass(slots=True, eq=False)
class Operator:
    """kind: name of a builtin operator, or of a custom one. inputs: -1 for one that is left out. options: the table of
    its settings, None for none. custom: bytes of those of a custom operator.
    """

    kind: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: Any = None
    custom: bytes = b""

    def option(self, name: str, default: Any = 0) -> Any:
        """A setting; default: where the operator has none at all. Raises ModelError."""
        try:
            return default if self.options is None else getattr(self.options, name)()
        except BROKEN as error:
            raise ModelError(f"its settings are damaged ({name})") from error


@dataclass(slots=True, eq=False)
class Subgraph:
    tensors: list[Tensor] = field(default_factory=list)
    inputs: Sequence[int] = ()
    outputs: Sequence[int] = ()
    operators: list[Operator] = field(default_factory=list)


def import_schema() -> Any:
    """The accessors of the format. Raises InputError where the package is missing."""
    try:
        import tflite
    except ImportError as error:
        raise InputError(
            f"a .tflite file needs tflite ({first_line(error)}); install it with pip install 'csdfgen[tflite]'"
        ) from None
    return tflite


def read_subgraphs(path: Path) -> list[Subgraph]:
    """The subgraphs of a file; the first one is the main one. Raises InputError, ModelError."""
    check_file(path)
    schema = import_schema()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot be read: {error.strerror or error}") from error
    if data[4:8] != _IDENTIFIER:
        raise ModelError(f"is no .tflite file: bytes 4 to 7 are not {_IDENTIFIER.decode()}")
    try:
        return _Reading(schema, data).subgraphs()
    except BROKEN as error:
        raise ModelError(
            f"is damaged, it cannot be read as .tflite: {first_line(error)}"
        ) from error


class _Reading:
    """The file as it is read."""

    def __init__(self, schema: Any, data: bytes) -> None:
        self._schema, self._bytes = schema, data
        self._model = schema.Model.GetRootAs(data, 0)
        self._buffers = self._tables(self._model, "Buffers")
        self._kinds = [self._kind(code) for code in self._tables(self._model, "OperatorCodes")]
        self._types = _names(schema.TensorType)
        self._options = [_names(schema.BuiltinOptions), _names(schema.BuiltinOptions2)]

    def subgraphs(self) -> list[Subgraph]:
        found = [self._subgraph(one) for one in self._tables(self._model, "Subgraphs")]
        if not found:
            raise ModelError("holds no subgraph")
        return found

    def _count(self, table: Any, name: str) -> int:
        count = int(getattr(table, f"{name}Length")())
        if count > len(self._bytes):
            raise ModelError(f"is damaged: {count} {name} in {len(self._bytes)} bytes")
        return count

    def _tables(self, table: Any, name: str) -> list[Any]:
        return [getattr(table, name)(k) for k in range(self._count(table, name))]

    def _numbers(self, table: Any, name: str) -> np.ndarray:
        if not self._count(table, name):
            return np.empty(0, np.int64)
        return np.array(getattr(table, f"{name}AsNumpy")())

    def _kind(self, code: Any) -> str:
        builtin = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        name = self._schema.utils.BUILTIN_OPCODE2NAME.get(builtin, f"number {builtin}")
        return text(code.CustomCode() or b"") if name == "CUSTOM" else name

    def _subgraph(self, one: Any) -> Subgraph:
        tensors = [self._tensor(t, k) for k, t in enumerate(self._tables(one, "Tensors"))]
        found = Subgraph(
            tensors, self._indices(one, "Inputs", tensors), self._indices(one, "Outputs", tensors)
        )
        if -1 in (*found.inputs, *found.outputs):
            raise ModelError("is damaged: an input or output is no tensor")
        found.operators = [self._operator(op, tensors) for op in self._tables(one, "Operators")]
        return found

    def _indices(self, table: Any, name: str, tensors: Sequence[Tensor]) -> list[int]:
        found = [int(k) for k in self._numbers(table, name)]
        for k in found:
            if not -1 <= k < len(tensors):
                raise ModelError(f"is damaged: tensor {k} of {len(tensors)}")
        return found

    def _operator(self, op: Any, tensors: Sequence[Tensor]) -> Operator:
        kind = self._kinds[op.OpcodeIndex()]
        inputs, outputs = (self._indices(op, name, tensors) for name in ("Inputs", "Outputs"))
        if -1 in outputs:
            raise ModelError("is damaged: the output of an operator is no tensor")
        custom = self._numbers(op, "CustomOptions").tobytes()
        return Operator(kind, inputs, outputs, self._settings(op), custom)

    def _settings(self, op: Any) -> Any:
        for names, suffix in zip(self._options, ("", "2"), strict=True):
            table = getattr(op, f"BuiltinOptions{suffix}")()
            name = names.get(getattr(op, f"BuiltinOptions{suffix}Type")(), "NONE")
            if table is not None and name != "NONE":
                found = getattr(self._schema, name)()
                found.Init(table.Bytes, table.Pos)
                return found
        return None

    def _tensor(self, one: Any, index: int) -> Tensor:
        name = text(one.Name() or b"") or f"tensor_{index}"
        try:
            return self._described(one, name)
        except ModelError as error:
            raise error.at(f"tensor '{label(name)}'") from error

    def _described(self, one: Any, name: str) -> Tensor:
        kind = self._types.get(one.Type(), f"number {one.Type()}")
        # types that are not known are refused by the operators that use them
        found = Tensor(
            name, tuple(map(int, self._numbers(one, "Shape"))), _TYPES.get(kind, kind.lower())
        )
        if (
            len(found.shape) > MAX_RANK
            or min(found.shape, default=0) < 0
            or prod(found.shape) > MAX_ELEMENTS
        ):
            raise ModelError(
                f"its shape is {label(str(found.shape))}: at most {MAX_RANK} axes and {MAX_ELEMENTS} elements are possible"
            )
        found.variable = bool(one.IsVariable())
        found.open = bool(np.any(self._numbers(one, "ShapeSignature")[1:] < 0))
        quantized = one.Quantization()
        if quantized is not None:
            self._quantize(found, quantized)
        found.data = self._data(found, one.Buffer(), one.Sparsity())
        return found

    def _quantize(self, found: Tensor, given: Any) -> None:
        scale = self._numbers(given, "Scale").astype(np.float32)
        if given.DetailsType():
            raise ModelError("is quantized by blocks, which is not supported")
        if not scale.size or found.dtype not in _QUANTIZED:
            return
        zero = self._numbers(given, "ZeroPoint")
        axis = int(given.QuantizedDimension())
        sizes = [1, found.shape[axis]] if 0 <= axis < len(found.shape) else [1]
        if scale.size not in sizes or zero.size not in (0, 1, scale.size):
            raise ModelError(
                f"is damaged: {scale.size} scales and {zero.size} zero points along axis {axis}"
            )
        least, most = _QUANTIZED[found.dtype]
        if not np.all(np.isfinite(scale) & (scale > 0)) or np.any((zero < least) | (zero > most)):
            raise ModelError(
                "is damaged: its scales are not all above 0, or a zero point is no value of its type"
            )
        zeros = np.broadcast_to(zero if zero.size else 0, scale.shape)
        found.scale, found.zero, found.axis = scale, zeros, axis

    def _data(self, tensor: Tensor, index: int, sparsity: Any) -> np.ndarray | None:
        if not 0 <= index < len(self._buffers):
            raise ModelError(f"is damaged: buffer {index} of {len(self._buffers)}")
        buffer = self._buffers[index]
        raw = np.empty(0, np.uint8)
        if buffer.Offset() > 1:  # of a file with buffers behind the flatbuffer
            start, stop = buffer.Offset(), buffer.Offset() + buffer.Size()
            if stop > len(self._bytes):
                raise ModelError(f"is damaged: its data end at byte {stop} of {len(self._bytes)}")
            raw = np.frombuffer(self._bytes, np.uint8)[start:stop]
        elif self._count(buffer, "Data"):
            raw = buffer.DataAsNumpy()
        if not raw.size:
            return (
                np.zeros(tensor.shape, _STORED.get(tensor.dtype, tensor.dtype))
                if 0 in tensor.shape
                else None
            )
        if tensor.dtype not in _TYPES.values() or tensor.dtype == "resource":
            raise ModelError(f"has elements of type {tensor.dtype}, which are not supported")
        count = prod(tensor.shape)
        if sparsity is not None and tensor.dtype != "int4":
            stored = np.dtype(tensor.dtype).newbyteorder("<")
            values = (
                raw[: raw.size // stored.itemsize * stored.itemsize]
                .view(stored)
                .astype(tensor.dtype)
            )
            levels = self._tables(sparsity, "DimMetadata")
            return densify(values, tensor.shape, sparsity, levels, self._numbers)
        need = -(-count // 2) if tensor.dtype == "int4" else count * np.dtype(tensor.dtype).itemsize
        if raw.size != need:
            raise ModelError(f"is damaged: it has {raw.size} bytes of data, its shape needs {need}")
        if tensor.dtype == "int4":
            return _halves(raw)[:count].reshape(tensor.shape)
        if tensor.dtype == "bool":
            return (raw != 0).reshape(tensor.shape)
        stored = np.dtype(tensor.dtype).newbyteorder("<")
        return raw.view(stored).astype(tensor.dtype).reshape(tensor.shape)


_QUANTIZED = {
    "int4": (-8, 7), "int8": (-128, 127), "uint8": (0, 255), "int16": (-(2**15), 2**15 - 1), "int32": (0, 0),
    "int64": (0, 0),
}  # fmt: skip
"""Types of integers that stand for other numbers -> their range, 0 of those that are biases."""

_STORED = {"int4": "int8", "resource": "int8"}


def _halves(raw: np.ndarray) -> np.ndarray:
    """Integers of four bits as bytes, the lower half of a byte first."""
    both = np.stack([raw << 4, raw & 0xF0], axis=-1).view(np.int8)
    return (both >> 4).reshape(-1)


def _names(enumeration: Any) -> dict[int, str]:
    return {value: name for name, value in _members(enumeration)}


def _members(enumeration: Any) -> Iterator[tuple[str, int]]:
    return ((name, value) for name, value in vars(enumeration).items() if isinstance(value, int))
