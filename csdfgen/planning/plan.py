"""What is a plan? The firings, buffers and figures of one network, as data.

A plan has everything that execution needs and nothing that depends on the image: the network cut into phases, the
tensors that share buffers, the order of firings, and when each row of each buffer is alive and where it is stored
(docs/model.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from csdfgen.model.describe import draw_value, format_repr, html_table, mebibytes
from csdfgen.model.frozen import Pickled
from csdfgen.model.network import Network, Shape, Tensor
from csdfgen.model.options import PlanOptions
from csdfgen.model.rows import Rows
from csdfgen.ops import get_operator
from csdfgen.ops.base import stored_rows
from csdfgen.phases.conversion import ActorWork, Conversion
from csdfgen.planning.buffers import ARENA, Buffer, state_name, workspace_name
from csdfgen.planning.lifetimes import Lifetimes, firing_times, trace_lifetimes
from csdfgen.planning.placement import Region
from csdfgen.planning.sharing import Place, Sharing, contiguous_strides
from csdfgen.planning.waits import Waits, find_waits
from csdfgen.program.steps import Scratchpad, Step, View

if TYPE_CHECKING:
    from csdfgen.planning.streams import StreamPlan


@dataclass(frozen=True, eq=False)
class Addresses:
    """Where rows of tensors and states are stored; regions by buffer."""

    sharing: Sharing
    regions: Mapping[str, Region]
    _forms: dict[tuple[str, str], tuple[int, tuple[int, ...]]] = field(
        default_factory=dict, repr=False
    )

    def view(self, tensor: Tensor, rows: Rows) -> View:
        """The view of a tensor's rows, which are numbered through all images."""
        spread = self.sharing.spread.get(tensor.name)
        if spread is None:
            place = self.sharing.places[tensor.name]
            return self._at(place, tensor, tensor.row_shape, rows)
        pieces = []
        for place in spread.places:
            shape = self.sharing.piece(tensor, place.buffer)[1]
            pieces.append(self._at(place, tensor, shape, rows))
        return View.joined(pieces, spread.along)

    def _at(self, place: Place, tensor: Tensor, shape: Shape, rows: Rows) -> View:
        """The view of rows at one place, of a tensor or of a piece of it."""
        region = self.regions[place.buffer]
        key = place.buffer, tensor.name
        form = self._forms.get(key)
        if form is None:
            size = tensor.itemsize
            form = place.offset * size, tuple(step * size for step in place.strides)
            self._forms[key] = form
        shift, strides = form
        addresses = region.table[rows.start : rows.stop]
        moved = tuple([address + shift for address in addresses] if shift else addresses)
        return View(region.pool, moved, shape, strides, tensor.format)

    def state(self, work: ActorWork, group: int) -> View:
        """The view of an accumulating layer's sums for an image (or group of images), as output rows."""
        assert work.state is not None
        held, output = work.state.format, work.state.output
        region = self.regions[state_name(work.name)]
        base, row = region.table[group], output.row_elements * held.itemsize
        rows = tuple(base + number * row for number in range(output.rows))
        return View(
            region.pool,
            rows,
            output.row_shape,
            contiguous_strides(output.row_shape, held.itemsize),
            held,
        )

    def step(self, work: ActorWork, number: int, firing: int, workspace: Scratchpad) -> Step:
        """The step of a layer's phase."""
        layer, phase = work.layer, work.phases[number]
        assert layer is not None
        inputs: list[View | None] = []
        for position, (tensor, rows) in enumerate(zip(layer.inputs, phase.ins, strict=True)):
            if tensor is None or rows is None:
                inputs.append(None)
            else:
                stored = phase.slab(stored_rows(layer, position, rows)).span(tensor.rows)
                inputs.append(self.view(tensor, stored))
        written = get_operator(layer).written(layer, phase.out)
        outputs = tuple(
            self.view(t, phase.slab(rows).span(t.rows))
            for t, rows in zip(layer.outputs, written, strict=True)
        )
        states: tuple[View, ...] = ()
        if work.state is not None:
            states = (self.state(work, phase.group),)
        return Step(firing, work.name, layer, phase, tuple(inputs), outputs, states, workspace)


@dataclass(frozen=True, eq=False)
class Turns:
    """What the firings of a plan leave out of a tall image: turns in its middle, that are executed `more` times again.

    stream: the plan of images of any height. network: after fusion, for the image. height, rows: of its first input in the
    image, and in a turn.
    """

    stream: StreamPlan
    network: Network
    height: int
    rows: int
    more: int


@dataclass(frozen=True, eq=False)
class Plan(Pickled):
    """A network ready to run in one arena.

    policy: name of the order. order: firings (actor, phase), phases numbered through the images of an iteration. buffers:
    of tensors, states and workspaces, each with a region of its name. pools: bytes by pool. border: offset at which the
    fast memory ends and the slow one begins, 0 for a plan in one memory. arena_bound: lower bound of the arena in bytes,
    0 if not known. fine: blocks have only rows that are released together (see `buffers_of`). needs: actor -> the least
    bytes of scratch of each phase; the plan may have more where it was free. figures: bytes by name (`FIGURES`).
    notes: remarks about how the plan was chosen. interrupted: the search was interrupted; the plan is the best found.
    mapping: actor -> processor that fires it, empty for a plan of one. turns: of a tall image, what its firings leave out.
    """

    conversion: Conversion
    sharing: Sharing
    options: PlanOptions
    policy: str
    order: tuple[tuple[str, int], ...]
    buffers: tuple[Buffer, ...]
    regions: Mapping[str, Region]
    pools: Mapping[str, int]
    needs: Mapping[str, np.ndarray]
    figures: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    arena_bound: int = 0
    border: int = 0
    fine: bool = False
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    mapping: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    turns: Turns | None = None

    @property
    def network(self) -> Network:
        """The network after fusion."""
        return self.turns.network if self.turns else self.conversion.network

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """With all firings: streams know a backend, which cannot be pickled."""
        return Pickled.__reduce__(self.unrolled)

    @property
    def unrolled(self) -> Plan:
        """The plan with all firings of a tall image."""
        return self.turns.stream.at(self.turns.height) if self.turns else self

    @cached_property
    def left_out(self) -> Counter[str]:
        """Actor -> firings of a tall image that are not in `order`."""
        if self.turns is None:
            return Counter()
        times = self.turns.more * self.turns.rows // self.turns.stream.period
        word = Counter(self.turns.stream.loop.word)
        return Counter({name: times * count for name, count in word.items()})

    @property
    def firings(self) -> int:
        """Firings of a whole image."""
        return len(self.order) + self.left_out.total()

    def sum_phases(self, actor: str, values: Sequence[float]) -> float:
        """The sum over a whole image of what each phase of an actor takes."""
        more = self.turns.more if self.turns else 0
        count = self.left_out[actor] // more if more else 0
        start = (len(values) - count) // 2
        return sum(values) + more * sum(values[start : start + count])

    @property
    def part(self) -> str:
        """Of which rows of a tall image `order` and `lifetimes` are; "" for a whole image."""
        if self.turns is None:
            return ""
        one, low = self.turns, self.conversion.network.inputs[0].rows
        return f"{low:,} of {one.height:,} rows, of whose middle {one.rows:,} repeat {one.more + 1:,} times"

    @property
    def planned_bytes(self) -> int:
        """Bytes of the arena that the executor allocates, workspace included."""
        return self.pools[ARENA]

    @property
    def total_bytes(self) -> int:
        """Bytes that a budget limits: of the arena and of outputs outside it, and what the options count besides."""
        read = self.flash_bytes if self.options.count == "total" else 0
        return self.planned_bytes + self.figures.get("outputs", 0) + read

    @property
    def flash_bytes(self) -> int:
        """Bytes of constants and of the program; 0 where the options neither count nor limit them."""
        return self.figures.get("constants", 0) + self.figures.get("program", 0)

    @cached_property
    def lifetimes(self) -> Lifetimes:
        """When the rows of tensors and states are alive, and their bytes."""
        return trace_lifetimes(self.order, self.rolling)

    @cached_property
    def live(self) -> np.ndarray:
        """Bytes alive during each firing: rows, sums, and all scratch of the firing, also beyond its need."""
        found = self.lifetimes.live.copy()
        times = firing_times(self.order)
        for buffer in self.buffers:
            if buffer.kind == "workspace":
                found[times[buffer.writers[0].actor]] += buffer.sizes
        return found

    @cached_property
    def waits(self) -> Waits:
        """Of each firing what its processor waits for before (`planning.waits`); () for a plan of one processor."""
        if not self.mapping:
            return ()
        scratch = {one.name: one.sizes for one in self.buffers if one.kind == "workspace"}
        return find_waits(
            self.conversion, self.sharing, self.order, self.regions, self.mapping, scratch
        )

    @property
    def optimal(self) -> bool:
        """Whether it is proved that no order of these firings has a lower peak."""
        return self.figures["peak_live"] <= self.figures["lower_bound"]

    @cached_property
    def rolling(self) -> tuple[Buffer, ...]:
        """The buffers of tensors and states."""
        return tuple(buffer for buffer in self.buffers if buffer.kind != "workspace")

    @cached_property
    def by_name(self) -> Mapping[str, Buffer]:
        """Buffers by name."""
        return {buffer.name: buffer for buffer in self.buffers}

    @cached_property
    def addresses(self) -> Addresses:
        """Where rows are stored."""
        return Addresses(self.sharing, self.regions)

    def workspace(self, actor: str, phase: int) -> tuple[int, int]:
        """(offset, bytes) of the scratch of a firing; (0, 0) if it takes none."""
        buffer = self.by_name.get(workspace_name(actor))
        if buffer is None:
            return 0, 0
        return self.regions[buffer.name].table[phase], buffer.sizes[phase]

    def _facts(self) -> dict[str, object]:
        return {
            "rows": self.options.rows,
            "firings": self.firings,
            "planned as": self.part or None,
            "arena": mebibytes(self.planned_bytes),
            "whole layers": mebibytes(self.figures.get("whole_layer_live", 0)),
        }

    def __repr__(self) -> str:
        return format_repr("Plan", self.network.name, **self._facts())

    def _repr_html_(self) -> str:
        figures = {name: mebibytes(size) for name, size in self.figures.items()}
        rows = {"rows": self.options.rows, "firings": self.firings, **figures}
        table = html_table(f"Plan of {self.network.name}", rows.items())
        return table + draw_value(self)


@dataclass(frozen=True, eq=False)
class Point:
    """A plan with the seconds that all its images are predicted to take: a point of memory and time."""

    plan: Plan
    seconds: float

    @property
    def images(self) -> int:
        """Images of one execution."""
        return self.plan.network.batch

    @property
    def bytes(self) -> int:
        """Those that a budget limits: see `Plan.total_bytes`."""
        return self.plan.total_bytes
