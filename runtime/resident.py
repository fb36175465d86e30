"""How much does a process grow in a frame of onnxruntime? The growth is measured in a separate process.

`python -m runtime.resident MODEL '{"INPUT": [1, 3, 224, 224]}' BATCH '{}'` prints the growth in bytes:
the high-water mark of the resident set after the frame minus the resident set before it. Linux only
(/proc/self). onnxruntime is set up for the least memory: one thread, no arena, every tensor freed after its
last use. A frame before the measured one allocates what all frames share.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

_PROC = Path("/proc/self")
_SECONDS = 600

_GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "16384", "MALLOC_TRIM_THRESHOLD_": "16384"}
"""Settings of glibc with which freed memory is returned to the system at once."""


def measure_onnxruntime_growth(
    model: str, inputs: Mapping[str, tuple[int, ...]], batch: int, fixed: Mapping[str, np.ndarray]
) -> int | None:
    """Bytes by which a process grows in onnxruntime's second frame of a model that is loaded with
    these shapes and constants for inputs (the last argument); None where the system does not report it.
    """
    shapes = json.dumps({name: list(shape) for name, shape in inputs.items()})
    constants = json.dumps({name: array.tolist() for name, array in fixed.items()})
    command = [sys.executable, "-m", "runtime.resident", model, shapes, str(batch), constants]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
            env={**os.environ, **_GIVE_BACK},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = done.stdout.strip()
    return int(text) if done.returncode == 0 and text.isdigit() else None


def _measured(
    model: str, shapes: Mapping[str, tuple[int, ...]], batch: int, fixed: Mapping[str, Any]
) -> int:
    from csdfgen.planning.planner import return_freed_memory
    from csdfgen.reading.loader import load
    from runtime.images import random_inputs
    from runtime.reference import Reference

    network = load(model, shapes=shapes, batch=batch if batch > 1 else None, fix=fixed)
    frame = Reference(model, network, sparing=True)
    feeds = random_inputs(network, 0, (-1.0, 1.0))
    frame(feeds)
    return_freed_memory()
    (_PROC / "clear_refs").write_text("5")  # sets the high-water mark back to what is resident now
    before = _bytes("VmRSS")
    frame(feeds)
    return max(0, _bytes("VmHWM") - before)


def read_resident_bytes(most: bool = False) -> int:
    """Bytes of this process that are in memory, or that were at most; 0 where the system does not say."""
    try:
        return _bytes("VmHWM" if most else "VmRSS")
    except OSError:
        return 0


def describe_process(libraries: int, constants: int, arena: int, outputs: int) -> dict[str, int]:
    """The bytes of this process that were resident at most, and what of them, by name; {} where the system does not say.
    rest: what reading, planning and Python take, and what was not given back.
    """
    peak = read_resident_bytes(most=True)
    parts = {"libraries": libraries, "constants": constants, "arena": arena, "outputs": outputs}
    return {"peak": peak, **parts, "rest": peak - sum(parts.values())} if peak else {}


def read_mapping(path: Path) -> dict[str, int]:
    """Bytes of a mapped file that are resident in this process, and how many are its share of them (proportional: a page
    that n processes have is counted as one n-th); {} where the system does not say.
    """
    end = re.escape(f" {path.resolve()}".replace("\n", "\\012"))
    try:
        text = (_PROC / "smaps").read_text(errors="surrogateescape")
    except OSError:
        return {}
    found = re.findall(rf"{end}\n(?:.*\n)*?Rss: +(\d+) kB\nPss: +(\d+) kB", text)
    resident, share = (1024 * sum(map(int, sizes)) for sizes in zip((0, 0), *found, strict=True))
    return {"resident": resident, "proportional": share}


def _bytes(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", (_PROC / "status").read_text())
    assert found, field
    return int(found[1]) * 1024


if __name__ == "__main__":
    given = {name: tuple(shape) for name, shape in json.loads(sys.argv[2]).items()}
    print(_measured(sys.argv[1], given, int(sys.argv[3]), json.loads(sys.argv[4])))
