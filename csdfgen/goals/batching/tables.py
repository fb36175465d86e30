"""Which plans are worth a place in a table? One for every number of images and budget that is asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from csdfgen.devices.model import estimate
from csdfgen.errors import PlanError
from csdfgen.goals.batching.choice import Chooser, OneImage, of_requests
from csdfgen.goals.heights import predicting
from csdfgen.goals.search import Progress
from csdfgen.planning.plan_table import Entry, PlanTable
from csdfgen.planning.prepared import Prepared

__all__ = ["tabled"]


def tabled(
    prepared: Prepared,
    requests: Sequence[int],
    budgets: Sequence[int],
    one_image: OneImage,
    progress: Progress | None = None,
) -> PlanTable:
    """Plans for all these numbers of images in all these budgets (bytes; 0 for any), each once; for one image
    too, so that any number can be made up of them. A number that a budget is too small for is left out of it.

    Raises PlanError where not even one image fits the smallest budget, and what `plan_for_request` raises.
    """
    options = prepared.options
    profile = predicting(options, prepared.kernels)
    single = prepared.for_images(1)
    alone = replace(options, batching="", result="stored", frames=1)
    choosers = []
    for images in sorted({*requests} - {1}):
        of_requests(single.network, images)
        several = single.for_images(images, lifted=True)
        asked = replace(options, frames=images)
        choosers.append(Chooser(replace(several, options=asked), one_image, progress))
    found: dict[tuple[int, int, float], Entry] = {}
    for budget in sorted(budgets, key=lambda size: size or float("inf")):
        plans = [one_image(replace(single, options=replace(alone, memory=budget)))]
        if not found:  # no more than it needs: whatever fits for several images, one image does
            rows = plans[0].options.rows
            plans.append(one_image(replace(single, options=replace(alone, rows=rows))))
        made = [Entry(plan, estimate(plan, profile).seconds) for plan in plans]
        for chooser in choosers:
            with contextlib.suppress(PlanError):
                made.append(chooser.best(budget))
        for entry in made:
            found.setdefault((entry.images, entry.plan.planned_bytes, entry.seconds), entry)
    return PlanTable(tuple(found.values()), profile.name)
