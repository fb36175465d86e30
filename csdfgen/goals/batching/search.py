"""Which ways of passing a request through a network are worth a plan? Cuts, batches and heights together.

For every few cuts that are worth it, stages get the heights that are the fastest beside the images that wait,
and the corrected program of paper 000 (`schedules.batches`) the batches; all on tables (`variants`), in
milliseconds each. What packing gives is found for the best of them alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, pairwise
from math import inf

import numpy as np

from csdfgen.devices.costs import Cost
from csdfgen.devices.profile import DeviceProfile
from csdfgen.goals.batching.chains import calls_of, layer_of
from csdfgen.goals.batching.cuts import Cut, Ranks
from csdfgen.goals.batching.stages import Call, Stage, StagedRequest, stages_of
from csdfgen.goals.batching.variants import Variant, of_images, of_rows
from csdfgen.goals.heights import Predicted, heights_of
from csdfgen.planning.plan import Plan
from csdfgen.planning.prepared import Prepared
from schedules.batches.baselines import greedy
from schedules.batches.chain import Chain, ChainLayer
from schedules.batches.planning import SEARCHED, cheapest, printed
from schedules.batches.plans import ChainPlan
from schedules.batches.tables import Tables

__all__ = ["ALIKE", "Passage", "Price", "Request", "passages"]

ALIKE = 1.01
"""Times predicted within this factor are no different: of such plans the one that takes less memory is taken."""

_CUTS = 10
"""Cuts of which some are tried together."""

_AT_ONCE = 3
"""Of them at most at one time."""

_HEIGHTS = 10
"""Heights of the whole network among which those of each stage are chosen."""

_KEPT = 3
"""Passages beyond which one is not looked for whose stages could not be faster."""

_STEPS = 40
"""Steps of memory of the printed program: as fine beside small budgets as 2 MB beside 80."""

_ROOM = 1.2
"""Of a memory for which tables are made: that of the next try may be larger."""

_SHRINKINGS = 6
"""How exactly the least memory is looked for in which a way costs no more."""

_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Images at once that are looked at, and the whole request."""


@dataclass(frozen=True, eq=False)
class Passage:
    """A way for a request. cost: of all its images, by the request's price. bytes: that it takes by the tables.

    staged_by: cuts and heights of its chain, where its batches are those of the corrected program.
    """

    staged: StagedRequest
    cost: float
    bytes: int
    staged_by: tuple[Sequence[Cut], Sequence[Variant]] | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """What is made as little as possible: a sum of seconds, and of another cost, each weighed."""

    seconds: float = 1.0
    cost: float = 0.0


@dataclass(eq=False)
class Request:
    """A request of so many images of a network, and what was found out about it.

    predicted: the network of one image, with options that say how it is cut and computed. cost: what counts beside
    time. price: what passages are compared by; it may be changed.
    """

    predicted: Predicted
    images: int
    tell: Callable[[int], None]
    cost: Cost | None = None
    price: Price = Price()
    _added: dict[str, Variant] = field(default_factory=dict)
    _layers: dict[tuple[object, ...], ChainLayer] = field(default_factory=dict)
    _tables: dict[Chain, Tables] = field(default_factory=dict)

    @property
    def prepared(self) -> Prepared:
        """The network of one image."""
        return self.predicted.prepared

    @property
    def profile(self) -> DeviceProfile:
        """Of the device where times are predicted."""
        return self.predicted.profile

    @cached_property
    def whole(self) -> Variant:
        """One image in layers as a whole."""
        return self._variant(1)

    @property
    def ranks(self) -> Ranks:
        """Of the network's actors."""
        return self.whole.ranks

    @cached_property
    def several(self) -> dict[int, Variant]:
        """Variants of several images, by how many."""
        sizes = {size for size in (*_SIZES, self.images) if 1 < size <= self.images}
        return {size: self._variant(size) for size in sorted(sizes)}

    @property
    def rows(self) -> tuple[Variant, ...]:
        """Variants of one image: heights from the least memory to the least time, and those that were added."""
        return (*self._ladder, self.whole, *self._added.values())

    def add(self, plan: Plan) -> None:
        """Let stages have the heights and the order of a plan of one image."""
        rows = plan.options.rows
        self._added[rows] = of_rows(self.prepared, rows, self.profile, plan.order)

    def chain(self, cuts: Sequence[Cut], ones: Sequence[Variant]) -> Chain:
        """The stages between these cuts, as the algorithms see them."""
        stages = stages_of([cut.at for cut in cuts], self.ranks.count, ones)
        between = [0, *(cut.bytes for cut in cuts), 0]
        found = []
        for stage, ends in zip(stages, pairwise(between), strict=True):
            key = stage.start, stage.stop, id(stage.one), self.price
            if key not in self._layers:
                self._layers[key] = layer_of(stage, self.several, self.images, ends, self.charged)
            found.append(self._layers[key])
        return Chain(tuple(found))

    def cheapest(self, chain: Chain, memory: int, searched: int) -> ChainPlan | None:
        """The corrected program; its tables serve all memories up to the largest so far."""
        known = self._tables.get(chain)
        if known is None or known.memory < memory:
            known = self._tables[chain] = Tables(chain, self.images, int(_ROOM * memory))
        return cheapest(chain, self.images, memory, searched=searched, tables=known)

    def passage(
        self, cuts: Sequence[Cut], ones: Sequence[Variant], memory: int, searched: int = 0
    ) -> Passage | None:
        """The corrected program's plan for the stages between these cuts."""
        plan = self.cheapest(self.chain(cuts, ones), memory, searched)
        if plan is None:
            return None
        return Passage(self.staged(cuts, ones, plan), plan.cost, memory, (cuts, ones))

    def smaller(self, one: Passage, most: float) -> Passage:
        """The same way in the least memory in which it costs no more than that."""
        if one.staged_by is None:
            return one
        low, high = 0, one.bytes
        for _ in range(_SHRINKINGS):
            middle = (low + high) // 2
            found = self.passage(*one.staged_by, middle)
            if found is not None and found.cost <= most:
                one, high = found, middle
            else:
                low = middle
        return one

    def charged(self, variant: Variant) -> np.ndarray:
        """What each layer costs in a variant, of all its images, by the price."""
        seconds = self.price.seconds * variant.seconds
        if self.cost is None:
            return seconds
        return seconds + self.price.cost * variant.amounts(self.cost)

    @cached_property
    def _ladder(self) -> tuple[Variant, ...]:
        heights = heights_of(self.predicted)
        ladder = heights.ladder()
        chosen = sorted({round(k * (len(ladder) - 1) / (_HEIGHTS - 1)) for k in range(_HEIGHTS)})
        texts = [heights.rows(ladder[at]) for at in chosen]
        found = []
        for text in dict.fromkeys((*texts, "auto")):
            found.append(of_rows(self.prepared, text, self.profile, None))
            self.tell(len(found))
        return tuple(found)

    def _variant(self, images: int) -> Variant:
        found = of_images(self.prepared, images, self.profile)
        self.tell(images)
        return found

    def staged(
        self, cuts: Sequence[Cut], ones: Sequence[Variant], plan: ChainPlan
    ) -> StagedRequest:
        """A plan of the chain between these cuts."""
        stages = stages_of([cut.at for cut in cuts], self.ranks.count, ones)
        return self.called(stages, calls_of(plan, self.several))

    def called(self, stages: tuple[Stage, ...], calls: tuple[Call, ...]) -> StagedRequest:
        """These calls of stages."""
        return StagedRequest(self.images, stages, calls, self.several, self.ranks)


def passages(request: Request, memory: int, batching: str) -> list[Passage]:
    """What a way of choosing batches gives within so many bytes, the cheapest first; of those that cost alike the
    smallest.
    """
    found = sorted(_WAYS[batching](request, memory), key=lambda one: one.cost)
    most = ALIKE * found[0].cost if found else 0.0
    alike = [request.smaller(one, most) for one in found if one.cost <= most]
    return [*sorted(alike, key=lambda one: one.bytes), *found[len(alike) :]]


Way = Callable[[Request, int], Iterator[Passage]]


# Ways of paper 000: whole layers on the main path --------------------------------------------------


def _fixed(request: Request, memory: int) -> Iterator[Passage]:
    """All layers with one batch, for every one that fits."""
    count = request.ranks.count
    stages = stages_of((), count, (request.whole,))
    for size, variant in [(1, request.whole), *request.several.items()]:
        inside = variant.inside(0, count)
        if inside <= memory:
            firsts = range(0, request.images, size)
            sizes = [min(size, request.images - first) for first in firsts]
            if all(one == 1 or one in request.several for one in sizes):
                calls = tuple(Call(0, a, b) for a, b in zip(firsts, sizes, strict=True))
                cost = _charged(request, stages, calls)
                yield Passage(request.called(stages, calls), cost, inside)


def _charged(request: Request, stages: Sequence[Stage], calls: Sequence[Call]) -> float:
    total = 0.0
    for call in calls:
        stage = stages[call.stage]
        variant = stage.one if call.images == 1 else request.several[call.images]
        total += float(request.charged(variant)[stage.start : stage.stop].sum())
    return total


def _by_layers(choose: Callable[[Chain, int, int], ChainPlan | None]) -> Way:
    """A way that chooses batches of the layers of the main path, which it takes as a whole."""

    def found(request: Request, memory: int) -> Iterator[Passage]:
        cuts, ones = _main_path(request)
        plan = choose(request.chain(cuts, ones), request.images, memory)
        if plan is not None:
            yield Passage(request.staged(cuts, ones, plan), plan.cost, memory)

    return found


def _main_path(request: Request) -> tuple[Sequence[Cut], Sequence[Variant]]:
    cuts = request.ranks.single()
    return cuts, [request.whole] * (len(cuts) + 1)


def _vbs(request: Request, memory: int) -> Iterator[Passage]:
    """One batch for all layers is a case of one for each, of which it is known more exactly what it takes."""
    yield from _fixed(request, memory)
    found = request.passage(*_main_path(request), memory, SEARCHED)
    if found is not None:
        yield found


# Images and rows together ---------------------------------------------------------------------------


def _joint(request: Request, memory: int) -> Iterator[Passage]:
    """Cuts, batches and heights at once; what whole layers with batches of their own, or one for all, take is
    among it.
    """
    yield from _vbs(request, memory)
    ways = []
    for number in range(_AT_ONCE + 1):
        for cuts in combinations(request.ranks.worth(_CUTS), number):
            for ones in dict.fromkeys(_heights(request, cuts, memory)):
                ways.append((_at_best(request.chain(cuts, ones), request.images), cuts, ones))
    kept = [inf] * _KEPT
    for bound, cuts, ones in sorted(ways, key=lambda way: way[0]):
        if bound >= kept[-1]:
            break
        found = request.passage(cuts, ones, memory)
        if found is not None:
            kept = sorted([*kept, found.cost])[:_KEPT]
            yield found


def _at_best(chain: Chain, images: int) -> float:
    """What no plan of a chain is below: every stage with its best number of images."""
    return images * sum(
        min(cost / (k + 1) for k, cost in enumerate(layer.costs[:images])) for layer in chain.layers
    )


def _heights(request: Request, cuts: Sequence[Cut], memory: int) -> Iterator[tuple[Variant, ...]]:
    """Heights of stages: the fastest beside all images that may wait at both ends, or beside one."""
    ends = (0, *(cut.at for cut in cuts), request.ranks.count)
    waiting = (0, *(cut.bytes for cut in cuts), 0)
    for images in dict.fromkeys((request.images, 1)):
        chosen = []
        for at in range(len(ends) - 1):
            start, stop = ends[at], ends[at + 1]
            before, behind = waiting[at], waiting[at + 1]
            room = memory - max(images * before + behind, before + images * behind)
            fitting = [one for one in request.rows if one.inside(start, stop) <= room]
            if not fitting:
                break
            chosen.append(
                min(fitting, key=lambda one, a=start, b=stop: request.charged(one)[a:b].sum())  # type: ignore[misc]
            )
        else:
            yield tuple(chosen)


_WAYS: dict[str, Way] = {
    "fbs": _fixed,
    "greedy": _by_layers(greedy),
    "vbs-paper": _by_layers(
        lambda chain, images, memory: printed(chain, images, memory, unit=max(1, memory // _STEPS))
    ),
    "vbs": _vbs,
    "joint": _joint,
}
"""What users call a way of choosing batches -> how it chooses."""
