"""What does each type of layer of Caffe compute, in nodes of ONNX?

Source: the documentation of layers in caffe.proto and include/caffe/layers of BVLC/caffe; Normalize, Permute and PriorBox
of its SSD fork, Axpy of SENet's, ShuffleChannel of ShuffleNet's, Interp of
DeepLab's, Upsample of YOLO's. A recipe asks its layer for every setting that
it obeys; one that is set and not asked for refuses the layer (`net`). Axis 0 is the batch and stays free wherever
it can, so that images are computed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from math import exp, log, prod, sqrt
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from csdfgen.errors import ModelError
from csdfgen.model.naming import make_unused_name
from csdfgen.reading.caffe.text import MAX_INT, Message
from csdfgen.reading.onnx_tensor import MAX_ELEMENTS

Shape = tuple[int, ...]

_MAX_CONSTANT = 2**24
"""Elements of a constant that a layer makes by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A tensor of the model, by the name that it has until blobs give theirs."""

    name: str
    shape: Shape


@dataclass(slots=True, eq=False)
class Nodes:
    """The nodes and constants of a model as they are made. No two tensors have a name in common, nor two nodes."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    tensors: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)

    def free(self, name: str) -> str:
        """The name of a tensor, with marks if it is taken."""
        return make_unused_name(name, self.tensors, "'")

    def add(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        name: str,
        **settings: Any,
    ) -> None:
        name = make_unused_name(name, self.names, "'")
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name, **settings))


@dataclass(slots=True, eq=False)
class Layer:
    """A layer with what it reads: values of its bottoms, and blobs of its weights."""

    name: str
    bottoms: Sequence[Value]
    tops: int
    settings: Message
    blobs: Sequence[np.ndarray]
    made: Nodes

    @property
    def x(self) -> Value:
        """The one bottom."""
        (found,) = self.values(1)
        return found

    def values(self, least: int, most: int | None = None) -> Sequence[Value]:
        """The bottoms, `least` to `most` in number. Raises ModelError for another number of them."""
        most = least if most is None else most
        if not least <= len(self.bottoms) <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}"
            raise ModelError(f"has {len(self.bottoms)} bottoms, {wanted} are supported")
        return self.bottoms

    def axis(self, settings: Message, name: str, default: int, rank: int) -> int:
        """An axis of a tensor of that rank, counted from the front."""
        axis = settings.integer(name, default, -MAX_INT)
        if not -rank <= axis < rank:
            raise ModelError(f"{name} is {axis} of a tensor with {rank} axes")
        return axis + rank if axis < 0 else axis

    def blob(self, index: int, shape: Sequence[int]) -> np.ndarray:
        """A blob, of this shape but for leading ones. Raises ModelError for another shape."""
        if index >= len(self.blobs):
            raise ModelError(
                f"needs {index + 1} blobs of weights, the .caffemodel has {len(self.blobs)}; is it of this network?"
            )
        found = self.blobs[index]
        if _without_ones(found.shape) != _without_ones(shape):
            raise ModelError(
                f"blob {index} is {_sizes(found.shape)} in the .caffemodel, {_sizes(shape)} is needed; is it of this network?"
            )
        return found.reshape(shape)

    def constant(self, array: Any, dtype: type = np.float32) -> Value:
        array = np.asarray(array, dtype)
        name = self.made.free(f"{self.name}.constant")
        self.made.constants.append(numpy_helper.from_array(array, name))
        return Value(name, array.shape)

    def node(
        self, op_type: str, *inputs: Value, shape: Sequence[int] | None = None, **settings: Any
    ) -> Value:
        """A node with one output, by default in the shape of its first input."""
        return self.split(op_type, *inputs, shapes=[inputs[0].shape if shape is None else shape], **settings)[0]  # fmt: skip

    def split(
        self, op_type: str, *inputs: Value, shapes: Sequence[Sequence[int]], **settings: Any
    ) -> list[Value]:
        """A node with an output of each shape. Raises ModelError for an impossible shape."""
        for shape in shapes:
            if min(shape, default=1) < 1 or prod(shape) > MAX_ELEMENTS:
                raise ModelError(
                    f"its output would be {_sizes(shape)}, at least 1 element an axis and at most {MAX_ELEMENTS} in all "
                    "are possible; check sizes and shapes"
                )
        found = [Value(self.made.free(f"{self.name}/{op_type}"), tuple(shape)) for shape in shapes]
        names = [value.name for value in inputs], [value.name for value in found]
        self.made.add(op_type, *names, self.name, **settings)
        return found

    @staticmethod
    def check_constant(shape: Sequence[int]) -> None:
        """Raises ModelError for a constant that is too large to be made."""
        if prod(shape) > _MAX_CONSTANT:
            raise ModelError(
                f"makes a constant of {_sizes(shape)}, at most {_MAX_CONSTANT} elements are possible; check sizes and shapes"
            )

    def reshaped(self, x: Value, shape: Sequence[int], kept: int = 1) -> Value:
        """x in another shape whose first `kept` sizes are those of x, whatever they are."""
        if x.shape == tuple(shape):
            return x
        if prod(x.shape) != prod(shape):
            raise ModelError(f"{_sizes(x.shape)} does not fit into {_sizes(shape)}")
        target = [0] * kept + [*shape[kept:]]
        return self.node("Reshape", x, self.constant(target, np.int64), shape=shape)


Recipe = Callable[[Layer, Message], Value | list[Value]]
"""(layer, its own settings) -> its tops."""


def _without_ones(shape: Sequence[int]) -> list[int]:
    found = list(shape)
    while found and found[0] == 1:
        del found[0]
    return found


def _sizes(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "a scalar"


# Convolution and pooling --------------------------------------------------------------------------


def _spatial(one: Message, name: str, rank: int, default: int | None, least: int) -> list[int]:
    """A setting of each spatial axis: given once, once an axis, or as _h and _w."""
    found = one.integers(name, least)
    stem = name.removesuffix("_size")
    sides = [one.integer(f"{stem}_{side}", -1, least) for side in "hw"] if rank == 2 else []
    if any(side >= 0 for side in sides):
        if found or (min(sides) < 0 and default is None):
            raise ModelError(f"{name}, {stem}_h and {stem}_w: set {name}, or both others")
        return [side if side >= 0 else int(default or 0) for side in sides]
    if not found and default is not None:
        return [default] * rank
    if len(found) not in (1, rank):
        raise ModelError(f"{name} is set {len(found)} times for {rank} spatial axes")
    return found * (rank if len(found) == 1 else 1)


def _convolved(layer: Layer, one: Message, x: Value, weight: Sequence[int], **more: Any) -> Value:
    """The common part of both convolutions. weight: shape of the first blob, in front of the kernel."""
    rank = len(x.shape) - 2
    if rank < 1 or layer.axis(one, "axis", 1, len(x.shape)) != 1:
        raise ModelError(f"convolves {_sizes(x.shape)} along other axes than those behind axis 1")
    count = one.integer("num_output", 0, 1)
    kernel = _spatial(one, "kernel_size", rank, None, 1)
    stride = _spatial(one, "stride", rank, 1, 1)
    pad = _spatial(one, "pad", rank, 0, 0)
    dilation = _spatial(one, "dilation", rank, 1, 1)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    sides = zip(x.shape[2:], reach, stride, pad, strict=True)
    if more.pop("transposed"):
        sizes = [(n - 1) * s + r - 2 * p for n, r, s, p in sides]
    else:
        sizes = [(n + 2 * p - r) // s + 1 for n, r, s, p in sides]
    inputs = [x, layer.constant(layer.blob(0, [*weight, *kernel]))]
    if one.flag("bias_term", True):
        inputs.append(layer.constant(layer.blob(1, [count])))
    return layer.node(
        more.pop("op_type"), *inputs, shape=[x.shape[0], count, *sizes], kernel_shape=kernel,
        strides=stride, pads=pad * 2, dilations=dilation, **more,
    )  # fmt: skip


def _groups(one: Message, channels: int, depthwise: bool) -> tuple[int, int]:
    """Number of groups, and of outputs."""
    count = one.integer("num_output", 0, 1)
    group = one.integer("group", channels if depthwise else 1, 1)
    if channels % group or count % group or count == 0:
        raise ModelError(
            f"{channels} channels and {count} outputs (num_output) are no multiples of {group} groups"
        )
    return group, count


def _convolution(layer: Layer, one: Message, depthwise: bool = False) -> Value:
    x = layer.x
    group, count = _groups(one, _channels(x), depthwise)
    weight = [count, _channels(x) // group]
    return _convolved(layer, one, x, weight, op_type="Conv", transposed=False, group=group)


_depthwise = partial(_convolution, depthwise=True)


def _deconvolution(layer: Layer, one: Message) -> Value:
    x = layer.x
    group, count = _groups(one, _channels(x), False)
    weight = [_channels(x), count // group]
    return _convolved(layer, one, x, weight, op_type="ConvTranspose", transposed=True, group=group)


def _channels(x: Value) -> int:
    if len(x.shape) < 2:
        raise ModelError(f"reads {_sizes(x.shape)}, which has no axis of channels")
    return x.shape[1]


def _pooling(layer: Layer, one: Message) -> Value:
    """Windows as Caffe counts them (PoolingLayer::Reshape): rounded up, none that begins in the padding behind
    the image. An average is divided by the part of its window that is within image and padding.
    """
    x = layer.x
    if len(x.shape) != 4:
        raise ModelError(f"pools {_sizes(x.shape)}, four axes are needed")
    kind = one.word("pool", {"MAX": "Max", "0": "Max", "AVE": "Average", "1": "Average"}, "Max")
    pad, stride = _spatial(one, "pad", 2, 0, 0), _spatial(one, "stride", 2, 1, 1)
    if one.flag("global_pooling", False):
        if pad != [0, 0] or stride != [1, 1]:
            raise ModelError("global_pooling with pad or stride, which Caffe refuses too")
        return layer.node(f"Global{kind}Pool", x, shape=[*x.shape[:2], 1, 1])
    kernel = _spatial(one, "kernel_size", 2, None, 1)
    # settings of forks
    up = one.word("round_mode", {"CEIL": True, "0": True, "FLOOR": False, "1": False}, True)
    up = one.flag("ceil_mode", up)
    sizes, beyond = [], []
    for n, k, s, p in zip(x.shape[2:], kernel, stride, pad, strict=True):
        if p >= k:
            raise ModelError(f"pad {p} is not less than kernel {k}, which Caffe refuses too")
        size = (-(-(n + 2 * p - k) // s) if up else (n + 2 * p - k) // s) + 1
        size -= p > 0 and (size - 1) * s >= n + p
        if (size - 1) * s >= n + p:
            raise ModelError(
                f"its last window of {k} rows begins behind the {n} rows that there are"
            )
        sizes.append(size)
        beyond.append(max(0, (size - 1) * s + k - n - p))
    shape = [*x.shape[:2], *sizes]
    settings = {"kernel_shape": kernel, "strides": stride, "pads": [*pad, *beyond]}
    if kind == "Max":
        return layer.node("MaxPool", x, shape=shape, **settings)
    if all(b <= p for b, p in zip(beyond, pad, strict=True)):
        return layer.node("AveragePool", x, shape=shape, count_include_pad=1, **settings)
    # a window that reaches beyond the padding is divided by less: the padding becomes part of the image
    if any(pad):
        padded = [n + 2 * p for n, p in zip(x.shape[2:], pad, strict=True)]
        sides = layer.constant([0, 0, *pad] * 2, np.int64)
        x = layer.node("Pad", x, sides, shape=[*x.shape[:2], *padded])
        behind = [max(0, b - p) for b, p in zip(beyond, pad, strict=True)]
        settings["pads"] = [0, 0, *behind]
    return layer.node("AveragePool", x, shape=shape, **settings)


# Normalization ------------------------------------------------------------------------------------


def _lrn(layer: Layer, one: Message) -> Value:
    x, size = layer.x, one.integer("local_size", 5, 1)
    alpha, beta = one.number("alpha", 1.0), one.number("beta", 0.75)
    k = one.number("k", 1.0)
    if size % 2 == 0:
        raise ModelError(f"local_size is {size}, which Caffe refuses too; it is odd")
    across = {"ACROSS_CHANNELS": True, "0": True, "WITHIN_CHANNEL": False, "1": False}
    if one.word("norm_region", across, True):
        return layer.node("LRN", x, size=size, alpha=alpha, beta=beta, bias=k)
    if len(x.shape) != 4:
        raise ModelError(f"WITHIN_CHANNEL of {_sizes(x.shape)}, four axes are needed")
    # LRNLayer::WithinChannelForward: x (1 + alpha mean(x x))^-beta, k plays no part
    half = size // 2
    mean = layer.node(
        "AveragePool", layer.node("Mul", x, x), kernel_shape=[size] * 2, pads=[half] * 4,
        strides=[1, 1], count_include_pad=1,
    )  # fmt: skip
    scale = _affine(layer, mean, alpha, 1.0)
    return layer.node("Mul", x, layer.node("Pow", scale, layer.constant(-beta)))


def _batch_norm(layer: Layer, one: Message) -> Value:
    x = layer.x
    if not one.flag("use_global_stats", True):
        raise ModelError(
            "use_global_stats is false: it normalizes by the batch at hand; remove the setting to use the stored averages"
        )
    channels, eps = _channels(x), one.number("eps", 1e-5)
    if len(layer.blobs) != 3:
        raise ModelError(
            f"has {len(layer.blobs)} blobs in the .caffemodel; mean, variance and their factor are needed"
        )
    factor = float(layer.blob(2, [1])[0])
    share = np.float32(0 if factor == 0 else 1 / factor)
    mean, variance = (layer.blob(i, [channels]) * share for i in (0, 1))
    more = [np.ones(channels), np.zeros(channels), mean, variance]
    return layer.node("BatchNormalization", x, *map(layer.constant, more), epsilon=eps)


def _normalize(layer: Layer, one: Message) -> Value:
    """SSD's: x / sqrt(sum of squares + eps), times a scale."""
    x = layer.x
    if len(x.shape) != 4:
        raise ModelError(f"normalizes {_sizes(x.shape)}, four axes are needed")
    axes = [1, 2, 3] if one.flag("across_spatial", True) else [1]
    reduced = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    squares = layer.node("Mul", x, x)
    total = layer.node(
        "ReduceSum", squares, layer.constant(axes, np.int64), shape=reduced, keepdims=1
    )
    norm = layer.node("Sqrt", _affine(layer, total, 1.0, one.number("eps", 1e-10)))
    shared = one.flag("channel_shared", True)
    scale = layer.blob(0, [1] if shared else [_channels(x)])
    return layer.node("Mul", layer.node("Div", x, norm), layer.constant(scale.reshape(-1, 1, 1)))


# Elementwise --------------------------------------------------------------------------------------


def _plain(op_type: str) -> Recipe:
    return lambda layer, one: layer.node(op_type, layer.x)


def _affine(layer: Layer, x: Value, scale: float, shift: float) -> Value:
    x = x if scale == 1 else layer.node("Mul", x, layer.constant(scale))
    return x if shift == 0 else layer.node("Add", x, layer.constant(shift))


def _relu(layer: Layer, one: Message) -> Value:
    slope = one.number("negative_slope", 0.0)
    if slope == 0:
        return layer.node("Relu", layer.x)
    return layer.node("LeakyRelu", layer.x, alpha=slope)


def _prelu(layer: Layer, one: Message) -> Value:
    x = layer.x
    slope = layer.blob(0, [1 if one.flag("channel_shared", False) else _channels(x)])
    return layer.node("PRelu", x, layer.constant(slope.reshape(-1, *[1] * (len(x.shape) - 2))))


def _power(layer: Layer, one: Message) -> Value:
    power = one.number("power", 1.0)
    x = _affine(layer, layer.x, one.number("scale", 1.0), one.number("shift", 0.0))
    return x if power == 1 else layer.node("Pow", x, layer.constant(power))


def _base(one: Message) -> float:
    """The natural logarithm of the base, which is e unless it is set."""
    base = one.number("base", -1.0)
    if base == -1:
        return 1.0
    if base <= 0 or base == 1:
        raise ModelError(f"base is {base}, not a positive number other than 1")
    return log(base)


def _exp(layer: Layer, one: Message) -> Value:
    base, shift = _base(one), one.number("shift", 0.0)
    if abs(base * shift) > 80:
        raise ModelError(f"shift is {shift}: the factor that it is has no float32")
    power = layer.node("Exp", _affine(layer, layer.x, base * one.number("scale", 1.0), 0.0))
    return _affine(layer, power, exp(base * shift), 0.0)


def _log(layer: Layer, one: Message) -> Value:
    x = _affine(layer, layer.x, one.number("scale", 1.0), one.number("shift", 0.0))
    return _affine(layer, layer.node("Log", x), 1 / _base(one), 0.0)


def _elu(layer: Layer, one: Message) -> Value:
    return layer.node("Elu", layer.x, alpha=one.number("alpha", 1.0))


def _relu6(layer: Layer, one: Message) -> Value:
    return layer.node("Clip", layer.x, layer.constant(0.0), layer.constant(6.0))


def _eltwise(layer: Layer, one: Message) -> Value:
    values = layer.values(2, MAX_INT)
    names = {"PROD": "Mul", "0": "Mul", "SUM": "Add", "1": "Add", "MAX": "Max", "2": "Max"}
    op_type = one.word("operation", names, "Add")
    factors = one.numbers("coeff")
    if factors and (op_type != "Add" or len(factors) != len(values)):
        raise ModelError(
            f"has {len(factors)} coeff for {len(values)} bottoms; SUM takes one for each"
        )
    for value in values:
        if value.shape != values[0].shape:
            raise ModelError(f"joins {_sizes(values[0].shape)} with {_sizes(value.shape)}")
    if factors:
        values = [_affine(layer, *pair, 0.0) for pair in zip(values, factors, strict=True)]
    found = values[0]
    for value in values[1:]:
        found = layer.node(op_type, found, value)
    return found


def _operand(layer: Layer, one: Message) -> tuple[Value, Shape]:
    """What a Scale or a Bias applies along its axis, the second bottom or the first blob; the sizes of the axes."""
    x, *others = layer.values(1, 2)
    rank = len(x.shape)
    axis = layer.axis(one, "axis", 1, rank)
    if others:
        (other,) = others
        end = axis + len(other.shape)
        if other.shape != x.shape[axis:end]:
            raise ModelError(
                f"applies {_sizes(other.shape)} to {_sizes(x.shape)} from axis {axis} on"
            )
        shape = [*other.shape, *[1] * (rank - end)]
        return layer.reshaped(other, shape, min(1, len(other.shape))), other.shape
    count = one.integer("num_axes", 1, -1)
    end = rank if count == -1 else axis + count
    if end > rank or (axis == 0 and count != 0):
        raise ModelError(
            f"axis {axis} and num_axes {count} of {_sizes(x.shape)}; axes behind axis 0 are supported"
        )
    sizes = x.shape[axis:end]
    return layer.constant(layer.blob(0, sizes).reshape(*sizes, *[1] * (rank - end))), sizes


def _scale(layer: Layer, one: Message) -> Value:
    operand, sizes = _operand(layer, one)
    found = layer.node("Mul", layer.bottoms[0], operand)
    if not one.flag("bias_term", False):
        return found
    index = 2 - len(layer.bottoms)  # the scale is a blob only where it is no bottom
    return layer.node("Add", found, layer.constant(layer.blob(index, sizes).reshape(operand.shape)))


def _bias(layer: Layer, one: Message) -> Value:
    return layer.node("Add", layer.bottoms[0], _operand(layer, one)[0])


def _axpy(layer: Layer, one: Message) -> Value:
    a, x, y = layer.values(3)
    a = layer.reshaped(a, [*x.shape[:2], 1, 1])
    if x.shape != y.shape:
        raise ModelError(f"adds {_sizes(y.shape)} to {_sizes(x.shape)}")
    return layer.node("Add", layer.node("Mul", x, a), y)


# Sizes of images ----------------------------------------------------------------------------------


def _resized(
    layer: Layer, x: Value, sizes: Sequence[int], mode: str, coordinates: str, **more: Any
) -> Value:
    """Rows and columns in these numbers."""
    none, wanted = Value("", ()), layer.constant(sizes, np.int64)
    return layer.node(
        "Resize", x, none, none, wanted, shape=[*x.shape[:2], *sizes], axes=[2, 3], mode=mode,
        coordinate_transformation_mode=coordinates, **more,
    )  # fmt: skip


def _upsample(layer: Layer, one: Message) -> Value:
    x, scale = layer.x, one.integer("scale", 0, 1)
    if len(x.shape) != 4 or not scale:
        raise ModelError(f"scales {_sizes(x.shape)} by {scale}; four axes and scale are needed")
    sizes = [n * scale for n in x.shape[2:]]
    return _resized(layer, x, sizes, "nearest", "asymmetric", nearest_mode="floor")


def _interp(layer: Layer, one: Message) -> Value:
    x, shrink, zoom = layer.x, one.integer("shrink_factor", 0, 1), one.integer("zoom_factor", 0, 1)
    begin, end = (one.integer(name, 0, -MAX_INT) for name in ("pad_beg", "pad_end"))
    if len(x.shape) != 4 or begin > 0 or end > 0:
        raise ModelError(
            f"pads {_sizes(x.shape)} by {begin} and {end}; four axes, and cutting off, are possible"
        )
    sizes = [n + begin + end for n in x.shape[2:]]
    if begin or end:
        stops = [n + end for n in x.shape[2:]]
        bounds = (layer.constant(a, np.int64) for a in ([-begin] * 2, stops, [2, 3]))
        x = layer.node("Slice", x, *bounds, shape=[*x.shape[:2], *sizes])
    if shrink:
        sizes = [(n - 1) // shrink + 1 for n in sizes]
    if zoom:
        sizes = [n + (n - 1) * (zoom - 1) for n in sizes]
    if not (shrink or zoom):
        sizes = [one.integer(name, 0, 1) for name in ("height", "width")]
    return _resized(layer, x, sizes, "linear", "align_corners")


def _prior_box(layer: Layer, one: Message) -> Value:
    """Boxes around each pixel, in parts of the image, and their variances: constants of the sizes alone."""
    x, image = layer.values(2)
    if len(x.shape) != 4 or len(image.shape) != 4:
        raise ModelError(f"reads {_sizes(x.shape)} and {_sizes(image.shape)}, four axes are needed")
    least, most = one.numbers("min_size"), one.numbers("max_size")
    if not least or min(least) <= 0 or len(most) not in (0, len(least)):
        raise ModelError(
            f"has {len(least)} min_size and {len(most)} max_size; sizes above 0, and as many or no max_size, are needed"
        )
    flip, ratios = one.flag("flip", True), [1.0]
    for ratio in one.numbers("aspect_ratio"):
        if ratio <= 0:
            raise ModelError(f"aspect_ratio is {ratio:g}, not above 0")
        if all(abs(ratio - other) >= 1e-6 for other in ratios):
            ratios += [ratio, 1 / ratio] if flip else [ratio]
    boxes: list[tuple[float, float]] = []
    for k, size in enumerate(map(int, least)):  # PriorBoxLayer cuts sizes to whole numbers
        middle = sqrt(size * int(most[k])) if most else 0.0
        if most and most[k] <= least[k]:
            raise ModelError(f"max_size {most[k]:g} is not above min_size {least[k]:g}")
        boxes += [(size, size), *([(middle, middle)] if most else ())]
        boxes += [(size * sqrt(ratio), size / sqrt(ratio)) for ratio in ratios[1:]]
    shape = (1, 2, prod(x.shape[2:]) * len(boxes) * 4)
    layer.check_constant(shape)
    corners = []
    for place, side in enumerate("hw"):
        n, whole = x.shape[2 + place], one.integer("img_size", 0, 1)
        whole = one.integer(f"img_{side}", whole, 1) or image.shape[2 + place]
        step = one.number(f"step_{side}", one.number("step", 0.0)) or whole / n
        centre = (np.arange(n) + one.number("offset", 0.5))[:, None] * step
        half = np.array([box[1 - place] for box in boxes]) / 2
        corners.append([(centre + sign * half) / whole for sign in (-1, 1)])
    grid = np.broadcast_arrays(
        *(part for k in (0, 1) for part in (corners[1][k][None], corners[0][k][:, None]))
    )
    found = np.stack(grid, -1).reshape(-1)
    variance = one.numbers("variance") or [0.1]
    if len(variance) not in (1, 4) or min(variance) <= 0:
        raise ModelError(f"has {len(variance)} variance; one or four above 0 are needed")
    found = np.clip(found, 0, 1) if one.flag("clip", False) else found
    spread = np.resize(np.array(variance), found.size)
    return layer.node("Identity", layer.constant(np.stack([found, spread])[None]))


# Sequences and places -----------------------------------------------------------------------------


def _lstm(layer: Layer, one: Message) -> Value:
    """LSTMLayer and LSTMUnitLayer: gates i, f, o, g; where cont is 0 a sequence begins, from states of zero. So does that of
    the first step, since no state outlives a frame.
    """
    x, cont, *static = layer.values(2, 3)
    if len(x.shape) < 3 or cont.shape != x.shape[:2]:
        raise ModelError(
            f"reads {_sizes(x.shape)} with cont of {_sizes(cont.shape)}; steps x sequences x values, and cont of steps x "
            "sequences, are needed"
        )
    if one.flag("expose_hidden", False):
        raise ModelError("expose_hidden is true: states as blobs are not supported")
    size, (steps, count) = one.integer("num_output", 0, 1), x.shape[:2]
    gates, wide = 4 * size, prod(x.shape[2:])
    layer.check_constant((count, size))
    weight, bias = layer.blob(0, [gates, wide]), layer.blob(1, [gates])
    x = layer.reshaped(x, [steps, count, wide], 2)
    x = layer.node("MatMul", x, layer.constant(weight.T), shape=[steps, count, gates])
    x = layer.node("Add", x, layer.constant(bias))
    for other in static:
        wide = prod(other.shape[1:])
        more = layer.constant(layer.blob(2, [gates, wide]).T)
        other = layer.reshaped(other, [count, wide])
        x = layer.node("Add", x, layer.node("MatMul", other, more, shape=[count, gates]))
    step = replace(layer, made=replace(layer.made, nodes=[], constants=[]))
    ins = [Value(layer.made.free(f"{layer.name}/step"), (count, n)) for n in (size, size, gates, 1)]
    h, c, now, kept = ins
    recurrent = step.constant(layer.blob(2 + len(static), [gates, size]).T)
    h = step.node("MatMul", step.node("Mul", h, kept), recurrent, shape=(count, gates))
    parts = step.constant([size] * 4, np.int64)
    i, f, o, g = step.split(
        "Split", step.node("Add", now, h), parts, shapes=[(count, size)] * 4, axis=1
    )
    i, f, o = (step.node("Sigmoid", gate) for gate in (i, f, o))
    c = step.node("Mul", f, step.node("Mul", c, kept))
    c = step.node("Add", c, step.node("Mul", i, step.node("Tanh", g)))
    h = step.node("Mul", o, step.node("Tanh", c))
    reads, makes = (
        [helper.make_tensor_value_info(v.name, onnx.TensorProto.FLOAT, v.shape) for v in values]
        for values in (ins, (h, c, step.node("Identity", h)))
    )
    body = helper.make_graph(step.made.nodes, "step", reads, makes, step.made.constants)
    zero = layer.constant(np.zeros((count, size)))
    begun = layer.reshaped(cont, [steps, count, 1], 2)
    shapes = [(count, size), (count, size), (steps, count, size)]
    return layer.split("Scan", zero, zero, x, begun, shapes=shapes, body=body, num_scan_inputs=2)[2]


def _arg_max(layer: Layer, one: Message) -> Value:
    """Positions of the largest values, as float32; of equal ones the last comes first (ArgMaxLayer sorts pairs)."""
    x, count, valued = layer.x, one.integer("top_k", 1, 1), one.flag("out_max_val", False)
    flat, shape = "axis" not in one, x.shape
    axis = layer.axis(one, "axis", min(1, len(shape) - 1), len(shape))
    if flat:
        x, axis = layer.reshaped(x, [shape[0], prod(shape[1:])]), 1
    size, made = x.shape[axis], [*x.shape[:axis], count, *x.shape[axis + 1 :]]
    if count > size:
        raise ModelError(f"top_k is {count} of {size} values")
    back = (layer.constant([n], np.int64) for n in (-1, -MAX_INT, axis, -1))
    turned = layer.node("Slice", x, *back)
    values, places = layer.split(
        "TopK", turned, layer.constant([count], np.int64), shapes=[made, made], axis=axis
    )
    last = layer.node("Sub", layer.constant(size - 1, np.int64), places, shape=made)
    found = layer.node("Cast", last, to=onnx.TensorProto.FLOAT)
    if not flat:
        return values if valued else found
    both = [
        layer.reshaped(value, [shape[0], 1, count, *[1] * (len(shape) - 3)])
        for value in ((found, values) if valued else (found,))
    ]
    return both[0] if len(both) == 1 else layer.node(
        "Concat", *both, shape=[shape[0], 2, *both[0].shape[2:]], axis=1
    )  # fmt: skip


# Shapes -------------------------------------------------------------------------------------------


def _inner_product(layer: Layer, one: Message) -> Value:
    x = layer.x
    axis, count = layer.axis(one, "axis", 1, len(x.shape)), one.integer("num_output", 0, 1)
    if axis == 0:
        raise ModelError("axis is 0: it joins the images of a batch")
    size = prod(x.shape[axis:])
    across = one.flag("transpose", False)
    weight = layer.blob(0, [size, count] if across else [count, size])
    inputs = [layer.constant(weight if across else weight.T)]
    x = layer.reshaped(x, [*x.shape[:axis], size], axis)
    biased = one.flag("bias_term", True)
    bias = [layer.constant(layer.blob(1, [count]))] if biased else []
    shape = [*x.shape[:axis], count]
    if axis == 1:
        return layer.node("Gemm", x, *inputs, *bias, shape=shape)
    found = layer.node("MatMul", x, *inputs, shape=shape)
    return layer.node("Add", found, *bias) if bias else found


def _softmax(layer: Layer, one: Message) -> Value:
    return layer.node("Softmax", layer.x, axis=layer.axis(one, "axis", 1, len(layer.x.shape)))


def _concat(layer: Layer, one: Message) -> Value:
    values = layer.values(1, MAX_INT)
    shape = list(values[0].shape)
    axis = layer.axis(one, "concat_dim" if "concat_dim" in one else "axis", 1, len(shape))
    for value in values:
        if len(value.shape) != len(shape) or any(
            a != b for i, (a, b) in enumerate(zip(value.shape, shape, strict=True)) if i != axis
        ):
            raise ModelError(f"joins {_sizes(shape)} with {_sizes(value.shape)} along axis {axis}")
    shape[axis] = sum(value.shape[axis] for value in values)
    return values[0] if len(values) == 1 else layer.node("Concat", *values, shape=shape, axis=axis)


def _slice(layer: Layer, one: Message) -> list[Value]:
    x = layer.x
    axis = layer.axis(one, "slice_dim" if "slice_dim" in one else "axis", 1, len(x.shape))
    size, tops = x.shape[axis], layer.tops
    points = one.integers("slice_point", 1)
    if not points:
        points = [size // tops * (k + 1) for k in range(tops - 1)] if size % tops == 0 else []
    ends = [0, *points, size]
    parts = [b - a for a, b in pairwise(ends)]
    if len(parts) != tops or min(parts) < 1:
        raise ModelError(
            f"axis {axis} of {_sizes(x.shape)} in {tops} tops at {points or 'equal parts'}"
        )
    if tops == 1:
        return [x]
    shapes = [[*x.shape[:axis], part, *x.shape[axis + 1 :]] for part in parts]
    return layer.split("Split", x, layer.constant(parts, np.int64), shapes=shapes, axis=axis)


def _flatten(layer: Layer, one: Message) -> Value:
    x, rank = layer.x, len(layer.x.shape)
    first, last = layer.axis(one, "axis", 1, rank), layer.axis(one, "end_axis", -1, rank)
    if first > last:
        raise ModelError(f"axis {first} is behind end_axis {last}")
    shape = [*x.shape[:first], prod(x.shape[first : last + 1]), *x.shape[last + 1 :]]
    return layer.reshaped(x, shape, first)


def _reshape(layer: Layer, one: Message) -> Value:
    x, rank = layer.x, len(layer.x.shape)
    axis = one.integer("axis", 0, -MAX_INT)
    axis += rank + 1 if axis < 0 else 0
    count = one.integer("num_axes", -1, -1)
    end = rank if count == -1 else axis + count
    if not 0 <= axis <= end <= rank:
        raise ModelError(f"axis {axis} and num_axes {count} are not within {_sizes(x.shape)}")
    dims = one.message("shape").integers("dim", -1)
    if any(size == 0 and axis + place >= rank for place, size in enumerate(dims)):
        raise ModelError(
            f"a dim of 0 takes the size of an axis that {_sizes(x.shape)} does not have"
        )
    sizes = [x.shape[axis + place] if size == 0 else size for place, size in enumerate(dims)]
    shape = [*x.shape[:axis], *sizes, *x.shape[end:]]
    if shape.count(-1) == 1:
        rest = -prod(shape)
        shape[shape.index(-1)] = prod(x.shape) // rest
    if -1 in shape:
        raise ModelError("more than one dim is -1")
    same = bool(shape) and shape[0] == x.shape[0]
    return layer.reshaped(x, shape, 1 if same else 0)


def _permute(layer: Layer, one: Message) -> Value:
    x, rank = layer.x, len(layer.x.shape)
    order = one.integers("order")
    order += [axis for axis in range(rank) if axis not in order]
    if sorted(order) != list(range(rank)):
        raise ModelError(f"order {order} is no permutation of {rank} axes")
    return layer.node("Transpose", x, shape=[x.shape[axis] for axis in order], perm=order)


def _crop(layer: Layer, one: Message) -> Value:
    x, like = layer.values(2)
    rank = len(x.shape)
    axis, offsets = layer.axis(one, "axis", 2, rank), one.integers("offset")
    if len(like.shape) != rank or len(offsets) not in (0, 1, rank - axis):
        raise ModelError(
            f"crops {_sizes(x.shape)} to {_sizes(like.shape)} by {len(offsets)} offsets"
        )
    starts = offsets if len(offsets) == rank - axis else (offsets or [0]) * (rank - axis)
    ends = [a + n for a, n in zip(starts, like.shape[axis:], strict=True)]
    if any(end > size for end, size in zip(ends, x.shape[axis:], strict=True)):
        raise ModelError(
            f"crops {_sizes(x.shape)} to {_sizes(like.shape)} from {starts} on, beyond its end"
        )
    bounds = (layer.constant(one, np.int64) for one in (starts, ends, range(axis, rank)))
    return layer.node("Slice", x, *bounds, shape=[*x.shape[:axis], *like.shape[axis:]])


def _shuffle(layer: Layer, one: Message) -> Value:
    x, group = layer.x, one.integer("group", 1, 1)
    batch, channels, *rest = x.shape
    if _channels(x) % group:
        raise ModelError(f"{channels} channels are no multiple of {group} groups")
    parts = layer.reshaped(x, [batch, group, channels // group, *rest])
    order = [0, 2, 1, *range(3, len(parts.shape))]
    turned = [parts.shape[axis] for axis in order]
    return layer.reshaped(layer.node("Transpose", parts, shape=turned, perm=order), x.shape)


def _dropout(layer: Layer, one: Message) -> Value:
    if not one.flag("scale_train", True):
        raise ModelError(
            "scale_train is false, which scales in the test phase; use a Power layer with scale"
        )
    return layer.x


def _same(layer: Layer, one: Message) -> list[Value]:
    return [layer.x] * layer.tops


RECIPES: Mapping[str, tuple[str, Recipe]] = {
    "AbsVal": ("", _plain("Abs")),
    "ArgMax": ("argmax_param", _arg_max),
    "Axpy": ("", _axpy),
    "BNLL": ("", _plain("Softplus")),
    "BatchNorm": ("batch_norm_param", _batch_norm),
    "Bias": ("bias_param", _bias),
    "Concat": ("concat_param", _concat),
    "Convolution": ("convolution_param", _convolution),
    "ConvolutionDepthwise": ("convolution_param", _depthwise),
    "Crop": ("crop_param", _crop),
    "Deconvolution": ("convolution_param", _deconvolution),
    "DepthwiseConvolution": ("convolution_param", _depthwise),
    "Dropout": ("dropout_param", _dropout),
    "ELU": ("elu_param", _elu),
    "Eltwise": ("eltwise_param", _eltwise),
    "Exp": ("exp_param", _exp),
    "Flatten": ("flatten_param", _flatten),
    "InnerProduct": ("inner_product_param", _inner_product),
    "Interp": ("interp_param", _interp),
    "LRN": ("lrn_param", _lrn),
    "LSTM": ("recurrent_param", _lstm),
    "Log": ("log_param", _log),
    "Normalize": ("norm_param", _normalize),
    "PReLU": ("prelu_param", _prelu),
    "Permute": ("permute_param", _permute),
    "Pooling": ("pooling_param", _pooling),
    "Power": ("power_param", _power),
    "PriorBox": ("prior_box_param", _prior_box),
    "ReLU": ("relu_param", _relu),
    "ReLU6": ("relu_param", _relu6),
    "Reshape": ("reshape_param", _reshape),
    "Scale": ("scale_param", _scale),
    "ShuffleChannel": ("shuffle_channel_param", _shuffle),
    "Sigmoid": ("", _plain("Sigmoid")),
    "Slice": ("slice_param", _slice),
    "Softmax": ("softmax_param", _softmax),
    "Split": ("", _same),
    "TanH": ("", _plain("Tanh")),
    "Upsample": ("upsample_param", _upsample),
}
"""Type -> the field with its settings, and what it computes."""

REFUSED: Mapping[str, str] = {
    "DetectionOutput": "its number of boxes depends on the image; end the network in front of it",
    "Python": "it runs a Python program; replace it by layers of Caffe",
}
"""Types that are known and not supported, with the way out."""
