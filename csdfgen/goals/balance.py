"""Which layers does the default make taller than `auto` does? Those where time is cheap in memory.

`auto` gives every layer about 64 output pixels a phase. Where weights are large that is too few for
native code: they come into the cache anew for every slab. The ladder of heights has the best height
of each layer for every price of memory; a layer that is taller there than at `auto`, and faster,
takes that height, all others stay. Of some such steps the one with the least bytes * seconds^2 is
taken. Bytes are lower bounds of peaks: they take a fraction of a plan's time, and are met within a
few percent.
"""

from __future__ import annotations

from dataclasses import replace

from csdfgen.devices.profile import DeviceProfile
from csdfgen.goals.heights import heights_of, seconds_of
from csdfgen.kernels.steps import KernelSet
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.planning.planner import prepare, rough_bound

__all__ = ["raised_rows"]

GROWTHS = (1.05, 1.2)
"""Bytes, in those of `auto`: the last steps within the one and within the other are compared. What
memory and time are worth jumps where a map becomes whole, and is best just before.
"""

TIME = 2.0
"""How much more a percent of time counts than one of memory."""


def raised_rows(
    network: Network,
    options: PlanOptions,
    profile: DeviceProfile,
    kernels: KernelSet | None = None,
) -> str:
    """The heights, as text. options: a plan's, with heights of `auto`. Raises InputError for an
    operator that the profile has no cost for.
    """
    usual = prepare(network, options)
    bound, seconds = rough_bound(usual, kernels), seconds_of(usual, profile)
    levels = [options.rows, *heights_of(network, options, profile).levels()]
    found = {0: (1.0, 1.0)}  # level -> bytes and seconds, in those of `auto`

    def grown(level: int) -> float:
        if level not in found:
            prepared = prepare(network, replace(options, rows=levels[level]))
            taken = rough_bound(prepared, kernels)
            found[level] = taken / bound, seconds_of(prepared, profile) / seconds
        return found[level][0]

    low = 0
    for growth in GROWTHS:  # memory grows along the ladder, mostly
        high = len(levels) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if grown(middle) <= growth else (low, middle - 1)
    within = {level: one for level, one in found.items() if one[0] <= GROWTHS[-1]}
    best = min(within, key=lambda level: within[level][0] * within[level][1] ** TIME)
    return levels[best]
