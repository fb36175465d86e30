"""How does a quantized model take and give integers, so that no frame of float32 is ever in memory?

An input of float32 is four times as large as the integers that the first layer reads. Here the QuantizeLinear after an
input and the DequantizeLinear before an output are left out: the caller converts values to integers and integers to
values, by a scale and zero point that are reported and stored in the model's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format
from csdfgen.model.naming import make_unused_name
from csdfgen.ops.integers import limits
from csdfgen.ops.stored import quantize_values, read_values

METADATA = "csdfgen.integer_io"
"""Key of a model's metadata: {"inputs": {NAME: {"type", "scale", "zero_point"}}, "outputs": ...}, as JSON."""


INTEGERS = ("int8", "uint8", "int16", "uint16")
"""Types that values are stored in."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Inputs and outputs that are integers, with the format that makes values of them."""

    inputs: Mapping[str, Format] = field(default_factory=lambda: MappingProxyType({}))
    outputs: Mapping[str, Format] = field(default_factory=lambda: MappingProxyType({}))

    def taken(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Values of inputs as the model takes them."""
        return {
            name: quantize_values(array, self.inputs[name]) if name in self.inputs else array
            for name, array in sample.items()
        }

    def given(self, outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What the model gives, as values: in new arrays."""
        return {
            name: read_values(array, self.outputs[name]) if name in self.outputs else array.copy()
            for name, array in outputs.items()
        }

    def to_json(self) -> dict[str, dict[str, dict[str, object]]]:
        """Type, scale and zero point by name."""
        both = {"inputs": self.inputs, "outputs": self.outputs}
        return {
            key: {name: _facts(form) for name, form in found.items()} for key, found in both.items()
        }


def _facts(form: Format) -> dict[str, object]:
    assert form.scale is not None and form.zero_point is not None
    return {"type": form.dtype, "scale": form.scale[0], "zero_point": form.zero_point[0]}


def remove_end_conversions(model: onnx.ModelProto) -> tuple[onnx.ModelProto, Ends]:
    """A QDQ model whose inputs are given, and whose outputs are taken, as the integers that they become, and which ends
    these are. Ends keep their names.

    An input that something else reads as it is stays, and so does an end that nothing quantizes.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    ends = Ends(
        {v.name: form for v in graph.input if (form := _input_taken_off(graph, v)) is not None},
        {v.name: form for v in graph.output if (form := _output_taken_off(graph, v)) is not None},
    )
    if ends.inputs or ends.outputs:
        onnx.helper.set_model_props(
            copy,
            {**{p.key: p.value for p in copy.metadata_props}, METADATA: json.dumps(ends.to_json())},
        )
    return copy, ends


def read_ends(model: onnx.ModelProto) -> Ends:
    """The integer inputs and outputs that a model's metadata describe. Raises ModelError."""
    for prop in model.metadata_props:
        if prop.key == METADATA:
            try:
                told = json.loads(prop.value)
                inputs, outputs = (
                    {name: _told(name, one) for name, one in told[key].items()}
                    for key in ("inputs", "outputs")
                )
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
                raise ModelError(
                    f"metadata '{METADATA}' cannot be read: {error}; write the model again with csdfgen quantize"
                ) from None
            return Ends(inputs, outputs)
    return Ends()


def _told(name: str, facts: Mapping[str, Any]) -> Format:
    """A format as `_facts` writes it. Raises ValueError and what damaged facts raise."""
    dtype, scale, zero = str(facts["type"]), float(facts["scale"]), int(facts["zero_point"])
    if dtype not in INTEGERS:
        raise ValueError(f"type '{dtype}' of '{name}' is none of {', '.join(INTEGERS)}")
    if not 0 < scale < inf:
        raise ValueError(f"scale {scale:g} of '{name}' is not above 0")
    low, high = limits(dtype)
    if not low <= zero <= high:
        raise ValueError(f"zero point {zero} of '{name}' is not from {low} to {high}")
    return Format(dtype, (scale,), (zero,))


def _input_taken_off(graph: onnx.GraphProto, value: onnx.ValueInfoProto) -> Format | None:
    """Make an input the integers behind it; their format, None where it stays."""
    readers = [node for node in graph.node if value.name in node.input]
    if [node.op_type for node in readers] != ["QuantizeLinear"]:
        return None
    (end,) = readers
    form = _format_of(graph, end)
    integers = end.output[0]
    if form is None or integers in {one.name for one in graph.output}:
        return None
    graph.node.remove(end)
    _rename(graph, integers, value.name)
    _retype(value, form)
    return form


def _output_taken_off(graph: onnx.GraphProto, value: onnx.ValueInfoProto) -> Format | None:
    """Make an output the integers before it; their format, None where it stays."""
    (end,) = [node for node in graph.node if value.name in node.output] or [None]
    if end is None or end.op_type != "DequantizeLinear":
        return None
    form, integers = _format_of(graph, end), end.input[0]
    outside = {one.name for one in (*graph.input, *graph.output, *graph.initializer)}
    if form is None or integers in outside:
        return None
    if any(value.name in node.input for node in graph.node):  # the values are read here too
        names = outside | {name for node in graph.node for name in (*node.input, *node.output)}
        _rename(graph, value.name, make_unused_name(f"{value.name}_values", names))
    else:
        graph.node.remove(end)
    _rename(graph, integers, value.name)
    _retype(value, form)
    return form


def _format_of(graph: onnx.GraphProto, node: onnx.NodeProto) -> Format | None:
    """The format of a QuantizeLinear or DequantizeLinear, where it is one for the whole tensor."""
    constants = {one.name: one for one in graph.initializer}
    if len(node.input) < 3 or not all(name in constants for name in node.input[1:3]):
        return None
    scale, zero = (numpy_helper.to_array(constants[name]) for name in node.input[1:3])
    if scale.size != 1 or zero.size != 1:
        return None
    return Format(str(zero.dtype), (float(scale.reshape(())),), (int(zero.reshape(())),))


def _retype(value: onnx.ValueInfoProto, form: Format) -> None:
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(form.dtype))
    value.type.tensor_type.elem_type = kind


def _rename(graph: onnx.GraphProto, old: str, new: str) -> None:
    """Give a tensor inside the graph another name; what was known of either is forgotten."""
    for node in graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name == old:
                    names[place] = new
    for known in [one for one in graph.value_info if one.name in (old, new)]:
        graph.value_info.remove(known)
