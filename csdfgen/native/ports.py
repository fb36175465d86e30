"""How does native code move rows between the caller's arrays and memory? By one kernel a run.

The array of a frame is known when the frame starts: its address, strides and type are in a structure
that the kernels look at, so that arrays in any order and of any type are read and written where they lie.
"""

from __future__ import annotations

import ctypes

import numpy as np

from csdfgen.kernels.ports import placed
from csdfgen.kernels.steps import Call, Memory, Starts, View
from csdfgen.native.library import Library, Transfer
from csdfgen.native.library import Port as OpenPort
from csdfgen.native.strided import Native, address_of, copy_kernel, table_of

__all__ = ["NativePort"]


class NativePort:
    """A port of rows of a type."""

    def __init__(self, library: Library, dtype: str) -> None:
        self._library, self._dtype = library, np.dtype(dtype)
        self._port = OpenPort()
        self._array: np.ndarray | None = None

    def open(self, array: np.ndarray | None) -> None:
        """See `Port.open`."""
        self._port.base = None
        if array is not None and not (array.dtype.isnative and array.flags.aligned):
            array = np.array(array, array.dtype.newbyteorder("="))  # rare: bytes of a file
        self._array = array
        if array is not None:
            self._port.strides[: array.ndim] = array.strides
            kernel = copy_kernel(array.dtype, self._dtype)
            self._port.copy = self._library.address(kernel)
            self._port.base = address_of(array)

    def taken(self, starts: Starts, view: View, memory: Memory) -> list[Call]:
        """See `Port.taken`."""
        return self._moved(starts, view, memory, into=0)

    def given(self, starts: Starts, view: View, memory: Memory) -> list[Call]:
        """See `Port.given`."""
        return self._moved(starts, view, memory, into=1)

    def _moved(self, starts: Starts, view: View, memory: Memory, into: int) -> list[Call]:
        calls: list[Call] = []
        for at, array in placed(starts, view, memory):
            # the longest last: that is the loop that counts
            order = sorted(
                (axis for axis, size in enumerate(array.shape) if size > 1),
                key=lambda axis: (array.shape[axis], axis),
            )
            dims = table_of(tuple((array.shape[k], array.strides[k], 0, 0, 0) for k in order))
            axes = (ctypes.c_int32 * len(order))(*order)
            first = (ctypes.c_int32 * len(at))(*at)
            tables = [ctypes.addressof(one) for one in (dims, axes, first)]
            made = Transfer(
                ctypes.pointer(self._port),
                *tables,
                len(order),
                len(at),
                into,
                address_of(array),
            )
            kernel = Native("move", made, self._port, dims, axes, first, array)
            kernel.bound_to(self._library)
            calls.append((kernel, ()))
        return calls
