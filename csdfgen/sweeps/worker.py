"""How does a planning process end with the process that started it? This module is separate as its import is fast."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing.connection import Connection


def start_worker(parent: Connection) -> None:
    """Leave Ctrl-C to the parent. The end of the parent, also by SIGKILL, closes the pipe and ends this process too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Connection) -> None:
    try:
        parent.recv_bytes()
    except (EOFError, OSError):
        os._exit(1)
