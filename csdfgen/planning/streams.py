"""How is a network planned once for images of any height, and of none? By an order that repeats.

    stream = csdfgen.plan_stream("model.onnx", shapes=(1, 3, 480, 640))
    stream.at(10_000)            # the plan of an image of so many rows, in the same arena

The order is found in an image that is just tall enough, and so are the offsets of rows. An image of any other height
has the firings of the order that exist, at the same offsets, without a search; the checker of all plans checks each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import gcd, lcm
from types import MappingProxyType

from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import (
    CsdfgenError,
    InputError,
    ModelError,
    PlanError,
    ScheduleError,
    option,
)
from csdfgen.model.network import HEIGHTS, AtHeight, Network
from csdfgen.model.options import DEFAULTS, PlanOptions
from csdfgen.ops import get_operator
from csdfgen.ops.base import LEAST, Mode
from csdfgen.ops.resampling import has_repeated_positions
from csdfgen.phases.conversion import ActorWork, Conversion
from csdfgen.phases.heights import AUTO_PIXELS, BOARD_PIXELS
from csdfgen.phases.passes import reduce_pixels, split_passes
from csdfgen.phases.streaming import (
    FIXED_HEIGHT,
    find_change,
    find_stream_obstacle,
    has_end_of_its_own,
    widen_for_streams,
)
from csdfgen.planning.buffers import ARENA, workspace_buffer
from csdfgen.planning.checker import annotate_plan
from csdfgen.planning.plan import Plan, Turns
from csdfgen.planning.planner import network_figures, pause_collection, plan_repeated
from csdfgen.planning.prepared import Phased, Prepared, prepare
from csdfgen.planning.repeating import CAP, Loop, find_loop, harmonize_heights
from csdfgen.planning.stream_checker import check_loop
from csdfgen.planning.stream_graph import build_period_graph, measure_waits
from csdfgen.program.steps import Backend

_CAPS = {"memory": 8, "balanced": CAP, "speed": 128}
"""Goal -> most rows of the first input that a phase takes."""

_SPREAD = "arena", "latency", "burst", "queue"
"""Figures that spreading work over rows changes."""

_ROWS, _BYTES = 1024, 1 << 18
"""Rows, and their bytes, up to which turns are executed together."""


@dataclass(frozen=True, eq=False)
class StreamPlan:
    """A plan of images of any height in one arena.

    phased: the image in which the order was found. period: rows of the first input in a period. turn: rows of it after which
    firings have the same offsets again: a multiple of the period. first: rows of it after which no firing reaches rows in
    front of the image, or places that they would have: where turns begin to repeat. least: rows of the lowest image in
    which a whole turn follows, before any firing reaches rows behind the image. earlier: passes over all rows in front of
    this one, whose results it takes as inputs. sums: of a pass over strips of columns, what takes pixels of its outputs as rows,
    and gives such results. unspread: the plan of least memory, beside one whose work is spread over rows.
    """

    phased: Phased = field(repr=False)
    loop: Loop = field(repr=False)
    period: int
    turn: int
    first: int
    least: int
    _at_height: AtHeight = field(repr=False)
    earlier: tuple[StreamPlan, ...] = ()
    sums: Mapping[str, StreamPlan] = field(default_factory=dict)
    unspread: StreamPlan | None = None

    @property
    def conversion(self) -> Conversion:
        """The image in which the order was found, in phases."""
        return self.phased.conversion

    @property
    def network(self) -> Network:
        """The network of that image, after fusion."""
        return self.conversion.network

    @property
    def options(self) -> PlanOptions:
        """The options, with the rows that each layer computes in a phase."""
        return self.phased.options

    @property
    def planned_bytes(self) -> int:
        """Bytes of the arena, whatever the height."""
        return self.loop.arena

    @property
    def joined(self) -> int:
        """Turns that are executed together."""
        return max(1, min(_ROWS, _BYTES // self.network.inputs[0].row_bytes) // self.turn)

    def graph(self, *, tokens: str = "elements", overlap: bool = True) -> CsdfGraph:
        """The CSDF graph of a period, with initial tokens (`build_period_graph`)."""
        return build_period_graph(self, tokens=tokens, overlap=overlap)

    def facts(self) -> dict[str, int | float]:
        """Figures by name: bytes, rows of the first input, and `measure_waits`; where work is spread, "arena_before" and others
        are those of the plan of least memory.
        """
        before = self.unspread.facts() if self.unspread else {}
        return {
            "arena": self.planned_bytes,
            "peak_live": self.loop.peak,
            "lower_bound": self.loop.bound,
            "period": self.period,
            "turn": self.turn,
            "firings": len(self.loop.word),
            **measure_waits(self),
            **{f"{name}_before": before[name] for name in _SPREAD if before},
        }

    def at(self, rows: int) -> Plan:
        """The checked plan of an image of so many rows. Raises ModelError or InputError for a height that the network does
        not take.
        """
        return self.ending(rows, rows, bounded=True)

    def read_network(self, rows: int) -> Network:
        """The network of an image of so many rows, after fusion. Raises as `at`."""
        return self._prepare(rows).network

    def _prepare(self, rows: int) -> Prepared:
        """What `phase_stream` prepares of an image of so many rows. Raises as `at`."""
        try:
            return self._checked(rows)
        except (ModelError, InputError) as error:
            more = self._next_height(rows)
            if more is None:
                raise
            message = f"images of {rows} rows do not fit, those of {more} do: {error.message}"
            raise ModelError(message, where=error.where) from error

    def _checked(self, rows: int) -> Prepared:
        """The network of an image whose layers compute rows as those of the image in which the order was found, because rows of
        it are computed before it is known how many there are.
        """
        network, one = widen_for_streams(self._at_height(rows)), self.phased
        prepared = prepare(network, one.options, one.kernels)
        change = find_change(prepared.network, self.network)
        if change is not None:
            raise ModelError(f"layer '{change.layer}' {change.reason}")
        return prepared

    def _next_height(self, rows: int) -> int | None:
        """The next multiple of a power of two that the network takes, as strides make it, or None."""
        for step in (2**k for k in range(1, 11)):
            try:
                return self._checked(-(-rows // step) * step).network.inputs[0].rows
            except (ModelError, InputError):
                continue
        return None

    @cached_property
    def counts_rows(self) -> bool:
        """Whether layers depend on how many rows there were: reductions of all rows."""
        modes = (get_operator(layer).mode(layer) for layer in self.network.layers)
        return Mode.ACCUMULATE in modes

    def ending(self, low: int, rows: int, *, bounded: bool = False) -> Plan:
        """The plan of an image of `low` rows by which an image of `rows` rows ends, whole periods more: means are over all of
        these. bounded: see `plan_repeated`. Raises as `at`.
        """
        return self.endings(low, [rows], bounded=bounded)[0]

    def endings(self, low: int, heights: Sequence[int], *, bounded: bool = False) -> list[Plan]:
        """`ending` for each of these heights."""
        rates = self.loop.rates(self.phased)
        periods = [(rows - low) // self.period for rows in heights]
        behind = [{name: count * rate for name, rate in rates.items()} for count in periods]
        with pause_collection():
            phased = convert_prepared(self._prepare(low), self.options)
            plans = plan_repeated(phased, self.loop, behind, bounded=bounded)
        return [self._with_means(*one) for one in zip(plans, heights, strict=True)]

    def _with_means(self, plan: Plan, rows: int) -> Plan:
        """The plan of a lower image with the means of one of so many rows."""
        if plan.network.inputs[0].rows == rows or not self.counts_rows:
            return plan
        layers = {layer.name: layer for layer in self.read_network(rows).layers}
        actors = [
            replace(work, layer=layers[work.name], first=None) if self._is_behind(work) else work
            for work in plan.conversion.actors
        ]
        return replace(plan, conversion=replace(plan.conversion, actors=tuple(actors)))

    def _is_behind(self, work: ActorWork) -> bool:
        """Whether a layer gives its result behind the last row."""
        layer = work.layer
        return layer is not None and (
            work.name not in self.loop.before or get_operator(layer).mode(layer) is Mode.ACCUMULATE
        )

    def loop_at(self, rows: int) -> Plan:
        """The plan of an image of so many rows that has turns in its middle once (`Turns`); the whole one, if there are not
        enough. Raises as `at`.
        """
        for layer in self.network.layers:
            if has_repeated_positions(layer):  # which are not onnxruntime's so far down
                raise PlanError(f"rows of layer '{layer.name}' depend on their numbers")
        turn = self.joined * self.turn
        more = (rows - self.least) // turn - 1
        if more < 1:
            return self.at(rows)
        low, network = rows - more * turn, self.read_network(rows)
        made = self.ending(low, rows, bounded=True)
        figures = {**made.figures, **network_figures(network, made.options)}
        return annotate_plan(
            made, figures=MappingProxyType(figures), turns=Turns(self, network, rows, turn, more)
        )

    def template(self, rows: int) -> tuple[int, int]:
        """(rows of a lower image, periods) with the same firings as an image of `rows` rows, but for so many periods less in its
        middle; the same image if it is low itself.
        """
        step = self.aligned * self.period
        times = max(0, (rows - self.least + self.turn - step) // step)
        return rows - times * step, times * self.aligned

    @cached_property
    def aligned(self) -> int:
        """Periods of which multiples may be left out of an image, as its first rows are aligned: a part of those of a turn. Only
        those of rings may not be.
        """
        found, rates = 1, self.loop.rates(self.phased)
        for one in self.phased.buffers:
            repeat, places = self.loop.tables[one.name]
            rows = rates[one.name]
            if rows and len(places) == 1:
                whole = repeat * one.row_bytes % one.alignment == 0
                size = rows * one.row_bytes
                found = lcm(
                    found,
                    one.alignment // gcd(one.alignment, size)
                    if whole
                    else repeat // gcd(repeat, rows),
                )
        return found if self.loop.turn % found == 0 else self.loop.turn


def count_held(plan: Plan) -> int:
    """How many rows of the first input wait for the end of an image: those that are fed from where the first layer ends by
    itself (`has_end_of_its_own`).
    """
    first, fed, start = plan.network.inputs[0], 0, 0
    for name, number in plan.order:
        work = plan.conversion.actor[name]
        phase = work.phases[number]
        if work.kind == "input" and work.writes[0].tensor.name == first.name:
            start, fed = fed, phase.out.stop
        if work.layer and phase.last and has_end_of_its_own(work.layer):
            return first.rows - start
    return 0


def find_passes(
    at_height: AtHeight,
    options: PlanOptions,
    kernels: Backend,
    most: int,
    pixels: Mapping[str, int] | None = None,
) -> StreamPlan:
    """The plan of the last of at most so many passes over all rows. pixels: of an image in strips, by what is reduced, columns
    at a time. Raises as `find_stream`.
    """

    @lru_cache(maxsize=4)
    def split(rows: int) -> tuple[Network, ...]:
        return split_passes(at_height(rows), strips=pixels is not None)

    count = len(split(HEIGHTS[0])) if most > 1 else 1
    if not 1 < count <= most:
        return find_stream(at_height, options, kernels)

    def plan_pass(number: int) -> StreamPlan:
        plan = find_stream(lambda rows: split(rows)[number], options, kernels)
        if pixels is None or number == count - 1:
            return plan
        return replace(
            plan,
            sums={one.name: plan_sum(one.name, pixels[one.name]) for one in plan.network.outputs},
        )

    def plan_sum(name: str, columns: int) -> StreamPlan:
        network = at_height(HEIGHTS[0])
        return find_stream(
            lambda rows: reduce_pixels(network, name, rows, columns), options, kernels
        )

    *earlier, last = map(plan_pass, range(count))
    return replace(last, earlier=tuple(earlier))


def spread_stream(stream: StreamPlan) -> StreamPlan:
    """The plan of an order whose work is spread over the rows of the first input, so that a line camera waits for few; the same
    order if its busiest row takes no more. Raises PlanError if none repeats.
    """
    phased, made = stream.phased, stream
    try:
        with pause_collection():
            other = make_stream(phased, find_loop(phased, spread=True), stream._at_height)
    except ScheduleError as error:
        raise PlanError(f"no order spreads the work over rows: {error.message}") from error
    if measure_waits(other)["burst"] < measure_waits(stream)["burst"]:
        made = replace(other, earlier=stream.earlier)
    return replace(made, unspread=stream)


def find_stream(at_height: AtHeight, options: PlanOptions, kernels: Backend) -> StreamPlan:
    """The plan of images of any height of a network. Raises PlanError if it cannot stream, or no order repeats."""
    failed: CsdfgenError | None = None
    for height in HEIGHTS:
        try:
            network = at_height(height)
            if failed is None and not _is_shown_to_stream(at_height, height):
                continue
            with pause_collection():
                phased = phase_stream(network, options, kernels)
                return make_stream(phased, find_loop(phased), at_height)
        except (ScheduleError, ModelError, InputError) as error:
            if failed is None or isinstance(failed, ScheduleError):  # else the first one says more
                failed = error
    assert failed is not None
    if isinstance(failed, ScheduleError):
        raise PlanError(f"no order repeats: {failed.message}; {FIXED_HEIGHT}") from failed
    raise failed


def _is_shown_to_stream(at_height: AtHeight, height: int) -> bool:
    """Whether images of a height show that a network streams, and not a taller one alone, as where windows are higher than the
    first. Raises PlanError for a network that does not stream.
    """
    for each in sorted({height, HEIGHTS[-1]}):
        try:
            network = at_height(each)
            written = at_height(network.written) if network.written else None
            _check_laws(network, at_height(2 * each), written)
            return each == height
        except PlanError as error:
            refused = error
        except (ModelError, InputError):
            if each == height:
                raise
    raise refused


def _check_laws(network: Network, taller: Network, written: Network | None) -> None:
    """Raise PlanError unless rows are computed alike in all. written: the network of the file, of whose height constants are."""
    if network.batch > 1:
        raise PlanError(f"streams are of one image at a time; the network takes {network.batch}")
    first = network.inputs[0]
    if not any(first in one.inputs for one in network.layers):
        raise PlanError(
            f"a stream counts rows of '{first.name}', which not every pass reads; make it a later input, or {FIXED_HEIGHT}"
        )
    obstacle = find_stream_obstacle(network, taller)
    if obstacle is None and written is not None:
        obstacle = find_change(*map(widen_for_streams, (written, network)))
    if obstacle is None:
        return
    pairs = list(zip(split_passes(network), split_passes(taller), strict=False))
    if len(pairs) > 1 and not any(find_stream_obstacle(*pair) for pair in pairs):
        asked = option("passes", len(pairs))
        way = f"run it with {asked}, which reads all rows so often, where they can be read again"
        obstacle = obstacle._replace(way_out=way)
    raise PlanError(str(obstacle))


def phase_stream(
    network: Network, options: PlanOptions, kernels: Backend, *, fine: bool = False
) -> Phased:
    """The network cut into phases, of heights that make a period short if none are given, with scratch that does not depend
    on the height.
    """
    return convert_prepared(
        prepare(widen_for_streams(network), options, kernels), options, fine=fine
    )


def convert_prepared(prepared: Prepared, options: PlanOptions, *, fine: bool = False) -> Phased:
    """The same of a prepared network, which is widened."""
    if options.rows == DEFAULTS.rows:
        if options.goal not in _CAPS:
            raise PlanError(f"{option('goal', options.goal)} is of frames, not of a stream")
        pixels = BOARD_PIXELS if options.count == "flash" else AUTO_PIXELS
        rows = harmonize_heights(prepared.at("1").conversion, _CAPS[options.goal], pixels)
        options = replace(options, rows=rows)
    phased = prepared.phased(options, fine=fine)
    return replace(phased, terms=replace(phased.terms, scratch=LEAST))


def make_stream(phased: Phased, loop: Loop, at_height: AtHeight) -> StreamPlan:
    """The plan of an order that was found in an image. Raises as `check_loop`."""
    check_loop(draft_stream(phased, loop), loop.before, loop.word, loop.tables)
    height = phased.conversion.network.inputs[0].rows
    least = height - (loop.interior(phased.conversion) - loop.turn - 2) * loop.rows
    return StreamPlan(phased, loop, loop.rows, loop.turn * loop.rows, loop.first, least, at_height)


def draft_stream(phased: Phased, loop: Loop) -> Plan:
    """An image with its buffers, without firings and places."""
    if phased.most is None or phased.fine != loop.fine:
        phased = replace(phased, fine=loop.fine, most=loop.scratch)
    alignment = phased.kernels.alignment(ARENA)
    workspaces = [
        workspace_buffer(name, sizes.tolist(), alignment) for name, sizes in phased.scratch.items()
    ]
    return Plan(
        phased.conversion,
        phased.sharing,
        phased.options,
        "loop",
        (),
        (*phased.buffers, *workspaces),
        MappingProxyType({}),
        MappingProxyType({ARENA: loop.arena}),
        phased.scratch,
    )
