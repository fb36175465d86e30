"""How often must a network read its rows? Once, and again for each result of all rows that rows depend on: of means by which
channels are weighted, or statistics of a normalization.

Such a result is an output of one pass and an input of those behind it, which compute the rows in front of it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from csdfgen.errors import PlanError, option
from csdfgen.model.network import Layer, Network, Node, Output
from csdfgen.ops import OPERATORS, get_operator
from csdfgen.ops.base import Mode
from csdfgen.ops.composing import OPSET, Composition, Operand

_REDUCTIONS = ("Global", "Reduce", "QLinearGlobal")
"""How names of operators begin whose results over all rows and columns are joined in any order."""


def split_passes(network: Network, *, strips: bool = False) -> tuple[Network, ...]:
    """The network of each pass; a single one if no row depends on a result of all rows. strips: of an image in strips of columns,
    of which earlier passes give what is reduced (`reduce_pixels`). Raises PlanError for results of columns of their own.
    """
    found = _Passes(network, strips=strips)
    if found.count == 1:
        return (network,)
    if strips and found.alone:
        raise PlanError(
            f"layer '{found.alone}' has a result for each column, which strips do not share; leave {option('columns')} out"
        )
    return tuple(map(found.network_of, range(found.count)))


def detach_sums(network: Network) -> Network:
    """The network with results of all rows and columns as inputs, and with what they are made of as outputs."""
    found = _Passes(network, strips=True)
    if found.count == 1 or not found.sums:
        return network
    return found.cut_off({*found.sums}, [*found.network.outputs, *found.list_reduced(found.sums)])


def reduce_pixels(network: Network, name: str, rows: int, columns: int) -> Network:
    """What an image in strips reduces an output of a pass to, with so many of its pixels as rows and columns."""
    found = _Passes(network, strips=True)
    layers = [one for one in found.sums.values() if one.computed(0).name == name]
    source = layers[0].computed(0)
    shape, axis = source.shape, source.row_axis or 0
    pixels = replace(source, shape=(*shape[:axis], rows, columns, *shape[axis + 2 :]))
    sizes = {"kernel_shape": pixels.shape[2:]}
    layers = [
        replace(
            one,
            inputs=(pixels, *one.inputs[1:]),
            attributes={name: sizes.get(name, value) for name, value in one.attributes.items()},
        )
        for one in layers
    ]
    outputs = tuple(Output(one.output.name, one.output) for one in layers)
    return replace(found.network, inputs=(pixels,), outputs=outputs, layers=tuple(layers))


class _Passes:
    """What each pass computes. rows: tensor -> the pass that has its rows, one after the other. ends: tensor -> the pass at whose
    end it is known. crossing: those of them that a later pass reads. sums: layers that reduce all rows and columns, by what they
    make, which is what crosses of strips. alone: a layer that reduces rows alone.
    """

    def __init__(self, network: Network, *, strips: bool) -> None:
        layers = tuple(part for layer in network.layers for part in _spell_out(layer))
        self.network, self.strips = replace(network, layers=layers), strips
        self.rows = {one.name: 0 for one in network.inputs if one.rows > 1}
        self.ends: dict[str, int] = {}
        self.crossing: set[str] = set()
        self.sums: dict[str, Layer] = {}
        self.alone = ""
        for layer in layers:
            self._add(layer)
        self.count = 1 + max((*self.rows.values(), *self.ends.values()), default=0)
        if strips:
            self.crossing = {*self.sums}

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
        if rows and stays and _reduces_all(layer):
            self.sums |= {one.name: layer for one in layer.outputs}
        elif rows and (stays or held):
            self.alone = self.alone or layer.name
        for k, one in enumerate(layer.outputs):
            (self.ends if stays or k in held else self.rows)[one.name] = number

    def network_of(self, number: int) -> Network:
        """The network of a pass: what it computes for later ones; of the last one, all outputs."""
        whole = self.network
        given = {name for name in self.crossing if self.ends[name] < number}
        made = sorted(name for name in self.crossing if self.ends[name] == number)
        if number == self.count - 1:
            return self.cut_off(given, whole.outputs)
        if self.strips:
            return self.cut_off(given, self.list_reduced(made))
        return self.cut_off(given, [Output(name, whole.tensors[name]) for name in made])

    def list_reduced(self, names: Iterable[str]) -> list[Output]:
        """What sums are made of."""
        found = {one.name: one for one in (self.sums[name].computed(0) for name in names)}
        return [Output(name, one) for name, one in found.items()]

    def cut_off(self, given: set[str], outputs: Sequence[Output]) -> Network:
        """What it takes to make the outputs from results that are inputs."""
        whole, made, layers = self.network, list(outputs), list[Layer]()
        there = given | {one.name for one in whole.inputs}
        for k, one in enumerate(made):
            if one.tensor is not None and one.tensor.name in there:
                copy = f"{one.name}/copy"
                node = Node(copy, "Identity", 18, {}, (one.tensor,), (copy,))
                layers += OPERATORS["Identity"].layers(node)
                made[k] = replace(one, tensor=layers[-1].output)
        needed = {one.name for layer in layers for one in layer.inputs if one is not None}
        needed |= {one.tensor.name for one in made if one.tensor is not None}
        for layer in reversed(whole.layers):
            if needed.intersection(one.name for one in layer.outputs) - given:
                layers.insert(0, layer)
                needed |= {one.name for one in layer.inputs if one is not None}
        inputs = *whole.inputs, *(whole.tensors[name] for name in sorted(given & needed))
        return replace(whole, inputs=inputs, outputs=tuple(made), layers=tuple(layers))


def _reduces_all(layer: Layer) -> bool:
    """Whether a layer reduces rows and columns."""
    x = layer.computed(0)
    axes = {*layer.attributes.get("axes", range(2, len(x.shape)))}
    return layer.op_type.startswith(_REDUCTIONS) and {x.row_axis, (x.row_axis or 0) + 1} <= axes


# Normalizations by what they consist of -----------------------------------------------------------


def _spell_out(layer: Layer) -> tuple[Layer, ...]:
    """Layers of which some reduce all rows and the others are computed by rows, for one that needs all rows."""
    write = _SPELLED.get(layer.op_type)
    constant = all(one is None for one in layer.inputs[1:])
    if (
        write is None
        or layer.stored
        or not constant
        or len(layer.outputs) > 1
        or get_operator(layer).mode(layer) is not Mode.WHOLE
    ):
        return (layer,)
    make = Composition(Node(layer.name, layer.op_type, OPSET, {}, (), (layer.output.name,)))
    return make.written([write(layer, make)])


def _normalize(layer: Layer, make: Composition) -> Operand:
    """By mean and deviation over axes, or over groups of channels; moments are sums of float64, as they are subtracted."""
    x, given = layer.computed(0), layer.attributes
    groups, axes = given.get("num_groups", 0), given["axes"]
    wide = make("CastLike", x, np.zeros(1))

    def moment(values: Operand) -> Operand:
        mean = make("ReduceMean", values, np.array(axes[1:] if groups else axes))
        return _average_groups(mean, groups, make) if groups else mean

    mean = moment(wide)
    square = make("Mul", mean, mean)
    variance = make("Sub", moment(make("Mul", wide, wide)), square)
    variance = make("Add", make("Max", variance, np.array(0.0)), np.array(given["epsilon"]))
    factor = make("Reciprocal", make("Sqrt", variance))
    scale, bias = (_broadcast_parameter(layer, k) for k in (1, 2))
    if scale is not None:
        factor = make("Mul", factor, scale.astype("float64"))
    mean, factor = (make("CastLike", one, np.zeros(1, x.dtype)) for one in (mean, factor))
    y = make("Mul", make("Sub", x, mean), factor)
    return y if bias is None else make("Add", y, bias)


def _average_groups(mean: Operand, groups: int, make: Composition) -> Operand:
    """Means of groups of channels, for each channel."""
    parts = make("Reshape", mean, np.array([1, groups, -1]))
    found = make("ReduceMean", parts, np.array([2]))
    return make("Reshape", make("Expand", found, np.array(parts.shape)), np.array(mean.shape))


def _broadcast_parameter(layer: Layer, position: int) -> np.ndarray | None:
    """Scale or bias, which of maps and groups has a value for each channel or group, as what is broadcast."""
    found, shape = layer.constants.get(position), layer.output.shape
    if found is None or layer.op_type not in ("GroupNormalization", "InstanceNormalization"):
        return found
    return np.repeat(found, shape[1] // found.size).reshape(-1, *(1 for _ in shape[2:]))


def _softmax(layer: Layer, make: Composition) -> Operand:
    """By the logarithm of the sum of all."""
    x = layer.computed(0)
    total = make("ReduceLogSumExp", x, np.array(layer.attributes["axes"]))
    less = make("Sub", x, total)
    return make("Exp", less) if layer.op_type == "Softmax" else less


_SPELLED: Mapping[str, Callable[[Layer, Composition], Operand]] = {
    "GroupNormalization": _normalize,
    "InstanceNormalization": _normalize,
    "LayerNormalization": _normalize,
    "MeanVarianceNormalization": _normalize,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
}
"""Operator -> how a layer of it is written."""
