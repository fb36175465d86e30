"""How does numpy run a program? Prepared calls over arrays, and copies between the caller's arrays and memory.

The operators' kernels end in a small vocabulary (`csdfgen.ops.primitives`): ufuncs, with `.reduce`, `.accumulate` and `.at`,
copies, products, choices. An instruction names one of these; an array among its arguments is an `Array` among the
fields, and its place is among the references, in the same order.

Numpy keeps its error state and the size of its buffers in context variables: calls run in a context that is
made once, so that a frame sets nothing and the caller's settings stay as they are. BLAS libraries have one
number of threads for the whole process. It is set when a program runs that wants another number than the
one before, and restored when the last program that calls numpy is gone (docs/decisions/0032-numpy-settings.md).
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import Context
from functools import lru_cache, partial
from typing import Any

import numpy as np

from csdfgen.backends.numpy.arrays import HostMemory, place_rows
from csdfgen.errors import PlanError
from csdfgen.ops import primitives
from csdfgen.ops.functions import call_function
from csdfgen.ops.scan import run_turns
from csdfgen.program.instructions import CALLED, WEIGHTS, Array, Constants, Instruction, Ref
from csdfgen.program.steps import Call, Code, Move

_TAKE, _GIVE = "port.take", "port.give"


def moves(move: Move) -> list[Instruction]:
    """Copies of rows, run by run of every piece."""
    kernel = _GIVE if move.output else _TAKE
    dtype = move.view.format.dtype
    return [
        Instruction(kernel, (move.port, at, Array(shape, strides, dtype)), (place,))
        for at, place, shape, strides in place_rows(move.starts, move.view)
    ]


class NumpyBound:
    """A program in arrays of this process, see `Bound`. threads: of BLAS libraries while it runs."""

    driven = None

    def __init__(
        self, program: Code, memory: HostMemory, constants: Constants, threads: int = 1
    ) -> None:
        self._threads, self._forms = threads, program.ports
        self._ports: list[_Opened | None] = [None] * len(program.ports)
        BLAS.join(self)
        self._calls: list[Call] = [
            self._moved(one, memory, constants)
            if one.kernel in (_TAKE, _GIVE)
            else bind_call(one, memory, constants)
            for one in program.instructions
        ]

    def open(self, port: int, array: np.ndarray | None, first: int = 0) -> None:
        """See `Bound.open`."""
        self._ports[port] = None if array is None else (self._forms[port].stored(array), first)

    def prepared(self, numbers: Sequence[int]) -> Callable[[], None]:
        """See `Bound.prepared`."""
        return partial(call_all, [self._calls[number] for number in numbers], self._threads)

    def wait(self) -> None:
        """See `Bound.wait`: what was started has ended."""

    def mark(self) -> None:
        """See `Bound.mark`."""

    def _moved(self, made: Instruction, memory: HostMemory, constants: Constants) -> Call:
        port, starts, array = made.fields
        rows = _array_at(array, made.refs[0], memory, constants)
        part = tuple(
            slice(start, start + size) for start, size in zip(starts, rows.shape, strict=True)
        )
        # no methods: calls that hold the program that holds them would keep its memory until the next collection
        return (_taken if made.kernel == _TAKE else _given), (self._ports, port, rows, part)


_Opened = tuple[np.ndarray, int]
"""An array in storage order, and the row of the port that is its first."""


def _taken(
    ports: Sequence[_Opened | None], port: int, target: np.ndarray, part: tuple[slice, ...]
) -> None:
    opened = ports[port]
    if opened is not None:
        np.copyto(target, _part_of(opened, part), "same_kind")


def _given(
    ports: Sequence[_Opened | None], port: int, source: np.ndarray, part: tuple[slice, ...]
) -> None:
    opened = ports[port]
    if opened is not None:
        np.copyto(_part_of(opened, part), source)


def _part_of(opened: _Opened, part: tuple[slice, ...]) -> np.ndarray:
    (array, first), (rows, *rest) = opened, part
    there = slice(rows.start - first, rows.stop - first), *rest
    return array[there]


# Prepared calls as instructions, and back ---------------------------------------------------------

_NAMES: dict[Any, str] = {
    np.copyto: "copyto", np.take: "take", np.argmax: "argmax", np.argmin: "argmin", np.ndarray.clip: "clip",
    np.ndarray.fill: "fill", primitives.maximum: "maximum", primitives.minimum: "minimum",
    primitives.negative: "negative", primitives.einsum: "einsum", primitives.look_up: "looked_up",
    primitives.pick_elements: "picked", primitives.scatter: "scattered", primitives.rank_elements: "ranked",
    primitives.nonzero: "nonzero", primitives.suppress_boxes: "suppressed",
    primitives.walk_trees: "walked", primitives.align_regions: "aligned",
    call_function: CALLED, run_turns: "turns",
}  # fmt: skip
"""Functions that are no ufuncs -> their kernels."""

_FUNCTIONS = {name: function for function, name in _NAMES.items()}


def record_call(call: Call, constants: Constants) -> Instruction:
    """A prepared call on arrays in memory that nobody touches, as an instruction. Raises PlanError for a function that is
    none of the vocabulary.
    """
    function, arguments = call
    kernel = _NAMES.get(function, "")
    if not kernel:
        owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
        if isinstance(function, np.ufunc):
            kernel = name
        elif isinstance(owner, np.ufunc):
            kernel = f"{owner.__name__}.{name}"
        elif isinstance(owner, np.ndarray) and name == "fill":
            kernel, arguments = "fill", (owner, *arguments)
        else:
            raise PlanError(f"a prepared call of {name or function} has no kernel")
    fields: list[Any] = []
    refs: list[Ref | None] = []
    for one in arguments:
        if isinstance(one, np.ndarray):
            array, ref = constants.placed(one)
            fields.append(array)
            refs.append(ref)
        elif isinstance(one, list):
            inner = [record_call(call, constants) for call in one]
            fields.append(_Nested(made._replace(refs=()) for made in inner))
            refs += (ref for made in inner for ref in made.refs)
        else:
            fields.append(one)
    return Instruction(kernel, tuple(fields), tuple(refs))


class _Nested(tuple[Instruction, ...]):
    """Instructions among the fields of another one, which has their places."""

    __slots__ = ()


def bind_call(made: Instruction, memory: Mapping[str, np.ndarray], constants: Constants) -> Call:
    """The prepared call of an instruction. memory: bytes of the pools."""
    return _bound(made, iter(made.refs), memory, constants)


def _bound(
    made: Instruction,
    refs: Iterator[Ref | None],
    memory: Mapping[str, np.ndarray],
    constants: Constants,
) -> Call:
    """The prepared call of an instruction whose places are the next ones."""
    arguments: list[Any] = []
    for one in made.fields:
        if isinstance(one, Array):
            arguments.append(_array_at(one, next(refs), memory, constants))
        elif isinstance(one, _Nested):
            arguments.append([_bound(inner, refs, memory, constants) for inner in one])
        else:
            arguments.append(one)
    return _function(made.kernel), tuple(arguments)


def _function(kernel: str) -> Callable[..., Any]:
    found = _FUNCTIONS.get(kernel)
    if found is not None:
        return found
    name, _, method = kernel.partition(".")
    function = getattr(np, name)
    return getattr(function, method) if method else function


def _array_at(
    array: Array, ref: Ref | None, memory: Mapping[str, np.ndarray], constants: Constants
) -> np.ndarray:
    """An array in memory."""
    assert ref is not None
    if ref.pool == WEIGHTS:
        block = constants.block(ref.offset)
        where, offset = block.values, ref.offset - block.start
    else:
        where, offset = memory[ref.pool], ref.offset
    return np.ndarray(array.shape, array.dtype, where, offset, array.strides)


# Settings of numpy and of BLAS libraries ----------------------------------------------------------

_UFUNC_BUFFER = 1024
"""Elements of numpy's own buffers for strided operands: they are the only memory that the firings
take in addition to the arena.
"""

_QUIET = Context()
"""Small buffers and no warnings: an overflow is a value (infinity) in ONNX."""
_QUIET.run(np.seterr, all="ignore")
_QUIET.run(np.setbufsize, _UFUNC_BUFFER)


def call_all(calls: Sequence[Call], threads: int) -> None:
    """Make calls of numpy, their matrix products on so many threads."""
    if BLAS.now != threads:
        BLAS.set(threads)
    _QUIET.copy().run(_in_turn, calls)


def _in_turn(calls: Sequence[Call]) -> None:
    for function, arguments in calls:
        function(*arguments)


class _BlasThreads:
    """The number of threads that BLAS libraries use in this process, while programs depend on it.

    now: the number that was set last, 0 where nothing was set.
    """

    def __init__(self) -> None:
        self.now = 0
        self._programs = 0
        self._before: list[tuple[Any, int]] = []
        self.after_fork()

    def after_fork(self) -> None:
        """In the child: a thread of the parent that had the lock is not there."""
        # of the same thread twice: a program may be collected while another one sets the number
        self._lock = threading.RLock()

    def join(self, program: object) -> None:
        """Restore the number of before when this program and all others that joined are gone, unless the
        caller has set another one meanwhile.
        """
        with self._lock:
            self._programs += 1
        weakref.finalize(program, self._leave).atexit = False

    def set(self, threads: int) -> None:
        """Let BLAS libraries use so many threads from now on."""
        with self._lock:
            if not self._before:
                libraries = _blas_libraries(len(sys.modules))
                self._before = [(library, library.num_threads) for library in libraries]
            for library, _ in self._before:
                library.set_num_threads(threads)
            self.now = threads

    def _leave(self) -> None:
        with self._lock:
            self._programs -= 1
            if not self._programs:
                for library, number in self._before:
                    if library.num_threads == self.now:
                        library.set_num_threads(number)
                self._before, self.now = [], 0


@lru_cache(maxsize=1)
def _blas_libraries(modules: int) -> Sequence[Any]:
    """Controllers of the BLAS libraries in this process. modules: how many are imported; libraries come with them, and a
    search for them takes as long as a small program does.
    """
    from threadpoolctl import ThreadpoolController

    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)


BLAS = _BlasThreads()
"""Of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BLAS.after_fork)
