"""Which shape does each network input have, and along which axis are its rows?

Free sizes come from `--shape` and `--batch`. The first spatial operator that slides along an input
decides which axis its rows are: an image in NCHW has its rows along axis 2; one in NHWC is transposed
before the first convolution, and its axes are followed through the operations in front of it
(docs/model.md: a tensor without rows is one row).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from numbers import Integral
from operator import index
from types import MappingProxyType
from typing import TypeGuard

import onnx

from csdfgen.errors import ModelError, option, shape_option
from csdfgen.files import quote
from csdfgen.model.network import Network, Shape
from csdfgen.ops import OPERATORS
from csdfgen.ops.base import MICROSOFT
from csdfgen.reading.onnx_file import label
from csdfgen.reading.onnx_graph import Constants, Graph, GraphInput, Operation
from csdfgen.reading.onnx_tensor import MAX_RANK
from csdfgen.reading.scanned import scan_axis

AskedShape = Sequence[int] | str
"""Sizes as numbers, (1, 3, 224, 224), or as text, "1x3x224x224"."""

AskedShapes = Mapping[str, AskedShape] | AskedShape
"""Shapes by the name of their input; where there is one input, also its shape alone."""

ShapeOf = Callable[[str, Shape | None], Shape | None]
"""(name of an input, the shape that the file declares, None for none) -> the shape that it gets."""

_EXAMPLE_SIZES = (1, 3, 224, 224)
"""A shape such as may be asked for."""

_EXAMPLE_SIZE = 224
"""Rows and columns of an image in an example of a shape for an input."""

_SIDES = 2
"""Sizes of an image in a file: rows and columns."""

_IMAGE_RANK = 4
"""Of images, and of an input that is declared without a shape, for its example."""


Examples = Mapping[str, Shape]
"""Input name -> sizes for where the file leaves them free: a whole shape, or rows and columns of an image. "": of the only
input.
"""


def input_shapes(
    graph: Graph,
    asked: AskedShapes,
    batch: int | None,
    examples: Examples = MappingProxyType({}),
    rows: int | None = None,
) -> dict[str, Shape]:
    """Input name -> its shape. asked and batch: see `loader.load`. rows: how many, where the file leaves it free.

    Raises ModelError for sizes that stay free (but for the leading one, which is then 1), of all
    inputs at once, a name that is no input, a rank that differs from the declared one, a shape that is none or absurdly
    large, and one shape where there are several inputs.
    """
    inputs = graph.inputs
    shapes = _by_name(inputs, asked)
    unknown = [name for name in shapes if name not in {i.name for i in inputs}]
    if unknown:
        raise ModelError(f"'{label(unknown[0])}' is not an input; the inputs are {_known(inputs)}")
    if batch is not None and not (isinstance(batch, Integral) and batch >= 1):
        raise ModelError(f"a batch of {batch!r} images is not possible, at least 1 is needed")
    if len(inputs) == 1 and "" in examples:
        examples = {inputs[0].name: examples[""], **examples}
    sizes = {
        i.name: _fill(graph, i.name, _dims(i, shapes.get(i.name), batch), examples, rows)
        for i in inputs
    }
    known = {name: dims for name, dims in sizes.items() if _all_known(dims)}
    free = [i for i in inputs if i.name not in known]
    if free:
        raise _free_sizes(free, {i.name: _example(graph, i.name, sizes[i.name]) for i in free})
    return known


def resolve_wanted_shapes(asked: AskedShapes | None, batch: int | None) -> ShapeOf:
    """What an input will be asked for, by its name and the shape that its file declares (None for none), for models
    that are made for certain shapes. What is wrong with them is refused by `input_shapes` later.
    """

    def wanted(name: str, declared: Shape | None) -> Shape | None:
        given = asked.get(name) if isinstance(asked, Mapping) else asked
        found = declared if given is None else _sizes(asked or {}, given)
        if found is None or (declared is not None and len(found) != len(declared)):
            return declared
        if batch is not None and len(found) > 1:
            found = (batch, *found[1:])
        return found if min(found, default=1) >= 1 else declared

    return wanted


def declare_shapes(model: onnx.ModelProto, network: Network, names: Collection[str]) -> None:
    """Give inputs of a model the shapes with which it was loaded, and drop what it claims of other tensors. A
    model whose constants fix one image keeps it. names: of the inputs.
    """
    tensors = {tensor.name: tensor for tensor in network.inputs if tensor.name in names}
    for entry in model.graph.input:
        tensor = tensors.get(entry.name)
        if tensor is None:
            continue
        dims = entry.type.tensor_type.shape.dim
        del dims[:]
        for size in tensor.shape if network.lifted else network.whole_shape(tensor):
            dims.add().dim_value = size
    del model.graph.value_info[:]
    for entry in model.graph.output:
        if entry.type.HasField("tensor_type"):  # an output may be declared by its name alone
            entry.type.tensor_type.ClearField("shape")


def _known(inputs: Sequence[GraphInput]) -> str:
    return label(", ".join(f"{i.name}={_text(i.dims)}" for i in inputs) or "none", 200)


def _by_name(inputs: Sequence[GraphInput], asked: AskedShapes) -> dict[str, Shape]:
    """What is asked for, by input name, as numbers."""
    if isinstance(asked, Mapping):
        return {str(name): _sizes(asked, sizes) for name, sizes in asked.items()}
    if len(inputs) != 1:
        raise ModelError(
            f"one shape for {len(inputs)} inputs; give shapes by name, the inputs are {_known(inputs)}"
        )
    return {inputs[0].name: _sizes(asked, asked)}


def _sizes(asked: AskedShapes, sizes: AskedShape) -> Shape:
    """
    >>> _sizes({}, "1x3x8x8"), _sizes({}, [1, 4])
    ((1, 3, 8, 8), (1, 4))
    """
    try:
        parts = sizes.lower().replace(",", "x").split("x") if isinstance(sizes, str) else sizes
        return tuple(int(part) if isinstance(part, str) else index(part) for part in parts)
    except (TypeError, ValueError):
        raise ModelError(
            f"{option('shapes', asked)}: {quote(sizes)} is no shape; sizes such as "
            f"{_EXAMPLE_SIZES} or '{_text(_EXAMPLE_SIZES)}' are needed"
        ) from None


def _dims(
    info: GraphInput, given: Shape | None, batch: int | None
) -> tuple[int | None, ...] | None:
    """The sizes of an input as declared or given, None where they stay free; None for no shape at all."""
    dims = info.dims
    if given is not None:
        where = f"input '{label(info.name)}'"
        if dims is not None and len(given) != len(dims):
            raise ModelError(
                f"has {len(dims)} dimensions ({_text(dims)}), {option('shapes')} gives {len(given)} ({_text(given)})",
                where=where,
            )
        if len(given) > MAX_RANK or min(given, default=1) < 1:
            raise ModelError(
                f"cannot have shape {_text(given)}; every size is at least 1", where=where
            )
        dims = given
    if dims and batch is not None and (len(dims) > 1 or dims[0] is None):
        dims = (batch, *dims[1:])
    return None if dims is None else tuple(dims)


def _fill(
    graph: Graph,
    name: str,
    dims: tuple[int | None, ...] | None,
    examples: Examples,
    rows: int | None,
) -> tuple[int | None, ...] | None:
    """Sizes with those of an example where they are free, and one image."""
    example = examples.get(name, ())
    if dims is None:
        return example if _SIDES < len(example) <= MAX_RANK and min(example) > 0 else None
    found: dict[int | None, int | None] = {0: 1}
    if len(example) == len(dims):
        found |= enumerate(size or None for size in example)
    elif len(example) == _SIDES:
        _, _, sides = find_image_axes(graph, name, len(dims)) or (None, None, ())
        found |= zip(sorted(sides), example, strict=False)
    if rows is not None:
        found[find_row_axis(graph, name, len(dims))] = rows
    return tuple(found.get(k) if size is None else size for k, size in enumerate(dims))


def _all_known(dims: tuple[int | None, ...] | None) -> TypeGuard[Shape]:
    return dims is not None and None not in dims


def _free_sizes(
    free: Sequence[GraphInput], examples: Mapping[str, Sequence[int | str]]
) -> ModelError:
    """What to give inputs whose sizes the file leaves open; examples: of each, a shape with "N" for what only the user
    can know.
    """
    options = shape_option({label(name): sizes for name, sizes in examples.items()})
    if len(free) > 1:
        return ModelError(
            f"inputs have dynamic dimensions ({_known(free)}); set them with {options}"
        )
    where = f"input '{label(free[0].name)}'"
    if free[0].dims is None:
        return ModelError(f"has no shape; set it with {options}", where=where)
    return ModelError(
        f"has dynamic dimensions ({_text(free[0].dims)}); set them with {options}", where=where
    )


def _example(graph: Graph, name: str, dims: Sequence[int | None] | None) -> Sequence[int | str]:
    """A shape for an input, with "N" where only the user can know; dims None: no shape is declared."""
    found = find_image_axes(graph, name, _IMAGE_RANK if dims is None else len(dims))
    axis, channels, sides = found or (None, None, frozenset[int]())
    if dims is None:
        if channels is None:  # not even the rank is certain
            return ("N", "N", "...")
        dims = (1, *[None] * (_IMAGE_RANK - 1))
    sizes = [_EXAMPLE_SIZE if d is None and k in sides else d for k, d in enumerate(dims)]
    if axis is not None and sizes[axis] is None:
        sizes[axis] = channels
    return ["N" if d is None else d for d in sizes]


def _text(dims: Sequence[int | None] | None) -> str:
    """
    >>> _text((1, 3, None))
    '1x3x?'
    """
    if dims is None:
        return "?"
    return label("x".join("?" if d is None else str(d) for d in dims) or "scalar")


# Axes --------------------------------------------------------------------------------------------


_AxisMap = tuple[int | None, ...]
"""For each axis of a tensor, the axis of the network input that it is; None for one that was added.
"""

_SPATIAL_NAMES = """
    AveragePool BatchNormalization Conv ConvTranspose DepthToSpace GlobalAveragePool GlobalLpPool GlobalMaxPool
    ConvInteger GroupNormalization InstanceNormalization LRN LpPool MaxPool QLinearAveragePool QLinearConv
    QLinearGlobalAveragePool Resize SpaceToDepth Upsample
"""
_SPATIAL = frozenset(_SPATIAL_NAMES.split())
"""Operators whose axes are batch, channel, rows, …"""

_RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
"""Operators whose rows are time steps."""

_AXIS_KEEPING_NAMES = """
    Concat CumProd CumSum DynamicQuantizeLinear LayerNormalization LogSoftmax LpNormalization MeanVarianceNormalization Pad
    QLinearConcat RMSNormalization Slice Softmax Split
"""
_AXIS_KEEPING = frozenset(_AXIS_KEEPING_NAMES.split()) | {
    k for k, one in OPERATORS.items() if one.pointwise
}
"""Operators whose result has the axes of its operand, in the same order."""

_WEIGHTS = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "QLinearConv": 3}
"""Convolutions, and where their weights are among their inputs."""

_DEFAULTS = {_IMAGE_RANK: 2}
"""By rank, where no spatial operator says otherwise: NCHW has its rows along axis 2, others have
none.
"""


def find_row_axis(graph: Graph, name: str, rank: int) -> int | None:
    """The axis of a network input that holds its rows, None for none. The first spatial operator
    decides.
    """
    found = _first_spatial(graph, name, rank)
    return _DEFAULTS.get(rank) if found is None else found[1][2]


def find_image_axes(
    graph: Graph, name: str, rank: int
) -> tuple[int | None, int | None, frozenset[int]] | None:
    """What the first spatial operator makes of an input that is an image: the axis of its channels,
    how many they are (None: not known), and the axes of its rows and columns. None where no such
    operator tells.
    """
    found = _first_spatial(graph, name, rank)
    if found is None or len(found[1]) != _IMAGE_RANK:
        return None
    operation, axes = found
    sides = frozenset(axis for axis in axes[2:] if axis is not None)
    return axes[1], _channels(operation, graph.constants), sides


def _channels(operation: Operation, constants: Constants) -> int | None:
    """How many channels a convolution of an image takes, by its weights; None for any other
    operation.
    """
    place = _WEIGHTS.get(operation.op_type, len(operation.inputs))
    weights = operation.inputs[place] if len(operation.inputs) > place else ""
    if weights not in constants:
        return None
    shape = constants[weights].shape
    if len(shape) != _IMAGE_RANK:
        return None
    group = operation.attributes["group"].i if "group" in operation.attributes else 1
    channels = shape[0] if operation.op_type == "ConvTranspose" else shape[1] * group
    return channels if channels > 0 else None


def _first_spatial(graph: Graph, name: str, rank: int) -> tuple[Operation, _AxisMap] | None:
    """The first operation that slides over an input, and the input's axes as it sees them; None
    where there is none, or the axes cannot be followed to it.
    """
    maps: dict[str, _AxisMap] = {name: tuple(range(rank))}
    for operation in graph.operations:
        position = next((k for k, n in enumerate(operation.inputs) if n in maps), None)
        if position is None or operation.domain not in ("", MICROSOFT):
            continue
        axes = maps[operation.inputs[position]]
        if operation.op_type in _SPATIAL:
            if len(axes) in (3, 4, 5):
                return operation, axes
            continue
        if operation.op_type in _RECURRENT and position == 0 and len(axes) == 3:
            steps, batch, values = axes
            if "layout" in operation.attributes and operation.attributes["layout"].i:
                batch, steps, values = axes
            return operation, (batch, values, steps)
        if (
            operation.op_type == "Scan"
            and (rows := _scanned(operation, position, len(axes))) is not None
        ):
            return operation, (None, None, axes[rows])
        moved = _moved(operation, axes, graph.constants)
        if moved is not None:
            maps.update((output, moved) for output in operation.outputs if output)
    return None


def _scanned(operation: Operation, position: int, rank: int) -> int | None:
    """The axis of an operand of a Scan along which turns read it; None for a state, and where they go backwards."""
    scanned = operation.attributes["num_scan_inputs"].i
    number = position - len(operation.inputs) + scanned
    found = scan_axis(operation, "input", number, scanned, rank) if number >= 0 else None
    return found[0] if found and not found[1] else None


def _moved(operation: Operation, axes: _AxisMap, constants: Constants) -> _AxisMap | None:
    """The axes behind an operation; None where they cannot be followed."""
    if operation.op_type in _AXIS_KEEPING:
        return axes
    if operation.op_type == "MatMul" and operation.inputs[1] in constants and len(axes) > 2:
        return (*axes[:-1], None)  # other values at each position
    follow = _FOLLOWED.get(operation.op_type)
    return None if follow is None else follow(axes, _axes_operand(operation, constants))


def _axes_operand(operation: Operation, constants: Constants) -> Sequence[int] | None:
    """`perm` or `axes`: an attribute, or an initializer."""
    for key in ("perm", "axes"):
        if key in operation.attributes:
            return tuple(operation.attributes[key].ints)
    operand = operation.inputs[1] if len(operation.inputs) > 1 else ""
    return tuple(int(v) for v in constants[operand].reshape(-1)) if operand in constants else None


def _transposed(axes: _AxisMap, perm: Sequence[int] | None) -> _AxisMap | None:
    perm = tuple(range(len(axes)))[::-1] if perm is None else perm
    return tuple(axes[p] for p in perm) if sorted(perm) == list(range(len(axes))) else None


def _unsqueezed(axes: _AxisMap, added: Sequence[int] | None) -> _AxisMap | None:
    if added is None:
        return None
    rank = len(axes) + len(added)
    new = {a % rank for a in added}
    rest = iter(axes)
    return tuple(None if k in new else next(rest, None) for k in range(rank))


def _squeezed(axes: _AxisMap, dropped: Sequence[int] | None) -> _AxisMap | None:
    if dropped is None:
        return None
    gone = {a % max(1, len(axes)) for a in dropped}
    return tuple(a for k, a in enumerate(axes) if k not in gone)


_FOLLOWED: Mapping[str, Callable[[_AxisMap, Sequence[int] | None], _AxisMap | None]] = {
    "Squeeze": _squeezed,
    "Transpose": _transposed,
    "Unsqueeze": _unsqueezed,
}
