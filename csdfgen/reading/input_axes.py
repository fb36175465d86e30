"""Which axis of a network input are its rows? The one that the first spatial operator slides along.

An image that comes as NCHW has its rows along axis 2. One that comes as NHWC is transposed before
the first convolution: following its axes through what stands before that convolution tells where
the rows come from. (docs/model.md: a tensor without rows is one row.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from csdfgen.ops.base import MICROSOFT
from csdfgen.reading.onnx_graph import Constants, Graph, Operation

__all__ = ["image_axes_of_input", "row_axis_of_input"]

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

_AXIS_KEEPING_NAMES = """
    Abs Add Cast Ceil Clip Concat DequantizeLinear Div Dropout DynamicQuantizeLinear Elu Erf Exp Floor Gelu HardSigmoid
    HardSwish Identity LeakyRelu Log Max Mean Min Mul Neg PRelu Pad Pow QLinearAdd QLinearConcat QLinearLeakyRelu QLinearMul
    QLinearSigmoid QuantizeLinear Reciprocal Relu Selu Sigmoid Slice Softplus Softsign Split Sqrt Sub Sum Swish Tanh Where
"""
_AXIS_KEEPING = frozenset(_AXIS_KEEPING_NAMES.split())
"""Operators whose result has the axes of its operand, in the same order."""

_IMAGE_RANK = 4

_WEIGHTS = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "QLinearConv": 3}
"""Convolutions, and where their weights are among their inputs."""

_DEFAULTS = {_IMAGE_RANK: 2}
"""By rank, where no spatial operator says otherwise: NCHW has its rows along axis 2, others have
none.
"""


def row_axis_of_input(graph: Graph, name: str, rank: int) -> int | None:
    """The axis of a network input that holds its rows, None for none. The first spatial operator
    decides.
    """
    found = _first_spatial(graph, name, rank)
    return _DEFAULTS.get(rank) if found is None else found[1][2]


def image_axes_of_input(
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
        moved = _moved(operation, axes, graph.constants)
        if moved is not None:
            maps.update((output, moved) for output in operation.outputs if output)
    return None


def _moved(operation: Operation, axes: _AxisMap, constants: Constants) -> _AxisMap | None:
    """The axes behind an operation; None where they cannot be followed."""
    if operation.op_type in _AXIS_KEEPING:
        return axes
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
