"""How much time per iteration does the slowest cycle take? The exact maximum cycle ratio.

Howard's policy iteration (Cochet-Terrasson et al., "Numerical computation of spectral elements in max-plus algebra",
1998; for ratios: Dasdan, "Experimental analysis of the fastest optimum cycle ratio and mean algorithms", 2004), on
integers: with the ratio of the best cycle so far as a fraction p/q, potentials are sums of weight * q - delay * p. The
potentials prove the result, as no constraint is left that would raise one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np

from schedules.precedence import Precedence

Array = Any

Ratio = Fraction | float
"""A ratio of weight to delay; infinity for time without delay."""

_WORD = 2**61


@dataclass(frozen=True, slots=True)
class CycleRatio:
    """The largest ratio of weight to delay over all cycles, a cycle with this ratio (its constraints in order), and
    the proof.

    potentials[head] >= potentials[tail] + weight * ratio.denominator - delay * ratio.numerator for
    every constraint.
    """

    ratio: Fraction
    cycle: tuple[int, ...]
    potentials: Array


class NoPeriodError(ValueError):
    """A cycle has no delay, so that no ratio satisfies all constraints."""


def maximum_cycle_ratio(system: Precedence) -> CycleRatio:
    """The maximum cycle ratio of a strongly connected system.

    Raises NoPeriodError for a cycle of negative delay, or of weight without delay; the expansion of
    a live component has none.
    """
    found = _iterate(system, None)
    assert isinstance(found, CycleRatio)
    return found


def cycles_above(
    system: Precedence, too_long: Callable[[Ratio], bool]
) -> CycleRatio | list[tuple[Ratio, tuple[int, ...]]]:
    """Some cycles whose ratio is too long; the maximum cycle ratio if there are none.

    The ratio is infinite where time passes without a delay; `too_long` must hold for such cycles. Raises
    NoPeriodError for a cycle of negative delay.
    """
    return _iterate(system, too_long)


def _iterate(
    system: Precedence, too_long: Callable[[Ratio], bool] | None
) -> CycleRatio | list[tuple[Ratio, tuple[int, ...]]]:
    """Policy iteration, which ends without an improvement, or with cycles that are too long."""
    policy = system.order.copy()
    starts = np.searchsorted(system.head, np.arange(system.size))
    best: Fraction | None = None
    cycle: tuple[int, ...] = ()
    while True:
        closed = _closed_cycles(system, policy)
        if too_long is not None:
            above = [
                (ratio, _follow(system, policy, event))
                for ratio, event in closed
                if too_long(ratio)
            ]
            if above:
                return above
        ratio, event = max(closed, key=lambda one: one[0])
        if not isinstance(ratio, Fraction):
            raise NoPeriodError("a cycle takes time without a delay")
        if best is None or ratio > best:
            best, cycle = ratio, _follow(system, policy, event)
            _reach(system, policy, cycle)
        values = constraint_values(system, best)
        potentials = policy_values(system, policy, int(system.head[cycle[0]]), values)
        if not improve_policy(system, policy, potentials, values, starts):
            return CycleRatio(best, cycle, potentials)


def improve_policy(
    system: Precedence,
    policy: Array,
    potentials: Array,
    values: Array,
    starts: Array,
    root: int = -1,
) -> bool:
    """Let the policy take the constraints that raise potentials most; whether there are any.

    values: of the constraints; starts: first constraint of each event; root: an event whose potential stays, if any.
    """
    candidates = potentials[system.tail] + values
    largest = np.maximum.reduceat(candidates, starts)
    better = largest > potentials
    if root >= 0:
        better[root] = False
    chosen = np.flatnonzero((candidates == largest[system.head]) & better[system.head])
    policy[system.head[chosen]] = chosen
    return len(chosen) > 0


def _closed_cycles(system: Precedence, policy: Array) -> list[tuple[Ratio, int]]:
    """The ratio of every cycle of the policy, and an event on it."""
    pointer, leader = system.tail[policy], np.arange(system.size)
    for _ in range(int(system.size).bit_length()):
        leader = np.minimum(leader, leader[pointer])
        pointer = pointer[pointer]
    on_cycle = np.zeros(system.size, dtype=bool)
    on_cycle[pointer] = True
    events = np.flatnonzero(on_cycle)
    leaders, cycle = np.unique(leader[events], return_inverse=True)
    weights, delays = (
        np.zeros(len(leaders), dtype=system.weight.dtype),
        np.zeros(len(leaders), dtype=system.delay.dtype),
    )
    np.add.at(weights, cycle, system.weight[policy[events]])
    np.add.at(delays, cycle, system.delay[policy[events]])
    found: list[tuple[Ratio, int]] = []
    for event, weight, delay in zip(
        leaders.tolist(), weights.tolist(), delays.tolist(), strict=True
    ):
        if delay < 0:
            raise NoPeriodError(f"a cycle takes {weight} with a delay of {delay}")
        found.append((inf if weight and not delay else Fraction(weight, delay or 1), event))
    return found


def _follow(system: Precedence, policy: Array, start: int) -> tuple[int, ...]:
    """The cycle of constraints of the policy through an event, in order."""
    found = [int(policy[start])]
    event = int(system.tail[found[0]])
    while event != start:
        found.append(int(policy[event]))
        event = int(system.tail[found[-1]])
    return tuple(reversed(found))


def _reach(system: Precedence, policy: Array, cycle: tuple[int, ...]) -> None:
    """Change the policy so that it leads from every event to the cycle."""
    before = system.tail[policy]
    on_cycle = np.zeros(system.size, dtype=bool)
    on_cycle[system.head[list(cycle)]] = True
    pointer = np.where(on_cycle, np.arange(system.size), before)
    for _ in range(int(system.size).bit_length()):
        pointer = pointer[pointer]
    reaching = on_cycle[pointer]
    if reaching.all():
        return
    lines = int(system.line[-1]) + 1
    known = np.zeros(lines, dtype=bool)
    known[system.line[reaching]] = True
    partly = ~reaching & known[system.line]
    policy[partly] = system.order[partly]
    from_line, to_line = system.line[system.tail], system.line[system.head]
    crossing = np.flatnonzero((from_line != to_line) & ~known[to_line])
    _, one = np.unique(from_line[crossing] * lines + to_line[crossing], return_index=True)
    arrows: dict[int, list[int]] = {}
    for edge in crossing[one].tolist():
        arrows.setdefault(int(from_line[edge]), []).append(edge)
    waiting = np.flatnonzero(known).tolist()
    for line in waiting:  # breadth first: the list grows in the loop
        for edge in arrows.get(line, ()):
            target = int(to_line[edge])
            if not known[target]:
                known[target] = True
                waiting.append(target)
                members = system.line == target
                policy[members] = system.order[members]
                policy[system.head[edge]] = edge


def constraint_values(system: Precedence, ratio: Fraction) -> Array:
    """weight * q - delay * p of all constraints, in machine words if their sums fit."""
    most = max(
        int(system.weight.max()) * ratio.denominator, int(abs(system.delay).max()) * ratio.numerator
    )
    if most * system.size < _WORD:
        return system.weight.astype(np.int64) * ratio.denominator - system.delay * ratio.numerator
    return (
        system.weight.astype(object) * ratio.denominator
        - system.delay.astype(object) * ratio.numerator
    )


def policy_values(system: Precedence, policy: Array, root: int, values: Array) -> Array:
    """The value of the path of the policy from one event to every event."""
    pointer = system.tail[policy]
    pointer[root] = root
    total = values[policy]
    total[root] = 0
    for _ in range(int(system.size).bit_length()):
        total = total + total[pointer]
        pointer = pointer[pointer]
    return total
