"""Which shape does every network input have? The declared one, with its free sizes fixed by the
user.

An example of a shape keeps every size that is declared. A free one gets a number only where the
first spatial operator tells what stands there: 224 rows and columns of an image, as many channels
as it takes; any other is left as `N`, for the user to say.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from numbers import Integral
from operator import index

import onnx

from csdfgen.errors import ModelError, option, shape_option
from csdfgen.files import quoted
from csdfgen.model.network import Network, Shape
from csdfgen.reading.input_axes import image_axes_of_input
from csdfgen.reading.onnx_file import label
from csdfgen.reading.onnx_graph import Graph, GraphInput
from csdfgen.reading.onnx_tensor import MAX_ELEMENTS, MAX_RANK

__all__ = ["AskedShape", "AskedShapes", "declare_shapes", "input_shapes"]

AskedShape = Sequence[int] | str
"""Sizes as numbers, (1, 3, 224, 224), or as text, "1x3x224x224"."""

AskedShapes = Mapping[str, AskedShape] | AskedShape
"""Shapes by the name of their input; where there is one input, also its shape alone."""

_EXAMPLE_SIZES = (1, 3, 224, 224)
"""A shape such as may be asked for."""

_EXAMPLE_SIZE = 224
"""Rows and columns of an image in an example of a shape for an input."""

_IMAGE_RANK = 4
"""Of an input that is declared without a shape, for its example."""


def input_shapes(graph: Graph, asked: AskedShapes, batch: int | None) -> dict[str, Shape]:
    """Input name -> its shape. asked and batch: see `loader.load`.

    Raises ModelError for a size that stays free (but for the leading one, which is then 1), a name
    that is no input, a rank that differs from the declared one, a shape that is none or absurdly
    large, and one shape where there are several inputs.
    """
    inputs = graph.inputs
    shapes = _by_name(inputs, asked)
    unknown = [name for name in shapes if name not in {i.name for i in inputs}]
    if unknown:
        raise ModelError(f"'{label(unknown[0])}' is not an input; the inputs are {_known(inputs)}")
    if batch is not None and not (isinstance(batch, Integral) and batch >= 1):
        raise ModelError(f"a batch of {batch!r} images is not possible, at least 1 is needed")
    return {i.name: _shape(graph, i, shapes.get(i.name), batch) for i in inputs}


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
            f"{option('shapes', asked)}: {quoted(sizes)} is no shape; sizes such as "
            f"{_EXAMPLE_SIZES} or '{_text(_EXAMPLE_SIZES)}' are needed"
        ) from None


def _shape(graph: Graph, info: GraphInput, given: Shape | None, batch: int | None) -> Shape:
    where = f"input '{label(info.name)}'"
    dims = info.dims
    if given is not None:
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
    if dims is None:
        raise ModelError(
            f"has no shape; give it with {_example(graph, info.name, None)}",
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
            f"has free sizes ({_text(info.dims)}); fix them with {example}",
            where=where,
        )
    if prod(shape) > MAX_ELEMENTS:
        raise ModelError(
            f"has {prod(shape)} elements ({_text(shape)}), at most {MAX_ELEMENTS} are supported",
            where=where,
        )
    return shape


def _example(graph: Graph, name: str, dims: Sequence[int | None] | None) -> str:
    """The option that gives an input a shape, with `N` where only the user can know; dims None: no shape is
    declared.
    """
    found = image_axes_of_input(graph, name, _IMAGE_RANK if dims is None else len(dims))
    axis, channels, sides = found or (None, None, frozenset[int]())
    if dims is None:
        if channels is None:  # not even the rank is certain
            return shape_option(label(name), ("N", "N", "..."))
        dims = (1, *[None] * (_IMAGE_RANK - 1))
    sizes = [_EXAMPLE_SIZE if d is None and k in sides else d for k, d in enumerate(dims)]
    if axis is not None and sizes[axis] is None:
        sizes[axis] = channels
    return shape_option(label(name), ["N" if d is None else d for d in sizes])


def _text(dims: Sequence[int | None] | None) -> str:
    """
    >>> _text((1, 3, None))
    '1x3x?'
    """
    if dims is None:
        return "?"
    return label("x".join("?" if d is None else str(d) for d in dims) or "scalar")
