"""In which order do the phases of a network keep least alive? Its firings as a problem of `schedules.peak`.

Rows of buffers become items, who writes and who releases them claimers and releasers; the workspace
of a firing is its own. What an order keeps alive is then what `planning.lifetimes` says, for every
order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from csdfgen.phases.conversion import Conversion
from csdfgen.planning.buffers import Access, Buffer
from schedules.peak.problem import Items, Link, Problem

__all__ = ["problem_of"]

Order = tuple[tuple[str, int], ...]


def problem_of(
    conversion: Conversion,
    buffers: Sequence[Buffer],
    workspaces: Mapping[str, Sequence[int]] | None = None,
) -> Problem:
    """The firings of a conversion, actors in its order, and the rows that they claim and release.

    buffers: tensors and states (`buffers_of`). workspaces: actor -> bytes of scratch of each phase;
    actors that need none may be left out.
    """
    number = {work.name: at for at, work in enumerate(conversion.actors)}
    phases = [len(work.phases) for work in conversion.actors]
    base = np.concatenate([[0], np.cumsum(phases)])
    extra = np.zeros(base[-1], np.int64)
    for name, sizes in (workspaces or {}).items():
        extra[base[number[name]] : base[number[name] + 1]] = sizes
    items = [
        Items(np.full(buffer.rows, part.row_bytes, np.int64), claimers, releasers)
        for buffer in buffers
        for releasers in [_firings(buffer.readers, buffer, number, base)]
        for part in buffer.parts
        for claimers in [_firings(part.writers, buffer, number, base)]
    ]
    return Problem.of(phases, _links(conversion, number), items, extra)


def _firings(
    accesses: Sequence[Access], buffer: Buffer, number: Mapping[str, int], base: np.ndarray
) -> np.ndarray:
    """(rows, accesses): the firing in which each actor reaches each row."""
    rows = np.arange(buffer.rows)
    found = np.empty((buffer.rows, len(accesses)), np.int64)
    for column, access in enumerate(accesses):
        reached = np.searchsorted(np.array(access.rows), rows, side="right")
        found[:, column] = base[number[access.actor]] + reached
    return found


def _links(conversion: Conversion, number: Mapping[str, int]) -> Iterator[Link]:
    """Who waits for how many phases of whom: for those that complete the rows it needs."""
    writers = {w.tensor.name: (work.name, w) for work in conversion.actors for w in work.writes}
    for work in conversion.actors:
        for read in work.reads:
            source, write = writers[read.tensor.name]
            need = np.array(read.need)
            counts = np.searchsorted(np.array(write.complete), need, side="left") + 1
            yield Link(number[source], number[work.name], np.where(need > 0, counts, 0))
