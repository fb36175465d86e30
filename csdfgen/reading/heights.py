"""How is a network read again for images of another height?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from csdfgen.errors import InputError, ModelError
from csdfgen.model.network import Network, Shape, Tensor
from csdfgen.reading.loader import load


def read_heights(source: Any, network: Network) -> Callable[[int], Network]:
    """The network that was read from a source, by the rows of its first input. Other inputs have rows in proportion.

    Raises ModelError for a network whose first input has no rows.
    """
    first = network.inputs[0] if network.inputs else None
    if first is None or first.row_axis is None:
        raise ModelError("no image streams: the first input has no rows", where=network.source)

    def at(rows: int) -> Network:
        shapes = {tensor.name: _shape(tensor, rows, first.rows) for tensor in network.inputs}
        if all(shapes[tensor.name] == tensor.shape for tensor in network.inputs):
            return network
        return load(source, shapes=shapes, fix=_fixed(network))

    return at


def _shape(tensor: Tensor, rows: int, of: int) -> Shape:
    axis = tensor.row_axis
    if axis is None:
        return tensor.shape
    scaled, rest = divmod(tensor.rows * rows, of)
    if rest:
        raise InputError(f"an image of {rows} rows has no whole number of rows in '{tensor.name}'")
    return (*tensor.shape[:axis], scaled, *tensor.shape[axis + 1 :])


def _fixed(network: Network) -> Mapping[str, Any] | None:
    return dict(network.fixed) or None
