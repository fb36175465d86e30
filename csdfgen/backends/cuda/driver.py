"""How does CUDA drive a device? Everything is in its default stream, which keeps the order; NVRTC compiles kernels.

Where the device computes in the memory of the host (Jetson), pools are managed memory, which the host looks at in place, and
arrays of the caller's are registered; else, and where a device cannot do that, their bytes are copied.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from csdfgen.backends.cuda.devices import CudaError, Device, bindings, find_device, unwrap_result
from csdfgen.backends.device.build import Builder, BuildError
from csdfgen.backends.device.driver import Local, Size
from csdfgen.backends.device.shapes import Blocks
from csdfgen.backends.device.sources import function_name
from csdfgen.backends.device.work import Units
from csdfgen.errors import ToolError

OPTIONS = ("-diag-suppress=177", "--fmad=false")  # unused functions; products are added as written

DOTS = 61
"""Compute capability that has dot products of bytes."""

RECORDS = 65_535
"""Of a launch: the largest second axis of a grid."""


def compile_kernel(text: str, capability: int) -> bytes:
    """The binary of a kernel for a compute capability, or its PTX where NVRTC knows none but lower ones, which the driver
    compiles for its device. Raises BuildError with the log, ToolError where there is no NVRTC.
    """
    nvrtc = bindings("nvrtc")
    try:
        known = unwrap_result(nvrtc.nvrtcGetSupportedArchs())
    except RuntimeError as error:  # what cuda-bindings raise where there is no library
        raise ToolError(f"CUDA needs NVRTC ({error}): pip install 'csdfgen[cuda]'") from None
    kind, most = "sm", capability
    if capability not in known:
        kind, most = "compute", max((one for one in known if one < capability), default=0)
    if not most:
        raise BuildError(
            f"error: NVRTC compiles for {min(known)} and above, the device has {capability}"
        )
    options = [one.encode() for one in (f"--gpu-architecture={kind}_{most}", *OPTIONS)]
    program = unwrap_result(nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], []))
    try:
        unwrap_result(nvrtc.nvrtcCompileProgram(program, len(options), options))
        size, take = (
            (nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
            if kind == "sm"
            else (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
        )
        content = bytearray(unwrap_result(size(program)))
        unwrap_result(take(program, content))
    except CudaError as error:
        log = bytearray(unwrap_result(nvrtc.nvrtcGetProgramLogSize(program)))
        unwrap_result(nvrtc.nvrtcGetProgramLog(program, log))
        raise BuildError(log.decode(errors="replace").strip("\0") or str(error)) from None
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return bytes(content)


class _Buffer:
    """Memory of a device, freed with the last who knows it. at: its address."""

    def __init__(self, at: Any, free: Callable[[Any], object]) -> None:
        self.at = int(at)
        weakref.finalize(self, free, at)


class Cuda:
    """A device of CUDA, see `Driver`."""

    name = "cuda"

    def __init__(self) -> None:
        self.device: Device = find_device()
        self.blocks = Blocks.of("GPU", 1)
        self._cu, self._current = bindings("driver"), threading.local()
        self._first: _Buffer | None = None
        self._context = unwrap_result(self._cu.cuDevicePrimaryCtxRetain(self.device.handle))
        device = self.device
        self.dots = device.capability >= DOTS
        self.units = Units.of("GPU", device.units, device.clock, 1, device.group)
        known = device.name, device.version, device.driver, *OPTIONS
        self._builder = Builder(
            self.name, device.name, known, self.blocks, self._compiled, self._loaded
        )

    @property
    def building(self) -> float:
        """See `Driver.building`."""
        return self._builder.seconds

    def apart(self) -> Cuda:
        """See `Driver.apart`: all share the default stream."""
        return self

    def _enter(self) -> None:
        """Let calls of this thread be about the device."""
        if not hasattr(self._current, "context"):
            unwrap_result(self._cu.cuCtxSetCurrent(self._context))
            self._current.context = self._context

    def _freed(self, at: Any, free: Callable[[Any], object] | None = None) -> None:
        self._enter()
        (free or self._cu.cuMemFree)(at)

    def _compiled(self, text: str) -> tuple[Any, bytes]:
        content = compile_kernel(text, self.device.capability)
        return self._loaded(content), content

    def _loaded(self, binary: bytes) -> Any:
        self._enter()
        try:
            return unwrap_result(self._cu.cuModuleLoadData(binary))
        except CudaError as error:
            raise BuildError(f"error: {error}") from None

    def buffer(self, size: int, what: str, *, constant: bool = False) -> _Buffer:
        """See `Driver.buffer`."""
        self._enter()
        size, device, cu = max(1, size), self.device, self._cu
        try:
            if device.unified and not constant:
                flags = cu.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL
                return _Buffer(unwrap_result(cu.cuMemAllocManaged(size, flags)), self._freed)
            return _Buffer(unwrap_result(cu.cuMemAlloc(size)), self._freed)
        except CudaError as error:
            raise ToolError(
                f"{what} of {size:,} bytes: {device.name} has {device.memory:,} in all and cannot give as many now ({error}); "
                "--memory or --rows 1 make a smaller plan"
            ) from None

    def uploaded(self, values: np.ndarray) -> _Buffer:
        """See `Driver.uploaded`."""
        made = self.buffer(values.nbytes, "tables", constant=True)
        self.store(made, 0, values)
        return made

    def store(self, buffer: _Buffer, start: int, values: np.ndarray) -> None:
        """See `Driver.store`."""
        self._enter()
        values = np.ascontiguousarray(values)
        unwrap_result(self._cu.cuMemcpyHtoD(buffer.at + start, values.ctypes.data, values.nbytes))

    def fetch(self, buffer: _Buffer, start: int, values: np.ndarray) -> None:
        """Take bytes out of a buffer, behind all that was started."""
        self._enter()
        unwrap_result(self._cu.cuMemcpyDtoH(values.ctypes.data, buffer.at + start, values.nbytes))

    @contextmanager
    def mapped(self, buffer: _Buffer, start: int, size: int, writes: bool) -> Iterator[np.ndarray]:
        """See `Driver.mapped`."""
        if self.device.unified:
            self.wait()
            there: Any = (ctypes.c_uint8 * size).from_address(buffer.at + start)
            yield np.frombuffer(there, np.uint8)
            return
        host = np.empty(size, np.uint8)
        self.fetch(buffer, start, host)
        yield host
        if writes:
            self.store(buffer, start, host)

    def window(self, host: np.ndarray, output: bool) -> _Copied | _Registered:
        """See `Driver.window`."""
        self._enter()
        cu, address = self._cu, host.ctypes.data
        if self.device.registers:
            try:
                unwrap_result(
                    cu.cuMemHostRegister(address, host.nbytes, cu.CU_MEMHOSTREGISTER_DEVICEMAP)
                )
                at = unwrap_result(cu.cuMemHostGetDevicePointer(address, 0))
                return _Registered(
                    _Buffer(at, lambda _: self._freed(address, cu.cuMemHostUnregister))
                )
            except CudaError:  # as where it shares a page with another one
                pass
        return _Copied(self, host)

    def kernel(self, name: str) -> Any:
        """See `Driver.kernel`."""
        module = self._builder.program(name)
        self._enter()
        return unwrap_result(self._cu.cuModuleGetFunction(module, function_name(name).encode()))

    def group(self, kernel: Any) -> int:
        """See `Driver.group`."""
        self._enter()
        about = self._cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
        return int(unwrap_result(self._cu.cuFuncGetAttribute(about, kernel)))

    def launch(
        self, kernel: Any, size: Size, local: Local, buffers: Sequence[_Buffer], first: int
    ) -> _Start:
        """See `Driver.launch`. The blocks of the first two axes are one axis of the grid, records the other one."""
        columns, rows, records = (n // m for n, m in zip(size, local, strict=True))
        calls, kept = [], list[np.ndarray]()
        for begin in range(0, records, RECORDS):
            numbers = np.array([buffer.at for buffer in buffers], np.uint64)
            others = np.array([first + begin, columns], np.int32)
            each: Sequence[np.ndarray] = (
                *(numbers[k:] for k in range(len(numbers))),
                others,
                others[1:],
            )
            places = np.array([one.ctypes.data for one in each], np.uint64)
            grid = columns * rows, min(RECORDS, records - begin), 1
            calls.append((kernel, *grid, *local, 0, 0, places.ctypes.data, 0))
            kept += [numbers, others, places]
        return _Start(self, calls, (buffers, kept))

    def recorded(
        self, starts: Sequence[Any], behind: Callable[[], list[list[int]]]
    ) -> Callable[[], None]:
        """See `Driver.recorded`: a graph, of kernels each of which waits for those that it has to wait for."""
        self._enter()
        cu = self._cu
        if len(starts) == 1:
            (start,) = starts
            return start
        graph, nodes = unwrap_result(cu.cuGraphCreate(0)), list[list[Any]]()
        for start, waits in zip(starts, behind(), strict=True):
            before = [node for one in waits for node in nodes[one]]
            nodes.append([self._node(graph, before, call) for call in start.calls])
        made = _Buffer(
            unwrap_result(cu.cuGraphInstantiate(graph, 0)),
            lambda at: self._freed(at, cu.cuGraphExecDestroy),
        )
        unwrap_result(cu.cuGraphDestroy(graph))

        def run(held: object = starts) -> None:
            self._enter()
            unwrap_result(cu.cuGraphLaunch(made.at, 0))

        return run

    def _node(self, graph: Any, before: list[Any], call: tuple[Any, ...]) -> Any:
        """A call of a kernel in a graph, behind nodes."""
        kernel, *sizes, _, _, places, _ = call
        node = self._cu.CUDA_KERNEL_NODE_PARAMS()
        node.func, node.kernelParams = kernel, places
        node.gridDimX, node.gridDimY, node.gridDimZ, *block = sizes
        node.blockDimX, node.blockDimY, node.blockDimZ = block
        return unwrap_result(self._cu.cuGraphAddKernelNode(graph, before, len(before), node))

    def wait(self) -> None:
        """See `Driver.wait`."""
        self._enter()
        unwrap_result(self._cu.cuCtxSynchronize())

    def mark(self) -> Callable[[], int]:
        """See `Driver.mark`: nanoseconds from the first mark of this device on."""
        self._enter()
        cu = self._cu
        event = _Buffer(unwrap_result(cu.cuEventCreate(0)), self._destroyed)
        unwrap_result(cu.cuEventRecord(event.at, 0))
        first = self._first = self._first or event
        return lambda: int(1e6 * unwrap_result(cu.cuEventElapsedTime(first.at, event.at)))

    def _destroyed(self, event: Any) -> None:
        self._enter()
        self._cu.cuEventDestroy(event)


class _Start:
    """Starts a kernel. calls: arguments of cuLaunchKernel; kept: what these point at."""

    def __init__(self, driver: Cuda, calls: Sequence[tuple[Any, ...]], kept: object) -> None:
        self._driver, self.calls, self._kept = driver, calls, kept

    def __call__(self) -> None:
        self._driver._enter()
        for call in self.calls:
            unwrap_result(self._driver._cu.cuLaunchKernel(*call))


class _Copied:
    """See `Window`: a buffer of its own."""

    def __init__(self, driver: Cuda, host: np.ndarray) -> None:
        self._driver, self._host = driver, host
        self.buffer = driver.buffer(host.nbytes, "an array of a frame,", constant=True)

    def arrive(self) -> int:
        self._driver.store(self.buffer, 0, self._host)
        return self._host.nbytes

    def leave(self) -> int:
        self._driver.fetch(self.buffer, 0, self._host)
        return self._host.nbytes


class _Registered:
    """See `Window`: the very bytes, which are registered as long as it is there."""

    def __init__(self, buffer: _Buffer) -> None:
        self.buffer = buffer

    def arrive(self) -> int:
        return 0

    def leave(self) -> int:
        return 0
