"""What kernels in numpy share: axes of slabs, sums, float16 by way of float32, and blocks of the
elements where the workspace is too small for all of them.

A slab has its rows first, then the axes behind the row axis, then those before it
(`csdfgen.model.network`): `slab_dims` gives the dimensions of ONNX axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from csdfgen.errors import ModelError, option
from csdfgen.model.network import Node, Tensor
from csdfgen.ops._operands import storage_axis
from csdfgen.ops.base import Call, CountingScratch, Emit, Scratch, Work, require_tensor
from csdfgen.ops.primitives import einsum

FLOATS = ("float16", "float32", "float64")
ONES = 4096
"""Longest vector of ones that is kept for sums."""

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def data_input(node: Node, dtypes: Sequence[str] = FLOATS, least_rank: int = 0) -> Tensor:
    """Input 0 of a node: a computed tensor of one of the `dtypes`, of at least `least_rank` axes,
    without empty axes.

    Raises ModelError.
    """
    tensor = require_tensor(node, 0)
    if tensor.dtype not in dtypes:
        raise ModelError(
            f"input of type {tensor.dtype}; {node.op_type} runs in {', '.join(dtypes)}, insert a Cast"
        )
    if len(tensor.shape) < least_rank:
        raise ModelError(
            f"input of shape {list(tensor.shape)} has {len(tensor.shape)} axes, at least {least_rank} are needed"
        )
    if 0 in tensor.shape:
        raise ModelError(
            f"input of shape {list(tensor.shape)} has no elements; fix its sizes with {option('shapes')}"
        )
    return tensor


def slab_dims(tensor: Tensor, axes: Iterable[int]) -> tuple[int, ...]:
    """Dimensions, ascending, of a slab of a tensor in which its ONNX axes lie.

    >>> slab_dims(Tensor("x", (1, 3, 8, 10), row_axis=2), (2, 3)), slab_dims(Tensor("y", (1, 3)), (1,))
    ((0, 1), (2,))
    """
    return tuple(sorted(storage_axis(tensor, axis) for axis in axes))


def has_separate_rows(tensor: Tensor, axes: Iterable[int]) -> bool:
    """Whether work along `axes` stays within a row of the tensor."""
    return tensor.row_axis is None or tensor.rows == 1 or tensor.row_axis not in axes


def sum_of_squares(array: np.ndarray, dims: Sequence[int], out: np.ndarray) -> Call:
    """The call that sums squares over `dims` without storing these; `out` keeps the dims as 1."""
    letters = "abcdefghijklmnop"[: array.ndim]
    kept = "".join(letter for i, letter in enumerate(letters) if i not in dims)
    # the dots make it an array in any case
    index = (*(0 if i in dims else slice(None) for i in range(array.ndim)), ...)
    return (einsum, (f"{letters},{letters}->{kept}", array, array, out[index]))


@lru_cache(maxsize=256)
def _ones(count: int, dtype: str) -> np.ndarray:
    ones = np.ones(count, dtype)
    ones.flags.writeable = False
    return ones


def _matrix(array: np.ndarray, rows: int) -> np.ndarray | None:
    """View of an array as `rows` rows, each contiguous; None if that needs a copy."""
    matrix = array.reshape(rows, -1)
    contiguous = matrix.shape[1] == 1 or matrix.strides[1] == matrix.itemsize
    return matrix if contiguous and np.may_share_memory(matrix, array) else None


def sum_over(array: np.ndarray, dims: Sequence[int], out: np.ndarray) -> Call:
    """The call that sums over `dims`; `out` keeps those dimensions as 1.

    Where the dimensions come first or last, that is a product with a vector of ones, which takes a
    third of the time of numpy's sum.
    """
    plain: Call = (np.add.reduce, (array, tuple(dims), None, out, True))
    count = prod(array.shape[d] for d in dims)
    wide = [d for d, size in enumerate(array.shape) if size > 1]
    summed = [d for d in wide if d in dims]
    if array.dtype.char not in "fd" or out.dtype != array.dtype or not 1 < count <= ONES:
        return plain
    ones = _ones(count, array.dtype.name)
    if summed == wide[: len(summed)]:
        matrix, target = _matrix(array, count), _matrix(out, 1)
        return plain if matrix is None or target is None else (np.matmul, (ones, matrix, target[0]))
    if summed == wide[-len(summed) :]:
        matrix, target = _matrix(array, array.size // count), _matrix(out, 1)
        return plain if matrix is None or target is None else (np.matmul, (matrix, ones, target[0]))
    return plain


def _widened(array: np.ndarray, scratch: Scratch) -> np.ndarray:
    return scratch.take(array.shape, "float32") if array.dtype == np.float16 else array


def compute_in_float32(emit: Emit) -> Emit:
    """A kernel that sees float16 as float32 and rounds once at the end; other types pass through."""

    def wide(work: Work) -> Iterable[Call]:
        sources = [None if slab is None else _widened(slab, work.scratch) for slab in work.slabs]
        targets = [_widened(result, work.scratch) for result in work.results]
        before = [
            (np.copyto, (w, s)) for w, s in zip(sources, work.slabs, strict=True) if w is not s
        ]
        after = [
            (np.copyto, (r, w)) for w, r in zip(targets, work.results, strict=True) if w is not r
        ]
        return [*before, *emit(replace(work, slabs=sources, results=targets)), *after]

    return wide


def constant(values: Any, dtype: str | np.dtype[Any]) -> np.ndarray:
    """An array of a type, 0-dimensional for a number: prepared calls then convert nothing."""
    return np.asarray(values, np.dtype(dtype))


# Blocks -------------------------------------------------------------------------------------------

SMALLEST = 256
"""Elements of a block that is not cut further: below, calls cost far more than what they compute."""

Make = Callable[[Sequence[np.ndarray], Scratch], Iterable[Call]]
"""(arrays, scratch) -> calls."""


def split_into_blocks(
    make: Make, arrays: Sequence[np.ndarray], dims: Sequence[int], scratch: Scratch
) -> list[Call]:
    """The calls for arrays of equal rank, the first as large as the others together; for their
    halves along the first of `dims` that can be cut where they would not have the room.
    """
    trial = CountingScratch(scratch.limit)
    calls = list(make(arrays, trial))
    if not trial.end:
        return calls
    whole = arrays[0]
    if trial.end > scratch.room and whole.size > SMALLEST:
        dim = next((d for d in dims if whole.shape[d] > 1), None)
        if dim is not None:
            half = whole.shape[dim] // 2
            found: list[Call] = []
            parts = [slice(None, half), slice(half, None)]
            if scratch.declares and 2 * half == whole.shape[dim]:
                del parts[0]  # both take the same, and nothing is computed
            for part in parts:
                index = (slice(None),) * dim + (part,)
                own = [a if a.shape[dim] == 1 else a[index] for a in arrays]
                found += split_into_blocks(make, own, dims, scratch)
            return found
    mark = scratch.mark
    calls = list(make(arrays, scratch))
    scratch.rewind(mark)
    return calls
