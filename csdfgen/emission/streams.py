"""How does a stream become C? As the program of an image whose middle repeats, and behind it what images of other heights do at
their ends.
"""

from __future__ import annotations

from csdfgen.emission.order import Lowered, Templates, lower_plans
from csdfgen.errors import CsdfgenError, PlanError
from csdfgen.planning.plan import Plan
from csdfgen.planning.streams import StreamPlan
from csdfgen.program.steps import Backend


def lower_stream(plan: StreamPlan, kernels: Backend) -> tuple[Lowered, Templates]:
    """The main program, and where it repeats and ends: behind a multiple of the rows of a period.

    Raises what lowering raises; PlanError for a network that takes no image whose rows are such a multiple, or whose results
    depend on how many rows there were.
    """
    if plan.counts_rows:
        raise PlanError(
            "emitted code does not know how many rows a mean is of when a stream ends; cut the network in front of layers that "
            "reduce all rows"
        )
    ends, turn = plan.period, plan.turn
    first = -(-plan.first // ends) * ends
    plans = {rows: _plan(plan, rows) for rows in range(ends, plan.least + turn, ends)}
    found = {rows: one for rows, one in plans.items() if one is not None}
    if not found:
        raise PlanError(f"no image of a multiple of {ends} rows is one that the network takes")
    main = plan.at(-(-(plan.least + 2 * turn) // ends) * ends)
    program, *programs = lower_plans([main, *found.values()], kernels)
    return program, Templates(first, turn, ends, dict(zip(found, programs, strict=True)))


def _plan(plan: StreamPlan, rows: int) -> Plan | None:
    """The plan of an image; None for a height that the network does not take."""
    try:
        return plan.at(rows)
    except CsdfgenError:
        return None
