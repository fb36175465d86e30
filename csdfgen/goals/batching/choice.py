"""Which plan does a request of several images get? The fastest within the memory that packing really takes, or
the smallest within a time.

Estimates of `search` count images that wait as whole maps, and know no addresses; so the memory that they are
allowed is corrected by what the plans that are made take, until no better one is found.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from csdfgen.devices.costs import Cost, energy_within, plan_cost
from csdfgen.devices.model import check_costs, estimate
from csdfgen.errors import InputError, PlanError, option
from csdfgen.goals.batching.search import ALIKE, Passage, Price, Request, passages
from csdfgen.goals.batching.stages import order_of_request
from csdfgen.goals.heights import Predicted, predicting
from csdfgen.goals.search import Progress, expected
from csdfgen.model.describe import plain, sizes
from csdfgen.model.network import Network
from csdfgen.model.options import DEFAULTS, PlanOptions
from csdfgen.model.units import counted, shown_energy, shown_size, shown_time
from csdfgen.planning.plan import Plan
from csdfgen.planning.plan_table import Entry
from csdfgen.planning.planner import Candidate, outputs_beside
from csdfgen.planning.prepared import ANY, Prepared
from csdfgen.program.steps import Backend

__all__ = ["Chooser", "of_requests", "plan_for_request"]

_LITTLE = 0
"""Bytes of a request that leave none for scratch: kernels do with the least."""

_TRIES = 4
"""How often estimates are corrected by the plans that are made of them."""

_MADE = 2
"""Plans that are made of the candidates of one estimate."""

_WORTH = 1.02
"""Memory that is left, from which on estimates are allowed more."""

_LESS = 0.95
"""Of memory that estimates are allowed next where their plan does not fit."""

_MORE = 1.1
"""Of memory that estimates are allowed where they find nothing: packing may take less than they say."""

_HALVINGS = 7
"""How exactly the least memory within a time is looked for."""

_AGAIN = 2
"""How often that is done: plans of one image that are found by the way may serve in less."""

_SLOWED = 2.0
"""Times longer than predicted that kernels with the least scratch take at most."""

_SMALLER = (0.9, 0.8)
"""Parts of a memory for whose estimates numpy's plans are made, too."""

_SHARES = (0.5, 0.8, 0.95, 1.0)
"""What a limited cost counts beside time, from plan to plan, until it is kept; at last nothing else counts."""

_JOINT = "joint"


OneImage = Callable[[Prepared], Plan]
"""Chooses a plan of one image for the options of a prepared network."""


def plan_for_request(
    prepared: Prepared,
    one_image: OneImage,
    progress: Progress | None = None,
    cost: Cost | None = None,
) -> Plan:
    """The plan for `options.frames` images of a network, whose batches are chosen as `options.batching` says.

    prepared: the network, of which so many images do not touch each other (`csdfgen.load(model, batch=...)`). Of
    its options `memory` asks for the fastest plan that takes no more bytes, `latency` for one whose images are all
    done by then, without a memory the smallest, `energy` or a `cost` for one that takes no more of it. one_image:
    chooses a plan of one image. Raises PlanError for a budget that no plan keeps, with the least that does;
    InputError for options that contradict each other.
    """
    options = prepared.options
    chooser = Chooser(prepared, one_image, progress, cost)
    return chooser.best(options.memory, options.latency).plan


def of_requests(network: Network, images: int) -> Network:
    """The network for so many requests, each of one image, at a time. Raises InputError for a number that is
    none, and for a network whose inputs and outputs are not those of one image.
    """
    if type(images) is not int or images < 1:
        raise InputError(f"{option('requests', images)}: a number of images above 0 is needed")
    if not isinstance(network, Network) or network.batch % images == 0:
        return network
    ends = [*network.inputs, *(o.tensor for o in network.outputs if o.tensor is not None)]
    wrong = next((one for one in ends if one.shape[:1] != (1,)), None)
    if network.batch != 1 or wrong is not None:
        found = (
            f"a batch of {network.batch}"
            if wrong is None
            else f"'{plain(wrong.name)}' {sizes(wrong.shape)}"
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


def _quick(found: Sequence[Entry], kernels: Backend) -> Entry:
    """The fastest; of those that are expected alike one whose slabs lie together, and with the fewest bytes alive,
    which leaves the most for scratch and for caches.
    """
    seconds = {one: expected(one.plan, one.seconds, kernels) for one in found}
    most = ALIKE * min(seconds.values())
    alike = [one for one in found if seconds[one] <= most]
    return min(alike, key=lambda one: (one.plan.fine, one.plan.figures["peak_live"], one.seconds))


@dataclass
class _Way:
    """A way through the network that was looked at, and the plan that was made of it, if any.

    said: its stages. order: None where a planner of one image made the plan. made_for: budget of the plan;
    smallest: whether its smallest arena was looked for.
    """

    said: str = ""
    order: Candidate | None = None
    entry: Entry | None = None
    made_for: int = 0
    smallest: bool = False


class Chooser:
    """Plans that were made for a request, and which is taken; what was found out about its layers serves every
    budget. Parameters are those of `plan_for_request`, which raises the same.
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
        self.profile = predicting(self.options, prepared.kernels)
        wishes = {"batching": "", "memory": 0, "latency": 0.0, "energy": 0.0, "result": "stored"}
        bare = replace(self.options, frames=1, **wishes)  # type: ignore[arg-type]
        options = self.options
        if options.energy and cost is not None:
            raise InputError(
                f"{option('energy', options.energy)} and a cost of {cost.name} both limit a request; leave one of "
                "them out"
            )
        self.cost = energy_within(self.profile, options.energy) if options.energy else cost
        single = replace(prepared.for_images(1), options=bare)
        self.request = Request(
            Predicted(single, self.profile), options.frames, self._looked, self.cost
        )
        self._ways: dict[str, _Way] = {}
        self._alone: dict[PlanOptions, Plan] = {}
        self._least_alone = 0
        self._budget = _LITTLE
        self._costs: dict[Entry, float] = {}
        self._outputs = outputs_beside(prepared.network, options)
        check_costs(single.network, (), self.profile)

    @property
    def found(self) -> list[Entry]:
        """All plans that were made."""
        return [way.entry for way in self._ways.values() if way.entry is not None]

    def best(self, memory: int, latency: float = 0.0) -> Entry:
        """The fastest that takes no more bytes and no more seconds, or the smallest that takes no more seconds;
        0 for any. Raises PlanError.
        """
        if memory or not latency:
            self._budget = memory or ANY
            self.within(self._budget)
            return self._chosen(memory, latency)
        return self._smallest_in_time(latency)

    def _smallest_in_time(self, latency: float) -> Entry:
        """The smallest whose kernels have the scratch that profiles know, or with the least of it where they may
        take much longer than predicted.
        """
        found = []
        if any(one.cost <= latency / _SLOWED for one in self._passages(ANY)):
            self._budget = _LITTLE
            self.in_time(latency / _SLOWED)
            with contextlib.suppress(PlanError):
                found.append(self._chosen(0, latency / _SLOWED))
            self._ways = {
                text: replace(way, entry=None) for text, way in self._ways.items() if way.order
            }
        self._budget = ANY
        self.in_time(latency)
        return min([*found, self._chosen(0, latency)], key=lambda one: one.bytes)

    def _chosen(self, memory: int, latency: float) -> Entry:
        """Of the plans that were made, see `best`."""
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
        """Make plans that take no more, and the best of them."""
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
                if self._ways[passage.staged.text].entry is not None:
                    break  # where rows do not fit that are alive together, those of the next seldom do
            by_taken = passage.bytes * memory // taken
            if memory == ANY or (taken <= memory and by_taken <= allowed * _WORTH):
                break
            allowed = by_taken if taken <= memory else min(int(allowed * _LESS), by_taken)
        if self.prepared.kernels.rereads_weights and memory != ANY:
            self._smaller(memory)

    def _smaller(self, memory: int) -> None:
        """Make plans by smaller estimates, too: they have room for whole slabs and scratch, which estimates do not
        know.
        """
        for share in _SMALLER:
            for passage in self._passages(int(share * memory))[:_MADE]:
                self._taken(passage, memory)

    def _cheap(self, memory: int, cost: Cost) -> list[Entry]:
        """Plans within the memory and the cost: where the fastest cost too much, those for which time counts less
        and less beside it. Raises PlanError.
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
        """Seconds a unit of a cost of one image; None where that is the same for every layer, so that nothing
        but less time makes it less.
        """
        whole = self.request.whole
        seconds, amounts = whole.seconds, whole.amounts(cost)
        if not amounts.sum() or np.allclose(amounts / amounts.sum(), seconds / seconds.sum()):
            return None
        return float(seconds.sum() / amounts.sum())

    def _cost(self, entry: Entry, cost: Cost) -> float:
        if entry not in self._costs:
            # one image, one after the other, where an order covers no more
            runs = self.options.frames // entry.plan.conversion.frames
            self._costs[entry] = runs * plan_cost(entry.plan, self.profile, cost)
        return self._costs[entry]

    def in_time(self, latency: float) -> None:
        """Make plans that are done by then, of as little memory as the estimates find."""
        self.within(ANY)
        frame = self.profile.processor.frame
        left = latency - (0.0 if frame is None else self.options.frames * frame.value)
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
        """Bytes of the smallest plan that is done by then; 0 for none."""
        return min((one.bytes for one in self.found if one.seconds <= latency), default=0)

    def _rows_alone(self, asked: PlanOptions) -> None:
        """The best plan of one image for such a wish, for one after the other; stages may choose among its heights
        and those of other wishes, too.
        """
        if asked not in self._alone:
            try:
                self._alone[asked] = self.one_image(replace(self.prepared, options=asked))
            except PlanError as error:  # images and rows together may do with less
                self._least_alone = error.least
                return
        made = self._alone[asked]
        self.request.add(made)
        if self._budget == ANY and asked.latency:  # it was to be small, but not its scratch
            phased = self.prepared.phased(made.options)
            terms = replace(phased.terms, budget=ANY)
            made = Candidate(phased, made.policy, made.order).plan(terms)
        seconds = self.options.frames * estimate(made, self.profile).seconds
        self._ways[f"rows {made.options.rows}"] = _Way(entry=Entry(made, seconds))

    def _passages(self, memory: int) -> list[Passage]:
        return passages(self.request, memory, self.options.batching)

    def _taken(self, passage: Passage, memory: int) -> int:
        """Bytes that a passage needs. A plan is made of it where not more is alive at one time than there is,
        and no smaller one is looked for than that.
        """
        staged = passage.staged
        way = self._ways.get(staged.text)
        if way is None:
            order = order_of_request(self.prepared, staged)
            way = self._ways[staged.text] = _Way(staged.said, order)
        assert way.order is not None
        alive = way.order.peak_live + self._outputs
        if alive > memory:
            return alive
        entry = way.entry
        if entry is None or (entry.bytes <= memory and way.made_for != self._budget):
            entry = self._made(way, memory - self._outputs)
        return entry.bytes if entry.bytes > memory else alive  # beside which there is scratch

    def _made(self, way: _Way, enough: int | None = None) -> Entry:
        """The plan of a way, of the smallest arena that is found, or of one that is small enough."""
        assert way.order is not None
        self._tell("planning")
        terms = replace(way.order.phased.terms, budget=self._budget, enough=enough)
        plan = way.order.plan(terms)
        plan = replace(plan, notes=(*plan.notes, f"stages: {way.said}"))
        way.entry = Entry(plan, estimate(plan, self.profile).seconds)
        way.made_for, way.smallest = self._budget, enough is None
        return way.entry

    def _smallest(self, entry: Entry) -> Entry:
        """The same plan in the smallest arena that is found for it, and what is left of the memory as scratch."""
        way = next(way for way in self._ways.values() if way.entry is entry)
        if way.order is None or (way.smallest and way.made_for == self._budget):
            return entry
        found = self._made(way)
        most = entry.bytes if self._budget in (_LITTLE, ANY) else self._budget
        if found.bytes > most:  # what was enough was found in another way
            way.entry = entry
            return entry
        return found

    def _looked(self, images: int) -> None:
        self._tell("looking at layers")

    def _tell(self, what: str) -> None:
        if self.progress is not None:
            self.progress(what)

    # What is said ----------------------------------------------------------------------------------

    def _too_little(self, memory: int) -> PlanError:
        """The least memory with which this way finds a plan."""
        way, least = option("batching", self.options.batching), self._least(memory)
        said = f"{option('memory')} of {memory:,} bytes is too little for {way}"
        if least is None:
            return PlanError(
                f"{said}, which finds no plan in any memory; take {option('batching', _JOINT)}"
            )
        return PlanError(
            f"{said} on {self._images}: the least that was found is {least:,} bytes; ask for "
            f"{option('memory', shown_size(least))} or more",
            least=least,
        )

    @property
    def _images(self) -> str:
        return counted(self.options.frames, "image")

    def _least(self, allowed: int) -> int | None:
        """Bytes of the smallest plan that was made, or can be by ever more memory."""
        orders = [
            (way.order.peak_live, way) for way in self._ways.values() if way.order is not None
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
            (option("energy", f"{cost.most:g}"), option("energy", shown_energy(least)))
            if self.options.energy
            else (f"{cost.name} of {cost.most:g}", f"{least:.4g} {cost.unit}")
        )
        return PlanError(
            f"{said} {cost.unit} is not kept{within}: the prediction for {self._images} is "
            f"{least:.4g} {cost.unit} at least on {self.profile.name}; allow {more} or more, or ask for fewer images"
        )

    def _too_late(self, quick: Entry, memory: int, latency: float) -> PlanError:
        within = f" within {memory:,} bytes" if memory else ""
        return PlanError(
            f"{option('latency')} of {1e3 * latency:.6g} ms is not kept{within}: the prediction for "
            f"{self._images} is {1e3 * quick.seconds:.4g} ms at least on {self.profile.name}; ask for "
            f"{option('latency', shown_time(quick.seconds))} or more, or for fewer images"
        )
