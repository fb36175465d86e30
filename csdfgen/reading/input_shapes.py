"""Which shape does every network input have? The declared one, with its free sizes fixed by the
user.

An example of --shape keeps every size that is declared. A free one gets a number only where the
first spatial operator tells what stands there: 224 rows and columns of an image, as many channels
as it takes; any other is left as `N`, for the user to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from csdfgen.errors import ModelError
from csdfgen.model.network import Shape
from csdfgen.reading.input_axes import image_axes_of_input
from csdfgen.reading.onnx_file import label
from csdfgen.reading.onnx_graph import Graph, GraphInput
from csdfgen.reading.onnx_tensor import MAX_RANK

__all__ = ["input_shapes"]

_EXAMPLE_SIZE = 224
"""Rows and columns of an image in an example of --shape."""

_IMAGE_RANK = 4
"""Of an input that is declared without a shape, for its example."""


def input_shapes(
    graph: Graph, shapes: Mapping[str, Sequence[int]], batch: int | None
) -> dict[str, Shape]:
    """Input name -> its shape. shapes and batch: see `loader.load`.

    Raises ModelError for a size that stays free (but for the leading one, which is then 1), a name
    that is no input, and a rank that differs from the declared one.
    """
    inputs = graph.inputs
    unknown = [name for name in shapes if name not in {i.name for i in inputs}]
    if unknown:
        known = ", ".join(f"{label(i.name)}={_text(i.dims)}" for i in inputs) or "none"
        raise ModelError(
            f"'{label(unknown[0])}' is not an input; the inputs are {label(known, 200)}"
        )
    if batch is not None and batch < 1:
        raise ModelError(f"a batch of {batch} images is not possible, at least 1 is needed")
    return {i.name: _shape(graph, i, shapes.get(i.name), batch) for i in inputs}


def _shape(graph: Graph, info: GraphInput, given: Sequence[int] | None, batch: int | None) -> Shape:
    where = f"input '{label(info.name)}'"
    dims = info.dims
    if given is not None:
        if dims is not None and len(given) != len(dims):
            raise ModelError(
                f"has {len(dims)} dimensions ({_text(dims)}), --shape gives {len(given)} ({_text(given)})",
                where=where,
            )
        if len(given) > MAX_RANK or min(given, default=1) < 1:
            raise ModelError(
                f"cannot have shape {_text(given)}; every size is at least 1", where=where
            )
        dims = tuple(given)
    if dims is None:
        raise ModelError(
            f"has no shape; give it with --shape {label(info.name)}={_example(graph, info.name, None)}",
            where=where,
        )
    if dims and batch is not None and (len(dims) > 1 or dims[0] is None):
        dims = (batch, *dims[1:])
    if dims and dims[0] is None:
        dims = (1, *dims[1:])
    shape = tuple(d for d in dims if d is not None)
    if len(shape) < len(dims):
        example = _example(graph, info.name, dims)
        raise ModelError(
            f"has free sizes ({_text(info.dims)}); fix them with --shape {label(info.name)}={example}",
            where=where,
        )
    return shape


def _example(graph: Graph, name: str, dims: Sequence[int | None] | None) -> str:
    """A shape as --shape takes it, with `N` where only the user can know; dims None: no shape is
    declared.
    """
    found = image_axes_of_input(graph, name, _IMAGE_RANK if dims is None else len(dims))
    axis, channels, sides = found or (None, None, frozenset[int]())
    if dims is None:
        if channels is None:  # not even the rank is certain
            return "NxNx..."
        dims = (1, *[None] * (_IMAGE_RANK - 1))
    sizes = [_EXAMPLE_SIZE if d is None and k in sides else d for k, d in enumerate(dims)]
    if axis is not None and sizes[axis] is None:
        sizes[axis] = channels
    return _text(sizes, free="N")


def _text(dims: Sequence[int | None] | None, *, free: str = "?") -> str:
    """
    >>> _text((1, 3, None))
    '1x3x?'
    """
    if dims is None:
        return free
    return label("x".join(free if d is None else str(d) for d in dims) or "scalar")
