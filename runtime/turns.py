"""Whose turn is it? A lock of a program, which is free in the child of a fork unless the thread that was
forked has it: no other thread of the parent is there to release it.
"""

from __future__ import annotations

import os
import threading
import weakref

__all__ = ["Turn"]


class Turn:
    """A lock. owner: the thread that has it."""

    def __init__(self) -> None:
        self.owner: int | None = None
        self._lock = threading.Lock()
        _TURNS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()
        self.owner = threading.get_ident()

    def __exit__(self, *error: object) -> None:
        self.owner = None
        self._lock.release()

    def after_fork(self) -> None:
        """In the child."""
        if self.owner != threading.get_ident():
            self.owner, self._lock = None, threading.Lock()


_TURNS: weakref.WeakSet[Turn] = weakref.WeakSet()


def _after_fork() -> None:
    for turn in list(_TURNS):
        turn.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
