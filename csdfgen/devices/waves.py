"""How much of a processor does a matrix product keep busy? Blocks of its result, dealt out in waves.

A product is computed in square blocks of its result, each by one multiprocessor. The last wave of blocks
takes as long as a full one, and a block at the edge as long as a whole one; so small products, such as
layers of few pixels on one image, leave most of a large processor idle.

Source: NVIDIA, Matrix Multiplication Background User's Guide (DU-09799-001), tile and wave quantization.
"""

from __future__ import annotations

from csdfgen.devices.profile import Processor

__all__ = ["busy"]


def busy(processor: Processor, pixels: float, channels: int, groups: int = 1) -> float:
    """The part of the processor, up to 1, that works on values that are wanted. pixels: of all images of
    the call. 1 where the profile tells nothing of waves.

    >>> from csdfgen.devices.catalogue import device
    >>> k80 = device("tesla-k80").processor  # 13 multiprocessors, blocks of 64x64
    >>> busy(k80, 64 * 13, 64), busy(k80, 64 * 14, 64) == 14 / 26, busy(k80, 49, 64) == 49 / 64 / 13
    (1.0, True, True)
    """
    if processor.multiprocessors is None or processor.tile is None:
        return 1.0
    tile, count = processor.tile.value, processor.multiprocessors.value
    blocks = groups * -(-pixels // tile) * -(-(channels / groups) // tile)
    waves = -(-blocks // count)
    return pixels * channels / (waves * count * tile**2)
