"""What may a sweep vary? The options of `csdfgen schedule` that say how a plan is wanted, each read as there.

A value becomes what JSON has: text, a number, a flag. An empty text stands for an option that is not given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from csdfgen.errors import InputError
from csdfgen.files import quoted
from csdfgen.model.options import CHOICES, effort_of, factor_of
from csdfgen.model.units import energy_of, size_of, time_of
from csdfgen.native.backends import BACKENDS
from csdfgen.phases.batches import parse_batches
from csdfgen.phases.heights import parse_rows
from csdfgen.precision.wish import FORMATS
from schedules.demand import POLICIES

__all__ = ["AXES", "Axis", "Value", "shapes_of", "value_of"]

Value = str | int | float | bool | None

_MOST_IMAGES = 1_000_000

_SIZES = re.compile(r"\d{1,10}(x\d{1,10})*", re.ASCII)
_SHAPE = re.compile(rf"(?P<name>.*?)=(?P<sizes>{_SIZES.pattern})(?: |$)", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Axis:
    """A key of the file. read: the value as it is kept; raises InputError. column: its name in the table, with
    its unit. kind: "text", "integer", "number" or "flag".
    """

    read: Callable[[object], Value]
    column: str
    kind: str = "text"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"is {quoted(value)}; a string is needed")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"is {quoted(value)}; true or false is needed")
    return value


def _images(value: object) -> int:
    if type(value) is not int or not 0 < value <= _MOST_IMAGES:
        raise InputError(
            f"is {quoted(value)}; a number of images from 1 to {_MOST_IMAGES} is needed"
        )
    return value


def _word(words: tuple[str, ...]) -> Callable[[object], str]:
    known = tuple(filter(None, words))

    def read(value: object) -> str:
        if value not in known:
            raise InputError(f"is {quoted(value)}; one of {', '.join(known)} is needed")
        return str(value)

    return read


def _number_or_text(value: object) -> str:
    """Rows and batches as typed: a number stands for itself."""
    return str(value) if type(value) is int else _text(value)


def _shapes(value: object) -> str:
    """{"x": "1x3x8x8"} as x=1x3x8x8, several with blanks between them."""
    if not isinstance(value, Mapping) or not value:
        raise InputError(
            f'is {quoted(value)}; a table is needed, such as {{ input = "1x3x48x64" }}'
        )
    for name, sizes in value.items():
        if not isinstance(sizes, str) or not _SIZES.fullmatch(sizes):
            raise InputError(
                f"has {quoted(sizes)} for '{name}'; sizes such as 1x3x48x64 are needed"
            )
    return " ".join(f"{name}={sizes}" for name, sizes in value.items())


def shapes_of(text: str) -> dict[str, tuple[int, ...]]:
    """The shapes in what is kept of them.

    >>> shapes_of("left=1x3x8x8 the right=1x8")
    {'left': (1, 3, 8, 8), 'the right': (1, 8)}
    """
    found = _SHAPE.finditer(text)
    return {one["name"]: tuple(map(int, one["sizes"].split("x"))) for one in found}


AXES: Mapping[str, Axis] = MappingProxyType(
    {
        "model": Axis(_text, "model"),
        "shape": Axis(_shapes, "shape"),
        "batch": Axis(_images, "batch", "integer"),
        "formats": Axis(_word(FORMATS), "formats"),
        "rows": Axis(lambda value: str(parse_rows(_number_or_text(value))), "rows"),
        "fuse": Axis(_word(CHOICES["fuse"]), "fuse"),
        "image": Axis(_word(CHOICES["image"]), "image"),
        "policy": Axis(_word(POLICIES), "policy"),
        "goal": Axis(_word(CHOICES["goal"]), "goal"),
        "memory": Axis(size_of, "memory_bytes", "integer"),
        "latency": Axis(lambda value: 1e3 * time_of(value), "latency_ms", "number"),
        "energy": Axis(lambda value: 1e3 * energy_of(value), "energy_mj", "number"),
        "device": Axis(_text, "device"),
        "effort": Axis(effort_of, "effort"),
        "recompute": Axis(factor_of, "recompute", "number"),
        "pack": Axis(_word(CHOICES["pack"]), "pack"),
        "result": Axis(_word(CHOICES["result"][1:]), "result"),
        "backend": Axis(_word(BACKENDS), "backend"),
        "exact": Axis(_flag, "exact", "flag"),
        "fallback": Axis(_flag, "fallback", "flag"),
        "tuning": Axis(_text, "tuning"),
        "fast": Axis(lambda value: size_of(value, "fast"), "fast_bytes", "integer"),
        "slow": Axis(lambda value: size_of(value, "slow"), "slow_bytes", "integer"),
        "frames": Axis(_images, "frames", "integer"),
        "requests": Axis(_images, "requests", "integer"),
        "batching": Axis(_word(CHOICES["batching"]), "batching"),
        "batches": Axis(lambda value: str(parse_batches(_number_or_text(value))), "batches"),
    }
)
"""Key of the file -> what it means, in the order of the table's columns."""


def value_of(name: str, value: object) -> Value:
    """The value of an axis; None for "", which leaves the option out. Raises InputError."""
    return None if value == "" else AXES[name].read(value)
