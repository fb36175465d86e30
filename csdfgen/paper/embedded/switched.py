"""A device of OpenCL without one of the techniques of paper 004: buffers that are shared, or a queue that runs on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from csdfgen.backends.device.backend import DeviceKernels
from csdfgen.backends.device.driver import Local, Size
from csdfgen.backends.opencl.devices import choose_device
from csdfgen.backends.opencl.driver import OpenCL
from csdfgen.program.steps import Backend


def switch_off(*, sharing: bool = False, running_on: bool = False) -> Backend:
    """The backend `opencl` with inputs and outputs that are copied, or a wait after each launch. Raises ToolError where there
    is no device.
    """
    return DeviceKernels(_Switched(sharing, running_on), "OpenCL")


class _Switched(OpenCL):
    """sharing, running_on: that are off."""

    def __init__(self, sharing: bool, running_on: bool) -> None:
        super().__init__(choose_device())
        self._sharing, self._running_on = sharing, running_on

    def window(self, host: np.ndarray, output: bool) -> Any:
        """See `Driver.window`."""
        if not self._sharing:
            return super().window(host, output)
        return _Copied(self.buffer(host.nbytes, "copy of an array,"), self._queue, host)

    def launch(
        self, kernel: Any, size: Size, local: Local, buffers: Sequence[Any], first: int
    ) -> Callable[[], None]:
        """See `Driver.launch`."""
        start = super().launch(kernel, size, local, buffers, first)
        if not self._running_on:
            return start

        def run() -> None:
            start()
            self.wait()

        return run


class _Copied:
    """See `Window`: a buffer of its own."""

    def __init__(self, buffer: Any, queue: Any, host: np.ndarray) -> None:
        self.buffer, self._queue, self._host = buffer, queue, host

    def arrive(self) -> int:
        return self._copy(self.buffer, self._host)

    def leave(self) -> int:
        return self._copy(self._host, self.buffer)

    def _copy(self, to: Any, source: Any) -> int:
        import pyopencl as cl

        cl.enqueue_copy(self._queue, to, source, is_blocking=True)
        return self._host.nbytes
