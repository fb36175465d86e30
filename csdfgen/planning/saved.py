"""From which files can a network be executed? A plan, or a schedule of the graph that was made from the network.

A plan (`planning.plan_file`) has its arena. A schedule (`schedules.schedule`, written by `csdfgen analyze GRAPH -o` and
`csdfgen schedule GRAPH -o`) has firings and the capacities that they keep; this module makes the arena.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from csdfgen.dataflow import graph_json
from csdfgen.dataflow.origin import Values
from csdfgen.errors import CsdfgenError, PlanError, option
from csdfgen.files import Fields, load_json, quote
from csdfgen.model.network import Network
from csdfgen.model.options import CONVERSION, PlanOptions
from csdfgen.phases.conversion import MAX_PHASES
from csdfgen.phases.graphs import digest_conversion
from csdfgen.planning import plan_file, plan_table, stream_file
from csdfgen.planning.capacities import check_buffers, check_channels, check_order, row_limits
from csdfgen.planning.lifetimes import trace_lifetimes
from csdfgen.planning.plan import Plan
from csdfgen.planning.plan_file import PlanFile, to_plan
from csdfgen.planning.planner import Candidate
from csdfgen.planning.prepared import prepare
from csdfgen.planning.stream_file import StreamFile
from csdfgen.program.steps import Backend
from schedules import schedule as schedule_json
from schedules import starts
from schedules.schedule import Schedule


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan or a schedule from a file, before it is compared with a network.

    model: file name of the network that it was made for; inputs, batch: shapes and images for which the network has to be
    loaded; fixed: inputs that are made constants. of_table: whether the file has several plans.
    """

    where: str
    model: str
    batch: int
    inputs: Mapping[str, tuple[int, ...]]
    options: Mapping[str, str]
    content: PlanFile | StreamFile | Schedule
    fixed: Mapping[str, Values]
    of_table: bool = False

    @property
    def planned_with(self) -> PlanOptions | None:
        """The options of a plan, which name its backend; None for the schedule of a graph."""
        return None if isinstance(self.content, Schedule) else self.content.options

    def plan(self, network: Network, kernels: Backend) -> Plan:
        """The plan for the network, loaded with `inputs`, on a backend.

        Raises as `plan_file.to_plan` and `plan_from_schedule`, with the file's name in front.
        """
        if isinstance(self.content, PlanFile):
            return to_plan(self.content, network, kernels)
        if isinstance(self.content, StreamFile):
            return self.content.plan(network, kernels)
        try:
            return plan_from_schedule(network, self.content, kernels)
        except CsdfgenError as error:
            raise error.at(self.where) from None


def read_saved(path: str | os.PathLike[str], memory: int = 0, images: int = 0) -> SavedPlan:
    """Read a plan or a schedule of a network. Raises InputError, PlanError or ScheduleError.

    memory, images: choose a plan of a table of plans: the fastest of at most so many bytes, for so many images; 0 for
    any.
    """
    where = str(path)
    data = load_json(path)
    fields = Fields(data, where, PlanError)
    form = fields.text("format")
    if form == schedule_json.FORMAT:
        return _of_schedule(where, schedule_json.from_json(data, where, MAX_PHASES))
    if form == plan_file.FORMAT:
        plan = plan_file.from_json(data, where)
        return _of_plan(plan, plan.batch, plan.inputs)
    if form == plan_table.FORMAT:
        plan = plan_table.table_from_json(data, where).chosen(memory, images)
        return replace(_of_plan(plan, plan.batch, plan.inputs), of_table=True)
    if form == stream_file.FORMAT and "image" in fields:
        stream = stream_file.from_json(data, where)
        return _of_plan(stream, 1, stream.image)
    hint = (
        "; csdfgen schedule GRAPH -o PLAN.json makes a plan of a graph"
        if form == graph_json.FORMAT
        else ""
    )
    hint = "; csdfgen schedule without --periodic writes one" if form == starts.FORMAT else hint
    raise fields.fault(
        f"'format' is {quote(form)}; '{plan_file.FORMAT}' or '{schedule_json.FORMAT}' is needed{hint}"
    )


def _of_plan(
    plan: PlanFile | StreamFile, batch: int, inputs: Mapping[str, tuple[int, ...]]
) -> SavedPlan:
    options = {name: getattr(plan.options, name) for name in CONVERSION}
    chosen = MappingProxyType(options)
    return SavedPlan(plan.where, plan.model, batch, inputs, chosen, plan, plan.fixed)


def _of_schedule(where: str, schedule: Schedule) -> SavedPlan:
    origin = schedule.origin
    if origin is None:
        raise PlanError(
            f"is a schedule of graph {quote(schedule.graph_name)}, which does not say from which network it was made; make the "
            "graph with csdfgen MODEL -o graph.xml",
            where=where,
        )
    options = {name: getattr(origin.plan_options, name) for name in CONVERSION}
    return SavedPlan(
        where,
        origin.model,
        origin.batch,
        MappingProxyType(dict(origin.inputs)),
        MappingProxyType(options),
        schedule,
        origin.fixed,
    )


def plan_from_schedule(network: Network, schedule: Schedule, kernels: Backend) -> Plan:
    """The plan of a network in the order of a schedule of its graph, in buffers within the schedule's capacities.

    network: loaded with the shapes and the batch of `schedule.origin`, whose options define its phases. Raises PlanError
    if the schedule is of no network, of another one, or of a graph that cannot be executed; ScheduleError and
    CapacityExceededError if its firings lack rows or exceed its capacities; InputError for options that do not exist.
    """
    origin = schedule.origin
    if origin is None:
        raise PlanError(
            f"graph '{schedule.graph_name}' does not say which network it was made from; make it with csdfgen MODEL -o graph.xml"
        )
    if origin.rates != "exact":
        raise PlanError(
            f"is of a graph with {option('rates', origin.rates)}, whose phases are not run; "
            f"make it with {option('rates', 'exact')}"
        )
    if schedule.iterations != 1 or any(firing.iteration for firing in schedule.firings):
        last = max((firing.iteration for firing in schedule.firings), default=0) + 1
        raise PlanError(
            f"fires {max(schedule.iterations, last)} iterations; a plan has 1, which every image repeats"
        )
    options = replace(origin.plan_options, backend=kernels.name)
    phased = prepare(network, options, kernels).phased()
    conversion = phased.conversion
    order = tuple((firing.actor, firing.phase) for firing in schedule.firings)
    check_order(order, conversion, origin.model, origin.options)
    digest = digest_conversion(conversion)
    if digest != origin.digest:
        raise PlanError(
            f"made for '{origin.model}' ({origin.digest}), whose phases have other rows or shapes "
            f"than those of '{network.name}' ({digest}); make graph and schedule from this model"
        )
    capacities = check_channels(conversion, schedule)
    lifetimes = trace_lifetimes(order, phased.buffers)
    limits = row_limits(conversion, phased.sharing, capacities)
    check_buffers(phased.buffers, lifetimes, limits)
    return Candidate(phased, schedule.policy, order).plan()
