"""What does a plan cost beside time? Whatever adds up over phases: joules, bytes from far memory, wear.

Weights that one call reads for sixteen images may be paid once, so that the plan that costs least is not always
the fastest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from csdfgen.devices.energy import NO_WORK, joules_of
from csdfgen.devices.model import phase_seconds
from csdfgen.devices.profile import DeviceProfile
from csdfgen.devices.work import PhaseWork, phase_works
from csdfgen.errors import InputError, option
from csdfgen.phases.conversion import ActorWork
from csdfgen.planning.plan import Plan

__all__ = ["Cost", "actor_cost", "energy_within", "plan_cost"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cost:
    """A cost that adds up over phases, and how much of it a request may take.

    name, unit: as messages say them. most: of all images together, more than 0. of: what a phase costs, from
    its work and its predicted seconds, not below 0; time that is no layer's comes as `energy.NO_WORK`.
    Raises InputError for a limit that is none.
    """

    name: str
    unit: str
    most: float
    of: Callable[[PhaseWork, float], float]

    def __post_init__(self) -> None:
        if not self.most > 0:
            raise InputError(f"{self.name} of {self.most} {self.unit}: more than 0 is needed")


def energy_within(profile: DeviceProfile, joules: float) -> Cost:
    """The energy of a request on a device, limited. Logs a warning for a device with a power alone, on which plans
    rank by energy as by time. Raises InputError for a device without any number of its energy.
    """
    of = joules_of(profile.processor)
    if of is None:
        raise InputError(
            f"{option('energy')}: nothing is known of the energy of {profile.name}; give its [processor] 'power', "
            f"'operation_energy' or 'byte_energy', or name another {option('device')}",
            where=profile.where,
        )
    if profile.processor.operation_energy is None and profile.processor.byte_energy is None:
        _LOG.warning(
            "%s has no energy per operation or byte, only a power: energy is power times time, and the plan of least "
            "energy is the fastest; add 'operation_energy' or 'byte_energy' to [processor] of its profile",
            profile.name,
        )
    return Cost("energy", "J", joules, of)


def actor_cost(work: ActorWork, profile: DeviceProfile, silent: bool, cost: Cost) -> float:
    """What all phases of an actor cost."""
    times = phase_seconds(work, profile, silent)
    if work.layer is None or silent:
        return cost.of(NO_WORK, sum(times))
    return sum(
        cost.of(each, seconds) for each, seconds in zip(phase_works(work), times, strict=True)
    )


def plan_cost(plan: Plan, profile: DeviceProfile, cost: Cost) -> float:
    """What all images of a plan cost."""
    silent, frame = plan.sharing.silent, profile.processor.frame
    layers = sum(
        actor_cost(work, profile, work.name in silent, cost) for work in plan.conversion.actors
    )
    beside = 0.0 if frame is None else plan.conversion.frames * frame.value
    return layers + cost.of(NO_WORK, beside)
