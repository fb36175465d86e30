"""Which of the inputs that were given are looked at for what?

Weights are rounded by some, and noise is measured on others: weights suit the ones better than any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from csdfgen.precision.calibrate import Frame

__all__ = ["evenly", "fitted_on", "images_of", "measured_on"]

_FEW = 4
"""From so many inputs on, one of as many is kept for measuring."""


def images_of(frames: list[Frame], batch: int) -> list[Frame]:
    """The inputs, those of a batch as single images: tensors are looked at one image at a time."""
    if batch == 1:
        return frames
    return [
        {name: array[k : k + 1] for name, array in frame.items()}
        for frame in frames
        for k in range(batch)
    ]


def fitted_on(frames: list[Frame], count: int) -> Sequence[Frame]:
    """At most so many of those that weights are fitted to."""
    return evenly(_split(frames)[0], count)


def measured_on(frames: list[Frame], count: int) -> Sequence[Frame]:
    """At most so many of those that noise is measured on."""
    return evenly(_split(frames)[1], count)


def evenly(frames: Sequence[Frame], count: int) -> Sequence[Frame]:
    """At most so many inputs, evenly taken from those given."""
    return frames[:: max(1, -(-len(frames) // count))][:count]


def _split(frames: list[Frame]) -> tuple[list[Frame], list[Frame]]:
    """Inputs to fit weights to, and others to measure on; of few inputs all are both."""
    if len(frames) < _FEW:
        return frames, frames
    others = frames[_FEW - 1 :: _FEW]
    return [one for k, one in enumerate(frames) if k % _FEW != _FEW - 1], others
