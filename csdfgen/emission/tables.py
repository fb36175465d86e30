"""How do steps with addresses become initialisers? Field by field, each address by what lies there.

A native step is a structure whose pointers hold addresses of this process: into the arena, into
constants, or of a table that the step keeps. Its source says the same as `A(offset)`, `W(offset)` and
`table + index`, so that it compiles for machines with other sizes. Tables of one type are one array;
what is there already, also as part of another table, is not stored again. `macros` makes their
source short.
"""

from __future__ import annotations

import ctypes
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

import numpy as np

from csdfgen.emission.blob import Blob
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
from csdfgen.errors import PlanError
from csdfgen.native.generate import SOURCES
from csdfgen.native.strided import Native, address_of

__all__ = ["Pool", "Tables", "constants_of"]

_POINTERS = ctypes.c_void_p, ctypes.c_char_p
_WORD = 8
"""Bytes of a row's number."""


# What a step keeps --------------------------------------------------------------------------------


def _kept(value: object) -> Iterator[Any]:
    """All that a step keeps alive, however deep."""
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _kept(one)
    elif isinstance(value, (ctypes.Structure, ctypes.Array)):
        yield value
        yield from _kept(getattr(value, "kept", ()))
    elif isinstance(value, np.ndarray):
        yield value


def constants_of(natives: Iterable[Native], arena: np.ndarray) -> Iterator[tuple[int, int]]:
    """Ranges of addresses of all arrays that steps keep and that do not lie in the arena."""
    begin, end = address_of(arena), address_of(arena) + arena.size
    for native in natives:
        for value in _kept(native.kept):
            if isinstance(value, np.ndarray) and value.size:
                low, high = _bounds(value)
                if not begin <= low < end:
                    yield low, high


def _bounds(values: np.ndarray) -> tuple[int, int]:
    """Addresses of the first byte of an array, and of that behind its last."""
    reach = [(size - 1) * step for size, step in zip(values.shape, values.strides, strict=True)]
    low = address_of(values) + sum(step for step in reach if step < 0)
    return low, low + sum(map(abs, reach)) + values.itemsize


# Structures as C has them -------------------------------------------------------------------------


def _type_of(kind: type[ctypes.Structure]) -> str:
    """`ConvStep` -> csdf_conv_step."""
    return "csdf" + re.sub("([A-Z])", lambda found: f"_{found[1].lower()}", kind.__name__)


@cache
def _declared() -> Mapping[tuple[str, str], str]:
    """(structure, field) -> its type, of all structures of the library's headers."""
    found = {}
    for path in sorted(SOURCES.glob("*.h")):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        for body, name in re.findall(r"typedef struct \w+ \{([^{}]*)\} (\w+);", text):
            for line in body.split(";"):
                first, *more = line.split(",")
                words = re.fullmatch(r"\s*(.*?)(\w+)\s*", first, re.S)
                if words is None:
                    continue
                base = " ".join(words[1].split())
                found[name, words[2]] = base
                for one in more:
                    stars, plain = re.fullmatch(r"\s*(\**)(\w+)(?:\[.*\])?\s*", one).groups()  # type: ignore[union-attr]
                    found[name, plain] = base.rstrip("* ") + " " * bool(stars) + stars
    return found


def _pointee(structure: str, name: str) -> str:
    """What a pointer of a structure points to."""
    declared = _declared()[structure, name]
    return declared.removesuffix("*").strip()


@dataclass(frozen=True, slots=True)
class _Shape:
    """A structure, flat. text: its initialiser with a %s for each of the fields' values. fields:
    names (of arrays positions) from the outside in, type of the innermost, whether that is a pointer, and to what in C.
    """

    text: str
    fields: tuple[tuple[tuple[str | int, ...], Any, bool, str], ...]


@cache
def _shape(kind: type[ctypes.Structure]) -> _Shape:
    texts: list[str] = []
    fields: list[tuple[tuple[str | int, ...], Any, bool, str]] = []
    for name, of, *_ in kind._fields_:
        if isinstance(of, type) and issubclass(of, ctypes.Structure):
            inner = _shape(of)
            texts.append(inner.text)
            fields += [((name, *path), *rest) for path, *rest in inner.fields]
            continue
        if isinstance(of, type) and issubclass(of, ctypes.Array):
            length = cast(int, of._length_)
            if not (isinstance(of._type_, type) and issubclass(of._type_, ctypes.Structure)):
                texts.append(f"{{{', '.join(['%s'] * length)}}}")
                fields += [((name, at), of._type_, False, "") for at in range(length)]
                continue
            inner = _shape(of._type_)
            texts.append(f"{{{', '.join([inner.text] * length)}}}")
            fields += [
                ((name, at, *path), *rest) for at in range(length) for path, *rest in inner.fields
            ]
            continue
        pointer = of in _POINTERS or hasattr(of, "contents")
        texts.append("%s")
        fields.append(((name,), of, pointer, _pointee(_type_of(kind), name) if pointer else ""))
    return _Shape(f"{{{', '.join(texts)}}}", tuple(fields))


def _number(value: float, kind: Any) -> str:
    """A value of a field as C has it."""
    if kind not in (ctypes.c_float, ctypes.c_double):
        return str(int(value))
    if value != value:
        return "NAN"
    if value in (np.inf, -np.inf):
        return "INFINITY" if value > 0 else "-INFINITY"
    text = repr(float(np.float32(value))) if kind is ctypes.c_double else str(np.float32(value))
    text = text if "." in text or "e" in text else f"{text}.0"
    return text if kind is ctypes.c_double else f"{text}f"


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
    """The tables of a program, made of its native steps.

    arena: whose addresses are those of the memory. blob: the constants of all steps that will come.
    """

    def __init__(self, arena: np.ndarray, blob: Blob) -> None:
        self._begin, self._end = address_of(arena), address_of(arena) + arena.size
        self._blob = blob
        self._pools: dict[str, Pool] = {}

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

    def add(self, native: Native) -> tuple[Token, ...]:
        """The kernel and the step of a native call as a record has them."""
        known: dict[int, Any] = {}
        for value in _kept((native.step, native.kept)):
            if not isinstance(value, np.ndarray) and ctypes.sizeof(value):
                known[ctypes.addressof(value)] = value
        empty = {
            ctypes.addressof(value)
            for value in _kept(native.kept)
            if not isinstance(value, np.ndarray) and not ctypes.sizeof(value)
        }
        step = self._table([native.step], known, empty)
        return (LITERAL, f"csdf_{native.kernel}"), step

    def _table(
        self, table: Sequence[ctypes.Structure], known: Mapping[int, Any], empty: set[int]
    ) -> Token:
        """Where structures of one kind stand."""
        kind = type(table[0])
        shape = _shape(kind)
        pool = self.pool(_type_of(kind), shape.text)
        rows = [self._row(one, shape, known, empty) for one in table]
        return pool.name, pool.add(rows)

    def _row(
        self, one: ctypes.Structure, shape: _Shape, known: Mapping[int, Any], empty: set[int]
    ) -> tuple[Token, ...]:
        found: list[Token] = []
        for path, kind, pointer, pointee in shape.fields:
            value: Any = one
            for name in path:
                value = value[name] if isinstance(name, int) else getattr(value, name)
            if not pointer:
                found.append((NUMBER, _number(value, kind)))
                continue
            if not isinstance(value, (int, type(None))):
                value = ctypes.cast(value, ctypes.c_void_p).value
            found.append(self._place(value, pointee, known, empty))
        return tuple(found)

    def _place(
        self, address: int | None, pointee: str, known: Mapping[int, Any], empty: set[int]
    ) -> Token:
        """What lies at an address."""
        if not address:
            return LITERAL, "NULL"
        if self._begin <= address < self._end:
            return ARENA, address - self._begin
        value = known.get(address)
        if value is None:
            offset = self._blob.find(address)
            if offset is not None:
                return WEIGHTS, offset
            if address in empty:
                return LITERAL, "NULL"
            raise PlanError("a step points to something that it does not keep")
        if isinstance(value, ctypes.Structure):
            return self._table([value], known, empty)
        return self._array(value, pointee, known, empty)

    def _array(
        self, table: ctypes.Array[Any], pointee: str, known: Mapping[int, Any], empty: set[int]
    ) -> Token:
        of = table._type_
        if isinstance(of, type) and issubclass(of, ctypes.Structure):
            return self._table(cast(Sequence[ctypes.Structure], list(table)), known, empty)
        rows: list[tuple[Token, ...]]
        if of is ctypes.c_void_p:
            pool = self.pool(pointee, name="reads" if pointee.startswith("const ") else "writes")
            rows = [(self._place(address, "", known, empty),) for address in table]
        else:
            pool = self.pool(pointee.removeprefix("const "), name="numbers")
            rows = [((NUMBER, _number(value, of)),) for value in table]
        return pool.name, pool.add(rows)
