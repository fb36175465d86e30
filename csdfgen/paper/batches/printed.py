"""What does paper 000 print? Copied by hand from its text and tables (IEEE CLOUD 2020, pages 435 to 444);
nothing here is computed. MB are 2^20 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from csdfgen.paper.cells import Left

MEMORIES = (15, 20, 25, 30, 35, 40)
"""MB; the ends are printed, the steps between are those of Figures 7 and 8."""

REQUESTS = (6, 8, 10, 12)
"""Images, of Figure 8; Figure 7 has the last."""

TABLE_2: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "GoogleNet": (60.25, 36.55),
        "ResNet50": (38.91, 22.75),
        "SqueezeNet-v0": (44.03, 29.50),
        "MobileNet-v1": (5.68, 1.61),
    }
)
"""Largest gains in percent, below 30 MB and above 35 MB: by how much the time per image falls."""

TABLE_3: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "conv1/7x7_s2": (9.29, 0.30), "pool1/3x3_s2": (12.99, 0.00), "pool1/norm1": (16.93, 0.38),
        "conv2/3x3_reduce": (17.69, 0.13), "conv2/3x3": (9.63, 0.38), "pool2/3x3_s2": (14.67, 1.33),
        "inception_3a/output": (18.66, 1.96), "inception_5b/output": (19.65, 6.9), "pool5/7x7_s1": (19.61, 6.91),
        "loss3/classifier": (16.08, 1.67),
    }
)  # fmt: skip
"""Memory that is left over in GoogleNet at 20 MB: baseline, VBS."""

FIGURE_7: Mapping[int, tuple[int, int]] = MappingProxyType({25: (6, 1), 30: (8, 2)})
"""ResNet50 at so many MB, in the caption: largest batch of any layer, batch of the baseline."""

FIGURE_8: Mapping[int, int] = MappingProxyType({6: 3, 8: 2, 10: 0, 12: 0})
"""Images of a request -> memories of the six at which the greedy rule has a plan: from 30 MB on, from 35, never."""

FIGURE_6 = 61.0
"""C3D on a K80: the largest gain in percent, over clips of 16 to 32 frames and over frames of 224x224 to 320x240."""

C3D_WEIGHTS = 79.0
"""Millions, in the introduction."""

K80_MB = 12 * 1024
"""Memory of the K80."""

VIDEO_UNIT_MB = 50
"""Distance of the memory sizes for video."""

FIGURE_9: Mapping[str, int] = MappingProxyType(
    {"inception_5b/output": 8, "inception_3a/output": 6, "inception_3a/3x3": 3}
)
"""GoogleNet at 20 MB: the largest batch of a layer; the next are 2 of the second and 3 and 2 of the third."""

LEFT = (
    Left("Figure 1", "ResNet50, time against batch", 0, "a curve without printed values"),
    Left("Figure 6", "the gains of C3D, to the digit", 1, "its times and workspaces are not printed"),
    Left("Figures 7, 8", "times per image", 0, "curves without printed values"),
    Left("Table II", "the gains, to the digit", 8, "they follow from K80 times that are not printed"),
    Left("Table III", "what the authors' plan leaves free", 10, "it follows from the same times; ours is in the table"),
    Left("section IV", "15 MB: the average need of most networks", 1, "the paper does not say which networks"),
)  # fmt: skip
