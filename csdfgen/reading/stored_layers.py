"""How does a layer that was built for values become one on the integers that are stored?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format, Stored
from csdfgen.model.network import Layer, Tensor
from csdfgen.reading.onnx_file import label

_Known = Tensor | np.ndarray | None


def _equal(kept: np.ndarray | None, value: _Known) -> bool:
    """Whether an operator keeps a constant as it was, in some order of axes in memory."""
    return kept is value or (
        isinstance(kept, np.ndarray)
        and isinstance(value, np.ndarray)
        and np.array_equal(kept, value)
    )


def store_integers(
    layer: Layer,
    stored: Stored,
    names: Sequence[str],
    operands: Sequence[_Known],
    values: Sequence[_Known],
) -> Layer:
    """The layer that its operator made for values, on what is stored. A constant that the operator
    has changed is no longer what is stored, and stays as it is now. names: what the file calls the results.
    """
    read = [stored.read(k) for k in range(len(operands))]
    pairs = zip(operands, read, strict=True)
    if any(o is not None and f is not None and f.scale and 0 in o.shape for o, f in pairs):
        raise ModelError(
            "reads a tensor without elements beside integers; export the model without it"
        )
    inputs, constants = list(layer.inputs), dict(layer.constants)
    forms: list[Format | None] = [None] * len(inputs)
    for k, (operand, value, form) in enumerate(zip(operands, values, read, strict=True)):
        if form is None or k >= len(inputs):
            continue
        if isinstance(operand, Tensor) and inputs[k] is not None:
            inputs[k], forms[k] = operand, form
        elif isinstance(operand, np.ndarray) and _equal(constants.get(k), value):
            constants[k] = np.empty_like(constants[k], operand.dtype)  # in the order that it chose
            np.copyto(constants[k], operand)
            forms[k] = form
    written = {name: stored.written(k) for k, name in enumerate(names)}
    # some have no name in the file
    made = tuple(written.get(tensor.name) for tensor in layer.outputs)
    for tensor, form in zip(layer.outputs, made, strict=True):
        if form is not None and tensor.dtype != "float32":
            raise ModelError(
                f"output '{label(tensor.name)}' is {tensor.dtype}, and is quantized by float32 scales"
            )
    return replace(
        layer,
        inputs=tuple(inputs),
        outputs=tuple(
            tensor if form is None else replace(tensor, format=Format(form.dtype))
            for tensor, form in zip(layer.outputs, made, strict=True)
        ),
        constants=MappingProxyType(constants),
        stored=Stored(tuple(forms), made),
    )
