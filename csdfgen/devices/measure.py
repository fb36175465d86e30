"""How long do the phases of a network take on this machine? The runtime's own frames, with the
clock read between firings.

Every layer is measured where it runs: in a frame that follows another, on the prepared calls of the
runtime, with the caches as the firings before it left them. Slab heights take turns, so that a
change of the machine's speed meets all of them. Of every firing the median over the repeats counts;
a layer's phase time at a height is the mean over its phases of that height. What reading the clock adds is taken
off; where frames are short it is told by frames without readings. With one thread the clock is that
thread's processor time: waiting for a core, on a machine that does other work too, is no property
of a layer. With several threads it is the time of day.
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
from csdfgen.backends.registry import kernels_for
from csdfgen.devices import units
from csdfgen.devices.fitting import fit_line
from csdfgen.devices.model import actor_key
from csdfgen.devices.profile import (
    DeviceProfile,
    LayerCost,
    Memory,
    OperatorCost,
    Processor,
    Quantity,
    Series,
)
from csdfgen.devices.work import formats_of, kernel_class, of_values, phase_works
from csdfgen.model.network import Layer, Network
from csdfgen.model.options import PlanOptions
from csdfgen.ops import operator_of
from csdfgen.phases.conversion import ActorWork
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import planned
from csdfgen.planning.prepared import prepare
from runtime.images import random_inputs
from runtime.session import Executable

__all__ = [
    "CACHE_STATE",
    "DEAREST_READING",
    "FIT",
    "HEIGHTS",
    "MEASURED",
    "REPEATS",
    "SECONDS",
    "SEED",
    "SYSTEM",
    "Kind",
    "Measurements",
    "Point",
    "Sampler",
    "fitted_costs",
    "kinds_of",
    "mean_point",
    "measured_profile",
    "rounds",
    "rows_and_work",
]

HEIGHTS = (1, 2, 3, 6, 12)
"""Slab heights that are measured: enough to tell the launch from the slope."""

CACHE_STATE = "as in a frame: every firing finds what the firings before it left in the caches"

REPEATS, SECONDS = 11, 1.0
"""Frames a height unless told otherwise, and for how long at least: small networks' frames are over
in a moment.
"""

SEED = 7
"""Of the inputs of measured frames."""

_WARM_UP = 2
_CLOCK_READINGS = 1000
_SHORT = 20_000_000
"""Nanoseconds of a frame below which what was in the caches, and what a reading of the clock costs
there, count.
"""

DEAREST_READING = 4.0
"""Between firings a reading may cost this many times what it costs behind another reading: caches
have forgotten it.
"""

FIT, MEASURED, SYSTEM = "fit", "frames", "system"
"""Keys of the sources of a measured profile."""


Kind = tuple[str, str, str, str]
"""(operator, window, unit of work, formats)"""


@dataclass(frozen=True, slots=True)
class Point:
    """One layer shape at one slab height: phases of that height and their rows in all, seconds of all of them
    (median, quartiles), work.

    layers: how many layers of a frame have this shape; all else is the mean of one of them. images: that
    a phase worked on.
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


@dataclass(frozen=True, slots=True)
class Measurements:
    """Points by layer shape, the layer of each (None for input rows), and seconds a frame beside
    its firings.

    repeats: frames that were timed at each height. calls: points by layer shape of phases of all rows of
    one and of several images, where those were measured.
    """

    points: Mapping[str, tuple[Point, ...]]
    layers: Mapping[str, Layer | None]
    frame: tuple[float, ...]
    repeats: int
    calls: Mapping[str, tuple[Point, ...]] = field(default_factory=lambda: MappingProxyType({}))


class Sampler:
    """Programs of one network, by height or another name, and what their frames have taken so far."""

    def __init__(
        self,
        programs: Mapping[int | str, Executable],
        feeds: Mapping[str, np.ndarray],
        threads: int = 1,
    ) -> None:
        self._clock = clock_of(threads)
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
    ) -> Sampler:
        """Programs of a network at several slab heights, and of so many images at once. Raises InputError
        for a network that takes no single images.
        """
        options = PlanOptions(fuse=fuse, backend=backend)
        # plans of one prepared network share its packed weights
        prepared = prepare(network, options, kernels_for(options))
        programs: dict[int | str, Executable] = {
            height: runtime.compile(planned(prepared, prepared.at(str(height))), threads=threads)
            for height in heights
        }
        for together in images:
            several = prepared.for_images(together)
            phased = several.at("whole", policy="demand", frames=together, batches="all")
            program = runtime.compile(planned(several, phased), threads=threads)
            programs[_of_images(together)] = program
        most = replace(network, batch=max(images)) if images else network
        return cls(programs, random_inputs(most, SEED), threads)

    def warm_up(self) -> None:
        """Frames that do not count."""
        for height, program in self.programs.items():
            for _ in range(_WARM_UP):
                start = self._clock()
                program(self._fed(height))
                self._short[height] = self._clock() - start < _SHORT

    def sample(self) -> None:
        """One frame at every height, the clock read between firings; where frames are short, two
        plain ones in front of it.
        """
        for height, program in self.programs.items():
            plain = self._plain_frame(height) if self._short[height] else None
            start = self._clock()
            ended = program.time_firings(self._fed(height), self._clock)
            whole = self._clock() - start
            self.samples[height].append(np.diff(np.array(ended, np.int64)))
            self.beside.append((whole - (ended[-1] - ended[0])) * 1e-9)
            if plain is not None:
                self._excess[height].append(whole - plain)

    def _plain_frame(self, name: int | str) -> int:
        """Nanoseconds of a frame that follows one of its own."""
        program, feeds = self.programs[name], self._fed(name)
        program(feeds)
        start = self._clock()
        program(feeds)
        return self._clock() - start

    def _fed(self, name: int | str) -> Mapping[str, np.ndarray]:
        """As many images as a program takes."""
        if not self._several:
            return self.feeds
        batch = self.programs[name].plan.network.batch
        return {name: array[:batch] for name, array in self.feeds.items()}

    def reading(self) -> float:
        """Nanoseconds that reading the clock adds to a firing: what frames with readings take more
        than those without.
        """
        alone = _reading(self._clock)
        told = [height for height, found in self._excess.items() if found]
        excess = sum(statistics.median(self._excess[height]) for height in told)
        firings = sum(self.programs[height].firings for height in told)
        return min(max(excess / firings, alone), DEAREST_READING * alone) if told else alone

    def measured(self, name: int | str) -> Iterator[tuple[str, ActorWork, Point]]:
        """What the frames of a program took: key of the shape, actor, and its point."""
        program = self.programs[name]
        samples = np.maximum(np.stack(self.samples[name]) - self.reading(), 0) * 1e-9
        for work, firings in _firings(program.plan).items():
            actor = program.plan.conversion.actor[work]
            if actor.kind == "output" or work in program.plan.sharing.silent:
                continue
            key = actor_key(actor)
            rows, works = rows_and_work(actor)
            # the last phase of a layer often has fewer rows: it would make its height look faster
            full = [number for number, count in enumerate(rows) if count == max(rows)]
            timed = samples[:, [firings[number] for number in full]]
            low, middle, high = np.quantile(timed, (0.25, 0.5, 0.75), axis=0).sum(axis=1).tolist()
            amount, images = sum(works[number] for number in full), actor.phases[0].images
            height, count = max(rows), len(full)
            yield (
                key,
                actor,
                Point(count, count * height, height, middle, low, high, amount, 1, images),
            )

    def points(self, height: int | str) -> dict[str, tuple[Layer | None, Point]]:
        """What the frames at a height took, by layer shape; layers of equal shape are averaged."""
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
                if not of_images or images == 1:  # all rows of one image are a height, too
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
        )


def _of_images(count: int) -> str:
    """What a program of several images is called among those of heights."""
    return f"{count} images"


def clock_of(threads: int) -> Callable[[], int]:
    """The clock, in nanoseconds, that a run on so many threads is measured by."""
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


def rows_and_work(actor: ActorWork) -> tuple[list[int], list[float]]:
    """Rows of each phase, and its work in the unit of the operator's kind."""
    if actor.layer is None:
        rows = [len(phase.out) for phase in actor.phases]
        each = actor.writes[0].tensor.elements / sum(rows)
        return rows, [each * count for count in rows]
    works = list(phase_works(actor))
    unit = _unit(actor.layer)
    return [work.rows for work in works], [float(work.amounts[unit]) for work in works]


def _unit(layer: Layer) -> str:
    """What the time of a layer's kind is given per."""
    return "MAC" if operator_of(layer).multiplies else "input"


def mean_point(points: Sequence[Point]) -> Point:
    """Of layers of one shape."""
    first = points[0]
    if len(points) == 1:
        return first
    seconds, low, high = (
        statistics.fmean(getattr(p, name) for p in points) for name in ("seconds", "low", "high")
    )
    return replace(first, seconds=seconds, low=low, high=high, layers=len(points))


# The profile ------------------------------------------------------------------------------------


def measured_profile(
    found: Sequence[Measurements],
    name: str,
    title: str,
    memory: Memory,
    processor: Processor,
    facts: Mapping[str, str],
) -> DeviceProfile:
    """Fit launch and slope to every layer shape, and launch and time of work to every operator
    kind.

    facts: conditions of the measurement. The frame's time beside its firings joins the processor.
    """
    points = {key: points for one in found for key, points in one.points.items()}
    calls = {key: points for one in found for key, points in one.calls.items()}
    layers = {key: layer for one in found for key, layer in one.layers.items()}
    beside = statistics.median(seconds for one in found for seconds in one.frame)
    kinds = {key: kinds_of(layers[key]) for key in points}
    fitted = fitted_costs(points, kinds, calls)
    return DeviceProfile(
        name=name,
        title=title,
        memory=memory,
        processor=replace(processor, frame=_quantity(beside * 1e6, "us", units.TIMES, MEASURED)),
        operators=fitted[0],
        layers=fitted[1],
        sources=MappingProxyType(
            {
                MEASURED: "this machine, by csdfgen profile: medians over repeated frames, heights in turn",
                FIT: "least squares of relative distances from the times measured here: launch + rows * slope",
                SYSTEM: "what the operating system of this machine tells",
            }
        ),
        conditions=MappingProxyType(dict(facts)),
    )


def fitted_costs(
    points: Mapping[str, Sequence[Point]],
    kinds: Mapping[str, Sequence[Kind]],
    calls: Mapping[str, Sequence[Point]] = MappingProxyType({}),
) -> tuple[tuple[OperatorCost, ...], Mapping[str, LayerCost]]:
    """Costs of operator kinds and of layer shapes, from the points of each shape and the kinds that it
    takes part in. calls: of shapes on several images.
    """
    costs = {key: _layer_cost(key, at, calls.get(key, ())) for key, at in points.items()}
    same: dict[Kind, list[Point]] = {}
    for key, at in points.items():
        for kind in kinds[key]:
            same.setdefault(kind, []).extend(at)
    operators = (
        _kind_cost(*kind, at) for kind, at in sorted(same.items(), key=lambda item: item[0])
    )
    return tuple(operators), MappingProxyType(costs)


def kinds_of(layer: Layer | None) -> list[Kind]:
    """The costs that a layer's points take part in, for layers
    of other shapes.
    """
    if layer is None:
        return []
    op_type, formats = of_values(layer.op_type), formats_of(layer)
    if not operator_of(layer).multiplies:
        return [(op_type, "", "input", formats), ("*", "", "input", formats)]
    return list(
        dict.fromkeys((op_type, kernel, "MAC", formats) for kernel in (kernel_class(layer), ""))
    )


def _quantity(written: float, unit: str, units: Mapping[str, float], source: str) -> Quantity:
    return Quantity(written, unit, written * units[unit], "measured", source)


def _layer_cost(key: str, at: Sequence[Point], calls: Sequence[Point]) -> LayerCost:
    """A layer shape's line through its points; heights that cut it alike are one point each all the
    same.
    """
    fit = fit_line([p.rows / p.phases for p in at], [max(p.seconds, 1e-9) / p.phases for p in at])
    spread = tuple(100 * (p.high - p.low) / max(p.seconds, 1e-9) for p in at)
    return LayerCost(
        key=key,
        launch=_quantity(fit.launch * 1e6, "us", units.TIMES, FIT),
        slope=_quantity(fit.slope * 1e6, "us/row", units.TIMES_A_ROW, FIT),
        error=_quantity(100 * fit.largest, "%", units.FRACTIONS, FIT),
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
    """What a layer of this kind takes whose shape was not measured."""
    fit = fit_line([p.amount / p.phases for p in at], [max(p.seconds, 1e-9) / p.phases for p in at])
    return OperatorCost(
        types=(op_type,),
        kernel=kernel,
        work=unit,
        time=_quantity(fit.slope * 1e9, f"ns/{unit}", units.TIMES_OF_WORK, FIT),
        launch=_quantity(fit.launch * 1e6, "us", units.TIMES, FIT),
        error=_quantity(100 * fit.median, "%", units.FRACTIONS, FIT),
        formats=formats,
    )


Sampled = Callable[[int, int], None]
"""(rounds done, rounds in all at least)"""


def rounds(repeats: int, seconds: float = 0.0) -> Iterator[int]:
    """Numbers of measuring rounds: as many as asked for, and on until the time is over."""
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
) -> Measurements:
    """Measure a network at several slab heights, and on several images at once: `repeats` rounds, more until
    `seconds` are over.

    Needs the network's arena once a height, its weights once.
    """
    sampler = Sampler.of(network, heights, fuse, threads, backend, images)
    sampler.warm_up()
    for number in rounds(repeats, seconds):
        sampler.sample()
        if progress is not None:
            progress(number + 1, max(repeats, number + 1))
    return sampler.measurements()
