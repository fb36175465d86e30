"""How does a stream become C? As the program of an image whose middle repeats, and behind it what images of other heights do at
their ends.
"""

from __future__ import annotations

from csdfgen.emission.order import Lowered, Templates, lower_plans
from csdfgen.errors import CsdfgenError, PlanError
from csdfgen.ops import get_operator
from csdfgen.ops.base import Mode
from csdfgen.planning.plan import Plan
from csdfgen.planning.streams import StreamPlan
from csdfgen.program.steps import Backend


def lower_stream(plan: StreamPlan, kernels: Backend) -> tuple[Lowered, Templates]:
    """The main program, and where it repeats and ends: behind a multiple of the rows of a period.

    Raises what lowering raises; PlanError for a network that takes no image whose rows are such a multiple, or whose results
    depend on how many rows there were.
    """
    for layer in plan.network.layers:
        if get_operator(layer).mode(layer) is Mode.ACCUMULATE:
            raise PlanError(
                f"layer '{layer.name}' gives its result behind the last row, and emitted code holds no rows back until it is "
                "known which one that is; cut the network in front of it, and reduce the rows that the sink takes"
            )
    ends, turn = plan.period, plan.turn
    begins = ends * any(get_operator(layer).held(layer) for layer in plan.network.layers)
    first = begins + -(-plan.first // ends) * ends  # behind the firings that begin states
    least = plan.least + begins
    plans = {rows: _plan(plan, rows) for rows in range(ends, least + turn, ends)}
    found = {rows: one for rows, one in plans.items() if one is not None}
    if not found:
        raise PlanError(f"no image of a multiple of {ends} rows is one that the network takes")
    main = plan.at(-(-(least + 2 * turn) // ends) * ends)
    program, *programs = lower_plans([main, *found.values()], kernels)
    return program, Templates(first, turn, ends, dict(zip(found, programs, strict=True)))


def _plan(plan: StreamPlan, rows: int) -> Plan | None:
    """The plan of an image; None for a height that the network does not take."""
    try:
        return plan.at(rows)
    except CsdfgenError:
        return None
