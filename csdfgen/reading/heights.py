"""How is a network read again for images of another height?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from csdfgen.errors import InputError, ModelError
from csdfgen.model.network import Network, Shape, Tensor
from csdfgen.reading.loader import load


def read_heights(source: Any, network: Network, *, across: int = 0) -> Callable[[int], Network]:
    """The network that was read from a source, by the rows of its first input. Other inputs have rows in proportion.

    across: axes behind that of rows, 1 for columns instead. Raises ModelError for a network whose first input has no rows.
    """
    first = network.inputs[0] if network.inputs else None
    if first is None or first.row_axis is None or first.row_axis + across >= len(first.shape):
        what = "columns" if across else "rows"
        raise ModelError(f"no image streams: the first input has no {what}", where=network.source)
    of = first.shape[first.row_axis + across]

    def at(rows: int) -> Network:
        shapes = {tensor.name: _shape(tensor, rows, of, across) for tensor in network.inputs}
        if all(shapes[tensor.name] == tensor.shape for tensor in network.inputs):
            return network
        return load(source, shapes=shapes, fix=_fixed(network))

    return at


def _shape(tensor: Tensor, rows: int, of: int, across: int) -> Shape:
    if tensor.row_axis is None:
        return tensor.shape
    axis = tensor.row_axis + across
    if tensor.shape[axis] == 1:
        return tensor.shape
    scaled, rest = divmod(tensor.shape[axis] * rows, of)
    if rest:
        raise InputError(f"an image of {rows} rows has no whole number of rows in '{tensor.name}'")
    return (*tensor.shape[:axis], scaled, *tensor.shape[axis + 1 :])


def _fixed(network: Network) -> Mapping[str, Any] | None:
    return dict(network.fixed) or None
