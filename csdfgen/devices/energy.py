"""How many joules does a phase take on a device? power * time, and what operations and bytes cost by themselves."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from csdfgen.devices.profile import Processor
from csdfgen.devices.units import WORK
from csdfgen.devices.work import PhaseWork

__all__ = ["NO_WORK", "Joules", "joules_of"]

Joules = Callable[[PhaseWork, float], float]
"""Of a phase, by its work and its seconds."""

NO_WORK = PhaseWork(
    rows=0,
    images=0,
    weights=0.0,
    amounts=MappingProxyType(dict.fromkeys(WORK, 0)),
    operations=0.0,
    moved=0,
)
"""Of time that is no layer's: the copying of inputs, what a frame takes beside its phases."""


def joules_of(processor: Processor) -> Joules | None:
    """None for a processor without any number of its energy."""
    numbers = processor.power, processor.operation_energy, processor.byte_energy
    if numbers == (None, None, None):
        return None
    power, operation, byte = (0.0 if one is None else one.value for one in numbers)

    def joules(work: PhaseWork, seconds: float) -> float:
        return power * seconds + operation * work.operations + byte * (work.moved + work.weights)

    return joules
