"""Which throughput does a graph reach if every phase is periodic?

In a 1-periodic schedule the n-th firing of a phase starts at s + n * period of its actor (Benazouz et al., "A
new method for minimizing buffer sizes for cyclo-static dataflow graphs", 2010; Bodin et al. 2013).
Its system has one event per phase instead of one per firing. It gives a lower bound of the throughput, and a proof
that a graph is live, for iterations of any length.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from math import gcd, lcm
from typing import Any

import numpy as np

from schedules.cycle_ratio import NoPeriodError, maximum_cycle_ratio
from schedules.links import Component, Link
from schedules.precedence import Lines, is_serial_link

Array = Any

_MAX_PAIRS = 20_000_000
"""Most pairs of phases that are considered for one link."""


def one_periodic_time(
    times: Sequence[Sequence[int]], quota: Sequence[int], component: Component
) -> Fraction | None:
    """Least time per iteration of the 1-periodic schedules of a component; None if it has none, or too many pairs of
    phases.
    """
    rounds = {actor: quota[actor] // len(times[actor]) for actor in component.actors}
    totals = {link: sum(link.production) * rounds[link.source] for link in component.links}
    scale = lcm(*totals.values(), *rounds.values())
    lines = Lines()
    laps = {actor: scale // count for actor, count in rounds.items()}
    lines.add_actors(component, lambda actor: _column(times[actor]), laps)
    for number, link in enumerate(component.links):
        if is_serial_link(link):
            continue
        pairs = _pairs(link)
        if pairs is None:
            return None
        source, target, lead = pairs
        weight = _column(times[link.source])[source]
        delay = -lead.astype(object) * (scale // totals[link])
        first = lines.first
        lines.tie(first[link.source] + source, first[link.target] + target, weight, delay, number)
    system = lines.system()
    try:
        return maximum_cycle_ratio(system).ratio * scale
    except NoPeriodError:
        return None


def _column(values: Sequence[int]) -> Array:
    return np.array(values, dtype=object)


def _pairs(link: Link) -> tuple[Array, Array, Array] | None:
    """Pairs of a source phase and a target phase with dependent firings, and the largest lead of the source in tokens.

    The target phase never starts before the source phase has ended, shifted by this lead of a steady flow. All pairs in
    which the source produces count, not only neighbours, as tokens arrive in the order of firings.
    """
    produced = np.array([0, *accumulate(link.production)], dtype=object)
    consumed = np.array([0, *accumulate(link.consumption)], dtype=object)
    sources = np.flatnonzero(np.diff(produced))
    targets = np.flatnonzero(np.diff(consumed))
    if len(sources) * len(targets) > _MAX_PAIRS:
        return None
    step = gcd(int(produced[-1]), int(consumed[-1]))
    lead = (
        (consumed[targets + 1][None, :] - link.tokens - produced[sources][:, None] - 1)
        // step
        * step
    )
    source, target = np.indices(lead.shape).reshape(2, -1)
    return sources[source], targets[target], lead.ravel()
