"""Has the user asked for the end? Ctrl-C ends a search at its next question, with the best that it has found.

    with heeding():                              # Ctrl-C is noted, and raises nothing
        while better() and not stopped(): ...

Every long loop of a search asks `stopped()`. `GRACE` seconds later, KeyboardInterrupt ends what has not asked.
"""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

GRACE = 0.7
"""Seconds of processor time in which a search has to end by itself, so that other load of the machine loses no plan."""

_MOST = 5.0
"""Seconds after which it ends in any case."""

_EACH = 0.02
"""Seconds between two looks at the clock."""


class _Request(threading.local):
    """What was asked for in this thread. stopped: by Ctrl-C; kept: the result is there; waits: for other processes."""

    stopped = False
    kept = False
    waits = False


_request = _Request()


def is_stopped() -> bool:
    """Whether the search that runs in this thread is to end."""
    return _request.stopped


def raise_if_stopped() -> None:
    """Raises KeyboardInterrupt if the search that runs in this thread is to end, where one plan more would be made."""
    if is_stopped():
        raise KeyboardInterrupt


def keep() -> None:
    """From here on, to the end of the block of `heed_interrupts`, the result of a search that has been stopped is not lost."""
    _request.kept = True


@contextmanager
def interrupt_waits() -> Iterator[None]:
    """A block that waits for other processes, which Ctrl-C ends at once. Raises KeyboardInterrupt."""
    if not _request.kept:
        raise_if_stopped()
    before, _request.waits = _request.waits, True
    try:
        yield
    finally:
        _request.waits = before


@contextmanager
def heed_interrupts() -> Iterator[None]:
    """A block in which the first Ctrl-C ends searches, and further ones do no harm. In threads, within such a block, and
    where the program handles Ctrl-C itself, nothing changes. Raises KeyboardInterrupt `GRACE` seconds after Ctrl-C.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    due, left = threading.Event(), threading.Event()

    def end() -> None:
        spent, begun = time.process_time(), time.monotonic()
        while time.process_time() - spent < GRACE and time.monotonic() - begun < _MOST:
            if left.wait(_EACH):
                return
        due.set()
        _thread.interrupt_main()

    def note(*_: object) -> None:
        if (due.is_set() or _request.waits) and not (left.is_set() or _request.kept):
            raise KeyboardInterrupt
        if not _request.stopped:
            _request.stopped = True
            threading.Thread(target=end, daemon=True).start()

    signal.signal(signal.SIGINT, note)
    try:
        yield
    except Exception:
        if is_stopped():  # what fails now fails for this
            raise KeyboardInterrupt from None
        raise
    finally:
        left.set()
        _request.stopped = _request.kept = False
        signal.signal(signal.SIGINT, signal.default_int_handler)
