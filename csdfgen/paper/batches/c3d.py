"""C3D of Tran et al. 2015, of which paper 000 says little: how many parameters, how many videos in 12 GB?"""

from __future__ import annotations

from itertools import pairwise

__all__ = ["bytes_of_a_video", "parameters"]

_STAGES = ((64,), (128,), (256, 256), (512, 512), (512, 512))
"""Channels of its 3x3x3 convolutions, padded by 1; a pool of 2x2x2 follows each stage, the first one of 1x2x2, the
last padded by 1 in rows and columns."""

_FRAMES = 16
_CLASSES = 101
"""Of UCF101."""

_TAPS = 27


def parameters(side: int) -> int:
    """Of all layers, for 16 frames of side x side."""
    channels = (3, *(count for stage in _STAGES for count in stage))
    convolved = sum(_TAPS * a * b + b for a, b in pairwise(channels))
    last = side // 2 ** (len(_STAGES) - 1) // 2 + 1
    connected = (channels[-1] * last**2, 4096, 4096, _CLASSES)
    return convolved + sum(a * b + b for a, b in pairwise(connected))


def bytes_of_a_video(rows: int, columns: int) -> int:
    """What the largest convolution needs for one video, by the memory model of the images; its weights too."""
    frames, channels, most = _FRAMES, 3, 0
    for number, stage in enumerate(_STAGES):
        for count in stage:
            values = frames * rows * columns
            needed = values * (channels + count + _TAPS * channels) + _TAPS * channels * count
            most, channels = max(most, 4 * needed), count
        frames = frames // 2 if number else frames
        rows, columns = rows // 2, columns // 2
    return most
