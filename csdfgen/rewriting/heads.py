"""Which queries, keys and values need not be in memory at once? An attention in parts, of a few heads each.

One product makes queries, keys and values of all heads, and an attention needs its keys and values whole. In parts,
only the keys and values of one part are whole at a time. The queries of the last part are computed just before the
rows that need them, and its results are read as they are made. With h parts, where a tensor x is kept for a residual,

    x + Q + K + V   becomes   x + (1 - 1/h) * results of all heads + (K + V) / h

Each part normalizes x again, all else is computed once; an element of a product is the same sum, with
its constant elsewhere in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.model.network import Layer, Network, Shape, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops import get_operator
from csdfgen.ops.attention import MASKS, View, find_view, find_views, view_slab
from csdfgen.ops.base import Mode
from csdfgen.rewriting.attention import is_plain
from csdfgen.rewriting.conditions import check_network, onnx_nodes

FEWEST_ROWS = 64
"""Rows of queries below which an attention stays as it is: they are computed in a phase or two."""

LEAST_COLUMNS = 64
"""Results of a part, in elements of a row. Products of fewer columns are slow, and each part normalizes again."""

MOST_LAYERS = 12
"""Layers in front of a product that are computed again; a normalization that was taken apart has 9."""

CHEAP_LAYERS = 2
"""Layers in front of a product that are computed again for every part."""


LAST_PARTS = 2
"""Parts, the last ones, whose queries are computed apart. In the others a row of one product has queries, keys and
values, and is kept until the part is complete, when fewer results of earlier parts are there.
"""


@dataclass(frozen=True)
class _Product:
    """How a tensor of shape (..., rows, columns) is made. lead: layers that make a row of what is multiplied from a
    row of the source. layers: the product, and what adds constants to it. kept: whether the source is read later on.
    """

    source: Tensor
    lead: tuple[Layer, ...]
    layers: tuple[Layer, ...]
    kept: bool


@dataclass(frozen=True)
class _Operand:
    """Queries, keys, values or results: a view of a tensor. places: of the elements in two rows of the tensor."""

    tensor: Tensor
    view: View
    places: np.ndarray

    @property
    def elements(self) -> int:
        """How many there are in all rows."""
        return self.places.size * self.tensor.rows // 2

    @classmethod
    def of(cls, tensor: Tensor, view: View) -> _Operand | None:
        """None unless the tensor is a matrix whose rows are positions."""
        matrix = tensor.rows * tensor.shape[-1] == tensor.elements
        if not matrix or tensor.row_axis != len(tensor.shape) - 2 or view.row != view.rank - 2:
            return None
        two = _two_rows(tensor)
        return cls(
            tensor, view, view_slab(np.arange(two.elements).reshape(two.storage_shape), view)
        )


@dataclass(frozen=True)
class _Cut:
    """How an attention is divided: its results, and into how many parts along which axis of its views."""

    results: _Operand
    axis: int
    count: int

    def heads(self, number: int) -> tuple[slice, ...]:
        """Where the heads of a part are, as an index of places."""
        size = self.results.places.shape[self.axis] // self.count
        return (*(slice(None),) * self.axis, slice(number * size, number * size + size))

    def part(self, attention: Layer, number: int, named: Callable[[str], str]) -> Layer:
        """The attention of a part, which reads its queries, keys and values."""
        columns = attention.output.shape[-1] // self.count
        output = replace(
            attention.output,
            name=named(attention.output.name),
            shape=(*attention.output.shape[:-1], columns),
        )
        heads = self.heads(number)
        row, column = np.divmod(self.results.places[heads], attention.output.shape[-1])
        view = find_view(_two_rows(output), row * columns + column - number * columns)
        *views, _ = find_views(attention)
        from_behind = self.axis - views[0].rank
        of_heads: tuple[Any, ...] = (Ellipsis, heads[-1], *(slice(None),) * (-from_behind - 1))
        masks = {
            k: mask[of_heads] if _has_heads(mask.shape, from_behind) else mask
            for k, mask in attention.constants.items()
        }
        return replace(
            attention,
            name=named(attention.name),
            outputs=(output,),
            attributes=MappingProxyType({**attention.attributes, "views": (*views, view)}),
            constants=MappingProxyType(masks),
        )


@dataclass
class _Parts:
    """The layers that stand for an attention, as they are added. free: names of layers and tensors that are gone."""

    names: set[str]
    free: set[str]
    products: dict[str, _Product]
    layers: list[Layer] = field(default_factory=list)

    def named(self, name: str, whole: bool = False) -> str:
        """A name that nothing has; the same where that of a whole tensor or layer is free."""
        if whole and name in self.free:
            self.free.remove(name)
            return name
        number = 1
        while f"{name}/part{number}" in self.names:
            number += 1
        self.names.add(f"{name}/part{number}")
        return f"{name}/part{number}"

    def _copy(self, layer: Layer, made: dict[str, Tensor], columns: np.ndarray | None) -> None:
        """Add a layer that computes these columns (None: all) of what another does, from what `made` has in place of its
        inputs.
        """
        output, constants = layer.output, dict(layer.constants)
        if columns is not None:
            output = replace(output, shape=(*output.shape[:-1], len(columns)))
            constants = {
                k: array[..., columns] if array.ndim and array.shape[-1] > 1 else array
                for k, array in constants.items()
            }
        made[layer.output.name] = replace(output, name=self.named(output.name, columns is None))
        self.layers.append(
            replace(
                layer,
                name=self.named(layer.name, columns is None),
                inputs=tuple(None if t is None else made.get(t.name, t) for t in layer.inputs),
                outputs=(made[layer.output.name],),
                constants=MappingProxyType(constants),
            )
        )

    def compute(
        self, operands: Sequence[_Operand], heads: tuple[slice, ...]
    ) -> list[tuple[Tensor, View]]:
        """Add what computes operands of some heads, and give them; layers that two need are added once."""
        wanted: dict[str, list[np.ndarray]] = {}
        for one in operands:
            columns = one.places[heads] % one.tensor.shape[-1]
            wanted.setdefault(one.tensor.name, []).append(columns.reshape(-1))
        made: dict[str, Tensor] = {}
        for name, product in self.products.items():
            for layer in product.lead if name in wanted else ():
                if layer.output.name not in made:
                    self._copy(layer, made, None)
        found = {name: np.unique(np.concatenate(columns)) for name, columns in wanted.items()}
        for name in self.products.keys() & found.keys():
            every = len(found[name]) == self.products[name].layers[-1].output.shape[-1]
            for layer in self.products[name].layers:
                self._copy(layer, made, None if every else found[name])
        views = []
        for one in operands:
            tensor, view = made.get(one.tensor.name, one.tensor), one.view
            if tensor is not one.tensor:
                row, column = np.divmod(one.places[heads], one.tensor.shape[-1])
                places = row * tensor.shape[-1] + np.searchsorted(found[one.tensor.name], column)
                narrower = find_view(_two_rows(tensor), places)
                assert narrower is not None, "a few heads are as evenly spaced as all of them"
                view = narrower
            views.append((tensor, view))
        return views


def split_attention(network: Network) -> Network:
    """The network with attentions of many queries in parts of a few heads, where that takes less memory. Raises
    BrokenRewritingError if the rewriting does not keep its conditions.
    """
    for layer in network.layers:
        if layer.op_type == "Attention":
            network = _in_parts(network, layer) or network
    return network


def complete_parts(network: Network) -> tuple[str, ...]:
    """Attentions that are parts of one, but for the last of each: those that are best completed one after the other."""
    found: list[str] = []
    for layer in network.layers:
        parts = [None if t is None else network.producer.get(t.name) for t in layer.inputs]
        if layer.op_type == "Concat" and all(p and p.op_type == "Attention" for p in parts):
            found += [part.name for part in parts[:-1] if part is not None]
    return tuple(found)


def _in_parts(network: Network, attention: Layer) -> Network | None:
    """The network with an attention in parts; None where that saves nothing."""
    if (
        len(attention.outputs) != 1
        or attention.output.rows < FEWEST_ROWS
        or not is_plain(attention)
        or attention.guards
    ):
        return None
    tensors, views = (*attention.inputs[:MASKS], attention.output), find_views(attention)
    found = [_Operand.of(t, view) for t, view in zip(tensors, views, strict=True) if t is not None]
    operands = [one for one in found[:MASKS] if one is not None]
    if len(operands) < MASKS or views[-1].row != views[-1].rank - 2:
        return None
    made = {one.tensor.name: _product(network, one.tensor, attention) for one in operands}
    products = {name: product for name, product in made.items() if product is not None}
    queries = operands[0]
    apart = products.get(queries.tensor.name)
    if apart is None or not (apart.kept or apart.source.elements <= queries.elements):
        return None
    results = found[MASKS]
    if results is not None:
        axis, count = _division(attention, [*operands, results], products)
        if count > 1:
            return _replaced(network, attention, operands, products, _Cut(results, axis, count))
    # keys and values that have products of their own stay as they are
    return _replaced(network, attention, operands, {queries.tensor.name: apart}, None)


def _division(
    attention: Layer, operands: Sequence[_Operand], products: dict[str, _Product]
) -> tuple[int, int]:
    """The axis of heads, and into how many parts it is divided; one where more would take no less memory.

    operands: queries, keys, values and, where they are rows of a matrix, results.
    """
    whole = 0, 1
    if len(operands) <= MASKS or any(one.tensor.name not in products for one in operands[:MASKS]):
        return whole
    if any(not one.kept or len(one.lead) > CHEAP_LAYERS for one in products.values()):
        return whole
    _, k, v, out = operands
    rank, columns = out.view.rank, out.tensor.shape[-1]
    alike = (
        axis for axis in range(rank - 2) if len({one.places.shape[axis] for one in operands}) == 1
    )
    axis = next((axis for axis in alike if out.places.shape[axis] > 1), None)
    if axis is None or k.elements + v.elements <= out.elements:
        return whole
    heads = out.places.shape[axis]
    if any(t is not None and _has_heads(t.shape, axis - rank) for t in attention.inputs[MASKS:]):
        return whole
    for count in range(heads, 1, -1):
        if heads % count == 0 and columns % count == 0 and columns // count >= LEAST_COLUMNS:
            parts = out.places % columns * count // columns
            wanted = np.arange(heads).reshape(-1, *(1,) * (rank - axis - 1)) * count // heads
            if np.array_equal(parts, np.broadcast_to(wanted, parts.shape)):
                return axis, count
    return whole


def _has_heads(shape: Shape, axis: int) -> bool:
    """Whether a mask differs by head. axis: that of the heads, counted from behind."""
    return len(shape) >= -axis and shape[axis] > 1


def _product(network: Network, tensor: Tensor, attention: Layer) -> _Product | None:
    """How a tensor is made for an attention alone; None where it is not, or not by a product with constant columns."""
    layers: list[Layer] = []
    reader, made = attention, tensor
    while not layers or layers[0].op_type == "Add":
        layer = network.producer.get(made.name)
        readers = [one for one, _ in network.readers[made.name]]
        if layer is None or any(one is not reader for one in readers):
            return None
        if made.name in network.output_tensors or not is_plain(layer) or len(layer.outputs) > 1:
            return None
        if layer.guards:
            return None
        source = next((t for t in layer.inputs if t is not None), None)
        adds = layer.op_type == "Add" and len(layer.constants) == 1
        multiplies = layer.op_type == "MatMul" and layer.constants.keys() == {1}
        if source is None or not (adds or (multiplies and layer.constants[1].ndim == 2)):
            return None
        if source.shape[:-1] != made.shape[:-1] or source.row_axis not in (None, made.row_axis):
            return None
        layers.insert(0, layer)
        reader, made = layer, source
    lead = _lead(network, made, attention)
    if lead is None:
        return _Product(made, (), tuple(layers), kept=False)
    return _Product(*lead, tuple(layers), kept=True)


def _lead(
    network: Network, tensor: Tensor, attention: Layer
) -> tuple[Tensor, tuple[Layer, ...]] | None:
    """The nearest tensor that is read after an attention, and the layers that make rows of another from its rows; None
    where there is none.
    """
    order = {id(layer): number for number, layer in enumerate(network.layers)}
    needed, lead = {tensor.name: tensor}, list[Layer]()
    while True:
        if len(needed) == 1:
            (source,) = needed.values()
            last = max((order[id(one)] for one, _ in network.readers[source.name]), default=0)
            if last > order[id(attention)] or source.name in network.output_tensors:
                return source, tuple(lead)
        makers = [network.producer[name] for name in needed if name in network.producer]
        layer = max(makers, key=lambda one: order[id(one)], default=None)
        if layer is None or len(lead) == MOST_LAYERS or not _by_row(layer):
            return None
        lead.insert(0, layer)
        del needed[layer.output.name]
        needed |= {t.name: t for t in layer.inputs if t is not None}


def _by_row(layer: Layer) -> bool:
    """Whether a layer makes each row of the same row of every input, without multiplying matrices."""
    operator, rows = get_operator(layer), layer.output.rows
    if (
        layer.guards
        or operator.multiplies
        or operator.mode(layer) is not Mode.ROWS
        or len(layer.outputs) > 1
    ):
        return False
    read = [t for t in layer.inputs if t is not None]
    axes = [axis for t, axis in zip(layer.inputs, layer.input_axes, strict=True) if t is not None]
    if any(t.rows != rows or t.row_axis != axis for t, axis in zip(read, axes, strict=True)):
        return False
    return all(
        needed in (None, Rows(row, row + 1))
        for row in (0, rows // 2, rows - 1)
        for needed in operator.input_rows(layer, Rows(row, row + 1))
    )


def _two_rows(tensor: Tensor) -> Tensor:
    """A matrix of two rows with the columns of another."""
    return replace(tensor, shape=(*tensor.shape[:-2], 2, tensor.shape[-1]))


def _replaced(
    network: Network,
    attention: Layer,
    operands: Sequence[_Operand],
    products: dict[str, _Product],
    cut: _Cut | None,
) -> Network:
    """The network with an attention in parts, or (None) with its queries apart from keys and values alone."""
    gone = {id(layer) for one in products.values() for layer in one.layers} | {id(attention)}
    lead = {id(layer) for one in products.values() for layer in one.lead}
    for layer in reversed(network.layers):
        readers = network.readers[layer.output.name]
        if id(layer) in lead and all(id(reader) in gone for reader, _ in readers):
            gone.add(id(layer))
    lost = [layer for layer in network.layers if id(layer) in gone and layer is not attention]
    free = {name for layer in lost for name in (layer.name, layer.output.name)}
    taken = {layer.name for layer in network.layers} | set(network.tensors)
    parts = _Parts(taken, free, products)
    q, k, v = operands
    if cut is None:
        keys, values = parts.compute((k, v), ())
        parts.layers.append(_reading(attention, *parts.compute((q,), ()), keys, values))
    else:
        results = []
        for number in range(cut.count):
            heads = cut.heads(number)
            if number + LAST_PARTS < cut.count:
                read = parts.compute(operands, heads)
            else:
                keys, values = parts.compute((k, v), heads)
                read = [*parts.compute((q,), heads), keys, values]
            part = cut.part(_reading(attention, *read), number, parts.named)
            results.append(part.output)
            parts.layers.append(part)
        parts.layers.append(_joined(attention, results))
    layers: list[Layer] = []
    for layer in network.layers:
        if layer is attention:
            layers += parts.layers
        elif id(layer) not in gone:
            layers.append(layer)
    rewritten = replace(network, layers=tuple(layers))
    repeated = frozenset(onnx_nodes(*parts.layers))
    check_network("split_attention", network, rewritten, may_repeat=repeated)
    return rewritten


def _reading(attention: Layer, *operands: tuple[Tensor, View]) -> Layer:
    """The attention of other queries, keys and values."""
    views = (*(view for _, view in operands), find_views(attention)[-1])
    return replace(
        attention,
        inputs=(*(tensor for tensor, _ in operands), *attention.inputs[MASKS:]),
        attributes=MappingProxyType({**attention.attributes, "views": views}),
    )


def _joined(attention: Layer, results: Sequence[Tensor]) -> Layer:
    """What makes the results of an attention of those of its parts."""
    sizes = tuple(tensor.shape[-1] for tensor in results)
    return Layer(
        attention.name,
        "Concat",
        tuple(results),
        attention.outputs,
        MappingProxyType({"axis": len(attention.output.shape) - 1, "sizes": sizes}),
        input_axes=tuple(tensor.row_axis for tensor in results),
        onnx_nodes=attention.onnx_nodes,
    )
