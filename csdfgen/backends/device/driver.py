"""What does a driver of devices do? Buffers, kernels, launches in their order; OpenCL and CUDA share all else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from csdfgen.backends.device.shapes import Blocks
from csdfgen.backends.device.work import Units

Size = tuple[int, int, int]
"""Work items along three axes, multiples of those of a group."""

Local = tuple[int, int, int]
"""Work items of a group."""


class Device(Protocol):
    """What is known about a device. unified: whether it computes in the memory of the host."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def driver(self) -> str: ...

    @property
    def unified(self) -> bool: ...


class Window(Protocol):
    """An array of the caller's on a device. buffer: what a kernel takes."""

    @property
    def buffer(self) -> Any: ...

    def arrive(self) -> int:
        """Let kernels see what the host has written; returns how many bytes were copied."""

    def leave(self) -> int:
        """Let the host see what kernels have written, behind all that was started; returns how many bytes were copied."""


class Driver(Protocol):
    """A device that computes, in the order in which launches are started. blocks: what the items of its kernels compute.
    units: that compute. dots: whether four products of bytes are one instruction. building: seconds in which it has built
    kernels, or loaded their binaries.
    """

    @property
    def name(self) -> str:
        """The backend's."""

    @property
    def device(self) -> Device: ...

    @property
    def blocks(self) -> Blocks: ...

    @property
    def units(self) -> Units: ...

    @property
    def dots(self) -> bool: ...

    @property
    def building(self) -> float: ...

    def apart(self) -> Driver:
        """The same device with an order of its own: nothing that it starts waits for what others start."""

    def buffer(self, size: int, what: str, *, constant: bool = False) -> Any:
        """A buffer; constant: which kernels only read. Raises ToolError where there is not as much memory."""

    def uploaded(self, values: np.ndarray) -> Any:
        """A buffer with these bytes, which kernels only read."""

    def store(self, buffer: Any, start: int, values: np.ndarray) -> None:
        """Put bytes into a buffer."""

    def mapped(
        self, buffer: Any, start: int, size: int, writes: bool
    ) -> AbstractContextManager[np.ndarray]:
        """Bytes of a buffer, behind all that was started; what is written there is in the buffer afterwards."""

    def window(self, host: np.ndarray, output: bool) -> Window:
        """The bytes of an array of the caller's."""

    def kernel(self, name: str) -> Any:
        """A kernel. Raises ToolError for one that does not build."""

    def group(self, kernel: Any) -> int:
        """Items of a group that the device can compute of a kernel, at most."""

    def launch(
        self, kernel: Any, size: Size, local: Local, buffers: Sequence[Any], first: int
    ) -> Callable[[], None]:
        """What starts a kernel on its arguments (text/dialect.h): memory, weights, tables, records; first: of the records."""

    def recorded(
        self, starts: Sequence[Callable[[], None]], behind: Callable[[], list[list[int]]]
    ) -> Callable[[], None]:
        """What starts launches that `launch` made, one after the other, or each behind those before it that it waits for."""

    def wait(self) -> None:
        """Return when all that was started has ended."""

    def mark(self) -> Callable[[], int] | None:
        """See `Bound.mark`."""
