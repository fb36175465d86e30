"""Networks of videos: C3D, whose windows slide along frames as they do along rows and columns.

Source: Tran, Bourdev, Fergus, Torresani, Paluri 2015, "Learning Spatiotemporal Features with 3D
Convolutional Networks" (arXiv:1412.0767), as mmaction2 has it for the 101 classes of UCF101: there the
last pool pads rows and columns by one. The authors' Caffe rounds up instead, which gives the same
shapes at 112x112, and not at 224x224.
"""

from __future__ import annotations

from zoo_models._builder import Builder, Value
from zoo_models._entry import network

FRAMES = 16
"""Of a clip."""

STAGES = ((64, "a"), (128, "a"), (256, "ab"), (512, "ab"), (512, "ab"))
"""Channels and convolutions in front of every pool."""


@network("C3D", task="video classification", channels=(3, FRAMES), input_name="frames")
def c3d(b: Builder, x: Value) -> Value:
    """C3D on clips of 16 frames. At other sizes of a frame the first fully connected layer has other
    weights.
    """
    for stage, (channels, letters) in enumerate(STAGES, start=1):
        for letter in letters:
            x = b.relu(b.conv(x, channels, 3, padding=1, name=f"conv{stage}{letter}"))
        pool = (1, 2, 2) if stage == 1 else (2, 2, 2)
        padding = (0, 1, 1) if stage == len(STAGES) else 0
        x = b.max_pool(x, pool, pool, padding, name=f"pool{stage}")
    x = b.flatten(x)
    for name in ("fc6", "fc7"):
        x = b.dropout(b.relu(b.gemm(x, 4096, name=name)))
    return b.softmax(b.gemm(x, 101, name="fc8"), "probabilities")
