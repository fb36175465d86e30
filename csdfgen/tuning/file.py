"""What was measured, how is it written down, and on which machine does it hold?

    {"format": "csdfgen-tuning", "version": 1,
     "machine": {"cpu": ..., "instructions": "avx2", "compiler": "gcc 12.2.0", "kernels": "9c0d..."},
     "frame_us": 6.1,
     "shapes": {"Conv 1x64x56x56 ...": {"4": {"tiles4": {"us": 231.0, "rows": 4.0, "frames": 9}, ...}}}}

Times are of a phase, by layer shape (`devices.work.layer_key`: operators, shapes, types, settings), slab
height and variant (`native.ways`); layers that are computed in one way alone have the variant "". They
hold for one processor, and for kernels of these sources from this compiler.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import isfinite
from types import MappingProxyType
from typing import Any

from csdfgen.backends.native.ways import Variant, height_of
from csdfgen.backends.registry import backend_that, kernels_of
from csdfgen.devices.facts import NOT_TOLD, cpu_name
from csdfgen.errors import InputError
from csdfgen.files import Fields, load_json, write_json
from csdfgen.program.steps import Backend

__all__ = ["Machine", "Timing", "Tuning", "machine_of", "read_tuning", "write_tuning"]

FORMAT, VERSION = "csdfgen-tuning", 1

_MOST_SECONDS = 1e6
_MOST_ROWS = 1 << 30


@dataclass(frozen=True, slots=True)
class Machine:
    """Where times hold. kernels: digest of their sources."""

    cpu: str
    instructions: str
    compiler: str
    kernels: str


@dataclass(frozen=True, slots=True)
class Timing:
    """A phase's mean seconds and rows, and over how many frames the median was taken."""

    seconds: float
    rows: float
    frames: int


Shapes = Mapping[str, Mapping[int, Mapping[str, Timing]]]
"""Shape -> slab height -> variant -> timing."""


@dataclass(frozen=True, eq=False)
class Tuning:
    """Timings of a machine. frame: seconds of a frame beside its firings."""

    machine: Machine
    frame: float
    shapes: Shapes

    def joined(self, frame: float, shapes: Shapes) -> Tuning:
        """With these timings too, which replace those of fewer frames."""
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
        """Shapes and heights with several variants: the best and the next best, in microseconds; where they
        differ most comes first.
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
        """Timings in all."""
        return sum(len(ways) for heights in self.shapes.values() for ways in heights.values())


def machine_of(kernels: Backend | None = None) -> Machine:
    """This machine, with the kernels of a backend (by default the one that has variants). Raises ToolError."""
    kernels = kernels or kernels_of(backend_that("variants"))
    return Machine(cpu_name() or NOT_TOLD, kernels.code, *kernels.origin)


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
    return {
        "us": float(f"{1e6 * timing.seconds:.5g}"),
        "rows": round(timing.rows, 4),
        "frames": timing.frames,
    }


def read_tuning(path: str | os.PathLike[str], machine: Machine | None = None) -> Tuning:
    """The timings in a file. machine: where they are to hold.

    Raises InputError for what is no such file, and for one of another processor or of other kernels.
    """
    root = Fields(load_json(path), str(path))
    root.check_header(FORMAT, VERSION)
    given = root.child("machine")
    found = Machine(**{field.name: given.text(field.name) for field in fields(Machine)})
    if machine is not None:
        _check_machine(found, machine, str(path))
    shapes = root.child("shapes")
    return Tuning(
        found,
        _number(root, "frame_us", _MOST_SECONDS) * 1e-6,
        MappingProxyType({key: _heights(shapes.child(key)) for key in shapes.value}),
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


def _heights(shape: Fields) -> Mapping[int, Mapping[str, Timing]]:
    found = {}
    for rows in shape.value:
        height, ways = height_of(rows, shape), shape.child(rows)
        found[height] = MappingProxyType({name: _timing(ways, name) for name in ways.value})
        if not ways.value:
            raise ways.fault("has no variant")
    if not found:
        raise shape.fault("has no slab height")
    return MappingProxyType(found)


def _timing(ways: Fields, variant: str) -> Timing:
    if variant:
        try:
            Variant.read(variant)
        except ValueError:
            raise ways.fault(f"'{variant[:20]}' is no variant of a kernel") from None
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
