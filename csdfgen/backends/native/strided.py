"""Which native kernels does a prepared call of numpy become? One or a few over strided arrays.

Every numpy kernel of the operators ends in a handful of functions (`csdfgen.ops.primitives`): copies,
ufuncs, reductions, matrix products. Each is one loop over the elements of its operands
(`c/strided.h`), so that whatever numpy computes native code does too, in the same memory. What is
worth more than a loop has a kernel of its own (`csdfgen.backends.native.backend`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple, cast

import numpy as np

from csdfgen.backends.native.structures import (
    Dim,
    constant,
    copy_kernel,
    instruction,
    structure,
    type_suffix,
)
from csdfgen.errors import PlanError
from csdfgen.model.formats import BFLOAT16
from csdfgen.ops import primitives
from csdfgen.program.instructions import WEIGHTS, Constants, Instruction, Ref
from csdfgen.program.steps import Call, Memory

RANK = constant("CSDF_RANK")
Strided = structure("csdf_strided").record

_FOLDS: dict[Any, tuple[str, Callable[[np.dtype[Any]], Any]]] = {
    np.add: ("sum", lambda dtype: 0),
    np.multiply: ("product", lambda dtype: 1),
    np.maximum: ("most", lambda dtype: -np.inf if dtype.kind == "f" else np.iinfo(dtype).min),
    np.minimum: ("least", lambda dtype: np.inf if dtype.kind == "f" else np.iinfo(dtype).max),
}
"""Ufunc that reduces -> the kernel that goes on, and what it starts from."""

FEW = 8
"""Elements of a line that take less time than to begin it."""

Strides = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A strided kernel, named without `csdf_`, and what it works on: fields as those of `csdf_strided`.

    dims: (size, strides of a, b, c and the output) of every dimension.
    """

    kernel: str
    dims: tuple[tuple[int, ...], ...]
    a: Ref
    b: Ref
    c: Ref
    out: Ref
    count: int = 0
    index: Ref | None = None
    along: int = 0
    out_along: int = 0

    def lower(self, constants: Constants) -> Instruction:
        """The instruction, whose dimensions are a table of constants."""
        dims = constants.table("csdf_dim", [Dim(*dim) for dim in self.dims])
        places = self.a, self.b, self.c, self.out, self.index
        made = Strided(dims, len(self.dims), self.count, *places, self.along, self.out_along)
        return instruction(self.kernel, made)


def place_function(made: Instruction) -> Instruction:
    """The kernel of emitted C that calls a function of the user. made: the call as numpy's. Raises PlanError."""
    name, *arrays = made.fields
    if len(arrays) > 4:
        raise PlanError(f"function '{name}' takes {len(arrays) - 1} tensors; in C it takes up to 3")
    *given, out = made.refs
    a, b, c, *_ = (*given, out, out, out)
    return instruction(f"{made.kernel}_{name}", Strided(a=a, b=b, c=c, out=out))


def translate_call(call: Call, constants: Constants) -> list[Loop]:
    """The kernels that do what a prepared call does. Raises PlanError for one that has none."""
    found = []
    for one in _drafts(call):
        out = constants.place(one.out)
        a, b, c, *_ = (*map(constants.place, one.operands), out, out, out)
        places, (count, *steps) = one.places, one.along
        where = None if places is None else constants.array(places)
        found.append(Loop(one.kernel, one.dims, a, b, c, out, count, where, *steps))
    return found


def name_results(made: Sequence[Instruction]) -> list[Instruction]:
    """Instructions of which those that round to bfloat16 store what was computed, in place of any numbers."""
    names = {"from_f32_to_bf16": "from_results_to_bf16"}
    return [one._replace(kernel=names.get(one.kernel, one.kernel)) for one in made]


_HALVES = (np.float16, BFLOAT16.dtype)


def compute_in_halves(calls: Sequence[Call], memory: Memory) -> Sequence[Call]:
    """Calls that widen operands of two bytes, apply one ufunc and round what it made, over and over, as that ufunc on what is
    stored, whose kernels widen and round on the way; any others as they are. memory: of all that is no constant.
    """
    found: list[Call] = []
    wide: list[tuple[np.ndarray, np.ndarray]] = []  # values, and what they still are the values of
    read = {id(one) for f, given in calls if f is not np.copyto for one in given[:-1]}
    rest = iter(calls)
    for function, arguments in rest:
        if function is np.copyto and len(arguments) == 3:
            values, stored, _ = arguments
            if values.dtype != np.float32 or stored.dtype not in _HALVES or id(values) not in read:
                return calls  # a Cast, or values that stay
            wide = [*_apart_from(values, wide), (values, stored)]
            continue
        after, made = next(rest, None), None
        if _is_elementwise(function) and after is not None:
            made = _on_halves(arguments, after, wide, memory)
        if made is None:
            return calls
        found.append((function, made))
        wide = _apart_from(made[-1], _apart_from(arguments[-1], wide))
    return found if found and len(calls) > len(found) else calls


def _apart_from(written: np.ndarray, wide: list[tuple[np.ndarray, np.ndarray]]) -> list[Any]:
    return [pair for pair in wide if not any(np.may_share_memory(written, one) for one in pair)]


def _on_halves(
    arguments: Sequence[Any],
    after: Call,
    wide: Sequence[tuple[np.ndarray, np.ndarray]],
    memory: Memory,
) -> tuple[Any, ...] | None:
    """The arguments of a ufunc on what is stored. after: what rounds its result. wide: what values are widened from."""
    function, given = after
    if function is not np.copyto or given[1] is not arguments[-1] or given[1].dtype != np.float32:
        return None
    out, operands = given[0], []
    for one in arguments[:-1]:
        found = next((stored for values, stored in wide if values is one), one)
        if found is one and isinstance(one, np.ndarray):
            found = one.astype(out.dtype)
            changed = not np.array_equal(found.astype(one.dtype), one)
            if changed or any(np.may_share_memory(one, pool) for pool in memory.values()):
                return None
        operands.append(found)
    arrays = [one for one in operands if isinstance(one, np.ndarray)]
    apart = all(_is_same(one, out) or not np.may_share_memory(one, out) for one in arrays)
    alike = {one.dtype for one in (*arrays, out)} == {out.dtype} and out.dtype in _HALVES
    return (*operands, out) if alike and apart else None


def _is_elementwise(function: Callable[..., Any]) -> bool:
    if isinstance(function, np.ufunc):
        return function is not np.matmul
    return function in (primitives.maximum, primitives.minimum, primitives.negative)


def _is_same(one: np.ndarray, two: np.ndarray) -> bool:
    """Whether two arrays are the same elements."""
    return one.__array_interface__["data"] == two.__array_interface__["data"] and (
        (one.shape, one.strides) == (two.shape, two.strides)
    )


def translate_calls(calls: Sequence[Call], constants: Constants) -> list[Instruction]:
    """Prepared calls as loops, as few as can be. Raises PlanError for one that has none."""
    loops = fuse_loops(
        [loop for call in calls for loop in translate_call(call, constants)], constants
    )
    return [loop.lower(constants) for loop in loops]


class _Draft(NamedTuple):
    """A strided kernel on arrays. places: of elements that are taken. along: count, stride, stride of the output of a
    dimension apart.
    """

    kernel: str
    dims: tuple[tuple[int, ...], ...]
    out: np.ndarray
    operands: Sequence[np.ndarray]
    places: np.ndarray | None
    along: tuple[int, int, int]


def _drafts(call: Call) -> list[_Draft]:
    """The kernels that do what a prepared call does."""
    function, arguments = call
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if isinstance(function, np.ufunc):
        return _product(*arguments) if function is np.matmul else _ufunc(function, *arguments)
    if isinstance(owner, np.ufunc) and name == "reduce":
        return _reduced(owner, *arguments)
    if isinstance(owner, np.ufunc) and name == "accumulate":
        return _accumulated(owner, *arguments)
    if isinstance(owner, np.ufunc) and name == "at":
        target, index, values = arguments
        return _scattered(target, index, values, owner.__name__)
    if isinstance(owner, np.ndarray) and name == "fill":
        return _copied(owner, _number(arguments[0], owner.dtype.name))
    make = _FUNCTIONS.get(function)
    if make is None:
        raise PlanError(f"{name or function} has no native kernel")
    return make(*arguments)


def fuse_loops(loops: Sequence[Loop], constants: Constants) -> list[Loop]:
    """The same with as few copies as can be: those of equal shapes whose operands and whose outputs
    are evenly spaced are one copy with a dimension more.
    """
    found: list[Loop] = []
    start = 0
    while start < len(loops):
        stop = start + 1
        while stop < len(loops) and _continues(
            loops[max(start, stop - 2) : stop], loops[stop], constants
        ):
            stop += 1
        some = loops[start:stop]
        found.append(_one_copy(some) if len(some) > 1 and _apart(some) else some[0])
        start = stop if found[-1] is not some[0] else start + 1
    return found


def _continues(some: Sequence[Loop], after: Loop, constants: Constants) -> bool:
    """Whether a kernel goes on as one or two copies before it do."""
    one, two = some[0], some[-1]
    if not one.kernel.startswith("copy_") or after.kernel != one.kernel:
        return False
    if len(after.dims) >= RANK or after.dims != one.dims:
        return False
    if (after.a.pool, after.out.pool) != (one.a.pool, one.out.pool):
        return False
    if one.a.pool == WEIGHTS:
        first, then = (constants.block(loop.a.offset).start for loop in (one, after))
        if first != then:
            return False  # two arrays, whose distance in memory the pool does not say
    if not any(dim[1] for dim in one.dims) and not one.a == two.a == after.a:
        return False  # numbers of their own, whose distance means nothing once they are written out
    return len(some) == 1 or _apart_by(two, after) == _apart_by(one, two)


def _apart_by(one: Loop, two: Loop) -> tuple[int, int]:
    """Bytes from what a copy reads and writes to what another does."""
    return two.a.offset - one.a.offset, two.out.offset - one.out.offset


def _apart(some: Sequence[Loop]) -> bool:
    """Whether no copy reads what one of them writes."""
    first, last = some[0], some[-1]
    if first.a.pool != first.out.pool:
        return True
    size = int(first.kernel.split("_")[1])

    def reach(low: int, high: int, axis: int) -> tuple[int, int]:
        steps = [(dim[0] - 1) * dim[axis] for dim in first.dims]
        low, high = min(low, high), max(low, high)
        return low + sum(s for s in steps if s < 0), high + sum(s for s in steps if s > 0) + size

    read = reach(first.a.offset, last.a.offset, 1)
    written = reach(first.out.offset, last.out.offset, 4)
    return read[1] <= written[0] or written[1] <= read[0]


def _one_copy(some: Sequence[Loop]) -> Loop:
    first = some[0]
    rows = [
        (len(some), *_apart_by(first, some[1])),
        *((dim[0], dim[1], dim[4]) for dim in first.dims),
    ]
    sizes, read, written = zip(*rows, strict=True)
    dims = _dims(sizes, read, written)
    assert dims is not None
    return Loop(first.kernel, dims, first.a, first.out, first.out, first.out)


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


def _longest_last(dims: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """The dimensions with a longer one last, where the last has few elements. Sums keep their order.

    >>> _longest_last(((64, 16, 0, 0, 16), (4, 4, 0, 0, 4))), _longest_last(((64, 16, 0, 0, 0), (4, 4, 0, 0, 4)))
    (((4, 4, 0, 0, 4), (64, 16, 0, 0, 16)), ((64, 16, 0, 0, 0), (4, 4, 0, 0, 4)))
    """
    at = max(range(len(dims)), key=lambda k: dims[k][0])
    if dims[-1][0] > FEW or dims[at][0] < 4 * dims[-1][0] or any(dim[-1] == 0 for dim in dims):
        return dims
    return (*dims[:at], *dims[at + 1 :], dims[at])


def _step(
    kernel: str,
    shape: Sequence[int],
    out: np.ndarray,
    out_strides: Strides,
    *operands: tuple[np.ndarray, Strides],
    index: np.ndarray | None = None,
    along: tuple[int, int, int] = (0, 0, 0),
) -> list[_Draft]:
    """One strided kernel, see `_Draft`."""
    dims = _dims(shape, *(strides for _, strides in operands), out_strides)
    if dims is None:
        return []
    if len(dims) > 1 and not kernel.startswith("copy"):
        dims = _longest_last(dims)
    return [_Draft(kernel, dims, out, [array for array, _ in operands], index, along)]


def _over(array: np.ndarray, shape: Sequence[int]) -> tuple[np.ndarray, Strides]:
    """An operand and its strides where it is broadcast to a shape."""
    missing = len(shape) - array.ndim
    own = (0 if size == 1 else step for size, step in zip(array.shape, array.strides, strict=True))
    return array, (*(0,) * missing, *own)


@lru_cache(maxsize=1024)
def _number(value: Any, dtype: str) -> np.ndarray:
    """An array of one element, the same one for equal numbers: copies that fill with it can be joined. No operator fills with
    a negative zero.
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


def _copied(
    out: np.ndarray, source: Any, casting: str = "same_kind", where: np.ndarray | None = None
) -> list[_Draft]:
    """numpy.copyto."""
    array = source if isinstance(source, np.ndarray) else np.asarray(source, out.dtype)
    operands = [_over(array, out.shape)]
    if where is not None:
        array = _array(array, out.dtype)
        operands = [_over(array, out.shape), _over(array, out.shape), _over(where, out.shape)]
        return _step(f"put_{out.itemsize}", out.shape, out, out.strides, *operands)
    kernel = copy_kernel(array.dtype, out.dtype)
    return _step(kernel, out.shape, out, out.strides, *operands)


def _ufunc(function: np.ufunc, *arguments: Any) -> list[_Draft]:
    """A ufunc with its output as the last argument."""
    *operands, out = arguments
    if function is np.positive:
        return _copied(out, operands[0])
    dtype = next((o.dtype for o in operands if isinstance(o, np.ndarray) and o.ndim), None)
    dtype = dtype or next((o.dtype for o in operands if isinstance(o, np.ndarray)), out.dtype)
    arrays = [_over(_array(operand, dtype), out.shape) for operand in operands]
    kernel = f"{function.__name__}_{type_suffix(dtype)}"
    result = np.dtype(bool) if kernel.startswith(_TELLS) else dtype
    if out.dtype != result:
        raise PlanError(f"{function.__name__} of {dtype} into {out.dtype} has no native kernel")
    return _step(kernel, out.shape, out, out.strides, *arrays)


_TELLS = ("equal", "not_equal", "less", "greater", "logical")
"""How names of ufuncs begin that tell whether something is so."""


def _clipped(x: np.ndarray, low: Any, high: Any, out: np.ndarray) -> list[_Draft]:
    arrays = [_over(_array(operand, out.dtype), out.shape) for operand in (x, low, high)]
    return _step(f"clip_{type_suffix(out.dtype)}", out.shape, out, out.strides, *arrays)


def _reduced(
    function: np.ufunc,
    array: np.ndarray,
    axis: int | tuple[int, ...],
    dtype: Any,
    out: np.ndarray,
    keepdims: bool = False,
) -> list[_Draft]:
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
    kind = type_suffix(out.dtype)
    if array.dtype == np.float16 and out.dtype == np.float32:
        kind = "f16_in_f32"
    else:
        array = _array(array, out.dtype)
    first = _copied(out, np.asarray(start(out.dtype), out.dtype))
    return first + _step(f"{name}_{kind}", array.shape, out, tuple(kept), (array, array.strides))


def _accumulated(
    function: np.ufunc, array: np.ndarray, axis: int, dtype: Any, out: np.ndarray
) -> list[_Draft]:
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
) -> list[_Draft]:
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
    kernel = f"muladd_{type_suffix(out.dtype)}"
    return begun + _step(kernel, tuple(sizes.values()), out, strides(out, out_letters), *arrays)


def _einsum(subscripts: str, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> list[_Draft]:
    operands, target = subscripts.split("->")
    first, second = operands.split(",")
    return _summed(out, target, (a, first), (b, second))


def _product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> list[_Draft]:
    """numpy.matmul: vectors are matrices of one row or column, matrices in front are broadcast."""
    if a.ndim > 1 and b.ndim > 1:
        made = _matrices(a, b, out)
        if made:
            return made
    m = "m" if a.ndim > 1 else ""
    n = "n" if b.ndim > 1 else ""
    batch = "abcdefgh"[: out.ndim - len(m) - len(n)]
    of_a = batch[len(batch) - max(a.ndim - 2, 0) :] + m + "k"
    of_b = batch[len(batch) - max(b.ndim - 2, 0) :] + "k" + n
    return _summed(out, batch + m + n, (a, of_a), (b, of_b))


def _matrices(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> list[_Draft]:
    """Products of float32 matrices. Axes that one operand alone has are its rows or columns, wherever they are. Columns
    are side by side in the output: where none are, every product is one with a vector. [] for what has no such kernel.
    """
    size, depth = out.itemsize, a.shape[-1]
    if any(x.dtype != np.float32 or x.size == 0 for x in (a, b, out)):
        return []
    over = (*out.shape[:-1], depth), (*out.shape[:-2], depth, out.shape[-1])
    of_a, of_b = (_over(x, shape)[1] for x, shape in zip((a, b), over, strict=True))
    dims = _dims(out.shape, (*of_a[:-1], 0), (*of_b[:-2], 0, of_b[-1]), out.strides) or ()
    one = (1, 0, 0, 0, size)

    def own(of: int, other: int) -> tuple[int, ...]:
        some = (d for d in dims if d[of] and not d[other])
        return max(some, default=one, key=lambda d: (d[4] == size, d[0]))

    rows, columns = own(1, 2), own(2, 1)
    if size not in (rows[4], columns[4]):
        rows, columns = (rows, one) if rows[0] > columns[0] else (one, columns)
    apart = (d for d in dims if d not in (rows, columns))
    every = (*apart, rows, columns, (depth, of_a[-1], of_b[-2], 0, 0))
    if columns[4] != size:  # the other way round
        *apart_too, rows, columns, sums = ((n, y, x, 0, to) for n, x, y, _, to in every)
        every, a, b = (*apart_too, columns, rows, sums), b, a
    if len(every) > RANK or any(step % size for d in every for step in d[1:]):
        return []
    return [_Draft("matmul_f32", every, out, (a, b), None, (0, 0, 0))]


def _taken(
    array: np.ndarray, index: np.ndarray, axis: int, out: np.ndarray, mode: str
) -> list[_Draft]:
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


def _looked_up(table: np.ndarray, index: np.ndarray, out: np.ndarray) -> list[_Draft]:
    """An element of a table for every index."""
    if index.itemsize != 8 or table.dtype != out.dtype or not table.flags.c_contiguous:
        raise PlanError(
            f"looking up {table.dtype} by {index.dtype} into {out.dtype} has no native kernel"
        )
    still = (table, (0,) * out.ndim)
    return _step(
        f"look_{out.itemsize}", out.shape, out, out.strides, _over(index, out.shape), still, still
    )


def _picked(table: np.ndarray, index: np.ndarray, out: np.ndarray) -> list[_Draft]:
    """Rows of a table at places that are computed."""
    return _step(
        f"pick_{out.itemsize}",
        out.shape[1:],
        out,
        out.strides[1:],
        (_array(table, out.dtype), table.strides[1:]),
        (index, (0,) * (out.ndim - 1)),
        along=(len(index), table.strides[0], out.strides[0]),
    )


def _scattered(
    out: np.ndarray, index: np.ndarray, values: np.ndarray, name: str = ""
) -> list[_Draft]:
    """Values at places that are computed; name: of the ufunc that joins them with what is there."""
    kernel = f"{name}_at_{type_suffix(out.dtype)}" if name else f"put_at_{out.itemsize}"
    still = (out, ())
    operands = ((_array(values, out.dtype), ()), (index, ()), still)
    return _step(
        kernel, (), out, (), *operands, along=(len(index), out.strides[0], values.strides[0])
    )


def _ranked(
    x: np.ndarray, largest: bool, keys: np.ndarray, numbers: np.ndarray, places: np.ndarray
) -> list[_Draft]:
    """The best of each line; the size of a line is in the table of indices."""
    name = "largest" if largest else "smallest"
    return _step(
        f"{name}_{type_suffix(x.dtype)}",
        x.shape[:1],
        places,
        places.strides[:1],
        (x, x.strides[:1]),
        index=np.array([x.shape[1]], np.int32),
        along=(places.shape[1], x.strides[1], places.strides[1]),
    )


def _nonzero(flags: np.ndarray, out: np.ndarray) -> list[_Draft]:
    """Coordinates of what is set; the sizes of the dimensions are in the table of indices."""
    sizes = np.array(flags.shape, np.int32)
    return _step("nonzero", (), out, (), (flags, ()), index=sizes, along=(len(sizes), 0, 0))


def _suppressed(
    scores: np.ndarray,
    boxes: np.ndarray,
    limit: int,
    overlap: float,
    least: float | None,
    centre: bool,
    order: np.ndarray,
    out: np.ndarray,
) -> list[_Draft]:
    """Boxes that remain; sizes and settings are in the table of indices, floats by their bits."""
    floats = np.array([overlap, 0 if least is None else least], np.float32).view(np.int32)
    numbers = [*scores.shape, limit, centre, least is not None, *floats]
    operands = (scores, ()), (boxes, ()), (order, ())
    return _step("suppressed", (), out, (), *operands, index=np.array(numbers, np.int32))


def _walked(
    x: np.ndarray,
    nodes: np.ndarray,
    roots: np.ndarray,
    targets: np.ndarray,
    values: np.ndarray,
    weights: np.ndarray,
    joined: int,
    out: np.ndarray,
) -> list[_Draft]:
    """Trees, a sample after the other; the nodes, with what they are called by, are in the table of indices."""
    ways = np.unique(nodes[:, 0] % primitives.WAYS["all"])
    alike = ways[-1] if (ways[:-1] == 0).all() else 0
    heads = np.array([out.shape[1], joined, len(roots), len(nodes), alike], np.int32)
    return _step(
        f"walked_{type_suffix(x.dtype)}",
        x.shape[:1],
        out,
        out.strides[:1],
        (x, x.strides[:1]),
        (values, (0,)),
        (weights, (0,)),
        index=np.concatenate([heads, roots, nodes.reshape(-1), targets]),
        along=(len(x), x.strides[1], out.strides[1]),
    )


def _aligned(
    x: np.ndarray,
    regions: np.ndarray,
    images: np.ndarray,
    bins: tuple[int, int],
    first: int,
    samples: int,
    maxima: bool,
    half: bool,
    scale: float,
    out: np.ndarray,
) -> list[_Draft]:
    """Regions of maps; strides of b number the bins of all regions, from the first row here on."""
    (count, channels, rows, columns), to = out.shape, out.strides
    across = x.strides[0] // x.itemsize
    numbers = [*x.shape[2:], *bins, first, maxima, half, x.shape[0], across]
    index = np.array([*numbers, np.float32(scale).view(np.int32)], np.int32)
    dims = (
        (count, 0, bins[0] * columns, 0, to[0]),
        (rows, 0, columns, 0, to[2]),
        (columns, 0, 1, 0, to[3]),
        (channels, x.strides[1], 0, 0, to[1]),
    )
    along = samples, x.strides[2], x.strides[3]
    operands = x, regions, images
    return [_Draft(f"aligned_{type_suffix(x.dtype)}", dims, out, operands, index, along)]


def _position(name: str) -> Callable[..., list[_Draft]]:
    def found(array: np.ndarray, axis: int, out: np.ndarray) -> list[_Draft]:
        axis %= array.ndim
        rest = (*array.shape[:axis], *array.shape[axis + 1 :])
        strides = (*array.strides[:axis], *array.strides[axis + 1 :])
        along = (array.shape[axis], array.strides[axis], 0)
        return _step(
            f"{name}_{type_suffix(array.dtype)}",
            rest,
            out,
            out.strides,
            (array, strides),
            along=along,
        )

    return found


def _two(name: str) -> Callable[..., list[_Draft]]:
    function: np.ufunc = getattr(np, name)
    return lambda a, b, out: _ufunc(function, a, b, out)


_FUNCTIONS: dict[Any, Callable[..., list[_Draft]]] = {
    np.copyto: _copied,
    np.ndarray.clip: _clipped,
    np.take: _taken,
    np.argmax: _position("argmax"),
    np.argmin: _position("argmin"),
    primitives.maximum: _two("maximum"),
    primitives.minimum: _two("minimum"),
    primitives.negative: lambda a, out: _ufunc(np.negative, a, out),
    primitives.einsum: _einsum,
    primitives.look_up: _looked_up,
    primitives.pick_elements: _picked,
    primitives.scatter: lambda index, values, out: _scattered(out, index, values),
    primitives.rank_elements: _ranked,
    primitives.nonzero: _nonzero,
    primitives.suppress_boxes: _suppressed,
    primitives.walk_trees: _walked,
    primitives.align_regions: _aligned,
}
"""Function of a prepared call -> what makes kernels of its arguments."""
