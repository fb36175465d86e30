"""Which values does an option of planning take? Kinds of values: how each is read, kept, and counted in
tables; `model.options` declares an option as of one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from csdfgen.errors import InputError, option
from csdfgen.files import quoted
from csdfgen.model.by_layer import BATCHES, ROWS
from csdfgen.model.units import energy_of, size_of, time_of

__all__ = [
    "BATCHED",
    "EFFORT",
    "EFFORTS",
    "ENERGY",
    "FACTOR",
    "FLAG",
    "HEIGHTS",
    "IMAGES",
    "MOST_IMAGES",
    "MOST_SECONDS",
    "SIZE",
    "TEXT",
    "TIME",
    "Kind",
    "effort_of",
    "factor_of",
    "word",
]

EFFORTS = ("low", "normal", "high")
"""How long a search may take, in words; or a number of seconds."""

MOST_IMAGES = 1_000_000

MOST_SECONDS = 30 * 86_400
"""Of a search."""

_MOST_RECOMPUTED = 1000.0


@dataclass(frozen=True, slots=True)
class Kind:
    """The values that an option takes.

    type: of a value as it is kept, and stored in JSON. read: (value as people type it or a program gives
    it, name of the option) -> value as it is kept; raises InputError. metavar: what help shows for the
    value. words: the only values that people give, if there are few. column, factor: what a sweep adds to the name of its
    column, and the units in that column per unit that is kept. unit: of a number that is kept, as typed.
    """

    type: type
    read: Callable[[Any, str], Any]
    metavar: str = ""
    words: tuple[str, ...] = ()
    column: str = ""
    factor: float = 1.0
    unit: str = ""

    @property
    def typed_as(self) -> Any:
        """The type of what is typed behind its flag."""
        if self.words:
            return Literal[self.words]
        return self.type if self in (FLAG, IMAGES) else str

    @property
    def asked(self) -> str:
        """The types that a program may give."""
        if self in (HEIGHTS, BATCHED):
            return "int | str | Mapping[str, int | str | Sequence[int]]"
        plain = self.words or self in (TEXT, FLAG, IMAGES)
        return self.type.__name__ if plain else f"str | {_NUMBERS[self.type]}"

    def of_text(self, text: str) -> Any:
        """What `read` takes, of a text without a type.

        >>> IMAGES.of_text("3"), FLAG.of_text("true"), TIME.of_text("20ms")
        (3, True, '20ms')
        """
        if self.type is bool:
            return {"true": True, "false": False}.get(text, text)
        return int(text) if self is IMAGES and text.isascii() and text.isdigit() else text

    def typed(self, value: Any) -> list[str]:
        """What stands behind the flag of a value that is kept: nothing where the flag says it all.

        >>> TIME.typed(0.02), SIZE.typed(4096), FLAG.typed(True)
        (['0.02s'], ['4096'], [])
        """
        if self.type is bool:
            return []
        return [f"{value:g}{self.unit}" if self.unit else str(value)]


def _refused(value: object, name: str, wanted: str) -> InputError:
    return InputError(f"{option(name, value)}: {wanted} is needed")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise _refused(value, name, "a string")
    return value


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise _refused(value, name, "true or false")
    return value


def _images(value: Any, name: str) -> int:
    if type(value) is not int or value < 1:
        raise _refused(value, name, "a number of images above 0")
    return value


def word(*words: str, hidden: tuple[str, ...] = ()) -> Kind:
    """One of some words; hidden: others that programs give."""
    known = (*hidden, *words) if "auto" in hidden else (*words, *hidden)

    def read(value: Any, name: str) -> str:
        if value not in known:
            raise InputError(f"{option(name, value)}: not one of {', '.join(known)}")
        return str(value)

    return Kind(str, read, words=words)


def effort_of(value: object, name: str = "effort") -> str:
    """How long a search may take, in one form.

    >>> effort_of("low"), effort_of(30), effort_of("2.5s"), effort_of("500ms")
    ('low', '30s', '2.5s', '0.5s')
    """
    if value in EFFORTS:
        return str(value)
    try:
        seconds = time_of(value, name)
    except InputError:
        seconds = math.inf
    if seconds > MOST_SECONDS:
        wanted = f"one of {', '.join(EFFORTS)}, or seconds above 0 such as 30s,"
        raise _refused(value if isinstance(value, (str, float)) else quoted(value), name, wanted)
    return f"{seconds:g}s"


def factor_of(value: object, name: str = "recompute") -> float:
    """How many times the multiply-accumulates may be done: a number from 1 on, or its text.

    >>> factor_of(1), factor_of("1.25")
    (1.0, 1.25)
    """
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError
        factor = float(value) if not isinstance(value, int) or value < 2**53 else math.inf
    except ValueError:
        factor = math.nan
    if not 1 <= factor <= _MOST_RECOMPUTED:
        wanted = f"a factor from 1 (nothing is computed twice) to {_MOST_RECOMPUTED:g}"
        raise _refused(value if isinstance(value, (str, float)) else quoted(value), name, wanted)
    return factor


_NUMBERS = {int: "int", float: "float", str: "float"}

TEXT = Kind(str, _text)
FLAG = Kind(bool, _flag)
IMAGES = Kind(int, _images, "N")
SIZE = Kind(int, size_of, "SIZE", column="_bytes")
TIME = Kind(float, time_of, "TIME", column="_ms", factor=1e3, unit="s")
ENERGY = Kind(float, energy_of, "ENERGY", column="_mj", factor=1e3, unit="J")
EFFORT = Kind(str, effort_of, "low|normal|high|SECONDS")
FACTOR = Kind(float, factor_of, "F")
HEIGHTS = Kind(str, lambda value, name: ROWS.text(value), "ROWS")
BATCHED = Kind(str, lambda value, name: BATCHES.text(value), "IMAGES")
