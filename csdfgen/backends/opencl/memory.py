"""Where are the pools of a program on a device? In one buffer, which is mapped where rows are read or written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from csdfgen.backends.numpy.arrays import array_of
from csdfgen.backends.opencl.devices import Device
from csdfgen.errors import ToolError
from csdfgen.program.steps import View

__all__ = ["ALIGNMENT", "DeviceMemory", "buffer"]

ALIGNMENT = 128
"""Bytes that pools start at a multiple of, as the largest vectors of OpenCL."""


def buffer(device: Device, context: Any, size: int, flags: Any, what: str) -> Any:
    """A buffer of a device. Raises ToolError where it has not as much memory, with the numbers."""
    import pyopencl as cl

    size = max(1, size)
    if size > device.largest:
        raise ToolError(
            f"{what} of {size:,} bytes: {device.name} has at most {device.largest:,} in one allocation; "
            "--memory or --rows 1 make a smaller plan"
        )
    try:
        return cl.Buffer(context, flags, size)
    except cl.Error as error:
        raise ToolError(
            f"{what} of {size:,} bytes: {device.name} has {device.memory:,} in all and cannot give as many now ({error})"
        ) from None


class DeviceMemory:
    """Pools on a device, see `Storage`. starts: their first bytes in the buffer. copied: bytes that were copied between
    host and device, where these do not share memory.
    """

    def __init__(self, device: Device, context: Any, queue: Any, pools: Mapping[str, int]) -> None:
        import pyopencl as cl

        self._device, self._queue, self.starts = device, queue, dict[str, int]()
        self.size, self.copied = 0, 0
        for name, size in pools.items():
            self.starts[name] = self.size
            self.size += -(-size // ALIGNMENT) * ALIGNMENT
        flags = cl.mem_flags.READ_WRITE
        if device.unified:
            flags |= cl.mem_flags.ALLOC_HOST_PTR
        self.buffer = buffer(device, context, self.size, flags, "memory of the plan,")

    def read(self, view: View) -> np.ndarray:
        """See `Storage.read`: a copy."""
        with self._rows(view, writes=False) as rows:
            return rows.copy()

    def write(self, view: View, rows: np.ndarray) -> None:
        """See `Storage.write`."""
        with self._rows(view, writes=True) as there:
            np.copyto(there, rows)

    def lend(self, view: View) -> tuple[np.ndarray, Callable[[], bool]]:
        """See `Storage.lend`: nobody looks at memory."""
        return self.read(view), lambda: False

    def shrink(self, pool: str, size: int) -> None:
        """See `Storage.shrink`: what a device gave stays."""

    @contextmanager
    def _rows(self, view: View, writes: bool) -> Iterator[np.ndarray]:
        """Rows in memory that is mapped meanwhile, behind all that was started."""
        import pyopencl as cl

        low = min(view.rows, default=0)
        reach = [(n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)]
        high = max(view.rows, default=0) + sum(reach) + view.format.itemsize
        flags = cl.map_flags.READ | (cl.map_flags.WRITE if writes else 0)
        begin = self.starts[view.pool] + low
        mapped, _ = cl.enqueue_map_buffer(
            self._queue, self.buffer, flags, begin, (high - low,), np.uint8
        )
        if not self._device.unified:
            self.copied += (high - low) * (2 if writes else 1)
        try:
            moved = replace(view, rows=tuple(row - low for row in view.rows))
            yield array_of(moved, {view.pool: mapped})
        finally:
            mapped.base.release(self._queue)
