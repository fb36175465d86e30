"""Which layers spell out one function? They become its operator (`ops.formulas`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from csdfgen.model.formats import BFLOAT16, FLOAT32, Stored
from csdfgen.model.network import Layer, Network, Node, Shape
from csdfgen.ops import OPERATORS
from csdfgen.ops.formulas import Match, Operation, Search
from csdfgen.ops.reducing import FLOATS
from csdfgen.rewriting.conditions import check_network, onnx_nodes

GATES = frozenset({"Sigmoid", "HardSigmoid", "Tanh", "Erf", "Clip", "Min", "ReduceMean"})
"""Operators of which every function has one."""

_INPUTS_OF_FILES = {"Clip": ("min", "max")}
"""Attributes of layers that are constant inputs in ONNX."""


def fuse_functions(network: Network) -> Network:
    """The network with every function of one tensor that several layers compute as one layer, which has the name and
    the output of their last one. Layers that store integers stay: they round between the steps. Of layers that store
    bfloat16, the function is rounded once. Raises BrokenRewritingError if the rewriting does not keep its conditions.
    """
    search = Search(_Layers(network))
    made: dict[int, Layer] = {}
    joined: list[tuple[Layer, Sequence[Layer]]] = []
    for layer in reversed(network.layers):  # what has more layers before what is a part of it
        if id(layer) in made or layer.op_type not in _LAST:
            continue
        match = search.spelled_out(layer.output.name)
        parts = [] if match is None else _in_order(network, match)
        one = _layer(network, layer, parts, match) if match is not None else None
        if one is not None and not any(id(part) in made for part in parts):
            made.update((id(part), one) for part in parts)
            joined.append((one, parts))
    if not joined:
        return network
    last = {id(parts[-1]) for _, parts in joined}
    layers = [
        made.get(id(layer), layer)
        for layer in network.layers
        if id(layer) in last or id(layer) not in made
    ]
    rewritten = replace(network, layers=tuple(layers))
    check_network("fuse_functions", network, rewritten, joined=joined)
    return rewritten


_LAST = frozenset({"Mul", "Div", "Add"})
"""Operators that functions end with."""


def _in_order(network: Network, match: Match) -> list[Layer]:
    taken = {id(operation.origin) for operation in match.taken}
    return [layer for layer in network.layers if id(layer) in taken]


def _layer(network: Network, last: Layer, parts: Sequence[Layer], match: Match) -> Layer | None:
    """The layer that stands for parts, None where it would not make the same tensor."""
    x = network.tensors[match.values["x"]]
    wide, made = replace(x, format=FLOAT32) if x.format == BFLOAT16 else x, last.outputs
    if wide.dtype not in FLOATS or any(part.guards != last.guards for part in parts):
        return None
    if any((part.stored is None) != (wide is x) for part in parts):
        return None
    settings, constants = match.settings, list[np.ndarray]()
    if match.function.constants:
        axes, epsilon = settings["axis"], settings["epsilon"]
        shape = x.shape[min(axes) :]
        given = [match.values[name] for name in match.function.constants]
        if axes != tuple(range(min(axes), len(x.shape))) or epsilon.size != 1:
            return None
        if not all(_over(one, shape) for one in given):
            return None
        constants = [
            np.broadcast_to(one.reshape(one.shape[-len(shape) :]), shape).astype(
                wide.dtype, copy=False
            )
            for one in given
        ]
        settings = {"axis": min(axes), "epsilon": float(epsilon.reshape(()))}
    operator = OPERATORS[match.function.kind]
    node = Node(
        last.name,
        operator.op_type,
        operator.since,
        settings,
        (wide, *constants),
        (last.output.name,),
    )
    layer = operator.build(node)
    if wide is not x:
        made = tuple(replace(tensor, format=FLOAT32) for tensor in made)
    if layer.outputs != made:
        return None
    if wide is not x:
        inputs, stored = (x, *layer.inputs[1:]), Stored((BFLOAT16,), (BFLOAT16,))
        layer = replace(layer, inputs=inputs, outputs=last.outputs, stored=stored)
    return replace(layer, onnx_nodes=onnx_nodes(*parts), guards=last.guards)


def _over(constant: np.ndarray, shape: Shape) -> bool:
    """Whether a constant has at most one number for each element that is normalized."""
    wide = (1,) * (constant.ndim - len(shape)) + shape
    pairs = zip(reversed(constant.shape), reversed(wide), strict=False)
    return all(size in (1, most) for size, most in pairs)


@dataclass(frozen=True)
class _Layers:
    """A network as formulas see it."""

    network: Network

    def made(self, name: str) -> Operation | None:
        layer = self.network.producer.get(name)
        if layer is None or layer.epilogue or len(layer.outputs) > 1:
            return None
        if layer.stored is not None and not layer.stored.is_bfloat16:
            return None
        operands: list[str | np.ndarray] = []
        for position, tensor in enumerate(layer.inputs):
            if tensor is not None:
                operands.append(tensor.name)
            elif position in layer.constants:
                operands.append(layer.constants[position])
        for setting in _INPUTS_OF_FILES.get(layer.op_type, ()):
            if setting in layer.attributes:
                operands.append(np.array(layer.attributes[setting], layer.output.dtype))
        return Operation(layer.op_type, tuple(operands), layer.attributes, layer)

    def readers(self, name: str) -> Sequence[Layer] | None:
        if name in self.network.output_tensors:
            return None
        return [layer for layer, _ in self.network.readers[name]]
