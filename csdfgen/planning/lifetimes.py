"""When is each row of each buffer alive? From the firing that claims it to the last firing that reads it.

A row is claimed when the firing that writes it starts, and free when the last firing that reads it has ended (SDF3's
rule; docs/model.md), or at the end of the frame if it is part of an output that stays in the arena. The order of firings
and the row rule determine the firings in which each row is alive, the rows that a buffer holds at most, and the bytes
alive during each firing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from csdfgen.model.network import Network
from csdfgen.planning.buffers import Access, Buffer

Order = Sequence[tuple[str, int]]
"""Firings (actor, phase), the phases of each actor in order."""


@dataclass(frozen=True, slots=True, eq=False)
class Lifetime:
    """Row i of a buffer is alive during firings [born[i], gone[i]): claimed when the first of them starts, free when the
    last has ended.

    capacity: most rows from the lowest that is needed to the highest that is claimed: the slots of a ring buffer.
    """

    buffer: str
    born: np.ndarray
    gone: np.ndarray
    capacity: int

    @property
    def span(self) -> tuple[int, int]:
        """Firings [first, end) in which any row of the buffer is alive."""
        return int(self.born.min()), int(self.gone.max())


@dataclass(frozen=True, eq=False)
class Lifetimes:
    """The lifetimes of all buffers in an order of firings. live: bytes alive during each firing, after its claims and
    before its releases.
    """

    each: tuple[Lifetime, ...]
    live: np.ndarray

    @property
    def peak_live(self) -> int:
        """Most bytes of rows and sums alive at one time."""
        return int(self.live.max(initial=0))


def firing_times(order: Order) -> dict[str, np.ndarray]:
    """Actor -> position in the order of each of its phases.

    >>> {name: at.tolist() for name, at in firing_times([("a", 0), ("b", 0), ("a", 1)]).items()}
    {'a': [0, 2], 'b': [1]}
    """
    found: dict[str, list[int]] = {}
    for position, (actor, _) in enumerate(order):
        found.setdefault(actor, []).append(position)
    return {actor: np.array(positions) for actor, positions in found.items()}


def trace_lifetimes(order: Order, buffers: Sequence[Buffer]) -> Lifetimes:
    """The lifetimes of buffers in an order of firings that has all phases of each actor in order.

    >>> x = Buffer("x", 4, 10, (Access("a", (1, 2, 3, 4)),), (Access("b", (0, 4)),))
    >>> order = [("a", 0), ("a", 1), ("b", 0), ("a", 2), ("a", 3), ("b", 1)]
    >>> found = trace_lifetimes(order, [x])
    >>> found.each[0].born.tolist(), found.each[0].capacity, found.peak_live
    ([0, 1, 3, 4], 4, 40)
    """
    times, firings = firing_times(order), len(order)
    changes = np.zeros(firings + 1, np.int64)
    found = []
    for buffer in buffers:
        rows = np.arange(buffer.rows)
        born = _firing(buffer.writers, rows, times, np.minimum)
        gone = np.full(buffer.rows, firings)
        if not buffer.kept:
            gone = _firing(buffer.readers, rows, times, np.maximum) + 1
        np.add.at(changes, born, buffer.row_bytes)
        np.subtract.at(changes, gone, buffer.row_bytes)
        found.append(Lifetime(buffer.name, born, gone, _capacity(born, gone)))
    return Lifetimes(tuple(found), np.cumsum(changes[:-1]))


def trace_live_bytes(
    lifetimes: Lifetimes, scratch: Mapping[str, np.ndarray], order: Order
) -> np.ndarray:
    """Bytes alive during each firing, including its scratch (actor -> bytes of each phase)."""
    live, times = lifetimes.live.copy(), firing_times(order)
    for actor, sizes in scratch.items():
        live[times[actor]] += sizes
    return live


def peak_live(lifetimes: Lifetimes, scratch: Mapping[str, np.ndarray], order: Order) -> int:
    """Most bytes alive at one time, including scratch."""
    return int(trace_live_bytes(lifetimes, scratch, order).max(initial=0))


def _firing(
    accesses: Sequence[Access], rows: np.ndarray, times: Mapping[str, np.ndarray], choose: np.ufunc
) -> np.ndarray:
    """The firing that reaches each row: of the first actor (`numpy.minimum`) or of the last (`numpy.maximum`)."""
    reached = [
        times[access.actor][np.searchsorted(np.array(access.rows), rows, side="right")]
        for access in accesses
    ]
    return reached[0] if len(reached) == 1 else np.asarray(choose.reduce(reached))


def _capacity(born: np.ndarray, gone: np.ndarray) -> int:
    """Most rows from the lowest that is needed to the highest that is claimed, over all claims."""
    low = np.searchsorted(gone, born, side="right")
    return int((np.arange(1, len(born) + 1) - low).max())


# Whole layers ------------------------------------------------------------------------------------


def whole_layer_live(network: Network) -> int:
    """Most bytes alive at one time if whole layers are executed one after another and dead tensors are freed."""
    return max((live for _, live in trace_whole_layers(network)), default=0)


def trace_whole_layers(network: Network) -> Iterator[tuple[str, int]]:
    """Each layer's name, and the bytes alive while it is executed whole: of a batch, those of one image, and the outputs of all,
    whose arrays are there from the beginning.
    """
    last = {t.name: at for at, layer in enumerate(network.layers) for t in layer.inputs if t}
    live = sum(tensor.nbytes for tensor in network.inputs if tensor.name in last)
    given = network.output_tensors if network.batch > 1 else ()
    live += network.output_bytes if given else 0
    for at, layer in enumerate(network.layers):
        live += sum(tensor.nbytes for tensor in layer.outputs if tensor.name not in given)
        yield layer.name, live
        touched = {t.name: t for t in (*layer.inputs, *layer.outputs) if t is not None}
        for tensor in touched.values():
            if last.get(tensor.name, at) == at and tensor.name not in network.output_tensors:
                live -= tensor.nbytes
