"""How do instructions become initialisers of C? Field by field; a reference is written by the pool that it points into.

The source has `W(offset)` for weights, and `table + index`, and so does not depend on the size of a pointer. All tables of a
type are one array, in which equal tables, and parts of other tables, are stored once. `macros` makes the source short.

The caller says where the arena is, so that tables have no addresses in it. A step is stored without them, once for all firings
that differ in nothing else: a call. A function copies the step to the stack and fills in the places of a firing.

The blob contains packed weights, biases and scalars: of every array the part that something refers to. Overlapping parts are
one piece, and equal pieces are stored once. Pieces of at least 64 bytes start at multiples of 64, others at multiples of 8.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from csdfgen.backends.native.structures import (
    Structure,
    kernel_structure,
    list_slots,
    structure,
    type_size,
)
from csdfgen.emission.macros import (
    LITERAL,
    NUMBER,
    WEIGHTS,
    Token,
    shorten_even_table,
    shorten_table,
    wrap_words,
)
from csdfgen.planning import buffers
from csdfgen.program import instructions
from csdfgen.program.instructions import (
    PADDING,
    Constants,
    Instruction,
    Ref,
    find_kernel,
    find_row_pool,
    merge_ranges,
)

_WORD = 8
"""Bytes of a row's number; alignment of short pieces of the blob."""


@cache
def _text(found: Structure) -> str:
    """The initialiser of a structure with a %s for each of its slots."""
    texts = []
    for one in found.fields:
        text = "%s" if one.inner is None else _text(one.inner)
        texts.append(f"{{{', '.join([text] * one.count)}}}" if one.count else text)
    return f"{{{', '.join(texts)}}}"


@cache
def _slot_names(found: Structure) -> tuple[str, ...]:
    """The slots of a structure as C names them."""
    names: list[str] = []
    for one in found.fields:
        for number in range(max(1, one.count)):
            name = f"{one.name}[{number}]" if one.count else one.name
            inner = ("",) if one.inner is None else (f".{end}" for end in _slot_names(one.inner))
            names += (name + end for end in inner)
    return tuple(names)


def _number(value: float, kind: str) -> str:
    """The value of a field as a literal of C."""
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
"""Bytes of a cache line."""


class Blob:
    """The constants of programs. size: bytes, a multiple of 64."""

    def __init__(self, constants: Constants) -> None:
        self._constants = constants
        self._pieces = list(merge_ranges(constants.used))
        self._lows = [low for low, _ in self._pieces]
        self._offsets = [0] * len(self._pieces)
        self._stored: list[tuple[int, int, int]] = []
        known: dict[tuple[int, bytes], int] = {}
        end = 0
        # the blob keeps the order in which ranges were first used
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
        """The offset in the blob for an offset in the pool of weights."""
        number = bisect_right(self._lows, offset) - 1
        return self._offsets[number] + offset - self._lows[number]

    def parts(self) -> Iterator[bytes | memoryview]:
        """The bytes of the blob, piece by piece."""
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


# Pools --------------------------------------------------------------------------------------------


@dataclass
class Pool:
    """All tables of a type in one array. name, type: of the array in C. text: of an element, with a %s for each token.
    marks: numbers of rows at which the rows of a firing end.
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
        """Add a table, and return its index in the pool."""
        ids = tuple(self._ids.setdefault(row, len(self._ids)) for row in rows)
        found = self._known.get(ids)
        if found is None:
            found = self._known[ids] = self._placed(ids, rows)
        return found

    def _placed(self, ids: tuple[int, ...], rows: Sequence[tuple[Token, ...]]) -> int:
        """The index at which the pool already contains a table, or at which it is appended; the start of an appended table
        may overlap the end of the pool.
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
        """The definition of the array, after the macros that it uses. prefix: of their names."""
        if len(self.rows[0]) > 1:
            macros, texts = shorten_table(self.rows, self.text, self.marks, prefix)
        else:
            macros, texts = shorten_even_table([row[0] for row in self.rows], prefix)
        yield from macros
        yield f"static {self.type} {self.name}[{len(self.rows)}] = {{"
        yield from wrap_words(texts)
        yield "};"


# Calls --------------------------------------------------------------------------------------------

_UNROLLED = 4
"""Most places of a table that are filled in one by one."""


@dataclass
class Call:
    """What a firing fills in: into a structure of this type, copies of structures that it refers to, as (where, type, count),
    and places, as (where, type of what is pointed to, whether they are a table). counts: of places of each, 1 of one that is
    no table. places: offsets in the arena. counted: lines that compute numbers of all rows.
    """

    kind: str
    copies: list[tuple[str, str, int]] = field(default_factory=list)
    fills: list[tuple[str, str, bool]] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    counted: list[str] = field(default_factory=list)

    def fill(self, where: str, pointee: str, offsets: Sequence[int], table: bool) -> None:
        """Fill in a place, or a table of places."""
        self.fills.append((where, pointee, table))
        self.counts.append(len(offsets))
        self.places += offsets

    @property
    def form(self) -> Hashable:
        """What calls that one function serves have in common: they may differ in the lengths of tables."""
        return self.kind, tuple(self.copies), tuple(self.fills), tuple(self.counted)


class Form:
    """A function that calls are made by. call: one of these. counts: lengths of tables of each, in which calls differ."""

    def __init__(self, call: Call) -> None:
        self.call, self.padded = call, [False] * len(call.fills)
        self.counts: dict[tuple[int, ...], None] = {}

    def add(self, call: Call) -> None:
        """Add a call."""
        self.counts.setdefault(tuple(call.counts))
        left = iter(call.places)
        for number, count in enumerate(call.counts):
            self.padded[number] |= PADDING in [next(left) for _ in range(count)]

    @property
    def _columns(self) -> list[tuple[int, ...]]:
        """The lengths of each table in all calls."""
        return list(zip(*self.counts, strict=True))

    @property
    def varied(self) -> list[tuple[int, ...]]:
        """Those that calls differ in, as the numbers that they give."""
        return list(dict.fromkeys(one for one in self._columns if len(set(one)) > 1))

    def given(self, call: tuple[int, ...]) -> list[int]:
        """The numbers that a call with tables of these lengths gives."""
        return [one[list(self.counts).index(call)] for one in self.varied]

    @property
    def stack_bytes(self) -> int:
        """Bytes of all that is filled in, where a pointer has 8."""
        structures = [(self.call.kind, 1), *((kind, count) for _, kind, count in self.call.copies)]
        tables = sum(map(max, self._columns))
        tables += len(self.call.counted)
        return 8 * tables + sum(count * type_size(kind, 8) for kind, count in structures)

    def source(self, name: str) -> Iterator[str]:
        """The function of C."""
        kind = self.call.kind
        yield f"static void {name}(const call *now, const place *at, unsigned char *base)"
        yield "{"
        yield f"    {kind} step = *(const {kind} *)now->step;"
        for number, (where, inner, count) in enumerate(self.call.copies):
            yield f"    {inner} s{number}[{count}];"
            yield f"    memcpy(s{number}, {where}, sizeof s{number});"
            yield f"    {where} = s{number};"
        yield from (f"    {line}" for line in self.call.counted)
        first = 0
        for number, (lengths, (where, pointee, table)) in enumerate(
            zip(self._columns, self.call.fills, strict=True)
        ):
            if not table:
                yield f"    {where} = AT({first});"
                first += 1
                continue
            yield from self._table(number, lengths, pointee, first)
            yield f"    {where} = t{number};"
            first += lengths[0]
            if lengths in self.varied:
                yield f"    at += {self._count(lengths)};"
                first = 0
        yield "    now->kernel(&step);"
        yield "}"

    def _count(self, lengths: tuple[int, ...]) -> str:
        """How many places a table of such lengths has, in C."""
        varied = lengths in self.varied
        return f"now->count[{self.varied.index(lengths)}]" if varied else str(lengths[0])

    def _table(
        self, number: int, lengths: tuple[int, ...], pointee: str, first: int
    ) -> Iterator[str]:
        """A table of places, filled in."""
        place, count = "ROW" if self.padded[number] else "AT", self._count(lengths)
        if max(lengths) > _UNROLLED or lengths in self.varied:
            yield f"    {pointee}t{number}[{max(lengths)}];"
            yield f"    for (int32_t k = 0; k < {count}; k++)"
            yield f"        t{number}[k] = {place}({first} + k);"
        else:
            texts = ", ".join(f"{place}({first + at})" for at in range(lengths[0]))
            yield f"    {pointee}t{number}[{count}] = {{{texts}}};"


def list_places(offsets: Iterable[int]) -> list[tuple[Token, ...]]:
    """Offsets in the arena as the elements of a table; padding is none."""
    return [((LITERAL, "NONE") if at == PADDING else (NUMBER, at),) for at in offsets]


# All of them --------------------------------------------------------------------------------------


class Tables:
    """The tables of a program, made from its instructions. blob: contains all constants that instructions refer to.
    by_type: pools by the type of C of their elements.
    """

    def __init__(self, constants: Constants, blob: Blob) -> None:
        self._constants, self._blob = constants, blob
        self.by_type: dict[str, Pool] = {}
        self._placed: dict[tuple[Ref, str], Token] = {}
        self._moving: dict[Ref, bool] = {}
        self._forms: dict[Hashable, Form] = {}
        self._calls: dict[tuple[Hashable, str, Token, tuple[int, ...]], int] = {}

    @property
    def pools(self) -> list[Pool]:
        """All pools, each after those that it refers to."""
        found: list[Pool] = []
        names = {pool.name: pool for pool in self.by_type.values()}

        def visit(pool: Pool) -> None:
            for kind in sorted(pool.uses() & names.keys()):
                if names[kind] not in found:
                    visit(names[kind])
            if pool not in found:
                found.append(pool)

        for pool in self.by_type.values():
            visit(pool)
        return found

    def source(self) -> Iterator[str]:
        """The definitions of all pools that have rows."""
        taken = {WEIGHTS}
        for pool in self.pools:
            if not pool.rows:
                continue
            name = pool.name.upper().replace("_", "")
            prefix = next(name[:n] for n in range(1, len(name) + 1) if name[:n] not in taken)
            taken.add(prefix)
            yield from pool.source(prefix)
            yield ""

    def pool(self, kind: str, text: str = "%s", name: str = "") -> Pool:
        """The pool for elements of a type of C. text, name: used if the pool is new."""
        found = self.by_type.get(kind)
        if found is None:
            taken = {pool.name for pool in self.by_type.values()}
            wanted = name or kind.removeprefix("csdf_") + "s"
            number = 1
            while wanted in taken:
                number += 1
                wanted = f"{name}{number}"
            const = "" if kind.endswith("const") else "const "
            found = self.by_type[kind] = Pool(wanted, const + kind, text)
        return found

    def mark(self) -> None:
        """Mark the end of a firing in all pools."""
        for pool in self.by_type.values():
            pool.marks.add(len(pool.rows))

    def functions(self) -> Iterator[str]:
        """The functions that calls are made by."""
        for number, form in enumerate(self._forms.values()):
            yield from form.source(f"fire_{number}")
            yield ""

    def largest_call(self) -> int:
        """Most bytes of a step on the stack with what it refers to there, where a pointer has 8."""
        return max((form.stack_bytes for form in self._forms.values()), default=0)

    @property
    def most_counts(self) -> int:
        """Most lengths of tables that a call gives."""
        return max((len(form.varied) for form in self._forms.values()), default=0)

    @property
    def most_places(self) -> int:
        """The greatest of these lengths."""
        return max((max(one) for form in self._forms.values() for one in form.varied), default=0)

    def add(self, made: Instruction, counted: Mapping[int, str]) -> tuple[int, int]:
        """Add a firing of an instruction: the number of its call, and of its first place. counted: see `Templates`."""
        kind = kernel_structure(made.kernel)
        call, slots = Call(kind.name), list(list_slots(made))
        for number, value in counted.items():
            where, pointed = f"step.{_slot_names(kind)[number]}", kind.slots[number].pointer
            kept = f"const {value[1 : value.index(')')]} n{number} = {value};"
            call.counted += [kept, f"{where} = &n{number};"] if pointed else [f"{where} = {value};"]
            slots[number] = None if pointed else 0
        step = self._hollow(kind, [slots], call, "step")
        self._forms.setdefault(call.form, Form(call)).add(call)
        key = call.form, f"csdf_{made.kernel}", step, tuple(call.counts)
        first = self.pool("place").add(list_places(call.places)) if call.places else 0
        return self._calls.setdefault(key, len(self._calls)), first

    def add_calls(self) -> None:
        """Add the table of calls, when the lengths in which those of a function differ are known."""
        if not self._calls:
            return
        numbers, most = {form: number for number, form in enumerate(self._forms)}, self.most_counts
        pool = self.pool(
            "call", "{%s, %s, %s, {" + ", ".join(["%s"] * most) + "}}" if most else "{%s, %s, %s}"
        )
        for form, kernel, step, counts in self._calls:
            given = self._forms[form].given(counts)
            lengths = [(NUMBER, one) for one in (*given, *[0] * (most - len(given)))]
            pool.rows.append(
                ((LITERAL, f"fire_{numbers[form]}"), (LITERAL, kernel), step, *lengths)
            )

    def _hollow(
        self, kind: Structure, rows: Sequence[Sequence[Any]], call: Call, *names: str
    ) -> Token:
        """Add structures of one kind without their places in the arena, which a call fills in. names: of the structures there."""
        found = []
        for name, row in zip(names, rows, strict=True):
            where = [f"{name}.{slot}" for slot in _slot_names(kind)]
            found.append(
                tuple(
                    self._open(value, slot.type, at, call)
                    if slot.pointer
                    else (NUMBER, _number(value, slot.type))
                    for slot, value, at in zip(kind.slots, row, where, strict=True)
                )
            )
        pool = self.pool(kind.name, _text(kind))
        return pool.name, pool.add(found)

    def _open(self, ref: Ref | None, pointee: str, where: str, call: Call) -> Token:
        """A reference as a token; NULL for one into the arena, which a call fills in at `where`."""
        if ref is None or not self._moves(ref):
            return self._place(ref, pointee)
        if ref.pool == buffers.ARENA:
            call.fill(where, "", [ref.offset], False)
        elif find_row_pool(ref) == buffers.ARENA:
            table = self._constants.rows_of(ref)
            call.fill(where, pointee.removesuffix("const"), table, True)
        else:
            kind = structure(ref.pool)
            rows = [kind.flat(row) for row in self._constants.rows_of(ref)]
            names = [f"s{len(call.copies)}[{number}]" for number in range(len(rows))]
            call.copies.append((where, kind.name, len(rows)))
            return self._hollow(kind, rows, call, *names)
        return LITERAL, "NULL"

    def _moves(self, ref: Ref) -> bool:
        """Whether a reference leads to the arena."""
        if ref.pool == buffers.ARENA or find_row_pool(ref) == buffers.ARENA:
            return True
        if not ref.pool.startswith("csdf_"):
            return False
        if ref not in self._moving:
            flat = structure(ref.pool).flat
            self._moving[ref] = any(
                type(value) is Ref and self._moves(value)
                for row in self._constants.rows_of(ref)
                for value in flat(row)
            )
        return self._moving[ref]

    def _records(self, kind: Structure, rows: Sequence[Sequence[Any]]) -> Token:
        """Add structures of one kind that do not refer to the arena, and return their place. rows: the values of their slots."""
        return self._hollow(kind, rows, Call(kind.name), *[""] * len(rows))

    def _place(self, ref: Ref | None, pointee: str) -> Token:
        """A reference as a token. pointee: the type that it points to."""
        if ref is None:
            return LITERAL, "NULL"
        kernel = find_kernel(ref)
        if kernel is not None:
            return LITERAL, f"csdf_{kernel}"
        if ref.pool == instructions.WEIGHTS:
            return WEIGHTS, self._blob.find(ref.offset)
        known = self._placed.get((ref, pointee))
        if known is None:
            known = self._placed[ref, pointee] = self._table(ref, pointee)
        return known

    def _table(self, ref: Ref, pointee: str) -> Token:
        """Add a table of constants, and return its place."""
        table, rows = self._constants.rows_of(ref), find_row_pool(ref)
        if not table:
            return LITERAL, "NULL"
        if rows is not None:
            pool = self.pool(pointee, name="reads" if pointee.startswith("const ") else "writes")
            places = [None if at == PADDING else Ref(rows, at) for at in table]
            return pool.name, pool.add([(self._place(one, ""),) for one in places])
        plain = pointee.removeprefix("const ")
        plain = ref.pool if plain == "void" else plain
        if plain != ref.pool:
            raise AssertionError(f"a table of {ref.pool} where {pointee} is wanted")
        if plain.startswith("csdf_"):
            kind = structure(plain)
            return self._records(kind, [kind.flat(row) for row in table])
        numbers = self.pool(plain, name="numbers")
        return numbers.name, numbers.add([((NUMBER, _number(one, plain)),) for one in table])
