"""What does a plan cost besides time? Anything that adds up over phases: joules, bytes from a slow memory, wear.

A call on sixteen images may read its weights once, so that the plan of least cost is not always the fastest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from csdfgen.devices.model import phase_seconds
from csdfgen.devices.profile import DeviceProfile
from csdfgen.devices.work import NO_WORK, PhaseWork, phase_works
from csdfgen.errors import InputError, option
from csdfgen.phases.conversion import ActorWork
from csdfgen.planning.plan import Plan

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cost:
    """A cost that adds up over phases, and how much of it a request may take.

    name, unit: for messages. most: the limit for all images together, above 0. of: cost of a phase from its work
    and its predicted seconds, 0 or more; time that belongs to no layer has the work `NO_WORK`.
    Raises InputError for a limit of 0 or less.
    """

    name: str
    unit: str
    most: float
    of: Callable[[PhaseWork, float], float]

    def __post_init__(self) -> None:
        if not self.most > 0:
            raise InputError(f"{self.name} of {self.most} {self.unit}: more than 0 is needed")


def energy_limit(profile: DeviceProfile, joules: float) -> Cost:
    """A limit on the energy of a request on a device. Logs a warning for a device with a power alone, on which energy
    ranks plans as time does. Raises InputError for a device without any number of its energy.
    """
    if not profile.processor.has_energy:
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
    return Cost("energy", "J", joules, profile.processor.joules)


def actor_cost(work: ActorWork, profile: DeviceProfile, silent: bool, cost: Cost) -> float:
    """The cost of all phases of an actor."""
    times = phase_seconds(work, profile, silent)
    if work.layer is None or silent:
        return cost.of(NO_WORK, sum(times))
    return sum(
        cost.of(each, seconds) for each, seconds in zip(phase_works(work), times, strict=True)
    )


def plan_cost(plan: Plan, profile: DeviceProfile, cost: Cost) -> float:
    """The cost of all images of a plan."""
    silent, frame = plan.sharing.silent, profile.processor.frame
    layers = sum(
        actor_cost(work, profile, work.name in silent, cost) for work in plan.conversion.actors
    )
    beside = 0.0 if frame is None else plan.conversion.frames * frame.value
    return layers + cost.of(NO_WORK, beside)
