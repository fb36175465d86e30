"""How does a program adapt to the memory that is free? All plans of a table are compiled into one range of addresses, of
which only the part that the current plan uses occupies memory.

The range is reserved for the largest arena. Pages that have not been touched occupy no memory, and the pages beyond a
smaller arena are returned to the system when it follows a larger one. A change of the budget therefore needs no planning,
loading or binding; its only cost is that pages are touched for the first time.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from csdfgen.backends.registry import choose_backend
from csdfgen.errors import InputError
from csdfgen.model.describe import format_repr, mebibytes
from csdfgen.model.units import parse_size
from csdfgen.planning.buffers import ARENA
from csdfgen.planning.plan_table import PlanTable
from csdfgen.program.steps import Backend
from runtime.bound import add_guards
from runtime.session import Executable, Turn


class TableProgram:
    """A compiled table: call it with any number of images, and the memory that is available.

    All programs share one arena, and one request is executed at a time; other threads wait.
    """

    def __init__(self, table: PlanTable, threads: int = 1, kernels: Backend | None = None) -> None:
        self.table = table
        self._turn = Turn()
        kernels = kernels or choose_backend(table.entries[0].plan.options)
        self._memory = kernels.allocate(add_guards({ARENA: table.most_bytes}), shrinks=True)
        self._held = 0
        kernels = kernels.shared(threads)
        self._programs = tuple(
            Executable(entry.plan, (), threads, kernels, memory=self._memory)
            for entry in table.entries
        )

    def __repr__(self) -> str:
        name = self.table.entries[0].plan.network.name
        return format_repr(
            "TableProgram", name, **self.table.facts, held=mebibytes(self.held_bytes)
        )

    @property
    def held_bytes(self) -> int:
        """Bytes of the range that may occupy memory now."""
        return self._held

    def __call__(
        self, x: np.ndarray | Mapping[str, np.ndarray], memory: int | str | None = None
    ) -> dict[str, np.ndarray]:
        """Outputs of all images, computed in the rounds that are predicted to be the fastest within `memory`.

        x: an array, or arrays by input name, with the images along axis 0. memory: bytes, or a text such as "512KB" or
        "512KiB"; unlimited by default. Raises InputError for arrays that do not fit or an invalid size, PlanError if no
        plan is small enough.
        """
        limit = None if memory is None else parse_size(memory)
        first = self._programs[0].plan.network
        feeds = x if isinstance(x, Mapping) else {first.inputs[0].name: x}
        feeds = {name: np.asarray(array) for name, array in feeds.items()}
        counts = {len(array) for array in feeds.values() if array.ndim}
        if len(counts) != 1:
            raise InputError(
                f"inputs have {sorted(counts) or 'no'} images; one number of images is needed"
            )
        images = counts.pop()
        with self._turn:
            rounds = self.table.rounds(images, limit)
            self._held = max(self.table.entries[at].plan.planned_bytes for at in rounds)
            self._memory.shrink(ARENA, add_guards({ARENA: self._held})[ARENA])
            outputs: dict[str, np.ndarray] = {}
            start = 0
            for at in rounds:
                program, size = self._programs[at], self.table.entries[at].images
                found = program(
                    {name: array[start : start + size] for name, array in feeds.items()}
                )
                for name, array in found.items():
                    if images == size:
                        outputs[name] = array
                        continue
                    if name not in outputs:
                        outputs[name] = np.empty((images, *array.shape[1:]), array.dtype)
                    outputs[name][start : start + size] = array
                start += size
        return outputs
