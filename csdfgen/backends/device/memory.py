"""Where are the pools of a program on a device? In one buffer, which is mapped where rows are read or written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from csdfgen.backends.device.driver import Driver
from csdfgen.backends.numpy.arrays import view_array
from csdfgen.program.steps import View

ALIGNMENT = 128
"""Bytes that pools start at a multiple of, as the largest vectors of OpenCL."""


class DeviceMemory:
    """Pools on a device, see `Storage`. driver: what runs on them follows an order of its own. starts: their first bytes in
    the buffer. copied: bytes that were copied between host and device, where these do not share memory.
    """

    def __init__(self, driver: Driver, pools: Mapping[str, int]) -> None:
        self.driver, self.starts = driver.apart(), dict[str, int]()
        self.size, self.copied = 0, 0
        for name, size in pools.items():
            self.starts[name] = self.size
            self.size += -(-size // ALIGNMENT) * ALIGNMENT
        self.buffer = driver.buffer(self.size, "memory of the plan,")

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
        low = min(view.rows, default=0)
        reach = [(n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)]
        high = max(view.rows, default=0) + sum(reach) + view.format.itemsize
        if not self.driver.device.unified:
            self.copied += (high - low) * (2 if writes else 1)
        moved = replace(view, rows=tuple(row - low for row in view.rows))
        start = self.starts[view.pool] + low
        with self.driver.mapped(self.buffer, start, high - low, writes) as mapped:
            yield view_array(moved, {view.pool: mapped})
