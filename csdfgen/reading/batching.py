"""May the images of a batch run one after another? Only where nothing looks across images.

A network is built for N images and for one. If every tensor has shape (N, *rest) in the first and
(1, *rest) in the second, and every layer has the same constants and settings in both, then no layer
reduces, moves or joins images (that would show in a shape); what is left are layers whose result
has
the shape of a batch although they mix its images: those whose settings touch axis 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from csdfgen.model.network import Layer, Network, Tensor

__all__ = ["split_batch"]


def split_batch(whole: Network, single: Network, batch: int) -> Network | None:
    """`single`, to be run for `batch` images one after another; None where that would not be
    `whole`.
    """
    same_structure = (
        len(whole.layers) == len(single.layers)
        and all(_same_tensor(a, b, batch) for a, b in zip(whole.inputs, single.inputs, strict=True))
        and all(_same_layer(a, b, batch) for a, b in zip(whole.layers, single.layers, strict=True))
        and all(a.tensor is not None for a in whole.outputs)
    )
    return replace(single, batch=batch) if same_structure else None


def _same_tensor(whole: Tensor, single: Tensor, batch: int) -> bool:
    return (
        whole.name == single.name
        and whole.dtype == single.dtype
        and whole.shape[:1] == (batch,)
        and single.shape == (1, *whole.shape[1:])
    )


def _same_layer(whole: Layer, single: Layer, batch: int) -> bool:
    operands = [t for t in whole.inputs if t is not None]
    # Operands of different rank would have their batch axes side by side, not one on the other.
    aligned = len({len(t.shape) for t in operands}) == 1
    return (
        whole.op_type == single.op_type
        and aligned
        and len(whole.outputs) == len(single.outputs)
        and all(
            _same_tensor(a, b, batch) for a, b in zip(whole.outputs, single.outputs, strict=True)
        )
        and [t and t.name for t in whole.inputs] == [t and t.name for t in single.inputs]
        and whole.constants.keys() == single.constants.keys()
        and all(_same_array(whole.constants[k], single.constants[k]) for k in whole.constants)
        and whole.attributes.keys() == single.attributes.keys()
        and all(
            _same_setting(whole.attributes[k], single.attributes[k], batch)
            for k in whole.attributes
        )
        and not _mixes_images(whole)
    )


def _same_array(a: np.ndarray, b: np.ndarray) -> bool:
    return a is b or (a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


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
