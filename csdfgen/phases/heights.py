"""How many rows, and of how many images, does a phase of each layer compute?

A layer computes rows of one image in a phase, or several whole images at a time (paper 000: the batch of a layer).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType

from csdfgen.model.by_layer import BATCHES, ROWS, ByLayer, Spec
from csdfgen.model.network import Layer, Network, Tensor
from csdfgen.model.units import pluralize
from csdfgen.ops import get_operator
from csdfgen.ops.base import Mode

_DOUBLED = (1, 7)
"""The smallest of the heights that are worth trying; the others are their doubles."""

_LISTED = 3
"""Most layers with their own rows that a summary names."""

AUTO_PIXELS = 64
"""Output pixels of a phase at `auto`: fast products, and small buffers (docs/model.md)."""

LOW_PIXELS = 16
"""Output pixels below which `halve_heights` makes no phase lower: kernels lose too much speed."""

BOARD_PIXELS = 12
"""Output pixels of a phase where constants are in flash: as many as kernels for Cortex-M55 make bytes of at a time."""

MOST_PHASES = 128
"""Phases of a layer whose rows have fewer pixels than that: tokens, or samples of a signal. More would cost
time, of planning too, and save little. Heights that are given are kept.
"""


@dataclass(frozen=True)
class RowSpec(Spec):
    """Slab heights as requested. layers: by the names of layers and inputs.

    "auto" is about `AUTO_PIXELS` pixels, "whole" all rows. "paper" is a phase for every row of output (docs/model.md), so
    that a layer which could accumulate over the rows of its input gets all of them at once.
    """

    wording = ROWS
    general: int | str = "auto"

    def height(self, name: str, tensor: Tensor, total: int) -> int | tuple[int, ...]:
        """Rows a phase, as `rows.slabs` takes them, of actor `name`, whose phases divide `total` rows of `tensor`."""
        value = self.layers.get(name, self.general)
        if isinstance(value, tuple):
            return value
        if value == "whole":
            return max(1, total)
        if value == "auto":
            return min(total, auto_height(tensor))
        return 1 if value == "paper" else min(total, int(value))

    def check_names(self, network: Network) -> None:
        """Raises InputError for a name that is no layer and no input of the network."""
        known = [layer.name for layer in network.layers] + [t.name for t in network.inputs]
        ROWS.check_names(self.layers, known)

    @property
    def brief(self) -> str:
        """A summary, in which many layers are counted instead of listed."""
        if len(self.layers) <= _LISTED:
            return str(self)
        return f"{self.general} ({pluralize(len(self.layers), 'layer differs', 'layers differ')})"


@dataclass(frozen=True)
class BatchSpec(Spec):
    """Images a phase as requested: `general` is a number or "all"."""

    wording = BATCHES
    general: int | str = 1

    def groups(self, name: str, frames: int) -> tuple[int, ...]:
        """Images of each group of a layer, of `frames` in all; the last group has the rest.

        >>> parse_batches("2,fc=all,conv=3+1").groups("fc", 5), parse_batches("2").groups("fc", 5)
        ((5,), (2, 2, 1))
        >>> parse_batches("conv=3+1").groups("conv", 6)
        (3, 1, 1, 1)
        """
        asked = self.layers.get(name, self.general)
        sizes = asked if isinstance(asked, tuple) else (frames if asked == "all" else int(asked),)
        found: list[int] = []
        left = frames
        while left:
            found.append(min(left, sizes[min(len(found), len(sizes) - 1)]))
            left -= found[-1]
        return tuple(found)

    def check_names(self, network: Network) -> None:
        """Raises InputError for a name that is no layer of the network."""
        BATCHES.check_names(self.layers, [layer.name for layer in network.layers])


AskedRows = ByLayer | RowSpec
"""What `parse_rows` reads."""


def parse_rows(rows: AskedRows) -> RowSpec:
    """A row specification from `4`, `"auto"`, `"whole"`, `"paper"`, `"conv1=4,conv2=whole"`,
    `"1,conv1=4"` or `"image=24+8"`; or from a mapping `{"conv1": 4, "image": (24, 8), "*": 1}`, in
    which "*" stands for all other layers ("auto" without it).

    "24+8" is a first phase of 24 rows and then phases of 8. In a text, a comma in the name of a layer is written
    "\\,". Raises InputError.

    >>> str(parse_rows("2,conv1=whole,image=24+8"))
    '2,conv1=whole,image=24+8'
    >>> str(parse_rows({"conv1": "whole", "image": (24, 8), "*": 2}))
    '2,conv1=whole,image=24+8'
    """
    general, layers = ROWS.read(rows)
    return rows if isinstance(rows, RowSpec) else RowSpec(general, layers)


AskedBatches = ByLayer | BatchSpec
"""What `parse_batches` reads."""


def parse_batches(batches: AskedBatches) -> BatchSpec:
    """A specification from `4`, `"all"`, `"1,fc6=16,conv5=6+2"`, or a mapping `{"fc6": 16, "*": 1}`, in which "*" stands
    for all other layers (1 without it). Raises InputError.

    >>> str(parse_batches({"fc6": "all", "conv5": (6, 2)}))
    '1,conv5=6+2,fc6=all'
    """
    return batches if isinstance(batches, BatchSpec) else BatchSpec(*BATCHES.read(batches))


def auto_height(tensor: Tensor, pixels: int = AUTO_PIXELS) -> int:
    """Rows that hold about so many pixels of a tensor, at least one, and no less than a search tries.

    >>> auto_height(Tensor("x", (1, 64, 28, 28), row_axis=2)), auto_height(Tensor("x", (1, 28, 28, 64), row_axis=1))
    (2, 2)
    >>> auto_height(Tensor("x", (1, 196, 192), row_axis=1)), auto_height(Tensor("x", (1, 1, 64000), row_axis=2))
    (64, 500)
    """
    return max(_least_height(tensor), round(pixels / _pixels(tensor)))


def _pixels(tensor: Tensor) -> int:
    """Pixels of a row: positions along the axes behind the row axis, but for that of channels which are last."""
    axis = tensor.row_axis
    behind = () if axis is None else tensor.shape[axis + 1 :]
    if axis in (0, 1):
        behind = behind[:-1]  # channels last
    return prod(behind)


def _least_height(tensor: Tensor) -> int:
    """Rows of a phase, of which there are no more than `MOST_PHASES` where rows are small."""
    return 1 if _pixels(tensor) >= AUTO_PIXELS else -(-tensor.rows // MOST_PHASES)


def least_auto_height(tensor: Tensor, pixels: int = AUTO_PIXELS) -> int:
    """Rows of a phase at `auto`, of about so many pixels, that do not depend on the rows of the tensor.

    >>> least_auto_height(Tensor("x", (1, 1, 64000), row_axis=2))
    64
    """
    assert tensor.row_axis is not None
    shape = [1 if k == tensor.row_axis else size for k, size in enumerate(tensor.shape)]
    return auto_height(replace(tensor, shape=tuple(shape)), pixels)


def layer_height(spec: RowSpec, layer: Layer) -> tuple[int | tuple[int, ...], int]:
    """(rows a phase, rows in all) of the output of a layer, or of the input that it accumulates over."""
    mode = get_operator(layer).mode(layer)
    tensor = divided_tensor(layer)
    if mode is Mode.WHOLE:
        return max(1, tensor.rows), tensor.rows
    if mode is Mode.ACCUMULATE and spec.layers.get(layer.name, spec.general) == "paper":
        return tensor.rows, tensor.rows
    return spec.height(layer.name, tensor, tensor.rows), tensor.rows


def divided_tensor(layer: Layer) -> Tensor:
    """What the phases of a layer divide: its output, or the input that it accumulates over, as it is read."""
    operator = get_operator(layer)
    if operator.mode(layer) is not Mode.ACCUMULATE:
        return _with_channels_last(layer)
    tensor = layer.computed(operator.accumulate_over)
    return replace(tensor, row_axis=layer.input_axes[operator.accumulate_over])


def _with_channels_last(layer: Layer) -> Tensor:
    """The output. That of a product of matrices, or of a normalization of its last axis, has channels there, whichever
    its row axis is; then the other axes are pixels.
    """
    output = layer.output
    axis, last = output.row_axis, len(output.shape) - 1
    if axis is None or not 1 < axis < last:
        return output
    if layer.op_type != "MatMul" and layer.attributes.get("axes") != (last,):
        return output
    pixels = prod(output.shape[1:axis]) * prod(output.shape[axis + 1 : last])
    return replace(output, shape=(1, output.rows, pixels, output.shape[last]), row_axis=1)


def lowest_heights(network: Network, rows: int = 1) -> RowSpec:
    """So many rows a phase, more where rows are so small that there would be too many phases."""
    divided = _divided_tensors(network)
    low = {name: least for name, t in divided.items() if (least := _least_height(t)) > rows}
    return RowSpec(rows, MappingProxyType(low))


def join_heights(network: Network, alone: Iterable[tuple[Network, RowSpec]]) -> RowSpec:
    """The heights of several networks that are one, as each has them alone."""
    known = {tensor.name for tensor in network.inputs} | {layer.name for layer in network.layers}
    found: dict[str, int | tuple[int, ...] | str] = {}
    for member, (one, asked) in zip(network.members, alone, strict=True):
        spec = lower_ends(asked, one)
        own = {t.name: spec.height(t.name, t, t.rows) for t in one.inputs}
        own |= {layer.name: layer_height(spec, layer)[0] for layer in one.layers}
        for prefix in member.prefixes:
            found |= {f"{prefix}{name}": height for name, height in own.items()}
    return RowSpec(
        "auto", MappingProxyType({name: height for name, height in found.items() if name in known})
    )


def _divided_tensors(network: Network) -> dict[str, Tensor]:
    """What is computed or read in phases, by the names of inputs and layers."""
    found = {tensor.name: tensor for tensor in network.inputs}
    return found | {layer.name: divided_tensor(layer) for layer in network.layers}


def halve_heights(spec: RowSpec, network: Network, names: Iterable[str]) -> RowSpec:
    """The request with half the rows a phase for the layers and inputs of these names, but no lower than about
    `LOW_PIXELS` pixels; equal to `spec` if all of them are as low as that.
    """
    divided = {tensor.name: tensor for tensor in network.inputs}
    divided |= {
        layer.name: divided_tensor(layer)
        for layer in network.layers
        if get_operator(layer).mode(layer) is not Mode.WHOLE
    }
    low = {}
    for name in sorted(divided.keys() & set(names)):
        tensor = divided[name]
        rows, least = spec.height(name, tensor, tensor.rows), auto_height(tensor, LOW_PIXELS)
        if isinstance(rows, int) and rows > least:
            low[name] = max(least, -(-rows // 2))
    return replace(spec, layers=MappingProxyType({**spec.layers, **low}))


def board_heights(network: Network) -> RowSpec:
    """The heights of `auto`, but about `BOARD_PIXELS` pixels where these are fewer."""
    low = {}
    for name, tensor in _divided_tensors(network).items():
        rows = auto_height(tensor, BOARD_PIXELS)
        if rows < auto_height(tensor):
            low[name] = rows
    return RowSpec(layers=MappingProxyType(low))


def lower_ends(spec: RowSpec, network: Network) -> RowSpec:
    """The request with heights of at most "auto" for layers that convert an input into smaller elements, or an output
    into larger ones, and for inputs that only such a layer reads.

    Otherwise an int8 network at "whole" would hold an image as float32 and as bytes, and most of its memory would be the
    former. Heights that the request gives to these layers by name are kept.
    """
    more: dict[str, Tensor] = {}
    for layer in network.layers:
        if _narrows_an_input(network, layer):
            x = layer.computed(0)
            more[layer.name] = layer.output
            if len(network.readers[x.name]) == 1:
                more[x.name] = x
        elif _widens_an_output(network, layer):
            more[layer.name] = layer.output
    asked = spec.general
    low = {
        name: "auto"
        for name, tensor in more.items()
        if asked == "whole" or (isinstance(asked, int) and asked > auto_height(tensor))
    }
    return replace(spec, layers=MappingProxyType({**low, **spec.layers})) if low else spec


def _narrows_an_input(network: Network, layer: Layer) -> bool:
    """Whether a layer converts an input into smaller elements, row by row (as QuantizeLinear does)."""
    x = layer.inputs[0]
    if x is None or x.name in network.producer:
        return False
    return _changes_elements(layer) and layer.output.itemsize < x.itemsize


def _widens_an_output(network: Network, layer: Layer) -> bool:
    """Whether a layer makes an output from smaller elements, row by row (as DequantizeLinear does), that no layer reads."""
    x, y = layer.inputs[0], layer.output
    if x is None or y.name not in network.output_tensors or network.readers[y.name]:
        return False
    return _changes_elements(layer) and y.itemsize > x.itemsize


def _changes_elements(layer: Layer) -> bool:
    return (
        len(layer.outputs) == 1
        and sum(tensor is not None for tensor in layer.inputs) == 1
        and get_operator(layer).rowwise
    )


def slab_heights(network: Network) -> list[int]:
    """Slab heights that are worth trying, below the rows of the tallest tensor: 1, 2, 4, ... and 7, 14, ..., which
    divide the maps of most networks.
    """
    tallest = max((tensor.rows for tensor in network.tensors.values()), default=1)
    doubled = (first << times for first in _DOUBLED for times in range(tallest.bit_length()))
    return sorted(rows for rows in doubled if rows < max(2, tallest))
