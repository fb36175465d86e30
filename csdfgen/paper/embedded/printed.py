"""What does paper 004 print? Copied by hand from S. Hong, H. Cho and J.-S. Kim, "CitiusSynapse: a deep learning framework
for embedded systems" (Applied Sciences 2021, 11, 11570); nothing here is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from csdfgen.paper.cells import Left

TABLE_5: Mapping[str, float] = MappingProxyType(
    {"VGG-16": 527, "ResNet-18": 44.6, "ResNet-101": 170, "MobileNet-v2": 13.5}
)
"""Size of the trained model, "MB"; YOLO v3, EAST and CRNN, which no publication defines, are left out."""


@dataclass(frozen=True, slots=True)
class Times:
    """A row of Table 6, ms; None where nothing is printed. caffe: OpenCL Caffe on CPU and GPU. cpu, gpu: the paper's own.
    folded: with its model optimizer. tuned: with its NDRange optimizer, too. percent: "speed-up ratio".
    """

    caffe: tuple[int | None, int | None]
    cpu: int
    gpu: int
    folded: int | None
    tuned: int | None
    percent: int


ODROID, ROCKCHIP = "Odroid N2+", "RK3399"

TABLE_6: Mapping[tuple[str, str], Times] = MappingProxyType(
    {
        (ODROID, "VGG-16"): Times((1618, 12005), 1606, 1207, None, None, 134),
        (ODROID, "ResNet-18"): Times((236, 1792), 227, 203, 141, 129, 183),
        (ODROID, "ResNet-101"): Times((877, 7522), 814, 908, 536, 515, 170),
        (ODROID, "MobileNet-v2"): Times((308, 3082), 280, 232, 62, 40, 770),
        (ODROID, "YOLO v3"): Times((None, None), 841, 367, 118, 80, 1051),
        (ODROID, "EAST"): Times((None, None), 795, 459, 176, 153, 520),
        (ODROID, "CRNN"): Times((None, None), 80, 58, 42, 40, 200),
        (ROCKCHIP, "VGG-16"): Times((2562, 10164), 2855, 2218, None, None, 116),
        (ROCKCHIP, "ResNet-18"): Times((366, 1656), 354, 363, 255, 246, 149),
        (ROCKCHIP, "ResNet-101"): Times((1930, 7242), 1299, 1467, 963, 928, 208),
        (ROCKCHIP, "MobileNet-v2"): Times((444, None), 930, 354, 94, 64, 694),
        (ROCKCHIP, "YOLO v3"): Times((None, None), 1603, 529, 193, 146, 1098),
        (ROCKCHIP, "EAST"): Times((None, None), 1457, 652, 254, 224, 650),
        (ROCKCHIP, "CRNN"): Times((None, None), 99, 81, 63, 61, 162),
    }
)

TABLE_7: Mapping[str, int] = MappingProxyType(
    {
        "Odroid N2+": 40, "Helio G90T": 37, "Exynos 9810": 72, "Exynos 8895": 63, "Helio P70": 66, "Helio P65": 51,
        "Helio P60": 68, "Exynos 9609": 61, "Exynos 9610": 77,
    }
)  # fmt: skip
"""MobileNet-v2, ms."""

TABLE_8: Mapping[str, tuple[int, int, int, int]] = MappingProxyType(
    {"ResNet-18": (43, 203, 141, 129), "MobileNet-v2": (51, 58, 42, 40)}
)
"""ms: PyTorch on a Jetson Nano; the paper's on the Odroid's GPU, folded, folded and tuned."""

GFLOPS = 472, 163
"""Of the Jetson Nano and the Odroid N2+."""


@dataclass(frozen=True, slots=True)
class Memory:
    """A row of Table 9, MB. caffe, own: on CPU and GPU. percent: "reduction ratio" of the GPU's."""

    caffe: tuple[int, int]
    own: tuple[int, int]
    percent: int


TABLE_9: Mapping[tuple[str, str], Memory] = MappingProxyType(
    {
        ("VGG-16", "average"): Memory((1164, 1724), (944, 1288), 25),
        ("VGG-16", "max"): Memory((2334, 2620), (1842, 2236), 15),
        ("ResNet-18", "average"): Memory((395, 688), (496, 500), 27),
        ("ResNet-18", "max"): Memory((395, 707), (602, 657), 7),
        ("ResNet-101", "average"): Memory((807, 1551), (809, 744), 52),
        ("ResNet-101", "max"): Memory((807, 1710), (1116, 1302), 24),
        ("MobileNet-v2", "average"): Memory((550, 1007), (468, 831), 17),
        ("MobileNet-v2", "max"): Memory((550, 1226), (685, 939), 23),
    }
)


@dataclass(frozen=True, slots=True)
class Shared:
    """A row of Table A1, with and without unified memory. latency: ms of 100 images. memory: MB."""

    latency: tuple[int, int]
    memory: tuple[int, int]


TABLE_A1: Mapping[str, Shared] = MappingProxyType(
    {
        "ResNet-18": Shared((13273, 14081), (500, 507)),
        "ResNet-101": Shared((52031, 53158), (744, 858)),
        "MobileNet-v2": Shared((4356, 5199), (831, 855)),
    }
)

LEFT = (
    Left("Tables 1, 2, 3", "frameworks, matrix-vector products, in-place kernels", 0, "surveys"),
    Left("Table 4", "processors, memory and systems of three boards", 0, "vendors' data"),
    Left("Table 5", "sizes of YOLO v3, EAST and CRNN", 3, "these variants are not published"),
    Left("Tables 6, 7, 8", "times on the boards and of other programs", 84, "no such board here; ratios are computed"),
    Left("Table 9", "resident memory of processes", 32, "processes of another program; ratios are computed"),
    Left("Figures 1 to 8", "drawings", 0, "no numbers of their own"),
)  # fmt: skip
