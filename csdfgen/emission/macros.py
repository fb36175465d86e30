"""How do thousands of structures that are alike become a short source? By macros of what differs.

Structures whose values are of the same kinds share a macro that has the values which are equal in all
of them. What several firings of a layer put into a table differs in where it begins alone: then the
rows of a firing are a macro of its first addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["ARENA", "LITERAL", "NUMBER", "WEIGHTS", "Token", "shortened", "wrapped", "written"]

Token = tuple[str, Any]
"""(kind, value): an offset in the arena or the weights, an index in a pool, a number, or what is written as it is."""

ARENA, WEIGHTS, LITERAL, NUMBER = "A", "W", "", "#"

_FEWEST = 3
"""Structures that a macro is worth."""

_MOST = 12
"""Structures that are written by one macro."""

_LINE = 100
"""Characters of a line of source."""


def written(token: Token) -> str:
    """A token in C."""
    kind, value = token
    if kind in (LITERAL, NUMBER):
        return str(value)
    return f"{kind}({value})" if kind in (ARENA, WEIGHTS) else f"{kind} + {value}"


def wrapped(texts: Iterable[str], indent: str = "    ", end: str = "") -> Iterator[str]:
    """Words in lines, a comma behind each; end: of a line."""
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
    """A structure: its macro and that one's values; without a macro its text."""

    macro: str
    values: tuple[Any, ...]
    text: str


def shortened(
    rows: Sequence[tuple[Token, ...]], text: str, marks: Iterable[int], prefix: str
) -> tuple[list[str], list[str]]:
    """Definitions of macros whose names begin with `prefix`, and the elements of a table by them.

    text: of an element, with a %s for each token. marks: where what belongs together ends.
    """
    macros: list[str] = []

    def defined(words: str, body: str) -> str:
        name = f"{prefix}{len(macros)}"
        macros.append(f"#define {name}({words}) {body}")
        return name

    found = _joined(_by_kind(rows, text, defined), marks, defined)
    return macros, found


def _by_kind(
    rows: Sequence[tuple[Token, ...]], text: str, defined: Callable[[str, str], str]
) -> list[_Row]:
    """Every structure by the macro of its kind: the same kinds of values, with the same place in the same
    fields.
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
                found[number] = _Row("", (), text % tuple(map(written, row)))
            continue
        letters = {at: f"x{number}" for number, at in enumerate(own)}
        body = tuple(
            written((some[0][at][0], letters[place]) if place in letters else some[0][at])
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
    """The texts of all rows; those of a firing as one where that is shorter."""
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
    texts = [[row.text for row in chunk] for chunk in chunks]
    for shape, numbers in shapes.items():
        words = [f"x{k}" for k in range(len(bases[numbers[0]]))]
        body = ", ".join(f"{macro}({','.join(values)})" for macro, values in shape)
        calls = [",".join(map(str, bases[number])) for number in numbers]
        before = sum(len(text) + 1 for number in numbers for text in texts[number])
        if before > len(body) + 30 + 6 * len(words) + sum(len(call) + 8 for call in calls):
            lines = " \\\n".join(wrapped(body.split(", "))).rstrip(",").lstrip()
            name = defined(", ".join(words), lines)
            for number, call in zip(numbers, calls, strict=True):
                texts[number] = [f"{name}({call})"]
    return [text for chunk in texts for text in chunk]


def _relative(chunk: Sequence[_Row]) -> tuple[tuple[Any, ...], list[int]]:
    """Rows by how far their values are from those of the first row of the same macro, and these: all
    that are places or numbers of rows; others stand as they are.
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
