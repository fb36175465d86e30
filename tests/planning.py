"""Plans and phases of networks, on the backend that the options name."""

from __future__ import annotations

from typing import Any

from csdfgen.backends.registry import choose_backend
from csdfgen.devices.profile import DeviceProfile
from csdfgen.goals.heights import Predicted
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.planning import plan_file, planner, saved
from csdfgen.planning.plan import Plan
from csdfgen.planning.plan_file import PlanFile
from csdfgen.planning.prepared import Phased, Prepared, prepare
from csdfgen.planning.saved import SavedPlan
from schedules.schedule import Schedule

__all__ = [
    "LITTLE",
    "phased",
    "plan_from_schedule",
    "plan_of",
    "plan_of_saved",
    "predicted",
    "prepared",
    "to_plan",
]

LITTLE = "1ms"
"""The effort of plans whose outputs are compared: they are as right as others, and there is time for more networks."""


def prepared(network: Network, options: PlanOptions, **given: Any) -> Prepared:
    """The network for all heights. given: see `planning.prepared.prepare`."""
    return prepare(network, options, choose_backend(options), **given)


def phased(network: Network, options: PlanOptions, *, fine: bool = False, **given: Any) -> Phased:
    """The network cut into phases as the options say."""
    return prepared(network, options, **given).phased(options, fine=fine)


def plan_of(network: Network, options: PlanOptions) -> Plan:
    """The plan at the heights of the options."""
    return planner.plan_fixed_heights(network, options, choose_backend(options))


def predicted(network: Network, options: PlanOptions, profile: DeviceProfile) -> Predicted:
    """The network for all heights, and its times on a device."""
    return Predicted(prepared(network, options), profile)


def to_plan(file: PlanFile, network: Network) -> Plan:
    """The plan of a file."""
    return plan_file.to_plan(file, network, choose_backend(file.options))


def plan_of_saved(found: SavedPlan, network: Network) -> Plan:
    """The plan of a file with a plan or a schedule."""
    return found.plan(network, choose_backend(found.planned_with))


def plan_from_schedule(network: Network, schedule: Schedule) -> Plan:
    """The plan of a schedule, on the fastest backend."""
    return saved.plan_from_schedule(network, schedule, choose_backend(None))
