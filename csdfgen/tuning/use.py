"""What does a tuning file mean for a plan? The fastest variant of every layer at every height that was
measured, and the times that are predicted with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from csdfgen.backends.native.ways import CONV, Variant, written
from csdfgen.devices import units
from csdfgen.devices.fitting import fit_line
from csdfgen.devices.profile import DeviceProfile, PointwiseCost, Quantity, Series
from csdfgen.devices.work import layer_key
from csdfgen.errors import InputError, option
from csdfgen.model.options import PlanOptions
from csdfgen.planning.prepared import Prepared
from csdfgen.tuning.file import Timing, Tuning, machine_of, read_tuning

__all__ = ["best_variants", "tuned", "tuned_profile", "tuned_profile_of"]

_SOURCE, _FIT = "frames", "fit"


def tuned(prepared: Prepared) -> PlanOptions:
    """The options of a network with the variants that the tuning file they name found to be the fastest. Raises
    InputError for a file that is none, or of another machine, and for a backend without variants.
    """
    options = prepared.options
    if options.ways:
        return options
    if not prepared.kernels.variants:
        raise InputError(
            f"{option('tuning', options.tuning)} is of native code, {option('backend', options.backend)} has "
            "no variants; leave one of them out"
        )
    found = best_variants(_read(options.tuning), exact=options.exact)
    ways = {
        layer.name: found[key]
        for layer in prepared.network.layers
        if (key := layer_key(layer)) in found
    }
    return replace(options, ways=written(ways))


def best_variants(tuning: Tuning, *, exact: bool = False) -> Mapping[str, Mapping[int, Variant]]:
    """The fastest variant by shape and height, where it changes. exact: among those that add up
    products.
    """
    found = {}
    for key, heights in tuning.shapes.items():
        chosen: dict[int, Variant] = {}
        for rows, ways in sorted(heights.items()):
            best, _ = _fastest(ways, exact)
            if best and (not chosen or str(chosen[max(chosen)]) != best):
                chosen[rows] = Variant.read(best)
        if chosen:
            found[key] = MappingProxyType(chosen)
    return MappingProxyType(found)


def tuned_profile_of(options: PlanOptions, general: DeviceProfile) -> DeviceProfile:
    """The profile of the tuning file that the options name. general: of the backend. Raises InputError."""
    return tuned_profile(_read(options.tuning), general, exact=options.exact, where=options.tuning)


def tuned_profile(
    tuning: Tuning, general: DeviceProfile, *, exact: bool = False, where: str = ""
) -> DeviceProfile:
    """Times of the fastest variants; layers of other shapes take what the general profile of the backend says."""
    layers = {key: _cost(key, heights, exact) for key, heights in tuning.shapes.items()}
    sources = {
        **general.sources,
        _SOURCE: f"this machine, by csdfgen tune: {tuning.machine.cpu}",
        _FIT: "least squares of relative distances from the times measured here: launch + rows * slope",
    }
    name = Path(where).name or "tuned"
    frame = _quantity(1e6 * tuning.frame, "us", tuning.frame, _SOURCE)
    return replace(
        general,
        name=name,
        title=f"{tuning.machine.cpu}, measured by csdfgen tune",
        processor=replace(general.processor, frame=frame),
        layers=MappingProxyType(layers),
        sources=MappingProxyType(sources),
        where=where,
    )


def _cost(key: str, heights: Mapping[int, Mapping[str, Timing]], exact: bool) -> PointwiseCost:
    """A shape's time with the fastest variant at every height."""
    points = {rows: _fastest(ways, exact)[1] for rows, ways in sorted(heights.items())}
    at = sorted((timing.rows, timing.seconds) for timing in points.values())
    fit = fit_line([rows for rows, _ in at], [seconds for _, seconds in at])
    values = tuple(timing.seconds for timing in points.values())
    times = tuple(1e6 * value for value in values)
    return PointwiseCost(
        key=key,
        launch=_quantity(1e6 * fit.launch, "us", fit.launch, _FIT),
        slope=_quantity(1e6 * fit.slope, "us/row", fit.slope, _FIT),
        error=_quantity(100 * fit.largest, "%", fit.largest, _FIT),
        rows=tuple(points),
        times=Series(times, "us", values, "measured", _SOURCE),
        spread=Series((0.0,) * len(at), "%", (0.0,) * len(at), "measured", _SOURCE),
        points=tuple(dict(at).items()),
    )


def _fastest(ways: Mapping[str, Timing], exact: bool) -> tuple[str, Timing]:
    """The variant of the least time. exact: of those that add up products, if there is one."""
    plain = {
        name: timing
        for name, timing in ways.items()
        if not name or Variant.read(name).kernel == CONV
    }
    among = plain if exact and plain else ways
    return min(among.items(), key=lambda item: item[1].seconds)


def _quantity(shown: float, unit: str, value: float, source: str) -> Quantity:
    assert unit in {**units.TIMES, **units.TIMES_A_ROW, **units.FRACTIONS}
    return Quantity(shown, unit, value, "measured", source)


def _read(path: str) -> Tuning:
    """The file, read once as long as it does not change."""
    try:
        stamp = Path(path).stat().st_mtime_ns
    except OSError:
        stamp = 0  # reading it says why
    return _read_at(path, stamp)


@lru_cache(maxsize=4)
def _read_at(path: str, stamp: int) -> Tuning:
    return read_tuning(path, machine_of())
