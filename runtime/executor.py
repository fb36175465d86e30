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

import ctypes
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from threadpoolctl import ThreadpoolController

from csdfgen.errors import InputError, PlanError, option
from csdfgen.kernels.arrays import array_of, copies, pieces_of
from csdfgen.kernels.numpy_set import NUMPY
from csdfgen.kernels.steps import Call, KernelSet, Port, Step, View
from csdfgen.lowering.program import Delivery, Feed, Program, key_of, lower
from csdfgen.model.network import Network, Tensor
from csdfgen.model.rows import Rows
from csdfgen.phases.conversion import ActorWork
from csdfgen.planning.plan import Plan

__all__ = [
    "GUARD_BYTES",
    "Executable",
    "Measurement",
    "OnRows",
    "aligned_bytes",
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

Segments = list[Sequence[Call]]
"""Calls of a frame, some firings at a time."""

Ports = dict[tuple[str, int], Port]
"""Input or output and image (of those of a run) -> its port."""

UFUNC_BUFFER = 1024
"""Elements of numpy's own buffers for strided operands: they are the only memory that the firings
take beside the arena.
"""

SEGMENT = 64
"""Firings between two reports of progress."""

GUARD_BYTES = 4096
"""Bytes behind the arena that nothing may touch; a measured frame checks them."""


def aligned_bytes(size: int, alignment: int = 64) -> np.ndarray:
    """Uninitialised bytes that start at a multiple of `alignment`."""
    raw = np.empty(size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size]


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a frame really used, in bytes: the highest byte touched in the arena, and the most that
    Python and numpy had allocated beside it at one time: while firing, and in the whole call with
    the outputs that the caller gets (none where rows are handed on).
    """

    touched_bytes: int
    python_peak_bytes: int
    call_peak_bytes: int


@dataclass(frozen=True, slots=True)
class _Firing:
    """What a firing does: its own calls, those that store the rows of outputs that it completes, and
    those that keep tapped tensors.
    """

    calls: tuple[Call, ...]
    stored: tuple[Call, ...]
    deliveries: tuple[Delivery, ...]
    tapped: tuple[Call, ...]

    @property
    def storing(self) -> tuple[Call, ...]:
        """All calls where outputs are stored."""
        return *self.calls, *self.stored, *self.tapped


class Executable:
    """A compiled plan: call it with inputs, get the outputs of a frame.

    It has one arena, so that it runs one frame at a time: threads that share it wait for each
    other, and each gets its own outputs. For frames at the same time compile the plan once a
    thread: every program has an arena of its own; packed weights are shared.

    kernels: the backend. taps: tensors that are kept whole, see `taps`. watchers: by tensor, see
    `Watcher`; a tensor that nothing stores is none that could be watched. threads: that share a
    frame: native code large steps, numpy matrix products (those of phases are so small that sharing
    one among threads takes several times as long as computing it). memory: bytes for its arena, of which
    it uses the first, guard bytes behind it; its own by default. Who gives it takes care that programs which
    share it take turns.
    """

    def __init__(
        self,
        plan: Plan,
        taps: Iterable[str] = (),
        threads: int = 1,
        kernels: KernelSet = NUMPY,
        watchers: Mapping[str, Watcher] | None = None,
        memory: np.ndarray | None = None,
    ) -> None:
        self.plan = plan
        self._watchers = dict(watchers or {})
        self._one_frame = threading.Lock()
        self._pools, self._threads = ThreadpoolController(), threads
        kernels = kernels.shared(threads)
        self._program = lower(plan, kernels)
        self._memory = _memory_of(self._program, memory)
        self._sink: Sink = _nowhere
        self._running_in: int | None = None
        self._kernels, self._lends = kernels, bool(self._program.results)
        self._lent: weakref.ref[Any] | None = None
        tensors, images = plan.network.tensors, range(self._program.frames)
        self._input_ports: Ports = {
            (t.name, image): kernels.port(t.dtype) for t in plan.network.inputs for image in images
        }
        self._output_ports: Ports = {
            (output.name, image): kernels.port(output.tensor.dtype)
            for output in plan.network.outputs
            for image in images
            if output.tensor is not None
        }
        self._taps = {
            name: np.empty((_frames(plan), *tensors[name].storage_shape), tensors[name].dtype)
            for name in taps
        }
        self._bind()

    # Compiling -----------------------------------------------------------------------------------

    def _bind(self) -> None:
        """Bind every firing to the memory."""
        self._firings = tuple(self._bound())
        self.firings = len(self._firings)
        self._segments = self._storing = self._chained([one.storing for one in self._firings])
        self._handing_on: Segments | None = None

    @property
    def packed_bytes(self) -> int | None:
        """Bytes of weights as the kernels have them, beside those of the network; None where that is not
        known.
        """
        return self._kernels.packed(call for one in self._firings for call in one.calls)

    def _chained(self, per_firing: Sequence[Sequence[Call]]) -> Segments:
        """The calls of all firings, some firings at a time."""
        return [
            self._kernels.chained(
                [call for calls in per_firing[start : start + SEGMENT] for call in calls]
            )
            for start in range(0, len(per_firing), SEGMENT)
        ]

    def _bound(self) -> Iterator[_Firing]:
        """The calls of every firing."""
        known: dict[Hashable, tuple[Call, ...]] = {}
        program = self._program
        for firing, deliveries, (actor, phase) in zip(
            program.firings, program.deliveries, self.plan.order, strict=True
        ):
            calls: tuple[Call, ...] = ()
            if isinstance(firing, Feed):
                calls = self._fed(firing)
            elif isinstance(firing, Step):
                key = key_of(firing)
                if key not in known:
                    known[key] = tuple(self._kernels.bind(firing, self._memory))
                calls = known[key]
            tapped = self._tapped(self.plan.conversion.actor[actor], phase)
            stored = [call for one in deliveries for call in self._stored(one)]
            yield _Firing(calls, tuple(stored), deliveries, tuple(tapped))

    def _fed(self, feed: Feed) -> tuple[Call, ...]:
        """Calls that take rows of an input as they are needed, converted on the way."""
        port = self._input_ports[feed.tensor.name, feed.image]
        parts = (part.start for part in feed.part) if feed.part else (0,) * len(feed.target.shape)
        return tuple(port.taken((feed.rows.start, *parts), feed.target, self._memory))

    def _stored(self, one: Delivery) -> Sequence[Call]:
        """Calls that put rows of an output into the array that the caller gets."""
        port = self._output_ports[one.output, one.image]
        starts = (one.rows.start, *(0,) * len(one.source.shape))
        return port.given(starts, one.source, self._memory)

    def _handed_on(self) -> Segments:
        """The calls where rows go to a function of the caller; made when first asked for."""
        if self._handing_on is None:
            self._handing_on = self._chained(
                [
                    (
                        *one.calls,
                        *(call for rows in one.deliveries for call in self._delivered(rows)),
                        *one.tapped,
                    )
                    for one in self._firings
                ]
            )
        return self._handing_on

    def _delivered(self, one: Delivery) -> Iterator[Call]:
        """Calls that hand on rows of an output, those that lie evenly spaced together."""
        start, whole = one.rows.start, one.source
        for at in range(whole.count) if whole.pieces else ():
            pieces = [array_of(piece.part(at, at + 1), self._memory) for piece in whole.pieces]
            row = one.output, one.image, start + at, start + at + 1
            yield self._deliver_joined, (*row, pieces, 1 + whole.along)
        for a, b in () if whole.pieces else whole.runs:
            source = array_of(one.source.part(a, b), self._memory)
            source.flags.writeable = False
            yield self._deliver, (one.output, one.image, start + a, start + b, source)

    def _deliver(self, name: str, image: int, start: int, stop: int, rows: np.ndarray) -> None:
        self._sink(name, image, start, stop, rows)

    def _deliver_joined(
        self, name: str, image: int, start: int, stop: int, pieces: list[np.ndarray], along: int
    ) -> None:
        """Rows whose pieces lie in several buffers, as one array."""
        rows = np.concatenate(pieces, axis=along)
        rows.flags.writeable = False
        self._sink(name, image, start, stop, rows)

    def _tapped(self, work: ActorWork, phase: int) -> list[Call]:
        calls: list[Call] = []
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
                calls.extend((watcher, (rows,)) for rows in pieces_of(view, self._memory))
            if tap is not None:
                flat = tap.reshape(-1, *tap.shape[2:])
                calls.extend(copies(flat[from_:to], view, self._memory))
        return calls

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
                self._segments = self._storing if on_rows is None else self._handed_on()
                for first in range(0, network.batch, frames):
                    for tensor in network.inputs:
                        for image in range(frames):
                            one = _image(feeds[tensor.name], network, first + image)
                            self._input_ports[tensor.name, image].open(tensor.to_storage(one))
                    if on_rows is None:
                        self._open_outputs(outputs, first, out or {})
                    else:
                        self._sink = self._sent(on_rows, first)
                    with self._pools.limit(limits=self._threads, user_api="blas"):
                        fire(first)
                if on_rows is not None:
                    self._hand_on_constants(on_rows)
            finally:
                for port in (*self._input_ports.values(), *self._output_ports.values()):
                    port.open(None)
                self._sink, self._running_in = _nowhere, None
        return outputs

    def _fire(self, first: int, progress: Progress | None) -> None:
        rounds = self.plan.network.batch // self._program.frames
        total, done = self.firings * rounds, self.firings * (first // self._program.frames)
        with _silent():
            for index, segment in enumerate(self._segments):
                for function, arguments in segment:
                    function(*arguments)
                if progress is not None:
                    progress(done + min(self.firings, (index + 1) * SEGMENT), total)

    def time_firings(
        self, x: Inputs, clock: Callable[[], int] = perf_counter_ns
    ) -> tuple[int, ...]:
        """Run a frame (of a batch, its last images count) and tell when each firing ended by
        `clock`, the start in front.

        The calls are those of every frame, in their order; only the clock is read between firings.
        """
        times: list[int] = []

        def timed(first: int) -> None:
            per_firing = self._one_by_one
            times.clear()
            with _silent():
                times.append(clock())
                for firing in per_firing:
                    for function, arguments in firing:
                        function(*arguments)
                    times.append(clock())

        self._frame(x, timed)
        return tuple(times)

    @cached_property
    def _one_by_one(self) -> list[Sequence[Call]]:
        """The calls of every firing, as few as can be."""
        return [self._kernels.chained(one.storing) for one in self._firings]

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
        """An output where it lies in the arena, all images of a run."""
        owner: Any = self._lent() if self._lent is not None else None
        if owner is None:
            memory: Any = self._memory[view.pool]
            # alive as long as any array that looks at the arena through it
            owner = (ctypes.c_uint8 * memory.size).from_buffer(memory)
            self._lent = weakref.ref(owner)
        lent = np.frombuffer(owner, np.uint8)
        rows = array_of(view, {view.pool: lent})
        one = tensor.to_onnx(rows[: tensor.rows])
        if self._program.frames == 1:
            return one
        steps = tensor.rows * rows.strides[0], *one.strides[1:]
        return as_strided(one, (self._program.frames, *one.shape[1:]), steps)

    def _take_back(self) -> None:
        """The arena without outputs that were lent: if the caller still holds any they stay as they
        are, and so does the arena that they lie in.
        """
        if self._lent is not None and self._lent() is not None:
            self._lends = False
            self._memory = _memory_of(self._program)
            self._bind()
            self.__dict__.pop("_one_by_one", None)
        self._lent = None

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
                self._output_ports[output.name, image].open(output.tensor.to_storage(whole))

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
            self._handed_on()  # once for all frames
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
            (memory,) = self._memory.values()
            _fill(memory, pattern)
            tracemalloc.start()
            try:
                outputs = self._frame(x, traced, out, on_rows)
                whole = max(whole, tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
            touched = max(touched, _last_change(memory, pattern))
            if touched > planned:
                raise PlanError(
                    f"byte {touched} was written, the arena has {planned} ({GUARD_BYTES} guard bytes follow)"
                )
            if touched == planned:
                break
        return outputs, Measurement(touched, firing, whole)


def _memory_of(program: Program, given: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """The bytes of every pool, guard bytes behind them: of those that are given, or new ones."""
    if given is None:
        return {name: aligned_bytes(size + GUARD_BYTES) for name, size in program.pools.items()}
    ((name, size),) = program.pools.items()
    return {name: given[: size + GUARD_BYTES]}


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


def _fill(memory: np.ndarray, pattern: np.ndarray) -> None:
    memory[...] = np.resize(pattern, memory.size)


def _last_change(memory: np.ndarray, pattern: np.ndarray) -> int:
    """One more than the index of the last byte that differs from the pattern."""
    step = 1 << 20
    for start in range((memory.size - 1) // step * step, -1, -step):
        block = memory[start : start + step]
        changed = np.flatnonzero(block != np.resize(pattern, block.size))
        if changed.size:
            return start + int(changed[-1]) + 1
    return 0
