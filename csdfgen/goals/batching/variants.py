"""What do the layers take at some slab heights, or for several images at once? Time and bytes of any sequence of layers,
from one conversion each.

A variant is the whole network cut for one image at given heights, or for several images with all rows in every phase.
Its order of firings determines the bytes that any stage holds inside (buffers that no other stage touches, and
scratch), and a profile its time. A few variants are therefore enough to estimate thousands of stages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from csdfgen.devices.costs import Cost, actor_cost
from csdfgen.devices.model import phase_seconds
from csdfgen.devices.profile import DeviceProfile
from csdfgen.goals.batching.cuts import Ranks
from csdfgen.model.options import PlanOptions
from csdfgen.phases.conversion import ActorWork
from csdfgen.planning.lifetimes import firing_times, trace_lifetimes
from csdfgen.planning.ordering import Order
from csdfgen.planning.prepared import Phased, Prepared


@dataclass(frozen=True, eq=False)
class Variant:
    """The network for `images` images at once, or for one at the heights `rows`. ranks: of the actors. order: of all
    firings.
    """

    images: int
    rows: str
    phased: Phased
    ranks: Ranks
    order: Order
    profile: DeviceProfile
    _costs: dict[Cost, np.ndarray] = field(default_factory=dict, repr=False)
    _known: dict[tuple[int, int], int] = field(default_factory=dict, repr=False)

    @cached_property
    def seconds(self) -> np.ndarray:
        """Predicted seconds of each layer, for all images; an input counts with its first reader."""
        return self._by_layer(lambda work, silent: sum(phase_seconds(work, self.profile, silent)))

    def amounts(self, cost: Cost) -> np.ndarray:
        """Cost of each layer, for all images; an input counts with its first reader."""
        if cost not in self._costs:
            self._costs[cost] = self._by_layer(
                lambda work, silent: actor_cost(work, self.profile, silent, cost)
            )
        return self._costs[cost]

    def _by_layer(self, of: Callable[[ActorWork, bool], float]) -> np.ndarray:
        found = np.zeros(self.ranks.count)
        for work in self.phased.conversion.actors:
            found[self.ranks.of[work.name]] += of(work, work.name in self.phased.sharing.silent)
        return found

    def inside(self, start: int, stop: int) -> int:
        """Most bytes alive during the firings of layers [start, stop), without rows that cross to other layers."""
        key = start, stop
        if key not in self._known:
            spans, live = self._live
            inner = (spans[:, 0] >= start) & (spans[:, 1] < stop)
            mine = (self._ranked >= start) & (self._ranked < stop)
            held = live[inner].sum(axis=0) + self._scratch
            self._known[key] = int(held[mine].max(initial=0))
        return self._known[key]

    @cached_property
    def _ranked(self) -> np.ndarray:
        """Rank of every firing."""
        return np.array([self.ranks.of[actor] for actor, _ in self.order])

    @cached_property
    def _scratch(self) -> np.ndarray:
        """Bytes of scratch of every firing."""
        found = np.zeros(len(self.order), np.int64)
        times = firing_times(self.order)
        for actor, sizes in self.phased.scratch.items():
            found[times[actor]] += sizes
        return found

    @cached_property
    def _live(self) -> tuple[np.ndarray, np.ndarray]:
        """(buffers, 2) and (buffers, firings): ranks of the first and last actor of each buffer, and its bytes alive."""
        buffers = self.phased.buffers
        changes = np.zeros((len(buffers), len(self.order) + 1), np.int64)
        for row, one, buffer in zip(
            changes, trace_lifetimes(self.order, buffers).each, buffers, strict=True
        ):
            np.add.at(row, one.born, buffer.row_bytes)
            np.subtract.at(row, one.gone, buffer.row_bytes)
        spans = np.array([self.ranks.span(buffer) for buffer in buffers])
        return spans, np.cumsum(changes[:, :-1], axis=1)


def make_row_variant(
    prepared: Prepared, rows: str, profile: DeviceProfile, order: Order | None
) -> Variant:
    """One image at these heights. order: that of a plan at these heights; None: the order on demand."""
    phased = prepared.phased(_bare(prepared.options, rows=rows))
    return Variant(1, rows, phased, Ranks(phased), order or phased.on_demand, profile)


def make_image_variant(prepared: Prepared, images: int, profile: DeviceProfile) -> Variant:
    """So many images in every phase, with all rows."""
    options = prepared.options
    asked = _bare(options, rows="whole", frames=images, batches="all" if images > 1 else "")
    phased = prepared.for_images(images).phased(asked)
    ranks = Ranks(prepared.phased(_bare(options, rows="whole")))
    return Variant(images, "whole", phased, ranks, phased.on_demand, profile)


def _bare(options: PlanOptions, **changed: object) -> PlanOptions:
    """The options of how the network is cut and computed, without goals and budgets."""
    cleared = {"memory": 0, "latency": 0.0, "policy": "demand", "frames": 1, "batches": ""}
    return replace(options, **{**cleared, "batching": "", "result": "stored", **changed})  # type: ignore[arg-type]
