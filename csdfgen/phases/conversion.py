"""How does a network become a cyclo-static dataflow graph? Actors with phases, channels with rates.

Every layer becomes an actor whose phases each write a slab of output rows. Network inputs are actors whose rows arrive
when they are needed, and network outputs are actors that take all rows. All rates follow from the row rule
(docs/model.md):

    consumption of phase i = need(i) - need(i-1)
    overlap kept after phase i = need(i) - release(i)

The overlap is a self-loop channel of the consumer, as in paper 002 (section V); the runtime leaves these rows in the
buffer of the producer instead (docs/model.md).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from itertools import accumulate
from types import MappingProxyType
from typing import Literal

from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph
from csdfgen.errors import InputError, option
from csdfgen.limits import PHASES, Budget
from csdfgen.model.describe import format_repr, html_table
from csdfgen.model.formats import Format
from csdfgen.model.frozen import Pickled
from csdfgen.model.naming import number_unused_name
from csdfgen.model.network import Layer, Network, Tensor
from csdfgen.model.options import DEFAULTS
from csdfgen.model.rows import Rows, Slab, differences, needs, releases, slabs
from csdfgen.ops import get_operator
from csdfgen.ops.base import Mode, Operator, Phase, phases, stored_rows
from csdfgen.phases.heights import (
    AskedBatches,
    AskedRows,
    BatchSpec,
    RowSpec,
    layer_height,
    lower_ends,
    parse_batches,
    parse_rows,
)

ActorKey = tuple[Hashable, int | tuple[int, ...], tuple[int, ...]]
"""The name of an actor or the form of its layer, its slab heights, and the images of its phases, which determine it in a
network, but for names and weights.
"""

Kind = Literal["input", "layer", "output"]

MAX_PHASES = PHASES.most
"""Most phases of one network. A detector at 2176x3840 has 30,000."""


CONDITION, AFTER = -1, -2


@dataclass(frozen=True, slots=True)
class Read:
    """Rows of a stored tensor that each phase of an actor reads.

    position: of the operand; `CONDITION` for the condition of a branch that the layer is in, which is read before its
    phases, if they are computed at all; `AFTER` for a tensor that the layer waits for without reading it. need: rows that
    must have been written before each phase. release: rows that no later phase reads.
    """

    tensor: Tensor
    position: int
    rows: tuple[Rows, ...]
    need: tuple[int, ...]
    release: tuple[int, ...]


def _read(tensor: Tensor, position: int, rows: tuple[Rows, ...]) -> Read:
    return Read(tensor, position, rows, needs(rows, tensor.rows), releases(rows, tensor.rows))


@dataclass(frozen=True, slots=True)
class Write:
    """Rows of a tensor that each phase of an actor completes, and the rows that it claims to do so.

    They differ for an accumulating layer, whose state is in the output from the first phase on and whose rows are
    complete after the last.
    """

    tensor: Tensor
    complete: tuple[int, ...]
    claimed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class State:
    """The state of an accumulating layer from the first phase of an image to the last, if it is not stored in the
    output: one row an image (or a group of images that share a phase).

    claimed, released: rows that are claimed before, and released after, each phase.
    """

    output: Tensor
    format: Format
    claimed: tuple[int, ...]
    released: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of one row."""
        return self.output.elements * self.format.itemsize


@dataclass(frozen=True, slots=True, eq=False)
class ActorWork:
    """An actor: its layer (None for inputs and outputs), and the rows that each phase reads and writes.

    taken: the Slice of an input whose actor takes a part of each row. first: the actor of a layer of equal form with
    equal phases that was made before.
    """

    name: str
    kind: Kind
    layer: Layer | None
    phases: tuple[Phase, ...]
    reads: tuple[Read, ...]
    writes: tuple[Write, ...]
    times: tuple[int, ...]
    state: State | None = None
    taken: Layer | None = None
    first: ActorWork | None = None

    @property
    def kin(self) -> ActorWork:
        """One actor for all that differ in names and weights alone: itself, or the first of them."""
        return self.first or self

    @property
    def asked_by(self) -> str:
        """The name of the actor in a specification of heights: that of the layer, or of the input."""
        is_whole_input = self.kind == "input" and self.taken is None
        return self.writes[0].tensor.name if is_whole_input else self.name


@dataclass(frozen=True, eq=False)
class Conversion(Pickled):
    """A network divided into phases: actors in an order in which every tensor is written before it is read. frames:
    images of one iteration, whose rows are numbered consecutively (`model.rows.Slab`). batches: images that a phase of
    each layer computes.
    """

    network: Network
    actors: tuple[ActorWork, ...]
    rows: RowSpec
    frames: int = 1
    batches: BatchSpec = field(default_factory=BatchSpec)

    def _facts(self) -> dict[str, object]:
        phases = sum(len(work.phases) for work in self.actors)
        return {"rows": self.rows, "actors": len(self.actors), "phases": phases}

    def __repr__(self) -> str:
        return format_repr("Conversion", self.network.name, **self._facts())

    def _repr_html_(self) -> str:
        return html_table(f"Conversion of {self.network.name}", self._facts().items())

    @cached_property
    def actor(self) -> MappingProxyType[str, ActorWork]:
        """Actors by name."""
        return MappingProxyType({work.name: work for work in self.actors})

    @cached_property
    def graph(self) -> CsdfGraph:
        """The CSDF graph in rows with data channels only, from which orders of firings are made."""
        return csdf_graph(self, tokens="rows", overlap=False)


def _running(parts: Iterable[Rows]) -> tuple[int, ...]:
    return tuple(part.stop for part in parts)


def _input_actor(name: str, tensor: Tensor, height: int | tuple[int, ...]) -> ActorWork:
    parts = slabs(tensor.rows, height)
    last = len(parts) - 1
    run = _running(parts)
    return ActorWork(
        name,
        "input",
        None,
        tuple(Phase(part, (), i == 0, i == last) for i, part in enumerate(parts)),
        (),
        (Write(tensor, run, run),),
        (0,) * len(parts),
    )


def _fed_actor(layer: Layer, height: int | tuple[int, ...]) -> ActorWork:
    return replace(_input_actor(layer.name, layer.output, height), taken=layer)


def find_fed_slices(network: Network, image: str) -> frozenset[str]:
    """Names of the Slices that take a part of each row of a streamed input, with step 1. They are separate actors, which
    read that part of the caller's rows; several actors can read the same rows. Not in a branch: an input is there whatever
    is taken, and its rows must not be written over what the other branch has made.
    """
    inputs = {tensor.name for tensor in network.inputs} if image == "streamed" else frozenset()
    return frozenset(
        layer.name
        for layer in network.layers
        if layer.op_type == "Slice"
        and not layer.guards
        and (source := layer.inputs[0]) is not None
        and source.name in inputs
        and source.row_axis is not None
        and layer.output.row_axis == source.row_axis
        and layer.output.rows == source.rows
        and not layer.epilogue
        and all(step == 1 for step in layer.attributes["steps"])
    )


def _output_actor(name: str, tensor: Tensor) -> ActorWork:
    rows = Rows(0, tensor.rows)
    return ActorWork(
        name, "output", None, (Phase(rows, (rows,)),), (_read(tensor, 0, (rows,)),), (), (0,)
    )


def _layer_actor(layer: Layer, height: int | tuple[int, ...]) -> ActorWork:
    operator = get_operator(layer)
    work = phases(operator, layer, height)
    reads = []
    for position, tensor in enumerate(layer.inputs):
        if tensor is not None:
            rows = tuple(stored_rows(layer, position, p.ins[position] or Rows(0, 0)) for p in work)
            reads.append(_read(tensor, position, rows))
    if operator.mode(layer) is Mode.ROWS:
        running, held = _running(p.out for p in work), operator.held(layer)
        writes = tuple(
            _held_write(t, len(work)) if k in held else Write(t, running, running)
            for k, t in enumerate(layer.outputs)
        )
        costs = {len(p.out): p.out for p in work}  # equal numbers of rows have equal work
        times_of = {n: operator.cost(layer, out) for n, out in costs.items()}
        times = tuple(times_of[len(p.out)] for p in work)
        state = None
    else:
        state = _state(operator, layer, len(work))
        writes = tuple(_held_write(t, len(work), state is not None) for t in layer.outputs)
        total, count = operator.cost(layer, Rows(0, layer.output.rows)), len(work)
        times = differences(total * (i + 1) // count for i in range(count))
    return ActorWork(layer.name, "layer", layer, work, tuple(reads), writes, times, state)


def _like(first: ActorWork, layer: Layer) -> ActorWork:
    """The actor of a layer that has the form and the phases of another one."""
    operands = [tensor for tensor in layer.inputs if tensor is not None]
    reads = zip(first.reads, operands, strict=True)  # those of conditions are added later on
    writes = zip(first.writes, layer.outputs, strict=True)
    return replace(
        first,
        name=layer.name,
        layer=layer,
        reads=tuple(replace(one, tensor=tensor) for one, tensor in reads),
        writes=tuple(replace(one, tensor=tensor) for one, tensor in writes),
        state=first.state and replace(first.state, output=layer.output),
        first=first,
    )


def _guarded(work: ActorWork, network: Network) -> ActorWork:
    """The actor of a layer in a branch: each phase waits for the conditions of its image, which stay until the last."""
    assert work.layer is not None
    conditions = dict.fromkeys(network.conditions[guard.branch] for guard in work.layer.guards)
    images = [phase.image for phase in work.phases]
    rows = tuple(Rows(image, image + 1) for image in images)
    need = tuple(image + 1 for image in images)
    last = [after != image for image, after in zip(images, [*images[1:], -1], strict=True)]
    release = tuple(image + end for image, end in zip(images, last, strict=True))
    reads = tuple(Read(one, CONDITION, rows, need, release) for one in conditions)
    return replace(work, reads=(*work.reads, *reads), first=work.kin)


def _delayed(work: ActorWork, tensors: Iterable[Tensor]) -> ActorWork:
    """The actor of a layer that waits for tensors: each phase for all rows of its image."""
    none = (Rows(0, 0),) * len(work.phases)
    reads = []
    for tensor in tensors:
        need = tuple(tensor.rows * (phase.image + 1) for phase in work.phases)
        reads.append(Read(tensor, AFTER, none, need, need))
    return replace(work, reads=(*work.reads, *reads), first=work.kin)


def _held_write(tensor: Tensor, count: int, at_the_end: bool = False) -> Write:
    """All rows of a tensor, complete with the last of `count` phases; claimed by the first, or at the end."""
    complete = *(0,) * (count - 1), tensor.rows
    return Write(tensor, complete, complete if at_the_end else (tensor.rows,) * count)


def _state(operator: Operator, layer: Layer, count: int) -> State | None:
    """The state of a layer that accumulates in another format than that of its output."""
    if operator.mode(layer) is not Mode.ACCUMULATE or len(layer.outputs) > 1:
        return None
    held = operator.state(layer)
    if held.dtype == layer.output.dtype:
        return None
    return State(layer.output, held, (1,) * count, (*(0,) * (count - 1), 1))


# Several images -----------------------------------------------------------------------------------


def _of_frames(work: ActorWork, groups: tuple[int, ...]) -> ActorWork:
    """The actor for several images, in groups: a group of one image has the phases of the actor, a group of several
    images has one phase with all their rows.
    """
    if groups == (1,):
        return work
    alone, whole = work, _whole(work) if max(groups) > 1 else work
    firsts = (0, *accumulate(groups))[: len(groups)]
    parts = [
        _of_group(whole if images > 1 else alone, number, first, images)
        for number, (first, images) in enumerate(zip(firsts, groups, strict=True))
    ]
    state = None
    if work.state is not None:
        held = [(whole if images > 1 else alone).state for images in groups]
        state = replace(
            work.state,
            claimed=_counted_on([one.claimed for one in held if one], [1] * len(groups)),
            released=_counted_on([one.released for one in held if one], [1] * len(groups)),
        )
    reads, writes = [], []
    for at, read in enumerate(work.reads):
        each = [part.reads[at] for part in parts]
        totals = [read.tensor.rows * images for images in groups]
        reads.append(
            replace(
                read,
                rows=tuple(rows for one in each for rows in one.rows),
                need=_counted_on([one.need for one in each], totals),
                release=_counted_on([one.release for one in each], totals),
            )
        )
    for at, write in enumerate(work.writes):
        made = [part.writes[at] for part in parts]
        totals = [write.tensor.rows * images for images in groups]
        writes.append(
            replace(
                write,
                complete=_counted_on([one.complete for one in made], totals),
                claimed=_counted_on([one.claimed for one in made], totals),
            )
        )
    return replace(
        work,
        phases=tuple(phase for part in parts for phase in part.phases),
        reads=tuple(reads),
        writes=tuple(writes),
        times=tuple(time for part in parts for time in part.times),
        state=state,
    )


def _of_group(work: ActorWork, number: int, first: int, images: int) -> ActorWork:
    """The phases of one group; rows that are read are numbered through all images, running counts within the group."""
    return replace(
        work,
        phases=tuple(
            replace(phase, image=first, images=images, group=number) for phase in work.phases
        ),
        reads=tuple(
            replace(
                read,
                rows=tuple(Slab(rows, first, images).span(read.tensor.rows) for rows in read.rows),
            )
            for read in work.reads
        ),
        times=tuple(time * images for time in work.times),
    )


def _counted_on(runs: Sequence[tuple[int, ...]], totals: Sequence[int]) -> tuple[int, ...]:
    """Running counts of consecutive groups; the last phase of a group reaches its total, unless its count is 0."""
    found: list[int] = []
    before = 0
    for running, total in zip(runs, totals, strict=True):
        last = (*running[:-1], total if running[-1] else 0)
        found.extend(before + count for count in last)
        before += total
    return tuple(found)


def _whole(work: ActorWork) -> ActorWork:
    """The actor of one image with all phases joined to one."""
    first, last = work.phases[0], work.phases[-1]
    ins = tuple(
        None if a is None or b is None else a.union(b)
        for a, b in zip(first.ins, last.ins, strict=True)
    )
    state = work.state and replace(work.state, claimed=(1,), released=(1,))
    return replace(
        work,
        phases=(Phase(Rows(0, last.out.stop), ins),),
        reads=tuple(_read(r.tensor, r.position, (reduce(Rows.union, r.rows),)) for r in work.reads),
        writes=tuple(
            replace(w, complete=w.complete[-1:], claimed=w.claimed[-1:]) for w in work.writes
        ),
        times=(sum(work.times),),
        state=state,
    )


# The whole network --------------------------------------------------------------------------------


def convert(
    network: Network,
    rows: AskedRows = DEFAULTS.rows,
    *,
    image: str = DEFAULTS.image,
    frames: int = DEFAULTS.frames,
    batches: AskedBatches = 1,
    known: dict[ActorKey, ActorWork] | None = None,
) -> Conversion:
    """Divide a network into phases.

    rows: rows a phase, see `heights.parse_rows`. image: "streamed" (input rows arrive when they are needed) or
    "resident" (the whole input is in the arena from the start). frames: images of an iteration, a divisor of the batch
    of the network. batches: whole images that layers compute in one phase, see `heights.parse_batches`. known: actors of
    the same layers from other conversions with this `image`, which are used again if they have the same phases; new ones
    are added.
    Raises InputError for a specification that names no layer, or for more than `MAX_PHASES` phases.
    """
    asked = parse_rows(rows)
    asked.check_names(network)
    spec = lower_ends(asked, network)
    if network.batch % frames:
        raise InputError(
            f"{option('frames', frames)}: does not divide a batch of {network.batch} images"
        )
    asked_batches = BatchSpec()
    if batches != 1:
        asked_batches = parse_batches(batches)
        asked_batches.check_names(network)
    _check_phases(network, spec, frames)
    taken = {layer.name for layer in network.layers}
    fed = find_fed_slices(network, image)
    alone = (1,) * frames
    known = {} if known is None else known
    actors: list[ActorWork] = []

    def add(key: ActorKey, make: Callable[[], ActorWork], layer: Layer | None = None) -> None:
        if key not in known:
            alike = layer.form if layer else key[0], *key[1:]
            first = known.get(alike)
            known[key] = _like(first, layer) if first and layer else _of_frames(make(), key[2])
            known.setdefault(alike, known[key])
        actors.append(known[key])

    for tensor in network.inputs:
        if any(layer.name not in fed for layer, _ in network.readers[tensor.name]):
            height = (
                tensor.rows
                if image == "resident"
                else spec.height(tensor.name, tensor, tensor.rows)
            )
            name = number_unused_name(f"input:{tensor.name}", taken)
            add((name, height, alone), partial(_input_actor, name, tensor, height))
    for layer in network.layers:
        height = layer_height(spec, layer)[0]
        if layer.name in fed:
            add((layer.name, height, alone), partial(_fed_actor, layer, height))
        else:
            together = batches != 1 and not layer.guards  # each image takes its own branch
            groups = asked_batches.groups(layer.name, frames) if together else alone
            add((layer.name, height, groups), partial(_layer_actor, layer, height), layer)
            if layer.guards:
                actors[-1] = _guarded(actors[-1], network)
            if layer.name in network.awaited:
                actors[-1] = _delayed(actors[-1], network.awaited[layer.name])
    for output in network.outputs:
        if output.tensor is not None:
            name = number_unused_name(f"output:{output.name}", taken)
            add((name, 0, alone), partial(_output_actor, name, output.tensor))
    return Conversion(network, tuple(actors), asked, frames, asked_batches)


def _check_phases(network: Network, spec: RowSpec, frames: int) -> None:
    """Raise InputError for too many phases before any of them is made."""
    total = sum(_slab_count(t.rows, spec.height(t.name, t, t.rows)) for t in network.inputs)
    budget = Budget()
    budget.take(PHASES, total, "network inputs", error=InputError)
    for layer in network.layers:
        height, rows = layer_height(spec, layer)
        count = _slab_count(rows, height)
        total += count
        why = f"layer '{layer.name}' cuts {rows:,} rows into slabs of {height}"
        budget.take(PHASES, count, why, error=InputError)
    if total * frames > MAX_PHASES:
        raise InputError(
            f"{frames} images in one order have {total * frames} phases, at most {MAX_PHASES} are planned; plan at most "
            f"{MAX_PHASES // total} images, and run the others after them"
        )


def _slab_count(rows: int, height: int | tuple[int, ...]) -> int:
    return -(-rows // height) if isinstance(height, int) else len(slabs(rows, height))


def csdf_graph(
    conversion: Conversion, *, tokens: str = "elements", overlap: bool = True
) -> CsdfGraph:
    """The CSDF graph of a conversion with exact rates.

    tokens: "elements" (the unit of the paper) or "rows". overlap: whether it has self-loop channels for the rows that
    readers keep between phases, besides the data channels.
    """
    names: set[str] = set()
    writer = {w.tensor.name: (work.name, w) for work in conversion.actors for w in work.writes}
    channels = []
    for work in conversion.actors:
        for read in work.reads:
            source, write = writer[read.tensor.name]
            unit, size = token_unit(read.tensor, tokens)
            name = number_unused_name(f"{read.tensor.name}->{work.name}", names)
            production = tuple(unit * n for n in differences(write.complete))
            consumption = tuple(unit * n for n in differences(read.need))
            channels.append(
                Channel(name, source, work.name, production, consumption, 0, size, "data")
            )
            kept = tuple(unit * (n - r) for n, r in zip(read.need, read.release, strict=True))
            if overlap and any(kept):
                loop = (
                    number_unused_name(f"overlap:{name}", names),
                    work.name,
                    work.name,
                    kept,
                    (0, *kept[:-1]),
                )
                channels.append(Channel(*loop, 0, size, "overlap"))
    actors = tuple(
        Actor(work.name, work.times, describe_function(work)) for work in conversion.actors
    )
    return CsdfGraph(conversion.network.name, actors, tuple(channels))


def describe_function(work: ActorWork) -> str:
    """A description of what an actor computes: its operator, the activations applied in its slab, and the branches that it
    is in.
    """
    if work.layer is None:
        return work.kind
    computed = "+".join([work.layer.op_type, *(e.op_type for e in work.layer.epilogue)])
    where = [f"{'then' if one.taken else 'else'} of {one.branch}" for one in work.layer.guards]
    return f"{computed} ({', '.join(where)})" if where else computed


def token_unit(tensor: Tensor, tokens: str) -> tuple[int, int]:
    """(tokens a row, bytes a token) of the channels of a tensor."""
    if tokens == "rows":
        return 1, tensor.row_bytes
    if tokens == "elements":
        return tensor.row_elements, tensor.itemsize
    raise InputError(f"{option('tokens', tokens)}: neither 'elements' nor 'rows'")
