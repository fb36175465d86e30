"""Which inputs of a model are made constants, and of which values? What only depends on them is then folded, such as
the condition of an If on a sample rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from csdfgen.errors import ModelError, option
from csdfgen.files import quote
from csdfgen.reading.onnx_file import ModelFile, label, text
from csdfgen.reading.onnx_tensor import dtype_name

AskedValue = bool | int | float | str | Sequence[Any] | np.ndarray
"""A number, numbers in (nested) sequences, an array, or a text such as "16000" or "1,0,1"."""

AskedValues = Mapping[str, AskedValue]

MAX_FIXED = 65_536
"""Elements of an input that is made a constant; plan and graph files contain them."""

WEIGHTS_NEED_NOT_BE_INPUTS = 4
"""First IR version in which initializers may be missing from the inputs."""


def fixed_inputs(
    file: ModelFile, asked: AskedValues, shapes: Mapping[str, Sequence[int] | str]
) -> dict[str, np.ndarray]:
    """Input name -> the array that it is fixed to, in the input's own type and shape.

    One value fills its input; sizes that are free in the file are 1, unless `shapes` gives them or the values have
    their number of dimensions. Raises ModelError for a name that is no input, values that the input's type cannot hold,
    and a number of values that does not fit its shape.
    """
    weights = {text(weight.tensor.name) for weight in file.weights}
    inputs = {text(i.name): i for i in file.graph.input if text(i.name) not in weights}
    unknown = [name for name in asked if name not in inputs]
    if unknown:
        known = label(", ".join(inputs) or "none", 200)
        raise ModelError(
            f"{option('fix', unknown[0])}: '{label(unknown[0])}' is not an input; the inputs are {known}"
        )
    return {name: _fixed(inputs[name], value, shapes.get(name)) for name, value in asked.items()}


def hold_constant(model: onnx.ModelProto, fixed: Mapping[str, np.ndarray]) -> None:
    """Make inputs of a model initializers with these arrays."""
    graph = model.graph
    for place in reversed(range(len(graph.input))):
        if graph.input[place].name in fixed:
            del graph.input[place]
    for name, array in fixed.items():
        graph.initializer.append(numpy_helper.from_array(array, name))
    if fixed:
        model.ir_version = max(model.ir_version, WEIGHTS_NEED_NOT_BE_INPUTS)


def _fixed(
    info: onnx.ValueInfoProto, value: AskedValue, shape: Sequence[int] | str | None
) -> np.ndarray:
    name = text(info.name)
    where = f"input '{label(name)}'"
    if not info.type.HasField("tensor_type"):
        raise ModelError("is not a tensor, only tensors can be fixed", where=where)
    tensor = info.type.tensor_type
    try:
        found = _in_type(_numbers(value), dtype_name(tensor.elem_type))
    except ModelError as error:
        raise error.at(where) from None
    if shape is not None:
        sizes = shape.lower().replace(",", "x").split("x") if isinstance(shape, str) else shape
        dims = [int(size) for size in sizes]
    elif tensor.HasField("shape"):
        dims = [max(0, d.dim_value) for d in tensor.shape.dim]
    else:
        return found
    if found.ndim == len(dims) and all(d in (0, n) for d, n in zip(dims, found.shape, strict=True)):
        return found
    wanted = tuple(d or 1 for d in dims)
    if max(found.size, prod(wanted)) > MAX_FIXED or found.size not in (1, prod(wanted)):
        declared = "x".join(str(d or "?") for d in dims) or "scalar"
        raise ModelError(
            f"has {declared} elements, {option('fix')} gives {found.size} "
            f"(at most {MAX_FIXED}); one value fills it",
            where=where,
        )
    return np.ascontiguousarray(
        np.broadcast_to(found.reshape(()), wanted) if found.size == 1 else found.reshape(wanted)
    ).reshape(wanted)


def _numbers(value: AskedValue) -> np.ndarray:
    """The values as an array of whatever type. Raises ModelError."""
    given = quote(value)
    wrong = ModelError(
        f"{option('fix')}: {given} is no number, nor numbers such as 16000, 0.5, true or 1,0,1"
    )
    try:
        if isinstance(value, str):
            parts = [_number(part.strip().lower()) for part in value.split(",")]
            value = parts[0] if len(parts) == 1 else parts
        found = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        raise wrong from None
    if found.dtype.kind not in "biuf":
        raise wrong
    if found.size > MAX_FIXED:
        raise ModelError(
            f"{option('fix')} gives {found.size} values, at most {MAX_FIXED} are taken; "
            "store larger constants in the model"
        )
    return found


def _number(part: str) -> int | float:
    """
    >>> _number("16000"), _number("0.5"), _number("true")
    (16000, 0.5, 1)
    """
    if part in ("true", "false"):
        return int(part == "true")
    try:
        return int(part)
    except ValueError:
        return float(part)


def _in_type(given: np.ndarray, name: str) -> np.ndarray:
    """The same numbers in a type that must hold them; floats are rounded. Raises ModelError."""
    dtype = np.dtype(name)
    with np.errstate(all="ignore"):
        found = given.astype(dtype)
    bad = ~np.isfinite(found) if dtype.kind == "f" else found != given
    if np.any(bad):
        raise ModelError(
            f"has type {name}, which {option('fix')} cannot fill with {given[bad].flat[0] if given.ndim else given}"
        )
    return found
