"""Which times were measured, on which machine do they hold, and what do they mean for a plan?

    {"format": "csdfgen-tuning", "version": 1,
     "machine": {"cpu": ..., "instructions": "avx2", "compiler": "gcc 12.2.0", "kernels": "9c0d..."},
     "frame_us": 6.1,
     "shapes": {"Conv 1x64x56x56 ...": {"4": {"tiles4": {"us": 231.0, "rows": 4.0, "frames": 9}, ...}}}}

A time is that of one phase, by layer shape (`devices.work.layer_key`: operators, shapes, types, settings), slab
height and variant (`Backend.variants_of`); the variant of a layer that has only one is "". Times hold for one
processor, and for kernels that one compiler made of these sources. A plan takes the fastest variant of every
layer at every height that was measured, and predicts its time from these measurements.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any

from csdfgen.backends.registry import find_backend, load_backend
from csdfgen.devices.facts import NOT_TOLD, cpu_name
from csdfgen.devices.fitting import fit_line
from csdfgen.devices.profile import DeviceProfile, PointwiseCost, Series, parse_quantity
from csdfgen.devices.work import layer_key
from csdfgen.errors import InputError, option
from csdfgen.files import Fields, load_json, write_json
from csdfgen.model.options import PlanOptions, parse_height, ways_text
from csdfgen.planning.prepared import Prepared
from csdfgen.program.steps import Backend

FORMAT, VERSION = "csdfgen-tuning", 1

USUAL, MARGIN, LEAST_SAVED = "usual", 0.05, 1e-5
"""The variant of a backend that computes without a tuning file; the share of its time, and the seconds, that another one has
to save: the usual one may share launches with other layers.
"""

_MOST_SECONDS = 1e6
_MOST_ROWS = 1 << 30
_SOURCE, _FIT = "frames", "fit"


@dataclass(frozen=True, slots=True)
class Machine:
    """The processor and the kernels that times hold for. kernels: digest of their sources."""

    cpu: str
    instructions: str
    compiler: str
    kernels: str


@dataclass(frozen=True, slots=True)
class Timing:
    """Mean seconds and rows of a phase, and the number of frames that the median was taken over."""

    seconds: float
    rows: float
    frames: int


Shapes = Mapping[str, Mapping[int, Mapping[str, Timing]]]
"""Shape -> slab height -> variant -> timing."""


@dataclass(frozen=True, eq=False)
class Tuning:
    """Timings of a machine. frame: seconds that a frame takes besides its firings."""

    machine: Machine
    frame: float
    shapes: Shapes

    def joined(self, frame: float, shapes: Shapes) -> Tuning:
        """These timings and others; of two for one variant the one over more frames is kept."""
        found = {
            key: {rows: dict(ways) for rows, ways in own.items()}
            for key, own in self.shapes.items()
        }
        for key, heights in shapes.items():
            for rows, ways in heights.items():
                there = found.setdefault(key, {}).setdefault(rows, {})
                for variant, timing in ways.items():
                    if variant not in there or there[variant].frames <= timing.frames:
                        there[variant] = timing
        return replace(self, frame=frame, shapes=MappingProxyType(found))

    def changed(self) -> list[tuple[str, int, str, float, str, float]]:
        """(shape, height, best variant, us, next best variant, us) wherever there are several variants; the
        largest ratio of the two times comes first.
        """
        rows = []
        for key, heights in self.shapes.items():
            for height, ways in heights.items():
                ranked = sorted(ways.items(), key=lambda item: item[1].seconds)
                if len(ranked) > 1:
                    (best, first), (second, other) = ranked[:2]
                    rows.append(
                        (key, height, best, 1e6 * first.seconds, second, 1e6 * other.seconds)
                    )
        return sorted(rows, key=lambda row: row[3] / row[5])

    @property
    def count(self) -> int:
        """Number of timings."""
        return sum(len(ways) for heights in self.shapes.values() for ways in heights.values())


def describe_machine(kernels: Backend | None = None) -> Machine:
    """This machine, with the kernels of a backend (by default the one that has variants). Raises ToolError."""
    kernels = kernels or load_backend(find_backend("variants"))
    return Machine(cpu_name() or NOT_TOLD, kernels.code, *kernels.origin)


# The file -----------------------------------------------------------------------------------------


def write_tuning(path: str | os.PathLike[str], tuning: Tuning) -> None:
    """Write a file as a whole or not at all. Raises InputError."""
    shapes = {
        key: {
            str(rows): {variant: _written(timing) for variant, timing in sorted(ways.items())}
            for rows, ways in sorted(heights.items())
        }
        for key, heights in sorted(tuning.shapes.items())
    }
    head = {"format": FORMAT, "version": VERSION, "machine": asdict(tuning.machine)}
    write_json(path, {**head, "frame_us": round(1e6 * tuning.frame, 3), "shapes": shapes})


def _written(timing: Timing) -> dict[str, Any]:
    us, rows = float(f"{1e6 * timing.seconds:.5g}"), round(timing.rows, 4)
    return {"us": us, "rows": rows, "frames": timing.frames}


def read_tuning(
    path: str | os.PathLike[str], machine: Machine | None = None, words: str = ""
) -> Tuning:
    """The timings in a file. machine: the one that they are needed for; None accepts any. words: a regular expression of its
    variants; "": of the backend that has variants without being asked for.

    Raises InputError for a file of another format, of another processor or of other kernels.
    """
    root = Fields(load_json(path), str(path))
    root.check_header(FORMAT, VERSION)
    given = root.child("machine")
    found = Machine(**{field.name: given.text(field.name) for field in fields(Machine)})
    if machine is not None:
        _check_machine(found, machine, str(path))
    shapes, words = root.child("shapes"), words or load_backend(find_backend("variants")).variants
    return Tuning(
        found,
        _number(root, "frame_us", 1e6 * _MOST_SECONDS) * 1e-6,
        MappingProxyType({key: _heights(shapes.child(key), words) for key in shapes.value}),
    )


def _check_machine(found: Machine, here: Machine, where: str) -> None:
    if (found.cpu, found.instructions) != (here.cpu, here.instructions):
        raise InputError(
            f"was measured on '{found.cpu}' ({found.instructions}), this is '{here.cpu}' "
            f"({here.instructions}); csdfgen tune MODEL -o OTHER.json measures here",
            where=where,
        )
    if found != here:
        raise InputError(
            f"was measured with kernels {found.kernels} from {found.compiler}, these are "
            f"{here.kernels} from {here.compiler}; csdfgen tune MODEL -o OTHER.json measures them",
            where=where,
        )


def _heights(shape: Fields, words: str) -> Mapping[int, Mapping[str, Timing]]:
    found = {}
    for rows in shape.value:
        height, ways = parse_height(rows, shape), shape.child(rows)
        found[height] = MappingProxyType({name: _timing(ways, name, words) for name in ways.value})
        if not ways.value:
            raise ways.fault("has no variant")
    if not found:
        raise shape.fault("has no slab height")
    return MappingProxyType(found)


def _timing(ways: Fields, variant: str, words: str) -> Timing:
    if variant and not re.fullmatch(words, variant):
        raise ways.fault(f"'{variant[:20]}' is no variant of a kernel")
    own = ways.child(variant)
    seconds, rows = _number(own, "us", 1e6 * _MOST_SECONDS), _number(own, "rows", _MOST_ROWS)
    return Timing(seconds * 1e-6, rows, own.integer("frames", low=1))


def _number(own: Fields, key: str, most: float) -> float:
    value = own.required(key, "a number")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise own.fault(f"'{key}' is no number")
    if not (isfinite(value) and 0 < value <= most):
        raise own.fault(f"'{key}' is {value:g}; a number above 0, at most {most:g}, is needed")
    return float(value)


# Plans and predictions ----------------------------------------------------------------------------


def apply_tuning(prepared: Prepared) -> PlanOptions:
    """The options of a network with the fastest variants of the tuning file that they name. Raises InputError for a
    file of another format or machine, and for a backend without variants.
    """
    options = prepared.options
    if options.ways:
        return options
    if not prepared.kernels.variants:
        raise InputError(
            f"{option('tuning', options.tuning)}: {option('backend', options.backend)} has no variants; leave one of them out"
        )
    found = best_variants(_read(options), prepared.kernels.variants)
    ways = {
        layer.name: found[key]
        for layer in prepared.network.layers
        if (key := layer_key(layer)) in found
    }
    return replace(options, ways=ways_text(ways))


def best_variants(tuning: Tuning, words: str) -> Mapping[str, Mapping[int, str]]:
    """The fastest variant by shape, at the heights from which on it is another one. words: see `_fastest`."""
    found = {}
    for key, heights in tuning.shapes.items():
        chosen: dict[int, str] = {}
        for rows, ways in sorted(heights.items()):
            best, _ = _fastest(ways, words)
            if best and (not chosen or chosen[max(chosen)] != best):
                chosen[rows] = best
        if chosen:
            found[key] = MappingProxyType(chosen)
    return MappingProxyType(found)


def load_tuned_profile(
    options: PlanOptions, kernels: Backend, general: DeviceProfile
) -> DeviceProfile:
    """The profile of the tuning file that the options name. general: of the backend. Raises InputError."""
    found = _read(options)
    return tuned_profile(found, general, kernels.variants, where=options.tuning)


def tuned_profile(
    tuning: Tuning, general: DeviceProfile, words: str, *, where: str = ""
) -> DeviceProfile:
    """Times of the fastest variants; layers of other shapes take their times from the general profile of the backend."""
    layers = {key: _cost(key, heights, words) for key, heights in tuning.shapes.items()}
    sources = {
        **general.sources,
        _SOURCE: f"this machine, by csdfgen tune: {tuning.machine.cpu}",
        _FIT: "least squares of relative distances from the times measured here: launch + rows * slope",
    }
    frame = parse_quantity(1e6 * tuning.frame, "us", _SOURCE)
    return replace(
        general,
        name=Path(where).name or "tuned",
        title=f"{tuning.machine.cpu}, measured by csdfgen tune",
        processor=replace(general.processor, frame=frame),
        layers=MappingProxyType(layers),
        sources=MappingProxyType(sources),
        where=where,
    )


def _cost(key: str, heights: Mapping[int, Mapping[str, Timing]], words: str) -> PointwiseCost:
    """The time of a shape with the fastest variant at every height."""
    points = {rows: _fastest(ways, words)[1] for rows, ways in sorted(heights.items())}
    at = sorted((timing.rows, timing.seconds) for timing in points.values())
    fit = fit_line([rows for rows, _ in at], [seconds for _, seconds in at])
    values = tuple(timing.seconds for timing in points.values())
    return PointwiseCost(
        key=key,
        launch=parse_quantity(1e6 * fit.launch, "us", _FIT),
        slope=parse_quantity(1e6 * fit.slope, "us/row", _FIT),
        error=parse_quantity(100 * fit.largest, "%", _FIT),
        rows=tuple(points),
        times=Series(tuple(1e6 * one for one in values), "us", values, "measured", _SOURCE),
        spread=Series((0.0,) * len(at), "%", (0.0,) * len(at), "measured", _SOURCE),
        points=tuple(dict(at).items()),
    )


def _fastest(ways: Mapping[str, Timing], words: str) -> tuple[str, Timing]:
    """The variant of the least time, of those that a regular expression matches, if one was measured. The usual one is it
    unless another one saves as much as `MARGIN` and `LEAST_SAVED` say.
    """
    allowed = {name: one for name, one in ways.items() if not name or re.fullmatch(words, name)}
    name, found = min((allowed or ways).items(), key=lambda item: item[1].seconds)
    usual = ways.get(USUAL)
    if usual is not None and found.seconds > usual.seconds - max(
        MARGIN * usual.seconds, LEAST_SAVED
    ):
        return USUAL, usual
    return name, found


def _read(options: PlanOptions) -> Tuning:
    """The timings in the file that options name, for their backend; it is read again only after it has changed."""
    path, kernels = options.tuning, load_backend(options.backend, cl_device=options.cl_device)
    try:
        stamp = Path(path).stat().st_mtime_ns
    except OSError:
        stamp = 0  # reading it reports why
    return _read_at(path, stamp, describe_machine(kernels), kernels.variants)


@lru_cache(maxsize=4)
def _read_at(path: str, stamp: int, machine: Machine, words: str) -> Tuning:
    return read_tuning(path, machine, words)
