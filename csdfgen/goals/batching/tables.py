"""Which plans are worth a place in a table? One for every number of images and budget that is asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from csdfgen.devices.model import estimate
from csdfgen.errors import PlanError
from csdfgen.goals.batching.choice import Chooser, of_requests
from csdfgen.goals.search import Planner, Progress
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.planning.plan_table import Entry, PlanTable
from csdfgen.planning.planner import check_network, several
from csdfgen.tuning.use import predicting

__all__ = ["tabled"]


def tabled(
    network: Network,
    options: PlanOptions,
    requests: Sequence[int],
    budgets: Sequence[int],
    one_image: Planner,
    progress: Progress | None = None,
) -> PlanTable:
    """Plans for all these numbers of images in all these budgets (bytes; 0 for any), each once; for one image
    too, so that any number can be made up of them. A number that a budget is too small for is left out of it.

    Raises PlanError where not even one image fits the smallest budget, and what `plan_for_request` raises.
    """
    profile = predicting(options)
    check_network(network)
    single = several(network, 1)
    alone = replace(options, batching="", result="stored", frames=1)
    choosers = {
        images: Chooser(
            of_requests(single, images), replace(options, frames=images), one_image, progress
        )
        for images in sorted({*requests} - {1})
    }
    found: dict[tuple[int, int, float], Entry] = {}
    for budget in sorted(budgets, key=lambda size: size or float("inf")):
        plans = [one_image(single, replace(alone, memory=budget))]
        if not found:  # no more than it needs: whatever fits for several images, one image does
            plans.append(one_image(single, replace(alone, rows=plans[0].options.rows)))
        made = [Entry(plan, estimate(plan, profile).seconds) for plan in plans]
        for chooser in choosers.values():
            with contextlib.suppress(PlanError):
                made.append(chooser.best(budget))
        for entry in made:
            found.setdefault((entry.images, entry.plan.planned_bytes, entry.seconds), entry)
    return PlanTable(tuple(found.values()), profile.name)
