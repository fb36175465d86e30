"""How does a stream become C? As the program of an image whose middle repeats, and behind it what images of other heights do at
their ends.

Numbers that depend on how many rows there were, as the divisors of means, are found by lowering an end for several heights:
each must be a multiple of the rows, or a number divided by them, which C then computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from math import nan
from typing import Any

import numpy as np

from csdfgen.backends.native.structures import kernel_structure, list_slots
from csdfgen.emission.names import TYPES
from csdfgen.emission.order import Lowered, Place, Templates, lower_plans
from csdfgen.errors import CsdfgenError, PlanError
from csdfgen.lowering.program import Alike
from csdfgen.ops import get_operator
from csdfgen.planning.buffers import ARENA
from csdfgen.planning.plan import Plan
from csdfgen.planning.streams import StreamPlan, count_held
from csdfgen.program.instructions import KEEPER, WEIGHTS, Constants, Instruction, Once, Ref
from csdfgen.program.steps import Backend, Step


def lower_passes(plan: StreamPlan, kernels: Backend) -> list[tuple[Lowered, Templates]]:
    """Each pass over all rows, with constants that they share. Raises as `lower_stream`."""
    passes = *plan.earlier, plan
    constants = Constants({ARENA: max(one.planned_bytes for one in passes)})
    return [lower_stream(one, kernels, constants) for one in passes]


def lower_stream(
    plan: StreamPlan, kernels: Backend, constants: Constants
) -> tuple[Lowered, Templates]:
    """The main program, and where it repeats and ends: behind a multiple of the rows of a period.

    Raises what lowering raises; PlanError for a network that takes no image whose rows are such a multiple, or whose results
    depend on how many rows there were in a way that C does not compute.
    """
    ends, turn = plan.period, plan.turn
    fires_once = {*plan.loop.before} - {*plan.loop.word}
    holds = plan.counts_rows or any(get_operator(one).held(one) for one in plan.network.layers)
    begins = ends * bool(fires_once or holds)
    first = begins + -(-plan.first // ends) * ends  # behind the firings that begin states
    rows = -(-plan.least // ends) * ends + begins + ends + turn
    main = plan.ending(rows, rows)
    held = count_held(main)
    low = -(-(first + held) // ends) * ends
    found = _list_plans(plan, range(ends, low, ends))
    found |= _list_ends(plan, range(low, max(low, plan.least) + turn, ends))
    if not found:
        raise PlanError(f"no image of a multiple of {ends} rows is one that the network takes")
    feeds = [_count_feeds(one, held) for one in found.values()]
    alike = None if plan.counts_rows else Alike()
    plans = [main, *found.values()]
    program, *programs = lower_plans(plans, kernels, [0, *feeds], alike, constants)
    endings = dict(zip(found, programs, strict=True))
    counted = _find_counted(plan, max(found), kernels) if plan.counts_rows else {}
    return program, Templates(first, turn, ends, held, endings, counted)


def _list_plans(plan: StreamPlan, heights: Sequence[int]) -> dict[int, Plan]:
    """The plans of images, by their rows; of heights that the network takes."""
    found = {}
    for rows in heights:
        with suppress(CsdfgenError):
            found[rows] = plan.ending(rows, rows)
    return found


def _list_ends(plan: StreamPlan, heights: range) -> dict[int, Plan]:
    """Plans by which images of these heights end, once for each place in a turn: the lowest one that the network takes with the
    places of others, as none of their last firings reaches rows in front of the image.
    """
    step, taken, found = plan.aligned * plan.period, set[int](), dict[int, Plan]()
    for low in heights:
        if low % step not in taken:
            alike = range(low, min(low + plan.turn, heights.stop), step)
            with suppress(CsdfgenError):
                found |= zip(alike, plan.endings(low, alike), strict=True)
                taken.add(low % step)
    return found


def _count_feeds(plan: Plan, held: int) -> int:
    """How many firings feed rows of the first input, but for so many rows at the end."""
    first, work = plan.network.inputs[0], plan.conversion.actor
    stops = [
        work[name].phases[number].out.stop
        for name, number in plan.order
        if work[name].kind == "input" and work[name].writes[0].tensor.name == first.name
    ]
    return sum(stop <= first.rows - held for stop in stops)


def _find_counted(plan: StreamPlan, rows: int, kernels: Backend) -> dict[Place, Mapping[int, str]]:
    """The numbers of all rows in the ends of images that are lowered as a template of so many rows, by the place of their
    instruction and their slot, as expressions of C. Raises PlanError for others than multiples and quotients.
    """
    heights = [rows + turns * plan.turn for turns in (0, 1, 2, 5)]
    plans, found = [plan.ending(rows, height) for height in heights], {}
    programs = [one.program for one in copy_context().run(_lower_once, plans, kernels)]
    for at, step in enumerate(programs[0].firings):
        count = len(programs[0].code[at]) if isinstance(step, Step) else 0
        for number in range(count):
            some = [one.instructions[one.code[at][number]] for one in programs]
            texts = dict(_list_texts(some, programs[0].constants, heights))
            if "" in texts.values():
                raise PlanError(
                    f"layer '{plans[0].order[at][0]}' uses a number of all rows that emitted code does not compute; cut the "
                    "network in front of it, and reduce the rows that the sink takes"
                )
            found[plans[0].order[at][0], some[0].kernel, count - number] = texts
    return {place: texts for place, texts in found.items() if texts}


def _lower_once(plans: Sequence[Plan], kernels: Backend) -> list[Lowered]:
    """Programs with equal weights in one place."""
    KEEPER.set(Once())
    return lower_plans(plans, kernels)


def _list_texts(
    some: Sequence[Instruction], constants: Constants, heights: Sequence[int]
) -> Iterator[tuple[int, str]]:
    """Slots in which one instruction differs between heights, and what is in them in C; "" where that is not known."""
    slots = kernel_structure(some[0].kernel).slots if len(set(some)) > 1 else ()
    for number, (slot, *values) in enumerate(zip(slots, *map(list_slots, some), strict=False)):
        if len({constants.describe(one) if slot.pointer else one for one in values}) > 1:
            word, numbers = slot.type, values
            if slot.pointer:
                double = some[0].kernel.endswith("_f64")
                floats = np.dtype(np.float64 if double else np.float32)
                word = TYPES[floats.name] if values[0].pool == WEIGHTS else "int32_t"
                numbers = [_read(one, constants, floats) for one in values]
            yield number, _find_formula(word, numbers, heights)


def _read(ref: Ref, constants: Constants, floats: np.dtype[Any]) -> float:
    """The only number of a table, or of an array of such numbers; NaN for others."""
    if ref.pool == WEIGHTS:
        values = constants.block(ref.offset).values
        return float(values.view(floats)[0]) if values.size == floats.itemsize else nan
    rows = constants.rows_of(ref)
    return rows[0] if ref.pool == "int32_t" and len(rows) == 1 else nan


def _find_formula(word: str, values: Sequence[float], heights: Sequence[int]) -> str:
    """Numbers as a multiple of heights, or as float32 divided by them, in C; "" if they are neither."""
    each = list(zip(values, heights, strict=True))
    if len({one / height for one, height in each}) == 1:
        return f"({word})({values[0] / heights[0]!r} * ALL_ROWS)"
    products = [one * height for one, height in each]
    # in their middle, as each was rounded to float32, in two steps at most
    above = (min(products) + max(products)) / 2
    near = all(abs(above / one - 1) <= 2.0**-23 for one in products)
    return f"({word})({above!r} / ALL_ROWS)" if near else ""
