"""How much memory do the paper's two networks take, by counting? Tables 4.2 and 4.3.

Counted are parameters and tensors ("blobs") of a batch; ReLU, Dropout and changes of shape work in
place. What a GPU's driver, its kernels and their workspaces take is not known, so that totals are below
the printed ones; what reuse saves and what a narrower type saves is free of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod

import onnx

from csdfgen.model.formats import Format
from csdfgen.paper.cells import Cell
from csdfgen.paper.formats.printed import FORMATS, TABLE_4_2, TABLE_4_3
from csdfgen.paper.formulas.reuse import Reuse, assign_buffers
from zoo_models import ZOO, count, experts

IMAGE, BATCH = 227, 512
MIB = 2**20

_IN_PLACE = frozenset({"Relu", "Dropout", "Reshape", "Flatten", "Split"})
"""Layers that write their result into the buffer of their input."""


@dataclass(frozen=True, slots=True)
class Blobs:
    """What a network keeps for one sample, in elements. parameters: values learned; whole: of all
    tensors, reused: of the buffers that they share.
    """

    parameters: int
    macs: int
    whole: int
    reused: int

    def nbytes(self, format_: str, batch: int, *, reuse: bool) -> int:
        """Parameters and tensors of a batch."""
        kept = self.reused if reuse else self.whole
        return (self.parameters + batch * kept) * Format(format_).itemsize


@cache
def networks() -> Mapping[str, Blobs]:
    """The two networks of section 4 by the paper's names."""
    return {
        "ImageNet": count_blobs(ZOO["caffenet"].build(IMAGE, weights=False)),
        "MOE": count_blobs(experts.alexnet_moe_dense(weights=False)),
    }


def count_blobs(model: onnx.ModelProto) -> Blobs:
    """What a network of the zoo keeps, as the paper's program would, with one tensor a layer."""
    graph = model.graph
    weights = {value.name for value in graph.initializer}
    sizes = {
        value.name: prod(d.dim_value for d in value.type.tensor_type.shape.dim)
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    given = [value.name for value in graph.input if value.name not in weights]
    home: dict[str, str] = {}  # parts of a split are stored in what is split
    for node in graph.node:
        if node.op_type == "Split":
            home.update(dict.fromkeys(node.output, node.output[0]))
    steps = [
        Reuse(
            tuple(home.get(n, n) for n in node.input if n in sizes and n not in weights),
            tuple(dict.fromkeys(home.get(n, n) for n in node.output)),
            node.op_type in _IN_PLACE,
        )
        for node in graph.node
        if node.op_type not in ("Constant", "ConstantOfShape")
    ]
    stored = set(given) | {name for step in steps if not step.in_place for name in step.makes}
    counted = count(model)
    return Blobs(
        counted.parameters,
        counted.macs,
        sum(sizes[name] for name in stored),
        sum(assign_buffers(sizes, steps, given)),
    )


def table_4_2() -> Iterator[Cell]:
    """Storage of parameters: elements times bytes of one, in MB, which the paper calls MiB; where that is too little in
    all formats alike, in a file whose header is in the middle of what fits.
    """
    for network, row in TABLE_4_2.items():
        least, most = fit_header_bytes(network)
        header = (least + most) / 2 if least > 0 else 0.0
        note = f"with a file header of {least / 1e3:.0f} to {most / 1e3:.0f} kB" if header else ""
        for format_, printed in zip(FORMATS, row, strict=True):
            ours = (_parameter_bytes(network, format_) + header) / 1e6
            yield Cell("4.2", network, format_, "MB", printed, ours, note=note)


def fit_header_bytes(network: str) -> tuple[float, float]:
    """Bytes beside the parameters, from and to, with which all formats' storage of a network is as printed, rounded."""
    rest = [
        1e6 * printed - _parameter_bytes(network, format_)
        for format_, printed in zip(FORMATS, TABLE_4_2[network], strict=True)
    ]
    return max(rest) - 0.05e6, min(rest) + 0.05e6


def _parameter_bytes(network: str, format_: str) -> int:
    return networks()[network].parameters * Format(format_).itemsize


def table_4_3() -> Iterator[Cell]:
    """GPU memory: the total that can be counted, what reuse saves, and what one byte instead of four
    saves.
    """
    wrong = {
        ("CUDA", "float16", "MOE"): "impossible: both numbers belong to other cells of the table"
    }
    for (api, format_), row in TABLE_4_3.items():
        for k, network in enumerate(TABLE_4_2):
            whole, reduced = row[2 * k : 2 * k + 2]
            blobs = networks()[network]
            bytes_ = [blobs.nbytes(format_, BATCH, reuse=reuse) / MIB for reuse in (False, True)]
            note = wrong.get((api, format_, network), "")
            where = f"{network}, {api}"
            yield Cell("4.3", where, format_, "MiB", whole, bytes_[0], 0, note)
            yield Cell("4.3", f"{where}, reuse", format_, "MiB", reduced, bytes_[1], 0, note)
            yield Cell(
                "4.3", f"{where}, saved by reuse", format_, "MiB", whole - reduced,
                bytes_[0] - bytes_[1], 0, note,
            )  # fmt: skip
    for api in ("CUDA", "OpenCL"):
        for k, network in enumerate(TABLE_4_2):
            blobs = networks()[network]
            for reuse in (False, True):
                one, four = (TABLE_4_3[api, name][2 * k + reuse] for name in ("int8", "float32"))
                ours = blobs.nbytes("float32", BATCH, reuse=reuse) * 0.75 / MIB
                where = f"{network}, {api}{', reuse' if reuse else ''}"
                yield Cell("4.3", where, "float32 - int8", "MiB", four - one, ours, 0)
