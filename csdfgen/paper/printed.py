"""What does paper 002 print? Copied by hand from Minakova and Stefanov, "Buffer sizes reduction for
memory-efficient CNN inference on mobile and embedded devices" (2020); nothing here is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class PrintedRates:
    """A rate sequence of Figure 1: of channel `channel` (producer and consumer by number),
    production U or consumption V.
    """

    name: str
    source: str
    target: str
    side: str
    rates: str
    where: str


FIGURE_1 = (
    PrintedRates("U33", "n3", "n3", "production", "3*128,1*0", "section III-B and V-B"),
    PrintedRates("V33", "n3", "n3", "consumption", "1*0,3*128", "section III-B and V-B"),
    PrintedRates("V23", "n2", "n3", "consumption", "1*384,2*192,1*256", "section V-B"),
    PrintedRates("U34", "n3", "n4", "production", "4*12", "section V-B: u34(p) = 12 for p in [1, 4]"),
)  # fmt: skip
"""The sequences of Figure 1(b) that the text prints as well."""


@dataclass(frozen=True, slots=True)
class Example:
    """A row of Table II: phases of n1 to n5, `--rows` for them, order, bytes of b12, b23, b34, b45,
    total, frames a second.
    """

    name: str
    phases: tuple[int, ...]
    rows: str
    order: str
    buffers: tuple[int, ...]
    total: int
    throughput: int


TABLE_2 = (
    Example(
        "Ex1", (1, 1, 1, 1, 1), "whole", "n1(1), n2(1), n3(1), n4(1), n5(1)", (1024, 1024, 48, 2), 2098, 334,
    ),
    Example(
        "Ex2", (2, 2, 1, 1, 1), "whole,image=24+8,n2=8", "n1(1), n2(1), n1(2), n2(2), n3(1), n4(1), n5(1)",
        (768, 1024, 48, 2), 1842, 333,
    ),
    Example(
        "Ex3", (32, 16, 1, 1, 1), "whole,image=1,n2=1", "n1(1-17), n2(1), [n1(18-32), n2(2-16)], n3(1), n4(1), n5(1)",
        (544, 1024, 48, 2), 1618, 310,
    ),
    Example(
        "Ex4", (32, 16, 4, 1, 1), "whole,image=1,n2=1,n3=1",
        "n1(1-17), n2(1), [n1(18-22), n2(2-6)], n3(1), [n1(23-25), n2(7-9)], n3(2), [n1(26-28), n2(10-12)], n3(3), "
        "[n1(29-32), n2(13-16)], n3(4), n4(1), n5(1)",
        (544, 384, 48, 2), 978, 308,
    ),
)  # fmt: skip
"""Table II (section IV). The order of Ex3 is the one of the text; the table's own cell ends at
n1(21), a misprint.
"""

COLUMNS = ("m_DL", "m_our", "reduction", "tau_DL", "tau_our", "decrease")
"""MB, MB, %, frames a second, frames a second, %."""

TABLE_3: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "resnet18": (84, 52, 38, 46, 36, 22),
        "googlenet": (86, 50, 41, 60, 42, 30),
        "tiny_yolo_v2": (142, 66, 54, 26, 21, 22),
        "inception_v1": (81, 48, 41, 66, 46, 31),
        "vgg19": (700, 579, 17, 3.97, 3.87, 3),
        "densenet121": (327, 119, 64, 36, 19, 47),
        "squeezenet1_1": (34, 12, 64, 272, 125, 54),
    }
)
"""Table III (section VI) by the zoo's names, in the order of `COLUMNS`. Two decimals below 10
frames a second.
"""
