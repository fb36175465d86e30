"""Does a network fit into a device's memory, and if not, at which slab height would it?"""

from __future__ import annotations

from dataclasses import dataclass

from csdfgen.backends.registry import choose_backend
from csdfgen.devices.profile import DeviceProfile
from csdfgen.emission.account import Account, Demand, account_memory
from csdfgen.emission.targets import STACK
from csdfgen.errors import PlanError, ToolError
from csdfgen.model.network import Network
from csdfgen.model.options import DEFAULTS, PlanOptions
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import plan_phased
from csdfgen.planning.prepared import choose_recomputation, prepare


@dataclass(frozen=True, slots=True)
class FittingHeight:
    """rows: the tallest slab height that fits, None if none does. least_rows, least_needed: that height, or the one of
    the least demand, and its bytes.
    """

    rows: str | None
    least_rows: str
    least_needed: int


def account_device_memory(plan: Plan, profile: DeviceProfile | None) -> Account:
    """The memory of a plan on a device, in bytes; None: on this machine. Where constants have a memory of their own (flash)
    it is that of the emitted code, or, where nothing can be emitted here, as this machine would store its parts.
    """
    if profile is None or profile.memory.parameters is None:
        return account_memory(plan)
    from csdfgen.emission.emit import emitted_account  # all that writes C

    try:
        return emitted_account(plan, STACK)
    except (PlanError, ToolError):
        return account_memory(plan, stack=STACK)


def demands(account: Account, profile: DeviceProfile) -> tuple[Demand, ...]:
    """What an account needs of the memories of a device, that of the arena first."""
    memory = profile.memory
    flash = None if memory.parameters is None else int(memory.parameters.value)
    return account.demands(int(memory.usable.value), flash)


def tallest_height(
    network: Network, profile: DeviceProfile, options: PlanOptions = DEFAULTS
) -> FittingHeight:
    """The tallest of 1, 2, 4, ... rows and whole at which the arena fits, from one plan a height, tallest first.

    options: of the plans, except the heights. What has a memory of its own does not count.
    """
    tallest = max((tensor.rows for tensor in network.tensors.values()), default=1)
    powers = reversed(range(max(1, (tallest - 1).bit_length())))
    tried: list[tuple[int, str]] = []
    prepared = choose_recomputation(prepare(network, options, choose_backend(options)))
    stack = None if profile.memory.parameters is None else STACK
    for rows in ("whole", *(str(1 << power) for power in powers)):
        plan = plan_phased(prepared, prepared.at(rows))
        demand = demands(account_memory(plan, stack=stack), profile)[0]
        tried.append((demand.needed, rows))
        if demand.fits:
            return FittingHeight(rows, rows, demand.needed)
    needed, rows = min(tried)
    return FittingHeight(None, rows, needed)
