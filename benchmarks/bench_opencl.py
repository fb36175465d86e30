"""What do kernels of OpenCL reach beside native code, tinygrad and CLBlast on the same device? `make bench-opencl`.

    python -m benchmarks.bench_opencl [frames|layers|products|formats ...] [--repeats N] [--seconds S] [--write]

Time of day, in turn in one process, medians; whole layers, with usual blocks and with those that tuning chooses; native code
on two threads (`--busy`: processor time of all threads, native code on one). tinygrad is asked for by `benchmarks.rivals`,
CLBlast through ctypes, where they are installed. `--write` renews the tables of docs/opencl.md.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any
from unittest.mock import patch

import numpy as np

import csdfgen
import runtime
from benchmarks.bench_speed import mean
from benchmarks.pages import ROOT, machine, write_between
from benchmarks.rivals import ON_DEVICE, rivals
from csdfgen.backends.opencl.devices import choose_device
from csdfgen.backends.opencl.driver import OpenCL
from csdfgen.paper.embedded.measured import tune_blocks
from csdfgen.precision.quantize import quantize
from csdfgen.reading.zoo import build
from runtime.images import random_inputs
from runtime.reference import MismatchError, Reference, compare
from runtime.session import Executable
from tests.builder import Graph

PAGE, BACKEND = ROOT / "docs" / "opencl.md", "opencl"
NETWORKS = ("squeezenet1_1", "mobilenet_v2", "resnet50")


LAYERS = (
    (3, 64, 7, 224, 2, 1), (64, 64, 3, 56, 1, 1), (128, 128, 3, 28, 1, 1), (256, 256, 3, 14, 1, 1), (512, 512, 3, 7, 1, 1),
    (256, 64, 1, 56, 1, 1), (512, 2048, 1, 7, 1, 1), (128, 128, 3, 56, 2, 1), (144, 144, 3, 56, 1, 144), (576, 576, 3, 14, 1, 576)
)  # fmt: skip
"""Channels in and out, kernel, rows and columns, stride, groups: of ResNet-50 and MobileNet-v2."""

PRODUCTS = ((256, 256, 256), (512, 512, 512), (1024, 1024, 256), (128, 768, 3072), (197, 768, 768))
"""Rows, columns and terms of each sum."""

LEAST_ROUNDS, MOST_SECONDS = 3, 60.0
"""Rounds that are counted at least; seconds after which no other one begins."""
Runs = Mapping[str, Callable[[], object]]


@dataclass(frozen=True)
class How:
    """repeats: rounds at most. seconds: to tune a network, about. busy: the processor time of all threads is counted."""

    repeats: int
    seconds: float
    busy: bool

    @property
    def clock(self) -> Callable[[], float]:
        return time.process_time if self.busy else time.perf_counter

    @property
    def threads(self) -> int:
        """Of native code: those that wait for each other would count."""
        return 1 if self.busy else 2


def interleaved(runs: Runs, how: How) -> dict[str, list[float]]:
    """Seconds of each run, by name, after two rounds that are not counted; all run once a round."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + MOST_SECONDS
    for turn in range(how.repeats + 2):
        if turn >= LEAST_ROUNDS + 2 and time.perf_counter() > end:
            break
        for name, run in runs.items():
            start = how.clock()
            run()
            if turn > 1:
                times[name].append(how.clock() - start)
    return times


def ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """Median of the ratios of each round."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def ours(model: Any, how: How) -> tuple[dict[str, Executable], dict[str, np.ndarray], Any]:
    """Programs of a model: native, with usual blocks, tuned; inputs; what onnxruntime computes. Raises MismatchError."""
    network = csdfgen.load(model)
    x = random_inputs(network, 1)
    programs = {
        "native": runtime.compile(csdfgen.plan(network), threads=how.threads),
        "usual": runtime.compile(csdfgen.plan(network, rows="whole", backend=BACKEND)),
        "tuned": tune_blocks(network, BACKEND, how.seconds),
    }
    wanted = Reference(model, network)(x)
    for kind, program in programs.items():
        if not all(compare(name, y, wanted[name]).ok for name, y in program(x).items()):
            raise MismatchError(f"outputs of {kind} differ", where=network.name)
    return programs, x, wanted


def frames(how: How) -> Iterator[str]:
    """Networks beside native code and tinygrad."""
    yield from head(
        "network", *(f"{one}, ms" for one in ("native", "default", "tuned", ON_DEVICE)),
        "tuned / native", "default / tuned", "tinygrad / tuned",
    )  # fmt: skip
    for name in NETWORKS:
        model = build(f"zoo:{name}")
        programs, x, wanted = ours(model, how)
        runs = {kind: partial(program, x) for kind, program in programs.items()}
        times = interleaved(runs | dict(rivals(model, x, wanted, [ON_DEVICE])), how)
        theirs = times.get(ON_DEVICE)
        yield row(
            name, *(ms(times.get(kind)) for kind in ("native", "usual", "tuned", ON_DEVICE)),
            f"{ratio(times['tuned'], times['native']):.2f}", f"{ratio(times['usual'], times['tuned']):.2f}",
            f"{ratio(theirs, times['tuned']):.1f}" if theirs else "",
        )  # fmt: skip


def layers(how: How) -> Iterator[str]:
    """Convolutions, each as a network of its own, beside native code."""
    measured = ("native, ms", "default, ms", "tuned, ms")
    yield from head("convolution, ReLU", *measured, "native / tuned", "default / tuned")
    shares, gains = [], []
    for ins, outs, kernel, size, stride, groups in LAYERS:
        graph = Graph()
        x = graph.input("x", (1, ins, size, size))
        made = graph.conv(x, outs, kernel, strides=[stride, stride], group=groups)
        programs, feeds, _ = ours(graph.model(graph.node("Relu", made)), how)
        times = interleaved({kind: partial(one, feeds) for kind, one in programs.items()}, how)
        shares.append(ratio(times["native"], times["tuned"]))
        gains.append(ratio(times["usual"], times["tuned"]))
        columns = (ms(times[kind]) for kind in ("native", "usual", "tuned"))
        deep = " depthwise" if groups > 1 else ""
        title = f"{kernel}x{kernel}/{stride} {ins}->{outs} @{size}{deep}"
        yield row(title, *columns, f"{shares[-1]:.2f}", f"{gains[-1]:.2f}")
    yield row("geometric mean", "", "", "", f"{mean(shares):.2f}", f"{mean(gains):.2f}")


def products(how: How) -> Iterator[str]:
    """Single products beside CLBlast."""
    yield from head("product", "default, ms", "tuned, ms", "CLBlast, ms", "CLBlast / tuned")
    shares = []
    for m, n, k in PRODUCTS:
        graph, rng = Graph(), np.random.default_rng(3)
        x = graph.input("x", (1, m, k))  # the first size is the batch
        weights = rng.standard_normal((k, n)).astype(np.float32)
        made = graph.model(graph.node("MatMul", x, graph.constant(weights)))
        programs, feeds, wanted = ours(made, how)
        del programs["native"]
        theirs = clblast(feeds["x"][0], weights, next(iter(wanted.values()))[0])
        runs: Runs = {kind: partial(one, feeds) for kind, one in programs.items()}
        times = interleaved({**runs, **({"CLBlast": theirs} if theirs else {})}, how)
        found = ratio(times["CLBlast"], times["tuned"]) if theirs else 0.0
        shares += [found] if theirs else []
        columns = (ms(times.get(kind)) for kind in ("usual", "tuned", "CLBlast"))
        yield row(f"{m} x {k} x {n}", *columns, f"{found:.2f}" if theirs else "")
    if shares:
        yield row("geometric mean", "", "", "", f"{mean(shares):.2f}")


def clblast(x: np.ndarray, weights: np.ndarray, wanted: np.ndarray) -> Callable[[], object] | None:
    """A product by CLBlast on the device, of arrays that are there; None where it is not installed. Raises MismatchError."""
    import pyopencl as cl

    try:
        library = ctypes.CDLL("libclblast.so.1")
    except OSError:
        return None
    context = cl.Context([choose_device().handle])
    queue, flags = cl.CommandQueue(context), cl.mem_flags.COPY_HOST_PTR
    (m, k), n = x.shape, weights.shape[1]
    a, b = (cl.Buffer(context, flags, hostbuf=one) for one in (x, weights))
    c = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * m * n)
    handle, size, scalar = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_float
    held = handle(queue.int_ptr)
    rows, plain = 101, 111  # row-major, not transposed

    def run() -> None:
        code = library.CLBlastSgemm(
            rows, plain, plain, size(m), size(n), size(k), scalar(1), handle(a.int_ptr), size(0), size(k),
            handle(b.int_ptr), size(0), size(n), scalar(0), handle(c.int_ptr), size(0), size(n), ctypes.byref(held), None,
        )  # fmt: skip
        if code:
            raise SystemExit(f"CLBlast fails with code {code}")
        queue.finish()

    run()
    found = np.empty((m, n), np.float32)
    cl.enqueue_copy(queue, found, c)
    if not compare("y", found, wanted).ok:
        raise MismatchError("CLBlast differs")
    return run


PRINTED = {
    "float32": (4321, 863, 2047), "float16": (2461, 380, 1379), "int16": (4045, 828, 1361), "int8": (3606, 931, 1165)
}  # fmt: skip
"""Paper 003: ms of a batch, Table 4.4, Mali T764 (4 pictures) and Vega FE (512); MiB with reuse of blobs, Table 4.3."""

NETWORK = "zoo:alexnet"


@contextmanager
def allocated() -> Iterator[list[int]]:
    """Bytes of the buffers that are made meanwhile."""
    made, buffer, uploaded = list[int](), OpenCL.buffer, OpenCL.uploaded

    def counted(self: OpenCL, size: int, *rest: Any, **options: Any) -> Any:
        made.append(size)
        return buffer(self, size, *rest, **options)

    def taken(self: OpenCL, values: np.ndarray) -> Any:
        made.append(values.nbytes)
        return uploaded(self, values)

    with patch.object(OpenCL, "buffer", counted), patch.object(OpenCL, "uploaded", taken):
        yield made


def formats(how: How) -> Iterator[str]:
    """AlexNet in the formats of paper 003, one picture: what they take of time and memory, divided by what float32 takes."""
    yield from head(
        "format", "native, ms", "default, ms", "launches", "arena, MiB", "all buffers, MiB", "time / float32",
        "printed, Mali", "printed, Vega", "arena / float32", "printed, reuse",
    )  # fmt: skip
    model = build(NETWORK)
    x = random_inputs(csdfgen.load(model), 1)
    first = 0.0, 0
    for form, printed in PRINTED.items():
        stored = (
            model if form == "float32" else quantize(model, x, format=form, method="minmax").model
        )
        network = csdfgen.load(stored)
        with allocated() as sizes:
            plan = csdfgen.plan(network, rows="whole", backend=BACKEND)
            usual = runtime.compile(plan)
            usual(x)
        native = runtime.compile(csdfgen.plan(network), threads=how.threads)
        before = usual.driven
        times = interleaved({"native": partial(native, x), "usual": partial(usual, x)}, how)
        assert before is not None and usual.driven is not None
        launches = usual.driven.since(before).launches // (len(times["usual"]) + 2)
        time_of, arena = statistics.median(times["usual"]), plan.planned_bytes
        first = first if first[1] else (time_of, arena)
        mali, vega, memory = (a / b for a, b in zip(printed, PRINTED["float32"], strict=True))
        yield row(
            form, ms(times["native"]), ms(times["usual"]), str(launches), *(f"{n / 2**20:.2f}" for n in (arena, sum(sizes))),
            *(f"{n:.2f}" for n in (time_of / first[0], mali, vega, arena / first[1], memory)),
        )  # fmt: skip
        del usual, native


PARTS = {"frames": frames, "layers": layers, "products": products, "formats": formats}


def head(*titles: str) -> Iterator[str]:
    yield from ("", row(*titles), "|---" + "|---:" * (len(titles) - 1) + "|")


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def ms(times: Sequence[float] | None) -> str:
    return "" if times is None else f"{1e3 * statistics.median(times):,.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_opencl")
    parser.add_argument("parts", nargs="*", default=list(PARTS), choices=[*PARTS, []])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=60.0, help="to tune a network, about")
    parser.add_argument("--busy", action="store_true", help="count processor time")
    parser.add_argument("--write", action="store_true", help="renew docs/opencl.md")
    options = parser.parse_args(arguments)
    how = How(options.repeats, options.seconds, options.busy)
    counted = "Processor time of all threads, native code on one" if how.busy else "Time of day"
    about = (
        f"{counted}; {how.repeats} rounds; {choose_device()}; {machine('pyopencl', 'tinygrad')}."
    )
    for number, part in enumerate(options.parts or PARTS):
        lines = []
        for line in chain(PARTS[part](how), ("", "Conditions as above." if number else about)):
            lines.append(line)
            print(line, flush=True)
        if options.write:
            write_between(PAGE, f"bench-{part}", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
