"""What does the text of paper 004 claim, and what is true? Every number that follows from others, computed again."""

from __future__ import annotations

from collections.abc import Iterator

from csdfgen.paper.cells import Cell
from csdfgen.paper.embedded.printed import GFLOPS, ODROID, TABLE_6, TABLE_8, TABLE_9
from csdfgen.paper.formulas.winograd import F2_WHOLE, max_growth


def claims() -> Iterator[Cell]:
    """The numbers of the text, each with what is true of it in its note."""
    light, resnet = TABLE_6[ODROID, "MobileNet-v2"], TABLE_6[ODROID, "ResNet-18"]
    assert light.tuned and resnet.tuned and light.caffe[0]
    yield _claim(
        "improved by 770 %: MobileNet-v2", "%", 770, 100 * (light.caffe[0] / light.tuned - 1), 0,
        f"7.7 times as fast as Caffe's CPU is 670 % faster; its own CPU takes {light.cpu / light.tuned:.1f} times as "
        f"long, its own GPU without the optimizers {light.gpu / light.tuned:.1f} times",
    )  # fmt: skip
    heavy = TABLE_6[ODROID, "VGG-16"]
    assert heavy.caffe[0]
    yield _claim(
        "improved by 134 %: VGG-16", "%", 134, 100 * (heavy.caffe[0] / heavy.gpu - 1), 0, "1.34 times as fast is 34 % faster"
    )  # fmt: skip
    ours, printed = (
        times / TABLE_8["MobileNet-v2"][0] for times in (light.gpu, TABLE_8["MobileNet-v2"][1])
    )
    yield _claim(
        "plain GPU, MobileNet-v2, relative to PyTorch", "", round(printed, 2), ours, 2,
        "Table 8 has CRNN's times; with Table 6's the plain GPU is far behind",
    )  # fmt: skip
    yield _claim(
        "ResNet-18: slower in proportion to GFLOPS", "", round(GFLOPS[0] / GFLOPS[1], 2),
        resnet.tuned / TABLE_8["ResNet-18"][0], 2, "",
    )  # fmt: skip
    yield _claim("Winograd: inputs grow by", "", 4, max_growth(F2_WHOLE.inputs), 0, "")
    yield _claim(
        "Winograd: weights grow by", "", 16, max_growth(F2_WHOLE.weights), 0,
        f"so that weights up to {127 // max_growth(F2_WHOLE.weights)} fit; 4 bits reach 7",
    )  # fmt: skip
    more = [
        f"{name} by {100 * (one.own[0] / one.caffe[0] - 1):.0f} %"
        for (name, use), one in TABLE_9.items() if use == "max" and one.own[0] > one.caffe[0]
    ]  # fmt: skip
    less = [name for (name, use), one in TABLE_9.items() if one.own[1] < one.caffe[1]]
    yield _claim(
        "rows in which its GPU takes less memory than Caffe's", "", len(TABLE_9), len(less), 0,
        f"its CPU takes more at the peak: {', '.join(more)}",
    )  # fmt: skip
    slower = [f"{board}, {name}" for (board, name), one in TABLE_6.items() if one.gpu > one.cpu]
    yield _claim(
        "rows of Table 6 in which its plain GPU is slower than its CPU", "", None, len(slower), 0,
        "'improved in most cases': " + "; ".join(slower),
    )  # fmt: skip


def _claim(row: str, unit: str, printed: float | None, ours: float, digits: int, note: str) -> Cell:
    return Cell("claims", row, "", unit, printed, ours, digits, note)
