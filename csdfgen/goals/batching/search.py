"""Which passages of a request through a network are worth a plan? Cuts, batches and heights together.

For each set of a few cuts, every stage gets the heights that are the fastest in the memory that waiting images leave,
and the corrected dynamic program of paper 000 (`schedules.batches`) chooses the batches. All of that uses tables
(`variants`) and takes milliseconds for each set of cuts. Only the best passages become plans with addresses.

A table has the time and bytes of the variants that were computed. Other numbers of images are made up of those, one
call after the other, so that no entry is interpolated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations, pairwise
from math import inf

import numpy as np

from csdfgen.devices.costs import Cost
from csdfgen.devices.profile import DeviceProfile
from csdfgen.goals.batching.branches import IN_PLACE, split_branches
from csdfgen.goals.batching.cuts import Cut, Ranks
from csdfgen.goals.batching.stages import Call, Stage, StagedRequest, make_stages
from csdfgen.goals.batching.variants import Variant, make_image_variant, make_row_variant
from csdfgen.goals.heights import Predicted, price_heights
from csdfgen.planning.plan import Plan
from csdfgen.planning.prepared import Prepared
from csdfgen.stopping import raise_if_stopped
from schedules.batches.baselines import plan_greedy
from schedules.batches.chain import Chain, ChainLayer
from schedules.batches.planning import SEARCHED, plan_cheapest, plan_printed
from schedules.batches.plans import BatchFiring, ChainPlan
from schedules.batches.tables import Tables

Places = Sequence[tuple[Sequence[Sequence[int]], int]]
"""For each layer of the main path the numbers of the stages of its branches, and that of its own."""

ALIKE = 1.01
"""Predicted times within this factor count as equal: of such plans the one that takes less memory is taken."""

_CUTS = 10
"""Cuts of which sets are tried."""

_AT_ONCE = 3
"""Cuts of one set at most."""

_HEIGHTS = 10
"""Heights of the whole network from which those of each stage are chosen."""

_KEPT = 3
"""Passages to find before sets of cuts are left out whose stages cannot be faster."""

_STEPS = 40
"""Steps of memory of the program as printed in the paper, which has 2 MB of 80."""

_HEADROOM = 1.2
"""Tables are made for this multiple of the memory, as that of the next try may be larger."""

_SHRINKINGS = 6
"""Bisections to find the least memory in which a passage costs no more."""

_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Numbers of images at once that have variants, beside the whole request."""


@dataclass(frozen=True, eq=False)
class Passage:
    """A passage of a request through the network. cost: of all its images, by the request's price. bytes: estimated by
    the tables. staged_by: cuts and heights of its chain, if the corrected program chose the batches.
    """

    staged: StagedRequest
    cost: float
    bytes: int
    staged_by: tuple[Sequence[Cut], Sequence[Variant]] | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """Weights of the objective: a weighted sum of seconds and of another cost."""

    seconds: float = 1.0
    cost: float = 0.0


@dataclass(eq=False)
class Request:
    """A request of so many images of a network, with tables of its variants.

    predicted: the network of one image, with options that say how it is cut and computed. report: called with the
    images of each variant that is computed. cost: counts in addition to time. price: the objective, which may be changed.
    """

    predicted: Predicted
    images: int
    report: Callable[[int], None]
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
        """The profile of the device on which times are predicted."""
        return self.predicted.profile

    @cached_property
    def whole(self) -> Variant:
        """One image in whole layers."""
        return self._variant(1)

    @property
    def ranks(self) -> Ranks:
        """Ranks of the network's actors."""
        return self.whole.ranks

    @cached_property
    def several(self) -> dict[int, Variant]:
        """Variants of several images, by how many."""
        sizes = {size for size in (*_SIZES, self.images) if 1 < size <= self.images}
        return {size: self._variant(size) for size in sorted(sizes)}

    @property
    def rows(self) -> tuple[Variant, ...]:
        """Variants of one image: heights from the least memory to the least time, and those of added plans."""
        return (*self._ladder, self.whole, *self._added.values())

    def add(self, plan: Plan) -> None:
        """Add the heights and the order of a plan of one image to those that stages choose from."""
        rows = plan.options.rows
        self._added[rows] = make_row_variant(self.prepared, rows, self.profile, plan.order)

    def chain(self, cuts: Sequence[Cut], ones: Sequence[Variant]) -> Chain:
        """The stages between these cuts, as the algorithms of `schedules.batches` take them."""
        stages = make_stages([cut.at for cut in cuts], self.ranks.count, ones)
        between = [0, *(cut.bytes for cut in cuts), 0]
        found = []
        for stage, ends in zip(stages, pairwise(between), strict=True):
            key = stage.start, stage.stop, id(stage.one), self.price
            if key not in self._layers:
                self._layers[key] = self._layer(stage, ends)
            found.append(self._layers[key])
        return Chain(tuple(found))

    def special(self, cuts: Sequence[Cut]) -> tuple[tuple[Stage, ...], Places, Chain]:
        """The main path of whole layers, with the branches of its special layers as chains of their own, behind a stage for
        each layer of all chains and the numbers of these stages.
        """
        network = self.whole.phased.conversion.network
        between = [0, *(cut.bytes for cut in cuts), 0]
        found: list[ChainLayer] = []
        stages: list[Stage] = []
        places: list[tuple[list[list[int]], int]] = []
        main = make_stages(
            [cut.at for cut in cuts], self.ranks.count, [self.whole] * (len(cuts) + 1)
        )

        def one(start: int, stop: int, ends: tuple[int, int]) -> tuple[ChainLayer, int]:
            stages.append(Stage(start, stop, self.whole))
            return self._layer(stages[-1], ends), len(stages) - 1

        for stage, ends in zip(main, pairwise(between), strict=True):
            chains, inner = [], []
            branches = split_branches(network, stage.start, stage.stop)
            join = network.layers[stage.stop - 1].op_type
            for branch in branches:
                sizes = [0, *(network.layers[at].output.nbytes for at in branch)]
                sizes[-1] = 0 if join in IN_PLACE else sizes[-1]
                parts = [
                    one(at, at + 1, of) for at, of in zip(branch, pairwise(sizes), strict=True)
                ]
                chains.append(Chain(tuple(layer for layer, _ in parts)))
                inner.append([number for _, number in parts])
            start = stage.stop - 1 if branches else stage.start
            layer, number = one(start, stage.stop, ends)
            found.append(replace(layer, branches=tuple(chains)))
            places.append((inner, number))
        return tuple(stages), tuple(places), Chain(tuple(found))

    def _layer(self, stage: Stage, ends: tuple[int, int]) -> ChainLayer:
        """A stage for up to all images at once. ends: bytes of an image before and after it, 0 where the caller has
        them.
        """
        costs: list[float] = []
        workspace: list[int] = []
        for count in range(1, self.images + 1):
            variant = stage.one if count == 1 else self.several.get(count)
            if variant is None:
                known = max(size for size in (1, *self.several) if size < count)
                costs.append(costs[known - 1] + costs[count - known - 1])
                workspace.append(max(workspace[known - 1], workspace[count - known - 1]))
            else:
                costs.append(float(self.charged(variant)[stage.start : stage.stop].sum()))
                workspace.append(variant.inside(stage.start, stage.stop))
        name = f"layers {stage.start + 1} to {stage.stop}"
        return ChainLayer(name, tuple(costs), tuple(workspace), *ends)

    def cheapest(self, stages: Chain, memory: int, searched: int) -> ChainPlan | None:
        """The plan of the corrected program; its tables serve all memories up to the largest so far."""
        raise_if_stopped()
        known = self._tables.get(stages)
        if known is None or known.memory < memory:
            known = self._tables[stages] = Tables(stages, self.images, int(_HEADROOM * memory))
        return plan_cheapest(stages, self.images, memory, searched=searched, tables=known)

    def passage(
        self, cuts: Sequence[Cut], ones: Sequence[Variant], memory: int, searched: int = 0
    ) -> Passage | None:
        """The corrected program's plan for the stages between these cuts."""
        plan = self.cheapest(self.chain(cuts, ones), memory, searched)
        if plan is None:
            return None
        return Passage(self.staged(cuts, ones, plan), plan.cost, memory, (cuts, ones))

    def smaller(self, one: Passage, most: float) -> Passage:
        """The passage by the same cuts and heights in the least memory in which it costs at most that."""
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
        """Cost of each layer in a variant, of all its images, by the price."""
        seconds = self.price.seconds * variant.seconds
        if self.cost is None:
            return seconds
        return seconds + self.price.cost * variant.amounts(self.cost)

    @cached_property
    def _ladder(self) -> tuple[Variant, ...]:
        heights = price_heights(self.predicted)
        ladder = heights.ladder
        chosen = sorted({round(k * (len(ladder) - 1) / (_HEIGHTS - 1)) for k in range(_HEIGHTS)})
        texts = [heights.rows(ladder[at]) for at in chosen]
        found = []
        for text in dict.fromkeys((*texts, "auto")):
            found.append(make_row_variant(self.prepared, text, self.profile, None))
            self.report(len(found))
        return tuple(found)

    def _variant(self, images: int) -> Variant:
        found = make_image_variant(self.prepared, images, self.profile)
        self.report(images)
        return found

    def staged(
        self, cuts: Sequence[Cut], ones: Sequence[Variant], plan: ChainPlan
    ) -> StagedRequest:
        """The request by a plan of the chain between these cuts."""
        stages = make_stages([cut.at for cut in cuts], self.ranks.count, ones)
        calls = (self._calls(one, one.layer) for one in plan.firings)
        return self.called(stages, tuple(chain.from_iterable(calls)))

    def _calls(self, firing: BatchFiring, stage: int) -> Iterator[Call]:
        """The calls of a firing, which is divided if its number of images has no variant."""
        first, left = firing.first, firing.images
        while left:
            size = max(size for size in (1, *self.several) if size <= left)
            yield Call(stage, first, size)
            first, left = first + size, left - size

    def with_branches(
        self, stages: tuple[Stage, ...], places: Places, plan: ChainPlan
    ) -> StagedRequest:
        """The request by a plan of the main path with branches, see `special`."""
        calls: list[Call] = []
        for firing in plan.firings:
            branches, own = places[firing.layer]
            for numbers, inside in zip(branches, firing.inside, strict=True):
                for one in inside:
                    calls += self._calls(one, numbers[one.layer])
            calls += self._calls(firing, own)
        return self.called(stages, tuple(calls))

    def called(self, stages: tuple[Stage, ...], calls: tuple[Call, ...]) -> StagedRequest:
        """The request by these calls of stages."""
        return StagedRequest(self.images, stages, calls, self.several, self.ranks)


def passages(request: Request, memory: int, batching: str) -> list[Passage]:
    """The passages that an algorithm finds within so many bytes, the cheapest first; of equal cost the smallest first."""
    found = sorted(_ALGORITHMS[batching](request, memory), key=lambda one: one.cost)
    most = ALIKE * found[0].cost if found else 0.0
    alike = [request.smaller(one, most) for one in found if one.cost <= most]
    return [*sorted(alike, key=lambda one: one.bytes), *found[len(alike) :]]


_Algorithm = Callable[[Request, int], Iterator[Passage]]


# Algorithms of paper 000: whole layers on the main path --------------------------------------------


def _fixed(request: Request, memory: int) -> Iterator[Passage]:
    """One batch for all layers, of every size that fits."""
    count = request.ranks.count
    stages = make_stages((), count, (request.whole,))
    for size, variant in [(1, request.whole), *request.several.items()]:
        inside = variant.inside(0, count)
        if inside <= memory:
            firsts = range(0, request.images, size)
            sizes = [min(size, request.images - first) for first in firsts]
            if all(one == 1 or one in request.several for one in sizes):
                calls = tuple(Call(0, a, b) for a, b in zip(firsts, sizes, strict=True))
                each = {1: request.whole, **request.several}
                cost = sum(float(request.charged(each[size]).sum()) for size in sizes)
                yield Passage(request.called(stages, calls), cost, inside)


def _by_layers(choose: Callable[[Chain, int, int], ChainPlan | None]) -> _Algorithm:
    """An algorithm that chooses a batch for each layer of the main path; slabs are whole maps."""

    def found(request: Request, memory: int) -> Iterator[Passage]:
        cuts, ones = _main_path(request)
        plan = choose(request.chain(cuts, ones), request.images, memory)
        if plan is not None:
            yield Passage(request.staged(cuts, ones, plan), plan.cost, memory)

    return found


def _printed(request: Request, memory: int) -> Iterator[Passage]:
    """The program as printed, with batches of their own for the branches of special layers."""
    stages, places, main = request.special(request.ranks.single())
    plan = plan_printed(main, request.images, memory, unit=max(1, memory // _STEPS))
    if plan is not None:
        yield Passage(request.with_branches(stages, places, plan), plan.cost, memory)


def _main_path(request: Request) -> tuple[Sequence[Cut], Sequence[Variant]]:
    cuts = request.ranks.single()
    return cuts, [request.whole] * (len(cuts) + 1)


def _vbs(request: Request, memory: int) -> Iterator[Passage]:
    """A batch for each layer. One batch for all layers is a special case, whose memory is known more exactly."""
    yield from _fixed(request, memory)
    found = request.passage(*_main_path(request), memory, SEARCHED)
    if found is not None:
        yield found


# Images and rows together ---------------------------------------------------------------------------


def _joint(request: Request, memory: int) -> Iterator[Passage]:
    """Cuts, batches and heights together; includes the passages in whole layers."""
    yield from _vbs(request, memory)
    tried = []
    for number in range(_AT_ONCE + 1):
        for cuts in combinations(request.ranks.worth(_CUTS), number):
            for ones in dict.fromkeys(_heights(request, cuts, memory)):
                tried.append((_at_best(request.chain(cuts, ones), request.images), cuts, ones))
    kept = [inf] * _KEPT
    for bound, cuts, ones in sorted(tried, key=lambda one: one[0]):
        if bound >= kept[-1]:
            break
        found = request.passage(cuts, ones, memory)
        if found is not None:
            kept = sorted([*kept, found.cost])[:_KEPT]
            yield found


def _at_best(stages: Chain, images: int) -> float:
    """A lower bound of the cost of a chain's plans: every stage with its best number of images."""
    return images * sum(
        min(cost / (k + 1) for k, cost in enumerate(layer.costs[:images]))
        for layer in stages.layers
    )


def _heights(request: Request, cuts: Sequence[Cut], memory: int) -> Iterator[tuple[Variant, ...]]:
    """Heights of stages: the fastest in the memory that is left if all images wait at both ends, or one does."""
    waiting = (0, *(cut.bytes for cut in cuts), 0)
    for images in dict.fromkeys((request.images, 1)):
        chosen = []
        ends = pairwise((0, *(cut.at for cut in cuts), request.ranks.count))
        for (start, stop), (before, after) in zip(ends, pairwise(waiting), strict=True):
            left = memory - max(images * before + after, before + images * after)
            fitting = [
                (request.charged(one)[start:stop].sum(), at, one)
                for at, one in enumerate(request.rows)
                if one.inside(start, stop) <= left
            ]
            if not fitting:
                break
            chosen.append(min(fitting)[2])
        else:
            yield tuple(chosen)


_ALGORITHMS: dict[str, _Algorithm] = {
    "fbs": _fixed,
    "greedy": _by_layers(plan_greedy),
    "vbs-paper": _printed,
    "vbs": _vbs,
    "joint": _joint,
}
"""Value of the option `batching` -> the algorithm that chooses batches."""
