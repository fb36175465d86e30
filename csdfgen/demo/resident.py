"""How much memory does onnxruntime really take for a frame? Measured from outside, in a process of
its own.

`python -m csdfgen.demo.resident HEIGHT WIDTH` prints the growth of the process's resident set
during onnxruntime's
first frame of CenterFace, in bytes: the high-water mark after it less what was resident before.
    Linux only (/proc/self).
onnxruntime runs as sparingly as it can: one thread, no arena, every tensor freed when it is dead.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

__all__ = ["grown_by_onnxruntime"]

_PROC = Path("/proc/self")


def grown_by_onnxruntime(height: int, width: int) -> int | None:
    """Bytes by which onnxruntime's process grows in its first frame; None where the system does not
    tell.
    """
    command = [sys.executable, "-m", "csdfgen.demo.resident", str(height), str(width)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else None


def _measured(height: int, width: int) -> int:
    import csdfgen
    from csdfgen.demo.centerface import INPUT, model_file
    from runtime.reference import Reference

    path, shape = model_file(), (1, 3, height, width)
    frame = Reference(path, csdfgen.load(path, shapes={INPUT: shape}), sparing=True)
    feeds = {INPUT: np.random.default_rng(0).random(shape, np.float32)}
    (_PROC / "clear_refs").write_text("5")  # sets the high-water mark back to what is resident now
    before = _bytes("VmRSS")
    frame(feeds)
    return _bytes("VmHWM") - before


def _bytes(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", (_PROC / "status").read_text())
    assert found, field
    return int(found[1]) * 1024


if __name__ == "__main__":
    print(_measured(int(sys.argv[1]), int(sys.argv[2])))
