"""A third backend, to hold the seam to its word: its pools are in another process, where numpy cannot see them.

Programs travel as files; steps are computed there by numpy's instructions, which mean the same wherever the pools are.
Rows come and go as messages.
"""

from __future__ import annotations

import multiprocessing
import weakref
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from csdfgen.backends.numpy.arrays import HostMemory, allocate_pools
from csdfgen.backends.numpy.backend import NUMPY, NumpyKernels
from csdfgen.program.steps import Code, View
from tests.program_file import StoredProgram, read_program, write_program

__all__ = ["RemoteBackend"]


class _Server:
    """What the other process does: each request is a method and its arguments."""

    def __init__(self) -> None:
        self.memories: list[HostMemory] = []
        self.programs: list[Any] = []
        self.runs: list[Callable[[], None]] = []

    def allocate(self, pools: Mapping[str, int]) -> int:
        self.memories.append(allocate_pools(pools))
        return len(self.memories) - 1

    def read(self, memory: int, view: View) -> np.ndarray:
        return self.memories[memory].read(view)

    def write(self, memory: int, view: View, rows: np.ndarray) -> None:
        self.memories[memory].write(view, rows)

    def bind(self, program: bytes, memory: int) -> int:
        code = read_program(BytesIO(program))
        self.programs.append(NUMPY.bind(code, self.memories[memory], code.constants))
        return len(self.programs) - 1

    def prepare(self, program: int, numbers: Sequence[int]) -> int:
        self.runs.append(self.programs[program].prepared(numbers))
        return len(self.runs) - 1

    def run(
        self, program: int, run: int, ports: Mapping[int, tuple[np.ndarray, int]]
    ) -> Mapping[int, np.ndarray]:
        """ports: arrays of the caller's, with anything in those that are written, and the row that is the first of each; what
        is in them then.
        """
        for port, array in ports.items():
            self.programs[program].open(port, *array)
        with np.errstate(all="ignore"):
            self.runs[run]()
        for port in ports:
            self.programs[program].open(port, None)
        return {port: array for port, (array, _) in ports.items()}


def _serve(connection: Connection) -> None:
    server = _Server()
    while True:
        try:
            name, arguments = connection.recv()
            connection.send(getattr(server, name)(*arguments))
        except EOFError:
            return


class _Memory:
    """Pools in the other process, see `Storage`."""

    def __init__(self, ask: Callable[..., Any], pools: Mapping[str, int]) -> None:
        self._ask, self.number = ask, ask("allocate", dict(pools))

    def read(self, view: View) -> np.ndarray:
        found: np.ndarray = self._ask("read", self.number, view)
        return found

    def write(self, view: View, rows: np.ndarray) -> None:
        self._ask("write", self.number, view, rows)

    def lend(self, view: View) -> tuple[np.ndarray, Callable[[], bool]]:
        return self.read(view), lambda: False

    def shrink(self, pool: str, size: int) -> None:
        """Nothing is given back."""


class _Program:
    """A program in the other process, see `Bound`."""

    driven = None

    def __init__(self, ask: Callable[..., Any], program: Code, memory: _Memory) -> None:
        file = BytesIO()
        code = program.pools, program.instructions, program.constants, program.ports
        write_program(file, StoredProgram(*code, order=()))
        self._ask, self._number = ask, ask("bind", file.getvalue(), memory.number)
        self._ports: dict[int, tuple[np.ndarray, int]] = {}
        self._written = [port.output for port in program.ports]

    def open(self, port: int, array: np.ndarray | None, first: int = 0) -> None:
        if array is None:
            self._ports.pop(port, None)
        else:
            self._ports[port] = array, first

    def prepared(self, numbers: Sequence[int]) -> Callable[[], None]:
        number = self._ask("prepare", self._number, list(numbers))

        def run() -> None:
            found = self._ask("run", self._number, number, self._ports)
            for port, (array, _) in self._ports.items():
                if self._written[port]:
                    np.copyto(array, found[port])

        return run

    def wait(self) -> None:
        """Each answer is that of what has ended."""

    def mark(self) -> None:
        """The host has the clock."""


class RemoteBackend(NumpyKernels):
    """Numpy in another process, which ends with this value."""

    name = "remote"

    def __init__(self) -> None:
        super().__init__()
        context = multiprocessing.get_context("spawn")
        self._connection, there = context.Pipe()
        process = context.Process(target=_serve, args=(there,), daemon=True)
        process.start()
        there.close()
        weakref.finalize(self, process.terminate)

    def _ask(self, name: str, *arguments: object) -> Any:
        self._connection.send((name, arguments))
        return self._connection.recv()

    def allocate(self, pools: Mapping[str, int], *, shrinks: bool = False) -> _Memory:  # type: ignore[override]
        return _Memory(self._ask, pools)

    def bind(self, program: Code, memory: _Memory, constants: Any) -> _Program:  # type: ignore[override]
        return _Program(self._ask, program, memory)
