"""How often must a network read its rows? Once, and again for each result of all rows that rows depend on: of means by which
channels are weighted, or statistics of a normalization.

Such a result is an output of one pass and an input of those behind it, which compute the rows in front of it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from csdfgen.model.network import Layer, Network, Node, Output
from csdfgen.ops import OPERATORS, get_operator
from csdfgen.ops.base import Mode
from csdfgen.ops.composing import OPSET, Composition, Operand

_DOUBLE, _FLOAT = 11, 1
"""Types of elements in ONNX."""


def split_passes(network: Network) -> tuple[Network, ...]:
    """The network of each pass; a single one if no row depends on a result of all rows."""
    layers = tuple(part for layer in network.layers for part in _spell_out(layer))
    found = _Passes(replace(network, layers=layers))
    return tuple(map(found.network_of, range(found.count))) if found.count > 1 else (network,)


class _Passes:
    """What each pass computes. rows: tensor -> the pass that has its rows, one after the other. ends: tensor -> the pass at whose
    end it is known. crossing: those of them that a later pass reads.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.rows = {one.name: 0 for one in network.inputs if one.rows > 1}
        self.ends: dict[str, int] = {}
        self.crossing: set[str] = set()
        for layer in network.layers:
            self._add(layer)
        self.count = 1 + max((*self.rows.values(), *self.ends.values()), default=0)

    def _add(self, layer: Layer) -> None:
        names = {one.name for one in layer.inputs if one is not None}
        rows = [self.rows[name] for name in names if name in self.rows]
        ends = {name: self.ends[name] for name in names if name in self.ends}
        if not rows and not ends:
            return
        number = max(*rows, *(1 + at for at in ends.values()), 0) if rows else max(ends.values())
        self.crossing |= {name for name, at in ends.items() if at < number}
        operator = get_operator(layer)
        stays = not rows or operator.mode(layer) is Mode.ACCUMULATE
        held = operator.held(layer)
        for k, one in enumerate(layer.outputs):
            (self.ends if stays or k in held else self.rows)[one.name] = number

    def network_of(self, number: int) -> Network:
        """The network of a pass: what it computes for later ones; of the last one, all outputs."""
        whole = self.network
        given = {name for name in self.crossing if self.ends[name] < number}
        made = sorted(name for name in self.crossing if self.ends[name] == number)
        outputs, layers = [Output(name, whole.tensors[name]) for name in made], list[Layer]()
        if number == self.count - 1:
            outputs = list(whole.outputs)
            for k, one in enumerate(outputs):
                if one.tensor is not None and one.tensor.name in given:
                    copy = f"{one.name}/copy"
                    node = Node(copy, "Identity", 18, {}, (one.tensor,), (copy,))
                    layers += OPERATORS["Identity"].layers(node)
                    outputs[k] = replace(one, tensor=layers[-1].output)
        needed = {one.name for layer in layers for one in layer.inputs if one is not None}
        needed |= {one.tensor.name for one in outputs if one.tensor is not None}
        for layer in reversed(whole.layers):
            if needed.intersection(one.name for one in layer.outputs) - given:
                layers.insert(0, layer)
                needed |= {one.name for one in layer.inputs if one is not None}
        inputs = [one for k, one in enumerate(whole.inputs) if not k or one.name in needed]
        inputs += [whole.tensors[name] for name in sorted(given & needed)]
        return replace(whole, inputs=tuple(inputs), outputs=tuple(outputs), layers=tuple(layers))


# Normalizations by what they consist of -----------------------------------------------------------


def _spell_out(layer: Layer) -> tuple[Layer, ...]:
    """Layers of which some reduce all rows and the others are computed by rows, for one that needs all rows."""
    write = _SPELLED.get(layer.op_type)
    constant = all(one is None for one in layer.inputs[1:])
    if (
        write is None
        or layer.stored
        or not constant
        or get_operator(layer).mode(layer) is not Mode.WHOLE
    ):
        return (layer,)
    make = Composition(Node(layer.name, layer.op_type, OPSET, {}, (), (layer.output.name,)))
    return make.written([write(layer, make)])


def _normalize(layer: Layer, make: Composition) -> Operand:
    """By mean and deviation of maps, or of groups of them; moments are sums of float64, as they are subtracted."""
    x, given = layer.computed(0), layer.attributes
    channels, ones = x.shape[1], (1,) * (len(x.shape) - 2)
    groups = given.get("num_groups", channels)
    axes = np.arange(2, len(x.shape))
    wide = make("Cast", x, to=_DOUBLE)

    def moment(values: Operand) -> Operand:
        mean = make("ReduceMean", values, axes)
        shape = np.array([1, groups, channels // groups])
        return make("ReduceMean", make("Reshape", mean, shape), np.array([2]))

    mean = moment(wide)
    square = make("Mul", mean, mean)
    variance = make("Sub", moment(make("Mul", wide, wide)), square)
    variance = make("Add", make("Max", variance, np.array(0.0)), np.array(given["epsilon"]))
    scale, bias = (
        np.repeat(one, channels // one.size).astype("float64").reshape(1, groups, -1)
        for one in (layer.constants[k] for k in (1, 2))
    )
    factor = make("Div", scale, make("Sqrt", variance))
    shift = make("Sub", bias, make("Mul", mean, factor))
    by, more = (
        make("Reshape", make("Cast", one, to=_FLOAT), np.array([1, channels, *ones]))
        for one in (factor, shift)
    )
    return make("Add", make("Mul", x, by), more)


def _softmax(layer: Layer, make: Composition) -> Operand:
    """By the logarithm of the sum of all."""
    x = layer.computed(0)
    total = make("ReduceLogSumExp", x, np.array(layer.attributes["axes"]))
    less = make("Sub", x, total)
    return make("Exp", less) if layer.op_type == "Softmax" else less


_SPELLED: Mapping[str, Callable[[Layer, Composition], Operand]] = {
    "InstanceNormalization": _normalize,
    "GroupNormalization": _normalize,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
}
"""Operator -> how a layer of it is written."""
