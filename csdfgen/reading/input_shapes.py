"""Which shape does every network input have? The declared one, with its free sizes fixed by the
user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from csdfgen.errors import ModelError
from csdfgen.model.network import Shape
from csdfgen.reading.onnx_file import label
from csdfgen.reading.onnx_graph import GraphInput
from csdfgen.reading.onnx_tensor import MAX_ELEMENTS, MAX_RANK

__all__ = ["input_shapes"]

_EXAMPLE_SIZES = (1, 3, 224, 224)
"""What a free size is in an example of --shape, by axis."""


def input_shapes(
    inputs: Sequence[GraphInput], shapes: Mapping[str, Sequence[int]], batch: int | None
) -> dict[str, Shape]:
    """Input name -> its shape. shapes and batch: see `loader.load`.

    Raises ModelError for a size that stays free (but for the leading one, which is then 1), a name
    that is no input, a rank that differs from the declared one, and a shape that is absurdly large.
    """
    unknown = [name for name in shapes if name not in {i.name for i in inputs}]
    if unknown:
        known = ", ".join(f"{label(i.name)}={_text(i.dims)}" for i in inputs) or "none"
        raise ModelError(
            f"'{label(unknown[0])}' is not an input; the inputs are {label(known, 200)}"
        )
    if batch is not None and batch < 1:
        raise ModelError(f"a batch of {batch} images is not possible, at least 1 is needed")
    return {i.name: _shape(i, shapes.get(i.name), batch) for i in inputs}


def _shape(info: GraphInput, given: Sequence[int] | None, batch: int | None) -> Shape:
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
            f"has no shape; give it with --shape {label(info.name)}={_text(_EXAMPLE_SIZES)}",
            where=where,
        )
    if dims and batch is not None and (len(dims) > 1 or dims[0] is None):
        dims = (batch, *dims[1:])
    if dims and dims[0] is None:
        dims = (1, *dims[1:])
    shape = tuple(d for d in dims if d is not None)
    if len(shape) < len(dims):
        example = [d or _EXAMPLE_SIZES[min(k, 3)] for k, d in enumerate(dims)]
        raise ModelError(
            f"has free sizes ({_text(info.dims)}); fix them with --shape {label(info.name)}={_text(example)}",
            where=where,
        )
    if prod(shape) > MAX_ELEMENTS:
        raise ModelError(
            f"has {prod(shape)} elements ({_text(shape)}), at most {MAX_ELEMENTS} are supported",
            where=where,
        )
    return shape


def _text(dims: Sequence[int | None] | None) -> str:
    """
    >>> _text((1, 3, None))
    '1x3x?'
    """
    if dims is None:
        return "?"
    return label("x".join("?" if d is None else str(d) for d in dims) or "scalar")
