"""What does a layer need for b images? The memory model behind the paper's numbers, recovered from them.

Not printed: found from Table III, whose baseline column it gives to 0.01 MB. Bytes, float32:

    convolution   b*(in + out + columns) + weights    columns of the whole image, for 1x1 windows too; of a
                                                      depthwise one those of one channel at a time
    pool          b*(in + out + padded copy of the input), also where nothing is padded
    LRN           b*(in + out + two temporaries of the same size)
    module        b*(in + out), and what its branches need
    classifier    b*(in + out) + weights
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from csdfgen.paper.batches.networks import Layers, Map, Module, Op, get_layers
from schedules.batches.chain import Chain, ChainLayer

MB = 2**20
"""What the paper calls a MB."""

BATCHES = 12
"""Most images of a request, and of a call."""

_VALUE = 4
"""Bytes."""

Times = Callable[[Op | Module, int], float]
"""Seconds of one call of a layer, or of the joining of a module, on so many images."""


def _bytes(shape: Map) -> int:
    return _VALUE * prod(shape)


def workspace(layer: Op | Module, images: int, *, weights: bool = True) -> int:
    """Bytes besides input and output. weights: whether they count, as in Table III."""
    if isinstance(layer, Module):
        return 0
    own = _VALUE * layer.weights if weights else 0
    if layer.kind == "conv":
        return own + images * _VALUE * layer.terms * prod(layer.writes[1:])
    if layer.kind == "pool":
        *whole, rows, columns = layer.reads
        padded = prod(side + 2 * layer.padding for side in (rows, columns))
        return images * _VALUE * prod(whole) * padded
    if layer.kind == "lrn":
        return 2 * images * _bytes(layer.writes)
    return own


def call_bytes(layer: Op | Module, images: int = 1, *, weights: bool = True) -> int:
    """in + ws + out of a call by itself."""
    ends = images * (_bytes(layer.reads) + _bytes(layer.writes))
    return ends + workspace(layer, images, weights=weights)


def make_chain(
    network: str | Layers, times: Times, *, weights: bool = True, results_apart: bool = False
) -> Chain:
    """A network, by its name or its layers, for batches of up to 12. weights: whether they count as workspace of their layer.

    results_apart: where two branches are added up, the second makes its result in memory of its own. The
    paper counts one result, which is right only where the last convolution adds in place.
    """
    layers = get_layers(network) if isinstance(network, str) else network
    return Chain(tuple(_layer(one, times, weights, results_apart) for one in layers))


def _layer(layer: Op | Module, times: Times, weights: bool, apart: bool) -> ChainLayer:
    ends = _bytes(layer.reads), _bytes(layer.writes)
    if isinstance(layer, Op):
        return _one(layer, ends, times, weights)
    parts = [_branch(ops, times, weights, 0) for ops in layer.branches]
    if not apart or layer.join == "concat" or len(parts) < 2:
        return _one(layer, ends, times, weights, tuple(parts))
    parts[-1] = _branch(layer.branches[-1], times, weights, ends[1])
    whole = _one(layer, ends, times, weights, tuple(parts))
    return replace(whole, workspace=tuple(ends[1] * b for b in range(1, BATCHES + 1)))


def _branch(ops: Sequence[Op], times: Times, weights: bool, last: int) -> Chain:
    """What it reads first and writes last is the module's own, and counts there."""
    sizes = [0, *(_bytes(op.writes) for op in ops[:-1]), last]
    ends = pairwise(sizes)
    return Chain(tuple(_one(op, end, times, weights) for op, end in zip(ops, ends, strict=True)))


def _one(
    layer: Op | Module,
    ends: tuple[int, int],
    times: Times,
    weights: bool,
    branches: tuple[Chain, ...] = (),
) -> ChainLayer:
    sizes = range(1, BATCHES + 1)
    return ChainLayer(
        layer.name,
        tuple(times(layer, images) for images in sizes),
        tuple(workspace(layer, images, weights=weights) for images in sizes),
        *ends,
        branches,
    )
