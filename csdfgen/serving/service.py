"""Where is a network cut for serving, and what memory does that take? Stages, plans of batches, and slots of images.

The memory of a service is one arena for each worker, as large as the worst plan of a stage and a batch, and a slot for each
image in flight, which holds the tensors between stages. Inputs and outputs are arrays of the clients.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

from csdfgen.backends.registry import choose_backend
from csdfgen.errors import InputError, PlanError, option
from csdfgen.goals.batching.choice import make_table, repeat_request
from csdfgen.goals.batching.cuts import Cut, Ranks
from csdfgen.goals.choice import finish_plan, run_options
from csdfgen.goals.heights import Predicted, choose_profile
from csdfgen.model.describe import format_repr, mebibytes
from csdfgen.model.network import Network, Tensor
from csdfgen.model.units import parse_size
from csdfgen.planning.plan_table import PlanTable
from csdfgen.planning.prepared import Prepared, prepare
from csdfgen.program.steps import Backend
from csdfgen.rewriting.cut import cut

STAGES = 4
"""Most stages by default."""

MOST_BATCH = 8
"""Images of a batch by default."""

_CANDIDATES = 12
_COPIED = 4e9
"""Bytes a second at which maps are written to slots and read again, for the choice of cuts."""

_CALL = 1e-4
"""Seconds of a stage besides its layers, for the choice of cuts."""

_ALIGNMENT = 64


@dataclass(frozen=True)
class Slots:
    """Where the tensors between stages are in an image's slot. offsets: of each tensor, in bytes; bytes: of a slot."""

    tensors: Mapping[str, Tensor]
    offsets: Mapping[str, int]
    bytes: int


@dataclass(frozen=True, eq=False)
class Service:
    """A network that is ready to be served. stages: its parts, in order; tables: plans of each for one image and for batches.
    most: images of a batch; in_flight: images that have begun; kernels: the backend.
    """

    network: Network
    stages: tuple[Network, ...]
    tables: tuple[PlanTable, ...]
    slots: Slots
    most: int
    in_flight: int
    workers: int
    kernels: Backend

    def __repr__(self) -> str:
        return format_repr(
            "Service",
            self.network.name,
            stages=len(self.stages),
            max_batch=self.most,
            in_flight=self.in_flight,
            workers=self.workers,
            memory=mebibytes(self.total_bytes),
        )

    @cached_property
    def arena_bytes(self) -> int:
        """Bytes of a worker's arena."""
        return max(table.most_bytes for table in self.tables)

    @property
    def slot_bytes(self) -> int:
        """Bytes of all slots."""
        return self.in_flight * self.slots.bytes

    @property
    def total_bytes(self) -> int:
        """Bytes of arenas and slots."""
        return self.workers * self.arena_bytes + self.slot_bytes


def list_batch_sizes(most: int) -> tuple[int, ...]:
    """Batches that get a plan of their own; others are computed in several of them.

    >>> list_batch_sizes(16)
    (1, 2, 3, 4, 6, 8, 12, 16)
    """
    powers = [2**k for k in range(most.bit_length())]
    between = [3 * one // 2 for one in powers if one > 1]
    return tuple(sorted({one for one in (*powers, *between, most) if one <= most}))


def plan(
    network: Network,
    *,
    max_batch: int = MOST_BATCH,
    in_flight: int | None = None,
    memory: str | int | None = None,
    workers: int = 1,
    stages: int = STAGES,
    cuts: Sequence[Iterable[str]] | None = None,
    **given: Any,
) -> Service:
    """Cut a network into stages, and plan each for batches.

    max_batch: images of a batch, one of several networks that are one. in_flight: images that have begun and are not answered,
    by default two batches per worker.
    memory: bytes of arenas and slots, or a text such as "64MiB"; where they do not fit, fewer images are in flight, down to a
    batch, and stages compute batches in parts. stages: the most stages. cuts: names of tensors for each cut, instead of those
    that are found. given: options of `csdfgen.plan`: fuse, backend, weights, exact, fallback.
    Raises InputError for numbers below 1 and tensors that do not exist; PlanError for a memory that is too small, with the least
    that suffices.
    """
    for name, value in (("max_batch", max_batch), ("workers", workers), ("stages", stages)):
        if value < 1:
            raise InputError(f"{option(name, value)}: a number above 0 is needed")
    max_batch = 1 if network.members else max_batch
    repeat_request(network, max_batch)
    options = run_options({"batching": "joint", "result": "stored", **given})
    if cuts is None:
        cuts = find_cuts(network, stages, given)
    parts = cut(network, cuts) if cuts else (network,)
    slots = place_slots(parts)
    budget = None if memory is None else parse_size(memory)
    flying = in_flight or 2 * max_batch * workers
    if flying < max_batch:
        raise InputError(
            f"{option('in_flight', flying)} is less than a batch of {max_batch}; allow that many, or lower "
            f"{option('max_batch')}"
        )
    sizes, kernels = list_batch_sizes(max_batch), choose_backend(options)
    prepared = [prepare(part, options, kernels) for part in parts]  # packed weights are theirs

    def service(room: int) -> Service:
        tables = tuple(_table(one, sizes, room) for one in prepared)
        return Service(network, parts, tables, slots, max_batch, flying, workers, kernels)

    made = service(0)
    if budget is None or made.total_bytes <= budget:
        return made
    if in_flight is None and slots.bytes:
        fitting = (budget - workers * made.arena_bytes) // slots.bytes
        flying = max(max_batch, min(flying, fitting))
    room = (budget - flying * slots.bytes) // workers
    least = max(_least(part, given) for part in parts)
    if room < least:
        needed = workers * least + flying * slots.bytes
        raise PlanError(
            f"{option('memory', budget)} is less than {needed:,} bytes, the least for {flying} images in flight, "
            f"{slots.bytes:,} bytes each, and {workers} x {least:,} bytes of stages; allow that, lower "
            f"{option('max_batch')} or {option('in_flight')}, or make fewer {option('stages')}",
            least=needed,
        )
    return service(room)


def _table(prepared: Prepared, sizes: Sequence[int], room: int) -> PlanTable:
    """Plans for batches of these sizes whose arenas have at most `room` bytes (0: any number)."""
    if not room:
        return make_table(prepared, sizes, [0], finish_plan)
    beside = (
        prepared.network.output_bytes
    )  # budgets of plans count outputs, which are in slots here
    found = {
        (one.images, one.plan.planned_bytes): one
        for size in sizes
        for one in make_table(prepared, [size], [room + size * beside], finish_plan).entries
        if one.plan.planned_bytes <= room
    }
    return PlanTable(tuple(found.values()), choose_profile(prepared.options, prepared.kernels).name)


def _least(part: Network, given: Mapping[str, Any]) -> int:
    """Bytes of the smallest plan of one image."""
    options = run_options({**given, "result": "stored", "goal": "memory"})
    return finish_plan(prepare(part, options, choose_backend(options))).planned_bytes


# Cuts -------------------------------------------------------------------------------------------


def find_cuts(
    network: Network, stages: int, given: Mapping[str, Any]
) -> tuple[tuple[str, ...], ...]:
    """At most `stages` - 1 cuts: of those that few bytes cross or heavy weights follow, those with which a request waits
    least for the next boundary.

    A request that comes at a random moment waits on average the sum of the squares of the stages' times, divided by twice their
    sum. To that are added the predicted times of copies and calls.
    """
    options = run_options({**given, "result": "stored"})
    prepared = prepare(network, options, choose_backend(options))
    phased = prepared.phased(options)
    ranks = Ranks(phased)
    predicted = Predicted(prepared, choose_profile(options, prepared.kernels))
    seconds = [0.0] * ranks.count
    for work in phased.conversion.actors:
        seconds[ranks.of[work.name]] += predicted.of(work)
    known = [one for one in ranks.worth(_CANDIDATES) if _computed(network, one)]
    total = sum(seconds) or 1.0

    def cost(chosen: Sequence[Cut]) -> float:
        ends = [0, *(one.at for one in chosen), ranks.count]
        parts = [sum(seconds[a:b]) for a, b in pairwise(ends)]
        copies = sum(2 * one.bytes / _COPIED + _CALL for one in chosen)
        return sum(one * one for one in parts) / (2 * total) + copies

    choices = [some for count in range(stages) for some in combinations(known, count)]
    return tuple(one.tensors for one in min(choices, key=cost))


def _computed(network: Network, one: Cut) -> bool:
    """Whether layers of the network compute all that crosses a cut."""
    return all(name in network.producer for name in one.tensors)


# Slots ------------------------------------------------------------------------------------------


def place_slots(stages: Sequence[Network]) -> Slots:
    """Places for the tensors between stages in an image's slot; tensors that no stage needs at one time share bytes."""
    spans: dict[str, list[int]] = {}
    tensors: dict[str, Tensor] = {}
    for at, stage in enumerate(stages):
        for output in stage.outputs:
            if output.tensor is not None:
                tensors[output.tensor.name] = output.tensor
                spans[output.tensor.name] = [at, at]
        for tensor in stage.inputs:
            if tensor.name in spans:
                spans[tensor.name][1] = at
    between = {name: tensors[name] for name, (first, last) in spans.items() if first < last}
    offsets: dict[str, int] = {}
    for name in sorted(between, key=lambda one: -between[one].nbytes):
        first, last = spans[name]
        taken = sorted(
            (offsets[other], offsets[other] + _aligned(between[other].nbytes))
            for other in offsets
            if spans[other][0] <= last and first <= spans[other][1]
        )
        at = 0
        for start, stop in taken:
            if at + between[name].nbytes <= start:
                break
            at = max(at, stop)
        offsets[name] = at
    size = max((at + _aligned(between[name].nbytes) for name, at in offsets.items()), default=0)
    return Slots(between, offsets, size)


def _aligned(size: int) -> int:
    return math.ceil(size / _ALIGNMENT) * _ALIGNMENT
