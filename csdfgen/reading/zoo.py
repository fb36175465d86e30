"""What does "zoo:NAME" or "zoo:NAME@HEIGHTxWIDTH" stand for, where a model file could stand too?

The networks themselves are in `zoo_models`, which is imported when one is asked for. A network is
built again every time: it takes from milliseconds to three seconds (vgg19), and up to half a gigabyte of
weights would have to be kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

import onnx

from csdfgen.errors import ModelError

if TYPE_CHECKING:
    from zoo_models import ZooEntry


PREFIX = "zoo:"


def is_zoo_name(source: object) -> TypeGuard[str]:
    """Whether a model is asked for by a name of the zoo; a file of such a name is written
    ./zoo:NAME.

    >>> is_zoo_name("zoo:vgg19@64x64"), is_zoo_name("vgg19.onnx")
    (True, False)
    """
    return isinstance(source, str) and source.startswith(PREFIX)


def look_up(name: str) -> tuple[ZooEntry, int, int]:
    """The network of the zoo that is meant, and its rows and columns. Raises ModelError: no such
    name, no such size.
    """
    from zoo_models import ZooError, parse

    try:
        return parse(name)
    except ZooError as error:
        raise ModelError(str(error)) from None


def build(name: str, seed: int = 0) -> onnx.ModelProto:
    """The network with its weights. Raises ModelError: no such name, no such size."""
    entry, height, width = look_up(name)
    return entry.build(height, width, seed=seed)


def input_span(source: object) -> tuple[float, float] | None:
    """Lowest and highest value that the input of a network of the zoo was made for; None for any other model.

    Some take pixels as they are, up to 255; with smaller values their biases drown the image, with
    larger ones they saturate.
    """
    return look_up(source)[0].pixels if is_zoo_name(source) else None
