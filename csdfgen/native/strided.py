"""Which native kernels does a prepared call of numpy become? One or a few over strided arrays.

Every numpy kernel of the operators ends in a handful of functions (`csdfgen.ops.primitives`): copies,
ufuncs, reductions, matrix products. Each is one loop over the elements of its operands
(`c/strided.h`), so that whatever numpy computes native code does too, in the same memory. What is
worth more than a loop has a kernel of its own (`csdfgen.native.kernel_set`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, cast

import numpy as np

from csdfgen.errors import PlanError
from csdfgen.kernels.steps import Call
from csdfgen.native.library import RANK, Dim, Library, Record, Strided
from csdfgen.ops import primitives

__all__ = ["Native", "address_of", "copy_kernel", "joined", "table_of", "translated"]

_SHORT = {
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "bool": "bool",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}
"""Numpy's names of types -> those of the kernels."""

_FOLDS: dict[Any, tuple[str, Callable[[np.dtype[Any]], Any]]] = {
    np.add: ("sum", lambda dtype: 0),
    np.multiply: ("product", lambda dtype: 1),
    np.maximum: ("most", lambda dtype: -np.inf if dtype.kind == "f" else np.iinfo(dtype).min),
    np.minimum: ("least", lambda dtype: np.inf if dtype.kind == "f" else np.iinfo(dtype).max),
}
"""Ufunc that reduces -> the kernel that goes on, and what it starts from."""

Strides = tuple[int, ...]


class Native:
    """A kernel and what it is to work on: called, it runs.

    kernel: its name in the library, without `csdf_`. step: a structure; `kept` holds what it points to,
    `packed` the weights among that, as the kernel has them.
    """

    __slots__ = ("_run", "function", "kept", "kernel", "packed", "step")

    def __init__(
        self,
        kernel: str,
        step: ctypes.Structure,
        *kept: object,
        packed: tuple[np.ndarray, ...] = (),
    ) -> None:
        self.kernel, self.step, self.kept, self.packed = kernel, step, (*kept, *packed), packed
        self.function = 0

    def bound_to(self, library: Library) -> None:
        """Take the kernel from a library. Raises KeyError if it has none."""
        self.function, self._run = library.address(self.kernel), library.run

    def changed(self, step: ctypes.Structure, *more: object) -> Native:
        """The same kernel on a step that points to the same things, and to more."""
        made = Native(self.kernel, step, *self.kept, *more)
        made.packed = self.packed
        made.function, made._run = self.function, self._run
        return made

    def __call__(self) -> None:
        self._run(ctypes.byref(Record(self.function, ctypes.addressof(self.step))), 1)

    def __repr__(self) -> str:
        return f"Native({self.kernel!r})"


def address_of(array: np.ndarray) -> int:
    """Of the first element."""
    return int(array.__array_interface__["data"][0])


def translated(call: Call) -> list[Native]:
    """The kernels that do what a prepared call does. Raises PlanError for one that has none."""
    function, arguments = call
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if isinstance(function, np.ufunc):
        return _product(*arguments) if function is np.matmul else _ufunc(function, *arguments)
    if isinstance(owner, np.ufunc) and name == "reduce":
        return _reduced(owner, *arguments)
    if isinstance(owner, np.ufunc) and name == "accumulate":
        return _accumulated(owner, *arguments)
    if isinstance(owner, np.ndarray) and name == "fill":
        return _copied(owner, _filled_with(arguments[0], owner.dtype.name))
    make = _FUNCTIONS.get(function)
    if make is None:
        raise PlanError(f"{name or function} has no native kernel")
    return make(*arguments)


def joined(kernels: Sequence[Native]) -> list[Native]:
    """The same with as few copies as can be: those of equal shapes whose operands and whose outputs
    lie evenly spaced are one copy with a dimension more.
    """
    found: list[Native] = []
    start = 0
    while start < len(kernels):
        stop = start + 1
        while stop < len(kernels) and _continues(
            kernels[max(start, stop - 2) : stop], kernels[stop]
        ):
            stop += 1
        some = kernels[start:stop]
        found.append(_one_copy(some) if len(some) > 1 and _apart(some) else some[0])
        start = stop if found[-1] is not some[0] else start + 1
    return found


def _continues(some: Sequence[Native], after: Native) -> bool:
    """Whether a kernel goes on as one or two copies before it do."""
    if not some[0].kernel.startswith("copy_") or after.kernel != some[0].kernel:
        return False
    one, two, new = (cast(Strided, kernel.step) for kernel in (some[0], some[-1], after))
    if new.rank >= RANK or _rows(new) != _rows(one):
        return False
    if not any(dim[1] for dim in _rows(one)) and not one.a == two.a == new.a:
        return False  # numbers of their own, whose distance means nothing once they are written out
    return len(some) == 1 or (new.a - two.a, new.out - two.out) == (
        two.a - one.a,
        two.out - one.out,
    )


def _rows(step: Strided) -> list[tuple[int, ...]]:
    """The dimensions of a step."""
    table = ctypes.cast(step.dims, ctypes.POINTER(Dim))
    return [(d.size, d.a, d.b, d.c, d.out) for d in table[: step.rank]]


def _apart(some: Sequence[Native]) -> bool:
    """Whether no copy reads what one of them writes."""
    first, last = (cast(Strided, kernel.step) for kernel in (some[0], some[-1]))
    size = int(some[0].kernel.split("_")[1])
    dims = _rows(first)

    def reach(low: int, high: int, strides: Sequence[int]) -> tuple[int, int]:
        steps = [(dim[0] - 1) * step for dim, step in zip(dims, strides, strict=True)]
        low, high = min(low, high), max(low, high)
        return low + sum(s for s in steps if s < 0), high + sum(s for s in steps if s > 0) + size

    read = reach(first.a, last.a, [dim[1] for dim in dims])
    written = reach(first.out, last.out, [dim[4] for dim in dims])
    return read[1] <= written[0] or written[1] <= read[0]


def _one_copy(some: Sequence[Native]) -> Native:
    first, second = (cast(Strided, kernel.step) for kernel in some[:2])
    rows = [
        (len(some), second.a - first.a, second.out - first.out),
        *((dim[0], dim[1], dim[4]) for dim in _rows(first)),
    ]
    sizes, read, written = zip(*rows, strict=True)
    dims = _dims(sizes, read, written)
    assert dims is not None
    table = table_of(dims)
    places = first.a, first.out, first.out, first.out
    made = Strided(ctypes.addressof(table), len(dims), 0, *places, None, 0, 0)
    return Native(some[0].kernel, made, table, *(kernel.kept for kernel in some))


# Dimensions --------------------------------------------------------------------------------------


def _dims(shape: Sequence[int], *strides: Strides) -> tuple[tuple[int, ...], ...] | None:
    """(size, strides of a, b, c and the output) of as few dimensions as do, the one with the smallest
    steps last; None without elements. strides: of the operands, the output's last.

    >>> _dims((2, 3, 1, 4), (48, 16, 0, 4), (48, 16, 16, 4))
    ((24, 4, 0, 0, 4),)
    >>> _dims((2, 3), (4, 8), (12, 4))
    ((2, 4, 0, 0, 12), (3, 8, 0, 0, 4))
    """
    if 0 in shape:
        return None
    *operands, out = strides
    none = tuple(repeat(0, len(shape)))
    rows = list(zip(shape, *operands, *(none,) * (3 - len(operands)), out, strict=True))
    rows = [row for row in rows if row[0] > 1]
    rows.sort(key=lambda row: -sum(map(abs, row[1:])))
    merged: list[tuple[int, ...]] = []
    for row in rows:
        if merged and all(
            before == row[0] * step for before, step in zip(merged[-1][1:], row[1:], strict=True)
        ):
            merged[-1] = (merged[-1][0] * row[0], *row[1:])
        else:
            merged.append(row)
    if len(merged) > RANK:
        raise PlanError(f"{len(merged)} dimensions; native kernels take {RANK}")
    return tuple(merged)


@lru_cache(maxsize=4096)
def table_of(dims: tuple[tuple[int, ...], ...]) -> ctypes.Array[Dim]:
    """(size, strides of a, b, c and the output) of every dimension, as a table; equal ones are one."""
    return (Dim * len(dims))(*(Dim(*dim) for dim in dims))


def _step(
    kernel: str,
    shape: Sequence[int],
    out: np.ndarray,
    out_strides: Strides,
    *operands: tuple[np.ndarray, Strides],
    index: np.ndarray | None = None,
    along: tuple[int, int, int] = (0, 0, 0),
) -> list[Native]:
    """One strided kernel. along: count, stride, stride of the output of a dimension apart."""
    dims = _dims(shape, *(strides for _, strides in operands), out_strides)
    if dims is None:
        return []
    table, target = table_of(dims), address_of(out)
    places = [address_of(array) for array, _ in operands] + [target] * (3 - len(operands))
    count, step, out_step = along
    where = None if index is None else address_of(index)
    made = Strided(
        ctypes.addressof(table), len(dims), count, *places, target, where, step, out_step
    )
    return [Native(kernel, made, table, out, index, *(array for array, _ in operands))]


def _over(array: np.ndarray, shape: Sequence[int]) -> tuple[np.ndarray, Strides]:
    """An operand and its strides where it is broadcast to a shape."""
    missing = len(shape) - array.ndim
    own = (0 if size == 1 else step for size, step in zip(array.shape, array.strides, strict=True))
    return array, (*(0,) * missing, *own)


def _short(dtype: np.dtype[Any]) -> str:
    found = _SHORT.get(dtype.name)
    if found is None or not dtype.isnative:
        raise PlanError(f"elements of type {dtype} have no native kernels")
    return found


@lru_cache(maxsize=1024)
def _number(value: Any, dtype: str) -> np.ndarray:
    return np.array(value, dtype)


@lru_cache(maxsize=1024)
def _filled_with(value: float, dtype: str) -> np.ndarray:
    """What an array is filled with, the same one for equal numbers: such copies can be joined. No
    operator fills with a negative zero.
    """
    return np.array(value, dtype)


def _array(value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """An operand as an array of a type; numbers become arrays of one element."""
    if isinstance(value, np.ndarray):
        if value.dtype == dtype:
            return value
        if value.ndim:
            raise PlanError(f"an operand of type {value.dtype} beside {dtype} has no native kernel")
        value = value[()]
    if value != value:  # what is not a number equals nothing that was kept
        return np.array(value, dtype)
    # zeros of both signs are equal and yet differ
    return np.array(value, dtype) if value == 0 else _number(value, dtype.name)


# Calls -------------------------------------------------------------------------------------------


def copy_kernel(source: np.dtype[Any], target: np.dtype[Any]) -> str:
    """The kernel that copies elements of a type into those of another. Raises PlanError."""
    if source == target:
        return f"copy_{target.itemsize}"
    return f"from_{_short(source)}_to_{_short(target)}"


def _copied(
    out: np.ndarray, source: Any, casting: str = "same_kind", where: np.ndarray | None = None
) -> list[Native]:
    """numpy.copyto."""
    array = source if isinstance(source, np.ndarray) else np.asarray(source, out.dtype)
    operands = [_over(array, out.shape)]
    if where is not None:
        array = _array(array, out.dtype)
        operands = [_over(array, out.shape), _over(array, out.shape), _over(where, out.shape)]
        return _step(f"put_{out.itemsize}", out.shape, out, out.strides, *operands)
    kernel = copy_kernel(array.dtype, out.dtype)
    return _step(kernel, out.shape, out, out.strides, *operands)


def _ufunc(function: np.ufunc, *arguments: Any) -> list[Native]:
    """A ufunc with its output as the last argument."""
    *operands, out = arguments
    if function is np.positive:
        return _copied(out, operands[0])
    dtype = next((o.dtype for o in operands if isinstance(o, np.ndarray) and o.ndim), None)
    dtype = dtype or next((o.dtype for o in operands if isinstance(o, np.ndarray)), out.dtype)
    arrays = [_over(_array(operand, dtype), out.shape) for operand in operands]
    kernel = f"{function.__name__}_{_short(dtype)}"
    result = np.dtype(bool) if kernel.startswith(_TELLS) else dtype
    if out.dtype != result:
        raise PlanError(f"{function.__name__} of {dtype} into {out.dtype} has no native kernel")
    return _step(kernel, out.shape, out, out.strides, *arrays)


_TELLS = ("equal", "not_equal", "less", "greater", "logical")
"""How names of ufuncs begin that tell whether something is so."""


def _clipped(x: np.ndarray, low: Any, high: Any, out: np.ndarray) -> list[Native]:
    arrays = [_over(_array(operand, out.dtype), out.shape) for operand in (x, low, high)]
    return _step(f"clip_{_short(out.dtype)}", out.shape, out, out.strides, *arrays)


def _reduced(
    function: np.ufunc,
    array: np.ndarray,
    axis: int | tuple[int, ...],
    dtype: Any,
    out: np.ndarray,
    keepdims: bool = False,
) -> list[Native]:
    """ufunc.reduce."""
    name, start = _FOLDS[function]
    dims = {d % array.ndim for d in (axis if isinstance(axis, tuple) else (axis,))}
    strides = iter(out.strides)
    kept: list[int] = []
    for d in range(array.ndim):
        if d in dims:
            kept.append(0)
            if keepdims:
                next(strides)
        else:
            kept.append(next(strides))
    if out.dtype == bool:  # whose two values are bytes
        array, out = array.view(np.uint8), out.view(np.uint8)
    kind = _short(out.dtype)
    if array.dtype == np.float16 and out.dtype == np.float32:
        kind = "f16_in_f32"
    else:
        array = _array(array, out.dtype)
    first = _copied(out, np.asarray(start(out.dtype), out.dtype))
    return first + _step(f"{name}_{kind}", array.shape, out, tuple(kept), (array, array.strides))


def _accumulated(
    function: np.ufunc, array: np.ndarray, axis: int, dtype: Any, out: np.ndarray
) -> list[Native]:
    """ufunc.accumulate: element by element, each from the one before."""
    front = (slice(None),) * (axis % array.ndim)

    def part(whole: np.ndarray, start: int | None, stop: int | None) -> np.ndarray:
        index: Any = *front, slice(start, stop)
        return cast(np.ndarray, whole[index])

    first = _copied(part(out, 0, 1), part(array, 0, 1))
    before, behind = part(out, None, -1), part(out, 1, None)
    return first + _ufunc(function, before, part(array, 1, None), behind)


def _summed(
    out: np.ndarray, out_letters: str, *operands: tuple[np.ndarray, str], start: bool = True
) -> list[Native]:
    """Sums of products, dimensions named by letters."""
    sizes: dict[str, int] = {}
    for array, letters in (*operands, (out, out_letters)):
        for letter, size in zip(letters, array.shape, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 1))

    def strides(array: np.ndarray, letters: str) -> Strides:
        own = dict(zip(letters, _over(array, array.shape)[1], strict=True))
        return tuple(own.get(letter, 0) for letter in sizes)

    begun = _copied(out, np.zeros((), out.dtype)) if start else []
    arrays = [(_array(array, out.dtype), strides(array, letters)) for array, letters in operands]
    kernel = f"muladd_{_short(out.dtype)}"
    return begun + _step(kernel, tuple(sizes.values()), out, strides(out, out_letters), *arrays)


def _einsum(subscripts: str, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> list[Native]:
    operands, target = subscripts.split("->")
    first, second = operands.split(",")
    return _summed(out, target, (a, first), (b, second))


def _product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> list[Native]:
    """numpy.matmul: vectors are matrices of one row or column, matrices in front are broadcast."""
    m = "m" if a.ndim > 1 else ""
    n = "n" if b.ndim > 1 else ""
    batch = "abcdefgh"[: out.ndim - len(m) - len(n)]
    of_a = batch[len(batch) - max(a.ndim - 2, 0) :] + m + "k"
    of_b = batch[len(batch) - max(b.ndim - 2, 0) :] + "k" + n
    return _summed(out, batch + m + n, (a, of_a), (b, of_b))


def _taken(
    array: np.ndarray, index: np.ndarray, axis: int, out: np.ndarray, mode: str
) -> list[Native]:
    """numpy.take along an axis with an index of one dimension, mode "clip"."""
    assert index.ndim == 1 and mode == "clip"
    axis %= array.ndim
    rest = (*array.shape[:axis], *array.shape[axis + 1 :])
    within = np.clip(index, 0, array.shape[axis] - 1).astype(np.int32)

    def strides(of: np.ndarray) -> Strides:
        return (*of.strides[:axis], *of.strides[axis + 1 :])

    return _step(
        f"take_{out.itemsize}",
        rest,
        out,
        strides(out),
        (_array(array, out.dtype), strides(array)),
        index=within,
        along=(len(within), array.strides[axis], out.strides[axis]),
    )


def _looked_up(table: np.ndarray, index: np.ndarray, out: np.ndarray) -> list[Native]:
    """An element of a table for every index."""
    if index.itemsize != 8 or table.dtype != out.dtype or not table.flags.c_contiguous:
        raise PlanError(
            f"looking up {table.dtype} by {index.dtype} into {out.dtype} has no native kernel"
        )
    still = (table, (0,) * out.ndim)
    return _step(
        f"look_{out.itemsize}", out.shape, out, out.strides, _over(index, out.shape), still, still
    )


def _position(name: str) -> Callable[..., list[Native]]:
    def found(array: np.ndarray, axis: int, out: np.ndarray) -> list[Native]:
        axis %= array.ndim
        rest = (*array.shape[:axis], *array.shape[axis + 1 :])
        strides = (*array.strides[:axis], *array.strides[axis + 1 :])
        along = (array.shape[axis], array.strides[axis], 0)
        return _step(
            f"{name}_{_short(array.dtype)}", rest, out, out.strides, (array, strides), along=along
        )

    return found


def _two(name: str) -> Callable[..., list[Native]]:
    function: np.ufunc = getattr(np, name)
    return lambda a, b, out: _ufunc(function, a, b, out)


_FUNCTIONS: dict[Any, Callable[..., list[Native]]] = {
    np.copyto: _copied,
    np.ndarray.clip: _clipped,
    np.take: _taken,
    np.argmax: _position("argmax"),
    np.argmin: _position("argmin"),
    primitives.maximum: _two("maximum"),
    primitives.minimum: _two("minimum"),
    primitives.negative: lambda a, out: _ufunc(np.negative, a, out),
    primitives.einsum: _einsum,
    primitives.looked_up: _looked_up,
}
"""Function of a prepared call -> what makes kernels of its arguments."""
