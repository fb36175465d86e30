"""What does paper 003 print? Copied by hand from the OpenCL Caffe paper of 2018 on mixed precision, blob reuse
and mixtures of experts; nothing here is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from csdfgen.paper.cells import Left

FORMATS = ("float32", "float16", "int16", "int8")
"""The columns of most tables, in the paper's order."""

Row = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Device:
    """A column of Table 4.1. rates: of float16, int8 and int16 against float32, that its notes and the
    makers give; printed: 10^12 operations a second in float32, float16, int8, int16.
    """

    name: str
    rates: tuple[float, float, float]
    printed: Row


TABLE_4_1 = (
    Device("Vega FE", (2, 4, 2), (13.1, 26.2, 52.4, 26.2)),
    Device("RX 480", (1, 1, 1), (5.8, 5.8, 5.8, 5.8)),
    Device("GTX 1080", (1 / 64, 4, 2), (8.9, 0.6, 35.6, 17.8)),
    Device("GT 1030", (1 / 64, 4, 2), (1.127, 0.018, 4.508, 2.254)),
    Device("Iris Pro 540", (2, 1, 1), (0.752, 1.504, 0.752, 0.752)),
    Device("Mali T764", (2, 4, 2), (0.08, 0.16, 0.32, 0.16)),
)

TABLE_4_2: Mapping[str, Row] = MappingProxyType(
    {"ImageNet": (243.9, 121.9, 121.9, 61.0), "MOE": (309.9, 155.0, 155.0, 77.5)}
)
"""Storage of parameters, "MiB"."""

Memory = tuple[int, int, int, int]

TABLE_4_3: Mapping[tuple[str, str], Memory] = MappingProxyType(
    {
        ("CUDA", "float32"): (3351, 2281, 6753, 3991),
        ("CUDA", "float16"): (2389, 1407, 1409, 1209),
        ("CUDA", "int16"): (2391, 1409, 4535, 2631),
        ("CUDA", "int8"): (1815, 1209, 3361, 2061),
        ("OpenCL", "float32"): (3275, 2047, 6211, 3449),
        ("OpenCL", "float16"): (2341, 1379, 4329, 2432),
        ("OpenCL", "int16"): (2343, 1361, 4361, 2457),
        ("OpenCL", "int8"): (1771, 1165, 3187, 1887),
    }
)
"""GPU memory in MiB at batch 512: ImageNet, the same with blob reuse, MOE, the same with blob reuse."""

Times = tuple[float | None, float | None, float | None, float | None]

TABLE_4_4: Mapping[str, Times] = MappingProxyType(
    {
        "GTX 1080 CUDA, 512": (510, 22333, 2350, 565),
        "GTX 1080 OpenCL, 512": (728, None, 1425, 715),
        "GT 1030 CUDA, 64": (353, 18014, 1595, 437),
        "GT 1030 OpenCL, 64": (542, None, 1258, 594),
        "Vega FE OpenCL, 512": (863, 380, 828, 931),
        "RX 480 OpenCL, 512": (1675, 1014, 1863, 2038),
        "Iris Pro 540 OpenCL, 64": (1209, None, 24737, 9926),
        "Mali T764 OpenCL, 4": (4321, 2461, 4045, 3606),
    }
)
"""ImageNet, ms a batch."""

TABLE_4_5: Mapping[str, Times] = MappingProxyType(
    {
        "GTX 1080 CUDA, 512": (587, 79770, 7743, 1626),
        "GTX 1080 OpenCL, 512": (1541, None, 4776, 2342),
        "GT 1030 CUDA, 64": (385, 63934, 5136, 1267),
        "GT 1030 OpenCL, 64": (1124, None, 3884, 1824),
        "Vega FE OpenCL, 512": (1353, 1017, 2433, 2797),
        "RX 480 OpenCL, 512": (2453, 2373, 5002, 5881),
        "Iris Pro 540 OpenCL, 64": (3600, None, 41403, 14789),
        "Mali T764 OpenCL, 4": (2422, 1435, 5837, 6096),
    }
)
"""ImageNet-MOE, ms a batch."""

TABLE_4_6: Row = (2.51804, 2.26494, 2.42341, 6.93617)
"""Celsius to Fahrenheit: mean error in degrees Fahrenheit."""

TABLE_4_7: Row = (85.26, 85.30, 85.27, 85.36)
"""MNIST: percent of pictures whose class is found."""

TABLE_4_8: Mapping[str, Row] = MappingProxyType(
    {
        "train top-1": (79.113, 79.059, 54.566, 59.840),
        "train top-5": (93.887, 93.852, 77.262, 83.277),
        "test top-1": (56.875, 56.813, 42.690, 44.750),
        "test top-5": (79.980, 79.973, 66.320, 70.043),
    }
)
"""ImageNet, percent."""


LEFT = (
    Left("Tables 1.1, 1.2", "what eleven libraries support", 0, "a survey, not a computation"),
    Left("Table 4.1", "compute units and memory of six GPUs", 0, "vendors' data"),
    Left("Tables 4.4, 4.5", "times of a batch on six GPUs", 58, "no such GPU here; only ratios are checked"),
    Left("Tables 4.8, 4.9", "accuracy on ImageNet", 32, "data and trained networks are not published"),
    Left("Figures 4.1 to 4.7", "Tables 4.2 to 4.5 as bars", 0, "no numbers of their own"),
    Left("section 4", "code size, commits, training hours", 5, "another program's history"),
)  # fmt: skip
