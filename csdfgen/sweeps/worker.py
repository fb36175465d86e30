"""What does a process that plans do first? It ends with the one that started it. Importing this is cheap."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing.connection import Connection

__all__ = ["begin"]


def begin(parent: Connection) -> None:
    """Ctrl-C is the parent's to hear; its end, were it by SIGKILL, closes the pipe and ends this process too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Connection) -> None:
    try:
        parent.recv_bytes()
    except (EOFError, OSError):
        os._exit(1)
