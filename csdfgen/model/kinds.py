"""Kinds of values that options of planning take: how each is read, stored, and shown in tables. `model.options` declares an
option with one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from csdfgen.errors import InputError, option
from csdfgen.files import quote
from csdfgen.model.by_layer import BATCHES, ROWS
from csdfgen.model.units import parse_energy, parse_size, parse_time

EFFORTS = ("low", "normal", "high")
"""Words for the duration of a search; a number of seconds is accepted too."""

MOST_IMAGES = 1_000_000

MOST_SECONDS = 30 * 86_400
"""Longest duration of a search."""

_MOST_RECOMPUTED = 1000.0


@dataclass(frozen=True, slots=True)
class Kind:
    """The values that an option takes.

    type: of a stored value, also in JSON. read: (value from the command line or a program, name of the option) -> stored
    value; raises InputError. metavar: placeholder for the value in help. words: the accepted words, if the option takes only
    words. column, factor: suffix of the option's column in a sweep, and units of that column per stored unit. unit: of a
    stored number.
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
        """The type of the value on the command line."""
        if self.words:
            return Literal[self.words]
        return self.type if self in (FLAG, IMAGES) else str

    @property
    def asked(self) -> str:
        """The types that Python programs may give, as an annotation."""
        if self in (HEIGHTS, BATCHED):
            return "int | str | Mapping[str, int | str | Sequence[int]]"
        plain = self.words or self in (TEXT, FLAG, IMAGES)
        return self.type.__name__ if plain else f"str | {_NUMBERS[self.type]}"

    def of_text(self, text: str) -> Any:
        """The value that `read` takes, from an untyped text.

        >>> IMAGES.of_text("3"), FLAG.of_text("true"), TIME.of_text("20ms")
        (3, True, '20ms')
        """
        if self.type is bool:
            return {"true": True, "false": False}.get(text, text)
        return int(text) if self is IMAGES and text.isascii() and text.isdigit() else text

    def typed(self, value: Any) -> list[str]:
        """The words after the flag for a stored value; none for a flag without a value.

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
    """The kind of these words; hidden: words that programs may give too."""
    known = (*hidden, *words) if "auto" in hidden else (*words, *hidden)

    def read(value: Any, name: str) -> str:
        if value not in known:
            raise InputError(f"{option(name, value)}: not one of {', '.join(known)}")
        return str(value)

    return Kind(str, read, words=words)


def parse_effort(value: object, name: str = "effort") -> str:
    """The duration of a search in its stored form. Raises InputError.

    >>> parse_effort("low"), parse_effort(30), parse_effort("2.5s"), parse_effort("500ms")
    ('low', '30s', '2.5s', '0.5s')
    """
    if value in EFFORTS:
        return str(value)
    try:
        seconds = parse_time(value, name)
    except InputError:
        seconds = math.inf
    if seconds > MOST_SECONDS:
        wanted = f"one of {', '.join(EFFORTS)}, or seconds above 0 such as 30s,"
        raise _refused(value if isinstance(value, (str, float)) else quote(value), name, wanted)
    return f"{seconds:g}s"


def parse_factor(value: object, name: str = "recompute") -> float:
    """The factor by which multiply-accumulates may increase: a number from 1 on, or its text. Raises InputError.

    >>> parse_factor(1), parse_factor("1.25")
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
        raise _refused(value if isinstance(value, (str, float)) else quote(value), name, wanted)
    return factor


_NUMBERS = {int: "int", float: "float", str: "float"}


def parse_probabilities(value: object, name: str = "probability") -> str:
    """How often the conditions of Ifs are true, as text: NAME=P after commas, P from 0 to 1. Raises InputError.

    >>> parse_probabilities("exit=0.50, expert_3=1")
    'exit=0.5,expert_3=1'
    """
    found = {}
    for part in str(value).split(",") if isinstance(value, str) else [""]:
        branch, _, text = part.strip().rpartition("=")
        try:
            found[branch] = share = float(text)
        except ValueError:
            share = math.nan
        if not branch or not 0 <= share <= 1:
            wanted = "NAME=P after commas, the names of Ifs and numbers from 0 to 1,"
            raise _refused(value if isinstance(value, str) else quote(value), name, wanted)
    return ",".join(f"{branch}={share:g}" for branch, share in found.items())


TEXT = Kind(str, _text)
FLAG = Kind(bool, _flag)
IMAGES = Kind(int, _images, "N")
SIZE = Kind(int, parse_size, "SIZE", column="_bytes")
TIME = Kind(float, parse_time, "TIME", column="_ms", factor=1e3, unit="s")
ENERGY = Kind(float, parse_energy, "ENERGY", column="_mj", factor=1e3, unit="J")
PROBABILITIES = Kind(str, parse_probabilities, "IF=P")
EFFORT = Kind(str, parse_effort, "low|normal|high|SECONDS")
FACTOR = Kind(float, parse_factor, "F")
HEIGHTS = Kind(str, lambda value, name: ROWS.text(value), "ROWS")
BATCHED = Kind(str, lambda value, name: BATCHES.text(value), "IMAGES")
