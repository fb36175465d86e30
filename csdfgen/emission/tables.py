"""How do instructions become initialisers? Field by field, each reference by the pool that it is in.

The source says `A(offset)`, `W(offset)` and `table + index`, so that it compiles for machines with other
sizes. Tables of one type are one array; what is there already, also as part of another table, is not stored again.
`macros` makes their source short.

Arrays of the pool of weights are in one blob: packed weights, biases, numbers. Of every array the part is taken that
something refers to. Parts that overlap are one piece, equal pieces are stored once; a piece of 64 bytes and more starts at
a multiple of 64, others at one of 8.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from csdfgen.backends.native.structures import Structure, kernel_structure, slots_of, structure
from csdfgen.emission.macros import (
    ARENA,
    LITERAL,
    NUMBER,
    WEIGHTS,
    Token,
    even,
    shortened,
    wrapped,
)
from csdfgen.planning import buffers
from csdfgen.program import instructions
from csdfgen.program.instructions import PADDING, Constants, Instruction, Ref, row_pool

__all__ = ["Blob", "Pool", "Tables"]

_WORD = 8
"""Bytes of a row's number, and of what short pieces of the blob start at a multiple of."""


@cache
def _text(found: Structure) -> str:
    """The initialiser of a structure with a %s for each of its slots."""
    texts = []
    for one in found.fields:
        text = "%s" if one.inner is None else _text(one.inner)
        texts.append(f"{{{', '.join([text] * one.count)}}}" if one.count else text)
    return f"{{{', '.join(texts)}}}"


def _number(value: float, kind: str) -> str:
    """A value of a field as C has it."""
    if kind not in ("float", "double"):
        return str(int(value))
    if value != value:
        return "NAN"
    if value in (np.inf, -np.inf):
        return "INFINITY" if value > 0 else "-INFINITY"
    text = repr(float(np.float32(value))) if kind == "double" else str(np.float32(value))
    text = text if "." in text or "e" in text else f"{text}.0"
    return text if kind == "double" else f"{text}f"


# The blob of arrays -------------------------------------------------------------------------------

_LINE = 64
"""Bytes of a line of cache."""


class Blob:
    """The constants of programs. size: bytes, a multiple of 64."""

    def __init__(self, constants: Constants) -> None:
        self._constants = constants
        self._pieces = list(_merged(constants.used))
        self._lows = [low for low, _ in self._pieces]
        self._offsets = [0] * len(self._pieces)
        self._stored: list[tuple[int, int, int]] = []
        known: dict[tuple[int, bytes], int] = {}
        end = 0
        # in the order in which they were asked for
        for number in dict.fromkeys(bisect_right(self._lows, low) - 1 for low, _ in constants.used):
            low, high = self._pieces[number]
            key = high - low, hashlib.sha256(self._bytes(low, high)).digest()
            if key not in known:
                alignment = _LINE if high - low >= _LINE else _WORD
                known[key] = end = -(-end // alignment) * alignment
                self._stored.append((end, low, high))
                end += high - low
            self._offsets[number] = known[key]
        self.size = max(_LINE, -(-end // _LINE) * _LINE)

    def find(self, offset: int) -> int:
        """Where a place of the pool of weights is in the blob."""
        number = bisect_right(self._lows, offset) - 1
        return self._offsets[number] + offset - self._lows[number]

    def parts(self) -> Iterator[bytes | memoryview]:
        """The bytes of the blob, from the first to the last."""
        end = 0
        for offset, low, high in self._stored:
            yield bytes(offset - end)
            yield self._bytes(low, high)
            end = offset + high - low
        yield bytes(self.size - end)

    def _bytes(self, low: int, high: int) -> memoryview:
        block = self._constants.block(low)
        values: np.ndarray = block.values[low - block.start : high - block.start]
        return values.data


def _merged(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ranges that overlap as one.

    >>> list(_merged([(8, 12), (0, 4), (10, 20), (4, 6)]))
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


# Pools --------------------------------------------------------------------------------------------


@dataclass
class Pool:
    """All tables of a type, one after the other. name, type: of the array in C. text: of an element,
    with a %s for each token. marks: where the rows of a firing end.
    """

    name: str
    type: str
    text: str = "%s"
    rows: list[tuple[Token, ...]] = field(default_factory=list)
    marks: set[int] = field(default_factory=set)
    _ids: dict[tuple[Token, ...], int] = field(default_factory=dict)
    _order: bytearray = field(default_factory=bytearray)
    _known: dict[tuple[int, ...], int] = field(default_factory=dict)
    _first: dict[int, int] = field(default_factory=dict)

    def add(self, rows: Sequence[tuple[Token, ...]]) -> int:
        """The index of a table in the pool."""
        ids = tuple(self._ids.setdefault(row, len(self._ids)) for row in rows)
        found = self._known.get(ids)
        if found is None:
            found = self._known[ids] = self._placed(ids, rows)
        return found

    def _placed(self, ids: tuple[int, ...], rows: Sequence[tuple[Token, ...]]) -> int:
        """Where a table is found among those that are there, or put behind them; its beginning may
        be their end.
        """
        wanted, there = array("q", ids).tobytes(), self._order
        at = -1 if ids[0] not in self._first else there.find(wanted, _WORD * self._first[ids[0]])
        while at >= 0 and at % _WORD:
            at = there.find(wanted, at + 1)
        if at >= 0:
            return at // _WORD
        most = min(len(ids) - 1, len(self.rows))
        common = next((n for n in range(most, 0, -1) if there.endswith(wanted[: _WORD * n])), 0)
        start = len(self.rows) - common
        for number, one in enumerate(ids):
            self._first.setdefault(one, start + number)
        there += wanted[_WORD * common :]
        self.rows.extend(rows[common:])
        return start

    def uses(self) -> set[str]:
        """Kinds of the tokens in it."""
        return {kind for row in self.rows for kind, _ in row}

    def source(self, prefix: str) -> Iterator[str]:
        """Its definition, with the macros that it needs, whose names begin so."""
        if len(self.rows[0]) > 1:
            macros, texts = shortened(self.rows, self.text, self.marks, prefix)
        else:
            macros, texts = even([row[0] for row in self.rows], prefix)
        yield from macros
        yield f"static {self.type} {self.name}[{len(self.rows)}] = {{"
        yield from wrapped(texts)
        yield "};"


# All of them --------------------------------------------------------------------------------------


class Tables:
    """The tables of a program, made of its instructions. blob: with the constants of all that will come."""

    def __init__(self, constants: Constants, blob: Blob) -> None:
        self._constants, self._blob = constants, blob
        self._pools: dict[str, Pool] = {}
        self._placed: dict[tuple[Ref, str], Token] = {}

    @property
    def pools(self) -> list[Pool]:
        """Each behind those that it refers to."""
        found: list[Pool] = []
        names = {pool.name: pool for pool in self._pools.values()}

        def visit(pool: Pool) -> None:
            for kind in sorted(pool.uses() & names.keys()):
                if names[kind] not in found:
                    visit(names[kind])
            if pool not in found:
                found.append(pool)

        for pool in self._pools.values():
            visit(pool)
        return found

    def source(self) -> Iterator[str]:
        """The definitions of all that have rows."""
        taken = {ARENA, WEIGHTS}
        for pool in self.pools:
            if not pool.rows:
                continue
            name = pool.name.upper().replace("_", "")
            prefix = next(name[:n] for n in range(1, len(name) + 1) if name[:n] not in taken)
            taken.add(prefix)
            yield from pool.source(prefix)
            yield ""

    def pool(self, kind: str, text: str = "%s", name: str = "") -> Pool:
        """The pool of elements of a type of C."""
        found = self._pools.get(kind)
        if found is None:
            taken = {pool.name for pool in self._pools.values()}
            wanted = name or kind.removeprefix("csdf_") + "s"
            number = 1
            while wanted in taken:
                number += 1
                wanted = f"{name}{number}"
            const = "" if kind.endswith("const") else "const "
            found = self._pools[kind] = Pool(wanted, const + kind, text)
        return found

    def mark(self) -> None:
        """A firing ends."""
        for pool in self._pools.values():
            pool.marks.add(len(pool.rows))

    def add(self, made: Instruction) -> tuple[Token, ...]:
        """The kernel and the step of an instruction as a record has them."""
        step = self._records(kernel_structure(made.kernel), [slots_of(made)])
        return (LITERAL, f"csdf_{made.kernel}"), step

    def _records(self, kind: Structure, rows: Sequence[Sequence[Any]]) -> Token:
        """Where structures of one kind are. rows: the values of their slots."""
        pool = self.pool(kind.name, _text(kind))
        return pool.name, pool.add(
            [
                tuple(
                    self._place(value, slot.type)
                    if slot.pointer
                    else (NUMBER, _number(value, slot.type))
                    for slot, value in zip(kind.slots, row, strict=True)
                )
                for row in rows
            ]
        )

    def _place(self, ref: Ref | None, pointee: str) -> Token:
        """A reference as source. pointee: the type of what is there."""
        if ref is None:
            return LITERAL, "NULL"
        if ref.pool == buffers.ARENA:
            return ARENA, ref.offset
        if ref.pool == instructions.WEIGHTS:
            return WEIGHTS, self._blob.find(ref.offset)
        known = self._placed.get((ref, pointee))
        if known is None:
            known = self._placed[ref, pointee] = self._table(ref, pointee)
        return known

    def _table(self, ref: Ref, pointee: str) -> Token:
        """A table of constants."""
        table, rows = self._constants.rows_of(ref), row_pool(ref)
        if not table:
            return LITERAL, "NULL"
        if rows is not None:
            pool = self.pool(pointee, name="reads" if pointee.startswith("const ") else "writes")
            places = [None if at == PADDING else Ref(rows, at) for at in table]
            return pool.name, pool.add([(self._place(one, ""),) for one in places])
        plain = pointee.removeprefix("const ")
        if plain != ref.pool:
            raise AssertionError(f"a table of {ref.pool} where {pointee} is wanted")
        if plain.startswith("csdf_"):
            kind = structure(plain)
            return self._records(kind, [kind.flat(row) for row in table])
        numbers = self.pool(plain, name="numbers")
        return numbers.name, numbers.add([((NUMBER, _number(one, plain)),) for one in table])
