"""Which products and softmaxes are one attention? softmax(Q K' + mask) V as one layer.

As one layer, scores exist for the rows of one phase only, and the nodes around the products that merely move
elements (heads apart and together, windows, one tensor cut into Q, K and V) need no copy: the layer reads
the tensors before them and writes the one behind them (`ops.attention.View`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from types import MappingProxyType

import numpy as np

from csdfgen.model.network import Layer, Network, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops import OPERATORS
from csdfgen.ops.attention import MASKS, View, find_view
from csdfgen.ops.base import Phase, run_slab
from csdfgen.rewriting.conditions import check_network, onnx_nodes

MOVES = frozenset(
    {
        "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Gather", "Identity",
    }
)  # fmt: skip
"""Operators that only move elements; MOST bounds the tensors for which that is followed."""

MOST = 1 << 24


@dataclass
class _Match:
    """An attention, as it is found: the layers that it stands for, and what it reads.

    taken: layers that are gone. crossed: layers that are gone if nobody else reads them. scale: of the scores.
    """

    taken: list[Layer]
    crossed: list[Layer] = field(default_factory=list)
    scale: float = 1.0


def fuse_attention(network: Network) -> Network:
    """The network with every softmax between two products of computed float32 tensors as one layer with them.
    Raises BrokenRewritingError if the rewriting does not keep its conditions.
    """
    for layer in network.layers:
        if layer.op_type == "Softmax":
            rewritten = _attended(*_join_guard(network, layer))
            if rewritten is not None:
                network = rewritten
    return network


def _attended(network: Network, softmax: Layer) -> Network | None:
    """The network with the attention around a softmax as one layer; None where there is none."""
    rank = len(softmax.output.shape)
    product = _only_reader(network, softmax)
    if softmax.attributes["axes"] != (rank - 1,) or product is None or not _is_product(product):
        return None
    if product.inputs[0] != softmax.output or rank < 3:
        return None
    found = _scores(network, softmax)
    if found is None:
        return None
    match, first, masks = found
    match.taken += [softmax, product]
    q, k, v = first.inputs[0], first.inputs[1], product.inputs[1]
    assert q is not None and k is not None and v is not None
    batch = product.output.shape[:-2]
    groups = [t.shape[:-2] for t in (q, k, v)]
    if np.broadcast_shapes(*groups[:2]) != batch or any(t.elements > MOST for t in (q, k, v)):
        return None
    found_q = _source(network, q, False, True)
    both = ((k, True), (v, False))
    found_k, found_v = (_source(network, t, first, first) for t, first in both)
    if found_k and found_v and found_k[0] != found_v[0]:  # neither is kept whole for a part of it
        found_k, found_v = (_source(network, t, one, one, t.elements) for t, one in both)
    out, view = _target(network, match, product)
    if found_q is None or found_k is None or found_v is None or view is None:
        return None
    for _, _, crossed in (found_q, found_k, found_v):
        match.crossed += crossed
        match.scale *= prod(_factor(layer) or 1 for layer in crossed)
    (q, of_q, _), (k, of_k, _), (v, of_v, _) = found_q, found_k, found_v
    gone = _gone(network, match, {q.name, k.name, v.name})
    taken = [part for part in network.layers if id(part) in gone]
    if any(part.guards != softmax.guards for part in taken):
        return None
    inputs = (q, k, v, *(mask if isinstance(mask, Tensor) else None for mask in masks))
    layer = Layer(
        product.name,
        "Attention",
        inputs,
        (out,),
        MappingProxyType(
            {
                "views": (of_q, of_k, of_v, view),
                "scale": match.scale,
                "causal": False,
                "softcap": 0.0,
                "zeros_for_nan": softmax.attributes.get("zeros_for_nan", False),
            }
        ),
        MappingProxyType(
            {MASKS + k: mask for k, mask in enumerate(masks) if isinstance(mask, np.ndarray)}
        ),
        tuple(None if t is None else t.row_axis for t in inputs),
        onnx_nodes=onnx_nodes(*taken),
        guards=softmax.guards,
    )
    last = network.producer[out.name]
    layers = [
        layer if part is last else part
        for part in network.layers
        if part is last or id(part) not in gone
    ]
    rewritten = replace(network, layers=tuple(layers))
    check_network("fuse_attention", network, rewritten)
    return rewritten


def _join_guard(network: Network, softmax: Layer) -> tuple[Network, Layer]:
    """The network with Where(IsNaN(y), 0, y) behind a softmax y, as PyTorch writes it for queries without a key, as part of
    the softmax, which no kernel but that of an attention knows; both as they are if nothing is behind it.
    """
    y = softmax.output
    readers = [layer for layer, _ in network.readers[y.name]]
    test = next((layer for layer in readers if layer.op_type == "IsNaN"), None)
    where = test and _only_reader(network, test)
    if test is None or where is None or where.op_type != "Where":
        return network, softmax
    zero, parts = where.constants.get(1), (softmax, test, where)
    alike = all(
        part.stored is None and not part.epilogue and part.guards == softmax.guards
        for part in parts
    )
    alone = all(layer is test or layer is where for layer in readers)
    if zero is None or zero.any() or where.inputs[0] != test.output or where.inputs[2] != y:
        return network, softmax
    if not (alike and alone) or y.name in network.output_tensors:
        return network, softmax
    joined = replace(
        softmax,
        name=where.name,
        outputs=where.outputs,
        attributes=MappingProxyType({**softmax.attributes, "zeros_for_nan": True}),
        onnx_nodes=onnx_nodes(*parts),
    )
    kept = [layer for layer in network.layers if layer is not softmax and layer is not test]
    layers = tuple(joined if layer is where else layer for layer in kept)
    rewritten = replace(network, layers=layers)
    check_network("fuse_attention", network, rewritten, joined=[(joined, parts)])
    return rewritten, joined


def is_plain(layer: Layer) -> bool:
    """Whether a layer computes float32 and nothing besides."""
    floats = all(t is None or t.dtype == "float32" for t in (*layer.inputs, *layer.outputs))
    return floats and layer.stored is None and not layer.epilogue


def _is_product(layer: Layer) -> bool:
    """Whether a layer is the product of two computed tensors of as many axes as the product."""
    operands = layer.inputs
    return (
        layer.op_type == "MatMul"
        and is_plain(layer)
        and all(t is not None and len(t.shape) == len(layer.output.shape) for t in operands)
    )


def _only_reader(network: Network, layer: Layer) -> Layer | None:
    """The layer that alone reads the only output of a layer, if that is no output of the network."""
    readers = network.readers[layer.output.name]
    if len(readers) != 1 or len(layer.outputs) != 1 or layer.output.name in network.output_tensors:
        return None
    return readers[0][0]


def _factor(layer: Layer) -> float | None:
    """The number by which a layer multiplies its computed input, None where it does something else."""
    if layer.op_type not in ("Mul", "Div") or len(layer.constants) != 1 or not is_plain(layer):
        return None
    ((position, constant),) = layer.constants.items()
    source = layer.inputs[1 - position]
    if constant.size != 1 or source is None or source.shape != layer.output.shape:
        return None
    value = float(constant.reshape(()))
    if layer.op_type == "Mul":
        return value or None
    return 1 / value if position == 1 and value else None


def _scores(
    network: Network, softmax: Layer
) -> tuple[_Match, Layer, list[Tensor | np.ndarray]] | None:
    """What comes before a softmax: the product of queries and keys, then a factor, then masks."""
    match, masks = _Match([]), list[Tensor | np.ndarray]()
    layer = _alone(network, softmax.inputs[0])
    while layer is not None and not _is_product(layer):
        source, factor, mask = _step(network, layer)
        if source is None or (mask is not None and match.scale != 1):
            return None  # what follows the mask multiplies it, too
        match.taken.insert(0, layer)
        match.scale *= factor
        if mask is not None:
            masks.append(mask)
        layer = _alone(network, source)
    if layer is None or layer.output.shape != softmax.output.shape:
        return None
    match.taken.insert(0, layer)
    rank = len(layer.output.shape)
    if any(prod(mask.shape[:-rank]) > 1 for mask in masks):
        return None
    arrays = [mask.reshape(mask.shape[-rank:]) for mask in masks if isinstance(mask, np.ndarray)]
    computed = [mask for mask in masks if isinstance(mask, Tensor)]
    if any(len(mask.shape) > rank for mask in computed):
        return None
    return match, layer, [*computed, *arrays]


def _step(
    network: Network, layer: Layer
) -> tuple[Tensor | None, float, Tensor | np.ndarray | None]:
    """What a layer between the products reads, what it multiplies that with and what it adds; no tensor where
    it does anything else.
    """
    if not is_plain(layer):
        return None, 1, None
    whole = [t for t in layer.inputs if t is not None and t.shape == layer.output.shape]
    factor = _factor(layer)
    if factor is not None:
        return whole[0], factor, None
    if layer.op_type == "Add":
        made = [(_alone(network, tensor), tensor) for tensor in whole]
        likely = sorted(
            ((one, t) for one, t in made if one is not None),
            key=lambda pair: not _is_product(pair[0]),
        )
        for _, tensor in likely:
            (k,) = (k for k, t in enumerate(layer.inputs) if t is not tensor)
            return tensor, 1, layer.constants[k] if layer.inputs[k] is None else layer.inputs[k]
    source = layer.inputs[0]
    if layer.op_type in MOVES and source is not None:
        # windows of an image as [1, windows, ...] and as [windows, ...]: masks are aligned from the right
        one_more = (
            (1, *layer.output.shape),
            layer.output.shape[1:] if layer.output.shape[0] == 1 else (),
        )
        if source.shape in one_more:
            return source, 1, None
    return None, 1, None


def _alone(network: Network, tensor: Tensor | None) -> Layer | None:
    """The layer that makes a tensor for one reader alone."""
    if tensor is None or tensor.name not in network.producer:
        return None
    layer = network.producer[tensor.name]
    return layer if _only_reader(network, layer) is not None else None


def _moved(layer: Layer, stored: np.ndarray) -> dict[str, np.ndarray]:
    """What a layer that moves elements makes of its stored input: by name of output, as stored."""
    operator = OPERATORS[layer.op_type]
    rows = Rows(0, layer.output.rows)
    phase = Phase(rows, operator.input_rows(layer, rows))
    held = phase.held(0)
    slabs = [stored[held.start : held.stop], *[None] * (len(layer.inputs) - 1)]
    results = [np.empty(tensor.storage_shape, stored.dtype) for tensor in layer.outputs]
    run_slab(operator, layer, phase, slabs, results)
    return {tensor.name: array for tensor, array in zip(layer.outputs, results, strict=True)}


def _places(tensor: Tensor) -> np.ndarray:
    """The place of every element of a tensor in its storage, as it is stored."""
    return np.arange(tensor.elements, dtype=np.int64).reshape(tensor.storage_shape)


def _moves(layer: Layer) -> bool:
    """Whether a layer moves the elements of its one computed input, along the rows that this has."""
    source = layer.inputs[0]
    return (
        layer.op_type in MOVES
        and is_plain(layer)
        and source is not None
        and layer.input_axes[0] == source.row_axis
        and not any(t is not None for t in layer.inputs[1:])
        and source.elements <= MOST
    )


def _before(network: Network, tensor: Tensor, scaled: bool) -> list[tuple[Layer, Tensor]]:
    """The layers before a tensor that move elements or (scaled) multiply them by a number, the last one first,
    each with the tensor that it makes.
    """
    chain: list[tuple[Layer, Tensor]] = []
    while tensor.name in network.producer:
        layer = network.producer[tensor.name]
        source = next((t for t in layer.inputs if t is not None), None)
        multiplies = scaled and _factor(layer) is not None
        if source is None or not (_moves(layer) or (multiplies and source.order == tensor.order)):
            break
        chain.append((layer, tensor))
        tensor = source
    return chain


def _source(
    network: Network, tensor: Tensor, turned: bool, scaled: bool, most: int = MOST
) -> tuple[Tensor, View, list[Layer]] | None:
    """The tensor before an operand of which the operand is a view, the earliest of at most so many elements, and the
    layers in between. turned: the operand's last two axes are in the order (channels, positions).
    """
    chain = _before(network, tensor, scaled)
    for count in range(len(chain), -1, -1):
        crossed = [layer for layer, _ in chain[:count]]
        source = tensor if count == 0 else next(t for t in crossed[-1].inputs if t is not None)
        if source.elements > most:
            continue
        stored = _places(source)
        for layer, made in reversed(chain[:count]):
            if layer.op_type in MOVES:
                stored = _moved(layer, stored)[made.name]
        places = tensor.to_onnx(stored)
        view = find_view(source, places.swapaxes(-1, -2) if turned else places)
        if view is not None:
            return source, view, crossed
    return None


def _target(network: Network, match: _Match, product: Layer) -> tuple[Tensor, View | None]:
    """The tensor behind a product that has its elements in another order, the last there is, and the view of
    the product in it.
    """
    chain: list[Layer] = []
    layer: Layer | None = product
    while layer is not None and (layer is product or _moves(layer)):
        chain.append(layer)
        layer = _only_reader(network, layer)
    stored, views = (
        product.output.to_storage(np.arange(product.output.elements).reshape(product.output.shape)),
        [],
    )
    for layer in chain:
        if layer is not product:
            stored = _moved(layer, stored)[layer.output.name]
        if stored.size != product.output.elements or len(layer.outputs) != 1:
            break
        places = np.empty(stored.size, np.int64)
        places[stored.reshape(-1)] = np.arange(stored.size)
        views.append(find_view(layer.output, places.reshape(product.output.shape)))
    count = max((n for n, view in enumerate(views) if view is not None), default=0)
    match.taken += chain[1 : count + 1]
    return chain[count].output, views[count]


def _gone(network: Network, match: _Match, read: set[str]) -> set[int]:
    """Which layers the attention stands for, by identity: those that it takes, and those before its operands that
    nobody else reads. read: names of the operands.
    """
    gone = {id(layer) for layer in match.taken}
    for layer in reversed(network.layers):
        if any(layer is other for other in match.crossed):
            readers = [r for t in layer.outputs for r, _ in network.readers[t.name]]
            used = any(t.name in network.output_tensors or t.name in read for t in layer.outputs)
            if not used and all(id(reader) in gone for reader in readers):
                gone.add(id(layer))
    return gone
