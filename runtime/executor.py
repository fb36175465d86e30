"""How is a program run, frame after frame? Steps bound once to memory of its own, called in order.

Compiling lowers the plan (which checks it), lets a backend bind every step to the arena, and keeps
the calls in order; equal steps are bound once. While firing no shape is computed and no array of
values is made; before that inputs are checked, and outputs are new arrays unless the caller passes
some. Rows of outputs go there in the firing that completes them, or to a function of the caller, and
nothing is stored, or they stay where they are: outputs that lie in the arena are lent to the caller.
Who still holds them when the next frame starts keeps them; the program then goes on in another arena,
and from then on gives arrays (docs/model.md).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from time import perf_counter_ns

import numpy as np
from numpy.lib.stride_tricks import as_strided
from threadpoolctl import ThreadpoolController

from csdfgen.errors import InputError, PlanError, option
from csdfgen.kernels.numpy_set import NUMPY
from csdfgen.kernels.steps import KernelSet, Storage, View
from csdfgen.lowering.program import Delivery, lower
from csdfgen.model.formats import Format
from csdfgen.model.network import Network, Tensor
from csdfgen.model.rows import Rows
from csdfgen.phases.conversion import ActorWork
from csdfgen.planning.plan import Plan

__all__ = [
    "GUARD_BYTES",
    "Executable",
    "Measurement",
    "OnRows",
]

Progress = Callable[[int, int], None]
"""(firings done, firings in all)"""

Inputs = np.ndarray | Mapping[str, np.ndarray]

OnRows = Callable[[str, int, int, int, np.ndarray], None]
"""(output, image of the batch, start, stop, rows): called with rows [start, stop) of an output as
soon as they are there, of each image in turn from the first to the last; rows follow each other
along the output's row axis (`Tensor.row_axis`; an output without one comes whole). The array has the
output's axes, is read only, and holds these rows during the call alone.
"""

Sink = Callable[[str, int, int, int, np.ndarray], None]
"""(output, image of the iteration, start, stop, rows as they are stored)"""

Watcher = Callable[[np.ndarray], None]
"""Called with rows of a tensor (rows, *row shape) where they lie, as soon as they are complete and before
anybody reads them: it may look, or write others in their place.
"""

Runs = list[Callable[[], None]]
"""A frame: instructions that run without a break, and what looks at memory between them."""

UFUNC_BUFFER = 1024
"""Elements of numpy's own buffers for strided operands: they are the only memory that the firings
take beside the arena.
"""

SEGMENT = 64
"""Firings between two reports of progress."""

GUARD_BYTES = 4096
"""Bytes behind the arena that nothing may touch; a measured frame checks them."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a frame really used, in bytes: the highest byte touched in the arena, and the most that
    Python and numpy had allocated beside it at one time: while firing, and in the whole call with
    the outputs that the caller gets (none where rows are handed on).
    """

    touched_bytes: int
    python_peak_bytes: int
    call_peak_bytes: int


class Executable:
    """A compiled plan: call it with inputs, get the outputs of a frame.

    It has one arena, so that it runs one frame at a time: threads that share it wait for each
    other, and each gets its own outputs. For frames at the same time compile the plan once a
    thread: every program has an arena of its own; packed weights are shared.

    kernels: the backend. taps: tensors that are kept whole, see `taps`. watchers: by tensor, see
    `Watcher`; a tensor that nothing stores is none that could be watched. threads: that share a
    frame: native code large steps, numpy matrix products (those of phases are so small that sharing
    one among threads takes several times as long as computing it). memory: of the backend, whose pools have
    the program's bytes and guard bytes, or more; its own by default. Who gives it takes care that programs which
    share it take turns.
    """

    def __init__(
        self,
        plan: Plan,
        taps: Iterable[str] = (),
        threads: int = 1,
        kernels: KernelSet = NUMPY,
        watchers: Mapping[str, Watcher] | None = None,
        memory: Storage | None = None,
    ) -> None:
        self.plan = plan
        self._watchers = dict(watchers or {})
        self._one_frame = threading.Lock()
        self._pools, self._threads = ThreadpoolController(), threads
        kernels = kernels.shared(threads)
        self._program = lower(plan, kernels)
        self._memory = memory or self._allocated(kernels)
        self._sink: Sink = _nowhere
        self._running_in: int | None = None
        self._kernels, self._lends = kernels, bool(self._program.results)
        self._held: Callable[[], bool] = _by_nobody
        self._ports = {
            (port.name, port.image, port.output): number
            for number, port in enumerate(self._program.ports)
        }
        tensors = plan.network.tensors
        self._taps = {
            name: np.empty((_frames(plan), *tensors[name].storage_shape), tensors[name].dtype)
            for name in taps
        }
        self.firings = len(self._program.code)
        self._bind()

    def _allocated(self, kernels: KernelSet) -> Storage:
        """Pools of its own, guard bytes behind each."""
        sizes = self._program.pools
        return kernels.allocate({name: size + GUARD_BYTES for name, size in sizes.items()})

    # Compiling -----------------------------------------------------------------------------------

    def _bind(self) -> None:
        """Bind the program to the memory."""
        self._bound = self._kernels.bind(self._program, self._memory)
        for name in ("_storing", "_in_segments", "_handing_on", "_one_by_one"):
            self.__dict__.pop(name, None)

    @property
    def packed_bytes(self) -> int | None:
        """Bytes of weights as the kernels have them, beside those of the network; None where that is not
        known.
        """
        return self._program.constants.packed_bytes or None

    def _between(self, start: int, stop: int, handing_on: bool = False) -> Runs:
        """Firings [start, stop) of a frame, and behind each what looks at memory: rows of outputs that are handed on
        instead of stored, and tapped tensors.
        """
        program, found, waiting = self._program, list[Callable[[], None]](), list[int]()
        for number in range(start, stop):
            waiting += program.code[number]
            actor, phase = self.plan.order[number]
            looks = self._tapped(self.plan.conversion.actor[actor], phase)
            if handing_on:
                for delivery in program.deliveries[number]:
                    looks = [*self._delivered(delivery), *looks]
            else:
                waiting += program.stores[number]
            if waiting and (looks or number == stop - 1):
                found.append(self._bound.prepared(waiting))
                waiting = []
            found += looks
        if waiting:
            found.append(self._bound.prepared(waiting))
        return found

    @cached_property
    def _storing(self) -> Runs:
        """A frame whose outputs are stored."""
        return self._between(0, self.firings)

    @cached_property
    def _handing_on(self) -> Runs:
        """A frame whose rows of outputs go to a function of the caller."""
        return self._between(0, self.firings, handing_on=True)

    def _delivered(self, one: Delivery) -> Iterator[Callable[[], None]]:
        """What hands on rows of an output, those that are evenly spaced together."""
        start, whole = one.rows.start, one.source
        for at in range(whole.count) if whole.pieces else ():
            yield partial(self._deliver_joined, one, start + at, whole.part(at, at + 1))
        for a, b in () if whole.pieces else whole.runs:
            yield partial(self._deliver, one, start + a, whole.part(a, b))

    def _deliver(self, one: Delivery, start: int, view: View) -> None:
        rows = self._memory.read(view)
        rows.flags.writeable = False
        self._sink(one.output, one.image, start, start + view.count, rows)

    def _deliver_joined(self, one: Delivery, start: int, view: View) -> None:
        """A row whose pieces are in several buffers, as one array."""
        rows = np.concatenate(list(map(self._memory.read, view.pieces)), axis=1 + view.along)
        rows.flags.writeable = False
        self._sink(one.output, one.image, start, start + 1, rows)

    def _tapped(self, work: ActorWork, phase: int) -> Runs:
        found: Runs = []
        for write in work.writes:
            tap = self._taps.get(write.tensor.name)
            watcher = self._watchers.get(write.tensor.name)
            if tap is None and watcher is None:
                continue
            before = write.complete[phase - 1] if phase else 0
            from_, to = before, write.complete[phase]
            if to == from_:
                continue
            view = self.plan.addresses.view(write.tensor, Rows(from_, to))
            if watcher is not None:
                found += [partial(self._watched, watcher, part) for _, part in _parts(view)]
            if tap is not None:
                rows = tap.reshape(-1, *tap.shape[2:])[from_:to]
                found += [partial(self._kept, rows[at], part) for at, part in _parts(view)]
        return found

    def _watched(self, watcher: Watcher, view: View) -> None:
        rows = self._memory.read(view)
        watcher(rows)
        self._memory.write(view, rows)

    def _kept(self, target: np.ndarray, view: View) -> None:
        np.copyto(target, self._memory.read(view))

    @property
    def taps(self) -> Mapping[str, np.ndarray]:
        """The tapped tensors of the last images, in ONNX axis order; those of an iteration in turn
        along axis 0.
        """
        tensors = self.plan.network.tensors
        return {
            name: _stacked([tensors[name].to_onnx(one) for one in array])
            for name, array in self._taps.items()
        }

    # Frames --------------------------------------------------------------------------------------

    def __call__(
        self,
        x: Inputs,
        progress: Progress | None = None,
        out: Mapping[str, np.ndarray] | None = None,
        on_rows: OnRows | None = None,
    ) -> dict[str, np.ndarray]:
        """Run a frame (all images of the batch).

        x: one array, or arrays by input name. out: arrays by output name to write the results into,
        of their shapes and types; others are made or, of a plan with `result="arena"`, lent: they lie in
        the arena, and let go of before the next frame they take nothing beside it. on_rows: gets the rows of all outputs as they
        are made (see `OnRows`) instead: nothing is stored, and the result is empty; what it raises
        ends the frame. Raises InputError if they do not fit.
        """
        return self._frame(x, lambda done: self._fire(done, progress), out, on_rows)

    def _frame(
        self,
        x: Inputs,
        fire: Callable[[int], None],
        out: Mapping[str, np.ndarray] | None = None,
        on_rows: OnRows | None = None,
    ) -> dict[str, np.ndarray]:
        network, frames = self.plan.network, self._program.frames
        feeds = self.checked(x)
        if on_rows is not None and out is not None:
            raise InputError("out and on_rows are given; rows are either stored or handed on")
        if self._running_in == threading.get_ident():
            raise InputError(
                "called from within its own frame; compile the plan once more for that"
            )
        outputs: dict[str, np.ndarray] = {}
        with self._one_frame:
            self._running_in = threading.get_ident()
            try:
                self._take_back()
                if on_rows is None:
                    outputs = self._outputs(out or {})
                self._frame_runs = self._storing if on_rows is None else self._handing_on
                for first in range(0, network.batch, frames):
                    for tensor in network.inputs:
                        for image in range(frames):
                            one = _image(feeds[tensor.name], network, first + image)
                            port = self._ports[tensor.name, image, False]
                            self._bound.open(port, tensor.to_storage(one))
                    if on_rows is None:
                        self._open_outputs(outputs, first, out or {})
                    else:
                        self._sink = self._sent(on_rows, first)
                    with self._pools.limit(limits=self._threads, user_api="blas"):
                        fire(first)
                if on_rows is not None:
                    self._hand_on_constants(on_rows)
            finally:
                for port in self._ports.values():
                    self._bound.open(port, None)
                self._sink, self._running_in = _nowhere, None
        return outputs

    def _fire(self, first: int, progress: Progress | None) -> None:
        with _silent():
            if progress is None or self._frame_runs is not self._storing:
                for run in self._frame_runs:
                    run()
                if progress is None:
                    return
            rounds = self.plan.network.batch // self._program.frames
            total, done = self.firings * rounds, self.firings * (first // self._program.frames)
            if self._frame_runs is not self._storing:
                progress(done + self.firings, total)
                return
            for last, runs in self._in_segments:
                for run in runs:
                    run()
                progress(done + last, total)

    @cached_property
    def _in_segments(self) -> list[tuple[int, Runs]]:
        """A frame whose outputs are stored, some firings at a time, and how many have ended then."""
        cuts = [*range(0, self.firings, SEGMENT), self.firings]
        return [(stop, self._between(start, stop)) for start, stop in pairwise(cuts)]

    def time_firings(
        self, x: Inputs, clock: Callable[[], int] = perf_counter_ns
    ) -> tuple[int, ...]:
        """Run a frame (of a batch, its last images count) and tell when each firing ended by
        `clock`, the start in front.

        The instructions are those of every frame, in their order; only the clock is read between firings.
        """
        times: list[int] = []

        def timed(first: int) -> None:
            per_firing = self._one_by_one
            times.clear()
            with _silent():
                times.append(clock())
                for runs in per_firing:
                    for run in runs:
                        run()
                    times.append(clock())

        self._frame(x, timed)
        return tuple(times)

    @cached_property
    def _one_by_one(self) -> list[Runs]:
        """Every firing of a frame by itself."""
        return [self._between(number, number + 1) for number in range(self.firings)]

    # Inputs and outputs --------------------------------------------------------------------------

    def checked(self, x: Inputs) -> dict[str, np.ndarray]:
        """The inputs by name as they are given; InputError naming shapes or types that do not fit."""
        network = self.plan.network
        names = [t.name for t in network.inputs]
        given = dict(x) if isinstance(x, Mapping) else None
        if given is None:
            if len(names) != 1:
                raise InputError(
                    f"one array for {len(names)} inputs; give a dict with {', '.join(names)}"
                )
            given = {names[0]: np.asarray(x)}
        feeds = {}
        for tensor in network.inputs:
            if tensor.name not in given:
                raise InputError(
                    f"input '{tensor.name}' is missing; given: {', '.join(sorted(given)) or 'nothing'}"
                )
            array = np.asarray(given[tensor.name])
            shape = network.whole_shape(tensor)
            if array.shape != shape:
                raise InputError(
                    f"input '{tensor.name}' has shape {array.shape}, the network takes {shape}; "
                    f"load it with {option('shapes')}"
                )
            if array.dtype != tensor.dtype and not np.can_cast(
                array.dtype, tensor.dtype, "same_kind"
            ):
                raise InputError(
                    f"input '{tensor.name}' is {array.dtype}, the network takes {tensor.dtype}"
                )
            feeds[tensor.name] = array
        return feeds

    def _outputs(self, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """An array for every output: the caller's, or a new one."""
        network = self.plan.network
        unknown = sorted(given.keys() - {output.name for output in network.outputs})
        if unknown:
            raise InputError(f"out names '{unknown[0]}', which is no output of the network")
        found = {}
        for output in network.outputs:
            array = given.get(output.name)
            if array is None and self._lends and output.name in self._program.results:
                assert output.tensor is not None
                found[output.name] = self._lend(output.tensor, self._program.results[output.name])
                continue
            if output.tensor is None:
                assert output.constant is not None
                shape, dtype = output.constant.shape, output.constant.dtype
            else:
                shape, dtype = network.whole_shape(output.tensor), np.dtype(output.tensor.dtype)
            if array is None:
                array = np.empty(shape, dtype)
            elif array.shape != shape or array.dtype != dtype or not array.flags.writeable:
                raise InputError(
                    f"out['{output.name}'] is {array.dtype} {array.shape}"
                    f"{'' if array.flags.writeable else ', read only'}; {dtype} {shape} is needed"
                )
            if output.constant is not None:
                np.copyto(array, output.constant)
            found[output.name] = array
        return found

    def _lend(self, tensor: Tensor, view: View) -> np.ndarray:
        """An output where it is in the arena, all images of a run."""
        rows, held = self._memory.lend(view)
        before = self._held
        self._held = lambda: held() or before()
        one = tensor.to_onnx(rows[: tensor.rows])
        if self._program.frames == 1:
            return one
        steps = tensor.rows * rows.strides[0], *one.strides[1:]
        return as_strided(one, (self._program.frames, *one.shape[1:]), steps)

    def _take_back(self) -> None:
        """The arena without outputs that were lent: if the caller still holds any they stay as they
        are, and so does the arena that they are in.
        """
        if self._held():
            self._lends = False
            self._memory = self._allocated(self._kernels)
            self._bind()
        self._held = _by_nobody

    def _open_outputs(
        self, outputs: Mapping[str, np.ndarray], first: int, given: Mapping[str, np.ndarray]
    ) -> None:
        """Rows are copied into the arrays that the caller gets, images from `first` on; not those of
        outputs that are lent.
        """
        network = self.plan.network
        lent = self._program.results.keys() - given.keys() if self._lends else ()
        for output in network.outputs:
            if output.tensor is None or output.name in lent:
                continue
            for image in range(self._program.frames):
                whole = _image(outputs[output.name], network, first + image)
                port = self._ports[output.name, image, True]
                self._bound.open(port, output.tensor.to_storage(whole))

    def _sent(self, on_rows: OnRows, first: int) -> Sink:
        """Rows go to the caller's function, which sees floating point errors as before the frame."""
        tensors = {output.name: output.tensor for output in self.plan.network.outputs}
        before = np.geterr()

        def hand_on(name: str, image: int, start: int, stop: int, rows: np.ndarray) -> None:
            tensor = tensors[name]
            assert tensor is not None
            with np.errstate(**before):
                on_rows(name, first + image, start, stop, tensor.to_onnx(rows))

        return hand_on

    def _hand_on_constants(self, on_rows: OnRows) -> None:
        """Outputs that no layer computes, whole: of all images, as image 0."""
        for output in self.plan.network.outputs:
            if output.constant is not None:
                whole = output.constant.view()
                whole.flags.writeable = False
                on_rows(output.name, 0, 0, 1, whole)

    # Measuring -----------------------------------------------------------------------------------

    def measure(
        self,
        x: Inputs,
        out: Mapping[str, np.ndarray] | None = None,
        on_rows: OnRows | None = None,
    ) -> tuple[dict[str, np.ndarray], Measurement]:
        """Run a frame and measure it: which arena bytes change, and what Python and numpy allocate.

        x, out, on_rows: as in a call; the frame may be run twice.

        The arena is filled with a pattern first; a byte that keeps it was not touched. Should a
        result happen to equal the pattern at the end of the arena, the complement tells. Bytes
        behind the arena must keep theirs: PlanError otherwise.
        """
        import tracemalloc

        planned, touched, firing, whole = self.plan.planned_bytes, 0, 0, 0
        if on_rows is not None:
            _ = self._handing_on  # made once for all frames
        outputs: dict[str, np.ndarray] = {}

        def traced(first: int) -> None:
            nonlocal firing, whole
            whole = max(whole, tracemalloc.get_traced_memory()[1])
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            self._fire(first, None)
            peak = tracemalloc.get_traced_memory()[1]
            firing, whole = max(firing, peak - before), max(whole, peak)

        for pattern in (_PATTERN, ~_PATTERN):
            outputs = {}
            self._take_back()
            (pool,) = self._program.pools
            _fill(self._memory, pool, planned + GUARD_BYTES, pattern)
            tracemalloc.start()
            try:
                outputs = self._frame(x, traced, out, on_rows)
                whole = max(whole, tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
            read = self._memory.read(_bytes(pool, planned + GUARD_BYTES))[0]
            touched = max(touched, _last_change(read, pattern))
            if touched > planned:
                raise PlanError(
                    f"byte {touched} was written, the arena has {planned} ({GUARD_BYTES} guard bytes follow)"
                )
            if touched == planned:
                break
        return outputs, Measurement(touched, firing, whole)


def _bytes(pool: str, size: int) -> View:
    """The first bytes of a pool as one row."""
    return View(pool, (0,), (size,), (1,), Format("uint8"))


def _parts(view: View) -> Iterator[tuple[tuple[slice, ...], View]]:
    """Rows, run by run of every piece, each as a view, and where they are in an array of all."""
    start = 0
    for piece in view.pieces or (view,):
        along: tuple[slice, ...] = ()
        if view.pieces:
            stop = start + piece.shape[view.along]
            along = *(slice(None),) * view.along, slice(start, stop)
            start = stop
        for a, b in piece.runs:
            yield (slice(a, b), *along), piece.part(a, b)


def _by_nobody() -> bool:
    """Whether lent rows are held, where none are lent."""
    return False


def _frames(plan: Plan) -> int:
    return plan.conversion.frames


def _nowhere(name: str, image: int, start: int, stop: int, rows: np.ndarray) -> None:
    """Between frames no row is handed on."""
    raise AssertionError(f"rows {start} to {stop} of '{name}' outside a frame")


def _image(whole: np.ndarray, network: Network, image: int) -> np.ndarray:
    return whole if network.batch == 1 else whole[image : image + 1]


def _stacked(images: list[np.ndarray]) -> np.ndarray:
    return images[0] if len(images) == 1 else np.concatenate(images)


@contextmanager
def _silent() -> Iterator[None]:
    """Small buffers of numpy's own, and no warnings: an overflow is a value (infinity) in ONNX."""
    before = np.setbufsize(UFUNC_BUFFER)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        np.setbufsize(before)


_PATTERN = np.frombuffer(bytes.fromhex("c71fa9ffc71fa9ff"), np.uint8).copy()


def _fill(memory: Storage, pool: str, size: int, pattern: np.ndarray) -> None:
    memory.write(_bytes(pool, size), np.resize(pattern, (1, size)))


def _last_change(memory: np.ndarray, pattern: np.ndarray) -> int:
    """One more than the index of the last byte that differs from the pattern."""
    step = 1 << 20
    for start in range((memory.size - 1) // step * step, -1, -step):
        block = memory[start : start + step]
        changed = np.flatnonzero(block != np.resize(pattern, block.size))
        if changed.size:
            return start + int(changed[-1]) + 1
    return 0
