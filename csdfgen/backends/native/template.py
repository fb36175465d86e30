"""How do values get into the text of a file? Templates, whose places have names between two @.

A line that is a place alone becomes as many lines as its value has, with its indentation. `@if x@`, `@unless x@` and
`@for x@` begin lines that end with `@end@`; those of `for` are there once for each member of x, whose own values come first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

TEXT = Path(__file__).parent / "text"
"""Those of generated headers."""

_PLACE = re.compile(r"@(\w+)@")
_BLOCK = re.compile(r"@(if|unless|for) (\w+)@")

_Block = tuple[str, str, tuple[Any, ...]]
"""(kind, name, lines), among which may be blocks."""


def fill_template(template: Path, /, **values: Any) -> Iterator[str]:
    """The lines of a template with these values. Raises OSError."""
    return _lines(_read(template), values)


@cache
def _read(path: Path) -> tuple[str | _Block, ...]:
    return _parsed(iter(path.read_text(encoding="ascii").splitlines()))


def _parsed(lines: Iterator[str]) -> tuple[str | _Block, ...]:
    """The lines up to the end of a block."""
    found: list[str | _Block] = []
    for line in lines:
        if line == "@end@":
            break
        block = _BLOCK.fullmatch(line)
        found.append(line if block is None else (block[1], block[2], _parsed(lines)))
    return tuple(found)


def _lines(template: tuple[str | _Block, ...], values: Mapping[str, Any]) -> Iterator[str]:
    for line in template:
        if isinstance(line, str):
            yield from _line(line, values) if "@" in line else (line,)
            continue
        kind, name, inner = line
        members = values[name] if kind == "for" else [{}] * (bool(values[name]) == (kind == "if"))
        for member in members:
            yield from _lines(inner, {**values, **member})


def _line(line: str, values: Mapping[str, Any]) -> Iterator[str]:
    alone = _PLACE.fullmatch(line.lstrip())
    if alone and not isinstance(values[alone[1]], str):
        indent = line[: -len(alone[0])]
        yield from (indent + one for one in values[alone[1]])
    else:
        yield _PLACE.sub(lambda place: str(values[place[1]]), line)
