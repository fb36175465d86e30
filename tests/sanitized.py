"""Does native code touch anything in the arena but what a step may? Random networks under ASan and UBSan.

    python -m tests.sanitized [COUNT] [SEED]

Runs with the sanitizer's library loaded first (`environment`). While a step is computed the whole arena
is poisoned but the rows that it reads and writes, and its workspace: what lies beside a row is never
what an over-read or an overrun would find harmless. Prints how many networks were computed as by numpy.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import onnx
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import csdfgen
from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.native.bound import NativeBound
from csdfgen.backends.native.build import STANDARD, find_compiler
from csdfgen.backends.native.library import Library, load
from csdfgen.backends.numpy.arrays import HostMemory
from csdfgen.backends.numpy.backend import NUMPY
from csdfgen.program.instructions import Constants, Instruction, get_address
from csdfgen.program.steps import Code, Memory, Move, Step, View
from csdfgen.rewriting.fuse import fuse
from runtime.session import Executable
from tests.command import execute
from tests.networks import feeds
from tests.patterns import growing
from tests.quantized_models import quantized
from tests.random_networks import models, row_choices

CHECKS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
FLAGS = (*STANDARD, "-O0", "-march=native", *CHECKS)
WIDE = 40
"""Channels of every other network: enough for kernels with fewer products."""


def environment() -> dict[str, str] | None:
    """In which this runs; None where the compiler has no such library."""
    found = execute(*find_compiler().command, "-print-file-name=libasan.so").stdout.strip()
    if not Path(found).is_absolute():
        return None
    options = "detect_leaks=0:allow_user_poisoning=1"
    return {**os.environ, "LD_PRELOAD": str(Path(found).resolve()), "ASAN_OPTIONS": options}


class Guarded(NativeKernels):
    """Kernels around which all is poisoned that they have no business with."""

    def __init__(self, library: Library) -> None:
        super().__init__(library)
        self._steps: dict[Instruction, Step] = {}

    def lower(self, step: Step | Move, constants: Constants) -> list[Instruction]:
        made = super().lower(step, constants)
        if isinstance(step, Step):
            self._steps.update(dict.fromkeys(made, step))
        return made

    def bind(self, program: Code, memory: HostMemory, constants: Constants) -> NativeBound:
        bound = super().bind(program, memory, constants)
        plain = bound.prepared

        def prepared(numbers: Sequence[int]) -> Callable[[], None]:
            runs = []
            for number in numbers:
                step = self._steps.get(program.instructions[number])
                run = plain([number])
                runs.append(run if step is None else _guarded(run, step, memory))

            def every() -> None:
                for one in runs:
                    one()

            return every

        bound.prepared = prepared  # type: ignore[method-assign]
        return bound


def _guarded(run: Callable[[], None], step: Step, memory: Memory) -> Callable[[], None]:
    """Run while all is poisoned but what a step may touch."""
    sanitizer = ctypes.CDLL(None)
    poison = sanitizer["__asan_poison_memory_region"]
    unpoison = sanitizer["__asan_unpoison_memory_region"]
    poison.argtypes = unpoison.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    every = [(get_address(array), array.nbytes) for array in memory.values()]
    views = (*step.inputs, *step.outputs, *step.states)
    mine = [one for view in views if view for one in _touched(view, memory)]
    pad = step.workspace
    if pad.size:
        mine.append((get_address(memory[pad.pool]) + pad.offset, pad.size))

    def guarded() -> None:
        for at, size in every:
            poison(at, size)
        for at, size in mine:
            unpoison(at - at % 8, size + at % 8)
        run()
        for at, size in every:
            unpoison(at, size)

    return guarded


def _touched(view: View, memory: Memory) -> Iterator[tuple[int, int]]:
    """(address, bytes) of what a view has, pixel by pixel where others lie between them."""
    for piece in view.pieces or (view,):
        base, size = get_address(memory[piece.pool]), np.dtype(piece.format.dtype).itemsize
        shape, strides = list(piece.shape), list(piece.strides)
        run = size
        while shape and (shape[-1] == 1 or strides[-1] == run):
            run *= shape.pop()
            strides.pop()
        for row in piece.rows:
            for index in product(*(range(n) for n in shape)):
                yield base + row + sum(i * s for i, s in zip(index, strides, strict=True)), run


def check(count: int, number: int, integers: bool = False) -> None:
    """integers: of the networks in int8, whose values other tests compare: floats between them meet ties."""
    kernels = Guarded(load(FLAGS))

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data(), models())
    def run(data: st.DataObject, model: onnx.ModelProto) -> None:
        if integers:
            model = quantized(model, "QDQ")
        network = csdfgen.load(model)
        rows = row_choices(data.draw, [layer.name for layer in fuse(network).layers])
        plan = csdfgen.plan(network, rows=rows, backend="native")
        inputs = feeds(model)
        if integers:
            Executable(plan, kernels=kernels)(inputs)
            return
        want = Executable(csdfgen.plan(network, rows=rows, backend="numpy"), kernels=NUMPY)(inputs)
        for name, got in Executable(plan, kernels=kernels)(inputs).items():
            np.testing.assert_allclose(
                got, want[name], rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(want[name]).max()))
            )

    run()


def main(count: int, number: int, integers: int = 0) -> None:
    os.environ.pop("LD_PRELOAD", None)  # compilers take minutes under it
    for channels in (growing.LARGEST_CHANNELS, WIDE):
        growing.LARGEST_CHANNELS = channels
        check((count + 1) // 2, number, bool(integers))
    print(f"{count} networks")


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:]]
    main(*numbers, *(10, 0, 0)[len(numbers) :])
