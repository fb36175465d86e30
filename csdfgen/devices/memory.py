"""Does a network fit into a device's memory, and if not, at which slab height would it?"""

from __future__ import annotations

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
    """Bytes that a plan needs in one memory of a device, and the bytes there. what: the figures that add up to them."""

    what: str
    needed: int
    there: int

    @property
    def fits(self) -> bool:
        return self.needed <= self.there


@dataclass(frozen=True, slots=True)
class FittingHeight:
    """rows: the tallest slab height that fits, None if none does. least_rows, least_needed: that height, or the one of
    the least demand, and its bytes.
    """

    rows: str | None
    least_rows: str
    least_needed: int


def demands(plan: Plan, profile: DeviceProfile) -> tuple[Demand, ...]:
    """The demand of the arena (workspace included), the outputs and the parameters, which may have a memory of their
    own (flash).
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
    """The tallest of 1, 2, 4, ... rows and whole at which the arena fits, from one plan a height, tallest first.

    options: of the plans, except the heights. Parameters in a memory of their own do not count, as they depend on no
    height.
    """
    tallest = max((tensor.rows for tensor in network.tensors.values()), default=1)
    powers = reversed(range(max(1, (tallest - 1).bit_length())))
    tried: list[tuple[int, str]] = []
    prepared = recomputing(prepare(network, options, kernels_for(options)))
    for rows in ("whole", *(str(1 << power) for power in powers)):
        demand = demands(planned(prepared, prepared.at(rows)), profile)[0]
        tried.append((demand.needed, rows))
        if demand.fits:
            return FittingHeight(rows, rows, demand.needed)
    needed, rows = min(tried)
    return FittingHeight(None, rows, needed)
