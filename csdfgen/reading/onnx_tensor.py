"""What array does a tensor of an ONNX file hold? Sizes are checked before anything is allocated.

Source: https://onnx.ai/onnx/repo-docs/IR.html, ExternalData.md (a location stays inside the model's
    directory).
"""

from __future__ import annotations

import mmap
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from csdfgen.errors import ModelError
from csdfgen.files import map_file, record
from csdfgen.model.formats import ARITHMETIC
from csdfgen.reading.onnx_file import Stored, Weight, label, text

MAX_CONSTANT_ELEMENTS = 2**28
"""Of a constant whose size is only a claim: a sparse or a computed one."""

MAX_ELEMENTS = 2**40
"""Of one activation tensor or network input. Only some of its rows are ever in memory."""

MAX_ROW_ELEMENTS = 2**31
"""Of one row of such a tensor, which is the whole tensor where it has no row axis; and rows."""

MAX_RANK = 32
"""Dimensions of a tensor; numpy's arrays had no more before its version 2."""

DTYPES: dict[int, str] = {
    TensorProto.FLOAT: "float32",
    TensorProto.FLOAT16: "float16",
    TensorProto.DOUBLE: "float64",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.INT8: "int8",
    TensorProto.INT16: "int16",
    TensorProto.INT32: "int32",
    TensorProto.INT64: "int64",
    TensorProto.UINT8: "uint8",
    TensorProto.UINT16: "uint16",
    TensorProto.UINT32: "uint32",
    TensorProto.UINT64: "uint64",
    TensorProto.BOOL: "bool",
}
"""ONNX element types and their numpy names; all others are refused."""

FOUR_BITS: dict[int, str] = {TensorProto.INT4: "int4", TensorProto.UINT4: "uint4"}
"""Those of constants alone, two elements a byte in a file, one in an array."""

_TYPED_FIELDS = {
    "float32": ("float_data", "float32"),
    "float64": ("double_data", "float64"),
    "int64": ("int64_data", "int64"),
    "uint32": ("uint64_data", "uint64"),
    "uint64": ("uint64_data", "uint64"),
}
"""Where a tensor without raw data keeps its elements, and as what; those not listed: int32_data."""


def dtype_name(code: int) -> str:
    """The numpy name of an ONNX element type; ModelError if it is unknown or not supported."""
    if code in DTYPES:
        return DTYPES[code]
    names = {v: k for k, v in TensorProto.DataType.items()}
    what = names.get(code, f"number {code}").lower() if code else "undefined"
    raise ModelError(
        f"element type {what} is not supported; use bfloat16, float16/32/64, int8 to int64, uint8 to uint64 or bool"
    )


def decode(weight: Weight, directory: Path | None) -> np.ndarray:
    """The array of a tensor, read from wherever its elements are.

    directory: the model's, for external data. Raises ModelError if dimensions and data disagree.
    """
    tensor = weight.tensor
    try:
        return _decode(weight, directory)
    except ModelError as error:
        raise error.at(f"tensor '{label(tensor.name)}'") from error


def file_bytes(weight: Weight, directory: Path | None) -> int:
    """Bytes that files hold of a tensor's elements; 0 where it is damaged."""
    tensor = weight.tensor
    if weight.stored is not None or tensor.data_location != TensorProto.EXTERNAL:
        return weight.stored.length if weight.stored else tensor.ByteSize()
    need = prod(tensor.dims) * np.dtype(DTYPES.get(tensor.data_type, "uint8")).itemsize
    try:
        return min(max(0, need), _external(tensor, directory, need).length)
    except ModelError:
        return 0


def _decode(weight: Weight, directory: Path | None) -> np.ndarray:
    tensor = weight.tensor
    four = FOUR_BITS.get(tensor.data_type)
    dtype = np.dtype(np.uint8 if four else dtype_name(tensor.data_type))
    shape = tuple(tensor.dims)
    _check_shape(shape)
    if tensor.HasField("segment"):
        raise ModelError("is cut into segments, which are not supported")
    elements = prod(shape)
    count = -(-elements // 2) if four else elements
    stored = weight.stored
    if tensor.data_location == TensorProto.EXTERNAL:
        stored = _external(tensor, directory, count * dtype.itemsize)
    if stored is not None:
        _check_bytes(shape, four or dtype, count * dtype.itemsize, stored.length)
        large = weight.mapped and stored.length >= mmap.PAGESIZE
        flat = (_mapped if large else _read)(stored, dtype, count)
    elif tensor.HasField("raw_data"):
        raw = tensor.raw_data
        _check_bytes(shape, four or dtype, count * dtype.itemsize, len(raw))
        flat = _native(np.frombuffer(raw, _on_disk(dtype)) if raw else np.empty(0, dtype), dtype)
    else:
        flat = _typed(tensor, dtype, count)
    return (_unpacked(flat, four, elements) if four else flat).reshape(shape)


def _unpacked(flat: np.ndarray, dtype: str, count: int) -> np.ndarray:
    """The elements of bytes that hold two each, the first in the lower half."""
    halves = np.stack([flat & 15, flat >> 4], axis=-1).reshape(-1)[:count]
    return (halves if dtype == "uint4" else (halves ^ 8).astype(np.int8) - 8).astype(dtype)


def _check_shape(shape: tuple[int, ...]) -> None:
    if len(shape) > MAX_RANK:
        raise ModelError(f"has {len(shape)} dimensions, at most {MAX_RANK} are supported")
    if min(shape, default=0) < 0:
        raise ModelError(
            f"has a dimension of {min(shape)} elements in shape {_dims(shape)}, at least 0 are needed"
        )


def _dims(shape: tuple[int, ...]) -> str:
    """A shape as text, cut where it is absurdly long.

    >>> _dims((1, 3, 8))
    '1x3x8'
    """
    return label("x".join(map(str, shape)) or "scalar", 60)


def _check_bytes(shape: tuple[int, ...], dtype: str | np.dtype, need: int, have: int) -> None:
    if need != have:
        raise ModelError(
            f"of shape {_dims(shape)} ({dtype}) needs {need} bytes, the file holds {have}"
        )


def _on_disk(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.uint8) if dtype.kind == "b" else dtype.newbyteorder("<")


def _native(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Little-endian elements of a file as elements of this machine; any byte but 0 is true."""
    return array != 0 if dtype.kind == "b" else array.astype(dtype, copy=False)


def _read(stored: Stored, dtype: np.dtype, count: int) -> np.ndarray:
    """`count` elements out of a file, into an array of their own."""
    try:
        array = np.fromfile(stored.path, _on_disk(dtype), count, offset=stored.offset)
    except OSError as error:
        raise ModelError(
            f"cannot be read from '{stored.path.name}': {error.strerror or error}"
        ) from error
    if array.size != count:
        raise ModelError(f"needs {count} elements, '{stored.path.name}' gave {array.size}")
    return _native(array, dtype)


def _mapped(stored: Stored, dtype: np.dtype, count: int) -> np.ndarray:
    """The same, where they are in the file, if they are elements of this machine: perhaps not aligned, never to be written."""
    if _on_disk(dtype) != dtype:
        return _read(stored, dtype, count)
    try:
        return np.frombuffer(map_file(stored.path), dtype, count, stored.offset)
    except OSError as error:
        raise ModelError(
            f"cannot be mapped from '{stored.path.name}': {error.strerror or error}"
        ) from error


def _typed(tensor: onnx.TensorProto, dtype: np.dtype, count: int) -> np.ndarray:
    """Elements that are listed one by one in a field for their type."""
    name, carrier = _TYPED_FIELDS.get(dtype.name, ("int32_data", "int32"))
    values = getattr(tensor, name)
    if len(values) != count:
        raise ModelError(
            f"of shape {_dims(tuple(tensor.dims))} needs {count} elements, the file holds {len(values)}"
        )
    array = np.fromiter(values, carrier, count)
    if dtype.name in ARITHMETIC:  # the bits of each number, as an integer
        return array.astype(np.uint16).view(dtype)
    return array.astype(dtype, copy=False)


def _external(tensor: onnx.TensorProto, directory: Path | None, need: int) -> Stored:
    """Where the external data of a tensor are, if they are inside the model's directory and long
    enough.
    """
    entries = {text(e.key): text(e.value) for e in tensor.external_data}
    location = entries.get("location", "")
    if directory is None:
        raise ModelError("keeps its data in an external file; load the model by its path")
    path = _inside(location, directory)
    record(path)
    size = path.stat().st_size
    offset = _number(entries, "offset", 0)
    length = _number(entries, "length", min(need, max(0, size - offset)))
    if offset + length > size:
        raise ModelError(
            f"claims bytes {offset} to {offset + length} of '{label(location)}', which has {size}"
        )
    return Stored(path, offset, length)


def _number(entries: dict[str, str], key: str, default: int) -> int:
    value = entries.get(key, str(default))
    # A number of more digits than any file has bytes is refused before it is converted.
    if not (value.isascii() and value.isdigit() and len(value) < 19):
        raise ModelError(
            f"has external data with {key} '{label(value, 20)}', a number of bytes is needed"
        )
    return int(value)


def _inside(location: str, directory: Path) -> Path:
    """The file at a location beside the model; ModelError if it leaves the model's directory or is
    no file.
    """
    try:
        home = directory.resolve()
        path = (home / location).resolve()
        inside = (
            location
            and not Path(location).is_absolute()
            and ".." not in Path(location).parts
            and path.is_relative_to(home)
        )
        if not inside:
            raise ModelError(
                f"keeps its data in '{label(location)}', which is not inside the model's directory"
            )
        if not path.is_file():
            raise ModelError(
                f"keeps its data in '{label(location)}', which is not a file beside the model"
            )
    except (OSError, RuntimeError, ValueError) as error:
        # too long a name, a loop of links, a NUL in the name
        raise ModelError(
            f"keeps its data in '{label(location)}', which is no usable file name"
        ) from error
    return path


def densify(sparse: onnx.SparseTensorProto, directory: Path | None) -> np.ndarray:
    """A sparse tensor as a dense array; ModelError if it is large or an index is outside."""
    values = decode(Weight(sparse.values), directory)
    indices = decode(Weight(sparse.indices), directory)
    shape = tuple(sparse.dims)
    try:
        return _dense(values, indices, shape)
    except ModelError as error:
        raise error.at(f"sparse tensor '{label(sparse.values.name)}'") from error


def _dense(values: np.ndarray, indices: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    _check_shape(shape)
    count = prod(shape)
    if count > MAX_CONSTANT_ELEMENTS:
        raise ModelError(
            f"has {count} elements in shape {_dims(shape)}, at most {MAX_CONSTANT_ELEMENTS} are supported"
        )
    if (
        values.ndim != 1
        or indices.dtype != np.int64
        or indices.shape not in {values.shape, (values.size, len(shape))}
    ):
        raise ModelError(f"has {values.size} values and indices of shape {_dims(indices.shape)}")
    bounds = np.array(shape if indices.ndim == 2 else (count,), np.int64)
    if ((indices < 0) | (indices >= bounds)).any():
        raise ModelError(f"has an index outside its shape {_dims(shape)}")
    dense = np.zeros(shape, values.dtype)
    if indices.ndim == 2:
        dense[tuple(indices.T)] = values
    else:
        dense.reshape(-1)[indices] = values
    return dense
