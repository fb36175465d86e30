"""Comparison of a frame with onnxruntime: outputs as a whole, row by row as they are computed, or layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType
from typing import TypeVar

import numpy as np

import runtime
from csdfgen.errors import CsdfgenError, ModelError
from csdfgen.model.network import Layer, Network
from csdfgen.planning.plan import Plan
from csdfgen.reading.onnx_graph import Place
from runtime.cascade import Cascade, open_reference
from runtime.images import random_inputs
from runtime.reference import (
    NOISE,
    Comparison,
    MismatchError,
    Reference,
    Source,
    Spread,
    Standard,
    compare,
    comparison_types,
    find_forceable,
    get_tolerance,
    has_same_classes,
    largest_magnitude,
    measure_spread,
    result_noise,
)
from runtime.session import Executable
from runtime.steps import ALLOWED, StepDifference, list_steps

_NO_NOISE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LayerComparison:
    """An output tensor of a layer, compared with onnxruntime's."""

    layer: Layer
    rows: int
    comparison: Comparison

    @property
    def ok(self) -> bool:
        return self.comparison.ok


@dataclass(frozen=True, slots=True)
class ForcedRun:
    """A frame in which Ifs took branches that their conditions do not choose. forced: name of an If -> whether its condition
    held. why: what kept the frame from being compared.
    """

    forced: Mapping[str, bool]
    comparisons: tuple[Comparison, ...] = ()
    why: str = ""

    @property
    def ok(self) -> bool:
        return all(one.ok for one in self.comparisons)

    @property
    def max_abs_error(self) -> float:
        """Largest difference of any output from onnxruntime's."""
        return max((one.max_abs_error for one in self.comparisons), default=0.0)

    def __str__(self) -> str:
        words = {True: "then", False: "else"}
        return ", ".join(f"'{name}' {words[yes]}" for name, yes in self.forced.items())


_Compared = TypeVar("_Compared", Comparison, LayerComparison)


def check_outputs(
    source: Source,
    plan: Plan,
    feeds: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    threads: int = 1,
) -> tuple[Comparison, ...]:
    """Compare the outputs of a frame, all images. If they differ, onnxruntime's own noise is measured and allowed for; whether
    equality proves anything, `Comparison.inconclusive` says. Raises ModelError, and MismatchError for a shape or dtype.
    """
    run = open_reference(source, plan.network, threads=threads)
    reference = run(feeds)

    def compared(noise: Mapping[str, float]) -> tuple[Comparison, ...]:
        return compare_outputs(plan, outputs, reference, noise)

    found = _allowing_noise(compared, run, feeds, reference)
    return _with_other_inputs(found, run, feeds, reference)


def check_branches(
    source: Source,
    plan: Plan,
    feeds: Mapping[str, np.ndarray],
    taken: Mapping[str, tuple[int, int]],
    threads: int = 1,
) -> tuple[ForcedRun, ...]:
    """Compare frames in which Ifs take the branches that they have not taken, as few frames as these need; an If in a branch of
    another one is reached through that. taken: name of an If -> how often its condition held, and did not. Raises ModelError.
    """
    network = plan.network
    places = find_forceable(source, network)
    none = (0, 0)
    around = {
        one.attributes["branch"]: one.guards for one in network.layers if "branch" in one.attributes
    }
    both = ((name, yes) for name in places for yes in (True, False))
    wanted = {(name, yes) for name, yes in both if not taken.get(name, none)[not yes]}
    found: list[ForcedRun] = []
    program = runtime.compile(plan, threads=threads) if wanted else None
    while wanted and program is not None:
        nodes: dict[Place, bool] = {}
        for name, yes in sorted(wanted):
            chain = {places[g.branch]: g.taken for g in around[name] if g.branch in places}
            needed = {**chain, places[name]: yes}
            if all(nodes.get(place, value) is value for place, value in needed.items()):
                nodes.update(needed)
        forced = {name: nodes[place] for name, place in places.items() if place in nodes}
        before = program.branches
        found.append(_forced_run(program, source, feeds, forced, threads))
        reached = {
            (name, yes)
            for name, yes in wanted
            if program.branches.get(name, none)[not yes] > before.get(name, none)[not yes]
        }
        if not reached and not found[-1].why:
            break
        wanted -= reached | (set(forced.items()) if found[-1].why else set())
    return tuple(found)


def _forced_run(
    program: Executable,
    source: Source,
    feeds: Mapping[str, np.ndarray],
    forced: Mapping[str, bool],
    threads: int,
) -> ForcedRun:
    plan, before = program.plan, program.branches
    program.force(forced)
    try:
        outputs = program(feeds)
        run = open_reference(source, plan.network, threads=threads, forced=forced)
        reference = run(feeds)

        def compared(noise: Mapping[str, float]) -> tuple[Comparison, ...]:
            return compare_outputs(plan, outputs, reference, noise)

        comparisons = _allowing_noise(compared, run, feeds, reference)
    except MismatchError:
        raise
    except CsdfgenError as error:  # what a branch computes may be for other inputs
        return ForcedRun(forced, why=str(error))
    now = program.branches
    taken = {name: yes for name, yes in forced.items() if now.get(name) != before.get(name)}
    return ForcedRun(taken, comparisons)


def compare_outputs(
    plan: Plan,
    outputs: Mapping[str, np.ndarray],
    reference: Mapping[str, np.ndarray],
    noise: Mapping[str, float] = _NO_NOISE,
) -> tuple[Comparison, ...]:
    """Compare outputs with those of onnxruntime. noise: output name -> difference of onnxruntime from itself. Raises
    MismatchError for a shape or dtype.
    """
    found, standards = [], _standards(plan, noise)
    for name, ours in outputs.items():
        theirs, one = reference[name], standards[name]
        classes, spread = (
            has_same_classes(ours, theirs, one),
            _spread(plan.network, name, theirs, one),
        )
        found.append(replace(compare(name, ours, theirs, one), classes_ok=classes, spread=spread))
    return tuple(found)


def _spread(network: Network, name: str, reference: np.ndarray, standard: Standard) -> Spread:
    """What values an output has in onnxruntime."""
    tensor = next(output.tensor for output in network.outputs if output.name == name)
    reached = tensor is not None and tensor.name in network.reached
    bounded = tensor is not None and tensor.name in network.bounded
    return measure_spread(reference, standard, not reached, bounded)


def _with_other_inputs(
    found: tuple[Comparison, ...],
    run: Reference | Cascade,
    feeds: Mapping[str, np.ndarray],
    reference: Mapping[str, np.ndarray],
) -> tuple[Comparison, ...]:
    """The comparison; where an output has one value everywhere, as a single score has, it is found out whether onnxruntime
    computes another one for other inputs: the values of floats in another order, and half of them, and other random integers.
    """
    if isinstance(run, Cascade):  # zeros of runs that are left out are constants
        found = tuple(
            replace(one, spread=replace(one.spread, fixed=True))
            if one.spread and one.name.startswith(run.left_out)
            else one
            for one in found
        )
    if not any(one.inconclusive for one in found):
        return found
    rng, varied = np.random.default_rng(0), dict[str, float]()
    for scale in _SCALES:
        drawn = random_inputs(run.network, int(rng.integers(2**31)))
        for name, array in feeds.items():
            if array.dtype.kind not in "biu":
                mixed = rng.permutation(array.reshape(-1)).reshape(array.shape)
                drawn[name] = (mixed * scale).astype(array.dtype)
        other: Mapping[str, np.ndarray] = {}
        with suppress(ModelError):  # where nothing is found for them, onnxruntime may refuse them
            other = run(drawn)
        for name, array in other.items():
            change = np.abs(array.astype(np.float64) - reference[name].astype(np.float64))
            varied[name] = max(varied.get(name, 0.0), float(np.nan_to_num(change).max(initial=0.0)))
    spreads = [(one, one.spread) for one in found if one.spread is not None]
    return tuple(
        replace(one, spread=replace(own, varied=varied.get(one.name, 0.0) > own.allowed))
        for one, own in spreads
    )


_SCALES = (1.0, 0.5, 1.0, 0.5)
"""Of the other inputs."""


def _allowing_noise(
    compared: Callable[[Mapping[str, float]], tuple[_Compared, ...]],
    run: Reference | Cascade,
    feeds: Mapping[str, np.ndarray],
    reference: Mapping[str, np.ndarray],
) -> tuple[_Compared, ...]:
    """A comparison without an allowance for noise or, if something differs, with one: the largest difference of onnxruntime's
    tensors from those that it computes without optimisations, and from those of inputs that are moved by rounding errors. In
    a network that amplifies such errors, as one whose recurrent states are quantized step by step, results depend on the order
    of sums, also where onnxruntime has a single kernel for them.
    """
    found = compared(_NO_NOISE)
    if all(one.ok for one in found):
        return found
    rng = np.random.default_rng(0)
    others = [run.unoptimised()(feeds)]
    others += (run(_moved(feeds, rng)) for _ in range(_MOVED))
    return compared(
        {
            name: max(result_noise(array, other[name]) for other in others)
            for name, array in reference.items()
        }
    )


_MOVED = 3
"""How often inputs are moved."""

_ROUNDING = 2.0**-20
"""By how much of its size a value is moved at most: what some hundred roundings of float32 come to."""


def _moved(feeds: Mapping[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The inputs with other last bits; integers stay."""
    return {
        name: array * (1 + _ROUNDING * rng.uniform(-1, 1, array.shape)).astype(array.dtype)
        if array.dtype in (np.float32, np.float64)
        else array
        for name, array in feeds.items()
    }


def _standards(plan: Plan, noise: Mapping[str, float] = _NO_NOISE) -> dict[str, Standard]:
    """Output -> how it is compared; the defaults apply to outputs that no layer computes."""
    steps, types = list_steps(plan.network), comparison_types(plan.network)
    return {
        output.name: Standard()
        if output.tensor is None
        else Standard(
            output.tensor.row_axis,
            steps.get(output.tensor.name),
            types[output.tensor.name],
            noise.get(output.name, 0.0),
        )
        for output in plan.network.outputs
    }


def tolerance_types(plan: Plan) -> dict[str, np.dtype]:
    """Output name -> the dtype with the tolerance that applies to it."""
    return {name: one.dtype for name, one in _standards(plan).items() if one.dtype is not None}


def check_rows(
    source: Source, plan: Plan, feeds: Mapping[str, np.ndarray], threads: int = 1
) -> tuple[Comparison, ...]:
    """Execute a frame that hands on its output rows, and compare each slab when it is computed; our outputs are not stored.
    A missing row counts as wrong. Raises what `check_outputs` raises.
    """
    run = open_reference(source, plan.network, threads=threads)
    reference = run(feeds)
    frame = runtime.compile(plan, threads=threads)

    def compared(noise: Mapping[str, float]) -> tuple[Comparison, ...]:
        rows = _Rows(plan, reference, noise)
        frame(feeds, on_rows=rows.compare)
        return rows.found()

    found = _allowing_noise(compared, run, feeds, reference)
    return _with_other_inputs(found, run, feeds, reference)


class _Rows:
    """Compares outputs with onnxruntime's, slab by slab."""

    def __init__(
        self, plan: Plan, reference: Mapping[str, np.ndarray], noise: Mapping[str, float]
    ) -> None:
        self._standards, self._network = _standards(plan, noise), plan.network
        batch = plan.network.batch
        self._of_images = {one.name for one in plan.network.outputs if one.tensor and batch > 1}
        self._reference = {name: reference[name] for name in self._standards}
        self._largest = {name: largest_magnitude(array) for name, array in self._reference.items()}
        self._parts: dict[str, list[Comparison]] = {name: [] for name in self._reference}

    def compare(self, name: str, image: int, start: int, stop: int, rows: np.ndarray) -> None:
        """Compare a slab; see `session.OnRows`."""
        theirs, standard = self._reference[name], self._standards[name]
        axis, classes = standard.axis, None
        if name in self._of_images:
            theirs = theirs[image : image + 1]
        entire = axis is None or stop - start == theirs.shape[axis]
        if entire and rows.shape == theirs.shape:
            classes = has_same_classes(rows, theirs, standard)
        if axis is not None:
            theirs = theirs[(slice(None),) * axis + (slice(start, stop),)]
        one = compare(name, rows, theirs, standard, self._largest[name])
        row = None if one.first_wrong_row is None else start + one.first_wrong_row
        self._parts[name].append(replace(one, first_wrong_row=row, classes_ok=classes))

    def found(self) -> tuple[Comparison, ...]:
        """The comparison of every output, all slabs together."""
        return tuple(
            _joined(
                name,
                parts,
                self._reference[name].size,
                _spread(self._network, name, self._reference[name], self._standards[name]),
            )
            for name, parts in self._parts.items()
        )


def _joined(name: str, parts: Sequence[Comparison], size: int, spread: Spread) -> Comparison:
    values = sum(part.values for part in parts)
    rows = [part.first_wrong_row for part in parts if part.first_wrong_row is not None]
    classes = {part.classes_ok for part in parts}
    steps = [part.steps for part in parts if part.steps is not None]
    powers = [part.powers for part in parts if part.powers is not None]
    return Comparison(
        name,
        size,
        sum(part.wrong for part in parts) + abs(size - values),
        max((part.max_abs_error for part in parts), default=0.0),
        min(rows, default=None),
        None if None in classes or not classes else classes == {True},
        reduce(StepDifference.joined, steps) if steps and size == values else None,
        max((part.noise for part in parts), default=0.0),
        (sum(e for e, _ in powers), sum(v for _, v in powers)) if powers else None,
        spread,
    )


def check_layers(
    source: Source, plan: Plan, feeds: Mapping[str, np.ndarray], threads: int = 1
) -> tuple[LayerComparison, ...]:
    """Execute a frame that keeps the output of every layer, and compare those that onnxruntime has under the same name; of a
    tile its columns are compared, and of a batch the images of the last run.

    Unlike other frames, this one keeps all tensors whole in memory.
    """
    network = plan.network
    wanted = dict.fromkeys([*network.producer, *(name for name, _, _ in network.parts.values())])
    run = open_reference(source, network, list(wanted), threads)
    reference = run(feeds)
    part_of = {name: network.parts.get(name, (name, 0, None)) for name in network.producer}
    names = [name for name, (whole, _, _) in part_of.items() if whole in reference]
    steps, types = list_steps(network), comparison_types(network)
    program = runtime.compile(plan, taps=names)
    program(feeds)
    taps = program.taps

    def compared(noise: Mapping[str, float]) -> tuple[LayerComparison, ...]:
        found = []
        for name in names:
            tensor, (whole, start, stop) = network.tensors[name], part_of[name]
            theirs = reference[whole]
            if name in network.parts and theirs.ndim == 4:
                theirs = theirs[..., start:stop]
            if network.batch > 1:
                theirs = theirs[-plan.conversion.frames :]
            allowed = noise.get(whole, 0.0)
            standard = Standard(tensor.row_axis, steps.get(name), types[name], allowed)
            ours = taps[name]
            if name in network.bounded:  # behind what onnxruntime found, numbers mean nothing
                axis = network.bounded[name]
                ours = ours[(slice(None),) * axis + (slice(theirs.shape[axis]),)]
            one = compare(name, ours, theirs, standard)
            found.append(LayerComparison(network.producer[name], tensor.rows, one))
        return tuple(found)

    return _allowing_noise(compared, run, feeds, reference)


def mismatch(
    failed: Comparison,
    dtype: np.dtype,
    layers: Sequence[LayerComparison],
    where: str,
    saturated: Sequence[str] = (),
) -> MismatchError:
    """The error for an output that differs: how many values differ and by how much, and the first layer and row that do.
    dtype: the one with the tolerance that applies. saturated: layers with sums that may have saturated in onnxruntime.
    """
    text = f"output '{failed.name}' differs from onnxruntime's"
    if failed.steps is not None and failed.wrong:
        most = 0 if failed.steps.step.exact else ALLOWED * failed.steps.step.range
        text += f" by {failed.steps}, {failed.steps.root:.3g} in the root of the mean square (allowed: {most:g})"
    elif failed.wrong:
        allowed = str(get_tolerance(dtype) or "0, they are integers")
        if failed.noise:
            allowed += f" + {NOISE:g} times the {failed.noise:.3g} by which onnxruntime differs from itself"
        text += f" in {failed.wrong} of {failed.values} values, by up to {failed.max_abs_error:.3g} (allowed: {allowed})"
    else:
        text += " in its top 5 classes"
    first = next((entry for entry in layers if not entry.ok), None)
    if first is not None:
        row = first.comparison.first_wrong_row
        place = f"row {row} of {first.rows}" if row is not None else "the values"
        text += f"; first wrong: {place} of '{first.comparison.name}', layer '{first.layer.name}' ({first.layer.op_type})"
    if saturated:
        text += (
            f"; onnxruntime itself cuts off sums of uint8 times int8 on this processor (AVX2 without VNNI), in "
            f"'{saturated[0]}' first of {len(saturated)}: start it with session.x64quantprecision=1, or take weights of 7 bits"
        )
    return MismatchError(text, where=where)
