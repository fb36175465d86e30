"""The first elements of an order: TopK.

Source: https://onnx.ai/onnx/operators/onnx__TopK.html. Along an axis within the row the best elements of a
row follow from the row alone. Along the row axis the layer needs the whole tensor, and writes as many rows as
it is asked for. Of equal elements the first one comes first; elements are always in order, also where
`sorted` leaves it open.
"""

from __future__ import annotations

from math import prod
from types import MappingProxyType

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops._operands import first_input_rows, node_layer, normalize_axis, read_integers
from csdfgen.ops.base import Call, Mode, Operator, Work, make_phase_kernel, require_constant
from csdfgen.ops.copies import make_contiguous
from csdfgen.ops.primitives import look_up, rank_elements
from csdfgen.ops.reducing import FLOATS, INTEGERS, constant, data_input, slab_dims

BLOCK = 1024
"""Elements that are sorted at a time, beside the best ones so far."""


def _build(node: Node) -> Layer:
    x = data_input(node, (*FLOATS, *INTEGERS), 1)
    axis = normalize_axis(int(node.attributes.get("axis", -1)), len(x.shape))
    wanted = (
        read_integers(require_constant(node, 1), "K")
        if node.opset >= 10
        else (int(node.attributes.get("k", 0)),)
    )
    if len(wanted) != 1 or not 0 < wanted[0] <= x.shape[axis]:
        raise ModelError(
            f"K is {', '.join(map(str, wanted))}; axis {axis} has {x.shape[axis]} elements, of which 1 to all can be "
            "taken"
        )
    shape = (*x.shape[:axis], wanted[0], *x.shape[axis + 1 :])
    values, places = (
        name or f"{node.name}:{what}"
        for name, what in zip((*node.outputs, "")[:2], ("Values", "Indices"), strict=True)
    )
    outputs = (
        Tensor(values, shape, x.format, x.row_axis),
        Tensor(places, shape, Format("int64"), x.row_axis),
    )
    attributes = {"axis": axis, "largest": bool(node.attributes.get("largest", 1))}
    return node_layer(node, (x, *[None] * (len(node.inputs) - 1)), outputs, attributes)


def _by_rows(layer: Layer) -> bool:
    return layer.computed(0).row_axis != layer.attributes["axis"]


def _input_rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    return first_input_rows(layer, _read(layer, out))


def _read(layer: Layer, out: Rows) -> Rows:
    return out if _by_rows(layer) else Rows(0, layer.computed(0).rows)


def _emit(layer: Layer, work: Work) -> list[Call]:
    calls: list[Call] = []
    (dim,) = slab_dims(layer.computed(0), (layer.attributes["axis"],))
    x = make_contiguous(np.moveaxis(work.slab, dim, -1), work.scratch, calls)
    values, places = (np.moveaxis(result, dim, -1) for result in work.results)
    lines, size, count = prod(x.shape[:-1]), x.shape[-1], values.shape[-1]
    found = work.scratch.take((lines, count), "int64")
    keys = work.scratch.take((min(size, count + max(count, BLOCK)),), "complex128")
    numbers = np.arange(len(keys), dtype=np.int64)
    largest = layer.attributes["largest"]
    calls += [
        (rank_elements, (x.reshape(lines, size), largest, keys, numbers, found)),
        (np.copyto, (places, found.reshape(places.shape))),
    ]
    if lines > 1:
        first = constant(np.arange(lines)[:, None] * size, "int64")
        calls.append((np.add, (found, first, found)))
    made = values
    if not values.flags.c_contiguous:
        made = work.scratch.take(values.shape, values.dtype)
    calls.append((look_up, (x.reshape(-1), found.reshape(values.shape), made)))
    return calls if made is values else [*calls, (np.copyto, (values, made))]


OPERATORS: tuple[Operator, ...] = (
    Operator(
        "TopK",
        build=_build,
        input_rows=_input_rows,
        kernel=make_phase_kernel(_emit),
        cost=lambda layer, out: len(_read(layer, out)) * layer.computed(0).row_elements,
        mode=lambda layer: Mode.ROWS if _by_rows(layer) else Mode.WHOLE,
        rowwise=True,
        constant_inputs=frozenset({1}),
        attributes=MappingProxyType({"axis": -1, "k": None, "largest": 1, "sorted": 1}),
        structure="row-phased; whole along the row axis",
        notes="Sorted even with sorted=0.",
    ),
)
