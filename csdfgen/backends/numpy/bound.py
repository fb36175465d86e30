"""How does numpy run a program? Prepared calls over arrays, and copies between the caller's arrays and memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from csdfgen.backends.numpy.arrays import HostMemory, placed
from csdfgen.backends.numpy.calls import array_at, called
from csdfgen.backends.numpy.settings import BLAS, call_all
from csdfgen.program.instructions import Array, Constants, Instruction
from csdfgen.program.steps import Call, Code, Move

__all__ = ["NumpyBound", "moves"]

_TAKE, _GIVE = "port.take", "port.give"


def moves(move: Move) -> list[Instruction]:
    """Copies of rows, run by run of every piece."""
    kernel = _GIVE if move.output else _TAKE
    dtype = move.view.format.dtype
    return [
        Instruction(kernel, (move.port, at, Array(shape, strides, dtype)), (place,))
        for at, place, shape, strides in placed(move.starts, move.view)
    ]


class NumpyBound:
    """A program in arrays of this process, see `Bound`. threads: of BLAS libraries while it runs."""

    def __init__(
        self, program: Code, memory: HostMemory, constants: Constants, threads: int = 1
    ) -> None:
        self._threads, self._forms = threads, program.ports
        self._ports: list[np.ndarray | None] = [None] * len(program.ports)
        BLAS.join(self)
        self._calls: list[Call] = [
            self._moved(one, memory, constants)
            if one.kernel in (_TAKE, _GIVE)
            else called(one, memory, constants)
            for one in program.instructions
        ]

    def open(self, port: int, array: np.ndarray | None) -> None:
        """See `Bound.open`."""
        self._ports[port] = None if array is None else self._forms[port].stored(array)

    def prepared(self, numbers: Sequence[int]) -> Callable[[], None]:
        """See `Bound.prepared`."""
        return partial(call_all, [self._calls[number] for number in numbers], self._threads)

    def wait(self) -> None:
        """See `Bound.wait`: what was started has ended."""

    def _moved(self, made: Instruction, memory: HostMemory, constants: Constants) -> Call:
        port, starts, array = made.fields
        rows = array_at(array, made.refs[0], memory, constants)
        part = tuple(
            slice(start, start + size) for start, size in zip(starts, rows.shape, strict=True)
        )
        return (self._take if made.kernel == _TAKE else self._give), (port, rows, part)

    def _take(self, port: int, target: np.ndarray, part: tuple[slice, ...]) -> None:
        array = self._ports[port]
        if array is not None:
            np.copyto(target, array[part], "same_kind")

    def _give(self, port: int, source: np.ndarray, part: tuple[slice, ...]) -> None:
        array = self._ports[port]
        if array is not None:
            np.copyto(array[part], source)
