"""What is a step of a program, for any backend? One firing: a layer, a slab, and where its rows lie.

A slab is a list of rows, each at an offset of its own in a pool of memory; rows that happen to lie
evenly spaced are what numpy likes best, and `runs` finds them. Nothing in a step is a live array,
and nothing in it depends on a backend or on data: a program is the list of a plan's steps
(`csdfgen.lowering`), and a backend is a `Backend` that makes instructions of each of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Shape, memoize_layer
from csdfgen.model.rows import Rows
from csdfgen.ops import get_operator
from csdfgen.ops.base import Mode, Operator, Phase, axis_height, stored_rows
from csdfgen.ops.copies import stretches
from csdfgen.ops.spread import NEAR
from csdfgen.program.instructions import Constants, Instruction

ALIGNMENT = 16
"""Bytes that blocks of rows in host memory start at a multiple of, as vector units and every number format like it. Rows of
a block follow each other without gaps, so that a larger one would align few of them.
"""

Call = tuple[Callable[..., Any], tuple[Any, ...]]
"""A prepared call: function(*arguments), without a result."""

Memory = Mapping[str, np.ndarray]
"""Pool -> its bytes (uint8), writable, aligned as the plan's buffers are."""


@dataclass(frozen=True, slots=True)
class View:
    """Rows of a tensor, or of a layer's state, in a pool.

    rows: byte offset of each row. shape, strides: of one row, strides in bytes. format: of the
    elements.
    pieces, along: of rows that lie in several pieces (the operands of a Concat, each somewhere
        else), one after the other along axis `along` of the row's shape: views of equally many
        rows, none of which has pieces, each in a pool of its own. Then `rows` and `strides` are
        empty and `pool` is "". Inputs may have pieces, and outputs of a layer that works in place
        on such an input; states never do.
    """

    pool: str
    rows: tuple[int, ...]
    shape: Shape
    strides: tuple[int, ...]
    format: Format
    pieces: tuple[View, ...] = ()
    along: int = 0

    @classmethod
    def joined(cls, pieces: Sequence[View], along: int) -> View:
        """Rows in pieces; those of one piece are that piece. Views that have pieces along the same
        axis are taken apart.

        >>> a, b = (View("x", (at, at + 64), (5, 1, c), (4 * c, 4 * c, 4), Format("float32"))
        ...         for at, c in ((0, 2), (640, 3)))
        >>> joined = View.joined([a, b], along=2)
        >>> joined.shape, joined.count, joined.places, joined.part(1, 2).places
        ((5, 1, 5), 2, ((0, 64), (640, 704)), ((64,), (704,)))
        """
        plain = [one for view in pieces for one in view.pieces or (view,)]
        first = plain[0]
        if len(plain) == 1:
            return first
        size = sum(one.shape[along] for one in plain)
        shape = (*first.shape[:along], size, *first.shape[along + 1 :])
        return cls("", (), shape, (), first.format, tuple(plain), along)

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.pieces[0].rows if self.pieces else self.rows)

    @property
    def places(self) -> tuple[Any, ...]:
        """Where its rows lie; of rows in pieces, those of every piece."""
        return tuple(piece.rows for piece in self.pieces) if self.pieces else self.rows

    @property
    def runs(self) -> list[tuple[int, int]]:
        """Ranges of rows that make one array. Rows far from each other make none, even if they are
        evenly spaced by chance: what lies between them may be written in the same firing.
        """
        extents = (size * step for size, step in zip(self.shape, self.strides, strict=True))
        found = _known_runs if len(self.rows) > _FEW_ROWS else runs
        return found(self.rows, max(extents, default=self.format.itemsize) + NEAR)

    def parts(self) -> Iterator[tuple[tuple[slice, ...], View]]:
        """Every run of every piece as a view without pieces, behind its place in an array (rows, *shape) of all rows."""
        low = 0
        for piece in self.pieces or (self,):
            along: tuple[slice, ...] = ()
            if self.pieces:
                high = low + piece.shape[self.along]
                along, low = (*(slice(None),) * self.along, slice(low, high)), high
            for a, b in piece.runs:
                yield (slice(a, b), *along), piece.part(a, b)

    def part(self, start: int, stop: int) -> View:
        """Rows [start, stop) of the view."""
        if self.pieces:
            return replace(self, pieces=tuple(piece.part(start, stop) for piece in self.pieces))
        return replace(self, rows=self.rows[start:stop])


@dataclass(frozen=True, slots=True)
class Scratchpad:
    """The workspace of a step: `size` bytes of a pool at an offset, its own for this firing alone."""

    pool: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One firing of a layer.

    inputs: by input position the stored rows that the phase reads (those that `stored_rows` names,
    of all its images), None for constants. outputs: the rows that it writes; of a layer that
    accumulates, all of them, in every phase. states: as outputs, where an accumulating layer holds
    its sums apart; () if they are held in the outputs. The activations that follow in the slab are
    the layer's `epilogue`.
    """

    firing: int
    actor: str
    layer: Layer
    phase: Phase
    inputs: tuple[View | None, ...]
    outputs: tuple[View, ...]
    states: tuple[View, ...]
    workspace: Scratchpad

    def view(self, position: int) -> View:
        """The stored rows of an operand that is no constant."""
        view = self.inputs[position]
        assert view is not None
        return view


Starts = tuple[int, ...]
"""First element along each axis of an array in storage order: (rows, *row shape)."""


@dataclass(frozen=True, slots=True, eq=False)
class Port:
    """An array of the caller's with one image.

    name: of an input or an output of the network. image: of those of an iteration. dtype: of the elements in memory;
    the caller's array may have another, and any strides. axes: of the array, in storage order (rows, *row shape); None:
    all of it is one row. output: whether it is written.
    """

    name: str
    image: int
    dtype: str
    axes: tuple[int, ...] | None
    output: bool

    def stored(self, array: np.ndarray) -> np.ndarray:
        """View of an array in storage order."""
        return array[None] if self.axes is None else array.transpose(self.axes)


@dataclass(frozen=True, slots=True)
class End:
    """An input or output as the caller has it. shape: of the array of all images; constant: what no layer computes."""

    name: str
    shape: Shape
    dtype: np.dtype[Any]
    constant: np.ndarray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """Rows between a port, from `starts` on, and memory. port: its number among the ports of the program."""

    port: int
    starts: Starts
    view: View
    output: bool


class Storage(Protocol):
    """The pools of a program in memory, wherever that is. Views are of evenly spaced rows, without pieces."""

    def read(self, view: View) -> np.ndarray:
        """Rows as an array (rows, *row shape); may be the memory itself."""

    def write(self, view: View, rows: np.ndarray) -> None:
        """Put rows, an array (rows, *row shape), into memory."""

    def lend(self, view: View) -> tuple[np.ndarray, Callable[[], bool]]:
        """Rows as `read` gives them, and what tells whether they are memory that somebody still looks at."""

    def shrink(self, pool: str, size: int) -> None:
        """Nobody needs what is behind the first bytes of a pool now; it may be needed later, with anything in it."""


@dataclass(frozen=True, slots=True)
class Driven:
    """What a device has done for a program so far. device: its name. launches: of kernels. copied: bytes that were copied
    between host and device. building: seconds in which its kernels were built, or their binaries loaded.
    """

    device: str
    launches: int
    copied: int
    building: float

    def since(self, before: Driven) -> Driven:
        """What it has done since then."""
        return Driven(
            self.device,
            self.launches - before.launches,
            self.copied - before.copied,
            self.building - before.building,
        )


class Bound(Protocol):
    """A program in memory, ready to run. driven: what a device has done for it; None where processors of the host compute."""

    @property
    def driven(self) -> Driven | None: ...

    def mark(self) -> Callable[[], int] | None:
        """A mark behind all that was started, on a device with a clock: what says, once the program has been waited for, at
        which nanosecond the device came to it. None: only the host has a clock.
        """

    def open(self, port: int, array: np.ndarray | None, first: int = 0) -> None:
        """The array of the frames to come, its axes in ONNX order; None: nothing is moved. first: which row of the port is
        the first of the array; the instructions that run may move no other rows than those that it has.
        """

    def prepared(self, numbers: Sequence[int]) -> Callable[[], None]:
        """What starts instructions of the program, by their numbers, one after the other, behind all that were started
        before.
        """

    def wait(self) -> None:
        """Return when all that was started has ended: memory and the arrays of ports may then be looked at."""


class Awaiting(NamedTuple):
    """A firing in the list of one of several processors. waits: (processor, number of its firings that must have ended).
    numbers: of its instructions. reached: how many firings of its own list have ended with it, 0 if nobody waits for that.
    """

    waits: tuple[tuple[int, int], ...]
    numbers: tuple[int, ...]
    reached: int


@runtime_checkable
class Sliced(Protocol):
    """A program in memory, any part of which is executed by one call."""

    def sliced(self, numbers: Sequence[int]) -> Callable[..., None] | None:
        """What executes instructions `numbers[start:stop]` and returns when they have ended; None if it takes several calls.
        Third argument: (port, array, bytes in front of it) of arrays that are like the last ones but for their places.
        """


@runtime_checkable
class SelfTimed(Protocol):
    """A `Bound` on several processors."""

    def self_timed(self, lists: Sequence[Sequence[Awaiting]]) -> Callable[[], None] | None:
        """What executes a list on each processor at the same time: a firing starts when those that it waits for have ended. None
        if there are fewer processors, or instructions that they cannot execute.
        """


@runtime_checkable
class Compiling(Protocol):
    """A `Backend` whose programs can be files that its kernels run alone."""

    def write(
        self,
        path: str | Path,
        program: WholeCode,
        inputs: Sequence[End],
        outputs: Sequence[End],
        batch: int,
        about: Mapping[str, Any],
    ) -> int:
        """Write a program; returns the bytes of the file. Raises PlanError, InputError."""


Span = tuple[str, int, int]
"""Bytes: their pool, the first one, and behind the last."""


class Touched(NamedTuple):
    """The bytes that an instruction touches. feed: the firing of an input that it is of, whose instructions write bytes of
    their own; else -1.
    """

    read: tuple[Span, ...]
    written: tuple[Span, ...]
    feed: int = -1

    def meets(self, other: Touched) -> bool:
        """Whether one writes what the other touches."""
        if self.feed == other.feed >= 0:
            return False
        return _meet(self.written, other.written + other.read) or _meet(self.read, other.written)


def _meet(some: Sequence[Span], others: Sequence[Span]) -> bool:
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in some for b in others)


class Code(Protocol):
    """What a backend needs of a program: see `csdfgen.lowering.program.Program`."""

    @property
    def pools(self) -> Mapping[str, int]: ...

    @property
    def instructions(self) -> Sequence[Instruction]: ...

    @property
    def constants(self) -> Constants: ...

    @property
    def ports(self) -> Sequence[Port]: ...
    @property
    def touched(self) -> Mapping[int, Touched]:
        """Of instructions, by their numbers; of others it is not known."""


class WholeCode(Code, Protocol):
    """What of a program is needed where it runs alone."""

    @property
    def images(self) -> int: ...

    @property
    def code(self) -> Sequence[tuple[int, ...]]: ...

    @property
    def stores(self) -> Sequence[tuple[int, ...]]: ...

    @property
    def guards(self) -> Sequence[tuple[Any, ...]]: ...

    @property
    def joins(self) -> Mapping[int, tuple[Any, ...]]: ...

    @property
    def compared(self) -> Mapping[int, tuple[tuple[View, str], ...]]: ...

    @property
    def repeats(self) -> Any: ...


class CompiledFrame(Protocol):
    """A compiled program that was opened. about: what it was made of; inputs, outputs: shape and type by name."""

    about: dict[str, Any]
    arena_bytes: int
    constants_bytes: int
    inputs: dict[str, tuple[Shape, np.dtype[Any]]]
    outputs: dict[str, tuple[Shape, np.dtype[Any]]]

    @property
    def branches(self) -> dict[str, tuple[int, int]]:
        """Name of an If -> for how many images its condition was true, and false, in all frames so far."""

    def __call__(self, x: np.ndarray | Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs of a frame by name. Raises InputError for inputs that do not fit."""


class Form(NamedTuple):
    """A form that a layer's weights can be packed in: a word of `Backend.variants`, the bytes that they take, and multiply-adds
    that take as long as a frame of the layer.
    """

    word: str
    bytes: int
    work: float


class Backend(Protocol):
    """A backend: which layers it computes, in how much workspace, by which instructions, and in whose memory these run.
    Backends are values without a state that matters: caches alone.
    """

    @property
    def name(self) -> str:
        """What users call it."""

    @property
    def code(self) -> str:
        """What its kernels are made of: an instruction set, or whose they are."""

    @property
    def rereads_weights(self) -> bool:
        """Whether rows of a firing that are not contiguous are computed by a call each, which reads all weights
        of the layer again.
        """

    @property
    def self_timed(self) -> bool:
        """Whether its programs are `SelfTimed`; other backends execute plans with a mapping in their order."""

    @property
    def shares_memory(self) -> bool:
        """Whether it takes rows of arrays of the caller, and puts rows into them, in place as they come; other backends copy
        such arrays as wholes.
        """

    @property
    def tall_slabs(self) -> bool:
        """Whether layers gain by slabs taller than those of `auto`, since their weights come into the caches anew
        for every slab.
        """

    @property
    def variants(self) -> str:
        """A regular expression that matches the words of its variants, whose times `csdfgen.tuning` measures; "" for a
        backend without variants. An exact backend has those variants alone that add up products.
        """

    @property
    def whole_variants(self) -> bool:
        """Whether variants are measured of whole layers alone, since lower slabs of several layers are computed together."""

    def variants_of(self, layer: Layer, rows: int) -> Sequence[str]:
        """Words for the variants that compute slabs of so many rows of a layer in different ways, as `PlanOptions.ways`
        has them; none where there is one alone.
        """

    def forms_of(self, layer: Layer, rows: int) -> Sequence[Form]:
        """The forms that the weights of a layer can be packed in, that of fewest bytes first, and what they cost in slabs of so
        many rows; none where there is one alone. They are the same on every machine.
        """

    @property
    def emits(self) -> bool:
        """Whether its instructions can be written as C (`csdfgen.emission`)."""

    @property
    def origin(self) -> tuple[str, str]:
        """The compiler that made its kernels, and a digest of their sources: measured times hold for these."""

    @property
    def profile(self) -> str:
        """The profile of a device by which times are predicted unless another one is named."""

    def peak(self) -> float | None:
        """Operations a second of multiply-adds on the registers of one core, measured now; None where that is unknown."""

    def alignment(self, pool: str) -> int:
        """Bytes that every block of rows in a pool starts at a multiple of."""

    def shared(self, threads: int) -> Backend:
        """The same backend, whose instructions so many threads share. Raises InputError for too many."""

    def refusal(self, layer: Layer) -> str | None:
        """Why this backend cannot compute a layer; None if it can."""

    def workspace(self, step: Step, limit: int | None = None) -> int:
        """Bytes that `lower` will need for a step, before anything is placed: every view is then in a pool of its buffer's
        name. At most `limit`, but never less than the least with which the step can be computed; None: as much as makes it
        fastest. Rows that are contiguous here stay contiguous later, others may be anywhere: then `lower` needs no more.
        """

    def used(self, step: Step, size: int) -> int:
        """Bytes that `lower` makes use of where a step, whose rows are where it says, has `size` bytes of
        workspace, at least the least with which it can be computed.
        """

    def lower(self, step: Step | Move, constants: Constants) -> Sequence[Instruction]:
        """Instructions that compute a step, in blocks that fit its workspace, which may
        have any size from the least on; or that move rows. Raises PlanError if it needs more than it has.
        """

    def moves(self, made: Sequence[Instruction]) -> bool:
        """Whether these instructions, which `lower` has made of a step, are those of a step whose rows are elsewhere, too,
        once their places are: no instruction depends on where blocks of rows are from each other.
        """

    def allocate(self, pools: Mapping[str, int], *, shrinks: bool = False) -> Storage:
        """Memory for pools of so many bytes, with anything in it. shrinks: what `Storage.shrink` names is given back to
        the system.
        """

    def upload(self, constants: Constants) -> Any:
        """Constants where instructions can read them, once for all memories of a program."""

    def bind(self, program: Code, memory: Any, constants: Any) -> Bound:
        """A program in memory that this backend has allocated. constants: the program's, uploaded."""


def runs(rows: Sequence[int], most: float = inf) -> list[tuple[int, int]]:
    """Maximal ranges of positions whose offsets rise evenly, by at most `most`.

    >>> runs((0, 64, 128)), runs((128, 0, 64)), runs(()), runs((0, 640), most=128)
    ([(0, 3)], [(0, 1), (1, 3)], [], [(0, 1), (1, 2)])
    """
    found: list[tuple[int, int]] = []
    start = 0
    while start < len(rows):
        stop = start + 1
        if stop < len(rows):
            step = rows[stop] - rows[start]
            while 0 < step <= most and stop < len(rows) and rows[stop] - rows[stop - 1] == step:
                stop += 1
        found.append((start, stop))
        start = stop
    return found


_FEW_ROWS = 64
"""Of which runs are found as soon as remembered."""


@lru_cache(maxsize=32)
def _known_runs(rows: Sequence[int], most: float) -> list[tuple[int, int]]:
    """The same as `runs` of thousands of rows. A layer that reads all rows of a tensor in every phase asks for them each time."""
    apart = np.diff(rows)
    return stretches(apart, (apart > 0) & (apart <= most))


def split_by_image(step: Step) -> tuple[Step, ...]:
    """The step as one for each of its images, for kernels that work on one image at a time.

    A layer that accumulates over several phases has one image in each of them.
    """
    images = step.phase.images
    return (step,) if images == 1 else tuple(take_images(step, k, 1) for k in range(images))


def take_images(step: Step, first: int, count: int) -> Step:
    """What a step of several images does for `count` of them, from number `first` of its own on."""
    layer, phase = step.layer, step.phase
    phase = replace(phase, image=phase.image + first, images=count)
    heights = [0 if t is None else t.rows for t in layer.inputs]
    inputs = tuple(
        None if view is None else view.part(first * rows, (first + count) * rows)
        for view, rows in zip(step.inputs, heights, strict=True)
    )
    outputs = tuple(
        view.part(first * t.rows, (first + count) * t.rows)
        for view, t in zip(step.outputs, layer.outputs, strict=True)
    )
    if count == 1:
        inputs = _held(layer, phase, inputs)
    return replace(step, phase=phase, inputs=inputs, outputs=outputs)


def _held(layer: Layer, phase: Phase, whole: Sequence[View | None]) -> tuple[View | None, ...]:
    """Of views of all rows of an image those that the phase reads."""
    found: list[View | None] = []
    for position, (view, rows) in enumerate(zip(whole, phase.ins, strict=True)):
        if view is None or rows is None:
            found.append(None)
            continue
        stored = stored_rows(layer, position, rows)
        found.append(view.part(stored.start, stored.stop))
    return tuple(found)


def structures(
    layer: Layer, phases: Sequence[Phase], *, anywhere: bool = False
) -> list[tuple[Any, ...]]:
    """Phases of a layer with equal structures make equal calls at equal addresses.

    Phases of layers that are shifted copies of each other have one structure, those that read a
    border of the map, and those of layers whose rows have values of their own, each their own.
    anywhere: equal calls at other addresses suffice.
    """
    operator, as_stored = get_operator(layer), _is_read_as_stored(layer)
    repeats = _repeats(layer) or (anywhere and _is_pointwise(layer))
    found: list[tuple[Any, ...]] = []
    for phase in phases:
        alike = _reads(layer, phase, operator, anywhere) if repeats else None
        if as_stored and (pattern := operator.pattern(layer, phase.out)) is not None:
            alike = pattern, *(len(rows or ()) for rows in phase.ins)
        exact = phase.out, phase.ins, phase.first, phase.last
        begins = phase.first and bool(operator.held(layer))
        found.append((len(phase.out), alike, begins) if alike is not None else exact)
    return found


@memoize_layer
def _repeats(layer: Layer) -> bool:
    """Whether rows of a layer are computed alike, and those of what follows it."""
    return get_operator(layer).mode(layer) is Mode.ROWS and all(
        get_operator(one).repeats(one) for one in (layer, *layer.epilogue)
    )


@memoize_layer
def _is_pointwise(layer: Layer) -> bool:
    """Whether rows of a layer are computed alike but for the elements of constants that they meet."""
    return get_operator(layer).mode(layer) is Mode.ROWS and all(
        get_operator(one).pointwise or get_operator(one).repeats(one)
        for one in (layer, *layer.epilogue)
    )


@memoize_layer
def _is_read_as_stored(layer: Layer) -> bool:
    """Whether a row-phased layer reads its operands as they are stored, and what follows it computes rows alike."""
    own = tuple(None if tensor is None else tensor.row_axis for tensor in layer.inputs)
    follows = all(get_operator(one).repeats(one) for one in layer.epilogue)
    return get_operator(layer).mode(layer) is Mode.ROWS and follows and layer.input_axes == own


def demands(layer: Layer, phases: Sequence[Phase]) -> list[tuple[Any, ...]]:
    """Phases of a layer with equal demands take equal workspace where their rows lie alike: equal
    structures, and phases of an accumulating layer that add up equally many rows.
    """
    operator = get_operator(layer)
    if operator.mode(layer) is not Mode.ACCUMULATE:
        return structures(layer, phases, anywhere=True)
    window = operator.window(layer)
    # taps that are apart meet every so many rows only
    apart = 1 if window is None else window.dilation
    return [
        (tuple((len(r), r.start % apart) if r else None for r in p.ins), p.first, p.last)
        for p in phases
    ]


def describe_demand(step: Step) -> tuple[Any, ...]:
    """All that the workspace of a step depends on beside its layer; equal: they take equally much. Equal ones of a layer are
    one object, as they are the keys of what is remembered for it.
    """
    (kind,) = demands(step.layer, (step.phase,))
    found = kind, step.phase.images, relations(step), _forms(step)
    return _described(step.layer).setdefault(found, found)


@memoize_layer
def _described(layer: Layer) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    return {}


def relations(step: Step) -> tuple[Any, ...]:
    """Which rows of a step are stored together, how far each run of them reaches, and where it starts relative to the
    others of its buffer, if that matters: where copies may overlap because the step writes in the buffer, and where
    images may be evenly spaced.
    """
    first: dict[str, int] = {}
    found = []
    made = [one for view in (*step.outputs, *step.states) for one in view.pieces or (view,)]
    written = {one.pool for one in made}
    for view in (*step.inputs, *step.outputs, *step.states):
        for one in () if view is None else view.pieces or (view,):
            if one.rows:
                start = first.setdefault(one.pool, one.rows[0])
                matters = one.pool in written or step.phase.images > 1
                each = array("q")  # numbers as objects would be most of what a plan keeps
                for a, b in one.runs:
                    begins = one.rows[a] - start if matters else 0
                    each.extend((a, b, one.rows[b - 1] - one.rows[a], begins))
                found.append((one.pool, each.tobytes()))
    return tuple(found)


def _forms(step: Step) -> tuple[Any, ...]:
    """How single rows of a step look."""
    views = (*step.inputs, *step.outputs, *step.states)
    return tuple(None if view is None else _form(view) for view in views)


def _form(view: View) -> tuple[Any, ...]:
    pieces = tuple(map(_form, view.pieces))
    return len(view.rows), view.shape, view.strides, view.format, pieces, view.along


@memoize_layer
def _read_whole(layer: Layer) -> frozenset[int]:
    """Operands that a row-phased layer reads whole, and alike, for every row of its output.

    A window that covers all rows does not: padding lies elsewhere for each row of the output.
    """
    operator, first = get_operator(layer), Rows(0, 1)
    if operator.window(layer) is not None or operator.pattern(layer, first) is not None:
        return frozenset()
    one = operator.input_rows(layer, first)
    return frozenset(
        position
        for position, (tensor, axis, rows) in enumerate(
            zip(layer.inputs, layer.input_axes, one, strict=True)
        )
        if tensor is not None
        and rows == Rows(0, axis_height(tensor, axis))
        and layer.output.rows > 1
    )


def _reads(
    layer: Layer, phase: Phase, operator: Operator, anywhere: bool
) -> tuple[Any, ...] | None:
    """How many rows the phase reads of each operand, and whether they are all; None where a border
    of one that it does not read row by row or whole is in sight. anywhere: see `structures`.
    """
    window = None if operator.rowwise else operator.window(layer)
    span = 0 if window is None else (len(phase.out) - 1) * window.stride + window.extent
    found: list[Any] = []
    for position, (tensor, rows) in enumerate(zip(layer.inputs, phase.ins, strict=True)):
        if tensor is None:
            continue
        rows, axis = rows or Rows(0, 0), layer.input_axes[position]
        as_stored, height = anywhere or axis == tensor.row_axis, axis_height(tensor, axis)
        # what a window reads may be the row of the same number by chance, by another tap
        windowed = window is not None and position == 0 and window.kernel > 1
        by_row = not windowed and as_stored and rows == phase.out and height == layer.output.rows
        # of a window, all rows means both borders; of what a state begins with, none means a later phase
        whole = (operator.rowwise or position in _read_whole(layer)) and len(rows) == height
        whole = whole or (bool(operator.held(layer)) and len(rows) in (0, height))
        # Addresses do not say which rows are read of an operand that is stored along another axis. Where
        # taps are apart, the first or last rows are not read, though others are padding.
        in_sight = not as_stored or len(rows) < span or rows.start == 0 or rows.stop == height
        if in_sight and not by_row and not whole:
            return None
        found.append((len(rows), whole and not by_row))
    return tuple(found)
