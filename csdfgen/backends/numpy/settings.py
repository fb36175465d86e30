"""Which settings of numpy and its BLAS library do calls of numpy run with?

Numpy keeps its error state and the size of its buffers in context variables: calls run in a context that is
made once, so that a frame sets nothing and the caller's settings stay as they are. BLAS libraries have one
number of threads for the whole process. It is set when a program runs that wants another number than the
one before, and restored when the last program that calls numpy is gone (docs/decisions.md).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from contextvars import Context
from typing import Any

import numpy as np

from csdfgen.program.steps import Call

__all__ = ["BLAS", "call_all"]

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
        from threadpoolctl import ThreadpoolController

        with self._lock:
            if not self._before:
                libraries = ThreadpoolController().select(user_api="blas").lib_controllers
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


BLAS = _BlasThreads()
"""Of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BLAS.after_fork)
