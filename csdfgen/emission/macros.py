"""How does the source of thousands of similar structures become short? By macros with the values that differ.

Structures with the same kinds of values share a macro, which contains the values that are equal in all of them. Table rows
of several firings of a layer often differ by an offset only: the rows of a firing are then a macro of its first addresses.
Addresses at equal distances are a macro of the first address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

Token = tuple[str, Any]
"""(kind, value): an offset in the arena or the weights, an index in a pool, a number, or literal text."""

ARENA, WEIGHTS, LITERAL, NUMBER = "A", "W", "", "#"

_FEWEST = 3
"""Least number of structures that a macro is defined for."""

_MOST = 12
"""Most structures that one macro expands to."""

_FREE = 3
"""Most parameters of a macro that calls another one."""

_LINE = 100
"""Most characters of a line of source."""


def format_token(token: Token) -> str:
    """A token in C."""
    kind, value = token
    if kind in (LITERAL, NUMBER):
        return str(value)
    return f"{kind}({value})" if kind in (ARENA, WEIGHTS) else f"{kind} + {value}"


def wrap_words(texts: Iterable[str], indent: str = "    ", end: str = "") -> Iterator[str]:
    """Words in lines, each followed by a comma. end: appended to each line."""
    line = indent
    for text in texts:
        if len(line) > len(indent) and len(line) + len(text) + 1 > _LINE:
            yield line + end
            line = indent
        line += f"{text},"
    if line != indent:
        yield line + end


@dataclass(frozen=True, slots=True)
class _Row:
    """A structure as C: its text; macro, values: the call that the text consists of, "" if it calls no macro."""

    macro: str
    values: tuple[Any, ...]
    text: str


def shorten_table(
    rows: Sequence[tuple[Token, ...]], text: str, marks: Iterable[int], prefix: str
) -> tuple[list[str], list[str]]:
    """Definitions of macros with this prefix, and the elements of a table written with these macros.

    text: of an element, with a %s for each token. marks: numbers of rows at which the rows of a firing end.
    """
    macros: list[str] = []

    def defined(words: str, body: str) -> str:
        name = f"{prefix}{len(macros)}"
        macros.append(f"#define {name}({words}) {body}")
        return name

    found = _joined(_by_kind(rows, text, defined), marks, defined)
    return macros, found


def shorten_even_table(tokens: Sequence[Token], prefix: str) -> tuple[list[str], list[str]]:
    """Definitions of macros for addresses at equal distances, and the elements of a table written with these macros.

    >>> shorten_even_table([("A", at) for at in (0, 8, 16, 7, 100, 108, 116)] * 2, "R")[0]
    ['#define R0(x0) A(x0),A(x0+8),A(x0+16)']
    """
    spans = list(_evenly(tokens))
    counts: dict[tuple[str, int, int], int] = {}
    for start, size, step in spans:
        key = tokens[start][0], size, step
        counts[key] = counts.get(key, 0) + 1
    macros: list[str] = []
    names: dict[tuple[str, int, int], str] = {}
    texts: list[str] = []
    for start, size, step in spans:
        key = tokens[start][0], size, step
        body = ",".join(f"{key[0]}(x0{step * at:+d})" for at in range(size)).replace("x0+0", "x0")
        plain = [format_token(token) for token in tokens[start : start + size]]
        saved = sum(map(len, plain)) + size - len(f"{prefix}99({tokens[start][1]}),")
        if size < _FEWEST or counts[key] * saved < len(body) + 20:
            texts += plain
            continue
        if key not in names:
            names[key] = f"{prefix}{len(macros)}"
            macros.append(f"#define {names[key]}(x0) {body}")
        texts.append(f"{names[key]}({tokens[start][1]})")
    return macros, texts


def _evenly(tokens: Sequence[Token]) -> Iterator[tuple[int, int, int]]:
    """Runs (first, count, step) of consecutive addresses at equal distances; other tokens are runs of one."""
    at = 0
    while at < len(tokens):
        kind, first = tokens[at]
        size, step = 1, 0
        if kind in (ARENA, WEIGHTS) and at + 1 < len(tokens) and tokens[at + 1][0] == kind:
            step = tokens[at + 1][1] - first
            while (
                size < _MOST
                and at + size < len(tokens)
                and tokens[at + size] == (kind, first + size * step)
            ):
                size += 1
        size = size if size >= _FEWEST else 1
        yield at, size, step
        at += size


def _by_kind(
    rows: Sequence[tuple[Token, ...]], text: str, defined: Callable[[str, str], str]
) -> list[_Row]:
    """Every structure as a call of a macro for its kind: structures whose values have the same kinds, and whose addresses
    are equal in the same fields.
    """
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, row in enumerate(rows):
        same = tuple(
            row.index(token) if token[0] in (ARENA, WEIGHTS) else at for at, token in enumerate(row)
        )
        kinds = tuple(token if token[0] == LITERAL else token[0] for token in row)
        groups.setdefault((kinds, same), []).append(number)
    found: dict[int, _Row] = {}
    for (_, same), numbers in groups.items():
        some = [rows[number] for number in numbers]
        own = [
            at
            for at, first in enumerate(some[0])
            if same[at] == at and any(row[at] != first for row in some)
        ]
        if len(numbers) < _FEWEST or not own:
            for number, row in zip(numbers, some, strict=True):
                found[number] = _Row("", (), text % tuple(map(format_token, row)))
            continue
        letters = {at: f"x{number}" for number, at in enumerate(own)}
        body = tuple(
            format_token((some[0][at][0], letters[place]) if place in letters else some[0][at])
            for at, place in enumerate(same)
        )
        name = defined(", ".join(letters.values()), text % body)
        for number, row in zip(numbers, some, strict=True):
            values = tuple(row[at][1] for at in own)
            found[number] = _Row(name, values, f"{name}({','.join(map(str, values))})")
    return [found[number] for number in range(len(rows))]


def _joined(
    rows: Sequence[_Row], marks: Iterable[int], defined: Callable[[str, str], str]
) -> list[str]:
    """The texts of all rows; the rows of a firing are one macro call where that is shorter."""
    ends = sorted({*marks, len(rows)} - {0})
    chunks: list[Sequence[_Row]] = []
    start = 0
    for end in ends:
        chunks += [rows[at : min(end, at + _MOST)] for at in range(start, end, _MOST)]
        start = end
    shapes: dict[tuple[Any, ...], list[int]] = {}
    bases: dict[int, list[int]] = {}
    for number, chunk in enumerate(chunks):
        if len(chunk) > 1 and all(row.macro for row in chunk):
            shape, bases[number] = _relative(chunk)
            shapes.setdefault(shape, []).append(number)
    joined: dict[int, str] = {}
    for shape, numbers in shapes.items():
        words = [f"x{k}" for k in range(len(bases[numbers[0]]))]
        body = ", ".join(f"{macro}({','.join(values)})" for macro, values in shape)
        calls = [",".join(map(str, bases[number])) for number in numbers]
        before = sum(len(row.text) + 1 for number in numbers for row in chunks[number])
        if before > len(body) + 30 + 6 * len(words) + sum(len(call) + 8 for call in calls):
            lines = " \\\n".join(wrap_words(body.split(", "))).rstrip(",").lstrip()
            name = defined(", ".join(words), lines)
            for number, call in zip(numbers, calls, strict=True):
                joined[number] = f"{name}({call})"
    alone = [row for number, chunk in enumerate(chunks) if number not in joined for row in chunk]
    texts = iter(_special(alone, defined))
    return [
        text
        for number, chunk in enumerate(chunks)
        for text in ([joined[number]] if number in joined else [next(texts) for _ in chunk])
    ]


def _special(rows: Sequence[_Row], defined: Callable[[str, str], str]) -> list[str]:
    """Texts of rows. Rows that call the same macro and differ in few values, as the steps of a layer do, call a macro of
    these values.
    """
    found = [row.text for row in rows]
    groups: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        if row.macro:
            groups.setdefault(row.macro, []).append(number)
    for macro, numbers in groups.items():
        values = [rows[number].values for number in numbers]
        distinct = [len(set(column)) for column in zip(*values, strict=True)]
        ranked = sorted(range(len(distinct)), key=lambda at: -distinct[at])
        choices = [
            _alike(macro, values, frozenset(free))
            for size in range(1, min(_FREE, len(ranked) - 1) + 1)
            for free in combinations(ranked[: _FREE + 1], size)
        ]
        saved, same, free = max(choices, key=lambda choice: choice[0], default=(0, {}, frozenset()))
        if saved <= 0:
            continue
        for key, places in same.items():
            words = [f"x{n}" for n in range(len(free))]
            name = defined(", ".join(words), _call(macro, key, words))
            for place in places:
                own = ",".join(str(values[place][at]) for at in sorted(free))
                found[numbers[place]] = f"{name}({own})"
    return found


def _alike(
    macro: str, values: Sequence[tuple[Any, ...]], free: frozenset[int]
) -> tuple[int, dict[tuple[Any, ...], list[int]], frozenset[int]]:
    """Characters that macros save in which all values but the free ones are fixed, and the rows of each macro that saves
    some; None marks a free value.
    """
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, row in enumerate(values):
        key = tuple(None if at in free else value for at, value in enumerate(row))
        groups.setdefault(key, []).append(place)
    saved, found = 0, {}
    for key, places in groups.items():
        fixed = sum(len(str(value)) + 1 for value in key if value is not None)
        here = (len(places) - 1) * fixed - len(macro) - 20 - 6 * len(free) - 2 * len(places)
        if here > 0:
            saved += here
            found[key] = places
    return saved, found, free


def _call(macro: str, key: Sequence[Any], words: Sequence[str]) -> str:
    """A macro call with fixed values, and with words for the free ones."""
    left = iter(words)
    return f"{macro}({','.join(next(left) if value is None else str(value) for value in key)})"


def _relative(chunk: Sequence[_Row]) -> tuple[tuple[Any, ...], list[int]]:
    """Rows with their integers as distances from those in the first row of the same macro, and the integers of these first
    rows. Other values are unchanged.
    """
    firsts: dict[str, tuple[tuple[Any, ...], int]] = {}
    bases: list[int] = []
    shape = []
    for row in chunk:
        if row.macro not in firsts:
            firsts[row.macro] = row.values, len(bases)
            bases += [value for value in row.values if isinstance(value, int)]
        first, letter = firsts[row.macro]
        words = []
        for value, base in zip(row.values, first, strict=True):
            if not isinstance(value, int):
                words.append(str(value))
                continue
            words.append(f"x{letter}" + (f"{value - base:+d}" if value != base else ""))
            letter += 1
        shape.append((row.macro, tuple(words)))
    return tuple(shape), bases
