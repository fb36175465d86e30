"""What can a sweep vary? The options of planning that are declared for sweeps (`model.options`), and how a model is
loaded.

A value is kept as text, a number or a flag, as JSON has them. An empty text means that the option is not given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from csdfgen.errors import InputError
from csdfgen.files import quote
from csdfgen.model.kinds import word
from csdfgen.model.options import OPTIONS, REQUESTS, Option
from csdfgen.precision.wish import FORMATS

Value = str | int | float | bool | None

_KINDS = {str: "text", int: "integer", float: "number", bool: "flag"}

_SIZES = re.compile(r"\d{1,10}(x\d{1,10})*", re.ASCII)
_SHAPE = re.compile(rf"(?P<name>.*?)=(?P<sizes>{_SIZES.pattern})(?: |$)", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Axis:
    """A key of the file. read: converts a value to the form that is kept; raises InputError. column: its name in the
    table, with its unit. kind: "text", "integer", "number" or "flag".
    """

    read: Callable[[Any], Value]
    column: str
    kind: str = "text"


def _axis(name: str, declared: Option) -> Axis:
    """The axis of an option."""
    kind = declared.kind
    return Axis(partial(_read, name, declared), f"{name}{kind.column}", _KINDS[kind.type])


def _read(name: str, declared: Option, value: Any) -> Value:
    """A value in the unit of the option's column. Raises InputError."""
    if not declared.accepts(value):
        raise InputError(f"is {quote(value)}; {declared.wanted} is needed")
    found: Value = declared.kind.read(value, name)
    return found * declared.kind.factor if isinstance(found, float) else found


def _shapes(value: object) -> str:
    """{"x": "1x3x8x8"} as x=1x3x8x8, several separated by blanks."""
    if not isinstance(value, Mapping) or not value:
        raise InputError(f'is {quote(value)}; a table is needed, such as {{ input = "1x3x48x64" }}')
    for name, sizes in value.items():
        if not isinstance(sizes, str) or not _SIZES.fullmatch(sizes):
            raise InputError(f"has {quote(sizes)} for '{name}'; sizes such as 1x3x48x64 are needed")
    return " ".join(f"{name}={sizes}" for name, sizes in value.items())


def parse_shapes(text: str) -> dict[str, tuple[int, ...]]:
    """The shapes in the text that is kept.

    >>> parse_shapes("left=1x3x8x8 the right=1x8")
    {'left': (1, 3, 8, 8), 'the right': (1, 8)}
    """
    found = _SHAPE.finditer(text)
    return {one["name"]: tuple(map(int, one["sizes"].split("x"))) for one in found}


AXES: Mapping[str, Axis] = MappingProxyType(
    {
        "model": _axis("model", Option("")),
        "shape": Axis(_shapes, "shape"),
        "batch": _axis("batch", REQUESTS),
        "formats": _axis("formats", Option("", kind=word(*FORMATS))),
        **{name: _axis(name, one) for name, one in OPTIONS.items() if "axis" in one.users},
    }
)
"""Key of the file -> its axis, in the order of the columns of the table."""


def parse_value(name: str, value: object) -> Value:
    """The value of an axis; None for "", which leaves the option out. Raises InputError."""
    return None if value == "" else AXES[name].read(value)
