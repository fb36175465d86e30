"""A program that can be executed: instructions bound to memory, in the order of the firings.

Compiling lowers the plan (which checks it), and the backend binds the instructions to memory that it allocates. Firings
compute no shapes and allocate no arrays. This is the only module of the runtime that reads the memory of a program:
sessions open arrays of the caller on its ports, run it, and borrow outputs that are stored in its memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, cached_property, partial
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from csdfgen.errors import InputError, option
from csdfgen.lowering.program import Condition, Delivery, Program, lower
from csdfgen.lowering.segments import find_repeats
from csdfgen.model.formats import Format
from csdfgen.model.rows import Rows
from csdfgen.planning.buffers import ARENA
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import pause_collection
from csdfgen.planning.waits import count_cores, split_by_processor
from csdfgen.program.steps import Awaiting, Backend, Bound, Driven, SelfTimed, Sliced, Storage, View

Progress = Callable[[int, int], None]
"""(firings done, firings in all)"""

Sink = Callable[[str, int, int, int, np.ndarray], None]
"""(output, image of the run, start, stop, rows with the output's axes)"""

Watcher = Callable[[np.ndarray], None]
"""Called with rows of a tensor, shape (rows, *row shape), when they are complete and before a layer reads them; it may
overwrite them.
"""

Runs = list[Callable[[], None]]
"""Sequences of instructions, and calls between them that read memory."""

Forced = tuple[View, list[Any]]
"""Where conditions are, and what is to be there during a phase, or again after it."""

SEGMENT = 64
"""Firings between two reports of progress."""

GUARD_BYTES = 4096
"""Bytes after each pool that nothing may touch; a measured frame checks them."""


_BLOCK = 1 << 17
"""Bytes of the arena that are filled or compared at a time, a multiple of the pattern's."""


def add_guards(pools: Mapping[str, int]) -> dict[str, int]:
    """Bytes of pools, with the guard bytes after each."""
    return {name: size + GUARD_BYTES for name, size in pools.items()}


def share_launch_times(times: Sequence[int], frame: int) -> list[int]:
    """Clock at the start and after every firing, of firings that share launches. times: where each has its own; each firing loses
    the same, or all it takes, so that together they take as long as the frame.

    >>> share_launch_times([100, 105, 106, 116], 11)
    [100, 103, 103, 111]
    """
    own = np.diff(np.array(times, np.float64))
    if own.sum() <= frame:
        return list(times)
    largest = np.sort(own)[::-1]
    losses = (np.cumsum(largest) - frame) / np.arange(1, len(own) + 1)
    left = np.maximum(own - losses[np.flatnonzero(largest > losses)[-1]], 0)
    return [times[0], *(times[0] + np.rint(np.cumsum(left)).astype(np.int64)).tolist()]


class BoundProgram:
    """A lowered plan in memory.

    taps: tensors that are kept whole. watchers: by tensor, see `Watcher`. memory: allocated by the backend, with pools of at
    least the program's bytes and guard bytes; by default it is allocated here. program: the plan, lowered; by default it is
    lowered here.
    images, firings: numbers of them in a run. results: outputs that are in the memory after a run.
    Raises what `lower` raises; InputError for taps that no layer stores.
    """

    def __init__(
        self,
        plan: Plan,
        kernels: Backend,
        taps: Iterable[str] = (),
        watchers: Mapping[str, Watcher] | None = None,
        memory: Storage | None = None,
        program: Program | None = None,
    ) -> None:
        with pause_collection():
            self._plan, self._kernels, program = plan, kernels, program or lower(plan, kernels)
            self._repeats = find_repeats(program, plan.turns) if plan.turns else None
            self.program = replace(program, repeats=self._repeats)
            self._constants = kernels.upload(self.program.constants)
            self._bind(memory or kernels.allocate(add_guards(self.program.pools)))
        self._watchers, self._taps = dict(watchers or {}), _taps_of(plan, taps)
        self.images, self.firings = self.program.images, sum(b - a for _, a, b in self._sections())
        self._results = {
            one.name: one.tensor
            for one in plan.network.outputs
            if one.tensor is not None and one.name in self.program.results
        }
        self.results = self._results.keys()
        self._ports = {
            (port.name, port.image, port.output): number
            for number, port in enumerate(self.program.ports)
        }

    @property
    def weights(self) -> Sequence[np.ndarray]:
        """The bytes of the arrays that the program only reads, on the host."""
        return [block.values for block in self.program.constants.blocks]

    def _bind(self, memory: Storage) -> None:
        self.__dict__.pop("_on_processors", None)
        self._memory, self._looks = memory, _Looks(memory)
        self._bound = self._kernels.bind(self.program, memory, self._constants)
        self._cut: dict[tuple[int, bool], list[Runs]] = {}
        self._frame_runs: Runs | None = None
        self._held: list[Callable[[], bool]] = []

    def force(self, conditions: Mapping[str, bool]) -> None:
        """Take these branches in all further runs, whatever is computed for their conditions. conditions: name of an If ->
        whether it holds. What else reads a condition reads what was computed.
        """
        self._looks.forced = dict(conditions)
        self._cut.clear()
        self._frame_runs = None

    # Running -------------------------------------------------------------------------------------

    def open(
        self, name: str, image: int, output: bool, array: np.ndarray | None, first: int = 0
    ) -> None:
        """Use this array, with axes in ONNX order, for an image of an input or output in all further runs. first: which of its
        rows is the first of the array.
        """
        port = self._ports[name, image, output]
        self._looks.arrays[port] = array
        self._bound.open(port, array, first)

    def close(self) -> None:
        """Release the caller's arrays."""
        self._looks.arrays.clear()
        for port in self._ports.values():
            self._bound.open(port, None)

    def run(self, sink: Sink | None = None, progress: Progress | None = None) -> None:
        """Execute the program once on the open arrays. sink: receives the rows of outputs as they are computed, instead of
        the arrays. progress: called with the firings done in this run.
        """
        if sink is None and progress is None:
            self._looks.left_out.clear()
            if self._frame_runs is None:
                together = self._on_processors
                one = self.prepared(self.firings) if together is None else [[together]]
                self._frame_runs = [run for runs in one for run in runs]
            for run in self._frame_runs:
                run()
            self._bound.wait()
            return
        size = self.firings if progress is None else SEGMENT
        self._looks.sink = sink
        self._looks.left_out.clear()
        try:
            for number, runs in enumerate(self.prepared(size, sink is not None), 1):
                for run in runs:
                    run()
                if progress is not None:
                    progress(min(self.firings, number * size), self.firings)
            self._bound.wait()
        finally:
            self._looks.sink = None

    @cached_property
    def _on_processors(self) -> Callable[[], None] | None:
        """What executes a plan with a mapping on several processors. None for other plans, where memory is read between firings,
        and where there are fewer processors.
        """
        plan, program, bound = self._plan, self.program, self._bound
        if not plan.mapping or self._looks_between or not isinstance(bound, SelfTimed):
            return None
        found = []
        lists = split_by_processor(plan.order, plan.mapping)
        awaited = {one for waits in plan.waits for one in waits}
        for core, firings in enumerate(lists):
            turns = []
            for count, at in enumerate(firings, 1):
                numbers = program.code[at] + program.stores[at]
                reached = count if (core, count) in awaited else 0
                turns.append(Awaiting(plan.waits[at], numbers, reached))
            found.append(turns)
        return bound.self_timed(found)

    @property
    def _looks_between(self) -> bool:
        """Whether memory is read between firings."""
        one = self.program
        return bool(self._taps or self._watchers or one.compared or one.joins or any(one.guards))

    def sliced(self) -> Callable[..., None] | None:
        """What executes firings [start, stop) at once, as in `Sliced`; None where it takes several calls."""
        program, bound = self.program, self._bound
        if self._looks_between or not isinstance(bound, Sliced):
            return None
        numbers = [code + stores for code, stores in zip(program.code, program.stores, strict=True)]
        firsts = [0, *accumulate(map(len, numbers))]
        run = bound.sliced([*chain.from_iterable(numbers)])
        return run and (lambda start, stop, places=(): run(firsts[start], firsts[stop], places))

    @property
    def processors(self) -> int:
        """Processors that execute the firings of a run at the same time, each its own."""
        return 1 if self._on_processors is None else count_cores(self._plan.mapping)

    @property
    def branches(self) -> dict[str, tuple[int, int]]:
        """Name of an If -> how often its condition was true, and false, in all runs; one that was not reached is not there."""
        return {name: (yes, no) for name, (no, yes) in self._looks.taken.items()}

    @property
    def left_out(self) -> frozenset[int]:
        """The firings of branches that were not taken in the last run."""
        return frozenset(self._looks.left_out)

    @property
    def driven(self) -> Driven | None:
        """See `Bound.driven`."""
        return self._bound.driven

    def time(self, clock: Callable[[], int], alone: bool = False) -> list[int]:
        """Execute the program once; returns the clock at the start and after every firing. If there is a device with a clock
        of its own, it executes a frame as any other, whose firings share launches, and one in which they do not (see
        `share_launch_times`). alone: the times are those of the latter.
        """
        per_firing = self.prepared(1)
        self._looks.left_out.clear()
        mark = self._bound.mark()
        if mark is not None:
            for run in self.prepared(self.firings)[0] if self.firings else ():
                run()
            self._looks.left_out.clear()
            marks = [self._bound.mark() or mark]
            for runs in per_firing:
                for run in runs:
                    run()
                marks.append(self._bound.mark() or mark)
            self._bound.wait()
            read = [one() for one in marks]
            return self._folded(read if alone else share_launch_times(read, marks[0]() - mark()))
        times = [clock()]
        for runs in per_firing:
            for run in runs:
                run()
            self._bound.wait()
            times.append(clock())
        return self._folded(times)

    def _folded(self, times: list[int]) -> list[int]:
        """The same for the firings of the program, those that repeat as one."""
        if self._repeats is None:
            return times
        spent = np.zeros(len(self.program.code), np.int64)
        numbers = [np.arange(start, stop) for _, start, stop in self._sections()]
        np.add.at(spent, np.concatenate(numbers), np.diff(times))
        return [times[0], *(times[0] + np.cumsum(spent)).tolist()]

    def prepared(self, size: int, handing_on: bool = False) -> list[Runs]:
        """The calls of a run in segments of `size` firings, made on first use. handing_on: rows of outputs are handed on
        instead of stored.
        """
        found = self._cut.get((size, handing_on))
        if found is None:
            self._cut[size, handing_on] = found = []
            known = cache(partial(self._some, handing_on=handing_on))
            for turn, first, end in self._sections():
                for start in range(first, end, max(1, size)):
                    found.append([*known(start, min(start + size, end))])
                    if self._repeats and start == first:
                        rows = [turn * count for count in self._repeats.rows]
                        found[-1].insert(
                            0, partial(self._looks.shifted, self._bound, self.program, rows)
                        )
        return found

    def _sections(self) -> Iterator[tuple[int, int, int]]:
        """(turns that were executed before, firing, firing behind) of all that is executed."""
        one, count = self._repeats, len(self.program.code)
        if one is None:
            yield 0, 0, count
            return
        yield 0, 0, one.stop
        yield from ((turn, one.start, one.stop) for turn in range(1, one.more + 1))
        yield one.more, one.stop, count

    def between(self, start: int, stop: int) -> Runs:
        """The calls of firings [start, stop) of a run; what they start has ended when `wait` returns."""
        return self._some(start, stop, handing_on=False)

    def wait(self) -> None:
        """See `Bound.wait`."""
        self._bound.wait()

    def _some(self, start: int, stop: int, handing_on: bool) -> Runs:
        """Firings [start, stop) of a run, each followed by the calls that read memory."""
        program, found, waiting = self.program, list[Callable[[], None]](), list[int]()
        inside, under = found, tuple[Condition, ...]()  # what runs under these conditions
        firings: list[int] = []

        def wait_no_more() -> None:
            if waiting:
                inside.append(self._bound.prepared(list(waiting)))
                waiting.clear()

        for number in range(start, stop):
            code, looks = program.code[number], list[Callable[[], None]]()
            if handing_on:
                for delivery in program.deliveries[number]:
                    looks += self._looks.delivered(delivery)
            else:
                code += program.stores[number]
            looks += self._tapped(*self._plan.order[number])
            for view, why in program.compared.get(number, ()):
                looks.append(partial(self._looks.compared, view, why))
            looks += [partial(self._looks.chosen, one) for one in program.joins.get(number, ())]
            if (code or looks) and program.guards[number] != under:
                wait_no_more()
                inside, firings, under = found, [], program.guards[number]
                if under:
                    inside, firings = [], []
                    found.append(partial(self._looks.guarded, under, inside, firings))
            if code or looks:
                firings.append(number)
            forced = self._forced(*self._plan.order[number]) if code else None
            if forced is not None:
                wait_no_more()
                inside.append(partial(self._looks.exchanged, forced))
                looks.insert(0, partial(self._looks.exchanged, forced))
            waiting += code
            if looks:
                wait_no_more()
                inside += looks
        wait_no_more()
        return found

    def _forced(self, actor: str, phase: int) -> Forced | None:
        """The condition that is forced of a phase that joins the results of two branches."""
        work = self._plan.conversion.actor[actor]
        branch = "" if work.layer is None else work.layer.attributes.get("branch", "")
        if branch not in self._looks.forced:
            return None
        first = work.phases[phase].image
        rows = Rows(first, first + work.phases[phase].images)
        condition = self._plan.network.conditions[branch]
        rest = [self._looks.forced[branch]]
        return self._plan.addresses.view(condition, rows), rest

    def _tapped(self, actor: str, phase: int) -> Iterator[Callable[[], None]]:
        """Calls that pass rows of a phase to watchers, and copy those of taps."""
        for write in self._plan.conversion.actor[actor].writes:
            tap = self._taps.get(write.tensor.name)
            watcher = self._watchers.get(write.tensor.name)
            start, stop = write.complete[phase - 1] if phase else 0, write.complete[phase]
            if start == stop or (tap is None and watcher is None):
                continue
            for at, view in self._plan.addresses.view(write.tensor, Rows(start, stop)).parts():
                if watcher is not None:
                    yield partial(self._looks.watched, watcher, view)
                if tap is not None:
                    rows = tap.reshape(-1, *tap.shape[2:])[start:stop]
                    yield partial(self._looks.kept, rows[at], view)

    # Outputs in memory, and taps -----------------------------------------------------------------

    def lend(self, output: str) -> np.ndarray:
        """A view of an output in memory, all images of a run."""
        tensor = self._results[output]
        rows, held = self._memory.lend(self.program.results[output])
        self._held.append(held)
        one = tensor.to_onnx(rows[: tensor.rows])
        if self.images == 1:
            return one
        steps = tensor.rows * rows.strides[0], *one.strides[1:]
        return as_strided(one, (self.images, *one.shape[1:]), steps)

    def is_free(self) -> bool:
        """Whether no array of the memory that was lent, nor a view of one, is still referenced."""
        if self._held:
            self._held = [held for held in self._held if held()]
        return not self._held

    def elsewhere(self) -> BoundProgram:
        """The same program bound to newly allocated memory, with the same taps and watchers."""
        found = copy(self)
        found._bind(self._kernels.allocate(add_guards(self.program.pools)))
        found._looks.taken = self._looks.taken  # those of all frames are counted
        found._looks.forced = self._looks.forced
        return found

    def taps(self) -> dict[str, np.ndarray]:
        """The tapped tensors of the last run, in ONNX axis order; those of its images along axis 0."""
        tensors = self._plan.network.tensors
        found = {}
        for name, kept in self._taps.items():
            images = [tensors[name].to_onnx(one) for one in kept]
            found[name] = images[0] if len(images) == 1 else np.concatenate(images)
        return found

    # What was touched ----------------------------------------------------------------------------

    def fill(self, pattern: np.ndarray) -> None:
        """Fill the arena and its guard bytes with a pattern of bytes."""
        block = np.resize(pattern, (1, _BLOCK))
        (size,) = self._whole.shape
        for start in range(0, size, _BLOCK):  # an array of all would be a second arena
            piece = block[:, : size - start]
            view = View(ARENA, (start,), piece.shape[1:], (1,), Format("uint8"))
            self._memory.write(view, piece)

    def touched(self, pattern: np.ndarray) -> int:
        """One more than the index of the last byte of the arena that differs from the pattern."""
        (memory,) = self._memory.read(self._whole)
        for start in range((memory.size - 1) // _BLOCK * _BLOCK, -1, -_BLOCK):
            block = memory[start : start + _BLOCK]
            changed = block != np.resize(pattern, block.size)
            if changed.any():
                return start + block.size - int(changed[::-1].argmax())
        return 0

    @property
    def _whole(self) -> View:
        """All bytes of the arena as one row, with its guard bytes."""
        return _bytes_of(ARENA, self.program.pools[ARENA] + GUARD_BYTES)

    # State ---------------------------------------------------------------------------------------

    def read_pools(self) -> list[np.ndarray]:
        """Copies of the bytes of all pools."""
        pools = self.program.pools.items()
        return [self._memory.read(_bytes_of(*one))[0].copy() for one in pools]

    def write_pools(self, values: Sequence[np.ndarray]) -> None:
        """Have the bytes that `read_pools` has read before, in this memory or another."""
        for one, found in zip(self.program.pools.items(), values, strict=True):
            self._memory.write(_bytes_of(*one), found[None])


def _bytes_of(pool: str, size: int) -> View:
    """The first bytes of a pool as one row."""
    return View(pool, (0,), (size,), (1,), Format("uint8"))


class _Looks:
    """Calls that read memory between instructions. They are methods of a separate object, because the program stores them
    and would otherwise refer to itself, so that it would stay until garbage is collected.
    """

    def __init__(self, memory: Storage) -> None:
        self._memory = memory
        self.sink: Sink | None = None
        self.arrays: dict[int, np.ndarray | None] = {}
        self.behind: dict[str, int] = {}
        self.taken: dict[str, list[int]] = {}
        self.left_out: set[int] = set()
        self.forced: Mapping[str, bool] = {}

    def shifted(self, bound: Bound, program: Program, rows: Sequence[int]) -> None:
        """Have the rows of each port so far behind those that instructions name."""
        for number, (port, count) in enumerate(zip(program.ports, rows, strict=True)):
            self.behind[port.name] = count
            bound.open(number, self.arrays.get(number), -count)

    def _is(self, condition: Condition) -> bool:
        if condition.branch in self.forced:
            return self.forced[condition.branch]
        return bool(self._memory.read(condition.view).any())

    def exchanged(self, forced: Forced) -> None:
        """Exchange the conditions in memory with others."""
        view, others = forced
        there = self._memory.read(view).copy()
        self._memory.write(view, np.broadcast_to(others.pop(), there.shape))
        others.append(there)

    def guarded(self, conditions: Sequence[Condition], runs: Runs, firings: list[int]) -> None:
        """Make the calls of firings if all conditions hold."""
        if all(self._is(one) is one.taken for one in conditions):
            for run in runs:
                run()
        else:
            self.left_out.update(firings)

    def compared(self, view: View, why: str) -> None:
        """Raise InputError for a NaN."""
        if np.isnan(self._memory.read(view)).any():
            raise InputError(why)

    def chosen(self, condition: Condition) -> None:
        """Count which branch of an If was taken."""
        self.taken.setdefault(condition.branch, [0, 0])[self._is(condition)] += 1

    def delivered(self, one: Delivery) -> Iterator[Callable[[], None]]:
        """Calls that hand on rows of an output, evenly spaced rows in one call."""
        start, whole = one.rows.start, one.source
        for at in range(whole.count) if whole.pieces else ():
            yield partial(self._joined, one, start + at, whole.part(at, at + 1))
        for a, b in () if whole.pieces else whole.runs:
            yield partial(self._evenly, one, start + a, whole.part(a, b))

    def _evenly(self, one: Delivery, start: int, view: View) -> None:
        self._hand_on(one, start, self._memory.read(view))

    def _joined(self, one: Delivery, start: int, view: View) -> None:
        """Hand on a row with pieces in several buffers as one array."""
        pieces = list(map(self._memory.read, view.pieces))
        self._hand_on(one, start, np.concatenate(pieces, axis=1 + view.along))

    def _hand_on(self, one: Delivery, start: int, rows: np.ndarray) -> None:
        assert self.sink is not None, "rows outside a run"
        rows.flags.writeable = False
        start += self.behind.get(one.output, 0)
        self.sink(one.output, one.image, start, start + len(rows), one.tensor.to_onnx(rows))

    def watched(self, watcher: Watcher, view: View) -> None:
        rows = self._memory.read(view)
        watcher(rows)
        self._memory.write(view, rows)

    def kept(self, target: np.ndarray, view: View) -> None:
        np.copyto(target, self._memory.read(view))


def _taps_of(plan: Plan, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Arrays for the tapped tensors, all images of a run. Raises InputError."""
    tensors = {
        write.tensor.name: write.tensor for w in plan.conversion.actors for write in w.writes
    }
    found = {}
    for name in names:
        if name not in tensors:
            raise InputError(
                f"{option('taps')} names {name!r}, which is no tensor that the plan computes; "
                "plan.network.tensors lists them, and with fuse='none' a plan has one for every node"
            )
        shape = plan.conversion.frames, *tensors[name].storage_shape
        found[name] = np.empty(shape, tensors[name].dtype)
    return found
