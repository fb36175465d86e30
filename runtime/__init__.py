"""runtime: executes plans in one arena, and compares with onnxruntime.

y = runtime.run(plan, x)            # one frame
frame = runtime.compile(plan)       # many frames: compiled once
y = frame(x)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from csdfgen.planning.plan import Plan
    from runtime.program import Program

__all__ = ["compile", "run"]


def compile(
    plan: Plan, **options: Any
) -> Program:  # the verb of the road map; shadows a builtin nobody needs here
    """A program for many frames of one plan; see `runtime.program.Program`."""
    from runtime.program import Program

    return Program(plan, **options)


def run(plan: Plan, x: np.ndarray | Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """One frame: x is an array or a dict by input name; the outputs come as a dict by output name."""
    return compile(plan)(x)
