"""How much memory does onnxruntime really take for a frame? Measured from outside, in a process of its own.

`python -m csdfgen.demo.resident MODEL` prints the growth of the process's resident set during its first
frame in bytes: high-water mark after it less what was resident before. Linux only (/proc/self). onnxruntime runs
as sparingly as it can: one thread, no arena and no memory pattern, so that every tensor is freed when it is dead.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

__all__ = ["grown_by_onnxruntime"]

_PROC = Path("/proc/self")


def grown_by_onnxruntime(model: Path) -> int | None:
    """Bytes by which onnxruntime's process grows in its first frame; None where the system does not tell."""
    command = [sys.executable, "-m", "csdfgen.demo.resident", str(model)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdigit() else None


def _bytes(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", (_PROC / "status").read_text())
    assert found, field
    return int(found[1]) * 1024


def _main(model: str) -> None:
    import onnxruntime

    from csdfgen.demo.comparison import session

    onnxruntime.set_default_logger_severity(3)
    frame = session(Path(model).read_bytes(), sparing=True)
    rng = np.random.default_rng(0)
    feeds = {i.name: rng.random(i.shape, np.float32) for i in frame.get_inputs()}
    (_PROC / "clear_refs").write_text("5")
    before = _bytes("VmRSS")
    frame.run(None, feeds)
    print(_bytes("VmHWM") - before)


if __name__ == "__main__":
    _main(sys.argv[1])
