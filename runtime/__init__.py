"""runtime: executes plans in one arena, and compares with onnxruntime.

y = runtime.run(plan, x)            # one frame
frame = runtime.compile(plan)       # many frames: compiled once
y = frame(x)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from csdfgen.planning.plan import Plan
    from runtime.program import Program

__all__ = ["compile", "run"]


def compile(
    plan: Plan, *, taps: Iterable[str] = (), threads: int = 1
) -> Program:  # the verb of the road map; shadows a builtin nobody needs here
    """A program for many frames of one plan: `frame = compile(plan); y = frame(x)`.

    taps: names of tensors whose values are kept, see `Program.taps`. threads: of matrix products.
    Raises ScheduleError or CapacityExceededError if the plan's firings are not sound.
    """
    from runtime.program import Program

    return Program(plan, taps, threads)


def run(plan: Plan, x: np.ndarray | Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """One frame: x is an array or a dict by input name; the outputs come as a dict by output name.

    Raises InputError where shapes or dtypes do not fit. For many frames see `compile`.
    """
    return compile(plan)(x)
