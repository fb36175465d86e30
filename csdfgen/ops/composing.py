"""Operators that are layers of other operators: they are written as these when a network is read.

Such an operator has no kernel. It writes its node down as nodes of other operators (`Composition`), so that
everything that holds for these holds for it: rows, views, rewritings, native kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Node, Shape, Tensor
from csdfgen.ops import (
    activation,
    arithmetic,
    attention,
    convolution,
    forest,
    indexing,
    joining,
    linear,
    normalization,
    padding,
    pooling,
    quantized_products,
    quantizing,
    ranking,
    recurrent,
    reduction,
    reshaping,
    selection,
)
from csdfgen.ops._operands import require
from csdfgen.ops.base import Operator, build_with_tensors
from csdfgen.ops.evaluated import run_layer

__all__ = [
    "OPSET",
    "Composition",
    "Operand",
    "Write",
    "composed_operator",
    "is_composed",
    "require",
]

Operand = Tensor | np.ndarray

OPSET = 24
"""Of the nodes that a composition is written in."""

_FAMILIES = (
    activation, arithmetic, attention, convolution, forest, indexing, joining, linear, normalization, padding, pooling,
    quantized_products, quantizing, ranking, recurrent, reduction, reshaping, selection,
)  # fmt: skip

_OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {operator.op_type: operator for family in _FAMILIES for operator in family.OPERATORS}
)


class Composition:
    """The layers of a node, one after the other. What is computed from constants alone is a constant."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.layers: list[Layer] = []
        self._count = 0

    def __call__(
        self, op_type: str, *operands: Operand | None, opset: int = OPSET, **attributes: Any
    ) -> Operand:
        """The only result of a node."""
        return self.several(op_type, *operands, opset=opset, outputs=1, **attributes)[0]

    def several(
        self,
        op_type: str,
        *operands: Operand | None,
        outputs: int,
        first: int = 0,
        opset: int = OPSET,
        **attributes: Any,
    ) -> tuple[Operand, ...]:
        """The results of a node, from output `first` on."""
        self._count += 1
        name = f"{self.node.name}/{self._count} {op_type}"
        made = tuple(f"{name}:{k}" if k >= first else "" for k in range(outputs))
        arrays = [operand for operand in operands if not isinstance(operand, Tensor)]
        known = len(arrays) == len(operands)
        given: list[Operand | None] = list(operands)
        if known:
            sample = arrays[0]
            assert sample is not None
            given[0] = Tensor("constant", sample.shape, Format(sample.dtype.name))
        node = Node(name, op_type, opset, attributes, tuple(given), made)
        layers = build_with_tensors(_OPERATORS[op_type].layers, node, self._constant)
        if known:
            (layer,) = layers
            return run_layer(_OPERATORS[op_type], layer, arrays)
        self.layers += (replace(layer, onnx_nodes=(self.node.name,)) for layer in layers)
        tensors = {tensor.name: tensor for layer in layers for tensor in layer.outputs}
        return tuple(tensors[one] for one in made[first:])

    def _constant(self, name: str, value: np.ndarray) -> Tensor:
        """A tensor of this value, which a layer writes in every frame."""
        self.layers.append(joining.constant_layer(name, name, value))
        return self.layers[-1].output

    # What is written more often than once

    def reshaped(self, x: Operand, shape: Shape) -> Operand:
        """The elements in another shape."""
        if tuple(x.shape) == tuple(shape):
            return x
        if isinstance(x, np.ndarray):
            return x.reshape(shape)
        return self("Reshape", x, np.array(shape, np.int64))

    def turned(self, x: Operand, order: Sequence[int]) -> Operand:
        """The axes in another order."""
        if list(order) == list(range(len(order))):
            return x
        return x.transpose(order) if isinstance(x, np.ndarray) else self("Transpose", x, perm=order)

    def part(self, x: Operand, axis: int, start: int, stop: int, step: int = 1) -> Operand:
        """Some positions of an axis."""
        if isinstance(x, np.ndarray):
            return x[(slice(None),) * axis + (slice(start, stop, step),)]
        bounds = (np.array([value], np.int64) for value in (start, stop, axis, step))
        return self("Slice", x, *bounds)

    def summed(self, x: Operand, axes: Sequence[int]) -> Operand:
        """Sums over axes, which are gone."""
        return self("ReduceSum", x, np.array(axes, np.int64), keepdims=0) if axes else x

    def written(self, results: Iterable[Operand | None]) -> tuple[Layer, ...]:
        """The layers, of which the last ones make the outputs of the node. results: by output position; None: is not
        computed. Raises ModelError for an output that is used all the same.
        """
        found = [*results, *[None] * len(self.node.outputs)]
        for position, (name, result) in enumerate(zip(self.node.outputs, found, strict=False)):
            if not name:
                continue
            if isinstance(result, np.ndarray):
                self._constant(name, result)
                continue
            if result is None:
                raise ModelError(
                    f"output {position} ('{name}') is not computed; remove what reads it"
                )
            own = {t.name for layer in self.layers for t in layer.outputs}
            if result.name in own:
                self._rename(result.name, name)
            else:
                node = Node(f"{self.node.name}/{name}", "Identity", OPSET, {}, (result,), (name,))
                layer = _OPERATORS["Identity"].build(node)
                self.layers.append(replace(layer, onnx_nodes=(self.node.name,)))
        return tuple(self.layers)

    def _rename(self, old: str, name: str) -> None:
        """Give a tensor another name, where it is made and where it is read."""

        def named(tensor: Tensor) -> Tensor:
            return replace(tensor, name=name) if tensor.name == old else tensor

        self.layers = [
            replace(
                layer,
                inputs=tuple(None if t is None else named(t) for t in layer.inputs),
                outputs=tuple(map(named, layer.outputs)),
            )
            for layer in self.layers
        ]


Write = Callable[[Composition, Node], Iterable[Operand | None]]
"""(layers so far, node) -> the results of the node by output position. Raises ModelError."""


def composed_operator(
    op_type: str,
    write: Write,
    *,
    since: int = 1,
    domain: str = "",
    attributes: Mapping[str, Any] | None = None,
    constant_inputs: Iterable[int] = (),
    structure: str = "row-phased",
    notes: str = "",
    multiplies: bool = False,
) -> Operator:
    """The record of an operator that becomes layers of others."""
    return Operator(
        op_type,
        build=partial(_only, write),
        parts=partial(_parts, write),
        input_rows=_never,
        kernel=_never,
        cost=_never,
        mode=_never,
        since=since,
        domain=domain,
        attributes=MappingProxyType(dict(attributes or {})),
        constant_inputs=frozenset(constant_inputs),
        structure=structure,
        notes=notes,
        multiplies=multiplies,
    )


def is_composed(operator: Operator) -> bool:
    """Whether each node of it becomes layers of others."""
    return operator.kernel is _never


def _parts(write: Write, node: Node) -> tuple[Layer, ...]:
    composition = Composition(node)
    return composition.written(write(composition, node))


def _only(write: Write, node: Node) -> Layer:
    layers = _parts(write, node)
    if len(layers) != 1:
        raise ModelError(f"becomes {len(layers)} layers")
    return layers[0]


def _never(*arguments: Any) -> Any:
    raise AssertionError("a layer of an operator that becomes layers of others")
