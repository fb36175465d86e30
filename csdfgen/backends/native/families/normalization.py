"""Which normalizations have a kernel? Those of float32 over the last axes, where these are side by side within rows; and
those of maps over all of their pixels, whose rows may be anywhere and are overwritten where they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from csdfgen.backends.native.families.common import (
    FLOAT,
    Family,
    count_activations,
    epilogue_activation,
    is_dense,
    is_map,
    pixel,
)
from csdfgen.backends.native.structures import (
    PANEL,
    Activation,
    instruction,
    structure,
    type_suffix,
)
from csdfgen.model.network import Layer, Tensor
from csdfgen.program.instructions import Constants, Instruction, Ref
from csdfgen.program.steps import Step, View

NormalizeStep = structure("csdf_normalize_step").record
StandardizeStep = structure("csdf_standardize_step").record

OF_MAPS = ("InstanceNormalization", "GroupNormalization")
"""Operators with parameters for channels, or groups of these."""


@dataclass(frozen=True, eq=False)
class _Normalization(Family):
    """size: elements that share a mean. parameters: scale and bias, one an element, or None. halves: see `pools`."""

    size: int
    centre: bool
    epsilon: float
    parameters: tuple[np.ndarray | None, ...]
    halves: str = ""

    @property
    def kernels(self) -> tuple[str, ...]:  # type: ignore[override]
        return (f"normalize_{self.halves}of",)

    def in_halves(self, layer: Layer, dtype: str) -> Family | None:
        return replace(self, halves=f"{type_suffix(np.dtype(dtype))}_")

    def takes(self, step: Step) -> bool:
        x, out = step.inputs[0], step.outputs[0]
        return x is not None and all(not view.pieces and is_dense(view) for view in (x, out))

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        x, out = step.view(0), step.outputs[0]
        made = NormalizeStep(
            len(out.rows), prod(out.shape) // self.size, self.size, self.centre, self.epsilon,
            *(None if one is None else constants.weights(one) for one in self.parameters),
            constants.rows(x.pool, x.rows), constants.rows(out.pool, out.rows),
        )  # fmt: skip
        (kernel,) = self.kernels
        return [instruction(kernel, made)]


def normalization(layer: Layer) -> Family | None:
    """LayerNormalization and RMSNormalization with constant parameters, one an element that is normalized or none."""
    x, y, axes = layer.inputs[0], layer.output, layer.attributes["axes"]
    size = prod(y.shape[axis] for axis in axes)
    before = y.shape[: y.row_axis or 0]
    if x is None or len(layer.outputs) > 1 or any(t is not None for t in layer.inputs[1:]):
        return None
    if x.row_axis != y.row_axis or layer.input_axes[0] != x.row_axis or prod(before) > 1:
        return None
    if y.row_axis is not None and min(axes) <= y.row_axis:
        return None
    given = [layer.constants.get(position) for position in (1, 2)]
    if any(one is not None and one.size != size for one in given):
        return None
    parameters = tuple(None if one is None else np.ravel(one) for one in given)
    centre = layer.op_type == "LayerNormalization"
    return _Normalization(size, centre, layer.attributes["epsilon"], parameters)


@dataclass(frozen=True, eq=False)
class _Standardization(Family):
    """channels: of a pixel. group: that share a mean. each: whether parameters are numbers for elements. parameters: scale
    and bias, one a channel, one an element of a map in the order of its rows, or None. halves: see `pools`.
    """

    channels: int
    group: int
    centre: bool
    each: bool
    epsilon: float
    parameters: tuple[np.ndarray | None, ...]
    halves: str = ""

    @property
    def kernels(self) -> tuple[str, ...]:  # type: ignore[override]
        return (f"standardize_{self.halves}of",)

    def in_halves(self, layer: Layer, dtype: str) -> Family | None:
        return replace(self, halves=f"{type_suffix(np.dtype(dtype))}_")

    def takes(self, step: Step) -> bool:
        x, out = step.inputs[0], step.outputs[0]
        if x is None or x.pieces or out.pieces:
            return False
        return all(is_dense(one) or is_map(one) for one in (*_images(x), *_images(out)))

    def follows(self, layer: Layer) -> int:
        return count_activations(layer)

    def workspace(self, step: Step, limit: int | None) -> int:
        return 2 * FLOAT * (self.channels + PANEL)

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        images, pad, found = step.phase.images, step.workspace, []
        for x, out in zip(_images(step.view(0)), _images(step.outputs[0]), strict=True):
            made = StandardizeStep(
                images, len(out.rows) // images, prod(out.shape) // self.channels, self.channels,
                *(self.channels if is_dense(view) else pixel(view) for view in (x, out)),
                self.group, 0, self.channels, self.centre, self.each, self.epsilon,
                Activation(*epilogue_activation(step.layer)),
                *(None if one is None else constants.weights(one) for one in self.parameters),
                constants.rows(x.pool, x.rows), constants.rows(out.pool, out.rows), Ref(pad.pool, pad.offset),
            )  # fmt: skip
            found.append(instruction(self.kernels[0], made))
        return found


def _images(view: View) -> list[View]:
    """The rows of each image of a tensor that has several, of which a pixel has them side by side."""
    *sizes, images, channels = view.shape
    if images == 1:
        return [view]
    shape, apart = (*sizes, 1, channels), view.strides[-2]
    return [
        replace(view, shape=shape, rows=tuple(at + k * apart for at in view.rows))
        for k in range(images)
    ]


def standardization(layer: Layer) -> Family | None:
    """InstanceNormalization, GroupNormalization, and others over all axes of maps but their channels, or with these, whose
    parameters are constants.
    """
    x, y = layer.inputs[0], layer.output
    if x is None or len(layer.outputs) > 1 or any(t is not None for t in layer.inputs[1:]):
        return None
    axes = {axis for axis in layer.attributes["axes"] if y.shape[axis] > 1 or axis > 1}
    if x.row_axis != 2 or y.row_axis != 2 or layer.input_axes[0] != 2:
        return None
    if axes - {1} != set(range(2, len(y.shape))):
        return None
    channels = y.shape[1]
    group = channels if 1 in axes else 1
    if 1 in axes and layer.attributes.get("num_groups"):
        group = channels // layer.attributes["num_groups"]
    given = [layer.constants.get(k) for k in (1, 2)]
    made = [None if one is None else _of_channels(layer, one, y) for one in given]
    each = any(one is None and there is not None for one, there in zip(made, given, strict=True))
    if each and y.shape[0] > 1:
        return None
    if each:
        made = [None if one is None else _of_elements(one, y) for one in given]
    centre = layer.op_type != "RMSNormalization"
    return _Standardization(channels, group, centre, each, layer.attributes["epsilon"], tuple(made))


def _of_channels(layer: Layer, given: np.ndarray, y: Tensor) -> np.ndarray | None:
    """A parameter that is one number for each channel as such; None if it is not."""
    channels = y.shape[1]
    if layer.op_type in OF_MAPS:
        return np.repeat(given, channels // given.size)
    sizes = (1,) * (len(y.shape) - given.ndim) + given.shape
    return np.resize(given, channels) if given.size == sizes[1] else None


def _of_elements(given: np.ndarray, y: Tensor) -> np.ndarray:
    """A parameter that broadcasts against maps as one number for each element, in the order of the rows."""
    return np.ascontiguousarray(np.moveaxis(np.broadcast_to(given, y.shape)[0], 0, -1))
