"""How much of this machine do the native kernels use? GFLOP/s of each on the convolutions of five
networks, as a share of what multiply-adds in registers alone reach, beside onnxruntime's kernel.

    python -m benchmarks.bench_kernels [NETWORK ...] [--seconds S] [--match TEXT]

Every layer is computed slab by slab, about 64 output pixels a call (Winograd: at least four rows), in
rolling buffers of as many rows as a call needs: as a plan has them. onnxruntime computes a model of
this one layer and a Relu; of it counts what its profiler says of the Conv node alone, without the
reordering around it. The three take turns, one thread each. The peak and ours are processor time of
the thread; the profiler knows only time of day, so that on a machine that does other work, too,
onnxruntime looks slower than it is: `best` compares tenth percentiles, `ratio` medians.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import csdfgen
from benchmarks.pages import machine
from csdfgen.backends.native.build import build
from csdfgen.backends.native.library import Library, load
from csdfgen.backends.native.structures import CLIP
from tests.native_steps import Convolution, Map, layer_of, pointers, step_of

NETWORKS = ("resnet50", "vgg19", "squeezenet1_1", "mobilenet_v2", "densenet121")
PIXELS = 64
LEAST_ROUNDS = 8
TARGET_SHARE, TARGET_RATIO = 0.85, 0.9


@dataclass(frozen=True)
class Shape:
    """A convolution layer of a network, and how often the network has it."""

    ins: int
    outs: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    groups: int
    height: int
    width: int
    count: int = field(default=1, compare=False)

    def __str__(self) -> str:
        stride = f"/{self.strides[0]}" if self.strides != (1, 1) else ""
        deep = " depthwise" if self.groups > 1 else ""
        size = f"{self.kernel[0]}x{self.kernel[1]}{stride}"
        return f"{size} {self.ins}->{self.outs} @{self.height}x{self.width}{deep}"

    @property
    def counted(self) -> bool:
        """Whether the aims are for it: 3x3 and 1x1 with at least 64 channels."""
        dense = self.groups == 1 and min(self.ins, self.outs) >= 64
        return dense and self.kernel in ((1, 1), (3, 3)) and self.strides == (1, 1)

    @property
    def layer(self) -> Convolution:
        """With random weights and Relu."""
        rng = np.random.default_rng(7)
        shape = (self.outs, self.ins // self.groups, *self.kernel)
        weights = rng.standard_normal(shape).astype(np.float32) / np.float32(np.sqrt(shape[1]) * 3)
        return Convolution(
            weights,
            rng.standard_normal(self.outs).astype(np.float32),
            self.groups,
            self.strides,
            pads=self.pads,
            activation=(CLIP, 0.0, np.inf),
        )


@dataclass(frozen=True)
class Result:
    """Seconds of a layer, by kernel; operations; peak in operations a second."""

    shape: Shape
    operations: float
    peak: float
    ours: dict[str, list[float]]
    theirs: list[float]

    def share(self, kind: str, percentile: float) -> float:
        return self.operations / at(self.ours[kind], percentile) / self.peak

    def ratio(self, kind: str, percentile: float) -> float:
        return at(self.ours[kind], percentile) / at(self.theirs, percentile)


def at(values: Sequence[float], percentile: float) -> float:
    return float(np.percentile(values, percentile))


def shapes(name: str) -> Iterator[Shape]:
    """The different convolutions of a network of the zoo."""
    found: dict[Shape, int] = {}
    for layer in csdfgen.load(f"zoo:{name}").layers:
        if layer.op_type != "Conv":
            continue
        x, attributes = layer.inputs[0], layer.attributes
        assert x is not None
        outs, _, *kernel = layer.constants[1].shape
        shape = Shape(
            x.shape[1],
            outs,
            (kernel[0], kernel[1]),
            tuple(attributes["strides"]),
            tuple(attributes["pads"]),
            attributes["group"],
            *x.shape[2:],
        )
        found[shape] = found.get(shape, 0) + 1
    yield from (replace(shape, count=count) for shape, count in found.items())


class Loop:
    """The C loops around the kernels."""

    def __init__(self) -> None:
        path = build([Path(__file__).with_name("kernel_loop.c")])
        library = ctypes.CDLL(str(path))
        self._steps = library.bench_steps
        self._steps.restype = ctypes.c_double
        self._steps.argtypes = (*(ctypes.c_void_p,) * 2, *(ctypes.c_int64,) * 2)

    def steps(self, function: Any, table: np.ndarray) -> float:
        """Seconds of all steps of a table."""
        return float(
            self._steps(ctypes.cast(function, ctypes.c_void_p), table.ctypes.data, len(table), 1)
        )


def rolling(array: np.ndarray, rows: int, height: int) -> Map:
    """A map of `height` rows in a buffer of `rows`."""
    held = Map.of(array[: min(rows, height)])
    starts = tuple(held.starts[row % len(held.starts)] for row in range(height))
    return replace(held, starts=starts)


def bound(library: Library, layer: Convolution, shape: Shape) -> tuple[np.ndarray, list[Any]]:
    """A table of the steps of a layer, and what it points to."""
    rng = np.random.default_rng(3)
    out_shape = layer.out_shape(shape.height, shape.width)
    height = max(1, round(PIXELS / out_shape[1]))
    if layer.tile:
        height = max(4, -(-height // layer.tile) * layer.tile)
    height = min(height, out_shape[0])
    held = (height - 1) * shape.strides[0] + shape.kernel[0] + height * shape.strides[0]
    x = rng.standard_normal((min(held, shape.height), shape.width, shape.ins)).astype(np.float32)
    source = rolling(x, held, shape.height)
    blank = np.zeros((2 * height, *out_shape[1:]), np.float32)
    target = rolling(blank, 2 * height, out_shape[0])
    packed = layer_of(layer)
    steps = [
        step_of(library, layer, [source], target, (a, min(out_shape[0], a + height)), packed=packed)
        for a in range(0, out_shape[0], height)
    ]
    return pointers([step.address for step in steps]), steps


def kinds(layer: Convolution, shape: Shape) -> dict[str, Convolution]:
    """The kernels that compute a layer."""
    if shape.groups > 1:
        return {"depthwise": replace(layer, kind="depthwise")}
    found = {"direct": layer}
    if shape.kernel == (3, 3) and shape.strides == (1, 1) and shape.ins >= 16:
        found |= {f"F{n}x4": replace(layer, kind="winograd", tile=n) for n in (2, 4)}
    return found


class Reference:
    """onnxruntime on one layer and a Relu."""

    def __init__(self, layer: Convolution, shape: Shape, folder: str) -> None:
        nodes = [
            helper.make_node(
                "Conv",
                ["x", "w", "b"],
                ["c"],
                strides=layer.strides,
                pads=layer.pads,
                group=layer.groups,
            ),
            helper.make_node("Relu", ["c"], ["y"]),
        ]
        size = (1, shape.ins, shape.height, shape.width)
        value = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT)
        assert layer.bias is not None
        constants = [
            numpy_helper.from_array(layer.weights, "w"),
            numpy_helper.from_array(layer.bias, "b"),
        ]
        graph = helper.make_graph(
            nodes, "layer", [value("x", shape=size)], [value("y", shape=None)], constants
        )
        opset = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=9)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_profiling = True
        options.profile_file_prefix = f"{folder}/profile"
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self._feed = {"x": np.random.default_rng(5).standard_normal(size).astype(np.float32)}

    def __call__(self) -> None:
        self._session.run(None, self._feed)

    def seconds(self) -> list[float]:
        """Of the Conv node in every run but the first."""
        path = Path(self._session.end_profiling())
        events = json.loads(path.read_text())
        path.unlink()
        taken = [
            1e-6 * event["dur"]
            for event in events
            if event.get("cat") == "Node" and event["args"].get("op_name", "").endswith("Conv")
        ]
        return taken[1:]


def measure(library: Library, loop: Loop, shape: Shape, seconds: float, folder: str) -> Result:
    """All kernels of a layer, the peak loop and onnxruntime in turn."""
    layer = shape.layer
    ours = kinds(layer, shape)
    functions = {
        kind: library.function(one.kind, None, ctypes.c_void_p) for kind, one in ours.items()
    }
    tables = {kind: bound(library, one, shape) for kind, one in ours.items()}
    reference = Reference(layer, shape, folder)
    peaks: list[float] = []
    taken: dict[str, list[float]] = {kind: [] for kind in ours}
    until = 0.0
    while len(peaks) <= LEAST_ROUNDS or time.monotonic() < until:
        peaks.append(library.peak())
        for kind in ours:
            taken[kind].append(loop.steps(functions[kind], tables[kind][0]))
        reference()
        if len(peaks) == 1:  # the first round warms up
            peaks, taken = [], {kind: [] for kind in ours}
            until = until or time.monotonic() + seconds
            reference()
            peaks.append(library.peak())
    out = layer.out_shape(shape.height, shape.width)
    operations = 2.0 * np.prod(out) * np.prod(layer.weights.shape[1:])
    return Result(shape, float(operations), at(peaks, 75), taken, reference.seconds())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_kernels",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="NETWORK")
    parser.add_argument("--seconds", type=float, default=0.5, help="a layer")
    parser.add_argument("--match", default="", help="layers whose name has this text")
    options = parser.parse_args(arguments)
    library = load()
    loop = Loop()
    print(f"{library.instructions}; {machine('onnxruntime')}\n")
    print(
        "| network | layer | times | kernel | ms | of peak | best | onnxruntime, ms | of peak | ratio | best |"
    )
    print("|---|---|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    results = []
    seen: set[Shape] = set()
    with tempfile.TemporaryDirectory() as folder:
        for name in options.networks:
            for shape in shapes(name):
                if shape in seen or options.match not in str(shape):
                    continue
                seen.add(shape)
                result = measure(library, loop, shape, options.seconds, folder)
                results.append(result)
                for kind in result.ours:
                    theirs = at(result.theirs, 50)
                    cells = (
                        name,
                        str(shape),
                        str(shape.count),
                        kind,
                        f"{at(result.ours[kind], 50) * 1e3:.3f}",
                        f"{result.share(kind, 50):.0%}",
                        f"{result.share(kind, 10):.0%}",
                        f"{theirs * 1e3:.3f}",
                        f"{result.operations / theirs / result.peak:.0%}",
                        f"{result.ratio(kind, 50):.2f}",
                        f"{result.ratio(kind, 10):.2f}",
                    )
                    print(f"| {' | '.join(cells)} |", flush=True)
    print("\n" + summary(results))
    return 0


def summary(results: Sequence[Result]) -> str:
    """The layers that the aims are for: what direct convolution reaches of them, and the best kernel."""
    counted = [result for result in results if result.shape.counted]
    if not counted:
        return "no 3x3 or 1x1 layer of stride 1 with at least 64 channels"
    lines = []
    for size in ((1, 1), (3, 3)):
        mine = [result for result in counted if result.shape.kernel == size]
        if not mine:
            continue
        shares = [[result.share("direct", p) for result in mine] for p in (50, 10)]
        ratios = [[result.ratio("direct", p) for result in mine] for p in (50, 10)]
        lines.append(
            f"{size[0]}x{size[1]}, {len(mine)} layers, direct: of peak "
            + ", ".join(
                f"{np.mean(share):.0%} ({min(share):.0%} to {max(share):.0%})" for share in shares
            )
            + f" (aim {TARGET_SHARE:.0%}); of onnxruntime's time "
            + ", ".join(f"{mean(ratio):.2f}" for ratio in ratios)
            + f" (aim {TARGET_RATIO}); medians, tenth percentiles"
        )
        best = [min(result.ratio(kind, 10) for kind in result.ours) for result in mine]
        lines.append(f"{size[0]}x{size[1]}, best kernel: {mean(best):.2f} of onnxruntime's time")
    return "\n".join(lines)


def mean(ratios: Sequence[float]) -> float:
    """Geometric."""
    return exp(sum(log(ratio) for ratio in ratios) / len(ratios))


if __name__ == "__main__":
    sys.exit(main())
