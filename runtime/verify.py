"""Which output is wrong, and which layer was first? A frame beside onnxruntime's, as a whole or
layer by layer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
    same_classes,
    tolerance_of,
)

__all__ = ["LayerComparison", "check_layers", "check_outputs", "mismatch"]

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
    axes = {
        output.name: output.tensor.row_axis
        for output in plan.network.outputs
        if output.tensor is not None
    }
    found = []
    for name, ours in outputs.items():
        one = compare(name, ours, reference[name], axes.get(name))
        classes = same_classes(ours, reference[name])
        found.append(
            Comparison(name, one.values, one.wrong, one.max_abs_error, one.first_wrong_row, classes)
        )
    return tuple(found)


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
                compare(name, taps[name], last, tensor.row_axis),
            )
        )
    return tuple(found)


def mismatch(
    failed: Comparison, dtype: np.dtype, layers: Sequence[LayerComparison], where: str
) -> MismatchError:
    """The error for an output that differs: how many values, by how much, and the first layer and
    row that do.
    """
    said = f"output '{failed.name}' differs from onnxruntime's"
    if failed.wrong:
        allowed = tolerance_of(dtype) or "0, they are integers"
        said += f" in {failed.wrong} of {failed.values} values, by up to {failed.max_abs_error:.3g} (allowed: {allowed})"
    else:
        said += " in its top 5 classes"
    first = next((entry for entry in layers if not entry.comparison.ok), None)
    if first is not None:
        row = first.comparison.first_wrong_row
        place = f"row {row} of {first.rows}" if row is not None else "the values"
        said += f"; first wrong: {place} of '{first.comparison.name}', layer '{first.layer.name}' ({first.layer.op_type})"
    return MismatchError(said, where=where)
