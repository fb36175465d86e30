"""How does a function of yours make a tensor between networks? It is a layer, which reads and writes whole arrays.

Functions are named; what they compute is asked for when a frame runs. In emitted C they are functions of the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import CsdfgenError, InputError, ModelError
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.ops._operands import node_layer
from csdfgen.ops.base import (
    REQUIRED,
    Call,
    Mode,
    Operator,
    Work,
    make_phase_kernel,
    require_tensor,
    whole_rows,
)
from csdfgen.ops.copies import make_contiguous
from csdfgen.ops.indexing import order_axes

GROUP = "csdfgen.functions"
"""The entry points of packages that are functions."""

DOMAIN = "csdfgen"

_REGISTERED: dict[str, Callable[..., Any]] = {}


def register_function(name: str, function: Callable[..., Any]) -> None:
    """Let connections of networks name a function: `a.map:NAME,a.x=b.x:crop`, `a.y=b.x:NAME`.

    function: takes the arrays of the tensors before it, which it may read until it returns, and returns an array of the shape
    that is needed. It may return fewer rows than that (the others are 0), or more (the first ones are taken). Raises InputError
    for a name that is no identifier.
    """
    check_name(name)
    _REGISTERED[name] = function


def check_name(name: str, where: str = "register_function") -> None:
    """Raises InputError for what is no identifier."""
    if not (name.isidentifier() and name.isascii()):
        raise InputError(f"{where}: '{name}' names no function; letters, digits and _ are needed")


def find_function(name: str) -> Callable[..., Any]:
    """A function that was registered, or is an entry point. Raises InputError."""
    if name not in _REGISTERED:
        found = next(iter(entry_points(group=GROUP, name=name)), None)
        if found is None:
            raise InputError(
                f"function '{name}' is not there; register it with csdfgen.register_function, or as an entry point of {GROUP}"
            )
        register_function(name, found.load())
    return _REGISTERED[name]


def call_function(name: str, *arrays: np.ndarray) -> None:
    """Let a function make the last array of those before it. Raises InputError, and ModelError if it fails."""
    *given, out = arrays
    function = find_function(name)
    for number, array in enumerate(given):
        given[number] = array.view()
        given[number].flags.writeable = False
    try:
        made = np.asarray(function(*given))
        made = made if made.size else made.reshape(0, *out.shape[1:])
        if made.shape[1:] != out.shape[1:]:
            raise ValueError(f"it returned {made.shape}, {out.shape} is needed")
        made = made[: len(out)]
        out[len(made) :] = 0
        np.copyto(out[: len(made)], made, "same_kind")
    except CsdfgenError:
        raise
    except Exception as error:
        raise ModelError(f"function '{name}' failed: {type(error).__name__}: {error}") from error


def _build(node: Node) -> Layer:
    inputs = [require_tensor(node, k) for k in range(len(node.inputs))]
    name, shape, dtype = (FUNCTION.attribute(node, one) for one in ("function", "shape", "dtype"))
    output = Tensor(node.outputs[0], tuple(shape), Format(dtype))
    return node_layer(node, inputs, (output,), {"function": name})


def _call(layer: Layer, work: Work) -> list[Call]:
    calls: list[Call] = []
    given = [
        make_contiguous(order_axes(layer, work, k), work.scratch, calls)
        for k in range(len(layer.inputs))
    ]
    out = layer.output.to_onnx(work.result)
    return [*calls, (call_function, (layer.attributes["function"], *given, out))]


FUNCTION = Operator(
    f"{DOMAIN}.Function",
    build=_build,
    input_rows=whole_rows,
    kernel=make_phase_kernel(_call),
    cost=lambda layer, out: sum(one.elements for one in layer.inputs if one is not None),
    mode=lambda layer: Mode.WHOLE,
    attributes=MappingProxyType({"dtype": REQUIRED, "function": REQUIRED, "shape": REQUIRED}),
    structure="whole",
    domain=DOMAIN,
)
"""Between networks alone: no file has it."""

OPERATORS = (FUNCTION,)
