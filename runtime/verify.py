"""Which output is wrong, and which layer was first? A frame beside onnxruntime's, as a whole, row by
row as it is made, or layer by layer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import onnx

import runtime
from csdfgen.model.network import Layer
from csdfgen.planning.plan import Plan
from runtime.reference import (
    Comparison,
    MismatchError,
    Reference,
    compare,
    compared_as,
    largest_of,
    same_classes,
    tolerance_of,
)
from runtime.steps import ALLOWED, Step, Steps, steps_of

__all__ = [
    "LayerComparison",
    "check_layers",
    "check_outputs",
    "check_rows",
    "compare_outputs",
    "mismatch",
    "types_of",
]

Source = str | os.PathLike[str] | onnx.ModelProto


@dataclass(frozen=True, slots=True)
class LayerComparison:
    """A layer's output tensor beside onnxruntime's."""

    layer: Layer
    rows: int
    comparison: Comparison


def check_outputs(
    source: Source,
    plan: Plan,
    feeds: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    threads: int = 1,
) -> tuple[Comparison, ...]:
    """Compare the outputs of a frame, those of every image. Raises ModelError, MismatchError (a
    shape or dtype).
    """
    reference = Reference(source, plan.network, threads=threads)(feeds)
    return compare_outputs(plan, outputs, reference)


def compare_outputs(
    plan: Plan, outputs: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray]
) -> tuple[Comparison, ...]:
    """Compare outputs with those of onnxruntime. Raises MismatchError (a shape or dtype)."""
    axes, steps, types = _row_axes(plan), _steps(plan), types_of(plan)
    found = []
    for name, ours in outputs.items():
        theirs, held_to = reference[name], types.get(name)
        one = compare(name, ours, theirs, axes.get(name), step=steps.get(name), held_to=held_to)
        found.append(replace(one, classes_ok=same_classes(ours, theirs, held_to)))
    return tuple(found)


def _steps(plan: Plan) -> dict[str, Step]:
    """The steps of quantized outputs, by the names of the outputs."""
    steps = steps_of(plan.network)
    return {
        output.name: steps[output.tensor.name]
        for output in plan.network.outputs
        if output.tensor is not None and output.tensor.name in steps
    }


def _row_axes(plan: Plan) -> dict[str, int | None]:
    return {
        output.name: output.tensor.row_axis
        for output in plan.network.outputs
        if output.tensor is not None
    }


def types_of(plan: Plan) -> dict[str, np.dtype]:
    """The dtypes that outputs are held to, by the names of the outputs."""
    types = compared_as(plan.network)
    return {
        output.name: types[output.tensor.name]
        for output in plan.network.outputs
        if output.tensor is not None
    }


def check_rows(
    source: Source, plan: Plan, feeds: Mapping[str, np.ndarray], threads: int = 1
) -> tuple[Comparison, ...]:
    """Run a frame whose rows are handed on, and compare each slab as it comes; nothing of ours is
    stored. A row that is missing is wrong. Raises what `check_outputs` raises.
    """
    reference = Reference(source, plan.network, threads=threads)(feeds)
    rows = _Rows(plan, reference)
    runtime.compile(plan, threads=threads)(feeds, on_rows=rows.compare)
    return rows.found()


class _Rows:
    """Outputs beside onnxruntime's, slab by slab."""

    def __init__(self, plan: Plan, reference: Mapping[str, np.ndarray]) -> None:
        self._batch, self._axes = plan.network.batch, _row_axes(plan)
        self._steps, self._types = _steps(plan), types_of(plan)
        self._reference = {output.name: reference[output.name] for output in plan.network.outputs}
        self._largest = {name: largest_of(array) for name, array in self._reference.items()}
        self._parts: dict[str, list[Comparison]] = {name: [] for name in self._reference}

    def compare(self, name: str, image: int, start: int, stop: int, rows: np.ndarray) -> None:
        """One slab; see `session.OnRows`."""
        theirs, axis = self._reference[name], self._axes.get(name)
        if name in self._axes and self._batch > 1:
            theirs = theirs[image : image + 1]
        entire = axis is None or stop - start == theirs.shape[axis]
        held_to, classes = self._types.get(name), None
        if entire and rows.shape == theirs.shape:
            classes = same_classes(rows, theirs, held_to)
        if axis is not None:
            theirs = theirs[(slice(None),) * axis + (slice(start, stop),)]
        one = compare(name, rows, theirs, axis, self._largest[name], self._steps.get(name), held_to)
        row = None if one.first_wrong_row is None else start + one.first_wrong_row
        self._parts[name].append(replace(one, first_wrong_row=row, classes_ok=classes))

    def found(self) -> tuple[Comparison, ...]:
        """An output each, all its slabs together."""
        return tuple(
            _joined(name, parts, self._reference[name].size) for name, parts in self._parts.items()
        )


def _joined(name: str, parts: Sequence[Comparison], size: int) -> Comparison:
    values = sum(part.values for part in parts)
    rows = [part.first_wrong_row for part in parts if part.first_wrong_row is not None]
    classes = {part.classes_ok for part in parts}
    steps = [part.steps for part in parts if part.steps is not None]
    return Comparison(
        name,
        size,
        sum(part.wrong for part in parts) + abs(size - values),
        max((part.max_abs_error for part in parts), default=0.0),
        min(rows, default=None),
        None if None in classes or not classes else classes == {True},
        reduce(Steps.joined, steps) if steps and size == values else None,
    )


def check_layers(
    source: Source, plan: Plan, feeds: Mapping[str, np.ndarray], threads: int = 1
) -> tuple[LayerComparison, ...]:
    """Run a frame that keeps the output of every layer, and compare each that onnxruntime knows by
    name; of tiles the columns that they make.

    Of a batch the last image is compared. Needs room for all tensors whole, unlike the frame
    itself.
    """
    network = plan.network
    wanted = dict.fromkeys([*network.producer, *(name for name, _, _ in network.parts.values())])
    reference = Reference(source, network, list(wanted), threads)(feeds)
    part_of = {name: network.parts.get(name, (name, 0, None)) for name in network.producer}
    names = [name for name, (whole, _, _) in part_of.items() if whole in reference]
    steps, types = steps_of(network), compared_as(network)
    program = runtime.compile(plan, taps=names)
    program(feeds)
    taps = program.taps
    found = []
    for name in names:
        tensor, (whole, start, stop) = network.tensors[name], part_of[name]
        theirs = reference[whole]
        if name in network.parts and theirs.ndim == 4:
            theirs = theirs[..., start:stop]
        last = theirs if network.batch == 1 else theirs[-1:]
        found.append(
            LayerComparison(
                network.producer[name],
                tensor.rows,
                compare(
                    name,
                    taps[name],
                    last,
                    tensor.row_axis,
                    step=steps.get(name),
                    held_to=types[name],
                ),
            )
        )
    return tuple(found)


def mismatch(
    failed: Comparison,
    dtype: np.dtype,
    layers: Sequence[LayerComparison],
    where: str,
    saturated: Sequence[str] = (),
) -> MismatchError:
    """The error for an output that differs: how many values, by how much, and the first layer and
    row that do. dtype: that it is held to; saturated: layers whose sums onnxruntime may have cut off.
    """
    said = f"output '{failed.name}' differs from onnxruntime's"
    if failed.steps is not None and failed.wrong:
        most = 0 if failed.steps.step.exact else ALLOWED * failed.steps.step.range
        said += f" by {failed.steps}, {failed.steps.root:.3g} in the root of the mean square (allowed: {most:g})"
    elif failed.wrong:
        allowed = tolerance_of(dtype) or "0, they are integers"
        said += f" in {failed.wrong} of {failed.values} values, by up to {failed.max_abs_error:.3g} (allowed: {allowed})"
    else:
        said += " in its top 5 classes"
    first = next((entry for entry in layers if not entry.comparison.ok), None)
    if first is not None:
        row = first.comparison.first_wrong_row
        place = f"row {row} of {first.rows}" if row is not None else "the values"
        said += f"; first wrong: {place} of '{first.comparison.name}', layer '{first.layer.name}' ({first.layer.op_type})"
    if saturated:
        said += (
            f"; onnxruntime itself cuts off sums of uint8 times int8 on this processor (AVX2 without VNNI), in "
            f"'{saturated[0]}' first of {len(saturated)}: quantize activations to int8, or weights to 7 bits"
        )
    return MismatchError(said, where=where)
