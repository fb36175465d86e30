"""How do the values of a network get into the text of a file? Templates of `text/`, whose places have names between two @.

A line that is a place alone becomes as many lines as its value has, with its indentation. `@if x@`, `@unless x@` and
`@for x@` begin lines that end with `@end@`; those of `for` are there once for each member of x, whose own values come first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "text"
_PLACE = re.compile(r"@(\w+)@")
_BLOCK = re.compile(r"@(if|unless|for) (\w+)@")


def fill_template(template: str, /, **values: Any) -> Iterator[str]:
    """The lines of a template with these values."""
    return _lines(_read(template), values)


@cache
def _read(name: str) -> tuple[str, ...]:
    return tuple((_FOLDER / name).read_text(encoding="ascii").splitlines())


def _lines(template: Sequence[str], values: Mapping[str, Any]) -> Iterator[str]:
    at = 0
    while at < len(template):
        block = _BLOCK.fullmatch(template[at])
        if block is None:
            yield from _line(template[at], values)
            at += 1
            continue
        end = _end(template, at)
        kind, value = block[1], values[block[2]]
        members = value if kind == "for" else [{}] * (bool(value) == (kind == "if"))
        for member in members:
            yield from _lines(template[at + 1 : end], {**values, **member})
        at = end + 1


def _end(template: Sequence[str], start: int) -> int:
    """The line that ends the block which begins at another one."""
    depth, at = 1, start
    while depth:
        at += 1
        depth += bool(_BLOCK.fullmatch(template[at])) - (template[at] == "@end@")
    return at


def _line(line: str, values: Mapping[str, Any]) -> Iterator[str]:
    alone = _PLACE.fullmatch(line.lstrip())
    if alone and not isinstance(values[alone[1]], str):
        indent = line[: -len(alone[0])]
        yield from (indent + one for one in values[alone[1]])
    else:
        yield _PLACE.sub(lambda place: str(values[place[1]]), line)
