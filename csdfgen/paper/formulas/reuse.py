"""How much memory is left if whole tensors share buffers once they are dead? "Reduced memory" of the paper.

The published code walks the layers: what a layer makes takes the first buffer that is free (not the one
that fits best), or a new one; then the buffers of what it read become free, as if no other layer read
it; in place, a tensor keeps its buffer. A buffer is as large as the largest tensor that it ever holds.
That a tensor is dead after its *first* reader is only right for networks in which every tensor has one:
`LAST` waits for the last, which any network may have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Until = Literal["first", "last"]
"""After which of its readers a tensor is dead: as in the published code, or as it has to be."""


@dataclass(frozen=True, slots=True)
class Reuse:
    """A layer by the names of the tensors that it reads and makes. in_place: what it makes is stored in the
    buffer of the first that it reads.
    """

    reads: tuple[str, ...]
    makes: tuple[str, ...]
    in_place: bool = False


def assign_buffers(
    sizes: Mapping[str, int], steps: Sequence[Reuse], given: Iterable[str], until: Until = "last"
) -> tuple[int, ...]:
    """Bytes of every buffer. sizes: of every tensor; given: tensors that are there before the first step.

    >>> steps = Reuse(("x",), ("a",)), Reuse(("a",), ("b",)), Reuse(("b",), ("c",))
    >>> assign_buffers({"x": 4, "a": 10, "b": 7, "c": 20}, steps, ["x"])
    (7, 20)
    """
    held: list[int] = []
    free: list[int] = []
    home: dict[str, int] = {}
    left = Counter(name for step in steps for name in step.reads)

    def put(name: str) -> None:
        if free:
            where = free.pop(0)
        else:
            where = len(held)
            held.append(0)
        home[name] = where
        held[where] = max(held[where], sizes[name])

    for name in given:
        put(name)
    for step in steps:
        for name in step.makes:
            if step.in_place:
                home[name] = home[step.reads[0]]
                held[home[name]] = max(held[home[name]], sizes[name])
            else:
                put(name)
        for k, name in enumerate(step.reads):
            left[name] -= 1
            dead = left[name] == 0 or until == "first"
            if dead and not (step.in_place and k == 0) and home[name] not in free:
                free.append(home[name])
                free.sort()
    return tuple(held)
