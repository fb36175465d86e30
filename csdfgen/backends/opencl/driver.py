"""How does OpenCL drive a device? A queue that keeps the order; buffers are mapped where the host looks at them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from math import prod
from typing import Any

import numpy as np

from csdfgen.backends.device.build import Builder, BuildError
from csdfgen.backends.device.driver import Local, Size
from csdfgen.backends.device.shapes import Blocks
from csdfgen.backends.device.sources import function_name
from csdfgen.backends.device.work import Units
from csdfgen.backends.opencl.devices import Device
from csdfgen.errors import ToolError, first_line, option

OPTIONS = ("-cl-std=CL1.2",)

_NO_MEMORY = (-4, -5, -6)
"""MEM_OBJECT_ALLOCATION_FAILURE, OUT_OF_RESOURCES, OUT_OF_HOST_MEMORY."""


class OpenCL:
    """A device of OpenCL, see `Driver`."""

    name = "opencl"

    def __init__(self, device: Device) -> None:
        import pyopencl as cl

        self.device, self.blocks = device, Blocks.of(device.kind, device.lanes)
        self.units = Units.of(device.kind, device.units, device.clock, device.lanes, device.group)
        self.dots = "cl_khr_integer_dot_product" in device.extensions
        with self._refusals("its context"):
            self._context = cl.Context([device.handle])
            self._queue = cl.CommandQueue(self._context)
        self._timed, self._spare = False, dict[int, list[Any]]()
        known = device.name, device.platform, device.version, device.driver, *OPTIONS
        self._builder = Builder(
            self.name, device.name, known, self.blocks, self._compiled, self._loaded
        )

    @property
    def building(self) -> float:
        """See `Driver.building`."""
        return self._builder.seconds

    def apart(self) -> OpenCL:
        """See `Driver.apart`: another queue, whose commands are not timed yet."""
        import pyopencl as cl

        found = copy(self)
        with self._refusals("a queue"):
            found._queue, found._timed = cl.CommandQueue(self._context), False
        found._spare = {}
        return found

    @contextmanager
    def _refusals(self, what: str) -> Iterator[None]:
        """Errors of OpenCL meanwhile, as ToolError. what: was wanted."""
        import pyopencl as cl

        try:
            yield
        except cl.Error as error:
            raise self._refusal(error, what) from None

    def _refusal(self, error: Any, what: str) -> ToolError:
        device, said = self.device, first_line(error)
        if error.code in _NO_MEMORY:
            return ToolError(
                f"{what}: {device.name} has {device.memory:,} bytes in all and cannot give as many now ({said}); "
                f"{option('memory')} or {option('rows', 1)} make a smaller plan"
            )
        return ToolError(
            f"{what}: {device.name} is lost or refuses ({said}); start again, or take another device with "
            f"{option('cl_device')}, see csdfgen devices --opencl"
        )

    def _compiled(self, text: str) -> tuple[Any, bytes]:
        import pyopencl as cl

        try:
            made = self._built(cl.Program(self._context, text))
        except BuildError as error:
            if "unknown target CPU" not in str(error):
                raise
            # PoCL asks LLVM for the processor, and hands on 'generic', which LLVM refuses (github.com/pocl/pocl/issues/1049)
            raise ToolError(
                f"{self.device.name}: the compiler of this {self.device.platform} is older than the processor, and does not "
                f"know it; take {option('backend', 'native')}, another device ({option('cl_device')}), or a newer PoCL (apt "
                "install pocl-opencl-icd, with OCL_ICD_VENDORS=/etc/OpenCL/vendors)"
            ) from None
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
            smaller = f"{option('memory')} or {option('rows', 1)} make a smaller plan"
            if constant:
                smaller = "csdfgen quantize makes weights smaller"
            raise ToolError(
                f"{what} of {size:,} bytes: {device.name} has at most {device.largest:,} in one allocation; {smaller}"
            )
        with self._refusals(f"{what} of {size:,} bytes"):
            return cl.Buffer(self._context, flags, size)

    def uploaded(self, values: np.ndarray) -> Any:
        """See `Driver.uploaded`."""
        import pyopencl as cl

        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        with self._refusals(f"tables of {values.nbytes:,} bytes"):
            return cl.Buffer(self._context, flags, hostbuf=values)

    def store(self, buffer: Any, start: int, values: np.ndarray) -> None:
        """See `Driver.store`."""
        import pyopencl as cl

        with self._refusals(f"{values.nbytes:,} bytes of weights"):
            cl.enqueue_copy(self._queue, buffer, values, dst_offset=start, is_blocking=True)

    @contextmanager
    def mapped(self, buffer: Any, start: int, size: int, writes: bool) -> Iterator[np.ndarray]:
        """See `Driver.mapped`."""
        import pyopencl as cl

        flags = cl.map_flags.READ | (cl.map_flags.WRITE if writes else 0)
        with self._refusals(f"{size:,} bytes of memory"):
            mapped, _ = cl.enqueue_map_buffer(self._queue, buffer, flags, start, (size,), np.uint8)
        try:
            yield mapped
        finally:
            mapped.base.release(self._queue)

    def window(self, host: np.ndarray, output: bool) -> _Shared | _Copied:
        """See `Driver.window`."""
        return _Shared(self, host, output) if self.device.unified else _Copied(self, host)

    def kernel(self, name: str) -> Any:
        """See `Driver.kernel`."""
        import pyopencl as cl

        return cl.Kernel(self._builder.program(name), function_name(name))

    def group(self, kernel: Any) -> int:
        """See `Driver.group`."""
        import pyopencl as cl

        about = cl.kernel_work_group_info.WORK_GROUP_SIZE
        return int(kernel.get_work_group_info(about, self.device.handle))

    def launch(
        self, kernel: Any, size: Size, local: Local, buffers: Sequence[Any], first: int
    ) -> Callable[[], None]:
        """See `Driver.launch`."""
        import pyopencl as cl

        what, fitting = f"kernel {kernel.function_name}", self._group(kernel, local)
        kernel.set_args(*buffers, np.int32(first))

        def run(kept: object = buffers) -> None:  # arguments do not keep them
            try:
                cl.enqueue_nd_range_kernel(self._queue, kernel, size, fitting)
            except cl.Error as error:
                raise self._refusal(error, what) from None

        return run

    def recorded(
        self, starts: Sequence[Callable[[], None]], behind: Callable[[], list[list[int]]]
    ) -> Callable[[], None]:
        """See `Driver.recorded`: as they are; docs/decisions/0054-no-command-buffers.md says why."""

        def run() -> None:
            for start in starts:
                start()

        return run

    def _group(self, kernel: Any, local: Local) -> Local:
        """As many items of a group as a device can compute of a kernel. Raises ToolError for too little local memory."""
        import pyopencl as cl

        device, about = self.device, cl.kernel_work_group_info
        shared = kernel.get_work_group_info(about.LOCAL_MEM_SIZE, device.handle)
        if shared > device.local:
            raise ToolError(
                f"kernel {kernel.function_name} needs {shared:,} bytes of local memory, {device.name} has {device.local:,}; "
                f"{option('cl_device')} takes another device, see csdfgen devices --opencl"
            )
        most, found = kernel.get_work_group_info(about.WORK_GROUP_SIZE, device.handle), list(local)
        while prod(found) > most:
            found[found.index(max(found))] //= 2  # sizes remain multiples
        return found[0], found[1], found[2]

    def wait(self) -> None:
        """See `Driver.wait`."""
        with self._refusals("a frame"):
            self._queue.finish()

    def mark(self) -> Callable[[], int]:
        """See `Driver.mark`: commands are timed from the first mark on."""
        import pyopencl as cl

        if not self._timed:
            self.wait()
            timed = cl.command_queue_properties.PROFILING_ENABLE
            self._queue, self._timed = cl.CommandQueue(self._context, properties=timed), True
        event = cl.enqueue_marker(self._queue)
        return lambda: int(event.profile.end)


class _Shared:
    """See `Window`: a buffer over the very bytes."""

    def __init__(self, driver: OpenCL, host: np.ndarray, output: bool) -> None:
        import pyopencl as cl

        access = cl.mem_flags.READ_WRITE if output else cl.mem_flags.READ_ONLY
        flags, self._driver, self._size = access | cl.mem_flags.USE_HOST_PTR, driver, host.nbytes
        with driver._refusals(f"an array of {host.nbytes:,} bytes"):
            self.buffer = cl.Buffer(driver._context, flags, hostbuf=host)

    def arrive(self) -> int:
        return 0

    def leave(self) -> int:
        with self._driver.mapped(self.buffer, 0, self._size, False):
            return 0


class _Copied:
    """See `Window`: a buffer on the device, to and from which commands of the queue copy while the host goes on."""

    def __init__(self, driver: OpenCL, host: np.ndarray) -> None:
        self._driver, self._host, self._copying = driver, host, None
        spare = driver._spare.setdefault(host.nbytes, [])
        self.buffer = spare.pop() if spare else driver.buffer(host.nbytes, "an array of a frame,")

    def __del__(self) -> None:
        self._driver._spare[self._host.nbytes].append(self.buffer)  # for the next frame

    def arrive(self) -> int:
        return self._copy(self.buffer, self._host)

    def leave(self) -> int:
        return self._copy(self._host, self.buffer)

    def _copy(self, target: Any, source: Any) -> int:
        import pyopencl as cl

        queue, size = self._driver._queue, self._host.nbytes
        with self._driver._refusals(f"a copy of {size:,} bytes"):
            # who drops what this gives waits for it
            self._copying = cl.enqueue_copy(queue, target, source, is_blocking=False)
        return size
