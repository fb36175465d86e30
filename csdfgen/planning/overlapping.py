"""In which order do several images fire so that the next one enters before the last has left?

Every image fires in the order of one image, each so much later than the one before (the lag) that no
layer has two of them at a time: the least lag for which this holds is the longest time that any
actor is at work on one image, from the start of its first phase to that of its last, on one
processor that does one image alone. Times are the time units of phases (docs/model.md). Images are
merged by these times; the result is one order for one processor again.
"""

from __future__ import annotations

import numpy as np

from csdfgen.phases.conversion import Conversion
from csdfgen.planning.buffers import Buffer
from csdfgen.planning.lifetimes import Lifetimes, times_of

__all__ = ["in_flight", "overlapped"]

Order = tuple[tuple[str, int], ...]


def overlapped(one: Conversion, order: Order, frames: int) -> Order:
    """The order of `frames` images, from an order of one. one: the conversion that it fires."""
    takes = [one.actor[actor].times[phase] for actor, phase in order]
    starts = np.concatenate([[0], np.cumsum(takes)[:-1]]) if takes else np.zeros(0, np.int64)
    at = times_of(order)
    lag = max((int(starts[one[-1]] - starts[one[0]]) for one in at.values()), default=0)
    phases = {name: len(found) for name, found in at.items()}
    image = np.repeat(np.arange(frames), len(order))
    # of what starts at the same time the earlier image goes first, and of one image its own order
    merged = np.lexsort((image, np.tile(starts, frames) + image * lag))
    return tuple(
        (actor, k * phases[actor] + phase)
        for number in merged.tolist()
        for k, firing in (divmod(number, len(order)),)
        for actor, phase in (order[firing],)
    )


def in_flight(buffers: tuple[Buffer, ...], lifetimes: Lifetimes, frames: int) -> int:
    """Most images at one time that have been begun, and of which a row is still alive."""
    first = np.full(frames, np.iinfo(np.int64).max)
    last = np.zeros(frames, np.int64)
    for buffer, one in zip(buffers, lifetimes.each, strict=True):
        image = np.arange(buffer.rows) * frames // max(1, buffer.rows)
        np.minimum.at(first, image, one.born)
        np.maximum.at(last, image, one.gone)
    return max(int(np.count_nonzero((first <= at) & (last > at))) for at in first.tolist())
