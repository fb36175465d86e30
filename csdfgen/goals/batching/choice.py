"""Which plan does a request of several images get? The fastest within a memory budget, or the smallest within a time.

The estimates of `search` count waiting images as whole maps and know no addresses. Their memory limit is therefore
corrected by the bytes of the plans that are made from them, until no better plan is found.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from csdfgen.devices.costs import Cost, energy_limit, plan_cost
from csdfgen.devices.model import check_costs, estimate
from csdfgen.errors import InputError, PlanError, option
from csdfgen.goals.batching.search import ALIKE, Passage, Price, Request, passages
from csdfgen.goals.batching.stages import order_request
from csdfgen.goals.heights import Predicted, choose_profile, frame_overhead
from csdfgen.goals.search import Progress, expected_seconds
from csdfgen.model.describe import shorten_name, sizes
from csdfgen.model.network import Network
from csdfgen.model.options import DEFAULTS, PlanOptions
from csdfgen.model.units import format_energy, format_size, format_time, pluralize
from csdfgen.planning.plan import Plan, Point
from csdfgen.planning.plan_table import PlanTable
from csdfgen.planning.planner import Candidate, output_bytes_beside
from csdfgen.planning.prepared import ANY, Prepared
from csdfgen.program.steps import Backend
from csdfgen.stopping import is_stopped, raise_if_stopped

_LITTLE = 0
"""Budget of a request that leaves no bytes for scratch: kernels get the least."""

_TRIES = 4
"""Corrections of the estimates by the plans that are made from them."""

_MADE = 2
"""Plans made from the passages of one estimate."""

_WORTH = 1.02
"""Estimates get more memory if a plan takes less than the budget by this factor."""

_LESS = 0.95
"""Estimates get this part of their memory next if their plan does not fit."""

_MORE = 1.1
"""Estimates get this multiple of their memory if they find nothing: packing may take less than estimated."""

_HALVINGS = 7
"""Bisections to find the least memory within a time."""

_AGAIN = 2
"""Repetitions of that search: plans of one image that it finds may take less memory."""

_SLOWED = 2.0
"""Measured over predicted time of kernels with the least scratch, at most."""

_SMALLER = (0.9, 0.8)
"""Parts of a budget that estimates are also made for on backends that reread weights."""

_SHARES = (0.5, 0.8, 0.95, 1.0)
"""Weights of a limited cost against time, tried in turn until the limit is kept; at last time counts nothing."""

_JOINT = "joint"


OneImage = Callable[[Prepared], Plan]
"""Chooses the plan of one image for the options of a prepared network."""


def plan_for_request(
    prepared: Prepared,
    one_image: OneImage,
    progress: Progress | None = None,
    cost: Cost | None = None,
) -> Plan:
    """The plan for `options.frames` images of a network; `options.batching` names the algorithm that chooses batches.

    prepared: the network with that many independent images (`csdfgen.load(model, batch=...)`). Its options set budgets:
    `memory` in bytes and `latency` in seconds of all images, for the fastest plan, or without `memory` the smallest;
    `energy` or `cost` limit what the images cost. one_image: chooses the plan of one image. Raises PlanError for a
    budget that no plan meets, with the least that one does; InputError for options that contradict each other.
    """
    options = prepared.options
    chooser = Chooser(prepared, one_image, progress, cost)
    return chooser.best(options.memory, options.latency).plan


def make_table(
    prepared: Prepared,
    requests: Sequence[int],
    budgets: Sequence[int],
    one_image: OneImage,
    progress: Progress | None = None,
) -> PlanTable:
    """Plans for these numbers of images in these budgets (bytes; 0 for no limit), none twice; also for one image, so that
    plans add up to any number of images. A number of images that does not fit a budget has no plan there.

    Raises PlanError if one image does not fit the smallest budget, and what `plan_for_request` raises.
    """
    options = prepared.options
    profile = choose_profile(options, prepared.kernels)
    single = prepared.for_images(1)
    alone = replace(options, batching="", result="stored", frames=1)
    choosers = []
    for images in sorted({*requests} - {1}):
        repeat_request(single.network, images)
        several = single.for_images(images, lifted=True)
        asked = replace(options, frames=images)
        choosers.append(Chooser(replace(several, options=asked), one_image, progress))
    found: dict[tuple[int, int, float], Point] = {}
    for budget in sorted(budgets, key=lambda size: size or float("inf")):
        plans = [one_image(replace(single, options=replace(alone, memory=budget)))]
        if not found:  # also in the least memory: one image then fits wherever several do
            rows = plans[0].options.rows
            plans.append(one_image(replace(single, options=replace(alone, rows=rows))))
        made = [Point(plan, estimate(plan, profile).seconds) for plan in plans]
        for chooser in choosers:
            with contextlib.suppress(PlanError):
                made.append(chooser.best(budget))
        for point in made:
            found.setdefault((point.images, point.plan.planned_bytes, point.seconds), point)
    return PlanTable(tuple(found.values()), profile.name)


def repeat_request(network: Network, images: int) -> Network:
    """The network for a request of so many images. Raises InputError for an invalid number, and for a network whose
    inputs and outputs are not those of one image.
    """
    if type(images) is not int or images < 1:
        raise InputError(f"{option('requests', images)}: a number of images above 0 is needed")
    if not isinstance(network, Network) or network.batch % images == 0:
        return network
    if network.members:
        raise InputError(
            f"{option('requests', images)} are images of one network; plan and serve several networks each by itself"
        )
    ends = [*network.inputs, *(o.tensor for o in network.outputs if o.tensor is not None)]
    wrong = next((one for one in ends if one.shape[:1] != (1,)), None)
    if network.batch != 1 or wrong is not None:
        found = (
            f"a batch of {network.batch}"
            if wrong is None
            else f"'{shorten_name(wrong.name)}' {sizes(wrong.shape)}"
        )
        raise InputError(
            f"{option('requests', images)} are images of a network that takes one; this one has {found}"
        )
    return replace(network, batch=images, lifted=True)


def _check(network: Network, options: PlanOptions) -> None:
    if network.batch % options.frames:
        raise InputError(
            f"{option('requests', options.frames)}: does not divide a batch of {network.batch} images"
        )
    fixed = {
        "rows": options.rows != DEFAULTS.rows,
        "batches": bool(options.batches),
        "goal": options.goal != DEFAULTS.goal,
        "recompute": options.recompute != 1 or bool(options.tiles),
        "fast": bool(options.fast),
        "policy": options.policy not in ("best", "overlap"),
    }
    for name, given in fixed.items():
        if given:
            raise InputError(
                f"{option('batching', options.batching)} chooses batches, heights and the order itself; leave "
                f"{option(name)} out"
            )
    if options.result == "arena":
        raise InputError(
            f"{option('result', 'arena')} is for one image; the outputs of a request are handed on, leave it out"
        )


def _quick(found: Sequence[Point], kernels: Backend) -> Point:
    """The fastest plan; of equally fast ones a plan with contiguous slabs, and of those the one with the fewest bytes
    alive, which leaves the most for scratch and caches.
    """
    seconds = {one: expected_seconds(one.plan, one.seconds, kernels) for one in found}
    most = ALIKE * min(seconds.values())
    alike = [one for one in found if seconds[one] <= most]
    return min(alike, key=lambda one: (one.plan.fine, one.plan.figures["peak_live"], one.seconds))


@dataclass
class _Tried:
    """A passage that was tried, and the plan that was made from it, if any.

    stages: description. order: None if the plan is that of one image. made_for: budget of the plan; smallest: whether
    its smallest arena was searched for.
    """

    stages: str = ""
    order: Candidate | None = None
    point: Point | None = None
    made_for: int = 0
    smallest: bool = False


class Chooser:
    """Makes plans for a request and chooses among them; tables of its layers serve all budgets. Parameters and errors
    are those of `plan_for_request`.
    """

    def __init__(
        self,
        prepared: Prepared,
        one_image: OneImage,
        progress: Progress | None = None,
        cost: Cost | None = None,
    ) -> None:
        _check(prepared.network, prepared.options)
        self.options = replace(prepared.options, rows=DEFAULTS.rows, policy="best")
        self.prepared = replace(prepared, options=self.options)
        self.one_image, self.progress = one_image, progress
        self.profile = choose_profile(self.options, prepared.kernels)
        budgets = {"batching": "", "memory": 0, "latency": 0.0, "energy": 0.0, "result": "stored"}
        bare = replace(self.options, frames=1, **budgets)  # type: ignore[arg-type]
        options = self.options
        if options.energy and cost is not None:
            raise InputError(
                f"{option('energy', options.energy)} and a cost of {cost.name} both limit a request; leave one of "
                "them out"
            )
        self.cost = energy_limit(self.profile, options.energy) if options.energy else cost
        single = replace(prepared.for_images(1), options=bare)
        self.request = Request(
            Predicted(single, self.profile), options.frames, self._looked, self.cost
        )
        self._tried: dict[str, _Tried] = {}
        self._alone: dict[PlanOptions, Plan] = {}
        self._least_alone = 0
        self._budget = _LITTLE
        self._costs: dict[Point, float] = {}
        self._outputs = output_bytes_beside(prepared.network, options)
        check_costs(single.network, (), self.profile)

    @property
    def found(self) -> list[Point]:
        """All plans that were made."""
        return [one.point for one in self._tried.values() if one.point is not None]

    def best(self, memory: int, latency: float = 0.0) -> Point:
        """The fastest plan within the bytes and the seconds, or without a budget in bytes the smallest within the
        seconds; 0 for no limit. Raises PlanError.
        """
        try:
            if memory or not latency:
                self._budget = memory or ANY
                self.within(self._budget)
                return self._chosen(memory, latency)
            return self._smallest_in_time(latency)
        except KeyboardInterrupt:
            found = self._so_far(memory, latency) if is_stopped() else None
            if found is None:
                raise
            return replace(found, plan=replace(found.plan, interrupted=True))

    def _so_far(self, memory: int, latency: float) -> Point | None:
        """The best of the plans so far that keep all limits; None for none."""
        kept = [
            one
            for one in self.found
            if (not memory or one.bytes <= memory) and (not latency or one.seconds <= latency)
            if self.cost is None or self._cost(one, self.cost) <= self.cost.most
        ]
        if not kept:
            return None
        small = latency and not memory
        return (
            min(kept, key=lambda one: one.bytes) if small else _quick(kept, self.prepared.kernels)
        )

    def _smallest_in_time(self, latency: float) -> Point:
        """The smallest plan: with the scratch that the profile was measured with, or with the least scratch if there is
        time for kernels that take much longer than predicted.
        """
        found = []
        if any(one.cost <= latency / _SLOWED for one in self._passages(ANY)):
            self._budget = _LITTLE
            self.in_time(latency / _SLOWED)
            with contextlib.suppress(PlanError):
                found.append(self._chosen(0, latency / _SLOWED))
            self._tried = {
                text: replace(tried, point=None)
                for text, tried in self._tried.items()
                if tried.order
            }
        self._budget = ANY
        self.in_time(latency)
        return min([*found, self._chosen(0, latency)], key=lambda one: one.bytes)

    def _chosen(self, memory: int, latency: float) -> Point:
        """The best of the plans that were made, see `best`."""
        kernels = self.prepared.kernels
        kept = [one for one in self.found if not memory or one.bytes <= memory]
        if not kept:
            raise self._too_little(memory)
        if self.cost is not None:
            kept = self._cheap(memory, self.cost)
        if not latency:
            return self._smallest(_quick(kept, kernels))
        in_time = [one for one in kept if one.seconds <= latency]
        if not in_time:
            raise self._too_late(min(kept, key=lambda one: one.seconds), memory, latency)
        return self._smallest(
            _quick(in_time, kernels)
            if memory
            else min(in_time, key=lambda one: (one.bytes, one.seconds))
        )

    def within(self, memory: int) -> None:
        """Make the fastest plans that take at most so many bytes."""
        allowed = memory
        if self.options.batching == _JOINT:
            asked = replace(self.request.prepared.options, memory=memory)
            if memory == ANY:
                asked = replace(asked, memory=0, goal="speed")
            self._rows_alone(asked)
        for _ in range(_TRIES):
            tried = self._passages(allowed)[:_MADE]
            if not tried:
                allowed = int(allowed * _MORE)
                continue
            for passage in tried:  # the cheapest first
                taken = self._taken(passage, memory)
                if self._tried[passage.staged.text].point is not None:
                    break  # if the bytes alive in this passage do not fit, those of the next seldom do
            by_taken = passage.bytes * memory // taken
            if memory == ANY or (taken <= memory and by_taken <= allowed * _WORTH):
                break
            allowed = by_taken if taken <= memory else min(int(allowed * _LESS), by_taken)
        if self.prepared.kernels.rereads_weights and memory != ANY:
            self._smaller(memory)

    def _smaller(self, memory: int) -> None:
        """Make plans from smaller estimates too, which leave memory for whole slabs and scratch that estimates do not
        count.
        """
        for share in _SMALLER:
            for passage in self._passages(int(share * memory))[:_MADE]:
                self._taken(passage, memory)

    def _cheap(self, memory: int, cost: Cost) -> list[Point]:
        """Plans within the memory and the cost: if the fastest cost too much, the weight of the cost against time is
        raised step by step. Raises PlanError.
        """
        rate = self._rate(cost)
        for share in _SHARES:
            kept = [one for one in self.found if not memory or one.bytes <= memory]
            cheap = [one for one in kept if self._cost(one, cost) <= cost.most]
            if cheap or rate is None:
                break
            self.request.price = Price(1 - share, share * rate)
            self.within(memory or ANY)
        self.request.price = Price()
        if not cheap:
            raise self._too_dear(min(self._cost(one, cost) for one in kept), memory, cost)
        return cheap

    def _rate(self, cost: Cost) -> float | None:
        """Seconds for a unit of a cost, for one image; None if the ratio is the same in every layer, so that only less
        time reduces the cost.
        """
        whole = self.request.whole
        seconds, amounts = whole.seconds, whole.amounts(cost)
        if not amounts.sum() or np.allclose(amounts / amounts.sum(), seconds / seconds.sum()):
            return None
        return float(seconds.sum() / amounts.sum())

    def _cost(self, point: Point, cost: Cost) -> float:
        if point not in self._costs:
            # a plan of fewer images is executed several times
            runs = self.options.frames // point.plan.conversion.frames
            self._costs[point] = runs * plan_cost(point.plan, self.profile, cost)
        return self._costs[point]

    def in_time(self, latency: float) -> None:
        """Make plans within the seconds, of the least memory that estimates find."""
        self.within(ANY)
        left = latency - self.options.frames * frame_overhead(self.profile)
        most = self._least_by(latency)
        if most and self.options.batching == _JOINT:
            alone = self.request.prepared.options
            self._rows_alone(replace(alone, latency=latency / self.options.frames))
            most = self._least_by(latency)
        for _ in range(_AGAIN if most else 0):
            low, high = 0, most
            for _ in range(_HALVINGS):
                middle = (low + high) // 2
                done_by = min((one.cost for one in self._passages(middle)), default=inf)
                low, high = (low, middle) if done_by <= left else (middle, high)
            for passage in self._passages(high)[:_MADE]:
                self._taken(passage, most)  # packing may take more than the estimates
                most = self._least_by(latency)

    def _least_by(self, latency: float) -> int:
        """Bytes of the smallest plan within the seconds; 0 for none."""
        return min((one.bytes for one in self.found if one.seconds <= latency), default=0)

    def _rows_alone(self, asked: PlanOptions) -> None:
        """Add the best plan of one image for these options, executed for one image after the other; stages may take its
        heights too.
        """
        if asked not in self._alone:
            try:
                self._alone[asked] = self.one_image(replace(self.prepared, options=asked))
            except PlanError as error:  # stages on several images may take less
                self._least_alone = error.least
                return
        made = self._alone[asked]
        self.request.add(made)
        if self._budget == ANY and asked.latency:  # the plan is to be small, but not its scratch
            phased = self.prepared.phased(made.options)
            terms = replace(phased.terms, budget=ANY)
            made = Candidate(phased, made.policy, made.order).plan(terms)
        seconds = self.options.frames * estimate(made, self.profile).seconds
        self._tried[f"rows {made.options.rows}"] = _Tried(point=Point(made, seconds))

    def _passages(self, memory: int) -> list[Passage]:
        return passages(self.request, memory, self.options.batching)

    def _taken(self, passage: Passage, memory: int) -> int:
        """Bytes that a passage needs. If the bytes alive fit the memory, a plan is made from it, and an arena that fits
        is small enough.
        """
        staged = passage.staged
        tried = self._tried.get(staged.text)
        if tried is None:
            order = order_request(self.prepared, staged)
            tried = self._tried[staged.text] = _Tried(staged.description, order)
        assert tried.order is not None
        alive = tried.order.peak_live + self._outputs
        if alive > memory:
            return alive
        point = tried.point
        if point is None or (point.bytes <= memory and tried.made_for != self._budget):
            point = self._made(tried, memory - self._outputs)
        return point.bytes if point.bytes > memory else alive  # the rest is scratch

    def _made(self, tried: _Tried, enough: int | None = None) -> Point:
        """The plan of a passage, in the smallest arena that is found or in one that is small enough."""
        assert tried.order is not None
        self._tell("planning")
        terms = replace(tried.order.phased.terms, budget=self._budget, enough=enough)
        plan = tried.order.plan(terms)
        plan = replace(plan, notes=(*plan.notes, f"stages: {tried.stages}"))
        tried.point = Point(plan, estimate(plan, self.profile).seconds)
        tried.made_for, tried.smallest = self._budget, enough is None
        return tried.point

    def _smallest(self, point: Point) -> Point:
        """The same plan in the smallest arena that is found for it, with the rest of the memory as scratch."""
        tried = next(tried for tried in self._tried.values() if tried.point is point)
        if tried.order is None or (tried.smallest and tried.made_for == self._budget):
            return point
        found = self._made(tried)
        most = point.bytes if self._budget in (_LITTLE, ANY) else self._budget
        if found.bytes > most:  # the arena that was small enough was found by another search
            tried.point = point
            return point
        return found

    def _looked(self, images: int) -> None:
        self._tell("looking at layers")

    def _tell(self, what: str) -> None:
        raise_if_stopped()
        if self.progress is not None:
            self.progress(what)

    # Refusals --------------------------------------------------------------------------------------

    def _too_little(self, memory: int) -> PlanError:
        """The error with the least memory in which the algorithm finds a plan."""
        batching, least = option("batching", self.options.batching), self._least(memory)
        said = f"{option('memory')} of {memory:,} bytes is too little for {batching}"
        if least is None:
            return PlanError(
                f"{said}, which finds no plan in any memory; take {option('batching', _JOINT)}"
            )
        return PlanError(
            f"{said} on {self._images}: the least that was found is {least:,} bytes; ask for "
            f"{option('memory', format_size(least))} or more",
            least=least,
        )

    @property
    def _images(self) -> str:
        return pluralize(self.options.frames, "image")

    def _least(self, allowed: int) -> int | None:
        """Bytes of the smallest plan that was made, or that can be made with more memory; None for none."""
        orders = [
            (tried.order.peak_live, tried)
            for tried in self._tried.values()
            if tried.order is not None
        ]
        if not self.found and orders:
            self._made(min(orders, key=lambda one: one[0])[1])
        elif not self.found:
            for _ in range(64):
                allowed *= 2
                found = self._passages(allowed)
                if found:
                    break
            else:
                return None
            low, high = allowed // 2, allowed
            for _ in range(_HALVINGS):
                middle = (low + high) // 2
                smaller = self._passages(middle)
                found, low, high = (smaller, low, middle) if smaller else (found, middle, high)
            self._taken(min(found, key=lambda one: one.bytes), ANY)
        found_alone = [self._least_alone] if self._least_alone else []
        return min((*found_alone, *(one.bytes for one in self.found)), default=None)

    def _too_dear(self, least: float, memory: int, cost: Cost) -> PlanError:
        within = f" within {memory:,} bytes" if memory else ""
        said, more = (
            (option("energy", f"{cost.most:g}"), option("energy", format_energy(least)))
            if self.options.energy
            else (f"{cost.name} of {cost.most:g}", f"{least:.4g} {cost.unit}")
        )
        return PlanError(
            f"{said} {cost.unit} is not kept{within}: the prediction for {self._images} is "
            f"{least:.4g} {cost.unit} at least on {self.profile.name}; allow {more} or more, or ask for fewer images"
        )

    def _too_late(self, quick: Point, memory: int, latency: float) -> PlanError:
        within = f" within {memory:,} bytes" if memory else ""
        return PlanError(
            f"{option('latency')} of {1e3 * latency:.6g} ms is not kept{within}: the prediction for "
            f"{self._images} is {1e3 * quick.seconds:.4g} ms at least on {self.profile.name}; ask for "
            f"{option('latency', format_time(quick.seconds))} or more, or for fewer images"
        )
