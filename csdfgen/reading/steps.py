"""How does a model of one step, which takes states and returns them, run along rows? As the body of a Scan, each of whose turns
is a row: so states stay in the arena, from the first row to the last.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

import numpy as np
import onnx
from onnx import ValueInfoProto, helper, numpy_helper

from csdfgen.errors import InputError, option
from csdfgen.model.network import Shape
from csdfgen.reading.fronts import load_as_onnx
from csdfgen.reading.input_shapes import AskedShapes, resolve_wanted_shapes

_ROWS = 64
"""Rows of the model that is made; plans of streams take any number."""


def repeat_steps(
    source: str | os.PathLike[str] | onnx.ModelProto,
    states: Mapping[str, str],
    shapes: AskedShapes | None = None,
    fixed: Collection[str] = (),
) -> onnx.ModelProto:
    """A model whose inputs and outputs have a first axis more, that of the rows. states: input -> the output that is its value in
    the next row; they begin with zeros. shapes: of inputs with free sizes. fixed: inputs that will be constants.

    Raises InputError for what the model has not, and for free sizes, and as `load_as_onnx`.
    """
    model, _ = load_as_onnx(source, shapes)
    graph = model.graph
    given = {one.name for one in graph.initializer}
    inputs = {one.name: one for one in graph.input if one.name not in given}
    outputs = {one.name: one for one in graph.output}
    for what, there, asked in (("input", inputs, states), ("output", outputs, states.values())):
        for name in asked:
            if name not in there:
                raise InputError(f"there is no {what} '{name}'; there is {', '.join(there)}")
    rows = [one for name, one in inputs.items() if name not in {*states, *fixed}]
    results = [one for name, one in outputs.items() if name not in states.values()]
    if not rows or not results:
        raise InputError("a model of one step needs an input and an output beside its states")
    body = onnx.GraphProto()
    body.CopyFrom(graph)
    del body.input[:], body.output[:]
    body.input.extend([*(inputs[name] for name in states), *rows])
    body.output.extend([*(outputs[name] for name in states.values()), *results])
    begin = [
        numpy_helper.from_array(
            np.zeros(_shape(inputs[name], shapes), _dtype(inputs[name])), f"{name}/first"
        )
        for name in states
    ]
    names = [*(one.name for one in begin), *(one.name for one in rows)]
    made = [*[""] * len(states), *(one.name for one in results)]
    scan = helper.make_node("Scan", names, made, name="steps", body=body, num_scan_inputs=len(rows))
    high = [
        helper.make_tensor_value_info(
            one.name, one.type.tensor_type.elem_type, [_ROWS, *_shape(one, shapes)]
        )
        for one in rows
    ]
    ends = [
        helper.make_tensor_value_info(one.name, one.type.tensor_type.elem_type, None)
        for one in results
    ]
    outer = helper.make_graph(
        [scan],
        graph.name,
        [*high, *(inputs[name] for name in fixed if name in inputs)],
        ends,
        begin,
    )
    found = onnx.ModelProto()
    found.CopyFrom(model)
    found.graph.CopyFrom(outer)
    return found


def _dtype(one: ValueInfoProto) -> np.dtype:
    return helper.tensor_dtype_to_np_dtype(one.type.tensor_type.elem_type)


def _shape(one: ValueInfoProto, shapes: AskedShapes | None) -> Shape:
    """The sizes of an input; a free first one, of a batch, is 1. Raises InputError for other free ones."""
    sizes = [size.dim_value for size in one.type.tensor_type.shape.dim]
    declared = tuple(size or int(k == 0) for k, size in enumerate(sizes))
    found = resolve_wanted_shapes(shapes, None)(one.name, declared) or ()
    if 0 in found:
        raise InputError(f"input '{one.name}' has free sizes; give {option('shapes')}")
    return found
