"""Which tensors are worth the time that two bytes take? Those that remove most noise a second.

A layer's time follows from the formats of the tensors that it reads and writes. A few networks therefore give nearly
all times: the one in int8, the one in int16, and some with tensors in int16 of which no layer touches two. A choice is
made by sums of these times. It is then predicted as a whole, which adds known times, and made again until the
prediction keeps the limit. Many layers take as long with one operand in int16 as with all, so that a tensor between two
in int16 costs next to nothing: the cost of each tensor is computed again whenever a neighbour is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

import onnx

from csdfgen.backends.registry import choose_backend
from csdfgen.devices.model import check_costs, phase_seconds
from csdfgen.errors import InputError, option
from csdfgen.model.network import Layer
from csdfgen.model.units import format_time
from csdfgen.planning.prepared import prepare
from csdfgen.precision.choice import (
    FACTORS,
    Arenas,
    Chosen,
    choose_by_arena,
    fill_choice,
    make_choice,
    negligible_noise,
    predict_noise,
    quality_error,
)
from csdfgen.precision.noise import Sensitivity, decibels
from csdfgen.reading.onnx_graph import node_name

_ROUNDS = 5
"""How often a choice is made again with the times that its own prediction has added."""

_ATTEMPTS = 4
"""How often a choice is made again for less, where its plan exceeds the limit, or for more, where it does not."""

_SHORT = 0.999
"""Share of the allowed time that is used where a plan took more: rounding must not decide."""

_TRIED = 200
"""Exchanges of one tensor for another that are tried before the search for one ends."""

_HALVINGS = 7
"""Halvings of the time between two choices in the search for the least time of a quality."""

_LITTLE = 1e-12
"""Seconds, or noise, that an exchange must be worth: rounding must not go in circles."""

_ROUNDED = 1e-9
"""dB that rounding may take from a quality that was reported for a choice."""

_Names = frozenset[str]


@dataclass(eq=False)
class Times:
    """Predicted seconds of a frame of every choice, at the heights of the plan in int8.

    layers: layer -> the tensors of a choice that it reads or writes.
    """

    arenas: Arenas
    layers: dict[str, _Names] = field(default_factory=dict)
    _seen: dict[str, dict[_Names, float]] = field(default_factory=dict)
    _whole: dict[_Names, float] = field(default_factory=dict)

    def of(self, wide: _Names) -> float:
        """With these tensors in int16; the times of its layers are known from then on. Raises InputError where
        the profile has no cost for an operator.
        """
        if wide not in self._whole:
            found = dict.fromkeys(self.layers, 0.0)  # a layer that is not there takes nothing
            found.update(self._predicted(wide))
            for name, seconds in found.items():
                self._seen.setdefault(name, {})[wide & self.layers[name]] = seconds
            self._whole[wide] = self._beside + sum(found.values())
            self.arenas.tell(len(self._whole))
        return self._whole[wide]

    def about(self, wide: _Names) -> float:
        """The same, estimated from the known times of layers."""
        return self._beside + sum(self._layer(name, wide) for name in self.layers)

    def with_weights(self, wide: _Names) -> float:
        """As `of`, for a choice that has weights of 16 bits too; times of single layers do not follow from it."""
        return self._beside + sum(self._predicted(wide).values())

    def more(self, name: str, wide: _Names) -> float:
        """Additional seconds of a tensor in int16 where others are in int16 too, from the known times of layers."""
        both = wide | {name}
        return sum(self._layer(at, both) - self._layer(at, wide) for at in self._touching[name])

    def beside(self, name: str) -> set[str]:
        """Tensors that some layer reads or writes together with this one."""
        return {one for at in self._touching[name] for one in self.layers[at]} - {name}

    def look_around(self) -> None:
        """Predict the networks that give most times of single layers."""
        self.of(frozenset())
        self.of(frozenset(self.arenas.names))
        left = list(self.arenas.names)
        while left:
            apart: set[str] = set()
            near: set[str] = set()
            for name in left:
                if name not in near:
                    apart.add(name)
                    near |= self.beside(name)
            self.of(frozenset(apart))
            left = [name for name in left if name not in apart]

    @property
    def _beside(self) -> float:
        """Seconds of a frame outside its layers."""
        frame = self.arenas.profile.processor.frame
        return 0.0 if frame is None else frame.value

    @cached_property
    def _touching(self) -> dict[str, list[str]]:
        """Tensor -> layers that touch it, those of the network in int8."""
        return {
            name: [at for at, touched in self.layers.items() if name in touched]
            for name in self.arenas.names
        }

    def _predicted(self, wide: _Names) -> dict[str, float]:
        """Seconds of each layer."""
        network = self.arenas.load(self.arenas.model(wide))
        options = self.arenas.heights
        prepared = prepare(network, options, choose_backend(options))
        silent = prepared.silent
        check_costs(prepared.network, silent, self.arenas.profile)
        found = {}
        for work in prepared.phased(options).conversion.actors:
            found[work.name] = sum(phase_seconds(work, self.arenas.profile, work.name in silent))
            if work.name not in self.layers:
                self.layers[work.name] = self._touched(work.layer)
        return found

    def _layer(self, name: str, wide: _Names) -> float:
        """Seconds of one layer; where its formats were not predicted, those of the slowest known part of them."""
        seen, touched = self._seen[name], wide & self.layers[name]
        if touched in seen:
            return seen[touched]
        return max((seconds for known, seconds in seen.items() if known < touched), default=0.0)

    def _touched(self, layer: Layer | None) -> _Names:
        if layer is None:
            return frozenset()
        tensors = (*layer.inputs, *layer.outputs)
        names = [tensor.name for tensor in tensors if tensor is not None]
        found = {self._leaders[name] for name in names if name in self._leaders}
        return frozenset(found.union(*(self._nodes.get(node, ()) for node in layer.onnx_nodes)))

    @cached_property
    def _narrow(self) -> onnx.ModelProto:
        """The model in int8."""
        return self.arenas.model(frozenset())

    @cached_property
    def _leaders(self) -> dict[str, str]:
        """What a node of the model reads or makes -> the tensor of a choice that has its scale."""
        scales = {f"{name}_scale": name for name in self.arenas.names}
        found: dict[str, str] = {}
        for node in self._narrow.graph.node:
            if node.op_type in ("QuantizeLinear", "DequantizeLinear") and node.input[1] in scales:
                found.update(dict.fromkeys((node.input[0], node.output[0]), scales[node.input[1]]))
        return found

    @cached_property
    def _nodes(self) -> dict[str, set[str]]:
        """Node -> the tensors of a choice that it touches."""
        found: dict[str, set[str]] = {}
        for index, node in enumerate(self._narrow.graph.node):
            touched = {self._leaders.get(name, "") for name in (*node.input, *node.output)} - {""}
            found.setdefault(node_name(node, index), set()).update(touched)
        return found


# The order ---------------------------------------------------------------------------------------


def _gains(arenas: Arenas, sensitivity: Sensitivity) -> dict[str, float]:
    """Noise that each tensor removes in int16."""
    none = sensitivity.noise(arenas.formats(frozenset()))
    return {
        name: none - sensitivity.noise(arenas.formats(frozenset([name]))) for name in arenas.names
    }


def _order(times: Times, gains: dict[str, float]) -> list[str]:
    """Tensors in the order in which they are chosen: each removes most noise a second while those before it are in
    int16, and those that take no time come first. Tensors that together have next to no noise are left out.
    """
    wide: _Names = frozenset()
    left = {name: times.more(name, wide) for name in gains}
    order: list[str] = []
    rest = negligible_noise(gains)
    while sum(gains[name] for name in left) > rest or any(taken < 0 for taken in left.values()):
        best = max(left, key=lambda name: (_rate(gains[name], left[name]), gains[name]))
        order.append(best)
        wide |= {best}
        del left[best]
        left.update({name: times.more(name, wide) for name in times.beside(best) if name in left})
    return order


def _rate(noise: float, seconds: float) -> float:
    """Noise a second; infinite where no time is taken."""
    return noise / seconds if seconds > 0 else inf


# Choices -----------------------------------------------------------------------------------------


def choose_least_noise_in_time(
    arenas: Arenas, times: Times, sensitivity: Sensitivity, seconds: float, limit: int | None
) -> Chosen:
    """The choice of least noise whose plan is predicted to take at most `seconds` a frame and whose arena has at
    most `limit` bytes, of all that this search and those for an arena plan. Raises InputError where none does.
    """
    none: _Names = frozenset()
    if limit is not None and arenas.settled(none) > limit:
        raise arenas.too_small(limit)
    _search_in_time(arenas, times, sensitivity, seconds, limit)
    best = _best_met(arenas, sensitivity, seconds, limit)
    # Plans choose their own heights, so that a choice may take less time than at those of int8. The larger an arena,
    # the less noise: the first choice that keeps the time is the best of its kind.
    for one in choose_by_arena(arenas, sensitivity, sorted(FACTORS, reverse=True)):
        if best is not None and one.noise >= best.noise:
            break
        best = _best_met(arenas, sensitivity, seconds, limit)
    if best is not None:
        return best
    quickest = min(arenas.seconds(wide) for wide in arenas.met())
    raise InputError(
        f"{option('latency')} of {1e3 * seconds:.6g} ms is not reached: in int8, or what is fastest, a frame is "
        f"predicted to take {1e3 * quickest:.4g} ms on {arenas.profile.name}; ask for "
        f"{option('latency', format_time(quickest))} or more, or another {option('device')}"
    )


def _best_met(
    arenas: Arenas, sensitivity: Sensitivity, seconds: float, limit: int | None
) -> Chosen | None:
    """The choice of least noise, then of least arena, that keeps both limits, of those that have been planned."""
    met = (
        make_choice(arenas, sensitivity, wide)
        for wide in arenas.met()
        if (limit is None or arenas.settled(wide) <= limit) and arenas.seconds(wide) <= seconds
    )
    return min(met, key=lambda one: (one.noise, one.arena), default=None)


def _search_in_time(
    arenas: Arenas, times: Times, sensitivity: Sensitivity, seconds: float, limit: int | None
) -> None:
    """Plan choices by the times of layers: with less in int16 until one keeps both limits, or with more as long as
    all do, as plans choose their own heights.
    """
    times.look_around()
    gains = _gains(arenas, sensitivity)
    none: _Names = frozenset()
    arenas.settled(frozenset(arenas.names))
    allowed, bytes_allowed = seconds, limit
    if limit is not None:
        bytes_allowed = limit * arenas.of(none) // arenas.settled(none)  # as bounds go
    kept = False
    planned: set[_Names] = set()
    for _ in range(_ATTEMPTS):
        wide = _within(arenas, times, gains, allowed, bytes_allowed)
        if wide in planned:
            break
        planned.add(wide)
        taken, arena = arenas.seconds(wide), arenas.settled(wide)
        if taken <= seconds and (limit is None or arena <= limit):
            arenas.settled(_with_weights(arenas, times, wide, allowed, bytes_allowed))
            kept, allowed = True, allowed * seconds / taken
            continue
        if kept or not wide:
            break
        if taken > seconds:
            allowed = min(allowed, times.of(wide)) * min(_SHORT, seconds / taken)
        if limit is not None and arena > limit:
            bytes_allowed = min(arenas.of(wide) - 1, arenas.of(wide) * limit // arena)
    for wide in (none, _free(times, gains)):
        arenas.settled(wide)


def _within(
    arenas: Arenas, times: Times, gains: dict[str, float], seconds: float, limit: int | None
) -> _Names:
    """The choice of least noise that is predicted to keep both limits at the heights of int8."""

    def fits(wide: _Names) -> bool:
        return times.about(wide) <= seconds and (limit is None or arenas.of(wide) <= limit)

    wide: _Names = frozenset()
    for _ in range(_ROUNDS):
        wide = _quietest(times, gains, fits)
        if times.of(wide) <= seconds:
            break
    return wide


def _with_weights(
    arenas: Arenas, times: Times, wide: _Names, seconds: float, limit: int | None
) -> _Names:
    """The choice with as many of the weights that are worth 16 bits as keep both limits."""

    def fits(more: _Names) -> bool:
        within = limit is None or arenas.of(more) <= limit
        return within and times.with_weights(more) <= seconds

    return fill_choice(wide, arenas.weights(wide), fits)


def _quietest(times: Times, gains: dict[str, float], fits: Callable[[_Names], bool]) -> _Names:
    """Tensors that fit, in the order of noise a second, improved by exchanges."""
    order = _order(times, gains)
    wide = fill_choice(frozenset(), order, fits)
    for _ in range(len(order)):
        quieter = _exchanged(times, gains, wide, lambda noise, taken: noise, fits)
        if quieter is None:
            break
        wide = fill_choice(quieter, [name for name in order if name not in quieter], fits)
    return wide


def _free(times: Times, gains: dict[str, float]) -> _Names:
    """The tensors that shorten a frame in int16."""
    wide: _Names = frozenset()
    for name in _order(times, gains):
        if times.more(name, wide) < 0:
            wide |= {name}
    return wide


def choose_fastest(
    arenas: Arenas, times: Times, sensitivity: Sensitivity, quality: float
) -> Chosen:
    """The choice whose plan is predicted to take the least time a frame, of those whose predicted signal to noise is
    at least `quality` dB, of all that this search and those for an arena plan. Raises InputError where all in int16
    has less.
    """
    everything = frozenset(arenas.names)
    best = make_choice(arenas, sensitivity, everything)
    for name in arenas.weights(everything):  # where tensors do not do
        if best.sqnr_db >= quality:
            break
        best = make_choice(arenas, sensitivity, best.wide | {name})
    if best.sqnr_db < quality:
        raise quality_error(best, quality)
    if best.wide != everything:
        return best
    times.look_around()
    gains = _gains(arenas, sensitivity)

    def good(wide: Collection[str]) -> bool:
        return decibels(predict_noise(arenas, sensitivity, frozenset(wide))) >= quality - _ROUNDED

    found = [everything]
    for _ in range(_ROUNDS):
        wide = _least_time(times, gains, good)
        if wide in found:
            break
        found.append(wide)
        times.of(wide)
    arenas.settled(min(found, key=lambda wide: (times.of(wide), len(wide))))
    next((one for one in choose_by_arena(arenas, sensitivity) if one.sqnr_db >= quality), None)
    met = (make_choice(arenas, sensitivity, wide) for wide in arenas.met())
    return min(
        (one for one in met if one.sqnr_db >= quality - _ROUNDED),
        key=lambda one: (arenas.seconds(one.wide), one.noise),
    )


def _least_time(
    times: Times, gains: dict[str, float], good: Callable[[Collection[str]], bool]
) -> _Names:
    """The choice that reaches the quality in the least known time: the one of least noise within less and less time,
    or the first tensors of the order, without those that cost time needlessly.
    """
    spared = _spared(times, gains, good)
    low, high = times.about(_free(times, gains)), times.about(spared)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = _quietest(times, gains, lambda wide, most=middle: times.about(wide) <= most)  # type: ignore[misc]
        if good(found):
            spared, high = found, times.about(found)
        else:
            low = middle
    return spared


def _spared(
    times: Times, gains: dict[str, float], good: Callable[[Collection[str]], bool]
) -> _Names:
    """The first tensors of the order that reach the quality, without those that cost time needlessly."""
    order = _order(times, gains)
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if good(order[:middle]) else (middle + 1, high)
    wide = frozenset(order[:high])
    while True:
        spared = {name: times.more(name, wide - {name}) for name in wide if good(wide - {name})}
        name = max(spared, key=lambda one: (spared[one], one), default="")
        if spared and spared[name] > 0:
            wide -= {name}
            continue
        shorter = _exchanged(times, gains, wide, lambda noise, seconds: -seconds, good)
        if shorter is None:
            return wide
        wide = shorter


def _exchanged(
    times: Times,
    gains: dict[str, float],
    wide: _Names,
    worth: Callable[[float, float], float],
    good: Callable[[_Names], bool],
) -> _Names | None:
    """The set with one tensor exchanged for another, the exchange of most worth; None where none is worth it.

    worth: of the additional noise that is removed and the additional seconds. good: whether a set is allowed.
    """
    found: list[tuple[float, str, str]] = []
    for name in wide:
        without = wide - {name}
        saved = times.more(name, without)
        for other in gains.keys() - wide:
            value = worth(gains[other] - gains[name], times.more(other, without) - saved)
            if value > _LITTLE:
                found.append((value, name, other))
    for _, name, other in sorted(found, reverse=True)[:_TRIED]:
        if good(wide - {name} | {other}):
            return wide - {name} | {other}
    return None
