"""What can a network be run from? A plan with its arena, or a schedule of the graph that was made
from the network.

A plan (`plan_json`) is taken as it is. A schedule (`schedules.schedule`, written by `csdfgen
analyze GRAPH -o` and
`csdfgen schedule GRAPH -o`) brings firings and the capacities that they keep; its arena is made
here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from csdfgen.dataflow import graph_json
from csdfgen.errors import CsdfgenError, PlanError
from csdfgen.files import Fields, load_json, quoted
from csdfgen.model.network import Network
from csdfgen.model.options import CONVERSION
from csdfgen.native.backends import AUTO
from csdfgen.phases.conversion import MAX_PHASES
from csdfgen.planning import plan_file, plan_table
from csdfgen.planning.plan import Plan
from csdfgen.planning.plan_file import PlanFile, to_plan
from csdfgen.planning.planner import plan_from_schedule
from schedules import schedule as schedule_json
from schedules import starts
from schedules.schedule import Schedule

__all__ = ["SavedPlan", "read_saved"]


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan or a schedule from a file, before it is held against a network.

    model: file name of the network that it was made for; inputs and batch: as it is to be loaded. of_table:
    whether it is one of several plans in its file.
    """

    where: str
    model: str
    batch: int
    inputs: Mapping[str, tuple[int, ...]]
    options: Mapping[str, str]
    content: PlanFile | Schedule
    of_table: bool = False

    def plan(self, network: Network, backend: str = AUTO) -> Plan:
        """The plan for the network, loaded with `inputs`. backend: of the schedule of a graph, which
        has no scratch yet; a plan has that of its own.

        Raises what `plan_file.to_plan` and `pipeline.plan_from_schedule` raise, with the file's
        name in front.
        """
        if isinstance(self.content, PlanFile):
            return to_plan(self.content, network)
        try:
            return plan_from_schedule(network, self.content, backend)
        except CsdfgenError as error:
            raise error.at(self.where) from None


def read_saved(path: str | os.PathLike[str], memory: int = 0, images: int = 0) -> SavedPlan:
    """Read a plan or a schedule of a network. Raises InputError, PlanError, ScheduleError, one line
    each.

    memory, images: which plan of a table of plans: the fastest of at most so many bytes, of so many images; 0
    for any.
    """
    where = str(path)
    data = load_json(path)
    fields = Fields(data, where, PlanError)
    form = fields.text("format")
    if form == schedule_json.FORMAT:
        return _of_schedule(where, schedule_json.from_json(data, where, MAX_PHASES))
    if form in (plan_file.FORMAT, plan_table.FORMAT):
        table = form == plan_table.FORMAT
        plan = (
            plan_table.table_from_json(data, where).chosen(memory, images)
            if table
            else plan_file.from_json(data, where)
        )
        options = {name: getattr(plan.options, name) for name in CONVERSION}
        return SavedPlan(
            where, plan.model, plan.batch, plan.inputs, MappingProxyType(options), plan, table
        )
    hint = (
        "; csdfgen schedule GRAPH -o PLAN.json makes a plan of a graph"
        if form == graph_json.FORMAT
        else ""
    )
    hint = "; csdfgen schedule without --periodic writes one" if form == starts.FORMAT else hint
    raise fields.fault(
        f"'format' is {quoted(form)}; '{plan_file.FORMAT}' or '{schedule_json.FORMAT}' is needed{hint}"
    )


def _of_schedule(where: str, schedule: Schedule) -> SavedPlan:
    origin = schedule.origin
    if origin is None:
        raise PlanError(
            f"is a schedule of graph {quoted(schedule.graph_name)}, which does not say from which network it was made; make the "
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
    )
