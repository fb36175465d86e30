"""Samples of operators on oclgrind, which executes kernels item by item and reports races, accesses beyond a buffer and values
that nothing has written. `python -m tests.simulated_opencl NUMBER...` computes those samples, `networks` two small ones;
`ignored` and `unstaged` compute these with dependences ignored, between launches and within them.
`tests/unit/test_simulated.py` runs it, in a process that has oclgrind's OpenCL.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, groupby
from typing import Any

import numpy as np

from csdfgen.backends.device import bound
from csdfgen.backends.device.backend import DeviceKernels
from csdfgen.backends.device.launches import Launch, Touched, levels
from csdfgen.backends.opencl.devices import choose_device
from csdfgen.backends.opencl.driver import OpenCL

STORE = """
kernel void store(global const uchar *from, global uchar *to, ulong start)
{
    to[start + get_global_id(0)] = from[get_global_id(0)];
}
"""


class Watched(OpenCL):
    """A driver whose device sees what the host writes: oclgrind 21.10 takes bytes that are copied to an offset, or written
    where a buffer is mapped, for bytes that nobody has written, and bytes of a buffer that takes the place of a freed one. So
    a kernel writes, and no buffer is freed.
    """

    def __init__(self) -> None:
        import pyopencl as cl

        super().__init__(choose_device("oclgrind"))
        self._kept: list[Any] = []
        self._store = cl.Program(self._context, STORE).build().store

    def buffer(self, size: int, what: str, *, constant: bool = False) -> Any:
        self._kept.append(super().buffer(size, what))  # weights are written by a kernel, too
        return self._kept[-1]

    def uploaded(self, values: np.ndarray) -> Any:
        self._kept.append(super().uploaded(values))
        return self._kept[-1]

    def window(self, host: np.ndarray, output: bool) -> Any:
        self._kept += [host, super().window(host, output)]
        return self._kept[-1]

    def kernel(self, name: str) -> Any:
        print(f"kernel {name}", flush=True)
        return super().kernel(name)

    def store(self, buffer: Any, start: int, values: np.ndarray) -> None:
        given = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        source = self.uploaded(given)
        self._store(self._queue, given.shape, None, source, buffer, np.uint64(start))
        self.wait()

    @contextmanager
    def mapped(self, buffer: Any, start: int, size: int, writes: bool) -> Iterator[np.ndarray]:
        with super().mapped(buffer, start, size, writes=False) as rows:
            there = rows.copy()
        yield there
        if writes:
            self.store(buffer, start, there)


def samples(device: DeviceKernels, wanted: Iterable[str]) -> None:
    """Samples of operators as numpy has them. wanted: NUMBER, or NUMBER:LAYOUT."""
    from tests.op_harness import heights
    from tests.op_samples import SAMPLES
    from tests.property.test_native import LAYOUTS, close
    from tests.scattered import declared, run_scattered

    for one in wanted:
        number, _, which = one.partition(":")
        sample, layout = SAMPLES[int(number)], LAYOUTS[int(which or number) % len(LAYOUTS)]
        layer, feeds = sample.layer(), sample.feeds()
        height = heights(layer)[0]
        print(f"{one}: {layer.op_type}", flush=True)
        want = run_scattered(layer, feeds, height, layout, None)
        sizes = declared(layer, height, layout, None, device)
        found = run_scattered(layer, feeds, height, layout, None, sizes, device)
        for x, y in zip(found, want, strict=True):
            close(x, y)


def networks(device: DeviceKernels) -> None:
    """Three convolutions, and a product of activations, row by row, as onnxruntime has them; a convolution of bytes, by fewer
    products, as numpy has it.
    """
    import csdfgen
    import runtime
    from csdfgen.backends import registry
    from tests.builder import Graph, reference
    from tests.unit.test_byte_winograd import layer_of
    from tests.unit.test_contraction import keys_times_values
    from tests.unit.test_native_bytes import Case

    others = registry._made
    registry._made = (  # type: ignore[assignment]
        lambda name, *options: device if name == "opencl" else others(name, *options)
    )
    graph = Graph()
    x = graph.input("x", (1, 2, 6, 5))
    for _ in range(3):
        x = graph.conv(x, 3)
    for model, shape in (
        (graph.model(x), (1, 2, 6, 5)),
        (keys_times_values(5, 2, 2, 3), (1, 8, 5)),
    ):
        feeds = {"x": graph.rng.standard_normal(shape).astype(np.float32)}
        plan = csdfgen.plan(csdfgen.load(model), rows="1", backend="opencl")
        wanted = reference(model, feeds)
        for name, found in runtime.compile(plan)(feeds).items():
            if not ignores():
                np.testing.assert_allclose(found, wanted[name], atol=1e-5)
    model, x = layer_of(Case(), ("uint8", "int8"), (17, 16), (4, 4), (1, 1, 1, 1))
    both = [csdfgen.plan(csdfgen.load(model), rows="whole", backend=b) for b in ("numpy", "opencl")]
    want, got = (runtime.compile(plan)({"x": x})["y"] for plan in both)
    if not ignores():
        np.testing.assert_array_equal(got, want)


def ignores() -> bool:
    """Whether dependences are ignored."""
    return bound.levels is not levels


def one_after_the_other(size: int, touched: Iterable[Touched], loss: object = None) -> list[Launch]:
    """As `levels`, of a planner who does not look at what instructions touch."""
    return [
        [[number for number, _ in group]]
        for _, group in groupby(enumerate(touched), key=lambda one: one[1][2])
    ]


def unstaged(size: int, touched: Iterable[Touched], loss: Any = None) -> list[Launch]:
    """As `levels`, of a planner who takes the stages of a series for one."""
    return [[[*chain.from_iterable(launch)]] for launch in levels(size, touched, loss)]


if __name__ == "__main__":
    made = DeviceKernels(Watched(), "OpenCL")
    match sys.argv[1:]:
        case ["networks"]:
            for bound.LEAST_SAVED in (1 << 30, 0):  # without series, and with them
                networks(made)
        case ["ignored"]:
            bound.levels = one_after_the_other
            networks(made)
        case ["unstaged"]:
            bound.levels, bound.LEAST_SAVED = unstaged, 0
            networks(made)
        case wanted:
            samples(made, wanted)
