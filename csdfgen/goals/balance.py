"""Which layers does the default make taller than `auto` does? Those where time is cheap in memory.

`auto` gives every layer about 64 output pixels a phase. Where weights are large that is too few for
native code: they come into the cache anew for every slab. The ladder of heights has the best height
of each layer for every price of memory; a layer that is taller there than at `auto`, and faster,
takes that height, all others stay. Of some such steps the one with the least bytes * seconds^2 is
taken. Bytes are lower bounds of peaks: they take a fraction of a plan's time, and are met within a
few percent.

Where so much is alive that rows have left the near caches when they are read again, that counts too: a
window of three rows that makes one row a phase reads every row three times, at four rows a phase 1.5
times. No layer by itself tells that, so whole plans are compared there (`few_phases`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

from csdfgen.goals.heights import Predicted, heights_of
from csdfgen.phases.conversion import Conversion, Read
from csdfgen.phases.heights import layer_height
from csdfgen.planning.plan import Plan
from csdfgen.planning.prepared import Phased

__all__ = ["FewPhases", "few_phases", "raised"]

GROWTHS = (1.05, 1.2)
"""Bytes, in those of `auto`: the last steps within the one and within the other are compared. What
memory and time are worth jumps where a map becomes whole, and is best just before.
"""

TIME = 2.0
"""How much more a percent of time counts than one of memory."""

FAR = 8 * 2**20
"""Bytes alive above which what is read again comes from far away."""

FAR_BYTE = 0.06e-9
"""Seconds to read one from there: about 17 GB/s."""

SLAB = 4
"""Rows that every phase then has at least."""

GROWTH = 1.25
"""Bytes that they may take, in those of the plan without."""

GAIN = 0.97
"""Part of the time that few phases must leave to be worth a plan of their own."""


def raised(predicted: Predicted) -> Phased:
    """The network cut at those heights. Its options have heights of `auto`."""
    prepared = predicted.prepared
    usual = prepared.phased()
    seconds = predicted.frame(usual.conversion)
    levels = [prepared.options.rows, *heights_of(predicted).levels()]
    found = {0: (1.0, 1.0, usual)}  # level -> bytes and seconds, in those of `auto`

    def grown(level: int) -> float:
        if level not in found:
            phased = prepared.at(levels[level])
            taken, time = phased.rough_bound, predicted.frame(phased.conversion)
            found[level] = taken / usual.rough_bound, time / seconds, phased
        return found[level][0]

    low = 0
    for growth in GROWTHS:  # memory grows along the ladder, mostly
        high = len(levels) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if grown(middle) <= growth else (low, middle - 1)
    within = [one for one in found.values() if one[0] <= GROWTHS[-1]]
    return min(within, key=lambda one: one[0] * one[1] ** TIME)[2]


@dataclass(frozen=True, slots=True)
class FewPhases:
    """The network cut with `SLAB` rows a phase at least wherever there are so many; time: of a frame of it, as a
    part of what it was.
    """

    phased: Phased
    time: float

    def better(self, taller: Plan, usual: Plan) -> bool:
        """Whether bytes * seconds^2 fall, and bytes do not grow by more than is allowed."""
        grown = taller.total_bytes / usual.total_bytes
        return grown <= GROWTH and grown * self.time**TIME < 1


def few_phases(plan: Plan, predicted: Predicted) -> FewPhases | None:
    """What few phases would bring a plan; None where rows that are read again are near, or little is
    gained.
    """
    if plan.figures["peak_live"] < FAR:
        return None
    spec = plan.conversion.rows
    heights = {layer.name: layer_height(spec, layer) for layer in plan.network.layers}
    for tensor in plan.network.inputs:
        heights[tensor.name] = spec.height(tensor.name, tensor, tensor.rows), tensor.rows
    low = {
        name: min(SLAB, total)
        for name, (rows, total) in heights.items()
        if isinstance(rows, int) and rows < min(SLAB, total)
    }
    taller = predicted.prepared.at(
        str(replace(spec, layers=MappingProxyType({**spec.layers, **low})))
    )
    usual, time = (_seconds(one, predicted) for one in (plan.conversion, taller.conversion))
    return FewPhases(taller, time / usual) if time <= GAIN * usual else None


def _seconds(conversion: Conversion, predicted: Predicted) -> float:
    """Predicted seconds of a frame, with those for reading rows again."""
    again = sum(
        (sum(map(len, read.rows)) - _distinct(read)) * read.tensor.row_bytes
        for work in conversion.actors
        if work.kind == "layer" and work.name not in predicted.silent
        for read in work.reads
    )
    return predicted.frame(conversion) + FAR_BYTE * again


def _distinct(read: Read) -> int:
    """Rows that are read at all."""
    held = [rows for rows in read.rows if rows]
    if not held:
        return 0
    return max(rows.stop for rows in held) - min(rows.start for rows in held)
