"""How does the method look? README's picture, of a plan of three layers: no row in it is drawn by hand.

python -m csdfgen.demo.method docs
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import csdfgen
from csdfgen.charts.method import Column, Memory, Moment, method_chart
from csdfgen.files import write_bytes
from csdfgen.model.network import Tensor
from csdfgen.model.rows import Rows
from csdfgen.phases.conversion import ActorWork
from csdfgen.planning.plan import Plan

__all__ = ["memory", "moments", "picture", "three_layers"]

SIZE, CHANNELS = 16, 8

SHOWN = (("conv 1", 3), ("conv 2", 8), ("pool", 6))
"""Firings in the picture: layer and phase, counted from 0. One a layer: at the start of a frame, in
the middle, and near its end.
"""

FILE = "method.svg"


def three_layers() -> onnx.ModelProto:
    """A 3x3 convolution, another one, a 2x2 pool; tensors have the names of the layers."""
    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["sums 1"], "conv 1", pads=[1] * 4),
        helper.make_node("Relu", ["sums 1"], ["conv 1"], "relu 1"),
        helper.make_node("Conv", ["conv 1", "w2"], ["sums 2"], "conv 2", pads=[1] * 4),
        helper.make_node("Relu", ["sums 2"], ["conv 2"], "relu 2"),
        helper.make_node(
            "MaxPool", ["conv 2"], ["pool"], "pool", kernel_shape=[2, 2], strides=[2, 2]
        ),
    ]
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.normal(0, 0.1, shape).astype(np.float32), name)
        for name, shape in {"w1": (CHANNELS, 3, 3, 3), "w2": (CHANNELS, CHANNELS, 3, 3)}.items()
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIZE, SIZE])
    output = helper.make_tensor_value_info("pool", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "three layers", [image], [output], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def fired(plan: Plan) -> Iterator[tuple[str, int]]:
    """Actor and phase of every firing, in the order of the plan."""
    yield from plan.order


def moments(plan: Plan) -> list[Moment]:
    """What is in memory during every firing of a plan whose tensors lie each in a buffer of its own.

    During a firing are alive the rows that have been claimed up to it and were not released before
    it; rows of a tensor that no layer reads, an output, are handed on by the firing that writes them.
    """
    conversion = plan.conversion
    tensors = {w.tensor.name: w.tensor for work in conversion.actors for w in work.writes}
    outputs = {name for name in tensors if not conversion.network.readers[name]}
    released, claimed = dict.fromkeys(tensors, 0), dict.fromkeys(tensors, 0)
    found = []
    for number, (name, phase) in enumerate(fired(plan), start=1):
        work = conversion.actor[name]
        before = dict(claimed)
        for write in work.writes:
            claimed[write.tensor.name] = write.claimed[phase]
        alive = {tensor: Rows(released[tensor], claimed[tensor]) for tensor in tensors}
        written = {tensor: Rows(before[tensor], claimed[tensor]) for tensor in tensors}
        found.append(Moment(number, _columns(tensors, alive, written, work, phase)))
        for read in work.reads if work.kind == "layer" else ():
            released[read.tensor.name] = read.release[phase]
        for write in work.writes:
            if write.tensor.name in outputs:
                released[write.tensor.name] = write.complete[phase]
    return found


def _columns(
    tensors: Mapping[str, Tensor],
    alive: Mapping[str, Rows],
    written: Mapping[str, Rows],
    work: ActorWork,
    phase: int,
) -> tuple[Column, ...]:
    reads = {read.tensor.name: read.rows[phase] for read in work.reads if work.kind == "layer"}
    return tuple(
        Column(name, t.rows, t.row_bytes, alive[name], reads.get(name, Rows(0, 0)), written[name])
        for name, t in tensors.items()
    )


def memory(found: list[Moment], whole: list[Moment]) -> Memory:
    """Bytes of a plan's moments, beside those of the same layers one after another."""
    highest = [max(len(c.alive) * c.row_bytes for c in kept) for kept in _by_tensor(found)]
    return Memory(tuple(map(_bytes, found)), sum(highest), max(map(_bytes, whole)))


def _by_tensor(found: list[Moment]) -> Iterator[tuple[Column, ...]]:
    return zip(*(moment.columns for moment in found), strict=True)


def _bytes(moment: Moment) -> int:
    return sum(len(column.alive) * column.row_bytes for column in moment.columns)


def picture() -> bytes:
    """The picture as an SVG file."""
    network = csdfgen.load(three_layers())
    plan = csdfgen.plan(network, rows=1, result="stored")
    found = moments(plan)
    numbers = {firing: number for number, firing in enumerate(fired(plan))}
    shown = [found[numbers[firing]] for firing in SHOWN]
    whole = moments(csdfgen.plan(network, rows="whole", result="stored"))
    return method_chart(
        "Only the rows that are still needed are in memory",
        f"A {SIZE} x {SIZE} image, two 3x3 convolutions, a 2x2 pool: three of a frame's {len(found)} firings",
        shown,
        memory(found, whole),
        _notes(found),
    )


def _notes(found: list[Moment]) -> list[str]:
    *rolling, last = (
        f"{max(len(c.alive) for c in kept)} of {kept[0].name}" for kept in _by_tensor(found)
    )
    return [
        f"Buffers hold {', '.join(rolling)} and {last}, the output, which is handed on: a new row takes the",
        "place of a released one. Bars are as wide as rows have bytes. Not counted: scratch of the kernels, and the array",
        f"of {found[0].columns[-1].rows * found[0].columns[-1].row_bytes:,} bytes that the output goes to.",
    ]


def main() -> None:
    write_bytes(Path(sys.argv[1]) / FILE, picture())


if __name__ == "__main__":
    main()
