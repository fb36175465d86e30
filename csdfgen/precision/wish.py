"""Which formats can be asked for, and what goes together?"""

from __future__ import annotations

from dataclasses import dataclass

from csdfgen.errors import InputError, option
from csdfgen.precision.thresholds import METHODS, PERCENTILE

__all__ = ["FORMATS", "GOALS", "METHOD", "Wish"]

FORMATS = ("float16", "int16", "int8", "mixed")

GOALS = ("memory", "speed")
"""What a quality may be had with most of."""

METHOD = "mse"
"""The threshold of tensors in int8, unless another one is asked for."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Which formats are wanted. format: one of FORMATS. method, percentile: see `thresholds`.

    Of "mixed": arena_factor (arena of int8 times this), memory (bytes) or min_sqnr (dB); without any,
    what costs no memory. latency: seconds that a frame may be predicted to take, beside such a limit of
    memory or alone. goal: what min_sqnr is had with, least "memory" or most "speed". integer_io: inputs and
    outputs of the model are integers.
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
        """Raises InputError for words and numbers that mean nothing, or contradict each other."""
        if self.format not in FORMATS:
            raise InputError(f"{option('format', self.format)}: not one of {', '.join(FORMATS)}")
        if self.method not in METHODS:
            raise InputError(f"{option('method', self.method)}: not one of {', '.join(METHODS)}")
        if not 50 < self.percentile <= 100:
            raise InputError(
                f"{option('percentile', f'{self.percentile:g}')}: more than 50, at most 100 is needed"
            )
        budgets = {
            "arena_factor": self.arena_factor, "memory": self.memory, "min_sqnr": self.min_sqnr,
        }  # fmt: skip
        given = [option(name) for name, value in budgets.items() if value is not None]
        if len(given) > 1:
            raise InputError(
                f"{given[0]} and {given[1]} are both given; formats are chosen for one of them"
            )
        if given and self.format != "mixed":
            raise InputError(
                f"{given[0]} is for {option('format', 'mixed')}; {self.format} leaves nothing to choose"
            )
        self._check_times()
        if self.integer_io and self.format == "float16":
            raise InputError(
                f"{option('integer_io')} is for int8, int16 and mixed; float16 has no integers"
            )
        if self.arena_factor is not None and not 1 <= self.arena_factor <= 4:
            raise InputError(
                f"{option('arena_factor', f'{self.arena_factor:g}')}: a factor from 1 (the arena of int8) to 4 is needed"
            )
        if self.min_sqnr is not None and not 0 < self.min_sqnr <= 200:
            raise InputError(
                f"{option('min_sqnr', f'{self.min_sqnr:g}')}: dB above 0, at most 200, are needed"
            )
        return self

    def _check_times(self) -> None:
        """The same, of latency and goal."""
        if self.goal not in GOALS:
            raise InputError(f"{option('goal', self.goal)}: not one of {', '.join(GOALS)}")
        if self.latency is not None and self.format != "mixed":
            raise InputError(
                f"{option('latency')} is for {option('format', 'mixed')}; {self.format} leaves nothing to choose"
            )
        if self.latency is not None and self.min_sqnr is not None:
            raise InputError(
                f"{option('latency')} asks for the least noise within a time, {option('min_sqnr')} for a quality "
                f"({option('goal', 'speed')} for the fastest of it); leave one of them out"
            )
        if self.goal != GOALS[0] and self.min_sqnr is None:
            raise InputError(
                f"{option('goal', self.goal)} is for {option('min_sqnr')}: the fastest of that quality; give one"
            )
