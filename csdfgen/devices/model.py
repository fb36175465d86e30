"""How long does each layer, each phase and a frame take on a device? A model of the phases of a plan, from a profile.

A phase takes launch + work + access (equation 2 of paper 002). The model takes these numbers from the first source
that the profile has for a layer: its measured shape, a measured or published cost of its operator kind, or the
roofline launch + max(operations / peak, bytes / bandwidth). Activations applied in a slab cost their work and no
launch. Layers on stored integers and float16 take the costs and peaks of these formats; if there are none, those of
float32 with the bytes that are really moved, which the estimate reports.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from operator import add
from typing import Any

from csdfgen.devices.profile import DeviceProfile, LayerCost, OperatorCost, Quantity
from csdfgen.devices.work import (
    DEPTHWISE,
    NO_WORK,
    PhaseWork,
    float_operator,
    format_key,
    kernel_class,
    kernel_classes,
    layer_key,
    phase_works,
    read_format,
    tensor_key,
)
from csdfgen.errors import InputError
from csdfgen.model.network import Guard, Layer, Network
from csdfgen.ops import get_operator
from csdfgen.phases.conversion import ActorWork, describe_function
from csdfgen.planning.plan import Plan

_AN_ELEMENT = "element"

INPUT = "input"
"""In the types of a cost: the copying of inputs into the arena, which is no operator."""

_ANY = "*"
"""In the types of a cost: all operators that no other cost names."""

_HALVINGS = 50
"""Steps of the search for the time of the busiest core; they suffice for the last digit."""


COLUMNS = ("layer", "operator", "phases", "rows", "time_ms", "share", "phase_us", "origin", "how")
"""Columns of the table of layers, and keys of its JSON."""


@dataclass(frozen=True, slots=True)
class LayerTime:
    """Modelled time of a layer in a frame. seconds: of all its phases; phase: of its longest; launch: s of all launches.

    launch_origin, origin: "measured", "published" or "modelled", of the launches and of the rest; how: the numbers that
    were taken. Views have no phases.
    """

    name: str
    function: str
    phases: int
    rows: int
    seconds: float
    phase: float
    launch: float
    launch_origin: str
    origin: str
    how: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """A frame on a device, or all images of an order of several. frame: s besides the layers. stages: s of each core,
    which take consecutive layers. energy: J, None where the profile has no number of it.

    pipelined: s between two frames that leave the pipeline. limit: what limits it. A layer in a branch of an If takes its
    time as often as it is computed (`PlanOptions.probability`); worst: seconds of a frame whose branches are the longer ones.
    """

    layers: tuple[LayerTime, ...]
    frame: float
    frame_origin: str
    stages: tuple[float, ...]
    pipelined: float
    limit: str
    energy: float | None
    worst: float

    @property
    def seconds(self) -> float:
        """Seconds of one frame whose phases follow each other on one core."""
        return sum(layer.seconds for layer in self.layers) + self.frame

    @property
    def origins(self) -> dict[str, float]:
        """Origin of numbers -> share of the time that they account for."""
        parts = []
        for one in self.layers:
            parts += [(one.origin, one.seconds - one.launch), (one.launch_origin, one.launch)]
        shares: dict[str, float] = {}
        for origin, seconds in [*parts, (self.frame_origin, self.frame)]:
            if seconds > 0:
                shares[origin] = shares.get(origin, 0.0) + seconds / self.seconds
        return shares

    def rows(self) -> list[tuple[str | int | float, ...]]:
        """A row of `COLUMNS` for each layer."""
        total = self.seconds
        return [
            (
                one.name, one.function, one.phases, one.rows, 1e3 * one.seconds,
                round(one.seconds / total if total else 0.0, 6), 1e6 * one.phase, one.origin or "modelled", one.how,
            )
            for one in self.layers
        ]  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        rates = [1 / seconds if seconds else None for seconds in (self.seconds, self.pipelined)]
        return {
            "sequential": {"latency_ms": 1e3 * self.seconds, "worst_ms": 1e3 * self.worst, "fps": rates[0]},
            "pipelined": {
                "cores": len(self.stages), "fps": rates[1], "limit": self.limit,
                "stages_ms": [1e3 * part for part in self.stages],
            },
            "energy_mj_at_most": None if self.energy is None else 1e3 * self.energy, "origins": self.origins,
            "layers": [dict(zip(COLUMNS, row, strict=True)) for row in self.rows()],
        }  # fmt: skip


def estimate(plan: Plan, profile: DeviceProfile) -> Estimate:
    """The time of one order of firings: of a frame, or of all images that the order covers. Raises
    InputError if the profile has no cost for an operator of the network.
    """
    check_costs(plan.network, plan.sharing.silent, profile)
    profile = profile.within(plan.network.parameter_bytes + sum(plan.pools.values()))
    share = (
        plan.network.inputs[0].rows / plan.conversion.network.inputs[0].rows if plan.turns else 1
    )
    alone = tuple(
        replace(_weighted(one, share), phases=one.phases and one.phases + plan.left_out[one.name])
        for work in plan.conversion.actors
        if work.kind == "layer" or counts_input(work, profile)
        for one in [layer_time(work, profile, work.name in plan.sharing.silent)]
    )
    spent = {one.name: one.seconds for one in alone}
    weights = branch_weights(plan.network, spent, plan.options.probability)
    layers = tuple(_weighted(one, weights.get(one.name, 1.0)) for one in alone)
    longer = branch_weights(plan.network, spent)
    processor = profile.processor
    frame = _value(processor.frame) * plan.conversion.frames
    worst = frame + sum(seconds * longer.get(name, 1.0) for name, seconds in spent.items())
    parts = stages([layer.seconds for layer in layers], int(processor.cores.value))
    slowest = max(parts, default=0.0) + frame
    busy = (
        _bytes_a_frame(plan) / processor.bandwidth.value if processor.bandwidth is not None else 0.0
    )
    pipelined, limit = max((slowest, "the slowest core"), (busy, "the memory that the cores share"))
    total = sum(layer.seconds for layer in layers) + frame
    energy = _energy(plan, profile, total)
    origin = processor.frame.origin if processor.frame is not None else ""
    return Estimate(layers, frame, origin, parts, pipelined, limit, energy, worst)


def _weighted(one: LayerTime, weight: float) -> LayerTime:
    """A layer that is computed in so many of its frames."""
    if weight == 1:
        return one
    return replace(one, seconds=weight * one.seconds, launch=weight * one.launch)


def branch_weights(
    network: Network, spent: Mapping[str, float], probability: str = ""
) -> dict[str, float]:
    """In how many of the frames each layer of a branch is computed. spent: seconds of layers. probability: how often conditions
    are true; of other Ifs the branch that takes longer is always taken.
    """
    parts = probability.split(",") if probability else ()
    given = {name: float(p) for name, _, p in (part.rpartition("=") for part in parts)}
    inside: dict[tuple[Guard, ...], float] = {}
    for layer in network.layers:
        for depth in range(1, len(layer.guards) + 1):
            inside.setdefault(layer.guards[:depth], 0.0)
        if layer.guards:
            inside[layer.guards] += spent.get(layer.name, 0.0)
    shares: dict[tuple[Guard, ...], float] = {}
    for guards in sorted(inside, key=len, reverse=True):  # the innermost first
        *outer, (branch, taken) = guards
        other = (*outer, Guard(branch, not taken))
        if guards in shares:
            continue
        mine, its = inside[guards], inside.get(other, 0.0)
        share = given.get(branch, float(mine >= its))
        if branch in given and not taken:
            share = 1 - share
        shares[guards], shares[other] = share, 1 - share
        if outer:
            inside[tuple(outer)] += share * mine + (1 - share) * its
    return {
        layer.name: prod(shares[layer.guards[: k + 1]] for k in range(len(layer.guards)))
        for layer in network.layers
        if layer.guards
    }


def _energy(plan: Plan, profile: DeviceProfile, seconds: float) -> float | None:
    """J of phases that take so many seconds together, None where the profile has no number of it."""
    processor = profile.processor
    if not processor.has_energy:
        return None
    found = processor.joules(NO_WORK, seconds)
    if processor.operation_energy is not None or processor.byte_energy is not None:
        works = (one for one in plan.conversion.actors if one.layer is not None)
        busy = (one for one in works if one.name not in plan.sharing.silent)
        found += sum(processor.joules(phase, 0.0) for one in busy for phase in phase_works(one))
    return found


def stages(times: Sequence[float], cores: int) -> tuple[float, ...]:
    """Seconds of at most `cores` cores that take consecutive layers, so that the busiest core takes the least time.

    >>> stages([1, 1, 2, 4], 2), stages([5, 1], 4)
    ((4, 4), (5, 1))
    """
    # added one by one as `_dealt` does: `sum` rounds differently since Python 3.12, and may then
    # be below the share of a core
    low, high = max(times, default=0.0), reduce(add, times, 0.0)
    if len(_dealt(times, low)) <= cores:
        return _dealt(times, low)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if len(_dealt(times, middle)) <= cores else (middle, high)
    return _dealt(times, high)


def _dealt(times: Sequence[float], most: float) -> tuple[float, ...]:
    """Consecutive sums, each of at most `most`."""
    parts: list[float] = []
    for time in times:
        if parts and parts[-1] + time <= most:
            parts[-1] += time
        else:
            parts.append(time)
    return tuple(parts)


def input_key(work: ActorWork) -> str:
    """The name that a profile has for the copying of input rows into the arena."""
    return f"input {tensor_key(work.writes[0].tensor)}"


def actor_key(work: ActorWork) -> str:
    """The name that a profile has for the work of an actor: the shape of its layer, or the copying of an input."""
    return input_key(work) if work.layer is None else layer_key(work.layer)


# One layer --------------------------------------------------------------------------------------


def find_rule(profile: DeviceProfile, layer: Layer) -> OperatorCost | None:
    """The cost of the kind of a layer: by operator and window, by operator, or by "*"; in the formats that it reads and
    writes, in the format that it reads, or in float32.
    """
    op_type, formats = float_operator(layer.op_type), format_key(layer)
    places = [(op_type, kernel) for kernel in (*kernel_classes(layer), "")]
    if not get_operator(layer).multiplies:  # "*" does not cover products
        places.append((_ANY, ""))
    asked = [
        (*place, form)
        for form in dict.fromkeys((formats, read_format(formats), ""))
        for place in places
    ]
    for types, wanted, form in (*asked, (_ANY, "", "")):
        for cost in profile.operators:
            if types in cost.types and cost.kernel == wanted and cost.formats == form:
                return cost
    return None


def check_costs(network: Network, silent: Collection[str], profile: DeviceProfile) -> None:
    """Raises InputError if the profile has no cost for an operator of the network. silent: layers without work."""
    if profile.processor.peak is not None and profile.processor.bandwidth is not None:
        return
    unknown = sorted(
        {
            layer.op_type
            for layer in network.layers
            if layer.name not in silent
            and layer_key(layer) not in profile.layers
            and find_rule(profile, layer) is None
        }
    )
    if unknown:
        raise InputError(
            f'has no cost for {", ".join(unknown)}; add [[operator]] entries, or one with types = ["*"]',
            where=profile.where,
        )


@dataclass(frozen=True, slots=True)
class _Times:
    """Seconds and rows of every phase of a layer, s of all its launches, and the origin of these numbers."""

    seconds: list[float]
    rows: list[int]
    launch: float
    launch_origin: str
    origin: str
    how: str


def layer_time(work: ActorWork, profile: DeviceProfile, silent: bool) -> LayerTime:
    """The time of a layer, or of the copying of an input, with its phases. silent: the layer has no work. `check_costs`
    finds operators without a cost.
    """
    if silent:
        return LayerTime(
            work.name, describe_function(work), 0, 0, 0.0, 0.0, 0.0, "", "", "a view: no work"
        )
    times = (
        _input_times(work, profile)
        if work.layer is None
        else _phase_times(work, work.layer, profile)
    )
    return LayerTime(
        name=work.name,
        function=describe_function(work),
        phases=len(work.phases),
        rows=max(times.rows),
        seconds=sum(times.seconds),
        phase=max(times.seconds),
        launch=times.launch,
        launch_origin=times.launch_origin,
        origin=times.origin,
        how=times.how,
    )


def phase_seconds(work: ActorWork, profile: DeviceProfile, silent: bool) -> list[float]:
    """Seconds of every phase of an actor; 0 where it has no work, or an unknown time."""
    if work.kind == "layer" and work.layer is not None and not silent:
        return _phase_times(work, work.layer, profile).seconds
    if counts_input(work, profile):
        return _input_times(work, profile).seconds
    return [0.0] * len(work.phases)


def _input_times(work: ActorWork, profile: DeviceProfile) -> _Times:
    phases = [(len(phase.out), phase.images) for phase in work.phases]
    own, rule = profile.layers.get(input_key(work)), _input_rule(profile)
    if own is not None:
        return _measured(own, phases)
    assert rule is not None
    row, launch = work.writes[0].tensor.row_elements, _value(rule.launch)
    seconds = [launch + rule.time.value * row * rows * images for rows, images in phases]
    return _launched(seconds, [rows for rows, _ in phases], rule.launch, rule.time.origin, INPUT)


def counts_input(work: ActorWork, profile: DeviceProfile) -> bool:
    """Whether an actor copies an input into the arena, and a profile says what that takes."""
    if work.kind != "input":
        return False
    return input_key(work) in profile.layers or _input_rule(profile) is not None


def _input_rule(profile: DeviceProfile) -> OperatorCost | None:
    return next((cost for cost in profile.operators if INPUT in cost.types), None)


def _measured(cost: LayerCost, phases: Sequence[tuple[int, int]]) -> _Times:
    """phases: rows and images of each."""
    seconds = [cost.seconds(*phase) for phase in phases]
    rows = [phase[0] for phase in phases]
    return _launched(seconds, rows, cost.launch, cost.slope.origin, "its own shape")


def _launched(
    seconds: list[float], rows: list[int], launch: Quantity | None, origin: str, how: str
) -> _Times:
    """Times of phases that take one launch each, none for None."""
    launches = _value(launch) * len(rows)
    return _Times(seconds, rows, launches, launch.origin if launch is not None else "", origin, how)


def _phase_times(work: ActorWork, layer: Layer, profile: DeviceProfile) -> _Times:
    works = list(phase_works(work))
    own = profile.layers.get(layer_key(layer))
    if own is not None:
        return _measured(own, [(one.rows, one.images) for one in works])
    rule = find_rule(profile, layer)
    return (
        _roofline(layer, profile, works) if rule is None else _by_rule(rule, layer, profile, works)
    )


def _by_rule(
    rule: OperatorCost, layer: Layer, profile: DeviceProfile, works: Sequence[PhaseWork]
) -> _Times:
    """launch + work + access, and the activations in the slab; an operator that costs 0 takes no launch."""
    launch = rule.launch if rule.launch is not None else profile.processor.launch
    if rule.time.value == 0 and rule.launch is None:
        launch = None
    fetched = _value(rule.weights)
    seconds = [
        _value(launch)
        + fetched * one.weights
        + rule.time.value * one.amounts[rule.work]
        + _value(rule.access) * one.moved
        + _in_slab(profile, one, layer)
        for one in works
    ]
    named = float_operator(layer.op_type) if _ANY not in rule.types else "any operator"
    rows = [one.rows for one in works]
    how = " ".join(filter(None, (named, rule.kernel, rule.formats)))
    return _launched(seconds, rows, launch, rule.time.origin, how + _as_float(layer, rule.formats))


def _as_float(layer: Layer, found: str) -> str:
    """The remark on a layer of other formats whose numbers are those of float32; "" for others."""
    formats = format_key(layer)
    return f", {formats} as float32" if formats and not found else ""


def _in_slab(profile: DeviceProfile, work: PhaseWork, layer: Layer) -> float:
    """Seconds of the activations applied in the slab of a phase; the times of measured layers include them."""
    seconds = 0.0
    for after in layer.epilogue:
        rule = find_rule(profile, after)
        seconds += (
            rule.time.value * work.amounts[_AN_ELEMENT]
            if rule is not None and rule.work == _AN_ELEMENT
            else 0.0
        )
    return seconds


def _roofline(layer: Layer, profile: DeviceProfile, works: Sequence[PhaseWork]) -> _Times:
    """launch + max(operations / peak, bytes / bandwidth) a phase; every phase fetches weights that exceed the cache."""
    dtype = read_format(format_key(layer))
    own = profile.processor.peak_of(dtype)
    peak = own if own is not None else profile.processor.peak
    bandwidth, launch = profile.processor.bandwidth, profile.processor.launch
    assert peak is not None and bandwidth is not None
    stays = layer.parameter_bytes <= _value(profile.memory.cache)
    seconds, bound = [], 0.0
    for number, work in enumerate(works):
        # weights in the cache are fetched once, or part by part by a layer that accumulates
        again = not stays or number == 0 or work.weights < layer.parameter_bytes
        fetched = work.moved + (work.weights if again else 0)
        computing = work.operations / (peak.value * _busy(layer, profile, work))
        moving = fetched / bandwidth.value
        seconds.append(_value(launch) + max(computing, moving))
        bound += computing - moving
    how = f"roofline, bound by {'arithmetic' if bound > 0 else 'memory'}"
    how += _as_float(layer, dtype if own is not None else "")
    return _launched(seconds, [one.rows for one in works], launch, "modelled", how)


def _busy(layer: Layer, profile: DeviceProfile, work: PhaseWork) -> float:
    """The share of the processor that a phase keeps busy; depthwise layers are no matrix products."""
    shape = layer.output.shape
    if len(shape) < 2 or not get_operator(layer).multiplies or kernel_class(layer) == DEPTHWISE:
        return 1.0
    channels = shape[1]
    groups = int(layer.attributes.get("group", 1))
    return profile.processor.busy(work.amounts[_AN_ELEMENT] / channels, channels, groups)


def _bytes_a_frame(plan: Plan) -> int:
    """Bytes that a frame has to move: every row is written once and read once, weights are read once."""
    moved = 0
    for work in plan.conversion.actors:
        if work.layer is not None and work.name not in plan.sharing.silent:
            moved += sum(
                t.nbytes for t in (*work.layer.inputs, *work.layer.outputs) if t is not None
            )
    return moved + plan.figures["parameters"]


def _value(quantity: Quantity | None) -> float:
    return 0.0 if quantity is None else quantity.value
