"""The command as tests call it: what it returns and prints, and the one line when it refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


class Result:
    """Exit code and what was printed."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)


Call = Callable[..., Result]


def refused(result: Result, code: int = 1) -> str:
    """The one line that a refused command leaves on stderr."""
    assert result.code == code, result.err
    lines = result.err.splitlines()
    assert len(lines) == 1 and "Traceback" not in result.err, result.err
    return lines[0]


def execute(
    *command: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """A process that has ended, with what it printed. env: added to the environment."""
    given = [str(word) for word in command]
    environment = {**os.environ, **(env or {})}
    return subprocess.run(
        given,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        **{"check": False, **options},
    )


python = partial(execute, sys.executable)


def heed_interrupts() -> None:
    """Ctrl-C as at a terminal: a test run in the background is started with SIGINT ignored, and its
    children inherit that.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(
    *arguments: str, limited: Callable[[], None] | None = None, **options: Any
) -> subprocess.Popen[str]:
    """The command as a process. limited: called in it before it begins."""

    def prepare() -> None:
        heed_interrupts()
        if limited:
            limited()

    return subprocess.Popen(
        [sys.executable, "-m", "csdfgen", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # where files may not grow, Python would leave modules cut off in its cache
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1" if limited else "",
        },
        preexec_fn=prepare,
        **options,
    )
