"""What do the layers take, at some slab heights or on several images at once? Time and bytes of any run of
layers, from one conversion each.

A variant is the whole network cut in one way: for one image at given heights, or for several images of which
every phase has all rows. From its order of firings follow the bytes that any stage holds inside (buffers that
no other stage touches, and scratch), and from a profile its time; so that thousands of stages are judged by a
few variants.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from csdfgen.devices.costs import Cost, actor_cost
from csdfgen.devices.model import phase_seconds
from csdfgen.devices.profile import DeviceProfile
from csdfgen.goals.batching.cuts import Ranks
from csdfgen.model.options import PlanOptions
from csdfgen.planning.lifetimes import lifetimes_of, times_of
from csdfgen.planning.ordering import Order
from csdfgen.planning.prepared import Phased, Prepared

__all__ = ["Variant", "of_images", "of_rows"]


@dataclass(frozen=True, eq=False)
class Variant:
    """The network for `images` images at once, or for one at the heights `rows`. ranks: of the actors.
    order: of all its firings.
    """

    images: int
    rows: str
    phased: Phased
    ranks: Ranks
    order: Order
    profile: DeviceProfile

    @cached_property
    def seconds(self) -> np.ndarray:
        """Predicted seconds of each layer, of all its images; inputs count with their first reader."""
        found = np.zeros(self.ranks.count)
        for work in self.phased.conversion.actors:
            silent = work.name in self.phased.sharing.silent
            found[self.ranks.of[work.name]] += sum(phase_seconds(work, self.profile, silent))
        return found

    def amounts(self, cost: Cost) -> np.ndarray:
        """What each layer costs, of all its images; inputs count with their first reader."""
        if cost not in self._costs:
            found = np.zeros(self.ranks.count)
            for work in self.phased.conversion.actors:
                silent = work.name in self.phased.sharing.silent
                found[self.ranks.of[work.name]] += actor_cost(work, self.profile, silent, cost)
            self._costs[cost] = found
        return self._costs[cost]

    @cached_property
    def _costs(self) -> dict[Cost, np.ndarray]:
        return {}

    def inside(self, start: int, stop: int) -> int:
        """Most bytes alive during the firings of layers [start, stop), without what crosses to others."""
        key = start, stop
        if key not in self._known:
            spans, live = self._live
            inner = (spans[:, 0] >= start) & (spans[:, 1] < stop)
            mine = (self._ranked >= start) & (self._ranked < stop)
            held = live[inner].sum(axis=0) + self._scratch
            self._known[key] = int(held[mine].max(initial=0))
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[int, int], int]:
        return {}

    @cached_property
    def _ranked(self) -> np.ndarray:
        """Rank of every firing."""
        return np.array([self.ranks.of[actor] for actor, _ in self.order])

    @cached_property
    def _scratch(self) -> np.ndarray:
        """Bytes of scratch of every firing."""
        found = np.zeros(len(self.order), np.int64)
        times = times_of(self.order)
        for actor, sizes in self.phased.scratch.items():
            found[times[actor]] += sizes
        return found

    @cached_property
    def _live(self) -> tuple[np.ndarray, np.ndarray]:
        """Of every buffer its span of ranks, and its bytes that are alive during each firing."""
        buffers = self.phased.buffers
        changes = np.zeros((len(buffers), len(self.order) + 1), np.int64)
        for row, one, buffer in zip(
            changes, lifetimes_of(self.order, buffers).each, buffers, strict=True
        ):
            np.add.at(row, one.born, buffer.row_bytes)
            np.subtract.at(row, one.gone, buffer.row_bytes)
        spans = np.array([self.ranks.span(buffer) for buffer in buffers])
        return spans, np.cumsum(changes[:, :-1], axis=1)


def of_rows(prepared: Prepared, rows: str, profile: DeviceProfile, order: Order | None) -> Variant:
    """One image at these heights. order: that of a plan at these heights, if there is one."""
    phased = prepared.phased(_bare(prepared.options, rows=rows))
    return Variant(1, rows, phased, Ranks(phased), order or phased.on_demand, profile)


def of_images(prepared: Prepared, images: int, profile: DeviceProfile) -> Variant:
    """So many images in every phase, with all their rows."""
    options = prepared.options
    asked = _bare(options, rows="whole", frames=images, batches="all" if images > 1 else "")
    phased = prepared.for_images(images).phased(asked)
    ranks = Ranks(prepared.phased(_bare(options, rows="whole")))
    return Variant(images, "whole", phased, ranks, phased.on_demand, profile)


def _bare(options: PlanOptions, **changed: object) -> PlanOptions:
    """The options that say how the network is cut and computed, without wishes that choose plans."""
    cleared = {"memory": 0, "latency": 0.0, "policy": "demand", "frames": 1, "batches": ""}
    return replace(options, **{**cleared, "batching": "", "result": "stored", **changed})  # type: ignore[arg-type]
