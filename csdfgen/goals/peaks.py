"""Which layers get lower slabs because the peak needs them to?

The default gives every layer about 64 pixels a phase, so that small maps are whole. Where such a plan saves little, the
layers that work or hold rows while nearly as many bytes are alive as at the peak get half their heights, again and
again; all others keep theirs. The bytes of these heights are lower bounds of peaks, as in `goals.heights`. The heights
with the least bytes * seconds^2 become a plan.

The search for the order of a plan proves higher bounds than those that its heights were chosen by. Where these would not
have been chosen by it, the heights of `auto` become a plan, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from csdfgen.devices.model import find_rule
from csdfgen.devices.work import DEPTHWISE, kernel_class
from csdfgen.goals.heights import TIME, Predicted, weigh_beside, weigh_plan
from csdfgen.phases.conversion import Conversion
from csdfgen.phases.heights import halve_heights
from csdfgen.planning.lifetimes import peak_live, trace_lifetimes, trace_live_bytes
from csdfgen.planning.ordering import Order
from csdfgen.planning.plan import Plan
from csdfgen.planning.prepared import Phased

ENOUGH = 5.0
"""Plans that take this part of the memory of whole layers or less keep their heights."""

PEAKS = 0.95, 0.8, 0.6
"""Parts of the peak from which on bytes alive count as a peak, as blocks of a network repeat, and so do their peaks: each
as long as it lowers the bound by `LITTLE` or more.
"""

LITTLE = 0.03

STEPS = 6
"""Times that heights are halved at most."""

FIRINGS = 2_000
"""Firings above which no other heights are tried: planning takes too long."""

HEAVY = 1 << 19
"""Bytes of weights that do not stay in the near caches until the next phase."""

SMALL = 1 << 16
"""Bytes of weights above which the algorithm of a convolution matters."""

LIGHT = 1 / 3
"""Measured over predicted seconds of further phases of layers with fewer weights: the model reads them from memory in
every phase (medians of six networks: -0.1 to 0.4).
"""

SLOWER = 1.075
"""Seconds may grow by this factor."""

GAIN = 0.95
"""Lower slabs are worth a plan whose bytes * seconds^2 are at most this part of those before."""


@dataclass(frozen=True, slots=True)
class Lower:
    """The network cut into phases with lower slabs at the peak. time: of a frame, relative to the heights before."""

    phased: Phased
    time: float

    def better(self, low: Plan, usual: Plan) -> bool:
        """Whether bytes * seconds^2 decrease by enough."""
        return self.time**TIME * weigh_plan(low) <= GAIN * weigh_plan(usual)


def lower_peak(plan: Plan, predicted: Predicted) -> Lower | None:
    """The heights of `auto` for a plan of others that would not have been chosen by the bound that is proved for it."""
    auto = predicted.at(predicted.general)
    if plan.conversion.rows == auto.conversion.rows or len(plan.order) > FIRINGS:
        return None
    time = predicted.frame(auto.conversion) / predicted.frame(plan.conversion)
    beside = weigh_beside(plan.network, plan.options)
    disproved = plan.figures["lower_bound"] + beside >= time**TIME * (auto.rough_bound + beside)
    return Lower(auto, time) if disproved else None


def lower(plan: Plan, predicted: Predicted) -> Lower | None:
    """Lower slabs for a plan; None if it saves enough as it is, or the gain is small."""
    usual = predicted.frame(plan.conversion)
    if not usual or plan.figures["whole_layer_live"] >= ENOUGH * plan.total_bytes:
        return None
    phased, order = predicted.at(str(plan.conversion.rows)), plan.order
    peak, steady, before = (
        plan.figures["peak_live"],
        _steady(predicted),
        _longer(plan.conversion, predicted),
    )
    # bounds are compared with what is proved: the peak of an order may be far above both
    beside = weigh_beside(plan.network, plan.options)
    best, bound, taken = GAIN * (plan.figures["lower_bound"] + beside), peak, None
    parts = iter(PEAKS)
    part = next(parts)
    for _ in range(STEPS):
        spec = phased.conversion.rows
        low = halve_heights(spec, plan.network, _at_peak(phased, order, part) - steady)
        tried = predicted.at(str(low))
        time = max(1.0, 1 + (_longer(tried.conversion, predicted) - before) / usual)
        if low == spec or time > SLOWER or len(tried.on_demand) > FIRINGS:
            break
        cost = time**TIME * (tried.rough_bound + beside)
        if cost <= best:
            best, taken = cost, Lower(tried, time)
        if tried.rough_bound <= (1 - LITTLE) * bound:
            phased, order, bound = tried, tried.on_demand, tried.rough_bound
        else:
            part = next(parts, 0.0)
            if not part:
                break
    return taken


def fit_whole_layers(plan: Plan, predicted: Predicted, part: float = 1.0) -> str | None:
    """Heights of a plan that takes more memory than whole layers, halved where it does until the rows alive would take no
    more than this part of what whole layers do; None if they cannot be, or planning would take too long.
    """
    phased, order = predicted.at(str(plan.conversion.rows)), plan.order
    limit = part * (plan.figures["whole_layer_live"] - plan.figures["outputs"])
    for _ in range(STEPS):
        peak = peak_live(trace_lifetimes(order, phased.buffers), phased.scratch, order)
        spec = phased.conversion.rows
        low = halve_heights(spec, plan.network, _at_peak(phased, order, min(1.0, limit / peak)))
        phased = predicted.at(str(low))
        order = phased.on_demand
        if low == spec or len(order) > FIRINGS:
            return None
        if phased.rough_bound <= limit:
            return str(low)
    return None


def _at_peak(phased: Phased, order: Order, part: float) -> set[str]:
    """Names of the layers and inputs that work, or write or read rows that are alive, in firings of an order with at
    least this part of the peak.
    """
    lifetimes = trace_lifetimes(order, phased.buffers)
    live = trace_live_bytes(lifetimes, phased.scratch, order)
    near = np.flatnonzero(live >= part * live.max())
    actors = {order[at][0] for at in near}
    for buffer, rows in zip(phased.buffers, lifetimes.each, strict=True):
        if (np.searchsorted(near, rows.gone) > np.searchsorted(near, rows.born)).any():
            actors.update(access.actor for access in (*buffer.writers, *buffer.readers))
    return {phased.conversion.actor[actor].asked_by for actor in actors}


def _longer(conversion: Conversion, predicted: Predicted) -> float:
    """Seconds of a frame that differences of heights are compared by: fewer than predicted for layers with few weights."""
    return sum(
        predicted.of(work) * (1.0 if work.layer and work.layer.parameter_bytes > HEAVY else LIGHT)
        for work in conversion.actors
    )


def _steady(predicted: Predicted) -> frozenset[str]:
    """Layers that keep their heights, as the profile says too little of lower ones: those with many weights without a
    cost, and convolutions of stride 1, whose algorithms (Winograd's) take several rows at a time.
    """
    found = []
    for layer in predicted.prepared.network.layers:
        rule, strides = find_rule(predicted.profile, layer), layer.attributes.get("strides", (1,))
        tiled = kernel_class(layer) not in ("", "1x1", DEPTHWISE) and set(strides) == {1}
        unpriced = rule is not None and rule.weights is None
        if layer.parameter_bytes > (SMALL if tiled else HEAVY) and (tiled or unpriced):
            found.append(layer.name)
    return frozenset(found)
