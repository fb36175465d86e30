"""What follows from the numbers that paper 004 prints? What folding, tuning and unified memory gain, its percentages
computed again, and what they are percentages of.
"""

from __future__ import annotations

from collections.abc import Iterator

from csdfgen.paper.cells import Cell
from csdfgen.paper.embedded.printed import (
    GFLOPS,
    ODROID,
    TABLE_5,
    TABLE_6,
    TABLE_7,
    TABLE_8,
    TABLE_9,
    TABLE_A1,
)
from zoo_models import ZOO, count

_ZOO = {
    "VGG-16": "vgg16",
    "ResNet-18": "resnet18",
    "ResNet-101": "resnet101",
    "MobileNet-v2": "mobilenet_v2",
}


def table_5() -> Iterator[Cell]:
    """Parameters and statistics in float32, in MiB: what a file of them has."""
    for name, printed in TABLE_5.items():
        one = count(ZOO[_ZOO[name]].build(224, weights=False))
        size = (one.parameters + one.statistics) * 4 / 2**20
        note = (
            "527.8, truncated"
            if name == "VGG-16"
            else "MiB, although MB is printed" * (name == "ResNet-18")
        )
        yield Cell(
            "5", name, "MiB", "MiB", printed, size, len(f"{printed:g}".partition(".")[2]), note
        )


def table_6() -> Iterator[Cell]:
    """The percentages with the base that each was computed with, with the two other ones, and both optimizers' gains."""
    for (board, name), one in TABLE_6.items():
        last, row = one.tuned or one.gpu, f"{board}, {name}"
        found = {"against own CPU": one.cpu / last, "against own GPU": one.gpu / last}
        if one.folded and one.tuned:
            found |= {"folding": one.gpu / one.folded, "tuning": one.folded / one.tuned}
        speed_up = 100 * (one.caffe[0] or one.cpu) / last
        yield Cell("6", row, "speed-up", "%", one.percent, speed_up, 0)
        for column, ours in found.items():
            yield Cell("6", row, column, "", None, ours, 2)


def table_7() -> Iterator[Cell]:
    """Times of the other devices in those of the Odroid."""
    own, *others = TABLE_7.items()
    for name, ms in others:
        yield Cell("7", name, "times the Odroid's", "", None, ms / own[1], 2)


def table_8() -> Iterator[Cell]:
    """The paper's times there, as Table 6 has them, and the times as often as the Jetson's."""
    for name, (jetson, *printed) in TABLE_8.items():
        row = TABLE_6[ODROID, name]
        note = "the row of Table 6 for CRNN was copied" if name == "MobileNet-v2" else ""
        for column, was, ours in zip(
            ("GPU", "folded", "tuned"), printed, (row.gpu, row.folded, row.tuned), strict=True
        ):
            assert ours is not None
            yield Cell("8", name, column, "ms", was, ours, 0, note)
            yield Cell("8", name, f"{column} / Jetson", "", None, ours / jetson, 2)
    yield Cell(
        "8",
        "GFLOPS",
        "tuned / Jetson",
        "",
        None,
        GFLOPS[0] / GFLOPS[1],
        2,
        "Jetson / Odroid",
    )


def table_9() -> Iterator[Cell]:
    """Percent saved on the GPU, and what the CPU's memory is of Caffe's."""
    for (name, use), one in TABLE_9.items():
        row = f"{name}, {use}"
        yield Cell(
            "9", row, "saved, GPU", "%", one.percent, 100 * (1 - one.own[1] / one.caffe[1]), 0
        )
        yield Cell("9", row, "saved, CPU", "%", None, 100 * (1 - one.own[0] / one.caffe[0]), 0)


def table_a1() -> Iterator[Cell]:
    """Latency and memory without unified memory, in those with it; milliseconds of an image beside Table 6's."""
    for name, one in TABLE_A1.items():
        with_, without = one.latency
        row = TABLE_6[ODROID, name]
        assert row.tuned
        yield Cell("A1", name, "latency", "", None, without / with_, 2)
        yield Cell("A1", name, "memory", "", None, one.memory[1] / one.memory[0], 2)
        yield Cell(
            "A1", name, "ms an image", "ms", row.tuned, with_ / 100, 0, "printed: in Table 6"
        )
