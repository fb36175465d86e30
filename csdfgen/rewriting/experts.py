"""What need not be computed because it is multiplied by zero? Experts of a mixture become branches of an If.

Training frameworks export a mixture of experts with all of them: each result is multiplied by its share of the input,
which is zero for experts that were not chosen, and the products are added. What only such a result needs becomes a
branch that is computed where the share is not zero:

    total + expert(x) * share   becomes   total + expert(x) * share if share else total
    Concat(.., expert(x), ..)   becomes   Concat(.., expert(x) if share else 0, ..), multiplied by all shares

Outputs are the same, but where an expert's result is not finite: that times zero is not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import TensorProto

from csdfgen.errors import InputError, option
from csdfgen.model.formats import Format
from csdfgen.model.naming import number_unused_name
from csdfgen.model.network import Guard, Layer, Network, Node, Tensor
from csdfgen.model.rows import Rows
from csdfgen.model.sorting import sort_topologically
from csdfgen.ops import OPERATORS, get_operator
from csdfgen.ops.reducing import FLOATS
from csdfgen.rewriting.conditions import check_network, onnx_nodes

WORTH = 16
"""Operations for each element of a result from which on a branch costs less than it saves."""

_OPSET = 16

_CHOICES = "TopK ArgMax ArgMin OneHot Equal Greater GreaterOrEqual Less LessOrEqual Where Scatter ScatterElements ScatterND"
CHOOSES = frozenset(_CHOICES.split())
"""Operators that a share of zero comes from: a share by Sigmoid or Softmax alone never is."""


@dataclass(frozen=True)
class _Expert:
    """product: the layer that multiplies it. layers: what only the result needs. share: what it is multiplied by, an
    element of a tensor at a position along an axis. total: what the product is added to, if that is the result. zeros:
    how the zeros of the share and of the result are stored.
    """

    product: Layer
    layers: tuple[Layer, ...]
    share: Tensor
    position: tuple[int, int]
    total: Tensor | None = None
    zeros: tuple[int, int] = (0, 0)

    @property
    def result(self) -> Tensor:
        return self.layers[-1].output

    @property
    def is_worth_it(self) -> bool:
        work = sum(get_operator(one).cost(one, Rows(0, one.output.rows)) for one in self.layers)
        return work >= WORTH * self.result.elements


def move_into_branches(network: Network) -> Network:
    """The network with every expert that has a share of its own in a branch. Raises InputError if there is none."""
    found, tried = network, set[tuple[str, int]]()
    while experts := _apart(_experts(found, tried), tried):
        found = _branched(found, experts)
    if found is network:
        raise InputError(
            f"{option('experts')}: no layer's result is multiplied by one number that a gate may choose to be zero",
            where=network.source or network.name,
        )
    return found


# Where experts are --------------------------------------------------------------------------------


def _apart(experts: Iterator[_Expert], tried: set[tuple[str, int]]) -> list[_Expert]:
    """Those that have no layers in common with earlier ones, in the order of the network; the others are tried again."""
    found: list[_Expert] = []
    taken: set[str] = set()
    for one in experts:
        names = {layer.name for layer in one.layers}
        if taken.isdisjoint(names):
            taken |= names
            found.append(one)
        else:
            tried.discard((one.product.name, one.position[1]))
    return found[::-1]


def _experts(network: Network, tried: set[tuple[str, int]]) -> Iterator[_Expert]:
    """Those that were not tried, the last ones first: an outer one in front of those in it, and a sum takes the later one
    of two. tried: names of products, and which of their experts, which are added.
    """
    chosen = _chosen(network)

    def is_new(product: Layer, share: Tensor, number: int = 0) -> bool:
        key = product.name, number
        new = key not in tried and share.name in chosen
        tried.add(key)
        return new

    for layer in reversed(network.layers):
        if any(t is not None and t.name in chosen for t in layer.inputs):
            yield from (one for one in _behind(network, layer, is_new) if one.is_worth_it)


def _chosen(network: Network) -> set[str]:
    """Tensors that depend on a choice."""
    found: set[str] = set()
    for layer in network.layers:
        if layer.op_type in CHOOSES or any(t is not None and t.name in found for t in layer.inputs):
            found.update(tensor.name for tensor in layer.outputs)
    return found


def _behind(network: Network, layer: Layer, is_new: Callable[..., bool]) -> Iterator[_Expert]:
    """Experts whose results a layer multiplies by their shares."""
    stored = layer.stored
    if layer.op_type == "QLinearMul":
        forms = [layer.attributes[name] for name in "xwy"]
        yield from _of_integers(network, layer, forms, is_new)
    elif layer.op_type == "Mul" and stored is not None:
        forms = [stored.read(0), stored.read(1), stored.written(0)]
        yield from _of_integers(network, layer, forms, is_new)
    if layer.op_type not in ("Mul", "MatMul") or stored is not None or len(layer.inputs) != 2:
        return
    for place, (result, share) in enumerate((layer.inputs, layer.inputs[::-1])):
        if result is None or share is None or result.dtype not in FLOATS:
            continue
        alone = layer.op_type == "Mul" and share.elements == 1 < result.elements
        if alone and is_new(layer, share):
            yield from _alone(network, layer, share)
        joined = network.producer.get(result.name)
        if joined is None or joined.op_type != "Concat" or len(network.readers[result.name]) > 1:
            continue
        axis, rank = joined.attributes["axis"], len(result.shape)
        of_share = axis - rank + len(share.shape)
        if layer.op_type == "MatMul":
            if axis != (rank - 1 if place == 0 else rank - 2) or len(share.shape) < 2:
                continue
            of_share = len(share.shape) - (2 if place == 0 else 1)
        parts = len(joined.inputs)
        if (
            of_share < 0
            or not share.elements == share.shape[of_share] == parts == result.shape[axis]
        ):
            continue
        for number, part in enumerate(joined.inputs):
            new = part is not None and is_new(layer, share, number)
            layers = _only_for(network, part.name, share) if part is not None and new else ()
            if layers and layers[-1].output == part:
                yield _Expert(layer, layers, share, (of_share, number))


def _of_integers(
    network: Network, product: Layer, formats: Sequence[Format | None], is_new: Callable[..., bool]
) -> Iterator[_Expert]:
    """An expert whose product is stored as an integer; a sum of it would take another scale, also where it is zero.
    formats: of both operands and of the product.
    """
    zeros = [form.zero_point[0] if form and form.zero_point else 0 for form in formats]
    for share, zero in zip(product.inputs, zeros, strict=False):
        if share is None or share.elements > 1 or product.output.elements == 1:
            continue
        layers = _only_for(network, product.output.name, share) if is_new(product, share) else ()
        if layers:
            yield _Expert(product, layers, share, (0, 0), zeros=(zero, zeros[-1]))


def _alone(network: Network, product: Layer, share: Tensor) -> Iterator[_Expert]:
    """An expert whose product is added to what the others gave, or is the result."""
    output = product.output
    readers = [layer for layer, _ in network.readers[output.name]]
    if (
        len(readers) == 1
        and readers[0].op_type == "Add"
        and output.name not in network.output_tensors
    ):
        (sum_,) = readers
        others = [t for t in sum_.inputs if t is not None and t.name != output.name]
        if len(others) == 1 and others[0].shape == output.shape == sum_.output.shape:
            layers = _only_for(network, sum_.output.name, share, others[0])
            if layers and layers[-1].guards == product.guards and product in layers:
                yield _Expert(product, layers, share, (0, 0), others[0])
                return
    layers = _only_for(network, output.name, share)
    if layers:
        yield _Expert(product, layers, share, (0, 0))


def _only_for(network: Network, name: str, *others: Tensor) -> tuple[Layer, ...]:
    """Layers whose results are needed for a tensor alone, its own last, all in the same branch. others: tensors that are
    needed otherwise.
    """
    last = network.producer.get(name)
    if last is None or len(last.outputs) > 1:
        return ()
    found, kept = {last.name: last}, network.output_tensors | {one.name for one in others}
    waiting = [last]
    while waiting:
        for tensor in waiting.pop().inputs:
            maker = network.producer.get(tensor.name) if tensor is not None else None
            if maker is None or maker.name in found or maker.guards != last.guards:
                continue
            readers = [network.readers[one.name] for one in maker.outputs if one.name not in kept]
            needed = len(readers) == len(maker.outputs) and all(readers)
            if needed and all(one.name in found for pairs in readers for one, _ in pairs):
                found[maker.name] = maker
                waiting.append(maker)
    return tuple(reversed(found.values()))


# Into a branch ------------------------------------------------------------------------------------


def _branched(network: Network, experts: Sequence[_Expert]) -> Network:
    """The network with the layers of each expert in a branch that is computed if its share is not zero."""
    new, inside = _New(network), dict[str, Layer]()
    for expert in experts:
        inside.update(_divided(expert, new))
    layers = [inside.get(one.name, one) for one in network.layers]
    after = replace(network, layers=_in_order(network, [*layers, *new.layers]))
    nodes = onnx_nodes(*(expert.layers[-1] for expert in experts))
    check_network("move_into_branches", network, after, may_repeat=frozenset(nodes))
    return after


def _divided(expert: _Expert, new: _New) -> dict[str, Layer]:
    """The layers of an expert in their branch, by name; the condition and the layer that joins both branches are new."""
    result, last = expert.result, expert.layers[-1]
    share, (axis, position) = expert.share, expert.position
    new.last = last
    name, outside = new.unused(f"{expert.product.name}/expert{position}"), last.guards
    if share.elements > 1:
        share = new.layer("Gather", f"{name}/share", share, np.array([position]), axis=axis)
    ones = (1,) * len(result.shape)
    if share.shape != ones:
        share = new.layer("Reshape", f"{name}/alone", share, np.array(ones))
    zero, nothing = expert.zeros
    if zero:
        same = new.layer("Equal", f"{name}/zero", share, np.array(zero, share.dtype))
        condition = new.layer("Not", f"{name}/condition", same)
    else:
        condition = new.layer("Cast", f"{name}/condition", share, to=TensorProto.BOOL)

    chosen = replace(result, name=new.unused(f"{name}/chosen"))
    inside = {one.name: replace(one, guards=(*outside, Guard(name, True))) for one in expert.layers}
    inside[last.name] = replace(inside[last.name], outputs=(chosen,))
    otherwise: Tensor | np.ndarray = np.full(result.shape, nothing, result.dtype)
    if expert.total is not None:
        otherwise = new.layer("Identity", f"{name}/otherwise", expert.total)
        new.layers[-1] = replace(new.layers[-1], guards=(*outside, Guard(name, False)))
    new.layer("Where", result.name, condition, chosen, otherwise)
    join = new.layers[-1]
    attributes = MappingProxyType({**join.attributes, "branch": name})
    new.layers[-1] = replace(join, attributes=attributes, outputs=(result,))
    return inside


class _New:
    """Layers that are added for branches; they stand for the ONNX nodes of a layer, `last`, and are where it is."""

    def __init__(self, network: Network) -> None:
        self.layers: list[Layer] = []
        self.last = network.layers[-1]
        self._taken = {layer.name for layer in network.layers} | network.tensors.keys()

    def unused(self, name: str) -> str:
        """A name that no layer and no tensor has."""
        return number_unused_name(name, self._taken)

    def layer(
        self, op_type: str, output: str, *operands: Tensor | np.ndarray, **attributes: Any
    ) -> Tensor:
        """Adds a layer; its output."""
        node = Node(self.unused(output), op_type, _OPSET, attributes, operands, (output,))
        made = OPERATORS[op_type].build(node)
        nodes = onnx_nodes(self.last)
        self.layers.append(replace(made, guards=self.last.guards, onnx_nodes=nodes))
        return made.output


def _in_order(network: Network, layers: list[Layer]) -> tuple[Layer, ...]:
    """Layers behind what they read, and those of a branch behind its condition; else as they are given."""
    maker = {tensor.name: k for k, layer in enumerate(layers) for tensor in layer.outputs}
    conditions = replace(network, layers=tuple(layers)).conditions
    waits = {
        k: {
            maker[t.name]
            for t in (*layer.inputs, *(conditions[guard.branch] for guard in layer.guards))
            if t is not None and t.name in maker
        }
        for k, layer in enumerate(layers)
    }
    return tuple(layers[k] for k in sort_topologically(waits))
