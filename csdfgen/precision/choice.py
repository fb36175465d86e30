"""Which tensors are worth two bytes? Those whose noise is largest, as far as the arena allows.

All start in int8. A tensor in int16 loses all of its noise, and costs memory only where it is alive at the
peak, so that many cost nothing: whether a set of tensors fits is found by planning its network. They are tried by
noise, the largest first, in groups that are halved where they do not fit. Weights are not in the arena; they have two
bytes where their noise would otherwise matter next to that of the remaining tensors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import onnx

from csdfgen.backends.registry import choose_backend
from csdfgen.devices.model import estimate
from csdfgen.devices.profile import DeviceProfile
from csdfgen.errors import InputError, PlanError
from csdfgen.goals.choice import choose_plan
from csdfgen.model.formats import Format
from csdfgen.model.network import Network
from csdfgen.model.options import DEFAULTS, PlanOptions
from csdfgen.planning.plan import Plan
from csdfgen.planning.prepared import Prepared, prepare
from csdfgen.precision.noise import Sensitivity, decibels

FACTORS = (1.0, 1.05, 1.1, 1.25, 1.5, 2.0)
"""Arenas of a front, as multiples of that of int8."""

_LEAST_MEMORY = "memory"
"""The goal whose heights are tried where those of a plan without a budget do not fit."""

_HALVINGS = 6
"""Halvings of the interval between the arenas of int8 and int16 in the search for the least arena of a quality."""

_ATTEMPTS = 5
"""How often a choice is made again for less, where its plan exceeds the limit."""

_PLANS = 8
"""Plans that are made to add tensors that the bounds exclude."""

_UNHEARD, _SILENT = 0.1, 1e-5
"""Noise that weights may add: this share of the noise of tensors, or 50 dB below the outputs."""

_WEIGHTS = "weights of "
"""Prefix of a layer's output that denotes its weights in a choice."""

_NO_NOISE = 1e-3
"""Share of all noise that the tensors which are left out may have together."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A choice of formats: tensors in int16 and weights of 16 bits, arena of its plan in bytes, predicted noise;
    of the choices of a front also the number of tensors that its model stores in int16, those that share a scale
    included.
    """

    wide: frozenset[str]
    arena: int
    noise: float
    stored: int = 0

    @property
    def sqnr_db(self) -> float:
        """Predicted signal to noise."""
        return decibels(self.noise)

    @property
    def tensors(self) -> list[str]:
        """Tensors in int16 with a scale of their own, sorted."""
        return sorted(name for name in self.wide if not name.startswith(_WEIGHTS))

    @property
    def weights(self) -> list[str]:
        """What the layers make whose weights have 16 bits, sorted."""
        return sorted(get_wide_layers(self.wide))

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        quality = {"arena": self.arena, "predicted_sqnr_db": self.sqnr_db}
        names = {"int16": self.tensors, "int16_weights": self.weights}
        return {**quality, "int16_tensors": self.stored, **names}


@dataclass(eq=False, slots=True)
class Arenas:
    """The arena and the predicted time of every choice, planned when first asked for.

    A choice is a set of names: of tensors in int16, and of layers whose weights have 16 bits (`get_wide_layers`).
    model: of a choice. formats: of its tensors with a scale. weights: for chosen tensors, the weights that are
    worth 16 bits, in order of merit. names: of all tensors that may be in int16. load: a model -> its network.
    tell: called after each plan with the number of plans so far. options: how networks are planned. profile: of
    the device on which times are predicted. With a budget (`options.memory`) a choice fits if the heights of
    int8's plan without it do, or those of int8's smallest plan; outputs that are stored outside the arena count,
    as they do for the budget.
    """

    model: Callable[[frozenset[str]], onnx.ModelProto]
    formats: Callable[[frozenset[str]], dict[str, Format]]
    weights: Callable[[frozenset[str]], Sequence[str]]
    names: tuple[str, ...]
    load: Callable[[onnx.ModelProto], Network]
    tell: Callable[[int], None]
    options: PlanOptions
    profile: DeviceProfile
    _bases: list[PlanOptions] = field(default_factory=list)
    _known: dict[frozenset[str], int] = field(default_factory=dict)
    _settled: dict[frozenset[str], int] = field(default_factory=dict)
    _seconds: dict[frozenset[str], float] = field(default_factory=dict)
    _int8: int = 0

    @property
    def int8(self) -> int:
        """Bytes of the arena of int8, planned as asked for, but without a budget."""
        self._heights()
        return self._int8

    @property
    def heights(self) -> PlanOptions:
        """How int8 is planned without a budget, its heights chosen."""
        return self._heights()[0]

    def of(self, wide: frozenset[str]) -> int:
        """Bytes that no plan with these tensors in int16 goes below, about, at the heights of the plan in
        int8: a twentieth of the work of a plan, and within a few percent of it.
        """
        if wide not in self._known:
            self._known[wide] = min(
                prepared.phased(prepared.options).rough_bound
                for prepared in self._prepared(self._network(wide))
            )
            self.tell(len(self._known))
        return self._known[wide]

    def settled(self, wide: frozenset[str]) -> int:
        """Bytes of the plan with these tensors in int16, which chooses its heights; within a budget at the heights
        of int8, whichever take less.
        """
        if wide not in self._settled:
            network = self._network(wide)
            if self.options.memory:
                plans = [choose_plan(network, one) for one in self._heights()]
                self._settled[wide] = min(one.total_bytes for one in plans)
            else:
                made = choose_plan(network, self.options)
                self._settled[wide] = made.figures["arena"]
                self._seconds[wide] = estimate(made, self.profile).seconds
        return self._settled[wide]

    def seconds(self, wide: frozenset[str]) -> float:
        """Predicted seconds of a frame of the plan with these tensors in int16, on the device of the profile. Raises
        InputError where the profile has no cost for an operator.
        """
        if not self.options.memory:
            self.settled(wide)
        if wide not in self._seconds:
            made = self.planned(self._network(wide))
            self._seconds[wide] = estimate(made, self.profile).seconds
        return self._seconds[wide]

    def stored(self, wide: frozenset[str]) -> int:
        """Number of tensors of the network that are stored in int16."""
        return sum(one.dtype == "int16" for one in self._network(wide).tensors.values())

    def met(self) -> list[frozenset[str]]:
        """The choices that have been planned as asked for."""
        return list(self._settled)

    def planned(self, network: Network) -> Plan:
        """The plan that is asked for, of the network of a choice that fits. Where the search within a budget finds
        none, that of heights which are known to fit. Raises PlanError.
        """
        try:
            return choose_plan(network, self.options)
        except PlanError:
            for one in self._heights():
                with contextlib.suppress(PlanError):
                    return choose_plan(network, replace(self.options, rows=one.rows))
            raise

    def too_small(self, limit: int) -> InputError:
        """The error for a limit that int8 exceeds."""
        least, budget = self.settled(frozenset()), bool(self.options.memory)
        return InputError(
            f"the network in int8 takes {'' if budget else 'an arena of '}{least:,} bytes"
            f"{' at least' if budget else ''}, {limit:,} are allowed; allow that much"
            f"{'' if budget else ', or plan it with less (csdfgen schedule --formats mixed --memory BYTES)'}"
        )

    def _heights(self) -> list[PlanOptions]:
        """How int8 is planned without a budget; within one, also how it is planned in the least memory."""
        if not self._bases:
            free = replace(self.options, memory=0, latency=0.0)
            goals = [free.goal]
            if self.options.memory and self.options.rows == DEFAULTS.rows:
                goals.append(_LEAST_MEMORY)
            narrow = self._network(frozenset())
            plans = [choose_plan(narrow, replace(free, goal=goal)) for goal in dict.fromkeys(goals)]
            self._int8 = plans[0].figures["arena"]
            if not self.options.memory:
                self._settled[frozenset()] = self._int8
            if free == self.options:
                self._seconds[frozenset()] = estimate(plans[0], self.profile).seconds
            # a goal chooses heights, and where outputs are stored; these are chosen
            self._bases = [
                replace(free, rows=one.options.rows, result=one.options.result) for one in plans
            ]
        return self._bases

    def _prepared(self, network: Network) -> Iterator[Prepared]:
        """The network for each way in which int8 is planned."""
        ways = self._heights()
        one = prepare(network, ways[0], choose_backend(ways[0]))
        return (replace(one, options=options) for options in ways)

    def _network(self, wide: frozenset[str]) -> Network:
        return self.load(self.model(wide))


def choose_least_noise(arenas: Arenas, sensitivity: Sensitivity, limit: int) -> Chosen:
    """The choice of least noise whose arena is at most `limit` bytes. Raises InputError where int8 takes
    more.
    """
    least = arenas.settled(frozenset())
    if least > limit:
        raise arenas.too_small(limit)
    order = sorted(arenas.names, key=lambda name: -sensitivity.tensors.get(name, 0.0))
    everything = frozenset(order)
    if _fits(arenas, everything, limit):
        tensors = everything
    else:
        rest = sum(sensitivity.tensors.values())
        worth, least_rest = [], negligible_noise(sensitivity.tensors)
        for name in order:
            if rest <= least_rest:
                break
            worth.append(name)
            rest -= sensitivity.tensors.get(name, 0.0)
        tensors = _fitting(arenas, frozenset(), worth, limit)
    return make_choice(
        arenas, sensitivity, _fitting(arenas, tensors, arenas.weights(tensors), limit)
    )


def _fitting(
    arenas: Arenas, wide: frozenset[str], names: Sequence[str], limit: int
) -> frozenset[str]:
    """A choice that fits with as many of the names, in their order, as do too."""
    everything = wide | set(names)
    if not names or _fits(arenas, everything, limit):
        return everything
    return _more(arenas, _bounded(arenas, wide, names, limit), names, limit)


def _bounded(
    arenas: Arenas, wide: frozenset[str], names: Sequence[str], limit: int
) -> frozenset[str]:
    """A choice that fits with those of the names that do by their bounds."""
    bound = arenas.of(wide)
    allowed = limit * bound // arenas.settled(wide)  # as bounds go
    for _ in range(_ATTEMPTS):
        found = fill_choice(wide, names, partial(_bound_fits, arenas, allowed))
        if found == wide:
            break
        taken = arenas.settled(found)
        if taken <= limit:
            return found
        # its plan takes more than its bound: less is allowed
        allowed = max(bound, min(arenas.of(found) - 1, allowed * limit // taken))
    return wide


def _more(arenas: Arenas, wide: frozenset[str], names: Sequence[str], limit: int) -> frozenset[str]:
    """A choice that fits with as many more of the names, first ones first, as a few plans find: plans have
    heights of their own, so that they may take less than bounds at int8's say.
    """
    rest = [name for name in names if name not in wide]
    count = len(rest)
    for _ in range(_PLANS):
        if not count:
            break
        found = wide.union(rest[:count])
        if arenas.settled(found) <= limit:
            wide, rest = found, rest[count:]
        else:
            count //= 2
        count = min(count, len(rest))
    return wide


def _fits(arenas: Arenas, wide: frozenset[str], limit: int) -> bool:
    return _bound_fits(arenas, limit, wide) and arenas.settled(wide) <= limit


def _bound_fits(arenas: Arenas, limit: int, wide: frozenset[str]) -> bool:
    return arenas.of(wide) <= limit


def negligible_noise(noises: Mapping[str, float]) -> float:
    """The noise that left-out tensors may have together."""
    return _NO_NOISE * sum(noises.values())


def fill_choice(
    wide: frozenset[str], names: Sequence[str], fits: Callable[[frozenset[str]], bool]
) -> frozenset[str]:
    """The set with as many of the names, in their order, as fit; halved where they do not together."""
    together = wide | set(names)
    if not names or fits(together):
        return together
    if len(names) == 1:
        return wide
    middle = len(names) // 2
    return fill_choice(fill_choice(wide, names[:middle], fits), names[middle:], fits)


def make_choice(arenas: Arenas, sensitivity: Sensitivity, wide: frozenset[str]) -> Chosen:
    """A set as a choice: with the arena of its plan, and its predicted noise."""
    return Chosen(wide, arenas.settled(wide), predict_noise(arenas, sensitivity, wide))


def predict_noise(arenas: Arenas, sensitivity: Sensitivity, wide: frozenset[str]) -> float:
    """The predicted noise of a set, of its tensors and its weights; nothing is planned."""
    return sensitivity.noise(arenas.formats(wide), get_wide_layers(wide))


def get_wide_layers(wide: Iterable[str]) -> frozenset[str]:
    """The layers (by what they make) whose weights have 16 bits in a choice."""
    return frozenset(name.removeprefix(_WEIGHTS) for name in wide if name.startswith(_WEIGHTS))


def list_worthy_weights(
    sensitivity: Sensitivity, formats: Mapping[str, Format], sizes: Mapping[str, int]
) -> list[str]:
    """The weights that are worth 16 bits with tensors in these formats, as a choice names them: those of most noise
    for their number, until the rest is negligible. sizes: layer -> its weights, of those that can have them.
    """
    rest = sum(sensitivity.weights.values())
    unheard = max(_UNHEARD * sensitivity.of_tensors(formats), _SILENT)
    found = []
    for name in sorted(sizes, key=lambda one: -sensitivity.weights.get(one, 0.0) / sizes[one]):
        if rest <= unheard:
            break
        found.append(f"{_WEIGHTS}{name}")
        rest -= sensitivity.weights.get(name, 0.0)
    return found


def choose_smallest(arenas: Arenas, sensitivity: Sensitivity, quality: float) -> Chosen:
    """The choice of least arena whose predicted signal to noise is at least `quality` dB. Raises
    InputError where all in int16 has less.
    """
    everything = frozenset(arenas.names)
    best = make_choice(arenas, sensitivity, everything.union(arenas.weights(everything)))
    low, high = arenas.settled(frozenset()), best.arena
    if best.sqnr_db < quality:
        raise quality_error(best, quality)
    first = choose_least_noise(arenas, sensitivity, low)
    for _ in range(_HALVINGS):
        if first.sqnr_db >= quality or high - low <= 1:
            break
        middle = (low + high) // 2
        found = choose_least_noise(arenas, sensitivity, middle)
        if found.sqnr_db >= quality:
            high = min(middle, found.arena)
        else:
            low = middle
    # plans are not all the larger the more is wide: whichever was met on the way
    met = (make_choice(arenas, sensitivity, wide) for wide in arenas.met())
    return min(
        (one for one in met if one.sqnr_db >= quality), key=lambda one: (one.arena, one.noise)
    )


def quality_error(best: Chosen, quality: float) -> InputError:
    """The error for a quality that all tensors in int16 do not reach."""
    return InputError(
        f"all tensors in int16 are predicted to reach {best.sqnr_db:.1f} dB, {quality:g} are asked for; "
        "ask for less, or for --format float16"
    )


def choose_by_arena(
    arenas: Arenas, sensitivity: Sensitivity, factors: Sequence[float] = FACTORS
) -> Iterator[Chosen]:
    """The choice of least noise in each of these arenas, in those of int8."""
    least = arenas.settled(frozenset())
    return (choose_least_noise(arenas, sensitivity, int(factor * least)) for factor in factors)


def find_front(arenas: Arenas, sensitivity: Sensitivity) -> list[Chosen]:
    """The Pareto front of arena and noise, from the smallest arena on."""
    found: list[Chosen] = []
    for one in choose_by_arena(arenas, sensitivity):
        if not found or (one.arena > found[-1].arena and one.noise < found[-1].noise):
            found.append(one)
        elif one.noise < found[-1].noise:
            found[-1] = one
    return [replace(one, stored=arenas.stored(one.wide)) for one in found]
