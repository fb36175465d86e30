"""How long does a call of a layer take on b images? Modelled on one GPU of a K80: the paper prints no times.

launch + max(arithmetic, bytes moved), with the numbers of the `tesla-k80` profile:

    product (convolution, classifier)   2 * multiply-accumulates / (peak * part of the multiprocessors at work);
                                        input, columns written and read again, weights and output are moved
    depthwise convolution               a thread a value, which reads its window and its weights from memory
                                        (spatialDepthwiseConvolutionUpdateOutput of PyTorch 0.4)
    pool, LRN, joining                  what is read and written

Linear in b but for launches and for waves of blocks that are not full: small maps gain most.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from math import prod

from csdfgen.devices.catalogue import device
from csdfgen.devices.profile import Processor, Quantity
from csdfgen.paper.batches.networks import Module, Op

DEVICE = "tesla-k80"

_VALUE = 4
"""Bytes."""


@cache
def model_times(*, windows: bool = True) -> Callable[[Op | Module, int], float]:
    """Seconds of a call on the K80."""
    return partial(call_time, device(DEVICE).processor, windows=windows)


def call_time(
    processor: Processor, layer: Op | Module, images: int, *, windows: bool = True
) -> float:
    """Seconds of one call on so many images. A call without arithmetic is bound by what it moves.

    windows: whether depthwise layers read every window; otherwise they read each value once.
    """
    launch, peak, bandwidth = map(_known, (processor.launch, processor.peak, processor.bandwidth))
    pixels = images * prod(layer.writes[1:])
    moved = _VALUE * images * (prod(layer.reads) + prod(layer.writes))
    if isinstance(layer, Module):
        results = 1 if layer.join == "concat" else 2
        return launch + _VALUE * pixels * layer.writes[0] * (results + 1) / bandwidth
    if not layer.weights:
        return launch + moved / bandwidth
    computing = 2 * images * layer.macs / peak
    if layer.groups > 1:
        if windows:
            moved = _VALUE * pixels * layer.writes[0] * (2 * layer.terms + 1)
    else:
        computing /= processor.busy(pixels, layer.writes[0])
        columns = 2 * pixels * layer.terms if layer.kind == "conv" else 0
        moved += _VALUE * (columns + layer.weights)
    return launch + max(computing, moved / bandwidth)


def _known(quantity: Quantity | None) -> float:
    assert quantity is not None, f"the profile of {DEVICE} has all that a roofline takes"
    return quantity.value
