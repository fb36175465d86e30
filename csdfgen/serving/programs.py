"""A service in memory: the programs of all stages and batches of a worker, in one arena.

A program's inputs and outputs are opened image by image on arrays of clients and on slots, so that batches of any images
need no copies, and a run allocates no array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import thread_time

import numpy as np

from csdfgen.planning.buffers import ARENA
from csdfgen.program.instructions import allocate_aligned
from csdfgen.serving.service import Service
from csdfgen.serving.times import StageTimes, Times
from runtime.bound import BoundProgram, add_guards

Image = Mapping[str, np.ndarray]
"""Arrays of one image by the names of tensors and outputs, with axes in ONNX order."""

REPEATS = 7
"""Timed runs of a stage and a batch; the first ones, which find caches cold, are not timed."""

_WARM = 2

_LEAST = 1e-7
"""Seconds that a clock can tell from none."""


class SlotViews:
    """The slots of all images in flight, as arrays by tensor. They are allocated once."""

    def __init__(self, service: Service) -> None:
        slots = service.slots
        self.memory = allocate_aligned(max(1, service.slot_bytes))
        self.views: list[dict[str, np.ndarray]] = []
        for number in range(service.in_flight):
            own = self.memory[number * slots.bytes : (number + 1) * slots.bytes]
            found = {}
            for name, tensor in slots.tensors.items():
                at = slots.offsets[name]
                stored = own[at : at + tensor.nbytes].view(tensor.dtype)
                found[name] = tensor.to_onnx(stored.reshape(tensor.storage_shape))
            self.views.append(found)


class Programs:
    """Programs of a worker. pieces[stage][n]: batches, each with a program, in which n images are computed."""

    def __init__(self, service: Service, threads: int = 1) -> None:
        kernels = service.kernels.shared(threads)
        self._memory = kernels.allocate(add_guards({ARENA: service.arena_bytes}))
        self.service = service
        self._opened: set[BoundProgram] = set()
        self._programs: list[dict[int, BoundProgram]] = []
        self._inputs: list[list[str]] = []
        self._outputs: list[list[str]] = []
        for stage, table in zip(service.stages, service.tables, strict=True):
            fastest = {}
            for entry in sorted(table.entries, key=lambda one: -one.seconds):
                fastest[entry.plan.conversion.frames] = (
                    entry.plan
                )  # one of 8 images may run 8 times
            self._programs.append(
                {
                    images: BoundProgram(fastest[images], kernels, memory=self._memory)
                    for images in sorted(fastest)
                }
            )
            self._inputs.append([tensor.name for tensor in stage.inputs])
            self._outputs.append([one.name for one in stage.outputs if one.tensor is not None])
        self.pieces = [_ones(service.most) for _ in service.stages]
        self._spare = [
            {
                one.name: np.empty(one.tensor.shape, one.tensor.dtype)
                for one in stage.outputs
                if one.tensor is not None
            }
            for stage in service.stages
        ]

    def sizes(self, stage: int) -> list[int]:
        """Batches of a stage that have a program."""
        return list(self._programs[stage])

    def arena(self, stage: int, size: int) -> int:
        """Bytes of the arena that a program uses."""
        return self._programs[stage][size].program.pools[ARENA]

    def run(self, stage: int, images: Sequence[Image]) -> None:
        """Compute a stage for images, whose arrays hold its inputs and take its outputs."""
        at = 0
        for size in self.pieces[stage][len(images)]:
            self.run_one(stage, images[at : at + size], size)
            at += size

    def run_one(self, stage: int, images: Sequence[Image], size: int) -> None:
        """The same by the program of a size, which computes the first image again where there are fewer."""
        program = self._programs[stage][size]
        inputs, outputs = self._inputs[stage], self._outputs[stage]
        for number in range(size):
            there = number < len(images)
            image = images[number if there else 0]
            target = image if there else self._spare[stage]
            for name in inputs:
                program.open(name, number, False, image[name])
            for name in outputs:
                program.open(name, number, True, target[name])
        self._opened.add(program)
        program.run()

    def release(self) -> None:
        """Forget the arrays of clients."""
        for program in self._opened:
            program.close()
        self._opened.clear()


def _ones(most: int) -> list[tuple[int, ...]]:
    return [(1,) * count for count in range(most + 1)]


def measure_times(programs: Programs, repeats: int = REPEATS) -> Times:
    """The time of every stage for every batch, measured on this machine: processor time of the thread, which other processes
    do not disturb. It also settles in which pieces the programs compute a batch: those that take the least time, of which the
    last may be larger than what is left.
    """
    service = programs.service
    stages = []
    images = _images_of(service)
    for at, stage in enumerate(service.stages):
        runs: dict[int, list[float]] = {size: [] for size in programs.sizes(at)}
        for _ in range(_WARM + repeats):
            for size, own in runs.items():
                start = thread_time()
                programs.run_one(at, images[:size], size)
                own.append(thread_time() - start)
        known: dict[int, tuple[float, float]] = {}
        for size, own in runs.items():
            low, middle, high = np.percentile(own[_WARM:], (25, 50, 75)).tolist()
            known[size] = max(middle, _LEAST), (high - low) / 2 / max(middle, _LEAST)
        seconds, spread, arena = [0.0], [0.0], [0]
        pieces: list[tuple[int, ...]] = [()]
        for count in range(1, service.most + 1):
            size = min(known, key=lambda one: (known[one][0] + seconds[max(0, count - one)], one))
            pieces.append((size, *pieces[max(0, count - size)]))
            seconds.append(known[size][0] + seconds[max(0, count - size)])
            spread.append(min(1.0, max(known[one][1] for one in pieces[count])))
            arena.append(max(programs.arena(at, one) for one in pieces[count]))
        programs.pieces[at] = pieces
        batches = tuple(range(1, service.most + 1))
        stages.append(
            StageTimes(
                stage.layers[0].name, batches, tuple(seconds[1:]), tuple(spread[1:]), tuple(arena[1:]),
                service.slots.bytes if at < len(service.stages) - 1 else 0,
            )
        )  # fmt: skip
    return Times(service.network.name, tuple(stages))


def _images_of(service: Service) -> list[Image]:
    """Arrays for a batch, of all tensors that cross stages, with random values."""
    rng = np.random.default_rng(0)
    found: list[Image] = []
    for _ in range(service.most):
        image: dict[str, np.ndarray] = {}
        for stage in service.stages:
            for tensor in stage.inputs:
                values = rng.standard_normal(tensor.shape) * 4
                image.setdefault(tensor.name, values.astype(tensor.dtype))
            for output in stage.outputs:
                if output.tensor is not None:
                    image.setdefault(
                        output.name, np.zeros(output.tensor.shape, output.tensor.dtype)
                    )
        found.append(image)
    return found
