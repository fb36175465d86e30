"""Which formats can be asked for, and what goes together?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import nextafter

from csdfgen.errors import InputError, option
from csdfgen.model.formats import ARITHMETIC
from csdfgen.precision.thresholds import METHODS, PERCENTILE

FORMATS = ("bfloat16", "float16", "int16", "int8", "mixed")

GOALS = ("memory", "speed")
"""What is least at a required quality: memory, or time."""

METHOD = "mse"
"""The default threshold of tensors in int8."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The requested formats. format: one of FORMATS. method, percentile: see `thresholds`.

    Of "mixed": arena_factor (arena of int8 times this), memory (bytes) or min_sqnr (dB); without any, the formats that cost no
    memory. min_sqnr also of "bfloat16" and "float16": as few layers as reach it stay in float32. latency: predicted seconds
    that a frame may take, alone or with such a limit of memory. goal: what min_sqnr is reached with, the least "memory" or
    the most "speed". integer_io: inputs and outputs of the model are integers.
    """

    format: str = "int8"
    method: str = METHOD
    percentile: float = PERCENTILE
    arena_factor: float | None = None
    memory: int | None = None
    min_sqnr: float | None = None
    integer_io: bool = False
    latency: float | None = None
    goal: str = GOALS[0]

    def checked(self) -> Wish:
        """The same. Raises InputError for words and numbers that mean nothing, or contradict each other."""
        for wrong, message in self._cases():
            if wrong:
                raise InputError(message)
        return self

    def _cases(self) -> Iterator[tuple[bool, str]]:
        """What may be wrong: whether it is, and the message."""
        for name, words in (("format", FORMATS), ("method", METHODS), ("goal", GOALS)):
            word = getattr(self, name)
            yield word not in words, f"{option(name, word)}: not one of {', '.join(words)}"
        for name, above, most, needed in (
            ("percentile", 50, 100, "more than 50, at most 100 is needed"),
            ("arena_factor", nextafter(1, 0), 4, "a factor from 1 (the arena of int8) to 4 is needed"),
            ("min_sqnr", 0, 200, "dB above 0, at most 200, are needed"),
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None:
                yield not above < value <= most, f"{option(name, f'{value:g}')}: {needed}"
        mixed = ("arena_factor", "memory", "min_sqnr", "latency")
        given = [option(name) for name in mixed if getattr(self, name) is not None]
        both = " and ".join(given[:2])
        yield (
            len(given) > 1 + (self.latency is not None),
            f"{both} are both given; formats are chosen for one of them",
        )
        halves = self.format in ARITHMETIC and given == [option("min_sqnr")]
        yield (
            bool(given) and self.format != "mixed" and not halves,
            f"{''.join(given[:1])} is for {option('format', 'mixed')}; {self.format} leaves nothing to choose",
        )
        yield (
            self.latency is not None and self.min_sqnr is not None,
            f"{option('latency')} asks for the least noise within a time, {option('min_sqnr')} for a quality "
            f"({option('goal', 'speed')} for the fastest of it); leave one of them out",
        )
        yield (
            self.goal != GOALS[0] and self.format in ARITHMETIC,
            f"{option('goal', self.goal)} is for {option('format', 'mixed')}; with {self.format} as few layers as reach "
            f"{option('min_sqnr')} stay in float32",
        )
        yield (
            self.goal != GOALS[0] and self.min_sqnr is None,
            f"{option('goal', self.goal)} is for {option('min_sqnr')}: the fastest of that quality; give one",
        )
        yield (
            self.integer_io and self.format in ARITHMETIC,
            f"{option('integer_io')} is for int8, int16 and mixed; {self.format} has no integers",
        )
