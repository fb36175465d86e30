"""Where a maximum was, and back there: the indices of MaxPool, and MaxUnpool.

Sources: https://onnx.ai/onnx/operators/onnx__MaxPool.html, https://onnx.ai/onnx/operators/onnx__MaxUnpool.html. The taps
of all windows are slices of the padded input, joined along an axis of their own, along which ArgMax finds the first
of the largest. What is put back may go to any place, so that MaxUnpool needs its whole input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.network import Layer, Node, Shape
from csdfgen.model.rows import Window
from csdfgen.ops._operands import read_integers
from csdfgen.ops.base import REQUIRED, Operator, require_constant, require_tensor
from csdfgen.ops.composing import Composition, Operand, composed_operator, require
from csdfgen.ops.pooling import OPERATORS as POOLS
from csdfgen.ops.windows import list_windows

Results = Iterable[Operand | None]

MOST_TAPS = 256
"""Each of them is a layer."""

_MAX_POOL = next(one for one in POOLS if one.op_type == "MaxPool")


def tap_slices(
    make: Composition, x: Operand, windows: Sequence[Window], lengths: Sequence[int], padding: Any
) -> list[Operand]:
    """Of each tap of windows, in their order, what it reads at every position.

    x: (images, channels, *spatial). lengths: positions along each spatial axis. padding: what is read outside of x.
    """
    spatial, count = x.shape[2:], prod(w.kernel for w in windows)
    if count > MOST_TAPS:
        raise ModelError(f"windows of {count} elements, at most {MOST_TAPS} are taken apart")
    needed = [(count - 1) * w.stride + w.extent for w, count in zip(windows, lengths, strict=True)]
    before = [w.pad_top for w in windows]
    behind = [
        max(0, n - size - w.pad_top) for n, size, w in zip(needed, spatial, windows, strict=True)
    ]
    if any(before) or any(behind):
        pads = np.array([0, 0, *before, 0, 0, *behind], np.int64)
        x = make("Pad", x, pads, np.array(padding, x.dtype))
    axes = np.arange(2, 2 + len(spatial), dtype=np.int64)
    steps = np.array([w.stride for w in windows], np.int64)
    found = []
    for taps in np.ndindex(*(w.kernel for w in windows)):
        starts = np.array([t * w.dilation for t, w in zip(taps, windows, strict=True)], np.int64)
        stops = starts + (np.array(lengths, np.int64) - 1) * steps + 1
        found.append(make("Slice", x, starts, stops, axes, steps))
    return found


def _pooled(make: Composition, node: Node) -> Results:
    """The maxima, and where they are: elements in front of them in the flattened input."""
    x = require_tensor(node, 0)
    values = make("MaxPool", x, opset=node.opset, **_pool_attributes(node))
    attributes = make.layers[-1].attributes
    windows, spatial = list_windows(attributes), x.shape[2:]
    lengths = values.shape[2:]
    kind = np.dtype(x.dtype)
    lowest = -np.inf if kind.kind == "f" else np.iinfo(kind).min
    taps = tap_slices(make, x, windows, lengths, lowest)
    apart = [make.reshaped(tap, (*tap.shape, 1)) for tap in taps]
    best = make("ArgMax", make("Concat", *apart, axis=-1), axis=-1, keepdims=0)
    # the first spatial axis is the fastest in column-major order
    column_major = bool(node.attributes.get("storage_order", 0))
    rank = len(spatial)
    steps = [prod(spatial[:k] if column_major else spatial[k + 1 :]) for k in range(rank)]
    offsets = np.array(
        [
            sum(t * w.dilation * step for t, w, step in zip(taps, windows, steps, strict=True))
            for taps in np.ndindex(*(w.kernel for w in windows))
        ],
        np.int64,
    )
    within = np.zeros(lengths, np.int64)
    for k, (w, step) in enumerate(zip(windows, steps, strict=True)):
        along = (np.arange(lengths[k], dtype=np.int64) * w.stride - w.pad_top) * step
        within = within + along.reshape(-1, *(1,) * (rank - 1 - k))
    maps = np.arange(prod(x.shape[:2]), dtype=np.int64) * prod(spatial)
    places = make("Add", make("Gather", offsets, best, axis=0), within)
    return [values, make("Add", places, maps.reshape(*x.shape[:2], *(1,) * rank))]


def _pool_attributes(node: Node) -> dict[str, Any]:
    return {k: v for k, v in node.attributes.items() if k != "storage_order"}


def _unpooled(make: Composition, node: Node) -> Results:
    """Zeros, with elements of the first input at the places that the second names, in the flattened output."""
    x, places = require_tensor(node, 0), require(node, 1)
    if x.shape != tuple(places.shape) or len(x.shape) < 3:
        raise ModelError(
            f"input of shape {list(x.shape)} and indices of shape {list(places.shape)}; both need the same one, of 3 "
            "axes or more"
        )
    shape = (*x.shape[:2], *_unpooled_sizes(node, x.shape[2:]))
    if node.operand(2) is not None:
        wanted = read_integers(require_constant(node, 2), "output_shape")
        more = [n - own for n, own in zip(wanted, shape, strict=False)]
        if len(wanted) != len(shape) or min(more) < 0 or any(more[:2]):
            raise ModelError(
                f"output_shape {list(wanted)} does not hold what is put back, of shape {list(shape)}"
            )
        shape = wanted
    flat = (prod(x.shape),)
    # no memory yet: it may be too large
    zeros = np.broadcast_to(np.zeros((), x.dtype), prod(shape))
    operands = (make.reshaped(places, flat), make.reshaped(x, flat))
    return [make.reshaped(make("ScatterElements", zeros, *operands, axis=0), shape)]


def _unpooled_sizes(node: Node, spatial: Shape) -> Shape:
    """Sizes of the pool's input, as far as the windows reach."""
    rank = len(spatial)
    kernel = tuple(map(int, node.attributes["kernel_shape"]))
    strides = tuple(map(int, node.attributes.get("strides") or (1,) * rank))
    pads = tuple(map(int, node.attributes.get("pads") or (0,) * 2 * rank))
    if not len(kernel) == len(strides) == len(pads) / 2 == rank:
        raise ModelError(f"kernel_shape, strides and pads do not fit {rank} spatial axes")
    sizes = tuple(
        (n - 1) * s + k - first - last
        for n, s, k, first, last in zip(
            spatial, strides, kernel, pads[:rank], pads[rank:], strict=True
        )
    )
    if min(sizes) < 1:
        raise ModelError(f"the output would have sizes {list(sizes)}")
    return sizes


_INDEXED = composed_operator("MaxPool", _pooled).parts


def _parts(node: Node) -> tuple[Layer, ...]:
    """A pool whose indices nobody reads is one layer."""
    if not any(node.outputs[1:]) or _INDEXED is None:
        return (_MAX_POOL.build(node),)
    return _INDEXED(node)


OPERATORS: tuple[Operator, ...] = (
    replace(_MAX_POOL, parts=_parts),
    composed_operator(
        "MaxUnpool",
        _unpooled,
        since=9,
        attributes={"kernel_shape": REQUIRED, "pads": None, "strides": None},
        constant_inputs=(2,),
        structure="whole",
        notes="Indices refer to the flattened output of shape output_shape, as in onnxruntime; ONNX's test case disagrees.",
    ),
)
