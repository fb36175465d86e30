"""In how many ways is a case tried? In a few, chosen so that values meet that have not met before, or in many.

A law holds for hundreds of samples at every height, in every layout, on every backend: a product of many thousands.
Most faults show at one value, or where two meet: an attribute and a layout, a height and a backend. Each case therefore
runs in a few ways, each the one of several drawn ones in which most pairs of values are new for its group (as in AETG,
Cohen et al. 1997). `make test-more` sets `CSDFGEN_TESTS=more`, and tries each case in many ways. Which cases run at
all is the matter of `tests.tiers`.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain, combinations, product
from random import Random
from typing import Any

__all__ = ["ALL", "some", "ways"]

ALL = os.environ.get("CSDFGEN_TESTS") == "more"
"""Whether everything is tested, which takes hours."""

OF_A_GROUP = 8
"""Ways in which a group is tried at least, however few cases it has."""

MORE = 8
"""Times as many ways where everything is tested."""

DRAWN = 50
"""Ways among which the best is chosen."""


def some(few: int, many: int) -> int:
    """How many are tried: `many` where everything is tested."""
    return many if ALL else few


def ways(
    cases: Sequence[Sequence[Hashable]], axes: Mapping[str, Sequence[Any]], each: int = 1
) -> list[list[tuple[Any, ...]]]:
    """The ways in which each case is tried: at least `each` combinations of a value of every axis.

    cases: the values of each case. The first is its group, within which pairs are to meet.

    >>> two = {"rows": (1, 2), "backend": ("numpy", "native")}
    >>> len({way for found in ways([["Conv", "pads"]] * 8, two) for way in found})
    4
    >>> ways([["Conv"], ["Relu"], ["Relu"]], two)[0]
    [(1, 'numpy'), (1, 'native'), (2, 'numpy'), (2, 'native')]
    """
    known = list(product(*axes.values()))
    places = [list(enumerate(one)) for one in product(*(range(len(v)) for v in axes.values()))]
    every = set(chain(*places))
    bit = {
        pair: 1 << k for k, pair in enumerate(set(chain(*(combinations(one, 2) for one in places))))
    }
    pairs = [sum(bit[pair] for pair in combinations(one, 2)) for one in places]
    size = Counter(values[0] for values in cases)
    met: dict[Hashable, int] = defaultdict(int)  # bits of pairs of places
    beside: dict[Hashable, set[Hashable]] = defaultdict(set)  # (value, place)
    tried: Counter[tuple[Hashable, int]] = Counter()
    found = []
    for group, *own in cases:
        count = min(len(known), some(1, MORE) * max(each, -(-OF_A_GROUP // size[group])))
        rng, chosen = Random(len(found)), set[int]()
        while len(chosen) < count < len(known):
            others = [k for k in range(len(known)) if k not in chosen]
            drawn = sorted(rng.sample(others, min(DRAWN, len(others))))
            new = {p: sum((value, p) not in beside[group] for value in own) for p in every}
            there = ~met[group]
            gain = {
                k: (pairs[k] & there).bit_count() + sum(new[p] for p in places[k]) for k in drawn
            }
            best = max(drawn, key=lambda k: (gain[k], -tried[group, k]))
            met[group] |= pairs[best]
            beside[group].update(product(own, places[best]))
            tried[group, best] += 1
            chosen.add(best)
        found.append([one for k, one in enumerate(known) if count == len(known) or k in chosen])
    return found
