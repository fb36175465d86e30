"""What moves elements of TensorFlow Lite's tensors, and what works along their axes, in nodes of ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.reading.tflite.values import FIRST, Layer, Order, element_type, natural

# Axes ---------------------------------------------------------------------------------------------


def reshape(layer: Layer) -> None:
    if prod(layer.shape()) != prod(layer.out):
        raise ModelError(f"{layer.shape()} does not fit into {layer.out}")
    layer.give(layer.reshaped(layer.x(), layer.out))


def transpose(layer: Layer) -> None:
    perm = layer.numbers(1)
    if sorted(perm) != list(natural(len(layer.shape()))):
        raise ModelError(f"turns the axes {perm} of {layer.shape()}")
    layer.give(layer.node("Transpose", layer.x(), perm=perm))


def concatenate(layer: Layer) -> None:
    order = layer.channels()
    axis = order.index(layer.axis(layer.op.option("Axis"), len(layer.out)))
    y = layer.node("Concat", *(layer.x(k, order) for k in range(len(layer.inputs))), axis=axis)
    layer.give(layer.activated(y), order=order)


def pad(layer: Layer, mode: str = "constant") -> None:
    order, rank = layer.channels(), len(layer.shape())
    pads = layer.const(1)
    if pads.shape != (rank, 2) or pads.min(initial=0) < 0:
        raise ModelError(
            f"pads {layer.shape()} by {pads.shape} numbers, two for each axis, 0 or more, are needed"
        )
    x = layer.x(0, order)
    if mode == "constant":
        value = [layer.x(2)] if layer.has(2) else [_zero(layer)]
        if layer.has(2) and layer.shape(2):
            value = [layer.reshaped(value[0], ())]
        ends = layer.constant(pads[list(order)].T.reshape(-1), np.int64)
        layer.give(layer.node("Pad", x, ends, *value), order=order)
        return
    kept = (
        1 if layer.op.option("Mode") == 0 else 0
    )  # REFLECT leaves out the element at the end, SYMMETRIC does not
    for axis, (before, after) in enumerate(pads):
        n = layer.shape()[axis]
        if max(before, after) > n - kept:
            raise ModelError(f"mirrors {max(before, after)} of {n} along axis {axis}")
        if before or after:
            at = np.r_[
                np.arange(before)[::-1] + kept, np.arange(n), n - 1 - kept - np.arange(after)
            ]
            x = layer.node("Gather", x, layer.constant(at, np.int64), axis=order.index(axis))
    layer.give(x if pads.any() else layer.node("Identity", x), order=order)


def _zero(layer: Layer) -> str:
    x = layer.value(0).tensor
    zero = x.zero if layer.raw and x.zero.size else 0
    return layer.constant(
        np.reshape(zero, -1)[0] if np.ndim(zero) else zero,
        x.dtype if layer.raw else _real_type(x.dtype),
    )


def _real_type(dtype: str) -> str:
    return "float32" if dtype in ("int8", "uint8", "int16") else dtype


def slice_(layer: Layer) -> None:
    begin, size, shape = layer.numbers(1), layer.numbers(2), layer.shape()
    if not len(begin) == len(size) == len(shape):
        raise ModelError(f"cuts {len(begin)} axes of {shape}")
    end = [
        n if count < 0 else first + count
        for first, count, n in zip(begin, size, shape, strict=True)
    ]
    _cut(layer, begin, end, [1] * len(shape))


def _cut(layer: Layer, begin: Sequence[int], end: Sequence[int], steps: Sequence[int]) -> None:
    """Elements from `begin` on up to `end`, in the shape of the output."""
    kept = [
        n
        for n in zip(range(len(steps)), begin, end, steps, layer.shape(), strict=True)
        if n[1:4] != (0, n[4], 1)
    ]
    name = layer.x()
    if kept:
        axes, begin, end, steps, _ = zip(*kept, strict=True)
        name = layer.node(
            "Slice", name, *(layer.constant(n, np.int64) for n in (begin, end, axes, steps))
        )
    layer.give(
        name if kept and _sliced(layer, kept) == layer.out else layer.reshaped(name, layer.out)
    )


def _sliced(layer: Layer, kept: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    shape = list(layer.shape())
    for axis, begin, end, step, n in kept:
        shape[axis] = len(range(n)[slice(begin, None if end < -n else end, step)])
    return tuple(shape)


def slice_by_steps(layer: Layer) -> None:
    begin, end, steps = (layer.numbers(k) for k in (1, 2, 3))
    if not len(begin) == len(end) == len(steps) or 0 in steps:
        raise ModelError(f"begins {begin}, ends {end} and steps {steps} do not fit")
    shape, whole = layer.shape(), layer.op.option("EllipsisMask")
    new = layer.op.option("NewAxisMask") & ~whole
    numbers = [k for k in range(len(begin)) if not new >> k & 1]
    rest = len(shape) - sum(not whole >> k & 1 for k in numbers)
    of_axes = [n for k in numbers for n in ([None] * rest if whole >> k & 1 else [k])]
    of_axes += [None] * (len(shape) - len(of_axes))
    if len(of_axes) != len(shape):
        raise ModelError(f"cuts {len(of_axes)} axes of {shape}")
    cuts = [
        (0, n, 1) if k is None else _bounds(layer, k, n, begin[k], end[k], steps[k])
        for k, n in zip(of_axes, shape, strict=True)
    ]
    _cut(layer, *([cut[k] for cut in cuts] for k in range(3)))


def _bounds(layer: Layer, k: int, n: int, first: int, last: int, step: int) -> tuple[int, int, int]:
    """Where an axis of n elements is cut, as the masks say of number k."""
    shrinks, begins, ends = (
        layer.op.option(f"{name}Mask") >> k & 1 for name in ("ShrinkAxis", "Begin", "End")
    )
    if shrinks:
        first += n if first < 0 else 0
        return first, first + 1, 1
    first = (0 if step > 0 else n - 1) if begins else first
    return first, (n if step > 0 else -n - 1) if ends else min(last, n), step


def split(layer: Layer, x: int, axis: int) -> None:
    value = layer.value(x)
    along = layer.axis(layer.number(axis), len(value.shape))
    order = FIRST if value.first and len(value.shape) == 4 else natural(len(value.shape))
    parts = [out.shape[along] for out in layer.outputs]
    if sum(parts) != value.shape[along]:
        raise ModelError(f"splits {value.shape[along]} into {parts}")
    _give_parts(layer, x, order, along, parts)


def _give_parts(
    layer: Layer, x: int, order: Order, along: int, parts: Sequence[int], flat: bool = False
) -> None:
    inputs = [layer.x(x, order), layer.constant(parts, np.int64)]
    names = layer.made.node("Split", inputs, layer.name, len(parts), axis=order.index(along))
    for k, name in enumerate(names):
        layer.give(
            layer.reshaped(name, layer.outputs[k].shape) if flat else name,
            k,
            None if flat else order,
        )


def pack(layer: Layer) -> None:
    axis = layer.axis(layer.op.option("Axis"), len(layer.out))
    where = layer.constant([axis], np.int64)
    parts = [layer.node("Unsqueeze", layer.x(k), where) for k in range(len(layer.inputs))]
    layer.give(layer.node("Concat", *parts, axis=axis))


def unpack(layer: Layer) -> None:
    rank = len(layer.shape())
    axis = layer.axis(layer.op.option("Axis"), rank)
    if len(layer.outputs) != layer.shape()[axis]:
        raise ModelError(f"unpacks {layer.shape()[axis]} into {len(layer.outputs)}")
    _give_parts(layer, 0, natural(rank), axis, [1] * len(layer.outputs), flat=True)


def gather(layer: Layer) -> None:
    if layer.op.option("BatchDims"):
        raise ModelError("batch_dims is set, which is not supported")
    axis = layer.axis(layer.op.option("Axis"), len(layer.shape()))
    layer.give(layer.node("Gather", layer.x(), layer.made.stored(layer.value(1)), axis=axis))


def repeat(layer: Layer, op_type: str) -> None:
    """TILE and BROADCAST_TO, whose operand says no more than the shape of the result."""
    shape, out = layer.shape(), layer.out
    wide = (1,) * (len(out) - len(shape)) + shape
    if len(wide) != len(out) or any(b % a if a else b for a, b in zip(wide, out, strict=True)):
        raise ModelError(f"{shape} does not fill {out}")
    counts = [b // a if a else 1 for a, b in zip(wide, out, strict=True)]
    sizes = counts if op_type == "Tile" else out
    layer.give(layer.node(op_type, layer.x(), layer.constant(sizes, np.int64)))


def state_shape(layer: Layer) -> None:
    """SHAPE."""
    layer.outputs[0].array = np.array(layer.shape(), layer.outputs[0].tensor.dtype)


def move_blocks(layer: Layer, op_type: str, **settings: Any) -> None:
    layer.image()
    size = layer.op.option("BlockSize")
    layer.give(layer.node(op_type, layer.x(0, FIRST), blocksize=size, **settings), order=FIRST)


def pack_blocks(layer: Layer) -> None:
    block, pads, (n, h, w, c) = layer.numbers(1), layer.numbers(2), layer.image()
    if len(block) != 2 or len(pads) != 4 or min(block) < 1 or min(pads) < 0:
        raise ModelError(f"blocks {block} and pads {pads} of an image do not fit")
    ends = layer.constant([0, pads[0], pads[2], 0, 0, pads[1], pads[3], 0], np.int64)
    x = layer.node("Pad", layer.x(), ends, _zero(layer))
    rows, columns = (h + pads[0] + pads[1]) // block[0], (w + pads[2] + pads[3]) // block[1]
    x = layer.reshaped(x, (n, rows, block[0], columns, block[1], c))
    layer.give(layer.reshaped(layer.node("Transpose", x, perm=[2, 4, 0, 1, 3, 5]), layer.out))


def unpack_blocks(layer: Layer) -> None:
    block, crops, (n, h, w, c) = layer.numbers(1), layer.numbers(2), layer.image()
    if len(block) != 2 or len(crops) != 4 or min(block) < 1 or min(crops) < 0 or n % prod(block):
        raise ModelError(f"blocks {block} and crops {crops} of {n} images do not fit")
    x = layer.reshaped(layer.x(), (*block, n // prod(block), h, w, c))
    x = layer.node("Transpose", x, perm=[2, 3, 0, 4, 1, 5])
    sizes = h * block[0], w * block[1]
    x = layer.reshaped(x, (n // prod(block), *sizes, c))
    begin, end = crops[::2], [size - crop for size, crop in zip(sizes, crops[1::2], strict=True)]
    layer.give(layer.node("Slice", x, *(layer.constant(k, np.int64) for k in (begin, end, [1, 2]))))


def resize(layer: Layer, mode: str) -> None:
    out = layer.out
    layer.image()
    if len(out) != 4:
        raise ModelError(f"its output has the shape {out}, four axes are needed")
    centers, corners = layer.op.option("HalfPixelCenters"), layer.op.option("AlignCorners")
    way = "align_corners" if corners else "half_pixel" if centers else "asymmetric"
    more = {}
    if mode == "nearest":  # rounded down from the pixel's corner, or its center
        more = {"nearest_mode": "round_prefer_ceil" if corners or centers else "floor"}
    sizes = layer.constant([out[axis] for axis in FIRST], np.int64)
    y = layer.node(
        "Resize",
        layer.x(0, FIRST),
        "",
        "",
        sizes,
        mode=mode,
        coordinate_transformation_mode=way,
        **more,
    )
    layer.give(y, order=FIRST)


# Along axes ---------------------------------------------------------------------------------------


def reduce(layer: Layer, op_type: str) -> None:
    shape, kept = layer.shape(), bool(layer.op.option("KeepDims"))
    axes = sorted(set(layer.axes(1, len(shape))))
    image = layer.value(0).first and kept
    if op_type == "ReduceMean" and len(shape) == 4 and axes == [1, 2]:
        y = layer.node("GlobalAveragePool", layer.x(0, FIRST))
        layer.give(y, order=FIRST if kept else None, reshaped=not kept)
        return
    if op_type == "ReduceMean" and layer.value(0).quantized and _adjoin(axes):
        # an average of integers, as of images with these axes as rows
        first, last = axes[0], axes[-1] + 1
        sizes = prod(shape[:first]), prod(shape[first:last]), prod(shape[last:])
        x = layer.reshaped(layer.made.stored(layer.value(0)), (*sizes, 1))
        x = layer.dequantized(0, layer.node("Transpose", x, perm=[0, 2, 1, 3]))
        layer.give(layer.node("GlobalAveragePool", x), reshaped=True)
        return
    order = FIRST if image else natural(len(shape))
    along = layer.constant([order.index(axis) for axis in axes], np.int64)
    y = layer.node(op_type, layer.x(0, order), along, keepdims=int(kept))
    layer.give(y, order=order if kept else None)


def _adjoin(axes: Sequence[int]) -> bool:
    return bool(axes) and axes[-1] - axes[0] == len(axes) - 1


def find_best(layer: Layer, op_type: str) -> None:
    """ARG_MAX and ARG_MIN."""
    axis = layer.axis(layer.number(1), len(layer.shape()))
    y = layer.node(op_type, layer.x(), axis=axis, keepdims=0)
    layer.give(layer.node("Cast", y, to=element_type(layer.outputs[0])))


def compute_softmax(layer: Layer, op_type: str = "Softmax") -> None:
    order = layer.channels()
    x, beta = layer.x(0, order), layer.op.option("Beta", 1) if op_type == "Softmax" else 1
    if beta != 1:
        x = layer.node("Mul", x, layer.constant(beta))
    layer.give(layer.node(op_type, x, axis=order.index(len(order) - 1)), order=order)


def normalize(layer: Layer) -> None:
    """L2_NORMALIZATION, along the last axis."""
    order = layer.channels()
    x = layer.x(0, order)
    along = layer.constant([order.index(len(order) - 1)], np.int64)
    norm = layer.node("Max", layer.node("ReduceL2", x, along), layer.constant(1e-6))
    layer.give(layer.activated(layer.node("Div", x, norm)), order=order)
