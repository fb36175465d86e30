"""May the images of a batch run one after another? Only where no layer combines images.

A network is built for N images and for one. If every tensor has shape (N, *rest) in the first and
(1, *rest) in the second, and every layer has the same constants and settings in both, then no layer
reduces, moves or joins images (that would change a shape). The remaining candidates are layers whose
result has the shape of a batch although they mix its images: those whose settings concern axis 0.

Transformers move images from axis 0 (Transpose) and join them with windows or heads (Reshape), where `image_axes` follows
them. Inputs and outputs have them along axis 0 alone.

Exporters write the batch that they saw, 1, into operands: the target of a Reshape, the sizes of a
Resize, the end of a Slice, a constant that a Concat joins to every image, or that a ScatterElements
writes into. `lift_node` changes such a node to one of N images. Whether the model then does the same
to each image is not known there: the network built from lifted nodes is compared with the one for
one image, layer by layer.

The other way round, exporters write into the same operands the N images that they saw, and then nothing builds for one.
`lower_node` changes such a node to one of a single image, and the same comparison says whether that is what each image is done.

Nothing needs to be lifted where a 1 is broadcast: an Expand to 1, operands of arithmetic, a Tile
by 1. What computes only constants (ConstantOfShape, Shape and the operations behind them) has been
evaluated; its result counts where a node of the table reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.model.network import Layer, Network, Node, Tensor
from csdfgen.ops import OPERATORS, get_operator
from csdfgen.reading.image_axes import RECURRENT, ImageAxes, are_shifted, is_separable_gather
from csdfgen.reading.onnx_file import label


def repeat_images(single: Network, batch: int, *, lifted: bool = False) -> Network:
    """`single` for `batch` images that are known not to touch each other."""
    return replace(single, batch=batch, lifted=lifted)


def obstacle(whole: Network, single: Network, batch: int) -> str | None:
    """Why the images cannot run one after another: the first layer that mixes them, or is not
    known not to; None if they can.
    """
    if single.bounded:
        return f"what '{label(next(iter(single.bounded)))}' finds is counted for all of them"
    if not all(_same_tensor(a, b, batch) for a, b in zip(whole.inputs, single.inputs, strict=True)):
        return f"its inputs are not those of {batch} images"
    places = ImageAxes(batch)
    for a, b in zip(whole.layers, single.layers, strict=False):
        found = _difference(a, b, batch, places)
        if found is not None:
            return f"layer '{a.name}' ({label(a.op_type)}) {found}"
    if len(whole.layers) != len(single.layers):
        return f"it has {len(whole.layers)} layers for {batch} images, {len(single.layers)} for one"
    for one, other in zip(whole.outputs, single.outputs, strict=True):
        if one.tensor is None or other.tensor is None:
            return f"output '{label(one.name)}' is a constant, of no image"
        if not _same_tensor(one.tensor, other.tensor, batch):
            return f"output {_moved(one.tensor, other.tensor, batch)}"
    return None


def _same_tensor(whole: Tensor, single: Tensor, batch: int) -> bool:
    return (
        whole.name == single.name
        and whole.dtype == single.dtype
        and whole.shape[:1] == (batch,)
        and single.shape == (1, *whole.shape[1:])
    )


def _difference(whole: Layer, single: Layer, batch: int, places: ImageAxes) -> str | None:
    """What keeps a layer from being the same one for every image, None for nothing."""
    if (
        whole.op_type != single.op_type
        or len(whole.outputs) != len(single.outputs)
        or [t and t.name for t in whole.inputs] != [t and t.name for t in single.inputs]
    ):
        return f"is another one for {batch} images than for one"
    found = _mixes_images(whole, single, batch)
    if found is not None and not places.keep(whole, single):
        return f"mixes them: {found}"
    constants, settings = whole.constants, whole.attributes
    same = (
        constants.keys() == single.constants.keys()
        and settings.keys() == single.attributes.keys()
        and all(
            _same_constant(constants[k], single.constants[k], whole.output, batch)
            or (k in _states(whole.op_type) and _is_state(constants[k], single.constants[k], batch))
            for k in constants
        )
        and (
            all(_same_setting(settings[k], single.attributes[k], batch) for k in settings)
            or is_separable_gather(whole, single, batch)
        )
    )
    return None if same else f"has other constants or settings for {batch} images than for one"


def _mixes_images(whole: Layer, single: Layer, batch: int) -> str | None:
    """Why a layer might not compute each image along axis 0 for itself, None if it does."""
    operands = [t for t in whole.inputs if t is not None]
    pairs = [*zip(whole.inputs, single.inputs, strict=True)]
    for a, b in [*pairs, *zip(whole.outputs, single.outputs, strict=True)]:
        if a and b and not _same_tensor(a, b, batch):
            return _moved(a, b, batch)
    # Operands of different rank would have their batch axes side by side, not one on the other.
    if len({len(t.shape) for t in operands}) != 1:
        return f"operands of {', '.join(map(_text, operands))} differ in rank"
    if _looks_along_axis_0(whole):
        return f"it looks along axis 0, where there are {batch} images instead of 1"
    rule = _FOR_EACH_IMAGE.get(whole.op_type)
    known = get_operator(whole).pointwise or (rule is not None and rule(whole))
    return None if known else "it is not known to compute each image for itself"


def _moved(whole: Tensor, single: Tensor, batch: int) -> str:
    return (
        f"'{label(whole.name)}' is {_text(whole)} for {batch} images, {_text(single)} for one, "
        f"not {batch} and 1 along axis 0"
    )


def _text(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a scalar"


def _same_constant(whole: np.ndarray, single: np.ndarray, output: Tensor, batch: int) -> bool:
    """Equal, or that of one image once for every image, beside the images of the output."""
    if _same_array(whole, single):
        return True
    return (
        whole.ndim == single.ndim == len(output.shape) > 0
        and whole.shape == (batch * len(single), *single.shape[1:])
        and _repeats(whole, single)
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
    arrays = [isinstance(one, np.ndarray) for one in (whole, single)]
    if any(arrays):
        return all(arrays) and _same_array(whole, single)
    tuples = isinstance(whole, tuple) and isinstance(single, tuple) and whole and single
    if tuples and isinstance(single[0], int) and whole[0] == batch * single[0]:
        return bool(whole[1:] == single[1:])
    return bool(whole == single)


_TOUCHES_IMAGES: Mapping[str, Callable[[Any, int], bool]] = {
    "axis": lambda axis, rank: axis == 0,
    "axes": lambda axes, rank: 0 in axes,
    "pads": lambda pads, rank: len(pads) == 2 * rank and bool(pads[0] or pads[rank]),
    "scales": lambda scales, rank: len(scales) == rank and scales[0] != 1,
    "starts": lambda starts, rank: len(starts) == rank and starts[0] != 0,
    "steps": lambda steps, rank: len(steps) == rank and steps[0] != 1,
}
"""Setting -> whether it makes a layer on operands of that rank look along axis 0."""


_USUAL = """
    ArgMax ArgMin AveragePool BatchNormalization Concat Conv ConvInteger ConvTranspose CumProd CumSum DepthToSpace Expand
    Flatten Gather Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool GroupNormalization InstanceNormalization LRN
    LayerNormalization LogSoftmax LpNormalization LpPool MatMul MatMulInteger MaxPool MeanVarianceNormalization OneHot Pad
    QGemm QLinearAveragePool QLinearConcat QLinearConv QLinearGlobalAveragePool QLinearMatMul QLinearSoftmax
    RMSNormalization ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare Reshape Resize Slice Softmax SpaceToDepth Split Squeeze Tile TopK Transpose Unsqueeze
    Upsample
"""

_FOR_EACH_IMAGE: Mapping[str, Callable[[Layer], bool]] = {
    **dict.fromkeys(_USUAL.split(), lambda layer: True),
    "Expand": lambda layer: all(
        t is None or len(t.shape) == len(layer.output.shape) for t in layer.inputs
    ),
    "GatherElements": lambda layer: 0 not in layer.constants,
    "GatherND": lambda layer: 0 in layer.constants or layer.attributes.get("batch_dims", 0) > 0,
    "ScatterElements": lambda layer: all(
        constant.shape[0] == layer.output.shape[0] for constant in layer.constants.values()
    ),
}
"""Operator -> whether a layer of it computes each position along axis 0 from that of its operands, if no setting is about
that axis and shapes differ by the images alone. Constants with a position for each image change the shapes, but for data
that is gathered, and for what is scattered, at the positions of indices. All other operators may combine images.
"""


def _looks_along_axis_0(layer: Layer) -> bool:
    rank = max(len(t.shape) for t in layer.inputs if t is not None)
    return any(
        _TOUCHES_IMAGES[name](value, rank)
        for name, value in layer.attributes.items()
        if name in _TOUCHES_IMAGES and value is not None
    )


# Constants that fix one image --------------------------------------------------------------------


def lift_node(node: Node, batch: int) -> Node:
    """The node with a leading size of 1 that its constants fix made `batch`; the node itself where
    they fix none.

    Only where an operand that is computed counts `batch` along axis 0 is there anything to lift.
    """
    computed = [i for i in node.inputs if isinstance(i, Tensor)]
    rule = _RULES.get(node.op_type)
    if rule is None or not any(tensor.shape[:1] == (batch,) for tensor in computed):
        return node
    return rule(node, batch)


def _reshape(node: Node, batch: int) -> Node:
    """Its target; sizes behind the first are those of one image."""
    target = read_integers(node, 1)
    return (
        node
        if target is None or target[:1] != [1]
        else write_integers(node, 1, [batch, *target[1:]])
    )


def _resize(node: Node, batch: int, of: int = 1) -> Node:
    """The size along axis 0 of so many images, if it is given at all; factors are the same for any number of images."""
    sizes, axes = read_integers(node, 3), node.attributes.get("axes")
    if sizes is None:
        return node
    place = _place_of_axis_0(node, len(sizes), axes)
    if place is None or sizes[place] != of:
        return node
    return write_integers(node, 3, [*sizes[:place], batch, *sizes[place + 1 :]])


def _slice(node: Node, batch: int) -> Node:
    """The end of [0, 1) along axis 0: of all images there are."""
    given = [read_integers(node, k, name) for k, name in enumerate(("starts", "ends", "axes"), 1)]
    starts, ends, axes = given
    if starts is None or ends is None or len(starts) != len(ends):
        return node
    place = _place_of_axis_0(node, len(ends), axes)
    if place is None or (starts[place], ends[place]) != (0, 1):
        return node
    return write_integers(node, 2, [*ends[:place], batch, *ends[place + 1 :]], "ends")


def _joined(node: Node, batch: int) -> Node:
    """Constants for one image, joined along another axis or written into: the same one for every image."""
    axis = node.attributes.get("axis", 0)
    joined = tuple(
        i
        if i is None or isinstance(i, Tensor) or axis in (0, -i.ndim)
        else repeat_constant(i, batch)
        for i in node.inputs
    )
    changed = any(a is not b for a, b in zip(joined, node.inputs, strict=True))
    return replace(node, inputs=joined) if changed else node


def repeat_constant(constant: np.ndarray, batch: int) -> np.ndarray:
    """A constant of one image, with axis 0 of size 1, for every image; another one as it is."""
    if constant.shape[:1] != (1,):
        return constant
    return np.broadcast_to(constant, (batch, *constant.shape[1:]))


_RULES: Mapping[str, Callable[[Node, int], Node]] = {
    "Concat": _joined,
    "Reshape": _reshape,
    "Resize": _resize,
    "ScatterElements": _joined,
    "Slice": _slice,
}
"""Operators whose constants can fix a number of images, and how each is lifted."""


# Constants that fix all images -------------------------------------------------------------------


def lower_node(node: Node, batch: int, outside: Callable[[str], int]) -> Node:
    """The node with the sizes of `batch` images that its constants fix made those of one, as far as it is known where they
    are; only a comparison with the node for all images tells whether it then does the same to each. outside: how many sizes
    are outside the images in a tensor.
    """
    if node.op_type in ("Reshape", "Expand"):
        return _lowered_sizes(node, batch, outside)
    for k in _states(node.op_type):
        state = node.operand(k)
        if isinstance(state, np.ndarray) and state.ndim == 3:
            one = state[:, : state.shape[1] // batch]
            if _is_state(state, one, batch):
                node = replace(node, inputs=(*node.inputs[:k], one, *node.inputs[k + 1 :]))
    if node.op_type in ("Gather", "GatherND"):
        return _lowered_positions(node, batch)
    if node.op_type == "Resize":
        return _resize(node, 1, of=batch)
    others = ("Concat", "GatherElements", "MatMul")
    if node.op_type not in others and not OPERATORS[node.op_type].pointwise:
        return node
    shapes = [one.shape for one in node.inputs if isinstance(one, Tensor)]
    rank = max(map(len, shapes), default=0)
    count = max((shape[0] for shape in shapes if len(shape) == rank > 0), default=1)
    inputs = tuple(_of_one_image(one, rank, count, batch) for one in node.inputs)
    return replace(node, inputs=inputs)


def _of_one_image(
    operand: Tensor | np.ndarray | None, rank: int, count: int, batch: int
) -> Tensor | np.ndarray | None:
    """A constant that is the same one for all images, once. count: of positions along axis 0 that an image has."""
    if not isinstance(operand, np.ndarray) or operand.ndim != rank or not rank:
        return operand
    one = operand[:count]
    return one if len(operand) == batch * count and _repeats(operand, one) else operand


def _states(op_type: str) -> tuple[int, ...]:
    """Positions of the first hidden values of an operator, shape (directions, images, values)."""
    return (5, 6) if op_type in RECURRENT else ()


def _is_state(whole: np.ndarray, single: np.ndarray, batch: int) -> bool:
    """Whether first hidden values of all images are those of one."""
    same = whole.ndim == single.ndim == 3 and whole.shape[1] == batch * single.shape[1]
    return same and _repeats(whole.swapaxes(0, 1), single.swapaxes(0, 1))


def _repeats(whole: np.ndarray, single: np.ndarray) -> bool:
    """Whether an array is another one several times."""
    parts = whole.reshape(len(whole) // max(1, len(single)), *single.shape)
    return _same_array(parts, np.broadcast_to(single, parts.shape))


def _lowered_positions(node: Node, batch: int) -> Node:
    """The positions of the first image, if those of the others are the same ones in theirs."""
    source, given = node.operand(0), node.operand(1)
    if not isinstance(source, Tensor) or not isinstance(given, np.ndarray) or not given.ndim:
        return node
    if node.attributes.get("axis", 0) or len(given) % batch:
        return node
    apart = np.zeros(given.shape[-1] if node.op_type == "GatherND" else 1, np.int64)
    if not node.attributes.get("batch_dims", 0):
        apart[0] = source.shape[0]
    one = given[: len(given) // batch]
    return write_integers(node, 1, one) if are_shifted(given, one, batch, apart) else node


def _lowered_sizes(node: Node, batch: int, outside: Callable[[str], int]) -> Node:
    """The first size that images may be part of; nothing where the sizes are those of one image."""
    source, sizes = node.operand(0), read_integers(node, 1)
    if not isinstance(source, Tensor) or sizes is None:
        return node
    fixed = node.op_type == "Reshape" and min(sizes, default=0) > 0
    if fixed and prod(sizes) != batch * source.elements:
        return node
    before = outside(source.name)
    start = next((k for k in range(len(sizes)) if prod(sizes[: k + 1]) > before), 0)
    places = range(start, len(sizes)) if fixed else range(min(1, len(sizes)))
    at = next((k for k in places if sizes[k] > 0 and sizes[k] % batch == 0), None)
    return (
        node
        if at is None
        else write_integers(node, 1, [*sizes[:at], sizes[at] // batch, *sizes[at + 1 :]])
    )


def read_integers(node: Node, position: int, attribute: str = "") -> list[int] | None:
    """A list of integers: a constant operand, or (of an early opset) an attribute; None for
    anything else, which its operator is to judge.
    """
    if attribute in node.attributes:
        return [int(v) for v in node.attributes[attribute]]
    operand = node.operand(position)
    if not isinstance(operand, np.ndarray) or operand.ndim != 1 or operand.dtype.kind not in "iu":
        return None
    return [int(v) for v in operand]


def write_integers(
    node: Node, position: int, values: Sequence[int] | np.ndarray, attribute: str = ""
) -> Node:
    """The node with other integers where `read_integers` found them."""
    if attribute in node.attributes:
        attributes = MappingProxyType({**node.attributes, attribute: tuple(values)})
        return replace(node, attributes=attributes)
    inputs = list(node.inputs)
    inputs[position] = np.array(values, np.int64)
    return replace(node, inputs=tuple(inputs))


def _place_of_axis_0(node: Node, count: int, axes: Sequence[int] | None) -> int | None:
    """Where a list with `count` entries, one for each of `axes` (None: 0, 1, ...), speaks of axis 0
    of the first operand.
    """
    source = node.operand(0)
    if not isinstance(source, Tensor):
        return None
    named = list(range(count)) if axes is None else [int(axis) for axis in axes]
    rank = len(source.shape)
    return next((k for k, axis in enumerate(named[:count]) if axis in (0, -rank)), None)
