"""What does each technique of paper 004 gain on this machine? A frame with it, and one without it alone.

Frames take turns, so that a busy machine slows both; medians of seconds, and of the ratio of each turn. Native code computes
on one thread, whose own time is counted; of OpenCL it is the time of day. A processor's OpenCL shows little about a GPU: it
shares all memory, and launches cost next to nothing.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import onnx

from csdfgen.backends.device.backend import DeviceKernels
from csdfgen.backends.native import library
from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.native.build import FLAGS, LEVELS, NATIVE
from csdfgen.backends.native.ways import Ways
from csdfgen.backends.registry import choose_backend, find_backend, load_backend
from csdfgen.errors import CsdfgenError
from csdfgen.goals.choice import plan
from csdfgen.model.network import Network
from csdfgen.paper.cells import Cell, Left
from csdfgen.paper.embedded.switched import switch_off
from csdfgen.paper.turns import PART, Clock, take_turns
from csdfgen.precision.quantize import quantize
from csdfgen.program.steps import Backend
from csdfgen.reading.loader import load
from csdfgen.tuning.file import write_tuning
from csdfgen.tuning.measure import Tuner
from runtime.images import random_inputs
from runtime.session import Executable
from zoo_models import ZOO

NETWORKS = {"ResNet-18": "resnet18", "MobileNet-v2": "mobilenet_v2"}
REPEATS, SIZE = 31, 224

_AVX2 = tuple(LEVELS[0] if flag == NATIVE else flag for flag in FLAGS)

_TUNED_FOR = 60.0
"""Seconds that the blocks of kernels are measured, about; building them is more, once on a machine."""


@cache
def _model(name: str) -> onnx.ModelProto:
    return ZOO[NETWORKS[name]].build(SIZE, weights=True)


Programs = tuple[Callable[[], Executable], Callable[[], Executable]]
"""Without a technique, and with it."""

_BACKENDS: dict[str, Callable[[], Backend]] = {
    "native code": lambda: load_backend(find_backend("emits")),
    "OpenCL": switch_off,
}


def _is_device(kernels: Backend) -> bool:
    return isinstance(kernels, DeviceKernels)


def effects(left: list[Left]) -> Iterator[Cell]:
    """Milliseconds and KiB of arena of a frame without a technique and with it; left: what cannot be measured is added."""
    for name in NETWORKS:
        for title, backend in _BACKENDS.items():
            try:
                kernels = backend()
                for technique, (off, on) in _switches(name, kernels):
                    clock = time.perf_counter if _is_device(kernels) else time.thread_time
                    yield from _compared(f"{name}, {title}: {technique}", off(), on(), clock)
            except CsdfgenError as error:
                left.append(Left(PART, f"{name}, {title}", 0, str(error)))


def _switches(name: str, kernels: Backend) -> Iterator[tuple[str, Programs]]:
    """Techniques, and what makes their programs. Raises CsdfgenError."""
    model = _model(name)
    network = load(model)
    full = partial(_program, network, kernels)
    folded = partial(full, fuse="fold")
    yield "folding", (partial(full, fuse="none"), folded)
    yield "activations in place", (folded, full)
    if _is_device(kernels):
        yield "shared buffers", (partial(_program, network, switch_off(sharing=True)), full)
        yield "asynchronous queue", (partial(_program, network, switch_off(running_on=True)), full)
        whole = partial(full, rows="whole")  # blocks are chosen for whole layers
        yield "tuning", (whole, partial(tune_blocks, network, kernels.name, _TUNED_FOR))
    else:
        exact = load_backend(kernels.name, exact=True)
        yield "Winograd", (partial(_program, network, exact), full)
        integers = load(quantize(model, random_inputs(network, 1), method="minmax").model)
        yield "int8", (full, partial(_program, integers, kernels))
        for title, flags in (("int8 Winograd", FLAGS), ("int8 Winograd, kernels for AVX2", _AVX2)):
            off, on = (
                NativeKernels(library.load(flags), ways=Ways(pairs=pairs))
                for pairs in (False, True)
            )
            yield title, (partial(_program, integers, off), partial(_program, integers, on))


def _program(network: Network, kernels: Backend, **options: Any) -> Executable:
    return Executable(
        plan(network, kernels=kernels, backend=kernels.name, **options), kernels=kernels
    )


def tune_blocks(network: Network, backend: str, seconds: float) -> Executable:
    """Whole layers, each in the fastest of the blocks that are measured for it first, for about so many seconds. Raises
    CsdfgenError.
    """
    tuner = Tuner(network, backend=backend)
    tuner.run(seconds, lambda what, done, total: None)
    with tempfile.TemporaryDirectory(prefix="csdfgen-") as folder:
        file = Path(folder, "tuned.json")
        write_tuning(file, tuner.found)
        found = plan(network, backend=backend, rows="whole", tuning=str(file))
    return Executable(found, kernels=choose_backend(found.options))


def _compared(row: str, off: Executable, on: Executable, clock: Clock) -> Iterator[Cell]:
    rounds = _rounds(off, on, clock)
    for column, found in zip(("without, ms", "with, ms"), zip(*rounds, strict=True), strict=True):
        yield Cell(PART, row, column, "ms", None, 1e3 * statistics.median(found), 1)
    ratio = statistics.median(without / with_ for without, with_ in rounds)
    yield Cell(PART, row, "time, without / with", "", None, ratio, 2)
    arenas = [one.plan.figures["arena"] for one in (off, on)]
    yield Cell(PART, row, "arena, without / with", "", None, arenas[0] / arenas[1], 2)


def _rounds(off: Executable, on: Executable, clock: Clock) -> list[tuple[float, ...]]:
    return take_turns((off, on), clock, REPEATS)
