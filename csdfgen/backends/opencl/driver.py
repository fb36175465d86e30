"""How does OpenCL drive a device? A queue that keeps the order; buffers are mapped where the host looks at them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from csdfgen.backends.device.build import Builder, BuildError
from csdfgen.backends.device.driver import Local, Size
from csdfgen.backends.device.shapes import Blocks
from csdfgen.backends.opencl.devices import Device
from csdfgen.errors import ToolError

__all__ = ["OpenCL"]

OPTIONS = ("-cl-std=CL1.2",)


class OpenCL:
    """A device of OpenCL, see `Driver`."""

    name = "opencl"

    def __init__(self, device: Device) -> None:
        import pyopencl as cl

        self.device, self.blocks = device, Blocks.of(device.kind, device.lanes)
        self._context = cl.Context([device.handle])
        self._queue = cl.CommandQueue(self._context)
        known = device.name, device.platform, device.version, device.driver, *OPTIONS
        self._builder = Builder(
            self.name, device.name, known, self.blocks, self._compiled, self._loaded
        )

    def _compiled(self, text: str) -> tuple[Any, bytes]:
        import pyopencl as cl

        made = self._built(cl.Program(self._context, text))
        return made, made.get_info(cl.program_info.BINARIES)[0]

    def _loaded(self, binary: bytes) -> Any:
        import pyopencl as cl

        try:
            made = cl.Program(self._context, [self.device.handle], [binary])
        except cl.Error as error:
            raise BuildError(str(error)) from None
        return self._built(made)

    def _built(self, program: Any) -> Any:
        import pyopencl as cl

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return program.build(
                    options=list(OPTIONS), cache_dir=False
                )  # binaries are kept here
        except cl.Error as error:
            raise BuildError(str(error)) from None

    def buffer(self, size: int, what: str, *, constant: bool = False) -> Any:
        """See `Driver.buffer`."""
        import pyopencl as cl

        device, size = self.device, max(1, size)
        flags = cl.mem_flags.READ_ONLY if constant else cl.mem_flags.READ_WRITE
        if device.unified and not constant:
            flags |= cl.mem_flags.ALLOC_HOST_PTR
        if size > device.largest:
            raise ToolError(
                f"{what} of {size:,} bytes: {device.name} has at most {device.largest:,} in one allocation; "
                "--memory or --rows 1 make a smaller plan"
            )
        try:
            return cl.Buffer(self._context, flags, size)
        except cl.Error as error:
            raise ToolError(
                f"{what} of {size:,} bytes: {device.name} has {device.memory:,} in all and cannot give as many now ({error})"
            ) from None

    def uploaded(self, values: np.ndarray) -> Any:
        """See `Driver.uploaded`."""
        import pyopencl as cl

        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        return cl.Buffer(self._context, flags, hostbuf=values)

    def store(self, buffer: Any, start: int, values: np.ndarray) -> None:
        """See `Driver.store`."""
        import pyopencl as cl

        cl.enqueue_copy(self._queue, buffer, values, dst_offset=start, is_blocking=True)

    @contextmanager
    def mapped(self, buffer: Any, start: int, size: int, writes: bool) -> Iterator[np.ndarray]:
        """See `Driver.mapped`."""
        import pyopencl as cl

        flags = cl.map_flags.READ | (cl.map_flags.WRITE if writes else 0)
        mapped, _ = cl.enqueue_map_buffer(self._queue, buffer, flags, start, (size,), np.uint8)
        try:
            yield mapped
        finally:
            mapped.base.release(self._queue)

    def window(self, host: np.ndarray, output: bool) -> _Window:
        """See `Driver.window`."""
        return _Window(self._context, self._queue, host, output, self.device.unified)

    def kernel(self, name: str) -> Any:
        """See `Driver.kernel`."""
        import pyopencl as cl

        return cl.Kernel(self._builder.program(name), f"csdf_{name}")

    def launch(
        self, kernel: Any, size: Size, local: Local, buffers: Sequence[Any], first: int
    ) -> Callable[[], None]:
        """See `Driver.launch`."""
        import pyopencl as cl

        queue = self._queue
        kernel.set_args(*buffers, np.int32(first))

        def run(kept: object = buffers) -> None:  # arguments do not keep them
            cl.enqueue_nd_range_kernel(queue, kernel, size, local)

        return run

    def wait(self) -> None:
        """See `Driver.wait`."""
        self._queue.finish()


class _Window:
    """See `Window`: a buffer over the very bytes, which devices with memory of their own copy when it is mapped."""

    def __init__(
        self, context: Any, queue: Any, host: np.ndarray, output: bool, unified: bool
    ) -> None:
        import pyopencl as cl

        access = cl.mem_flags.READ_WRITE if output else cl.mem_flags.READ_ONLY
        self.buffer = cl.Buffer(context, access | cl.mem_flags.USE_HOST_PTR, hostbuf=host)
        self._queue, self._size, self._unified = queue, host.nbytes, unified

    def arrive(self) -> int:
        import pyopencl as cl

        return 0 if self._unified else self._map(cl.map_flags.WRITE_INVALIDATE_REGION)

    def leave(self) -> int:
        import pyopencl as cl

        return self._map(cl.map_flags.READ)

    def _map(self, flags: Any) -> int:
        import pyopencl as cl

        mapped, _ = cl.enqueue_map_buffer(
            self._queue, self.buffer, flags, 0, (self._size,), np.uint8
        )
        mapped.base.release(self._queue)
        return 0 if self._unified else self._size
