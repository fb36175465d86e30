"""What is run for a plan, whatever runs it? Pools of memory, and instructions in the order of the firings.

A program consists of numbers: which rows of an input go to which bytes, which kernel computes which rows at which bytes
with which scratch, and which rows of outputs each firing completes. These are handed on before the next firing, which may
reuse their bytes, unless the plan keeps them in the arena until the frame has ended. A backend binds the instructions to
memory of its own (`csdfgen.program.steps.Backend`), or they are written as source; no live array is part of them, and
no address depends on the images; which firings are executed does where a network has branches (`Condition`).

Steps that are alike share their instructions. The rows of a step are in blocks of memory: rows whose bytes overlap, as
those of layers that work in place, are in one block. Two steps of a layer that are alike (`structures`), and whose rows
are alike within their blocks, differ by the distance of each block from that of the other step, and so do the places in
their instructions: those of the first step are made, those of the others are the same ones, moved.
"""

from __future__ import annotations

import hashlib
import logging
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple
from weakref import WeakKeyDictionary

from csdfgen.cache import get_folder, limit, prune
from csdfgen.errors import InputError, PlanError, ToolError
from csdfgen.files import find_mapped_file
from csdfgen.lowering.weight_file import weight_file
from csdfgen.model.deferred import sources
from csdfgen.model.network import Network, Shape, Tensor
from csdfgen.model.rows import Rows
from csdfgen.phases.conversion import ActorWork
from csdfgen.phases.graphs import digest_conversion
from csdfgen.planning.buffers import ARENA
from csdfgen.planning.checker import ensure_checked
from csdfgen.planning.plan import Addresses, Plan
from csdfgen.program.instructions import KEEPER, Constants, Instruction, Once, Ref, Unpacked
from csdfgen.program.steps import (
    Backend,
    Move,
    Port,
    Scratchpad,
    Span,
    Step,
    Touched,
    View,
    structures,
)


@dataclass(frozen=True, slots=True, eq=False)
class Feed:
    """One firing of a network input: rows of an image (of those of an iteration) go into a pool.

    part: what is taken of each row, in the order in which it is stored; all of it by default.
    """

    firing: int
    tensor: Tensor
    image: int
    rows: Rows
    target: View
    part: tuple[slice, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """Rows of an image (of those of an iteration) that a firing completes of a network output."""

    firing: int
    output: str
    tensor: Tensor
    image: int
    rows: Rows
    source: View


class Condition(NamedTuple):
    """A firing in a branch of an If is executed if the condition of its image is `taken`. branch: name of the If; view: of
    one bool.
    """

    branch: str
    view: View
    taken: bool


@dataclass(frozen=True, slots=True)
class Repeats:
    """Firings [start, stop) of a program are executed `more` times again. rows: of each port, that they take or complete."""

    start: int
    stop: int
    more: int
    rows: Sequence[int]


@dataclass(frozen=True, eq=False)
class Program:
    """What a plan does, in instructions of a backend, each stored once.

    pools: bytes by name. firings: for every firing of the plan its step, its feed, or None where
    there is nothing to do (outputs, and layers that are views). deliveries: for every firing what is
    handed on when it has ended. images: those that one run takes. results: outputs that are in the
    arena when a run has ended, all rows of all its images. ports: inputs, then outputs, of each image.
    constants: the pools that instructions refer to and only read. code: for every firing the numbers of its
    instructions; stores: the numbers of those that store the rows of outputs that it completes. guards: for
    every firing the conditions under which it is executed. joins: for firings that end an If for images, their conditions.
    compared: for firings that compare numbers for a condition, these numbers, which may not be NaN. repeats: see
    `segments.find_repeats`.
    """

    pools: Mapping[str, int]
    firings: tuple[Step | Feed | None, ...]
    deliveries: tuple[tuple[Delivery, ...], ...]
    images: int
    results: Mapping[str, View]
    ports: tuple[Port, ...]
    instructions: tuple[Instruction, ...]
    constants: Constants
    code: tuple[tuple[int, ...], ...]
    stores: tuple[tuple[int, ...], ...]
    guards: tuple[tuple[Condition, ...], ...]
    joins: Mapping[int, tuple[Condition, ...]]
    compared: Mapping[int, tuple[tuple[View, str], ...]]
    repeats: Repeats | None = None

    @cached_property
    def touched(self) -> dict[int, Touched]:
        """See `Code.touched`: what the firing touches that has an instruction."""
        found: dict[int, Touched] = {}
        for number, one in enumerate(self.firings):
            if isinstance(one, Feed):
                both = Touched((), _spans(one.target), number)
            elif one is not None:
                pad = one.workspace
                own = ((pad.pool, pad.offset, pad.offset + pad.size),) if pad.size else ()
                both = Touched(_spans(*one.inputs), _spans(*one.outputs, *one.states) + own)
            else:
                continue
            found |= dict.fromkeys(self.code[number], both)
        for given, numbers in zip(self.deliveries, self.stores, strict=True):
            found |= dict.fromkeys(numbers, Touched(_spans(*(one.source for one in given)), ()))
        return found


def _spans(*views: View | None) -> tuple[Span, ...]:
    """The bytes of the rows of views."""
    return tuple(
        (
            one.pool,
            one.rows[start],
            one.rows[stop - 1] + _reach(one.shape, one.strides, one.format.itemsize),
        )
        for view in views
        if view is not None
        for one in view.pieces or (view,)
        for start, stop in one.runs
    )


_LOG = logging.getLogger(__name__)

_KNOWN: WeakKeyDictionary[Plan, WeakKeyDictionary[Backend, Program]] = WeakKeyDictionary()
"""Programs of plans that exist: a plan that is compiled again, once a thread for example, shares its program."""


def lower(
    plan: Plan,
    kernels: Backend,
    constants: Constants | None = None,
    alike: Alike | None = None,
    start: int = 0,
    *,
    steps: bool = True,
) -> Program:
    """The program of a plan. constants: to which those of the program are added, where several share them. alike: steps that
    were lowered with these constants, to which others are added. start: feeds of the first input that are done; nothing in
    front of the last of them has instructions. steps: with the steps of layers, several times as large as their
    instructions, by which threads divide these.

    Raises what the checker raises for a plan that is not sound; PlanError for a layer that the backend cannot compute,
    named with the reason, and for a step that it cannot compute in its workspace.
    """
    ensure_checked(plan)
    if constants is not None:
        return _lowered(plan, kernels, constants, alike, start, steps)
    known = _KNOWN.setdefault(plan, WeakKeyDictionary())
    if kernels not in known:
        lowered = _KEPT[plan.options.weights]
        known[kernels] = lowered(plan, kernels, Constants(plan.pools))
    return known[kernels]


def lower_unpacked(plan: Plan, kernels: Backend) -> Program:
    """The program of a plan, with the sizes of its constants; unless the program exists, no weights are packed, and these
    constants may have any elements. Raises as `lower`.
    """
    if kernels in _KNOWN.setdefault(plan, WeakKeyDictionary()):
        return _KNOWN[plan][kernels]
    layers = [one for layer in plan.network.layers for one in (layer, *layer.epilogue)]
    before = [dict(one.known) for one in layers]
    token = KEEPER.set(Unpacked())
    try:
        for one in layers:
            one.known.clear()
        return _lowered(plan, kernels, Constants(plan.pools))
    finally:
        KEEPER.reset(token)
        for one, packed in zip(layers, before, strict=True):  # what layers know has no elements
            one.known.clear()
            one.known.update(packed)


def _automatic(plan: Plan, kernels: Backend, constants: Constants) -> Program:
    """The same with its weights in a file if they are worth one, and it can be written."""
    if _LEAST <= plan.network.parameter_bytes <= limit() // 2:
        try:
            return _mapped(plan, kernels, constants)
        except (InputError, ToolError) as error:
            _LOG.info("weights are copied: %s", error)
    return _lowered(plan, kernels, Constants(plan.pools))


def _mapped(plan: Plan, kernels: Backend, constants: Constants) -> Program:
    """The same with its weights in a file. What layers have packed in memory is forgotten. Raises InputError."""
    build = "|".join((kernels.name, kernels.code, *kernels.origin))
    network = plan.network
    parts = (
        build,
        network.source,
        network.name,
        digest_conversion(plan.conversion),
        repr(plan.options),
    )
    name = hashlib.sha256("|".join(parts).encode()).hexdigest()[:32]
    with weight_file(get_folder("weights") / f"{name}.weights", build) as file:
        program = _lowered(plan, kernels, constants)
        constants.move(file.moved)
    prune()
    for layer in network.layers:
        for one in (layer, *layer.epilogue):
            one.known.clear()
    return program


_LEAST = 1 << 20
"""Bytes of weights below which a file would not be worth it."""


def _lowered(
    plan: Plan,
    kernels: Backend,
    constants: Constants,
    alike: Alike | None = None,
    start: int = 0,
    steps: bool = True,
) -> Program:
    if KEEPER.get() is None and any(one.rate > 1 for one in plan.network.members):
        token = KEEPER.set(Once())
        try:
            return _lowered(plan, kernels, constants, alike, start, steps)
        finally:
            KEEPER.reset(token)
    for layer in plan.conversion.network.layers:
        for array in (each for one in layer.constants.values() for each in sources(one)):
            if (file := find_mapped_file(array)) is not None:
                file.check()
    for layer in plan.conversion.network.layers:
        for part in (layer, *layer.epilogue):
            why = kernels.refusal(part)
            if why is not None and layer.name not in plan.sharing.silent:
                raise PlanError(f"layer '{layer.name}': backend '{kernels.name}': {why}")
    addresses, conversion = plan.addresses, plan.conversion
    ports = _ports(plan)
    number_of = {(port.name, port.image, port.output): k for k, port in enumerate(ports)}
    outputs: dict[str, list[str]] = {name: [] for name in plan.conversion.network.output_tensors}
    for output in plan.conversion.network.outputs:
        if output.tensor is not None:
            outputs[output.tensor.name].append(output.name)
    instructions: dict[Instruction, int] = {}
    templates = _Templates(kernels, constants, alike)

    def numbered(made: Iterable[Instruction]) -> tuple[int, ...]:
        return tuple([instructions.setdefault(one, len(instructions)) for one in made])

    firings: list[Step | Feed | None] = []
    deliveries: list[tuple[Delivery, ...]] = []
    code: list[tuple[int, ...]] = []
    stores: list[tuple[int, ...]] = []
    guards: list[tuple[Condition, ...]] = []
    joins: dict[tuple[str, int], tuple[int, Condition]] = {}
    compared: dict[int, tuple[tuple[View, str], ...]] = {}
    suspects = _compared(plan.conversion.network)

    def condition(branch: str, image: int, taken: bool) -> Condition:
        view = addresses.view(plan.conversion.network.conditions[branch], Rows(image, image + 1))
        return Condition(branch, view, taken)

    fed = 0
    for number, (name, phase) in enumerate(plan.order):
        work = conversion.actor[name]
        if work.kind == "input":
            feed = _feed(number, work, phase, addresses)
            fed += feed.tensor.name == ports[0].name
            firings.append(feed)
            starts = [part.start for part in feed.part] or [0] * len(feed.target.shape)
            port = number_of[feed.tensor.name, feed.image, False]
            move = Move(port, (feed.rows.start, *starts), feed.target, False)
            code.append(numbered(kernels.lower(move, constants)) if fed >= start else ())
        elif work.layer is None or name in plan.sharing.silent or fed < start:
            firings.append(None)
            code.append(())
        else:
            pad = Scratchpad(ARENA, *plan.workspace(name, phase))
            step = addresses.step(work, phase, number, pad)
            firings.append(step if steps else None)
            code.append(numbered(templates.lower(step)))
        image = work.phases[phase].image
        inside = work.layer.guards if work.layer is not None else ()
        guards.append(tuple(condition(one.branch, image, one.taken) for one in inside))
        if work.layer is not None and (branch := work.layer.attributes.get("branch")):
            for each in range(image, image + work.phases[phase].images):
                joins[branch, each] = number, condition(branch, each, True)
        if name in suspects and work.phases[phase].last:
            rows = Rows(image, image + work.phases[phase].images)
            compared[number] = tuple((addresses.view(t, rows), why) for t, why in suspects[name])
        given = tuple(_deliveries(number, work, phase, outputs, addresses))
        deliveries.append(given)
        stored: tuple[int, ...] = ()
        for one in given if fed >= start else ():
            begin = one.rows.start, *(0,) * len(one.source.shape)
            move = Move(number_of[one.output, one.image, True], begin, one.source, True)
            stored += numbered(kernels.lower(move, constants))
        stores.append(stored)
    ended: dict[int, tuple[Condition, ...]] = {}
    for number, end in joins.values():
        ended[number] = (*ended.get(number, ()), end)
    results = {
        output.name: addresses.view(output.tensor, Rows(0, output.tensor.rows * conversion.frames))
        for output in plan.conversion.network.outputs
        if output.tensor is not None and plan.options.result == "arena"
    }
    return Program(
        plan.pools,
        tuple(firings),
        tuple(deliveries),
        conversion.frames,
        results,
        ports,
        tuple(instructions),
        constants,
        tuple(code),
        tuple(stores),
        tuple(guards),
        ended,
        compared,
    )


_OF_BOOLS = frozenset(
    ["And", "Flatten", "Identity", "Not", "Or", "Reshape", "Squeeze", "Unsqueeze", "Where", "Xor"]
)
"""Operators between comparisons and a condition."""


def _compared(network: Network) -> dict[str, list[tuple[Tensor, str]]]:
    """Layer that makes a bool for a condition of numbers -> the floats of one row that it looks at, and what to say of a NaN."""
    found: dict[str, list[tuple[Tensor, str]]] = {}
    for branch, condition in network.conditions.items():
        waiting, seen = [condition], set[str]()
        while waiting:
            layer = network.producer.get(waiting.pop().name)
            if layer is None or layer.name in seen:
                continue
            seen.add(layer.name)
            for tensor in (t for t in layer.inputs if t is not None):
                if layer.op_type in _OF_BOOLS and tensor.dtype == "bool":
                    waiting.append(tensor)
                elif (
                    tensor.dtype[:5] == "float"
                    and tensor.rows == 1
                    and layer.output.dtype == "bool"
                ):
                    why = f"layer '{layer.name}' ({layer.op_type}): compares NaN ('{tensor.name}'), so that the condition of "
                    found.setdefault(layer.name, []).append(
                        (tensor, f"{why}'{branch}' means nothing")
                    )
    return found


def _ports(plan: Plan) -> tuple[Port, ...]:
    """Inputs, then outputs that layers compute, of each image of a run."""
    ends = [(tensor.name, tensor, False) for tensor in plan.conversion.network.inputs]
    ends += [
        (one.name, one.tensor, True)
        for one in plan.conversion.network.outputs
        if one.tensor is not None
    ]
    return tuple(
        Port(name, image, tensor.dtype, None if tensor.row_axis is None else tensor.order, output)
        for name, tensor, output in ends
        for image in range(plan.conversion.frames)
    )


def _feed(firing: int, work: ActorWork, phase: int, addresses: Addresses) -> Feed:
    """The rows of a network input that a phase takes."""
    tensor, slab = work.writes[0].tensor, work.phases[phase]
    view = addresses.view(tensor, slab.slab(slab.out).span(tensor.rows))
    if work.taken is None:
        return Feed(firing, tensor, slab.image, slab.out, view)
    source = work.taken.inputs[0]
    assert source is not None
    starts = work.taken.attributes["starts"]
    part = tuple(slice(starts[a], starts[a] + tensor.shape[a]) for a in source.order[1:])
    return Feed(firing, source, slab.image, slab.out, view, part)


def _deliveries(
    firing: int, work: ActorWork, phase: int, outputs: Mapping[str, list[str]], addresses: Addresses
) -> Iterator[Delivery]:
    """What a phase completes, image by image; a tensor may be an output by several names."""
    for write in work.writes:
        names = outputs.get(write.tensor.name)
        if not names:
            continue
        at, stop = write.complete[phase - 1] if phase else 0, write.complete[phase]
        while at < stop:
            image, start = divmod(at, write.tensor.rows)
            rows = Rows(start, min(write.tensor.rows, start + stop - at))
            view = addresses.view(write.tensor, Rows(at, at + len(rows)))
            for name in names:
                yield Delivery(firing, name, write.tensor, image, rows, view)
            at += len(rows)


_KEPT = {"auto": _automatic, "copied": _lowered, "mapped": _mapped}
"""What lowers a plan whose weights are to be kept so."""


# Steps that are alike -----------------------------------------------------------------------------


class Blocks(NamedTuple):
    """The blocks of a step. alike: equal for steps whose blocks look alike. starts: the pool and first byte of each block,
    in the order in which the step names them.
    """

    alike: Hashable
    starts: tuple[tuple[str, int], ...]


@lru_cache(maxsize=4096)
def _reach(shape: Shape, strides: tuple[int, ...], itemsize: int) -> int:
    """Bytes from the first byte of a row to the one behind its last."""
    return sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + itemsize


def make_blocks(step: Step) -> Blocks:
    """The blocks of the rows and the workspace of a step."""
    # pool, first byte, and offsets of rows
    parts: list[tuple[str, int, tuple[int, ...]]] = []
    spans: list[tuple[str, int, int]] = []
    for view in (*step.inputs, *step.outputs, *step.states):
        for one in () if view is None else view.pieces or (view,):
            rows = one.rows
            if rows:
                low, reach = min(rows), _reach(one.shape, one.strides, one.format.itemsize)
                parts.append((one.pool, low, rows))
                spans.append((one.pool, low, max(rows) + reach))
    pad = step.workspace
    if pad.size:
        parts.append((pad.pool, pad.offset, (pad.offset,)))
        spans.append((pad.pool, pad.offset, pad.offset + pad.size))
    # (pool, first byte of a span) -> first byte of its block
    block: dict[tuple[str, int], int] = {}
    before, first, end = "", 0, 0
    for pool, low, high in sorted(spans):
        if pool != before or low >= end:
            before, first, end = pool, low, high
        block[pool, low] = first
        end = max(end, high)
    numbers: dict[tuple[str, int], int] = {}
    alike: list[object] = []
    for pool, low, rows in parts:
        start = block[pool, low]
        alike.append(numbers.setdefault((pool, start), len(numbers)))
        alike.append(tuple([row - start for row in rows]))
    (kind,) = structures(step.layer, (step.phase,))
    return Blocks((step.actor, kind, step.phase.images, pad.size, tuple(alike)), tuple(numbers))


Alike = dict[Hashable, tuple[Blocks, Sequence[Instruction]]]
"""The first of the steps that look alike, and its instructions."""


class _Templates:
    """Instructions of steps that were lowered so far."""

    def __init__(self, kernels: Backend, constants: Constants, first: Alike | None) -> None:
        self._kernels, self._constants = kernels, constants
        self._first = {} if first is None else first
        self._known: dict[Blocks, Sequence[Instruction]] = {}

    def lower(self, step: Step) -> Sequence[Instruction]:
        """The instructions of a step. Raises PlanError."""
        blocks = make_blocks(step)
        made = self._known.get(blocks)
        if made is None:
            first = self._first.get(blocks.alike)
            if first is not None:
                made = self._moved(*first, blocks)
            else:
                made = self._kernels.lower(step, self._constants)
                if self._kernels.moves(made):
                    self._first[blocks.alike] = blocks, made
            self._known[blocks] = made
        return made

    def _moved(
        self, before: Blocks, made: Sequence[Instruction], blocks: Blocks
    ) -> Sequence[Instruction]:
        """Instructions on other blocks."""
        shifts = sorted(
            (pool, start, there - start)
            for (pool, start), (_, there) in zip(before.starts, blocks.starts, strict=True)
        )

        def moved(place: Ref) -> Ref:
            at = bisect_right(shifts, (place.pool, place.offset, 1 << 62)) - 1
            pool, _, shift = shifts[at]
            assert pool == place.pool
            return Ref(pool, place.offset + shift)

        of = self._constants.moved
        return [
            Instruction(one.kernel, one.fields, tuple([of(ref, moved) for ref in one.refs]))
            for one in made
        ]
