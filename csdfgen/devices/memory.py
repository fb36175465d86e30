"""Does a network fit into a device's memory, and if not, at which slab height would it?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from csdfgen.backends.registry import kernels_for
from csdfgen.devices.profile import DeviceProfile
from csdfgen.model.network import Network
from csdfgen.model.options import DEFAULTS, PlanOptions
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import planned
from csdfgen.planning.prepared import prepare, recomputing

__all__ = ["Demand", "FittingHeight", "demands", "tallest_height"]


@dataclass(frozen=True, slots=True)
class Demand:
    """What a plan takes of one memory of a device. Bytes; what: the figures that count, in words.

    >>> Demand("arena and outputs", 10, 20).said
    'arena and outputs take'
    """

    what: str
    needed: int
    there: int

    @property
    def fits(self) -> bool:
        return self.needed <= self.there

    @property
    def said(self) -> str:
        """The figures with their verb."""
        return f"{self.what} take"


@dataclass(frozen=True, slots=True)
class FittingHeight:
    """rows: the tallest slab height that fits, None if none does; then the others are of the height
    with the least demand.
    """

    rows: str | None
    least_rows: str
    least_needed: int


def demands(plan: Plan, profile: DeviceProfile) -> tuple[Demand, ...]:
    """The arena (workspace included) with the outputs, and the parameters, in the same memory or in
    their own (flash).
    """
    figures = plan.figures
    working = figures["arena"] + figures["outputs"]
    usable = int(profile.memory.usable.value)
    if profile.memory.parameters is None:
        return (Demand("arena, outputs and parameters", working + figures["parameters"], usable),)
    apart = int(profile.memory.parameters.value)
    return Demand("arena and outputs", working, usable), Demand(
        "parameters", figures["parameters"], apart
    )


def tallest_height(
    network: Network, profile: DeviceProfile, options: PlanOptions = DEFAULTS
) -> FittingHeight:
    """The tallest of 1, 2, 4, ... rows and whole at which the arena fits: one plan a
    height, tallest first.

    options: of the plans, but for the heights. Parameters in a memory of their own are left out: no height makes them smaller.
    """
    tried: list[tuple[int, str]] = []
    prepared = recomputing(prepare(network, options, kernels_for(options)))
    for rows in _heights(network):
        demand = demands(planned(prepared, prepared.at(rows)), profile)[0]
        tried.append((demand.needed, rows))
        if demand.fits:
            return FittingHeight(rows, rows, demand.needed)
    needed, rows = min(tried)
    return FittingHeight(None, rows, needed)


def _heights(network: Network) -> Iterator[str]:
    tallest = max((tensor.rows for tensor in network.tensors.values()), default=1)
    powers = [1]
    while 2 * powers[-1] < tallest:
        powers.append(2 * powers[-1])
    yield from ("whole", *map(str, reversed(powers)))
