"""What changed between two measured profiles? The times of layer shapes, and the conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from math import exp, log
from typing import Any

from csdfgen.devices.profile import DeviceProfile, LayerCost
from csdfgen.errors import InputError

_MEASURED_ROWS = 4
"""Slab height at which the times of a phase are compared; launch and slope both contribute there."""


@dataclass(frozen=True, slots=True)
class LayerDifference:
    """A layer shape in both profiles. before, after: s of a phase of `rows` rows by each fit; ratio: after / before.

    noise: the largest spread of both profiles; a smaller change is not significant.
    """

    key: str
    rows: int
    before: float
    after: float
    noise: float

    @property
    def ratio(self) -> float:
        return self.after / self.before


@dataclass(frozen=True, slots=True)
class Difference:
    """layers: those of both profiles, the largest change first. ratio: geometric mean of after / before."""

    layers: tuple[LayerDifference, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    conditions: Mapping[str, tuple[str, str]]
    ratio: float

    def to_json(self) -> dict[str, Any]:
        """As JSON values, times in microseconds."""
        layers = [
            {"key": one.key, "rows": one.rows, "before_us": 1e6 * one.before, "after_us": 1e6 * one.after,
             "ratio": one.ratio}
            for one in self.layers
        ]  # fmt: skip
        return {**asdict(self), "layers": layers, "conditions": dict(self.conditions)}


def difference(before: DeviceProfile, after: DeviceProfile) -> Difference:
    """Compare two measured profiles. Raises InputError if one has no measured layers, or if they share none."""
    for profile in (before, after):
        if not profile.layers:
            raise InputError(
                f"has no measured layers ({profile.kind}); csdfgen profile makes a profile with them",
                where=profile.where,
            )
    layers = tuple(sorted(_both(before, after), key=lambda layer: -abs(log(layer.ratio))))
    if not layers:
        raise InputError(
            f"has no layer shape that {before.where} has; profile the same model for both",
            where=after.where,
        )
    names = dict.fromkeys((*before.conditions, *after.conditions))
    pairs = {
        name: (before.conditions.get(name, "-"), after.conditions.get(name, "-")) for name in names
    }
    return Difference(
        layers=layers,
        only_before=tuple(key for key in before.layers if key not in after.layers),
        only_after=tuple(key for key in after.layers if key not in before.layers),
        conditions={name: pair for name, pair in pairs.items() if pair[0] != pair[1]},
        ratio=exp(sum(log(layer.ratio) for layer in layers) / len(layers)),
    )


def _both(before: DeviceProfile, after: DeviceProfile) -> Iterator[LayerDifference]:
    for key, old in before.layers.items():
        new = after.layers.get(key)
        if new is not None:
            rows = min(_MEASURED_ROWS, max(*old.rows, *new.rows))
            times = _phase(old, rows), _phase(new, rows)
            if min(times) > 0:
                yield LayerDifference(
                    key, rows, *times, max(*old.spread.values, *new.spread.values)
                )


def _phase(cost: LayerCost, rows: int) -> float:
    return cost.launch.value + cost.slope.value * rows
