"""Which branches of Ifs did frames take? Name of an If -> for how many images its condition was true, and false."""

from __future__ import annotations

from collections.abc import Mapping

Branches = Mapping[str, tuple[int, int]]


def count_taken_since(found: Branches, before: Branches) -> dict[str, tuple[int, int]]:
    """Counts that came since; what was not reached since is not there."""
    counts = {
        name: (yes - before.get(name, (0, 0))[0], no - before.get(name, (0, 0))[1])
        for name, (yes, no) in found.items()
    }
    return {name: both for name, both in counts.items() if any(both)}


def have_same_branches(one: Branches, frames: int, other: Branches, others: int) -> bool:
    """Whether so many equal frames took the branches that so many others took.

    >>> have_same_branches({"if": (2, 0)}, 2, {"if": (1, 0)}, 1), have_same_branches({"if": (1, 0)}, 1, {"if": (0, 1)}, 1)
    (True, False)
    """
    return {name: (yes * others, no * others) for name, (yes, no) in one.items()} == {
        name: (yes * frames, no * frames) for name, (yes, no) in other.items()
    }
