"""What is a program made of, before there is any memory? Instructions, and the pools that they refer to.

An instruction names a kernel, and has two kinds of operands: numbers (`fields`), and places (`refs`), each a pool and
an offset in it. It is a plain value: equal instructions do the same, in whatever memory a backend later puts the pools.
Pools are those of the plan (the arena), which a program writes, and constants, which it only reads: packed weights, and
tables (rows of a slab, pieces of a map, dimensions of an array). Every constant is stored once.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache, wraps
from math import prod
from typing import Any, NamedTuple, ParamSpec, Protocol

import numpy as np

from csdfgen.model.deferred import Deferred, compute_array

WEIGHTS = "weights"
"""The pool of arrays that programs only read."""

CALLED = "called"
"""The kernel of functions of the user."""

PADDING = -1
"""Offset of a row of padding, which is nowhere, in a table of rows."""

RECORDS = "csdf_record"
"""The pool of programs that instructions work off: kernels and their steps."""

_KERNEL = "kernel "
"""Begins the names of pools that are the function of a kernel."""

_LINE = 64
"""Bytes of a line of cache: where arrays of constants begin."""


CUT = 256
"""Elements, a whole number of panels of any kernel."""


class Keeper(Protocol):
    """What keeps packed weights somewhere else than in memory of this process alone."""

    def kept(
        self, pack: Callable[..., np.ndarray], given: tuple[Any, ...], axis: int | None
    ) -> np.ndarray:
        """What a function makes of arrays, numbers and words; made, or found where it was kept. axis: see `keep_packed`."""


KEEPER: ContextVar[Keeper | None] = ContextVar("KEEPER", default=None)
"""What keeps the weights that are packed now; None: memory."""

_Given = ParamSpec("_Given")


def keep_packed(
    pack: Callable[_Given, np.ndarray], axis: int | None = None
) -> Callable[_Given, np.ndarray]:
    """A function that packs weights; a keeper keeps what it makes of arguments that have no names. axis: along which
    the first of them may be cut after every `CUT` elements: what is made of the parts, one behind the other, is the whole.
    """

    @wraps(pack)
    def asked(*given: _Given.args, **named: _Given.kwargs) -> np.ndarray:
        keeper = KEEPER.get()
        if keeper is None or named:
            return pack(*map(compute_array, given), **named)
        return keeper.kept(pack, given, axis)

    return asked


class Unpacked:
    """A keeper that packs nothing: what it keeps has the shape and the type of what would be packed, and any elements."""

    def kept(
        self, pack: Callable[..., np.ndarray], given: tuple[Any, ...], axis: int | None
    ) -> np.ndarray:
        """See `Keeper.kept`."""
        arrays = np.ndarray, Deferred
        forms = ((one.shape, one.dtype) if isinstance(one, arrays) else one for one in given)
        return _anything(*_form(pack, *forms))


class Once:
    """A keeper in memory: what is made of equal arguments, as for several runs of a network, is one array."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], np.ndarray] = {}

    def kept(
        self, pack: Callable[..., np.ndarray], given: tuple[Any, ...], axis: int | None
    ) -> np.ndarray:
        """See `Keeper.kept`."""
        used = [compute_array(one) for one in given]
        key = (
            pack,
            *(
                (o.shape, o.dtype, hashlib.sha256(o.tobytes()).digest())
                if isinstance(o, np.ndarray)
                else o
                for o in used
            ),
        )
        if key not in self._made:
            self._made[key] = pack(*used)
        return self._made[key]


class _ReservedError(Exception):
    """Ends a function that packs as soon as the shape and the type of its result are known."""


@lru_cache(maxsize=4096)
def _form(pack: Callable[..., np.ndarray], *given: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of what is packed. given: of arrays the shape and the type, other operands as they are."""
    zeros = (
        np.broadcast_to(np.zeros((), one[1]), one[0]) if isinstance(one, tuple) else one
        for one in given
    )
    try:
        found = pack(*zeros)
    except _ReservedError as known:
        return known.args[0], known.args[1]
    return found.shape, found.dtype


def reserve_array(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """Memory for what is packed, with anything in it, that starts at a multiple of a line of cache."""
    if isinstance(KEEPER.get(), Unpacked):
        raise _ReservedError(shape, np.dtype(dtype))
    return _anything(shape, np.dtype(dtype))


def _anything(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    found: np.ndarray = allocate_aligned(prod(shape) * dtype.itemsize).view(dtype)
    return found.reshape(shape)


class Ref(NamedTuple):
    """A place. offset: in bytes; in a pool of tables, rows of them."""

    pool: str
    offset: int


class Instruction(NamedTuple):
    """A kernel on operands. fields: numbers and words, in the order in which the kernel has them; refs: places, likewise;
    None where an operand is left out.
    """

    kernel: str
    fields: tuple[Any, ...]
    refs: tuple[Ref | None, ...]


def type_name(dtype: np.dtype[Any]) -> str:
    """A type in numpy's words, with the order of its bytes where numpy has a word for that."""
    return dtype.name if dtype.kind == "V" else dtype.str


class Array(NamedTuple):
    """An array that starts at a place. strides: in bytes. dtype: numpy's name of the element type."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str


class Block(NamedTuple):
    """An array of the pool of weights: its first byte in the pool, and all of its bytes, in the order of memory."""

    start: int
    values: np.ndarray


class Constants:
    """Pools that are being filled, or are complete.

    memory: of every pool that programs write so many bytes that nobody touches. They have addresses, so that prepared
    calls of numpy can be written down: `place` tells where an array of such a call is.
    """

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        self.memory = {name: np.empty(size, np.uint8) for name, size in (sizes or {}).items()}
        self._spans = [
            (get_address(array), get_address(array) + array.size, name)
            for name, array in self.memory.items()
        ]
        self.tables: dict[str, list[Any]] = {}
        self.blocks: list[Block] = []
        self.packed_bytes = 0
        self.used: dict[tuple[int, int], None] = {}
        self._size = 0
        self._tables: dict[tuple[str, tuple[Any, ...]], Ref] = {}
        self._lengths: dict[Ref, int] = {}
        self._still: set[Ref] = set()
        self._described: dict[Ref, Any] = {}
        self._owners: dict[int, int] = {}
        self._arrays: dict[int, tuple[np.ndarray, Ref]] = {}
        self._dense: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @classmethod
    def complete(
        cls, blocks: Sequence[tuple[int, np.ndarray]], tables: Mapping[str, list[Any]]
    ) -> Constants:
        """Pools that were filled elsewhere: arrays of bytes with their starts, and the rows of tables."""
        found = cls()
        found.blocks = [Block(*one) for one in blocks]
        found.tables = dict(tables)
        return found

    # Tables --------------------------------------------------------------------------------------

    def table(self, pool: str, rows: Sequence[Any]) -> Ref:
        """Where a table is, whose rows are numbers, offsets or records."""
        key = pool, tuple(rows)
        found = self._tables.get(key)
        if found is None:
            there = self.tables.setdefault(pool, [])
            found = self._tables[key] = Ref(pool, len(there))
            self._lengths[found] = len(key[1])
            there.extend(key[1] or (None,))  # no two tables begin at one place
        return found

    def rows(self, pool: str, offsets: Sequence[int]) -> Ref:
        """A table of places in one pool; `PADDING` where there is none."""
        return self.table(f"{_ROWS}{pool}", offsets)

    def rows_of(self, ref: Ref) -> Sequence[Any]:
        """The rows of the table that begins at a place."""
        return self.tables[ref.pool][ref.offset : ref.offset + self._lengths[ref]]

    def moved(self, ref: Ref | None, move: Callable[[Ref], Ref]) -> Ref | None:
        """A place where those of programs' memory are moved; a table that has such is another table."""
        if ref is None or ref.pool == WEIGHTS or ref in self._still:
            return ref
        if ref.pool in self.memory:
            return move(ref)
        if ref not in self._lengths:
            return ref  # of neither: a port
        rows, pool = self.rows_of(ref), find_row_pool(ref)
        if pool is not None:
            first = next((at for at in rows if at != PADDING), None)
            if pool not in self.memory or first is None:
                self._still.add(ref)
                return ref
            shift = move(Ref(pool, first)).offset - first
            return self.rows(pool, [at if at == PADDING else at + shift for at in rows])
        places: dict[Ref, Ref | None] = {}

        def placed(one: Ref) -> Ref | None:
            if one not in places:
                places[one] = self.moved(one, move)
            return places[one]

        found = [_replace_places(row, placed) for row in rows]
        if all(one.pool == WEIGHTS or one in self._still for one in places):
            self._still.add(ref)
            return ref
        return self.table(ref.pool, found)

    def describe(self, ref: Ref | None) -> Any:
        """A place by what is there: equal for constants that were made twice, and for one place of what is no constant."""
        if ref is None or (ref.pool != WEIGHTS and ref not in self._lengths):
            return ref
        if ref not in self._described:
            self._described[ref] = self._describe(ref)
        return self._described[ref]

    def _describe(self, ref: Ref) -> Any:
        if ref.pool == WEIGHTS:
            start, values = self.block(ref.offset)
            if ref.offset > start:
                return self.describe(Ref(WEIGHTS, start)), ref.offset - start
            return hashlib.sha256(values.data).digest()
        rows, pool = self.rows_of(ref), find_row_pool(ref)
        if pool == WEIGHTS:
            rows = [at if at == PADDING else self.describe(Ref(pool, at)) for at in rows]
        return ref.pool, tuple(_replace_places(row, self.describe) for row in rows)

    # Arrays --------------------------------------------------------------------------------------

    def weights(self, values: np.ndarray, *, dense: bool = True) -> Ref:
        """Where packed weights are, see `dense` and `array`; their bytes count among `packed_bytes`."""
        known = len(self._arrays)
        found = self.dense(values) if dense else self.array(values)
        if len(self._arrays) > known:
            self.packed_bytes += values.nbytes
        return found

    def dense(self, values: np.ndarray) -> Ref:
        """Where an array is that kernels read one element after the other; one whose elements lie otherwise, such as a number
        that stands for all, is copied.
        """
        if values.flags.c_contiguous:
            return self.array(values)
        kept = self._dense.setdefault(id(values), (values, np.ascontiguousarray(values)))
        return self.array(kept[1])

    def array(self, values: np.ndarray) -> Ref:
        """Where the first element of an array is that programs only read, by its strides."""
        known = self._arrays.get(id(values))
        if known is not None:
            return known[1]
        given = owner = values
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        start = self._owners.get(id(owner))
        if start is None:
            flat = _in_order(owner)
            if flat is None:  # between its elements are others, or nothing
                owner = values = flat = np.array(values, order="C")
            if not flat.flags.aligned:  # as bytes of a file may be
                flat = flat.copy()
            start = self._owners[id(owner)] = self._size
            self.blocks.append(Block(start, flat.reshape(-1).view(np.uint8)))
            self._size += -(-max(1, owner.nbytes) // _LINE) * _LINE
        shift = start - get_address(owner)
        low, high = address_bounds(values)
        self.used[low + shift, high + shift] = None
        found = Ref(WEIGHTS, get_address(values) + shift)
        self._arrays[id(given)] = given, found
        return found

    def move(self, moved: Callable[[np.ndarray], np.ndarray]) -> None:
        """Have the bytes of all arrays elsewhere, and forget the arrays that were given."""
        self.blocks = [Block(start, moved(values)) for start, values in self.blocks]
        self._arrays.clear()
        self._dense.clear()
        self._owners.clear()

    def block(self, offset: int) -> Block:
        """The array that a place of the pool of weights is in."""
        return self.blocks[bisect_right(self.blocks, offset, key=lambda one: one.start) - 1]

    def place(self, values: np.ndarray) -> Ref:
        """Where the first element of an array is: in memory that nobody touches, or a constant."""
        return self._placed(get_address(values), values)

    def _placed(self, at: int, values: np.ndarray) -> Ref:
        return self.find(at) or self.array(values)

    def find(self, at: int) -> Ref | None:
        """The place of an address in memory that nobody touches."""
        spans = (one for one in self._spans if one[0] <= at < one[1])
        return next((Ref(name, at - low) for low, _, name in spans), None)

    @property
    def called(self) -> set[str]:
        """The kernels that programs of instructions, and copies of their rows, call."""
        rows = (row for name in (RECORDS, "csdf_turn_rows") for row in self.tables.get(name, ()))
        return {str(find_kernel(row.kernel)) for row in rows if row is not None}

    def copy(self) -> Constants:
        """The same pools, to which more can be added."""
        found = Constants()
        for name, value in vars(self).items():
            setattr(found, name, value.copy() if isinstance(value, (dict, list)) else value)
        found.tables = {name: list(rows) for name, rows in self.tables.items()}
        return found

    def placed(self, values: np.ndarray) -> tuple[Array, Ref]:
        """An array without its memory."""
        known = values.__array_interface__  # made once: it has all of them
        form = Array(known["shape"], known["strides"] or values.strides, type_name(values.dtype))
        return form, self._placed(known["data"][0], values)


def _replace_places(row: Any, replaced: Callable[[Ref], Any]) -> Any:
    """A row of a table with other places, also in the records within it."""
    if type(row) is Ref:
        return replaced(row)
    if type(row) is tuple or not isinstance(row, tuple):
        return row
    return row._make([_replace_places(one, replaced) for one in row])  # type: ignore[attr-defined]


def place_kernel(kernel: str) -> Ref:
    """The place of the function of a kernel."""
    return Ref(f"{_KERNEL}{kernel}", 0)


def find_kernel(ref: Ref) -> str | None:
    """The kernel whose function a place is; None for another place."""
    return ref.pool.removeprefix(_KERNEL) if ref.pool.startswith(_KERNEL) else None


def find_row_pool(ref: Ref) -> str | None:
    """The pool that the rows of a table of places are in; None for a table of anything else."""
    return ref.pool.removeprefix(_ROWS) if ref.pool.startswith(_ROWS) else None


_ROWS = "rows of "
"""What the names of pools of tables of places begin with."""


def _in_order(array: np.ndarray) -> np.ndarray | None:
    """An array with its axes in the order of memory; None where its elements are not all of that memory."""
    axes = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    found = array.transpose(axes)
    return found if found.flags.c_contiguous else None


def allocate_aligned(size: int, alignment: int = _LINE) -> np.ndarray:
    """So many bytes with anything in them, from a multiple of `alignment` on."""
    raw = np.empty(size + alignment, np.uint8)
    # not a view of `raw`: pools have the bytes of whole owners, and those around these could be anything
    start = -get_address(raw) % alignment
    return np.frombuffer(raw.data[start : start + size], np.uint8)


def view_bytes(array: np.ndarray) -> memoryview:
    """All bytes of an array, in C order; those of types that no buffer may have, too, such as bfloat16."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def get_address(array: np.ndarray) -> int:
    """Of the first element."""
    return int(array.__array_interface__["data"][0])


def address_bounds(values: np.ndarray) -> tuple[int, int]:
    """Addresses of the first byte of an array, and of that behind its last."""
    at = get_address(values)
    if not values.size:
        return at, at
    reach = [(size - 1) * step for size, step in zip(values.shape, values.strides, strict=True)]
    low = at + sum(step for step in reach if step < 0)
    return low, low + sum(map(abs, reach)) + values.itemsize


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ranges, with overlapping ones merged.

    >>> list(merge_ranges([(8, 12), (0, 4), (10, 20), (4, 6)]))
    [(0, 4), (4, 6), (8, 20)]
    """
    begin = end = None
    for low, high in sorted(set(ranges)):
        if begin is None or end is None or low >= end:
            if begin is not None and end is not None:
                yield begin, end
            begin, end = low, high
        else:
            end = max(end, high)
    if begin is not None and end is not None:
        yield begin, end
