"""Which ONNX nodes become one layer? Rewritings with conditions before and after.

`none` keeps every ONNX node an actor. `fold` moves constant arithmetic into weights: BatchNormalization,
bias Add and constant Mul into the convolution in front of it, a Pad with zeros (or a negative one, the
paper's crop) into the Conv behind it; it removes Identity, Dropout, a Pad by nothing, a Where that takes nothing
from its constant, and Expand in front of operators that broadcast. `full` also applies activations in the slab that
the producer has just written, lets a Gemm read the rows of a map that was only flattened for it, and makes one layer
of an attention (`rewriting.attention`) and of a function that is spelled out (`rewriting.functions`). Planning decides
which tensors share memory (in-place Add, Concat and Split as views).

Every rewriting is a function of two layers, `producer` and the only reader of its output,
that returns the layer which replaces both, or None where its conditions do not hold. What must
hold afterwards is checked each time one is applied (`conditions`). Outputs stay equal up to
rounding: the tests compare them for every rewriting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.model.deferred import defer
from csdfgen.model.formats import BFLOAT16, FLOAT32, Stored
from csdfgen.model.network import Layer, Network, Output, Tensor
from csdfgen.ops import get_operator
from csdfgen.ops.base import AliasKind, Mode
from csdfgen.ops.folded_weights import batch_factors, channel_values, output_factors, scale_weights
from csdfgen.ops.linear import unflatten_gemm
from csdfgen.ops.reducing import FLOATS
from csdfgen.rewriting.attention import fuse_attention
from csdfgen.rewriting.conditions import check_network, check_pair, onnx_nodes
from csdfgen.rewriting.functions import GATES, fuse_functions
from csdfgen.rewriting.heads import split_attention

PairRule = Callable[[Layer, Layer], "Layer | None"]

WEIGHTED = frozenset({"Conv", "ConvTranspose"})
"""Operators whose weights and bias take in a factor and an offset."""

NORMALIZATIONS = frozenset({"BatchNormalization", "InstanceNormalization", "GroupNormalization"})
"""Operators with a factor and an offset per channel."""

PASSED_ON = frozenset({"Identity", "Dropout", "Pad", "Where"})
"""Operators that hand their input on as it is; a Pad, if it adds nothing."""


def _joined(producer: Layer, layer: Layer, **changes: Any) -> Layer:
    """`producer` with `layer`'s output, under the producer's name."""
    return replace(
        producer, outputs=layer.outputs, onnx_nodes=onnx_nodes(producer, layer), **changes
    )


# Channel-wise affine arithmetic: y = scale * x + shift ------------------------------------------


def _affine(layer: Layer) -> tuple[np.ndarray, np.ndarray] | None:
    """(scale, shift) per channel of a layer that computes scale * x + shift, else None; float64,
    shape (C,).
    """
    shape = layer.output.shape
    if len(shape) < 2 or any(t is not None and t.shape != shape for t in layer.inputs):
        return None
    if layer.epilogue or layer.stored is not None:
        return None
    channels = shape[1]
    if layer.op_type == "BatchNormalization":
        parameters = [layer.constants[k] for k in range(1, 5)]
        return batch_factors(parameters, layer.attributes["epsilon"])
    if layer.op_type not in ("Add", "Sub", "Mul", "Div") or len(layer.constants) != 1:
        return None
    ((position, constant),) = layer.constants.items()
    value = channel_values(constant, len(shape), 1, channels)
    if value is None or constant.dtype.kind != "f":
        return None
    one, zero = np.ones(channels), np.zeros(channels)
    match layer.op_type, position:
        case "Add", _:
            return one, value
        case "Mul", _:
            return value, zero
        case "Sub", 0:
            return -one, value
        case "Sub", _:
            return one, -value
        case _:  # nothing is divided by a tensor, or by zero
            return (1.0 / value, zero) if position == 1 and np.all(value) else None


def fold_affine_into_convolution(producer: Layer, layer: Layer) -> Layer | None:
    """Conv or ConvTranspose, then BatchNormalization or constant Add, Sub, Mul, Div: into weight
    and bias.

    Before: the producer has constant weights and no epilogue. After: the same function, one layer.
    """
    if producer.op_type not in WEIGHTED or producer.epilogue or 1 not in producer.constants:
        return None
    if producer.stored is not None and any((*producer.stored.inputs[1:], *producer.stored.outputs)):
        return None  # weights of one byte would become values
    affine = _affine(layer)
    if affine is None:
        return None
    scale, shift = affine
    weights, bias = producer.constants[1], producer.constants.get(2, np.zeros(len(scale)))
    group = producer.attributes["group"]
    constants = {
        1: defer(
            scale_weights, weights, output_factors(scale, producer.op_type, weights.shape, group)
        ),
        2: (bias.astype(np.float64) * scale + shift).astype(weights.dtype),
    }
    return _joined(producer, layer, constants=MappingProxyType(constants))


def fold_affine_into_normalization(producer: Layer, layer: Layer) -> Layer | None:
    """A normalization with a factor and an offset per channel, then constant Add, Sub, Mul, Div per channel: one
    normalization.
    """
    if producer.op_type not in NORMALIZATIONS or producer.epilogue or producer.stored is not None:
        return None
    affine, constants = _affine(layer), dict(producer.constants)
    if affine is None or not constants.keys() >= {1, 2}:
        return None
    scale, shift = affine
    if constants[1].shape != scale.shape:
        return None
    bias = constants[2].astype(np.float64) * scale + shift
    constants |= {1: scale_weights(constants[1], scale), 2: bias.astype(constants[1].dtype)}
    return _joined(producer, layer, constants=MappingProxyType(constants))


def fold_pad_into_convolution(producer: Layer, layer: Layer) -> Layer | None:
    """Pad with zeros (or crop by negative pads), then Conv: the Conv's own padding.

    ONNX's Conv cannot say negative pads, the layer that we execute can: the crop of the paper's
    layer n3.
    """
    if producer.op_type != "Pad" or layer.op_type != "Conv" or producer.epilogue:
        return None
    if producer.stored is not None or layer.stored is not None:
        return None  # a zero of integers is no zero of values
    pads = producer.attributes["pads"]
    rank = len(producer.output.shape)
    begin, end = pads[:rank], pads[rank:]
    zero = producer.attributes["mode"] == "constant" and not np.any(producer.attributes["value"])
    if any(begin[:2]) or any(end[:2]) or not (zero or max(pads) <= 0):
        return None
    old = layer.attributes["pads"]
    spatial = rank - 2
    new = tuple(p + q for p, q in zip((*begin[2:], *end[2:]), old, strict=True))
    if any(p < 0 < q or q < 0 < p for p, q in zip((*begin[2:], *end[2:]), old, strict=True)):
        return None  # a crop under a padding throws rows away that the sum would keep
    source = producer.inputs[0]
    assert source is not None and len(new) == 2 * spatial
    return replace(
        layer,
        inputs=(source, *layer.inputs[1:]),
        attributes=MappingProxyType({**layer.attributes, "pads": new}),
        onnx_nodes=onnx_nodes(producer, layer),
    )


def apply_in_the_producers_slab(producer: Layer, layer: Layer) -> Layer | None:
    """Any layer, then an elementwise one that may run in place: applied to each slab as it is
    written.
    """
    operator = get_operator(layer)
    aliases = operator.aliases(layer)
    computed = [k for k, t in enumerate(layer.inputs) if t is not None]
    inplace = [a for a in aliases if a.kind is AliasKind.INPLACE and [a.position] == computed]
    if not operator.rowwise or not inplace or len(producer.outputs) != 1:
        return None
    if operator.mode(layer) is not Mode.ROWS:
        return None  # it needs all rows before it writes one
    if any(a.kind is not AliasKind.INPLACE for a in get_operator(producer).aliases(producer)):
        return None  # the producer may be a view without a slab of its own
    before, after = producer.output, layer.output
    if (before.shape, before.dtype, before.row_axis) != (after.shape, after.dtype, after.row_axis):
        return None
    applied = (*producer.epilogue, replace(layer, epilogue=()), *layer.epilogue)
    return _joined(producer, layer, epilogue=applied)


def clip_before_rounding(producer: Layer, layer: Layer) -> Layer | None:
    """A layer that rounds to bfloat16, then a Relu, or a Clip to values that bfloat16 has: it clips first, with the same
    result, since rounding keeps the order of values.
    """
    made, given = producer.stored, layer.stored
    if made is None or given is None or layer.op_type not in ("Relu", "Clip") or layer.constants:
        return None
    forms = (made.written(0), given.read(0), given.written(0))
    if forms != (BFLOAT16,) * 3 or len(producer.outputs) != 1 or layer.epilogue:
        return None
    if made.applied != len(producer.epilogue) or "bounds" in layer.attributes:
        return None
    clip = replace(
        layer,
        inputs=tuple(t and replace(t, format=FLOAT32) for t in layer.inputs),
        outputs=tuple(replace(t, format=FLOAT32) for t in layer.outputs),
        stored=None,
    )
    return _joined(
        producer,
        layer,
        epilogue=(*producer.epilogue, clip),
        stored=replace(made, applied=made.applied + 1),
    )


def read_rows_instead_of_flattening(producer: Layer, layer: Layer) -> Layer | None:
    """Flatten (or Reshape to one row per image), then Gemm: the Gemm accumulates over the map's
    rows.
    """
    if (
        layer.op_type not in ("Gemm", "MatMul")
        or get_operator(producer).mode(producer) is not Mode.ACCUMULATE
    ):
        return None
    if producer.op_type not in ("Flatten", "Reshape", "Squeeze") or producer.epilogue:
        return None
    if producer.stored is not None or layer.stored is not None:
        return None
    source = producer.inputs[0]
    assert source is not None
    computed = [k for k, t in enumerate(layer.inputs) if t is not None]
    flat = producer.output.shape
    if (
        computed != [0]
        or len(flat) != 2
        or flat[0] != 1
        or 1 not in layer.constants
        or source.shape[0] != 1
    ):
        return None
    if source.dtype not in FLOATS or layer.attributes.get("transA") or source.row_axis is None:
        return None
    merged = unflatten_gemm(layer, source)
    return replace(merged, onnx_nodes=onnx_nodes(producer, layer), epilogue=layer.epilogue)


# Whole-network passes ----------------------------------------------------------------------------


def _passed(layer: Layer) -> Tensor | None:
    """The input that a layer passes on as it is."""
    if layer.op_type not in PASSED_ON or any(layer.attributes.get("pads", ())):
        return None
    if layer.op_type != "Where":
        return layer.inputs[0]
    condition, out = layer.constants.get(0), layer.output
    if condition is None or condition.all() != condition.any():
        return None
    taken, other = layer.inputs[1:] if condition.all() else layer.inputs[:0:-1]
    same = taken and (taken.shape, taken.row_axis) == (out.shape, out.row_axis)
    return taken if same and other is None else None


def drop_identities(network: Network) -> Network:
    """Identity, Dropout (inference), a Pad by nothing and a Where that takes nothing from its constant vanish; their readers
    read the input. Kept where an input is an output.
    """
    renamed: dict[str, Tensor] = {}
    layers: list[Layer] = []
    inputs = {t.name for t in network.inputs}
    for layer in network.layers:
        layer = _reading(layer, renamed)
        source = _passed(layer)
        passes = source is not None and layer.stored is None
        maker = None if source is None else network.producer.get(source.name)
        # in a branch, it makes a result of what is outside, which is there whatever branch is taken
        beside = maker is not None and maker.guards == layer.guards
        passes = passes and (beside or not layer.guards)
        if (
            passes
            and source is not None
            and not (source.name in inputs and layer.output.name in network.output_tensors)
        ):
            renamed[layer.output.name] = source
        else:
            layers.append(layer)
    if not renamed:
        return network
    outputs = tuple(
        Output(
            o.name,
            renamed.get(o.tensor.name, o.tensor) if o.tensor is not None else None,
            o.constant,
        )
        for o in network.outputs
    )
    rewritten = replace(network, layers=tuple(layers), outputs=outputs)
    check_network("drop_identities", network, rewritten, may_vanish=PASSED_ON)
    return rewritten


def broadcast_instead_of_expanding(network: Network) -> Network:
    """Expand vanishes where every reader is an elementwise operator that broadcasts its input to the same result."""
    sources: dict[str, Tensor] = {}
    layers: list[Layer] = []
    for layer in network.layers:
        source = layer.inputs[0] if layer.inputs else None
        readers = [reader for tensor in layer.outputs for reader, _ in network.readers[tensor.name]]
        if (
            layer.op_type == "Expand"
            and source is not None
            and layer.stored is None
            and layer.output.name not in network.output_tensors
            and readers
            and not layer.guards
            and all(_broadcasts(reader, layer.output.name, source) for reader in readers)
        ):
            sources[layer.output.name] = sources.get(source.name, source)
            continue
        read = _reading(layer, sources)
        if read is not layer:
            axes = zip(layer.inputs, read.inputs, layer.input_axes, strict=True)
            own = tuple(
                axis if new is old or new is None else new.row_axis for old, new, axis in axes
            )
            read = replace(read, input_axes=own)
        layers.append(read)
    if not sources:
        return network
    rewritten = replace(network, layers=tuple(layers))
    vanish = frozenset({"Expand"})
    check_network("broadcast_instead_of_expanding", network, rewritten, may_vanish=vanish)
    return rewritten


def _broadcasts(layer: Layer, name: str, source: Tensor) -> bool:
    """Whether an elementwise layer makes the same of a tensor that is read in place of the one with the name."""
    if not get_operator(layer).pointwise or layer.stored is not None:
        return False
    shapes = [
        source.shape if tensor.name == name else tensor.shape
        for tensor in layer.inputs
        if tensor is not None
    ]
    shapes += [constant.shape for constant in layer.constants.values()]
    return np.broadcast_shapes(*shapes) == layer.output.shape


def _reading(layer: Layer, renamed: Mapping[str, Tensor]) -> Layer:
    """The layer with renamed input tensors."""
    if not any(t is not None and t.name in renamed for t in layer.inputs):
        return layer
    return replace(
        layer, inputs=tuple(renamed.get(t.name, t) if t is not None else None for t in layer.inputs)
    )


MOST_APPLIED = 128
"""Layers that are applied to the slab of one: merging one more takes time for each that is there."""


def merge_pairs(network: Network, rules: Iterable[PairRule]) -> Network:
    """Apply pair rules from inputs to outputs, each layer against the producer it has become part
    of. Raises BrokenRewritingError if a rule does not keep its conditions.
    """
    rules = tuple(rules)
    readers = {name: len(pairs) for name, pairs in network.readers.items()}
    done: list[Layer | None] = []
    where: dict[str, int] = {}
    for layer in network.layers:
        computed = [t for t in layer.inputs if t is not None]
        merged = None
        source = computed[0].name if len(computed) == 1 else ""
        index = where.get(source)
        if index is not None and readers[source] == 1 and source not in network.output_tensors:
            producer = done[index]
            assert producer is not None
            if producer.guards == layer.guards and len(producer.epilogue) < MOST_APPLIED:
                merged = _merged(rules, producer, layer)
        if merged is not None:
            assert index is not None
            done[index] = merged
        else:
            index = len(done)
            done.append(layer)
        where.update((t.name, index) for t in layer.outputs)
    if len(done) == len(network.layers):
        return network
    rewritten = replace(network, layers=tuple(layer for layer in done if layer is not None))
    check_network("merge_pairs", network, rewritten)
    return rewritten


def _merged(rules: Iterable[PairRule], producer: Layer, layer: Layer) -> Layer | None:
    """What the first rule that applies makes of the two, its conditions checked. A layer that stores
    its results as integers is what it is on values, and stores them behind.
    """
    stored = layer.stored
    if stored is not None and any(stored.outputs) and not any(stored.inputs):
        on_values = replace(
            layer,
            outputs=tuple(replace(tensor, format=FLOAT32) for tensor in layer.outputs),
            stored=None,
            epilogue=layer.epilogue[: stored.applied],
        )
        merged = _merged(rules, producer, on_values) if len(layer.outputs) == 1 else None
        if merged is None or (merged.stored is not None and any(merged.stored.outputs)):
            return None
        inputs = () if merged.stored is None else merged.stored.inputs
        return replace(
            merged,
            outputs=layer.outputs,
            epilogue=(*merged.epilogue, *layer.following),
            stored=Stored(inputs, stored.outputs, len(merged.epilogue)),
        )
    for rule in rules:
        merged = rule(producer, layer)
        if merged is not None:
            check_pair(getattr(rule, "__name__", repr(rule)), producer, layer, merged)
            return merged
    return None


FOLD_RULES: tuple[PairRule, ...] = (
    fold_affine_into_convolution,
    fold_affine_into_normalization,
    fold_pad_into_convolution,
)
FULL_RULES: tuple[PairRule, ...] = (
    *FOLD_RULES,
    read_rows_instead_of_flattening,
    clip_before_rounding,
    apply_in_the_producers_slab,
)

FUSE_LEVELS: Mapping[str, tuple[PairRule, ...]] = MappingProxyType(
    {"none": (), "fold": FOLD_RULES, "full": FULL_RULES}
)


def fuse(network: Network, level: str = "full") -> Network:
    """The network with the rewritings of a level (`FUSE_LEVELS`) applied; equal outputs up to
    rounding.
    """
    if level == "none":
        return network
    simpler = broadcast_instead_of_expanding(drop_identities(network))
    if level == "full" and any(layer.op_type in GATES for layer in simpler.layers):
        simpler = fuse_functions(simpler)
    if level == "full" and any(
        layer.op_type in ("Softmax", "Attention") for layer in simpler.layers
    ):
        simpler = split_attention(fuse_attention(simpler))
    return merge_pairs(simpler, FUSE_LEVELS[level])
