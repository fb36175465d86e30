"""Compiled plans as functions of arrays: inputs are checked, outputs are new arrays, arrays of the caller or views of the
arena, and threads wait for each other.

Rows of outputs are copied to arrays in the firing that completes them, or passed to a function of the caller, or stay in
the arena. The caller may keep views of the arena: if any are still referenced when the next frame starts, the program uses
another arena for it (`Executable._take_back`, docs/model.md).
"""

from __future__ import annotations

import operator
import os
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Lock, get_ident
from time import perf_counter_ns
from types import MappingProxyType

import numpy as np

from csdfgen.backends.registry import choose_backend
from csdfgen.emission.account import Account, account_memory
from csdfgen.errors import InputError, PlanError, option
from csdfgen.files import find_mapped_file
from csdfgen.lowering.weight_file import resident_bytes
from csdfgen.model.describe import format_repr, mebibytes
from csdfgen.model.given import name_arrays
from csdfgen.phases.graphs import fixed_inputs_json
from csdfgen.planning.plan import Plan
from csdfgen.program.steps import Backend, Compiling, Driven, End, Storage
from runtime.bound import BoundProgram, Progress, Watcher
from runtime.drawing import SYMMETRIC, input_ranges
from runtime.measurement import Measurement, measure_memory

__all__ = ["Driven", "Executable", "Inputs", "OnRows", "Turn"]

Inputs = np.ndarray | Mapping[str, np.ndarray]

OnRows = Callable[[str, int, int, int, np.ndarray], None]
"""(output, image of the batch, start, stop, rows): called with rows [start, stop) of an output as soon as they are computed,
for each image from the first row to the last. Rows are counted along `Tensor.row_axis`; an output without a row axis is
passed whole. The array has the output's axes, is read only, and is valid during the call only.
"""


class Executable:
    """A compiled plan: call it with inputs, get the outputs of a frame.

    It has one arena and executes one frame at a time: threads that share it wait for each other, and each receives its own
    outputs. For frames at the same time compile the plan once per thread: every program has its own arena, and packed
    weights are shared. After a fork the child has its own copy of the program and of its threads.

    kernels: the backend, by default the plan's. taps: tensors that are kept whole, see `taps`. watchers: by tensor, see
    `Watcher`; a tensor that is not stored cannot be watched. threads: number of threads that share a frame. Native code
    shares large steps among them, numpy matrix products; the products of a phase are so small that this takes several times
    as long as with one thread (see `csdfgen.backends.numpy.bound` for the programs that the number applies to). memory: as in
    `BoundProgram`; the caller must not execute two programs that share it at the same time.
    Raises what `lowering.program.lower` raises; InputError for invalid taps and threads.
    """

    def __init__(
        self,
        plan: Plan,
        taps: Iterable[str] = (),
        threads: int = 1,
        kernels: Backend | None = None,
        watchers: Mapping[str, Watcher] | None = None,
        memory: Storage | None = None,
    ) -> None:
        taps = tuple(taps)
        plan = plan.unrolled if taps or watchers else plan  # which need all rows of a tensor
        self.plan, self._threads = plan, _checked_threads(threads)
        self._kernels = (kernels or choose_backend(plan.options)).shared(self._threads)
        self._bound = bound = BoundProgram(plan, self._kernels, taps, watchers, memory)
        self._other: BoundProgram | None = None
        self.firings = bound.firings
        # programs that share memory would overwrite outputs that the caller still holds
        self._lends = bool(bound.results) and memory is None
        network, self._batch = plan.network, plan.network.batch
        self._inputs = [
            End(one.name, network.whole_shape(one), np.dtype(one.dtype)) for one in network.inputs
        ]
        self._outputs = []
        for one in network.outputs:
            shape, dtype = network.whole_form(one)
            self._outputs.append(End(one.name, shape, np.dtype(dtype), one.constant))
        self._turn = Turn()
        self._kept: tuple[np.ndarray, np.ndarray] | None = None

    def __repr__(self) -> str:
        return format_repr(
            "Executable",
            self.plan.network.name,
            backend=self._kernels.name,
            threads=self._threads,
            firings=self.firings,
            arena=mebibytes(self.plan.planned_bytes),
        )

    @property
    def account(self) -> Account:
        """The memory that the program needs in all, in bytes."""
        return account_memory(self.plan, self._bound.program)

    @property
    def packed_bytes(self) -> int | None:
        """Bytes of weights in the layout of the kernels, in addition to those of the network; None if unknown."""
        return self._bound.program.constants.packed_bytes or None

    @property
    def weight_bytes(self) -> tuple[int, int | None]:
        """Bytes of all that the program only reads, and how many of them are in memory now; None where the system does not
        say. Weights that are mapped come to memory when they are read.
        """
        arrays = self._bound.weights
        return sum(one.nbytes for one in arrays), resident_bytes(arrays)

    @property
    def mapped(self) -> bool:
        """Whether such weights are in files."""
        return any(map(find_mapped_file, self._bound.weights))

    @property
    def driven(self) -> Driven | None:
        """What a device has done for the program in its present memory; None where processors of the host compute."""
        return self._bound.driven

    @property
    def branches(self) -> dict[str, tuple[int, int]]:
        """Name of an If -> for how many images its condition was true, and false, in all frames so far."""
        return self._bound.branches

    def force(self, conditions: Mapping[str, bool]) -> None:
        """Take these branches in all further frames: name of an If -> whether its condition holds. For comparisons; what
        else reads a condition reads what was computed for it.
        """
        self._bound.force(conditions)
        self._other = None

    @property
    def left_out(self) -> frozenset[int]:
        """The firings of branches that were not taken in the last run."""
        return self._bound.left_out

    @property
    def taps(self) -> Mapping[str, np.ndarray]:
        """The tapped tensors of the last run, in ONNX axis order, with its images along axis 0."""
        return self._bound.taps()

    def save(self, path: str | Path, about: Mapping[str, object] = MappingProxyType({})) -> int:
        """Write a compiled program, see `csdfgen.open`; returns the bytes of the file. about: more that it tells of itself, as
        JSON. Raises PlanError for what native code alone does not compute, InputError for a file that cannot be written.
        """
        if not isinstance(self._kernels, Compiling):
            raise PlanError(
                f"{option('backend', self._kernels.name)} writes no compiled programs; make the plan without it"
            )
        from csdfgen.reading.zoo import input_span

        plan, network = self.plan, self.plan.network
        about = {
            "network": network.name, "batch": self._batch, "options": plan.options.to_json(),
            "shapes": {one.name: one.shape for one in self._inputs}, "fixed": fixed_inputs_json(network),
            "firings": self.firings, "memory": dict(plan.figures),
            "inputs": input_ranges(network, input_span(network.source) or SYMMETRIC), **about,
        }  # fmt: skip
        program = self._bound.program
        return self._kernels.write(path, program, self._inputs, self._outputs, self._batch, about)

    # Frames --------------------------------------------------------------------------------------

    def __call__(
        self,
        x: Inputs,
        progress: Progress | None = None,
        out: Mapping[str, np.ndarray] | None = None,
        on_rows: OnRows | None = None,
    ) -> dict[str, np.ndarray]:
        """Execute a frame (all images of the batch) and return the outputs by name.

        x: one array, or arrays by input name. out: arrays by output name that the results are written into, of their shapes
        and types. Other outputs are new arrays; in a plan with `result="arena"` they are views of the arena, which need no
        further memory if the caller releases them before the next frame. on_rows: receives the rows of all outputs as they
        are computed (see `OnRows`); no output is then stored, and the result is empty. An exception in it ends the frame.
        progress: called with the number of firings done, and of all firings. Raises InputError if arrays do not fit.
        """
        if on_rows is None and progress is None:
            return self._frame(x, out, None, None)
        return self._frame(x, out, on_rows, lambda first: self._run(first, on_rows, progress))

    def run_into(self, x: np.ndarray, out: np.ndarray) -> None:
        """Execute a frame of a network with one input and one output, for loops that use the same two arrays again and again.

        x, out: as in a call. They stay in use until the next frame: with the arrays of the last call nothing is checked or
        opened again, and a frame costs little more than its kernels. Raises InputError if they do not fit.
        """
        with self._turn:
            kept = self._kept
            if kept is None or kept[0] is not x or kept[1] is not out:
                self._keep(x, out)
            self._bound.run()

    def _keep(self, x: np.ndarray, out: np.ndarray) -> None:
        """Open two arrays for this frame and those to come."""
        self._kept = None
        if (
            len(self._inputs) != 1
            or len(self._outputs) != 1
            or self._outputs[0].constant is not None
        ):
            raise InputError(
                f"run_into takes one input and one output, the network has {len(self._inputs)} and {len(self._outputs)}; "
                "call the program with out="
            )
        if self._bound.images != self._batch:
            raise InputError(
                f"run_into takes the images of one run, {self._bound.images}, not a batch of {self._batch}; call the "
                "program with out="
            )
        if not isinstance(x, np.ndarray):
            raise InputError(f"x is a {type(x).__name__}; an array is needed")
        feeds, filled = self.checked(x), {self._outputs[0].name: out}
        self._check_out(filled, None)
        self._take_back()
        self._open(feeds, False, 0)
        self._open(filled, True, 0)
        self._kept = x, out

    def time_firings(
        self, x: Inputs, clock: Callable[[], int] = perf_counter_ns, *, alone: bool = False
    ) -> tuple[int, ...]:
        """Execute a frame; returns `clock` at the start and after each firing (of the last run of a batch), or the clock of
        the device that computes.

        The calls are those of any frame in the same order, with a reading of the clock between firings; on a device every
        firing is launched by itself, behind a frame whose time they are reduced to unless they are timed `alone`.
        """
        times: list[int] = []

        def timed(first: int) -> None:
            times[:] = self._bound.time(clock, alone)

        self._frame(x, None, None, timed)
        return tuple(times)

    def measure(
        self, x: Inputs, out: Mapping[str, np.ndarray] | None = None, on_rows: OnRows | None = None
    ) -> tuple[dict[str, np.ndarray], Measurement]:
        """Execute a frame once or twice, and measure its memory, see `measurement.measure_memory`.

        x, out, on_rows: as in a call. Raises PlanError if bytes after the arena were written.
        """

        def filled(pattern: np.ndarray) -> None:
            self._take_back()
            self._bound.prepared(self.firings, on_rows is not None)  # not measured
            self._bound.fill(pattern)

        return measure_memory(
            self.plan.planned_bytes,
            filled,
            lambda fire: self._frame(x, out, on_rows, fire),
            lambda first: self._run(first, on_rows, None),
            lambda pattern: self._bound.touched(pattern),
        )

    def _frame(
        self,
        x: Inputs,
        out: Mapping[str, np.ndarray] | None,
        on_rows: OnRows | None,
        fire: Callable[[int], None] | None,
    ) -> dict[str, np.ndarray]:
        """A frame as in a call. fire: executes a run, given the index of its first image (see `_run`); None: without a sink
        and progress.
        """
        feeds = self.checked(x)
        if out is not None:
            self._check_out(out, on_rows)
        outputs: dict[str, np.ndarray] = {}
        with self._turn:
            self._kept = None
            self._take_back()
            bound, filled = self._bound, outputs
            if on_rows is None:
                outputs, filled = self._arrays(out or {})
            try:
                for first in range(0, self._batch, bound.images):
                    self._open(feeds, False, first)
                    self._open(filled, True, first)
                    if fire is None:
                        bound.run()
                    else:
                        fire(first)
            finally:
                bound.close()
            if on_rows is not None:
                self._hand_on_constants(on_rows)
                return outputs
            return {
                end.name: outputs[end.name] if end.name in outputs else bound.lend(end.name)
                for end in self._outputs
            }

    def _open(self, arrays: Mapping[str, np.ndarray], output: bool, first: int) -> None:
        """Open the parts of whole arrays that belong to the run which starts with image `first`."""
        open_ = self._bound.open
        for name, whole in arrays.items():
            if self._batch == 1:
                open_(name, 0, output, whole)
                continue
            for image in range(self._bound.images):
                at = first + image
                open_(name, image, output, whole[at : at + 1])

    def _run(self, first: int, on_rows: OnRows | None, progress: Progress | None) -> None:
        """Execute one run of a frame, on the images that start with `first`; their arrays are open."""
        runs = self._batch // self._bound.images
        before = self.firings * (first // self._bound.images)

        def reported(done: int, of_run: int) -> None:
            assert progress is not None
            progress(before + done, of_run * runs)

        def hand_on(name: str, image: int, start: int, stop: int, rows: np.ndarray) -> None:
            assert on_rows is not None
            on_rows(name, first + image, start, stop, rows)

        self._bound.run(hand_on if on_rows else None, reported if progress else None)

    # Inputs and outputs --------------------------------------------------------------------------

    def checked(self, x: Inputs) -> dict[str, np.ndarray]:
        """The given inputs by name. Raises InputError for shapes or types that do not fit."""
        feeds = name_arrays(x, [end.name for end in self._inputs])
        for end in self._inputs:
            array = feeds[end.name]
            if array.shape != end.shape:
                raise InputError(
                    f"input '{end.name}' has shape {array.shape}, the network takes {end.shape}; "
                    f"load it with {option('shapes')}"
                )
            if array.dtype != end.dtype and not np.can_cast(array.dtype, end.dtype, "same_kind"):
                raise InputError(
                    f"input '{end.name}' is {array.dtype}, the network takes {end.dtype}"
                )
        return feeds

    def _check_out(self, out: Mapping[str, np.ndarray], on_rows: OnRows | None) -> None:
        """Raises InputError unless `out` is a mapping of arrays with the shapes and types of outputs."""
        if on_rows is not None:
            raise InputError("out and on_rows are given; rows are either stored or handed on")
        names = [end.name for end in self._outputs]
        if not isinstance(out, Mapping):
            raise InputError(
                f"out is a {type(out).__name__}; a dict of arrays by output name is needed, such as "
                f"{{{names[0]!r}: array}}"
            )
        unknown = sorted(str(name) for name in out if name not in names)
        if unknown:
            raise InputError(
                f"out names '{unknown[0]}', which is no output of the network; it has {', '.join(names)}"
            )
        for end in self._outputs:
            array = out.get(end.name)
            if array is None:
                continue
            if not isinstance(array, np.ndarray):
                raise InputError(
                    f"out['{end.name}'] is a {type(array).__name__}; an array, {end.dtype} {end.shape}, is needed"
                )
            flags = array.flags
            usable = flags.writeable and flags.aligned
            if array.shape != end.shape or array.dtype != end.dtype or not usable:
                lacking = "" if usable else ", not aligned" if flags.writeable else ", read only"
                raise InputError(
                    f"out['{end.name}'] is {array.dtype} {array.shape}{lacking}; "
                    f"{end.dtype} {end.shape} is needed"
                )

    def _arrays(
        self, given: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """An array (the caller's, or a new one) for every output that is not lent when the run has ended, and those of them
        that runs fill.
        """
        found: dict[str, np.ndarray] = {}
        filled: dict[str, np.ndarray] = {}
        for end in self._outputs:
            array = given.get(end.name)
            if array is None and self._lends and end.name in self._bound.results:
                continue
            found[end.name] = array = np.empty(end.shape, end.dtype) if array is None else array
            if end.constant is None:
                filled[end.name] = array
            else:
                np.copyto(array, end.constant)
        return found, filled

    def _take_back(self) -> None:
        """Continue in an arena without outputs that the caller still holds: this one, the previous one, or a new one.

        If a caller holds outputs until the next ones are computed (`y = frame(x)` in a loop), frames alternate between two
        arenas, provided that these take no more than one arena and two arrays of each output; no row is then copied. If
        outputs are held longer, they keep their arenas, and all further outputs are new arrays.
        """
        bound, other = self._bound, self._other
        if bound.is_free():
            return
        in_turn = 2 * self.plan.network.output_bytes >= self.plan.planned_bytes
        if other is not None and other.is_free():
            self._bound, self._other = other, bound
        elif other is None and in_turn:
            self._bound, self._other = bound.elsewhere(), bound
        else:
            self._bound, self._other, self._lends = bound.elsewhere(), None, False

    def _hand_on_constants(self, on_rows: OnRows) -> None:
        """Pass the outputs that no layer computes as a whole, as image 0."""
        for end in self._outputs:
            if end.constant is not None:
                whole = end.constant.view()
                whole.flags.writeable = False
                on_rows(end.name, 0, 0, 1, whole)


def _checked_threads(threads: object) -> int:
    """A number of threads. Raises InputError."""
    try:
        number = operator.index(threads)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1:
        raise InputError(f"{option('threads', threads)}: a whole number from 1 on is needed")
    return number


# Threads that wait for each other -----------------------------------------------------------------


class Turn:
    """A lock of a program. After a fork it is free in the child unless the forking thread holds it, because no other thread
    of the parent exists there to release it. owner: the thread that holds it. Raises InputError for a thread that has it.
    """

    def __init__(self) -> None:
        self.owner: int | None = None
        self._lock = Lock()
        _TURNS.add(self)

    def __enter__(self) -> None:
        me = get_ident()
        if self.owner == me:
            raise InputError(
                "called from within its own frame; compile the plan once more for that"
            )
        self._lock.acquire()
        self.owner = me

    def __exit__(self, *error: object) -> None:
        self.owner = None
        self._lock.release()

    def after_fork(self) -> None:
        """Release the lock in the child of a fork, unless the forking thread holds it."""
        if self.owner != get_ident():
            self.owner, self._lock = None, Lock()


_TURNS: weakref.WeakSet[Turn] = weakref.WeakSet()


def _after_fork() -> None:
    for turn in list(_TURNS):
        turn.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
