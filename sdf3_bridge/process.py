"""How is somebody else's program run so that it can do no harm?

Without a shell, in an empty folder, with nothing to read from, in the C locale, in a session of its
own; with limits of time, memory and output. Whatever happens, an error or Ctrl-C included, it is
killed with all that it started. Should this process be killed first, the limit of processor time
ends the program.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from csdfgen.errors import ToolError

MAX_MEMORY = 4 * 2**30
"""Bytes of address space that a program gets (on Linux, where another process can be limited)."""

MAX_OUTPUT = 64 * 2**20
"""Bytes that it may print."""

_KEPT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""Variables that a program may need to start."""

_BLOCK = 2**16
_WAIT = 0.05
_SHORT_WAIT = 0.002
"""Seconds between two looks whether a program has ended: while its output is open, and when it is
closed.
"""


@dataclass(frozen=True, slots=True)
class Finished:
    """A program that has ended by itself. exit_code: minus the number of the signal that killed it;
    seconds: by the clock.
    """

    exit_code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def signal_name(self) -> str:
        """SIGSEGV and the like, "" if no signal killed it."""
        if self.exit_code >= 0:
            return ""
        known = {entry.value: entry.name for entry in signal.Signals}
        return known.get(-self.exit_code, f"signal {-self.exit_code}")


def run_program(command: Sequence[str], folder: Path, timeout: float) -> Finished:
    """Run a program (its full path and its arguments) in a folder, for at most `timeout` seconds.

    Raises ToolError: it cannot be started, takes too long, prints too much.
    """
    where = Path(command[0]).name
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environment |= {"LC_ALL": "C", "HOME": str(folder), "TMPDIR": str(folder)}
    start = monotonic()
    try:
        process = subprocess.Popen(
            list(command),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ToolError(f"cannot be started: {reason}", where=str(command[0])) from None
    with process:
        try:
            _limit(process.pid, timeout)
            output = _collect(process, start + timeout, where, timeout)
        finally:
            _kill(process)
    stdout, stderr = (data.decode("utf-8", "replace") for data in output)
    return Finished(process.returncode, stdout, stderr, monotonic() - start)


def _limit(pid: int, timeout: float) -> None:
    """Limit a program that has just been started; from outside, as code between fork and exec is
    not safe beside threads.
    """
    if sys.platform != "linux":
        return
    import resource

    seconds = int(timeout) + 2
    limits = (
        (resource.RLIMIT_AS, MAX_MEMORY, MAX_MEMORY),
        (resource.RLIMIT_FSIZE, MAX_OUTPUT, MAX_OUTPUT),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_CPU, seconds, seconds + 1),
    )
    for kind, soft, hard in limits:
        allowed = resource.getrlimit(kind)[1]
        if allowed != resource.RLIM_INFINITY:
            soft, hard = min(soft, allowed), min(hard, allowed)
        try:
            resource.prlimit(pid, kind, (soft, hard))
        except (PermissionError, ProcessLookupError):  # it runs as somebody else, or has ended
            return


def _collect(
    process: subprocess.Popen[bytes], deadline: float, where: str, timeout: float
) -> list[bytearray]:
    """What the program prints until it ends. Raises ToolError."""
    output = [bytearray(), bytearray()]
    with selectors.DefaultSelector() as selector:
        for place, stream in enumerate((process.stdout, process.stderr)):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, place)
        while True:
            ended = _has_ended(process)
            if ended:
                _kill_group(process)  # children that it left would keep the pipes open
            wait = _WAIT if selector.get_map() else _SHORT_WAIT
            while _read(selector, output, 0 if ended else wait):
                if sum(map(len, output)) > MAX_OUTPUT:
                    raise ToolError(
                        f"printed more than {MAX_OUTPUT} bytes and was stopped", where=where
                    )
                if monotonic() > deadline:
                    break
            if ended:
                return output
            if monotonic() > deadline:
                raise ToolError(
                    f"gave no answer in {timeout:g} s and was stopped; --timeout gives it more",
                    where=where,
                )


def _read(selector: selectors.BaseSelector, output: list[bytearray], wait: float) -> bool:
    """Read a block of each stream that has one; False if none had."""
    found = False
    for key, _ in selector.select(wait):
        block = os.read(key.fd, _BLOCK)
        if block:
            output[key.data] += block
            found = True
        else:
            selector.unregister(key.fileobj)
    return found


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the program has ended; it is not reaped, so that the number of its group stays its
    own.
    """
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # macOS says the latter of a group of zombies
        return


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and all that it started, if it is still there."""
    if process.returncode is None:
        _kill_group(process)
        process.wait()
