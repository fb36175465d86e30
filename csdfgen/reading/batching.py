"""May the images of a batch run one after another? Only where nothing looks across images.

A network is built for N images and for one. If every tensor has shape (N, *rest) in the first and
(1, *rest) in the second, and every layer has the same constants and settings in both, then no layer
reduces, moves or joins images (that would show in a shape); what is left are layers whose result
has the shape of a batch although they mix its images: those whose settings touch axis 0. The proof
is the same for a network whose constants were lifted to N images (`lifting`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from csdfgen.model.network import Layer, Network, Tensor
from csdfgen.reading.onnx_file import label

__all__ = ["obstacle", "one_by_one", "split_batch"]


def split_batch(whole: Network, single: Network, batch: int) -> Network | None:
    """`single`, to be run for `batch` images one after another; None where that would not be
    `whole`.
    """
    return None if obstacle(whole, single, batch) else one_by_one(single, batch)


def one_by_one(single: Network, batch: int, *, lifted: bool = False) -> Network:
    """`single` for `batch` images that are known not to touch each other."""
    return replace(single, batch=batch, lifted=lifted)


def obstacle(whole: Network, single: Network, batch: int) -> str | None:
    """Why the images cannot run one after another: the first layer that mixes them, or is not
    known not to; None if they can.
    """
    if not all(_same_tensor(a, b, batch) for a, b in zip(whole.inputs, single.inputs, strict=True)):
        return f"its inputs are not those of {batch} images"
    for a, b in zip(whole.layers, single.layers, strict=False):
        found = _difference(a, b, batch)
        if found is not None:
            return f"layer '{a.name}' ({label(a.op_type)}) {found}"
    if len(whole.layers) != len(single.layers):
        return f"it has {len(whole.layers)} layers for {batch} images, {len(single.layers)} for one"
    fixed = next((o for o in whole.outputs if o.tensor is None), None)
    return f"output '{label(fixed.name)}' is a constant, of no image" if fixed else None


def _same_tensor(whole: Tensor, single: Tensor, batch: int) -> bool:
    return (
        whole.name == single.name
        and whole.dtype == single.dtype
        and whole.shape[:1] == (batch,)
        and single.shape == (1, *whole.shape[1:])
    )


def _difference(whole: Layer, single: Layer, batch: int) -> str | None:
    """What keeps a layer from being the same one for every image, None for nothing."""
    operands = [t for t in whole.inputs if t is not None]
    if (
        whole.op_type != single.op_type
        or len(whole.outputs) != len(single.outputs)
        or [t and t.name for t in whole.inputs] != [t and t.name for t in single.inputs]
    ):
        return f"is another one for {batch} images than for one"
    for a, b in zip(whole.outputs, single.outputs, strict=True):
        if not _same_tensor(a, b, batch):
            return (
                f"mixes them: '{label(a.name)}' is {_text(a)} for {batch} images, "
                f"{_text(b)} for one, not {batch} and 1 along axis 0"
            )
    # Operands of different rank would have their batch axes side by side, not one on the other.
    if len({len(t.shape) for t in operands}) != 1:
        return f"mixes them: operands of {', '.join(map(_text, operands))} differ in rank"
    if _mixes_images(whole):
        return f"mixes them: it looks along axis 0, where {batch} images lie instead of 1"
    same = (
        whole.constants.keys() == single.constants.keys()
        and all(
            _same_constant(whole.constants[k], single.constants[k], whole.output, batch)
            for k in whole.constants
        )
        and whole.attributes.keys() == single.attributes.keys()
        and all(
            _same_setting(whole.attributes[k], single.attributes[k], batch)
            for k in whole.attributes
        )
    )
    return None if same else f"has other constants or settings for {batch} images than for one"


def _text(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a scalar"


def _same_constant(whole: np.ndarray, single: np.ndarray, output: Tensor, batch: int) -> bool:
    """Equal, or that of one image once for every image, beside the images of the output."""
    if _same_array(whole, single):
        return True
    return (
        single.shape[:1] == (1,)
        and whole.shape == (batch, *single.shape[1:])
        and whole.ndim == len(output.shape)
        and _same_array(whole, np.broadcast_to(single, whole.shape))
    )


def _same_array(a: np.ndarray, b: np.ndarray) -> bool:
    if a is b:
        return True
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    bits = f"u{a.itemsize}"  # several times as fast as telling NaN from NaN, which weights have not
    return np.array_equal(a.view(bits), b.view(bits)) or np.array_equal(a, b, equal_nan=True)


def _same_setting(whole: Any, single: Any, batch: int) -> bool:
    """Equal, or a shape that differs by its batch alone."""
    if isinstance(whole, np.ndarray) or isinstance(single, np.ndarray):
        return (
            isinstance(whole, np.ndarray)
            and isinstance(single, np.ndarray)
            and _same_array(whole, single)
        )
    if (
        isinstance(whole, tuple)
        and isinstance(single, tuple)
        and whole[:1] == (batch,)
        and single[:1] == (1,)
    ):
        return whole[1:] == single[1:]
    return whole == single


_TOUCHES_IMAGES: Mapping[str, Callable[[Any, int], bool]] = {
    "axis": lambda axis, rank: axis == 0,
    "axes": lambda axes, rank: 0 in axes,
    "pads": lambda pads, rank: len(pads) == 2 * rank and bool(pads[0] or pads[rank]),
    "scales": lambda scales, rank: len(scales) == rank and scales[0] != 1,
    "starts": lambda starts, rank: len(starts) == rank and starts[0] != 0,
    "steps": lambda steps, rank: len(steps) == rank and steps[0] != 1,
}
"""Setting -> whether it makes a layer on operands of that rank look along axis 0."""


def _mixes_images(layer: Layer) -> bool:
    rank = max(len(t.shape) for t in layer.inputs if t is not None)
    return any(
        _TOUCHES_IMAGES[name](value, rank)
        for name, value in layer.attributes.items()
        if name in _TOUCHES_IMAGES and value is not None
    )
