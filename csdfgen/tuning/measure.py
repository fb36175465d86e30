"""How are variants measured? In frames of the network itself: each frame computes every layer by one of its
variants, and the variants of a shape are divided among its layers, so that each shape is measured once.

Slab heights are measured one after another. For each there is one plan, with workspace for every variant, and as
many programs over it as the shape with the most variants needs. Their frames alternate with those of a reference
program without tuning, whose time makes the times of all heights comparable although the speed of the machine
drifts. Variants that an earlier run measured often enough are not measured again.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from csdfgen.backends.registry import find_backend, load_backend
from csdfgen.devices.measure import SEED, Point, Sampler, mean_point, phase_work
from csdfgen.devices.model import actor_key
from csdfgen.model.network import Layer, Network
from csdfgen.model.options import PlanOptions, ways_text
from csdfgen.phases.heights import slab_heights
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import plan_phased
from csdfgen.planning.prepared import prepare
from csdfgen.program.steps import Backend, Step
from csdfgen.tuning.file import Shapes, Timing, Tuning, describe_machine
from runtime.images import random_inputs
from runtime.session import Executable

_LOG = logging.getLogger(__name__)

FRAMES, MOST_FRAMES = 5, 25
"""Frames that a median needs, and the number from which on more of them add nothing."""

MOST_PROGRAMS = 8
"""Programs in memory at a time."""

TOLERANCE = 1e-3
"""By how much of the largest value a result may differ: sums in another order, and Winograd's form."""

_FIRST: tuple[int | str, ...] = ("auto", 1, 2, 4, "whole", 8)
"""Heights that are measured first, as most plans have them."""

_REFERENCE = "reference"

Progress = Callable[[str, float, float], None]
"""(what, seconds so far, seconds in all)"""


@dataclass(frozen=True)
class _Round:
    """A slab height of a network. keys: actor -> (shape, rows of a phase). layers: the same by layer. groups: shape ->
    (its layers, their variants), for shapes with several variants.
    """

    height: int | str
    keys: Mapping[str, tuple[str, int]]
    layers: Mapping[str, tuple[str, int]]
    groups: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]

    @property
    def turns(self) -> int:
        """Number of programs that have every variant of every shape."""
        return max((-(-len(ways) // len(same)) for same, ways in self.groups.values()), default=1)

    def assigned(self, turn: int) -> dict[str, str]:
        """Layer -> its variant in one of the programs, for layers with several."""
        return {
            name: ways[(turn * len(same) + place) % len(ways)]
            for same, ways in self.groups.values()
            for place, name in enumerate(same)
        }

    def wanted(self) -> Iterator[tuple[str, int, str]]:
        """(shape, rows, variant) of every time that this height needs."""
        for key, rows in set(self.keys.values()):
            ways = self.groups[key][1] if key in self.groups else ()
            for variant in ways or ("",):
                yield key, rows, variant


class Tuner:
    """Measures a network, height by height. found: all timings, those of earlier runs included. backend: "" for the first one
    with variants.

    Raises PlanError for a network that the backend cannot compute, ToolError where no backend has variants.
    """

    def __init__(
        self,
        network: Network,
        known: Tuning | None = None,
        fuse: str = "full",
        backend: str = "",
        cl_device: str = "",
    ) -> None:
        self._backend, self._device = backend or find_backend("variants"), cl_device
        # the order of the plans that are measured needs no search
        options = PlanOptions(
            fuse=fuse, policy="demand", backend=self._backend, cl_device=cl_device, weights="copied"
        )
        self._prepared = prepare(network, options, self._kernels({}))
        self._usual = "whole" if self._prepared.kernels.whole_variants else "auto"
        machine = describe_machine(self._prepared.kernels)
        self.found = known or Tuning(machine, 1e-6, MappingProxyType({}))
        self._feeds = random_inputs(network, SEED)
        self._reference: list[list[float]] = []
        self.measured = 0
        self.rounds = [one for one in self._all_rounds() if self._open(one)]

    def run(
        self, seconds: float, progress: Progress, save: Callable[[Tuning], None] | None = None
    ) -> int:
        """Measure for about so many seconds, the most common heights first, and save the timings after
        every height. Returns the number of heights that are left. Ctrl-C keeps the timings so far.
        """
        start = time.monotonic()
        while self.rounds:
            spent = time.monotonic() - start
            if spent >= seconds and self.measured:
                break
            share = max(0.0, seconds - spent) / len(self.rounds)
            one = self.rounds[0]

            def report(one: _Round = one) -> None:
                progress(_title(one), min(time.monotonic() - start, seconds), seconds)

            self._measure(one, share, report)
            self.rounds.pop(0)
            if save is not None:
                save(self.found)
        return len(self.rounds)

    def _all_rounds(self) -> Iterator[_Round]:
        every = slab_heights(self._prepared.network)
        heights = [*_FIRST, *(rows for rows in every if rows not in _FIRST)]
        if self._prepared.kernels.whole_variants:
            heights = ["whole"]
        seen: set[tuple[str, int, str]] = set()
        for height in heights:
            one = self._round(height)
            wanted = set(one.wanted())
            if not wanted <= seen:  # lower maps are cut alike at both heights
                seen |= wanted
                yield one

    def _open(self, one: _Round) -> bool:
        """Whether any of its variants was not measured often enough."""
        return any(self._frames(*wanted) < FRAMES for wanted in one.wanted())

    def _lacks(self, one: _Round, assigned: Mapping[str, str]) -> bool:
        """Whether any variant of a program was not measured often enough."""
        return any(
            self._frames(*one.layers[name], variant) < FRAMES for name, variant in assigned.items()
        )

    def _frames(self, key: str, rows: int, variant: str) -> int:
        """Over how many frames a time was measured."""
        timing = self.found.shapes.get(key, {}).get(rows, {}).get(variant)
        return 0 if timing is None else timing.frames

    def _round(self, height: int | str) -> _Round:
        phased = self._prepared.at(str(height))
        keys: dict[str, tuple[str, int]] = {}
        named: dict[str, tuple[str, int]] = {}
        same: dict[str, list[Layer]] = {}
        heights: dict[str, int] = {}
        for actor in phased.conversion.actors:
            if actor.kind == "output" or actor.name in phased.sharing.silent:
                continue
            key = actor_key(actor)
            rows = max(phase_work(actor)[0])
            keys[actor.name] = key, rows
            if actor.layer is not None:
                same.setdefault(key, []).append(actor.layer)
                heights[key] = rows
                named[actor.layer.name] = key, rows
        groups = {}
        for key, layers in same.items():
            ways = tuple(self._prepared.kernels.variants_of(layers[0], heights[key]))
            if len(ways) > 1:
                groups[key] = tuple(layer.name for layer in layers), ways
        return _Round(
            height, MappingProxyType(keys), MappingProxyType(named), MappingProxyType(groups)
        )

    def _measure(self, one: _Round, seconds: float, report: Callable[[], None]) -> None:
        """Measure a height and keep its timings, also those that Ctrl-C ends after enough frames."""
        turns = [turn for turn in map(one.assigned, range(one.turns)) if self._lacks(one, turn)]
        turns = turns or [one.assigned(0)]  # what it lacks is of layers without variants
        sets = [self._kernels(variants) for variants in turns]
        plan = self._planned(one.height, cast(Backend, _MostWorkspace(sets)))
        for first in range(0, len(turns), MOST_PROGRAMS):
            some = slice(first, first + MOST_PROGRAMS)
            share = seconds * len(turns[some]) / len(turns)
            self._sample(one, plan, turns[some], sets[some], share, report)
        self.measured += 1

    def _sample(
        self,
        one: _Round,
        plan: Plan,
        turns: Sequence[Mapping[str, str]],
        sets: Sequence[Backend],
        seconds: float,
        report: Callable[[], None],
    ) -> None:
        """Measure some sets of variants, frames in turn."""
        report()
        programs: dict[int | str, Executable] = {_REFERENCE: self._reference_program}
        for turn, kernels in enumerate(sets):
            programs[turn] = Executable(plan, kernels=kernels)
        sampler = Sampler(programs, self._feeds, alone=True)
        try:
            wrong = self._differing(sampler, one, plan, turns)
            sampler.warm_up()
            end = time.monotonic() + seconds
            for done in range(MOST_FRAMES):
                if done >= FRAMES and time.monotonic() >= end:
                    break
                sampler.sample()
                report()
        finally:
            if min(map(len, sampler.samples.values())) >= FRAMES:
                self.found = self.found.joined(*self._results(sampler, turns, wrong))

    def _results(
        self, sampler: Sampler, turns: Sequence[Mapping[str, str]], wrong: Set[tuple[str, str]]
    ) -> tuple[float, Shapes]:
        """Seconds of a frame besides its firings, and timings of all variants but wrong ones, scaled to the speed that the
        machine had in the frames of the first height.
        """
        frames = [float(sample.sum()) for sample in sampler.samples[_REFERENCE]]
        self._reference.append(frames)
        drift = statistics.median(self._reference[0]) / statistics.median(frames)
        points: dict[tuple[str, int, str], list[Point]] = {}
        for turn, variants in enumerate(turns):
            for key, actor, point in sampler.measured(turn):
                variant = "" if actor.layer is None else variants.get(actor.layer.name, "")
                if (key, variant) not in wrong:
                    points.setdefault((key, point.height, variant), []).append(point)
        shapes: dict[str, dict[int, dict[str, Timing]]] = {}
        for (key, rows, variant), same in points.items():
            mean = mean_point(same)
            seconds = max(drift * mean.seconds / mean.phases, 1e-9)
            shapes.setdefault(key, {}).setdefault(rows, {})[variant] = Timing(
                seconds, mean.rows / mean.phases, len(frames)
            )
        return drift * max(statistics.median(sampler.beside), 1e-9), shapes

    def _differing(
        self, sampler: Sampler, one: _Round, plan: Plan, turns: Sequence[Mapping[str, str]]
    ) -> set[tuple[str, str]]:
        """(shape, variant) of those by which the network has other results than without tuning. Of a program that has, every
        variant is looked at alone.
        """
        expected, wrong = sampler.programs[_REFERENCE](self._feeds), set()
        for turn, variants in enumerate(turns):
            if _alike(sampler.programs[turn](self._feeds), expected):
                continue
            for name, variant in variants.items():
                alone = Executable(plan, kernels=self._kernels({name: variant}))
                if not _alike(alone(self._feeds), expected):
                    wrong.add((one.layers[name][0], variant))
                    _LOG.warning("%s is left out for %s: other results", variant, name)
        return wrong

    @cached_property
    def _reference_program(self) -> Executable:
        kernels = self._kernels({})
        return Executable(self._planned(self._usual, kernels), kernels=kernels)

    def _planned(self, height: int | str, kernels: Backend) -> Plan:
        prepared = replace(self._prepared, kernels=kernels)
        return plan_phased(prepared, prepared.at(str(height)))

    def _kernels(self, variants: Mapping[str, str]) -> Backend:
        text = ways_text({name: {1: variant} for name, variant in variants.items()})
        return load_backend(self._backend, ways=text, cl_device=self._device)


def _alike(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> bool:
    """Whether results differ by rounding alone: by at most `TOLERANCE` of the largest value."""
    for name, other in expected.items():
        most = float(np.max(np.abs(other), initial=0, where=np.isfinite(other)))
        if not np.allclose(found[name], other, rtol=0, atol=TOLERANCE * most, equal_nan=True):
            return False
    return True


class _MostWorkspace:
    """Kernels with the largest workspace that any of several sets of kernels takes, without a limit."""

    def __init__(self, sets: Sequence[Backend]) -> None:
        self._sets = sets

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sets[0], name)

    def workspace(self, step: Step, limit: int | None = None) -> int:
        """See `Backend.workspace`. The limit is ignored, so that every variant has all that it can use."""
        return max(kernels.workspace(step) for kernels in self._sets)


def _title(one: _Round) -> str:
    name = {"auto": "64 pixels a phase", "whole": "whole layers", 1: "1 row a phase"}
    return f"measuring {name.get(one.height, f'{one.height} rows a phase')}"
