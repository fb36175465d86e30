"""How many rows does a phase of each layer work on? What is asked for, read and settled per actor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType

from csdfgen.model.by_layer import ROWS, ByLayer, Spec
from csdfgen.model.network import Layer, Network, Tensor
from csdfgen.model.units import counted
from csdfgen.ops import operator_of
from csdfgen.ops.base import Mode, height_along

__all__ = [
    "AUTO_PIXELS",
    "AskedRows",
    "RowSpec",
    "auto_height",
    "parse_rows",
    "slab_heights",
    "with_low_ends",
]

_DOUBLED = (1, 7)
"""The least of the heights that are worth trying, which are these doubled again and again."""

_LISTED = 3
"""Layers with rows of their own that are named."""

AUTO_PIXELS = 64
"""Output pixels that a phase has at `auto`: matrix products run near full speed, buffers stay small
(docs/model.md).
"""


@dataclass(frozen=True)
class RowSpec(Spec):
    """Slab heights as asked for, `layers` by the names of layers and inputs.

    "auto" and "whole" say themselves; "paper" is a phase for every row of output (docs/model.md),
    so that a layer which could accumulate over the rows of its input has them all at once.
    """

    wording = ROWS
    general: int | str = "auto"

    def height(self, name: str, tensor: Tensor, total: int) -> int | tuple[int, ...]:
        """Rows a phase, as `rows.slabs` takes them, of actor `name` whose phases cut `total` rows
        of `tensor`.
        """
        value = self.layers.get(name, self.general)
        if isinstance(value, tuple):
            return value
        if value == "whole":
            return max(1, total)
        if value == "auto":
            return min(total, auto_height(tensor))
        return 1 if value == "paper" else min(total, int(value))

    def check_names(self, network: Network) -> None:
        """Refuse names that are no layer of the network."""
        known = [layer.name for layer in network.layers] + [t.name for t in network.inputs]
        ROWS.check_names(self.layers, known)

    @property
    def brief(self) -> str:
        """As people read it: many layers are counted, not listed."""
        if len(self.layers) <= _LISTED:
            return str(self)
        return f"{self.general} ({counted(len(self.layers), 'layer differs', 'layers differ')})"


AskedRows = ByLayer | RowSpec
"""What `parse_rows` reads."""


def parse_rows(rows: AskedRows) -> RowSpec:
    """A row specification from `4`, `"auto"`, `"whole"`, `"paper"`, `"conv1=4,conv2=whole"`,
    `"1,conv1=4"` or `"image=24+8"`; or from a mapping `{"conv1": 4, "image": (24, 8), "*": 1}`, in
    which "*" is all other layers ("auto" without it).

    "24+8" is a first phase of 24 rows and phases of 8 behind it. A comma in the name of a layer is
    written "\\," in a text, as it is in a mapping. Raises InputError.

    >>> str(parse_rows("2,conv1=whole,image=24+8"))
    '2,conv1=whole,image=24+8'
    >>> str(parse_rows({"conv1": "whole", "image": (24, 8), "*": 2}))
    '2,conv1=whole,image=24+8'
    """
    general, layers = ROWS.read(rows)
    return rows if isinstance(rows, RowSpec) else RowSpec(general, layers)


def auto_height(tensor: Tensor) -> int:
    """Rows that hold about `AUTO_PIXELS` pixels of a tensor, at least one.

    >>> auto_height(Tensor("x", (1, 64, 28, 28), row_axis=2)), auto_height(Tensor("x", (1, 28, 28, 64), row_axis=1))
    (2, 2)
    """
    axis = tensor.row_axis
    if axis is None:
        return 1
    behind = tensor.shape[axis + 1 :]
    if axis == 1 and len(behind) > 1:
        behind = behind[:-1]  # channels last
    return max(1, round(AUTO_PIXELS / max(1, prod(behind))))


def layer_height(spec: RowSpec, layer: Layer) -> tuple[int | tuple[int, ...], int]:
    """(rows a phase, rows in all) of a layer: of its output, or of the input that it accumulates
    over.
    """
    operator = operator_of(layer)
    mode = operator.mode(layer)
    if mode is Mode.WHOLE:
        return max(1, layer.output.rows), layer.output.rows
    if mode is Mode.ROWS:
        return spec.height(layer.name, layer.output, layer.output.rows), layer.output.rows
    position = operator.accumulate_over
    tensor = layer.inputs[position]
    assert tensor is not None
    rows = height_along(tensor, layer.input_axes[position])
    if spec.layers.get(layer.name, spec.general) == "paper":
        return rows, rows
    return spec.height(layer.name, tensor, rows), rows


def with_low_ends(spec: RowSpec, network: Network) -> RowSpec:
    """What is asked for, but no higher than "auto" where values become smaller elements behind an
    input, or larger ones before an output; and where an input is read by such a layer alone.

    Otherwise an image of float32 would lie beside its bytes, and be most of what an int8 network
    holds at "whole". Who names the layer gets what he asks for.
    """
    more: dict[str, Tensor] = {}
    for layer in network.layers:
        if _narrows_an_input(network, layer):
            x = layer.inputs[0]
            assert x is not None
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
    """Whether a layer makes smaller elements of an input, row by row (QuantizeLinear does)."""
    x = layer.inputs[0]
    if x is None or x.name in network.producer:
        return False
    return _changes_elements(layer) and layer.output.itemsize < x.itemsize


def _widens_an_output(network: Network, layer: Layer) -> bool:
    """Whether a layer makes an output of smaller elements, row by row (DequantizeLinear does), that
    nothing else reads.
    """
    x, y = layer.inputs[0], layer.output
    if x is None or y.name not in network.output_tensors or network.readers[y.name]:
        return False
    return _changes_elements(layer) and y.itemsize > x.itemsize


def _changes_elements(layer: Layer) -> bool:
    return (
        len(layer.outputs) == 1
        and sum(tensor is not None for tensor in layer.inputs) == 1
        and operator_of(layer).rowwise
    )


def slab_heights(network: Network) -> list[int]:
    """Slab heights that are worth trying: 1, 2, 4, ... and between them 7, 14, ..., which divide the maps
    of most networks; all below its tallest tensor.
    """
    tallest = max((tensor.rows for tensor in network.tensors.values()), default=1)
    doubled = (first << times for first in _DOUBLED for times in range(tallest.bit_length()))
    return sorted(rows for rows in doubled if rows < max(2, tallest))
