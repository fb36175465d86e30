"""How does a program follow the memory that is free? All plans of a table compiled into one range of addresses,
of which only what the plan at work takes is memory.

The range is reserved for the largest arena. Pages that nobody has touched take no memory, and those beyond a
smaller arena are given back when one follows a larger one; so that another budget costs neither planning nor
loading nor binding, but the touch of its pages.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np

from csdfgen.errors import InputError
from csdfgen.kernels.numpy_set import NUMPY
from csdfgen.kernels.steps import KernelSet
from csdfgen.planning.buffers import ARENA
from csdfgen.planning.plan_table import PlanTable
from runtime.executor import GUARD_BYTES, Executable

__all__ = ["TableProgram"]


class TableProgram:
    """A compiled table: call it with any number of images, and what memory there is.

    Programs share one arena, so that it runs one request at a time; threads wait for each other.
    """

    def __init__(self, table: PlanTable, threads: int = 1, kernels: KernelSet = NUMPY) -> None:
        self.table = table
        self._turn = threading.Lock()
        self._memory = kernels.allocate({ARENA: table.most_bytes + GUARD_BYTES}, shrinks=True)
        self._held = 0
        self._programs = tuple(
            Executable(entry.plan, (), threads, kernels, memory=self._memory)
            for entry in table.entries
        )

    @property
    def held_bytes(self) -> int:
        """Of the range, what may be memory now: up to the largest arena since the last that was smaller."""
        return self._held

    def __call__(
        self, x: np.ndarray | Mapping[str, np.ndarray], memory: int | None = None
    ) -> dict[str, np.ndarray]:
        """Outputs of all images: those of the rounds that are predicted to be the fastest in so many bytes.

        x: an array, or arrays by input name, with the images along axis 0. Raises InputError for arrays that do
        not fit; PlanError where no plan takes so little.
        """
        first = self._programs[0].plan.network
        feeds = x if isinstance(x, Mapping) else {first.inputs[0].name: x}
        counts = {len(array) for array in feeds.values() if getattr(array, "ndim", 0)}
        if len(counts) != 1:
            raise InputError(
                f"inputs have {sorted(counts) or 'no'} images; one number of images is needed"
            )
        images = counts.pop()
        with self._turn:
            rounds = self.table.rounds(images, memory)
            self._shrink(max(self.table.entries[at].plan.planned_bytes for at in rounds))
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

    def _shrink(self, needed: int) -> None:
        """Give back the pages beyond so many bytes."""
        self._memory.shrink(ARENA, needed + GUARD_BYTES)
        self._held = needed
