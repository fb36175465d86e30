"""How does a plan become a frame? A flat list of prepared calls on one arena.

Compiling follows the firings of the plan once: it checks every read and claim (`buffers.Ledger`),
cuts phases where a rolling buffer wraps, lets each operator's kernel emit its calls for the
addresses at hand, and keeps them in order. Running a frame is then one loop over prepared calls;
nothing is looked up, no shape is computed, and kernels work in the arena and in one workspace
(docs/model.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from time import perf_counter_ns
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from csdfgen.errors import InputError, PlanError, ScheduleError, option
from csdfgen.model.network import Layer, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops import operator_of
from csdfgen.ops.base import Call, CountingScratch, Mode, Phase, Scratch, presented, stored_rows
from csdfgen.phases.conversion import ActorWork
from csdfgen.planning.plan import Plan
from runtime.buffers import GUARD_BYTES, Buffers, Ledger, aligned_bytes

__all__ = ["Measurement", "Program", "compile_plan", "workspace_bytes"]

Progress = Callable[[int, int], None]
"""(firings done, firings in all)"""

UFUNC_BUFFER = 1024
"""Elements of numpy's own buffers for strided operands: they are the only memory a frame takes
beside arena and workspace.
"""

SEGMENT = 64
"""Firings between two reports of progress."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a frame really used: the highest byte touched in the arena, and Python's allocations in
    the firing loop.
    """

    touched_bytes: int
    python_peak_bytes: int


class _Compiler:
    """Turns firings into calls; with `taps`, also copies what was just written of these tensors."""

    def __init__(
        self, plan: Plan, scratch: Callable[[], Scratch], taps: Iterable[str] = ()
    ) -> None:
        self.plan = plan
        self.buffers = Buffers(plan)
        self.ledger = Ledger(plan)
        self.scratch = scratch
        self.workspace = 0
        self.images: dict[str, np.ndarray] = {}
        self.taps = {
            name: np.empty(
                plan.network.tensors[name].storage_shape, plan.network.tensors[name].dtype
            )
            for name in taps
        }
        self._cache: dict[tuple[Any, ...], tuple[Call, ...]] = {}
        self._next = {work.name: 0 for work in plan.conversion.actors}

    def firings(self) -> list[tuple[Call, ...]]:
        """The calls of every firing of the plan, in order; ScheduleError if an actor's phases are
        not all there.
        """
        actors = self.plan.conversion.actor
        out = []
        for name, phase in self.plan.order:
            work = actors.get(name)
            if work is None:
                raise ScheduleError(
                    f"the schedule fires '{name}', which is no actor of this network at these options"
                )
            if phase != self._next[name] or phase >= len(work.phases):
                raise ScheduleError(
                    f"the schedule fires {name}[{phase}] where phase {self._next[name]} of {len(work.phases)} comes next"
                )
            self._next[name] += 1
            self.ledger.read(work, phase)
            self.ledger.claim(work, phase)
            calls = self._calls(work, phase)
            self.ledger.finish(work, phase)
            out.append(calls + self._tapped(work, phase))
        for name, count in self._next.items():
            if count != len(actors[name].phases):
                raise ScheduleError(
                    f"the schedule fires {count} phases of '{name}', it has {len(actors[name].phases)}"
                )
        return out

    def _tapped(self, work: ActorWork, phase: int) -> tuple[Call, ...]:
        calls: list[Call] = []
        for write in work.writes:
            tap = self.taps.get(write.tensor.name)
            if tap is not None:
                before = write.complete[phase - 1] if phase else 0
                for piece in self.buffers.pieces(write.tensor, Rows(before, write.complete[phase])):
                    calls.append(
                        (
                            np.copyto,
                            (tap[piece.start : piece.stop], self.buffers.view(write.tensor, piece)),
                        )
                    )
        return tuple(calls)

    def _calls(self, work: ActorWork, phase: int) -> tuple[Call, ...]:
        if work.kind == "input":
            tensor = work.writes[0].tensor
            return tuple(
                (
                    self._feed,
                    (self.buffers.view(tensor, piece), tensor.name, piece.start, piece.stop),
                )
                for piece in self.buffers.pieces(tensor, work.phases[phase].out)
            )
        if work.kind == "output" or work.name in self.plan.placement.silent:
            return ()
        assert work.layer is not None
        key = self._key(work, phase)
        if key is not None and key in self._cache:
            return self._cache[key]
        calls: list[Call] = []
        for part in self._parts(work.layer, work.phases[phase]):
            calls.extend(self._emit(work, work.layer, part))
        done = tuple(calls)
        if key is not None:
            self._cache[key] = done
        return done

    def _feed(self, target: np.ndarray, name: str, start: int, stop: int) -> None:
        np.copyto(target, self.images[name][start:stop])

    def _key(self, work: ActorWork, phase: int) -> tuple[Any, ...] | None:
        """Phases with equal keys have equal calls: the same slots, and no border of the map in
        sight.
        """
        layer = work.layer
        assert layer is not None
        if not all(operator_of(one).repeats(one) for one in (layer, *layer.epilogue)):
            return None
        if operator_of(layer).mode(layer) is not Mode.ROWS or phase in (0, len(work.phases) - 1):
            return None
        out = work.phases[phase].out
        shape: list[int] = [len(out), *(self.buffers.slot(t, out.start) for t in layer.outputs)]
        for read in work.reads:
            rows = read.rows[phase]
            whole = (
                operator_of(layer).rowwise and len(rows) == read.tensor.rows
            )  # of a window, all rows means both borders
            if not whole and (rows.start == 0 or rows.stop == read.tensor.rows):
                return None
            shape.extend((len(rows), self.buffers.slot(read.tensor, rows.start), whole))
        return (work.name, *shape)

    def _parts(self, layer: Layer, phase: Phase) -> list[Phase]:
        """The phase cut so that no output wraps, and no input either where rows are independent."""
        operator = operator_of(layer)
        mode = operator.mode(layer)
        if mode is Mode.WHOLE:
            return [phase]
        if mode is Mode.ACCUMULATE:
            return self._accumulating_parts(layer, phase, operator.accumulate_over)
        cuts = {phase.out.start, phase.out.stop}
        for tensor in layer.outputs:
            cuts.update(piece.stop for piece in self.buffers.pieces(tensor, phase.out))
        if operator.rowwise:
            for operand, rows in zip(layer.inputs, phase.ins, strict=True):
                if operand is not None and rows == phase.out and operand.rows == layer.output.rows:
                    cuts.update(piece.stop for piece in self.buffers.pieces(operand, rows))
        edges = sorted(cuts)
        outs = [Rows(a, b) for a, b in pairwise(edges)]
        if len(outs) == 1:
            return [phase]
        return [
            Phase(out, operator.input_rows(layer, out), phase.first, phase.last) for out in outs
        ]

    def _accumulating_parts(self, layer: Layer, phase: Phase, over: int) -> list[Phase]:
        tensor, rows = layer.inputs[over], phase.ins[over]
        assert tensor is not None and rows is not None
        if stored_rows(layer, over, rows) != rows:
            return [phase]
        pieces = self.buffers.pieces(tensor, rows)
        last = len(pieces) - 1
        return [
            Phase(
                phase.out,
                (*phase.ins[:over], piece, *phase.ins[over + 1 :]),
                phase.first and i == 0,
                phase.last and i == last,
            )
            for i, piece in enumerate(pieces)
        ]

    def _emit(self, work: ActorWork, layer: Layer, phase: Phase) -> list[Call]:
        scratch = self.scratch()
        calls: list[Call] = []
        slabs = [
            None if rows is None else self._slab(layer, position, rows, scratch, calls)
            for position, rows in enumerate(phase.ins)
        ]
        results = [self.buffers.view(tensor, phase.out) for tensor in layer.outputs]
        calls.extend(self.plan.kernel(work)(phase, slabs, results, scratch))
        if operator_of(layer).mode(layer) is not Mode.ACCUMULATE or phase.last:
            for number, after in enumerate(layer.epilogue):
                calls.extend(self._epilogue(work, after, number, phase.out, results[0], scratch))
        calls = [prepared for call in calls for prepared in _in_place(call, scratch)]
        self.workspace = max(self.workspace, scratch.used)
        return calls

    def _epilogue(
        self,
        work: ActorWork,
        after: Layer,
        number: int,
        out: Rows,
        result: np.ndarray,
        scratch: Scratch,
    ) -> Iterable[Call]:
        operator = operator_of(after)
        ins = operator.input_rows(after, out)
        kernel = self.plan.epilogue_kernel(work, after, number)
        return kernel(
            Phase(out, ins), [None if rows is None else result for rows in ins], [result], scratch
        )

    def _slab(
        self, layer: Layer, position: int, rows: Rows, scratch: Scratch, calls: list[Call]
    ) -> np.ndarray:
        """The rows as the layer wants to see them; gathered in the workspace if they wrap in their
        buffer.
        """
        tensor = layer.inputs[position]
        assert tensor is not None
        stored = stored_rows(layer, position, rows)
        pieces = self.buffers.pieces(tensor, stored)
        if len(pieces) == 1:
            return presented(self.buffers.view(tensor, stored), layer, position, rows)
        gathered = scratch.take((len(stored), *tensor.row_shape), tensor.dtype)
        for piece in pieces:
            target = gathered[piece.start - stored.start : piece.stop - stored.start]
            calls.append((np.copyto, (target, self.buffers.view(tensor, piece))))
        return presented(gathered, layer, position, rows)


def _in_place(call: Call, scratch: Scratch) -> tuple[Call, ...]:
    """A copy as it is to run when tensors share storages: not at all if the operand already lies
    there (a Concat that is a view), through the workspace if the two may interleave: numpy then
    would go through memory of its own.
    """
    function, arguments = call
    if function is not np.copyto or not isinstance(arguments[1], np.ndarray) or len(arguments) > 2:
        return (call,)
    target, source = arguments
    if target.ctypes.data == source.ctypes.data and _steps(target) == _steps(source):
        return ()
    if target.dtype != source.dtype or not np.may_share_memory(target, source):
        return (call,)
    between = scratch.take(source.shape, source.dtype)
    return (np.copyto, (between, source)), (np.copyto, (target, between))


def _steps(array: np.ndarray) -> list[tuple[int, int]]:
    """(size, stride) of every dimension that is stepped along."""
    return [
        (size, stride) for size, stride in zip(array.shape, array.strides, strict=True) if size > 1
    ]


def workspace_bytes(plan: Plan) -> int:
    """Workspace that the plan's kernels take: counted by compiling it without a workspace."""
    compiler = _Compiler(plan, CountingScratch)
    compiler.firings()
    return compiler.workspace


class Program:
    """A compiled plan: call it with inputs, get the outputs of a frame.

    threads: of a matrix product. Products of phases are so small that sharing one among threads
    takes several times as long as computing it.
    """

    def __init__(self, plan: Plan, taps: Iterable[str] = (), threads: int = 1) -> None:
        self.plan = plan
        self._pools, self._threads = ThreadpoolController(), threads
        size = plan.figures["workspace"]
        self._workspace = aligned_bytes(size)
        self._compiler = _Compiler(plan, lambda: Scratch(self._workspace), taps)
        per_firing = self._compiler.firings()
        self.firings = len(per_firing)
        self._calls = tuple(map(len, per_firing))
        self._segments = [
            [call for calls in per_firing[start : start + SEGMENT] for call in calls]
            for start in range(0, self.firings, SEGMENT)
        ]
        self._buffers = self._compiler.buffers

    @property
    def taps(self) -> Mapping[str, np.ndarray]:
        """The tapped tensors of the last image, in ONNX axis order."""
        tensors = self.plan.network.tensors
        return {name: tensors[name].to_onnx(array) for name, array in self._compiler.taps.items()}

    def __call__(
        self, x: np.ndarray | Mapping[str, np.ndarray], progress: Progress | None = None
    ) -> dict[str, np.ndarray]:
        """Run a frame (all images of the batch). x: one array, or arrays by input name; InputError
        if they do not fit.
        """
        return self._frame(x, lambda image: self._fire(image, progress))

    def _frame(
        self, x: np.ndarray | Mapping[str, np.ndarray], fire: Callable[[int], None]
    ) -> dict[str, np.ndarray]:
        network = self.plan.network
        feeds = self.checked(x)
        outputs = {o.name: self._empty(o.tensor, o.constant) for o in network.outputs}
        for image in range(network.batch):
            for tensor in network.inputs:
                whole = feeds[tensor.name]
                one = whole if network.batch == 1 else whole[image : image + 1]
                self._compiler.images[tensor.name] = tensor.to_storage(one)
            with self._pools.limit(limits=self._threads, user_api="blas"):
                fire(image)
            self._collect(outputs, image)
        return outputs

    def _fire(self, image: int, progress: Progress | None) -> None:
        total = self.firings * self.plan.network.batch
        before = np.setbufsize(UFUNC_BUFFER)
        try:
            with np.errstate(
                all="ignore"
            ):  # an overflow is a value (infinity) in ONNX, not a warning
                for index, segment in enumerate(self._segments):
                    for function, arguments in segment:
                        function(*arguments)
                    if progress is not None:
                        progress(
                            image * self.firings + min(self.firings, (index + 1) * SEGMENT), total
                        )
        finally:
            np.setbufsize(before)

    def time_firings(
        self, x: np.ndarray | Mapping[str, np.ndarray], clock: Callable[[], int] = perf_counter_ns
    ) -> tuple[int, ...]:
        """Run a frame (of a batch, its last image counts) and tell when each firing ended by
        `clock`, the start in front.

        The calls are those of every frame, in their order; only the clock is read between firings.
        """
        times: list[int] = []

        def timed(image: int) -> None:
            per_firing = self._per_firing
            before = np.setbufsize(UFUNC_BUFFER)
            times.clear()
            try:
                with np.errstate(all="ignore"):
                    times.append(clock())
                    for firing in per_firing:
                        for function, arguments in firing:
                            function(*arguments)
                        times.append(clock())
            finally:
                np.setbufsize(before)

        self._frame(x, timed)
        return tuple(times)

    @cached_property
    def _per_firing(self) -> tuple[tuple[Call, ...], ...]:
        calls = iter([call for segment in self._segments for call in segment])
        return tuple(tuple(islice(calls, count)) for count in self._calls)

    def _empty(self, tensor: Tensor | None, constant: np.ndarray | None) -> np.ndarray:
        if tensor is None:
            assert constant is not None
            return constant.copy()
        batch = self.plan.network.batch
        shape = tensor.shape if batch == 1 else (batch, *tensor.shape[1:])
        return np.empty(shape, tensor.dtype)

    def _collect(self, outputs: Mapping[str, np.ndarray], image: int) -> None:
        network = self.plan.network
        for output in network.outputs:
            tensor = output.tensor
            if tensor is not None:
                stored = self._buffers.view(tensor, Rows(0, tensor.rows))
                target = outputs[output.name]
                np.copyto(
                    target if network.batch == 1 else target[image : image + 1],
                    tensor.to_onnx(stored),
                )

    def checked(self, x: np.ndarray | Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The inputs by name with the network's dtypes; InputError naming shapes that do not fit."""
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
            shape = tensor.shape if network.batch == 1 else (network.batch, *tensor.shape[1:])
            if array.shape != shape:
                raise InputError(
                    f"input '{tensor.name}' has shape {array.shape}, the network takes {shape}; load it with {option('shapes')}"
                )
            if array.dtype != tensor.dtype and not np.can_cast(
                array.dtype, tensor.dtype, "same_kind"
            ):
                raise InputError(
                    f"input '{tensor.name}' is {array.dtype}, the network takes {tensor.dtype}"
                )
            feeds[tensor.name] = array.astype(tensor.dtype, copy=False)
        return feeds

    def measure(
        self, x: np.ndarray | Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], Measurement]:
        """Run a frame and measure it: which arena bytes change, and what Python allocates while
        firing.

        The arena is filled with a pattern first; a byte that keeps it was not touched. Should a
        result happen to equal the pattern at the end of the arena, the complement tells. Bytes
        behind the arena must keep theirs: PlanError otherwise.
        """
        import tracemalloc

        peak = 0

        def traced(image: int) -> None:
            nonlocal peak
            tracemalloc.start()
            try:
                self._fire(image, None)
                peak = max(peak, tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()

        touched = 0
        outputs: dict[str, np.ndarray] = {}
        for pattern in (_PATTERN, ~_PATTERN):
            _fill(self._buffers.memory, pattern)
            outputs = self._frame(x, traced)
            touched = max(touched, _last_change(self._buffers.memory, pattern))
            if touched > self.plan.planned_bytes:
                raise PlanError(
                    f"byte {touched} was written, the arena has {self.plan.planned_bytes} ({GUARD_BYTES} guard bytes follow)"
                )
            if touched == self.plan.planned_bytes:
                break
        return outputs, Measurement(touched, peak)


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


def compile_plan(plan: Plan, taps: Iterable[str] = (), threads: int = 1) -> Program:
    """Compile a plan into a program; ScheduleError or CapacityExceededError if its schedule is not
    sound.
    """
    return Program(plan, taps, threads)
