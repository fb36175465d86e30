"""How long do the phases of a network take on this machine? The runtime executes frames and reads the clock between
firings.

Every layer is measured in a frame that follows another one, so that the caches are as the firings before it left
them. Frames of the slab heights alternate, so that a change of the machine's speed affects all heights. The time of a
firing is the median over the repeats; the time of a phase at a height is the mean over the phases of a layer that
have this height. The time that a reading of the clock adds is subtracted; where frames are short, it is measured by
frames without readings. With one thread the clock is the processor time of that thread, which excludes waiting for a
core; with several threads it is the time of day.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from types import MappingProxyType

import numpy as np

import runtime
from csdfgen.backends import ALWAYS
from csdfgen.backends.registry import choose_backend
from csdfgen.devices.fitting import fit_line, fit_terms
from csdfgen.devices.model import INPUT, actor_key
from csdfgen.devices.profile import (
    DeviceProfile,
    LayerCost,
    Memory,
    OperatorCost,
    Processor,
    Series,
    parse_quantity,
)
from csdfgen.devices.work import float_operator, format_key, kernel_classes, phase_works
from csdfgen.model.network import Layer, Network
from csdfgen.model.options import PlanOptions
from csdfgen.ops import get_operator
from csdfgen.ops.base import AliasKind
from csdfgen.phases.conversion import ActorWork
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import plan_phased
from csdfgen.planning.prepared import Phased, Prepared, prepare
from csdfgen.stopping import raise_if_stopped
from runtime.images import random_inputs
from runtime.session import Executable

HEIGHTS = (1, 2, 3, 6, 12)
"""Slab heights that are measured; they suffice to separate launch and slope."""

CACHE_STATE = "as in a frame: every firing finds what the firings before it left in the caches"

REPEATS, SECONDS = 11, 1.0
"""Frames a height and seconds by default; both are reached, as frames of small networks are short."""

SEED = 7
"""Seed of the inputs of measured frames."""

_WARM_UP = 2
_CLOCK_READINGS = 1000
_TOLD = 1e-7
"""Seconds of a phase above which readings of the clock tell them."""

_SHORT = 20_000_000
"""Nanoseconds of a frame below which the state of the caches affects how long a reading of the clock takes."""

DEAREST_READING = 4.0
"""A reading between firings takes at most this many times as long as one after another reading, which finds its code in
the caches.
"""

FIT, MEASURED, SYSTEM = "fit", "frames", "system"
"""Keys of the sources of a measured profile."""


Kind = tuple[str, str, str, str]
"""(operator, window, unit of work, formats)"""


@dataclass(frozen=True, slots=True)
class Point:
    """One layer shape at one slab height: number of phases of that height, their rows in all, seconds of all of them
    (median and quartiles), and their work.

    layers: number of layers of a frame with this shape; the other figures are the mean of one of them. images: images
    that a phase works on. moved, weights: bytes of all phases, see `PhaseWork`.
    """

    phases: int
    rows: int
    height: int
    seconds: float
    low: float
    high: float
    amount: float
    layers: int = 1
    images: int = 1
    moved: float = 0.0
    weights: float = 0.0


@dataclass(frozen=True, slots=True)
class Measurements:
    """Points by layer shape, a layer of each shape (None for input rows), and seconds of each frame besides its firings.

    repeats: frames that were timed at each height. calls: points by layer shape of phases of all rows of one and of
    several images, if those were measured. device: whose clock was read; "": the host's. cached: all of the network stays in
    the nearest caches. products: the unit of work of products, "lane" for kernels in vectors with Winograd's forms.
    """

    points: Mapping[str, tuple[Point, ...]]
    layers: Mapping[str, Layer | None]
    frame: tuple[float, ...]
    repeats: int
    calls: Mapping[str, tuple[Point, ...]] = field(default_factory=lambda: MappingProxyType({}))
    device: str = ""
    cached: bool = False
    products: str = "MAC"


class Sampler:
    """Programs of one network, by height or another name, and the times of their frames so far. alone: firings on a device are
    timed by themselves, and not as shares of a frame whose launches they share.
    """

    def __init__(
        self,
        programs: Mapping[int | str, Executable],
        feeds: Mapping[str, np.ndarray],
        threads: int = 1,
        alone: bool = False,
    ) -> None:
        self._clock, self._alone = choose_clock(threads), alone
        first = next(iter(programs.values()))
        self._products = "lane" if choose_backend(first.plan.options).emits else "MAC"
        driven = first.driven
        self._device = "" if driven is None else driven.device
        if self._device:  # a thread that waits for it takes no time of its own
            self._clock = time.perf_counter_ns
        self.programs, self.feeds = dict(programs), dict(feeds)
        self.samples: dict[int | str, list[np.ndarray]] = {name: [] for name in programs}
        self.beside: list[float] = []
        counts = {program.plan.network.batch for program in programs.values()}
        self._several = len(counts) > 1
        self._short: dict[int | str, bool] = {}
        self._excess: dict[int | str, list[int]] = {name: [] for name in programs}

    @classmethod
    def of(
        cls,
        network: Network,
        heights: Sequence[int | str] = HEIGHTS,
        fuse: str = "full",
        threads: int = 1,
        backend: str = ALWAYS,
        images: Sequence[int] = (),
        cl_device: str = "",
        ways: str = "",
    ) -> Sampler:
        """Programs of a network at several slab heights, and for several numbers of images. Raises InputError for a
        network that takes no single images.
        """
        options = PlanOptions(
            fuse=fuse,
            backend=backend,
            cl_device=cl_device,
            weights="copied",
            goal="speed",
            ways=ways,
        )
        # plans of one prepared network share its packed weights
        prepared = prepare(network, options, choose_backend(options))
        programs: dict[int | str, Executable] = {
            height: runtime.compile(_planned(prepared, prepared.at(str(height))), threads=threads)
            for height in heights
        }
        for together in images:
            several = prepared.for_images(together)
            phased = several.at("whole", policy="demand", frames=together, batches="all")
            program = runtime.compile(_planned(several, phased), threads=threads)
            programs[_of_images(together)] = program
        most = replace(network, batch=max(images)) if images else network
        return cls(programs, random_inputs(most, SEED), threads)

    def warm_up(self) -> None:
        """Execute frames that are not measured."""
        for height, program in self.programs.items():
            for _ in range(_WARM_UP):
                start = self._clock()
                program(self._fed(height))
                self._short[height] = self._clock() - start < _SHORT

    def sample(self) -> None:
        """Measure one frame at every height; where frames are short, after two plain ones."""
        for height, program in self.programs.items():
            short = self._short[height] or self._device
            plain = self._plain_frame(height) if short else None
            start = self._clock()
            ended = program.time_firings(self._fed(height), self._clock, alone=self._alone)
            whole = self._clock() - start
            self.samples[height].append(np.diff(np.array(ended, np.int64)))
            if plain is not None and self._device:  # whose firings are timed behind another frame
                whole = plain
            self.beside.append(max(0, whole - (ended[-1] - ended[0])) * 1e-9)
            if plain is not None:
                self._excess[height].append(whole - plain)

    def _plain_frame(self, name: int | str) -> int:
        """Nanoseconds of a frame without readings that follows a frame of the same program."""
        program, feeds = self.programs[name], self._fed(name)
        program(feeds)
        start = self._clock()
        program(feeds)
        return self._clock() - start

    def _fed(self, name: int | str) -> Mapping[str, np.ndarray]:
        """Inputs with the number of images that a program takes."""
        if not self._several:
            return self.feeds
        batch = self.programs[name].plan.network.batch
        return {name: array[:batch] for name, array in self.feeds.items()}

    def reading(self) -> float:
        """Nanoseconds that reading the clock adds to a firing: the difference of frames with and without readings."""
        if self._device:
            return 0.0
        alone = _reading(self._clock)
        heights = [height for height, found in self._excess.items() if found]
        excess = sum(statistics.median(self._excess[height]) for height in heights)
        firings = sum(self.programs[height].firings for height in heights)
        return min(max(excess / firings, alone), DEAREST_READING * alone) if heights else alone

    def measured(self, name: int | str) -> Iterator[tuple[str, ActorWork, Point]]:
        """(key of the shape, actor, point) of every actor in the frames of a program."""
        program = self.programs[name]
        samples = np.maximum(np.stack(self.samples[name]) - self.reading(), 0) * 1e-9
        for work, firings in _firings(program.plan).items():
            actor = program.plan.conversion.actor[work]
            if actor.kind == "output" or work in program.plan.sharing.silent:
                continue
            key = actor_key(actor)
            rows, works = phase_work(actor, self._products)
            bytes_of = [(0.0, 0.0)] * len(rows)
            if actor.layer is not None:
                bytes_of = [(one.moved, one.weights) for one in phase_works(actor)]
            # without the last phase, which often has fewer rows and would make its height look faster
            full = [number for number, count in enumerate(rows) if count == max(rows)]
            timed = samples[:, [firings[number] for number in full]]
            low, middle, high = np.quantile(timed, (0.25, 0.5, 0.75), axis=0).sum(axis=1).tolist()
            amount, images = sum(works[number] for number in full), actor.phases[0].images
            height, count = max(rows), len(full)
            moved, weights = (sum(bytes_of[number][k] for number in full) for k in (0, 1))
            point = Point(
                count, count * height, height, middle, low, high, amount,
                images=images, moved=moved, weights=weights,
            )  # fmt: skip
            yield key, actor, point

    def points(self, height: int | str) -> dict[str, tuple[Layer | None, Point]]:
        """(layer, point) by layer shape, of the frames at a height; layers of equal shape are averaged."""
        found: dict[str, list[tuple[Layer | None, Point]]] = {}
        for key, actor, point in self.measured(height):
            found.setdefault(key, []).append((actor.layer, point))
        return {
            key: (same[0][0], mean_point([point for _, point in same]))
            for key, same in found.items()
        }

    def measurements(self) -> Measurements:
        """Points of all heights by layer shape, and those of several images."""
        points: dict[str, list[Point]] = {}
        calls: dict[str, list[Point]] = {}
        layers: dict[str, Layer | None] = {}
        for name, program in self.programs.items():
            images = program.plan.conversion.frames
            of_images = name == _of_images(images)
            for key, (layer, point) in self.points(name).items():
                if not of_images or images == 1:  # all rows of one image are a height too
                    points.setdefault(key, []).append(point)
                if of_images and point.images == images:
                    calls.setdefault(key, []).append(point)
                layers[key] = layer
        return Measurements(
            MappingProxyType({key: tuple(found) for key, found in points.items()}),
            MappingProxyType(layers),
            tuple(self.beside),
            len(self.beside) // len(self.programs),
            MappingProxyType({key: tuple(found) for key, found in calls.items()}),
            self._device,
            products=self._products,
        )


def _planned(prepared: Prepared, phased: Phased) -> Plan:
    """A plan to be measured: none that Ctrl-C cut short. Raises KeyboardInterrupt."""
    made = plan_phased(prepared, phased)
    if made.interrupted:
        raise KeyboardInterrupt
    return made


def _of_images(count: int) -> str:
    """The name of a program of several images."""
    return f"{count} images"


def choose_clock(threads: int) -> Callable[[], int]:
    """The clock, in nanoseconds, for a run with so many threads."""
    return time.thread_time_ns if threads == 1 else time.perf_counter_ns


def _reading(clock: Callable[[], int]) -> int:
    """Nanoseconds that reading the clock between two firings takes."""
    readings = [clock() for _ in range(_CLOCK_READINGS)]
    return int(np.median(np.diff(readings)))


def _firings(planned: Plan) -> dict[str, list[int]]:
    """Positions of every actor's firings in the order of the plan."""
    found: dict[str, list[int]] = {}
    for position, (actor, _) in enumerate(planned.order):
        found.setdefault(actor, []).append(position)
    return found


def phase_work(actor: ActorWork, products: str = "lane") -> tuple[list[int], list[float]]:
    """Rows of each phase, and its work in the unit of the operator's kind. products: of multiply-accumulates."""
    if actor.layer is None:
        rows = [len(phase.out) for phase in actor.phases]
        each = actor.writes[0].tensor.elements / sum(rows)
        return rows, [each * count for count in rows]
    works = list(phase_works(actor))
    unit = _unit(actor.layer, products)
    return [work.rows for work in works], [float(work.amounts[unit]) for work in works]


def _unit(layer: Layer, products: str) -> str:
    """The unit of work that the time of the kind of a layer is given per: of what may be applied in the slab of another
    layer, elements.
    """
    operator = get_operator(layer)
    if operator.multiplies:
        return products
    inplace = any(one.kind is AliasKind.INPLACE for one in operator.aliases(layer))
    return "element" if inplace and operator.rowwise else "input"


def mean_point(points: Sequence[Point]) -> Point:
    """The mean of the points of layers of one shape."""
    first = points[0]
    if len(points) == 1:
        return first
    seconds, low, high = (
        statistics.fmean(getattr(p, name) for p in points) for name in ("seconds", "low", "high")
    )
    return replace(first, seconds=seconds, low=low, high=high, layers=len(points))


# The profile ------------------------------------------------------------------------------------


def make_profile(
    found: Sequence[Measurements],
    name: str,
    title: str,
    memory: Memory,
    processor: Processor,
    facts: Mapping[str, str],
) -> DeviceProfile:
    """The profile of this machine, from the measurements of networks. facts: conditions of the measurement."""
    points: dict[str, list[Point]] = {}
    for one in found:
        for key, at in () if one.cached else one.points.items():
            points.setdefault(key, []).extend(at)
    calls = {key: points for one in found for key, points in one.calls.items()}
    beside = min(statistics.median(one.frame) for one in found)
    kinds = {
        key: list_kinds(layer, one.products) for one in found for key, layer in one.layers.items()
    }
    sources = {
        MEASURED: "this machine, by csdfgen profile: medians over repeated frames, heights in turn",
        FIT: "least squares of relative distances from the times measured here: launch + rows * slope",
        SYSTEM: "what the operating system of this machine reports",
    }
    machine = memory, processor
    made = fit_profile(name, title, machine, points, kinds, beside, sources, facts, calls)
    small = [
        replace(cost, cached=True)
        for one in found
        if one.cached
        for cost in _kind_costs(one.points, kinds)
    ]
    return replace(made, operators=(*made.operators, *small))


def fit_profile(
    name: str,
    title: str,
    machine: tuple[Memory, Processor],
    points: Mapping[str, Sequence[Point]],
    kinds: Mapping[str, Sequence[Kind]],
    beside: float,
    sources: Mapping[str, str],
    facts: Mapping[str, str],
    calls: Mapping[str, Sequence[Point]] = MappingProxyType({}),
) -> DeviceProfile:
    """Fit launch and slope to every layer shape, and launch and time of work to every operator kind.

    points: by shape; kinds: the operator kinds that each shape contributes to. beside: s of a frame besides its
    firings. calls: points of shapes on several images.
    """
    costs = {key: _layer_cost(key, at, calls.get(key, ())) for key, at in points.items()}
    memory, processor = machine
    return DeviceProfile(
        name=name,
        title=title,
        memory=memory,
        processor=replace(processor, frame=parse_quantity(beside * 1e6, "us", MEASURED)),
        operators=tuple(_kind_costs(points, kinds)),
        layers=MappingProxyType(costs),
        sources=MappingProxyType(dict(sources)),
        conditions=MappingProxyType(dict(facts)),
    )


def _kind_costs(
    points: Mapping[str, Sequence[Point]], kinds: Mapping[str, Sequence[Kind]]
) -> Iterator[OperatorCost]:
    """The cost of each operator kind, from the points of all its shapes."""
    same: dict[Kind, list[Point]] = {}
    for key, at in points.items():
        for kind in kinds[key]:
            same.setdefault(kind, []).extend(at)
    return (_kind_cost(*kind, same[kind]) for kind in sorted(same))


def list_kinds(layer: Layer | None, products: str = "lane") -> list[Kind]:
    """The operator kinds to which a layer contributes; they predict the times of layers of other shapes."""
    if layer is None:
        return [(INPUT, "", "element", "")]
    op_type, formats, unit = (
        float_operator(layer.op_type),
        format_key(layer),
        _unit(layer, products),
    )
    kernels = dict.fromkeys((*kernel_classes(layer)[:1], ""))
    found = [(op_type, kernel, unit, formats) for kernel in kernels]
    return [*found, ("*", "", unit, formats)] if unit == "element" else found


def _layer_cost(key: str, at: Sequence[Point], calls: Sequence[Point]) -> LayerCost:
    """The line through the points of a layer shape; heights with the same phases are a point each."""
    fit = fit_line([p.rows / p.phases for p in at], [max(p.seconds, 1e-9) / p.phases for p in at])
    spread = tuple(100 * (p.high - p.low) / max(p.seconds, 1e-9) for p in at)
    return LayerCost(
        key=key,
        launch=parse_quantity(fit.launch * 1e6, "us", FIT),
        slope=parse_quantity(fit.slope * 1e6, "us/row", FIT),
        error=parse_quantity(100 * fit.largest, "%", FIT),
        rows=tuple(p.height for p in at),
        times=_microseconds([p.seconds / p.phases for p in at]),
        spread=Series(spread, "%", tuple(s * 1e-2 for s in spread), "measured", MEASURED),
        images=tuple(p.images for p in calls),
        calls=_microseconds([p.seconds / p.phases for p in calls]) if calls else None,
    )


def _microseconds(seconds: Sequence[float]) -> Series:
    times = tuple(1e6 * one for one in seconds)
    return Series(times, "us", tuple(one * 1e-6 for one in times), "measured", MEASURED)


def _kind_cost(
    op_type: str, kernel: str, unit: str, formats: str, at: Sequence[Point]
) -> OperatorCost:
    """The cost of a layer of this kind whose shape was not measured."""
    at = [p for p in at if p.seconds >= _TOLD * p.phases] or at
    seconds = np.array([max(p.seconds, 1e-9) / p.phases for p in at])
    terms = np.array(
        [(1.0, p.amount / p.phases, p.moved / p.phases, p.weights / p.phases) for p in at]
    )
    found = fit_terms(terms, seconds)
    launch, time, access, weights = found.tolist()
    return OperatorCost(
        types=(op_type,),
        kernel=kernel,
        work=unit,
        time=parse_quantity(time * 1e9, f"ns/{unit}", FIT),
        launch=parse_quantity(launch * 1e6, "us", FIT),
        access=parse_quantity(access * 1e9, "ns/B", FIT) if access else None,
        weights=parse_quantity(weights * 1e9, "ns/B", FIT) if weights else None,
        error=parse_quantity(100 * float(np.median(np.abs(terms @ found / seconds - 1))), "%", FIT),
        formats=formats,
    )


Sampled = Callable[[int, int], None]
"""(rounds done, least number of rounds)"""


def count_rounds(repeats: int, seconds: float = 0.0) -> Iterator[int]:
    """Numbers of measuring rounds, until both the repeats and the seconds are reached."""
    end = time.perf_counter() + seconds
    for number in count():
        if number >= repeats and time.perf_counter() >= end:
            return
        yield number


def sample_network(
    network: Network,
    heights: Sequence[int | str],
    repeats: int,
    fuse: str = "full",
    threads: int = 1,
    progress: Sampled | None = None,
    seconds: float = 0.0,
    backend: str = ALWAYS,
    images: Sequence[int] = (),
    cl_device: str = "",
    ways: str = "",
    cached: bool = False,
) -> Measurements:
    """Measure a network at several slab heights, and on several images at once, in at least `repeats` rounds and
    `seconds`.

    It holds the arena of the network once a height, and its weights once.
    """
    sampler = Sampler.of(network, heights, fuse, threads, backend, images, cl_device, ways)
    sampler.warm_up()
    for number in count_rounds(repeats, seconds):
        raise_if_stopped()
        sampler.sample()
        if progress is not None:
            progress(number + 1, max(repeats, number + 1))
    return replace(sampler.measurements(), cached=cached)
