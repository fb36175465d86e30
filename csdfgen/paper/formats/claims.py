"""What do the text and the tables of paper 003 claim, and what is true? Every number that follows from
others of the paper, or from its networks, computed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log
from typing import TypeVar

import numpy as np

from csdfgen.paper.cells import Cell
from csdfgen.paper.formats.memory import networks
from csdfgen.paper.formats.printed import (
    FORMATS,
    TABLE_4_1,
    TABLE_4_2,
    TABLE_4_3,
    TABLE_4_4,
    TABLE_4_5,
    TABLE_4_8,
)
from zoo_models import count, experts

COLD, HOT = -273.0, 999.0
"""Ends of the Celsius example."""


Degrees = TypeVar("Degrees", float, np.ndarray)


def fahrenheit(celsius: Degrees) -> Degrees:
    """Degrees.

    >>> fahrenheit(100.0)
    212.0
    """
    return celsius * 1.8 + 32


def table_4_1() -> Iterator[Cell]:
    """Operations a second in the narrower types: those in float32 times the rate that the table's notes
    name.
    """
    for device in TABLE_4_1:
        base, *others = device.printed
        for name, rate, printed in zip(
            ("float16", "int8", "int16"), device.rates, others, strict=True
        ):
            digits = len(f"{printed:g}".partition(".")[2])
            note = "1/64 of 8.9 is 0.139" if (device.name, name) == ("GTX 1080", "float16") else ""
            yield Cell("4.1", device.name, name, "T/s", printed, base * rate, digits, note)


def counts() -> Iterator[Cell]:
    """Parameters and multiply-accumulates of section 4's networks, none of which are printed."""
    found = {name: (one.parameters, one.macs) for name, one in networks().items()}
    for name, model in (("gate", experts.gate), ("expert", experts.expert)):
        one = count(model(weights=False))
        found[f"MOE, {name}"] = one.parameters, one.macs
    whole, gate, expert = (found[n] for n in ("MOE", "MOE, gate", "MOE, expert"))
    trunk = [all_ - g - experts.EXPERTS * e for all_, g, e in zip(whole, gate, expert, strict=True)]
    found["MOE, trunk"] = trunk[0], trunk[1]
    found["MOE, 4 of 16 experts"] = whole[0], whole[1] - _unused() * expert[1]
    for name, (parameters, macs) in found.items():
        yield Cell("section 4", name, "parameters", "", None, parameters, 0)
        yield Cell("section 4", name, "multiply-accumulates", "", None, macs, 0)


def _unused() -> int:
    return experts.EXPERTS - experts.CHOSEN


def gains() -> Iterator[Cell]:
    """How many times as fast the mixture is as ImageNet, by Tables 4.4 and 4.5, and by the multiply-accumulates of a
    picture: with the chosen experts in branches, or with all of them, whichever is nearer in float32.
    """
    caffe, moe = networks()["ImageNet"].macs, networks()["MOE"].macs
    branches = caffe / (moe - _unused() * count(experts.expert(weights=False)).macs)
    for device, times in TABLE_4_4.items():
        plain, mixed = times[0], TABLE_4_5[device][0]
        assert plain and mixed
        chosen = abs(log(plain / mixed / branches)) < abs(log(plain / mixed / (caffe / moe)))
        ours = branches if chosen else caffe / moe
        note = f"{experts.CHOSEN if chosen else 'all'} of {experts.EXPERTS} experts run, judging by float32"
        for name, one, other in zip(FORMATS, times, TABLE_4_5[device], strict=True):
            if one is not None and other is not None:
                yield Cell("4.5", device, name, "times", one / other, ours, 2, note)


def claims() -> Iterator[Cell]:
    """The numbers of the text, each with what is true of it in its note."""
    yield from _memory_claims()
    yield from _speed_claims()
    yield from _accuracy_claims()
    yield from _network_claims()


def _claim(row: str, unit: str, printed: float, ours: float, digits: int, note: str) -> Cell:
    return Cell("claims", row, "", unit, printed, ours, digits, note)


def _memory_claims() -> Iterator[Cell]:
    cuda, opencl = TABLE_4_3["CUDA", "float32"], TABLE_4_3["OpenCL", "float32"]
    cuda8, opencl8 = TABLE_4_3["CUDA", "int8"], TABLE_4_3["OpenCL", "int8"]
    yield _claim(
        "memory down to 1/3.29", "", 3.29, opencl[2] / opencl8[3], 2,
        "MOE in float32 without reuse against int8 with reuse: reuse alone gives "
        f"{_span([row[k] / row[k + 1] for row in (cuda, opencl) for k in (0, 2)])}, int8 alone "
        f"{_span([row[k] / other[k] for row, other in ((cuda, cuda8), (opencl, opencl8)) for k in range(4)])}",
    )  # fmt: skip
    yield _claim(
        "int8 reduces memory by 54 %", "%", 54, 100 * (1 - cuda8[0] / cuda[0]), 0,
        f"it falls to {100 * cuda8[0] / cuda[0]:.1f} %",
    )  # fmt: skip
    yield _claim(
        "reuse reduces it by an additional 68 %", "%", 68, 100 * (1 - cuda[1] / cuda[0]), 0,
        f"it falls to {100 * cuda[1] / cuda[0]:.1f} %",
    )  # fmt: skip
    yield _claim(
        "MOE has 27 % more parameters", "%", 27,
        100 * (networks()["MOE"].parameters / networks()["ImageNet"].parameters - 1), 0, "",
    )  # fmt: skip
    for name in TABLE_4_2:
        printed, ours = TABLE_4_2[name][0], networks()[name].parameters * 4 / 2**20
        note = "Table 4.2 is in MB of 10^6 bytes, not in MiB"
        yield _claim(f"{name}: float32 parameters in MiB", "MiB", printed, ours, 1, note)


def _span(ratios: list[float]) -> str:
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def _gain(table: str, device: str) -> float:
    """Percent that float16 is faster than float32."""
    single, half, *_ = (TABLE_4_4 if table == "4.4" else TABLE_4_5)[device]
    assert single is not None and half is not None
    return 100 * (single / half - 1)


def _speed_claims() -> Iterator[Cell]:
    vega, radeon, mali = "Vega FE OpenCL, 512", "RX 480 OpenCL, 512", "Mali T764 OpenCL, 4"
    plain, moe = TABLE_4_4[mali], TABLE_4_5[mali]
    assert plain[0] and plain[1] and moe[0] and moe[1]
    yield _claim(
        "up to 3.01 times as fast", "", 3.01, plain[0] / moe[1], 2,
        "on Mali, but between two networks: ImageNet in float32 and MOE in float16; a single network "
        f"gains {1 + _gain('4.4', vega) / 100:.2f} at most (Vega)",
    )  # fmt: skip
    yield _claim("float16 on Vega +128.8 %", "%", 128.8, _gain("4.4", vega), 1, "863 / 380")
    yield _claim("float16 on Mali +75.3 %", "%", 75.3, _gain("4.4", mali), 1, "4321 / 2461")
    yield _claim("float16 on RX 480 +65 %", "%", 65, _gain("4.4", radeon), 0, "")
    yield _claim(
        "MOE on Mali +77 % (float32)", "%", 77, 100 * (plain[0] / moe[0] - 1), 0, "4321 / 2422"
    )
    yield _claim(
        "MOE on Mali +71 % (float16)", "%", 71, 100 * (plain[1] / moe[1] - 1), 0, "2461 / 1435"
    )


def _accuracy_claims() -> Iterator[Cell]:
    best = TABLE_4_8["test top-1"]
    yield _claim("int8 loses up to 12 % top-1", "points", 12, best[0] - best[3], 0, "true of int8")
    yield _claim(
        "int16 loses up to 12 % top-1", "points", 12, best[0] - best[2], 0,
        "int16 loses more than int8: its factor has 15 or 7 bits",
    )  # fmt: skip
    yield _claim("-273 C in F", "F", -394.6, fahrenheit(COLD), 1, "")
    for name, printed, steps, digits in (("int8", 4.3658, 255, 4), ("int16", 0.017, 65535, 3)):
        half = (fahrenheit(HOT) - fahrenheit(COLD)) / steps / 2
        note = "half an output step, which bounds the largest error, not the mean; the input adds its own"
        yield _claim(f"{name}: error not below", "F", printed, half, digits, note)
    for bits, printed in ((8, 255), (16, 65535)):
        yield _claim(
            f"values of int{bits}", "", printed, 2**bits, 0, "that many steps, one value more"
        )


def _network_claims() -> Iterator[Cell]:
    caffe, moe = networks()["ImageNet"], networks()["MOE"]
    expert = count(experts.expert(weights=False)).macs
    ends = (
        55 * 55 * 96 * 11 * 11 * 3 + 4096 * 1000
    )  # its first and last layer are in MOE's trunk too
    run = moe.macs - _unused() * expert
    yield _claim(
        "an expert costs 1/16", "", 16, (caffe.macs - ends) / expert, 0,
        f"of the layers that experts replace; with gate and trunk the gain is {caffe.macs / run:.2f} times",
    )  # fmt: skip
