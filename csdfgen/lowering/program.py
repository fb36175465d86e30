"""What is run for a plan, whatever runs it? Pools of memory, and steps in the order of the firings.

A program says everything by numbers: which rows of an input go to which bytes, which layer works on
which rows at which bytes with which scratch, and which rows of outputs each firing completes: they
are handed on before the next firing, which may use their bytes again (or lie in the arena until the
frame has ended, if the plan has them there). A backend binds the steps to
memory of its own (`csdfgen.program.steps.Backend`), or writes them as source; nothing in them is a
live array, and nothing depends on the images.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from csdfgen.errors import PlanError
from csdfgen.lowering.templates import Templates
from csdfgen.model.network import Tensor
from csdfgen.model.rows import Rows
from csdfgen.phases.conversion import ActorWork
from csdfgen.planning.buffers import ARENA
from csdfgen.planning.checker import checked
from csdfgen.planning.plan import Addresses, Plan
from csdfgen.planning.planner import without_collections
from csdfgen.program.instructions import Constants, Instruction
from csdfgen.program.steps import Backend, Move, Port, Scratchpad, Step, View

__all__ = ["Delivery", "Feed", "Firings", "Program", "firings_of", "lower"]


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


@dataclass(frozen=True, eq=False)
class Firings:
    """What a plan does, before any backend has seen it.

    pools: bytes by name. firings: for every firing of the plan its step, its feed, or None where
    there is nothing to do (outputs, and layers that are views). deliveries: for every firing what is
    handed on when it has ended. frames: images that one run takes. results: outputs that are in the
    arena when a run has ended, all rows of all its images. ports: inputs, then outputs, of each image.
    """

    pools: Mapping[str, int]
    firings: tuple[Step | Feed | None, ...]
    deliveries: tuple[tuple[Delivery, ...], ...]
    frames: int
    results: Mapping[str, View]
    ports: tuple[Port, ...]


@dataclass(frozen=True, eq=False)
class Program(Firings):
    """The same as instructions of a backend, each once. constants: the pools that they refer to and only read. code: for
    every firing the numbers of its instructions; stores: of those that store the rows of outputs that it completes.
    """

    instructions: tuple[Instruction, ...]
    constants: Constants
    code: tuple[tuple[int, ...], ...]
    stores: tuple[tuple[int, ...], ...]


def _taken(work: ActorWork) -> tuple[Tensor, tuple[slice, ...]]:
    """The network input that an actor takes rows of, and what it takes of each."""
    tensor = work.writes[0].tensor
    if work.taken is None:
        return tensor, ()
    source = work.taken.inputs[0]
    assert source is not None
    starts = work.taken.attributes["starts"]
    order = source.order[1:]
    return source, tuple(slice(starts[a], starts[a] + tensor.shape[a]) for a in order)


def firings_of(plan: Plan, kernels: Backend) -> Firings:
    """The steps of a plan.

    Raises what the checker raises for a plan that is not sound, PlanError for a layer that the
    backend cannot compute, named with the reason.
    """
    checked(plan)
    addresses, conversion = plan.addresses, plan.conversion
    for layer in plan.network.layers:
        for one in (layer, *layer.epilogue):
            why = kernels.refusal(one)
            if why is not None and layer.name not in plan.sharing.silent:
                raise PlanError(f"layer '{layer.name}': backend '{kernels.name}': {why}")
    firings: list[Step | Feed | None] = []
    for number, (name, phase) in enumerate(plan.order):
        work = conversion.actor[name]
        if work.kind == "input":
            tensor, slab = work.writes[0].tensor, work.phases[phase]
            view = addresses.view(tensor, slab.slab(slab.out).span(tensor.rows))
            source, part = _taken(work)
            firings.append(Feed(number, source, slab.image, slab.out, view, part))
        elif work.layer is None or name in plan.sharing.silent:
            firings.append(None)
        else:
            pad = Scratchpad(ARENA, *plan.workspace(name, phase))
            firings.append(addresses.step(work, phase, number, pad))
    outputs: dict[str, list[str]] = {name: [] for name in plan.network.output_tensors}
    for output in plan.network.outputs:
        if output.tensor is not None:
            outputs[output.tensor.name].append(output.name)
    deliveries = tuple(
        tuple(_deliveries(number, conversion.actor[name], phase, outputs, addresses))
        for number, (name, phase) in enumerate(plan.order)
    )
    results = {
        output.name: addresses.view(output.tensor, Rows(0, output.tensor.rows * conversion.frames))
        for output in plan.network.outputs
        if output.tensor is not None and plan.options.result == "arena"
    }
    ports = [(tensor.name, tensor, False) for tensor in plan.network.inputs]
    ports += [
        (one.name, one.tensor, True) for one in plan.network.outputs if one.tensor is not None
    ]
    return Firings(
        plan.pools,
        tuple(firings),
        deliveries,
        conversion.frames,
        results,
        tuple(
            Port(
                name, image, tensor.dtype, None if tensor.row_axis is None else tensor.order, output
            )
            for name, tensor, output in ports
            for image in range(conversion.frames)
        ),
    )


def lower(plan: Plan, kernels: Backend, constants: Constants | None = None) -> Program:
    """The program of a plan. constants: to which those of the program are added, where several share them.

    Raises what `firings_of` raises; PlanError for a step that the backend cannot compute in its workspace.
    """
    with without_collections():
        return _lowered(firings_of(plan, kernels), kernels, constants)


def _lowered(work: Firings, kernels: Backend, constants: Constants | None) -> Program:
    """The program of these firings."""
    constants = constants or Constants(work.pools)
    known: dict[Instruction, int] = {}
    templates = Templates(kernels, constants)

    def numbered(made: Iterable[Instruction]) -> tuple[int, ...]:
        return tuple(known.setdefault(one, len(known)) for one in made)

    ports = {(port.name, port.image, port.output): k for k, port in enumerate(work.ports)}
    code: list[tuple[int, ...]] = []
    stores: list[tuple[int, ...]] = []
    for firing, deliveries in zip(work.firings, work.deliveries, strict=True):
        if isinstance(firing, Feed):
            taken = [part.start for part in firing.part] or [0] * len(firing.target.shape)
            port = ports[firing.tensor.name, firing.image, False]
            move = Move(port, (firing.rows.start, *taken), firing.target, False)
            code.append(numbered(kernels.lower(move, constants)))
        elif isinstance(firing, Step):
            code.append(numbered(templates.lower(firing)))
        else:
            code.append(())
        given: tuple[int, ...] = ()
        for one in deliveries:
            starts = one.rows.start, *(0,) * len(one.source.shape)
            move = Move(ports[one.output, one.image, True], starts, one.source, True)
            given += numbered(kernels.lower(move, constants))
        stores.append(given)
    return Program(
        **{name: getattr(work, name) for name in Firings.__dataclass_fields__},
        instructions=tuple(known),
        constants=constants,
        code=tuple(code),
        stores=tuple(stores),
    )


def _deliveries(
    firing: int,
    work: ActorWork,
    phase: int,
    outputs: Mapping[str, list[str]],
    addresses: Addresses,
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
