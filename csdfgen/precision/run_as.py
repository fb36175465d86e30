"""In which float type is a float32 model executed? As it is, in bfloat16, or in the one whose frames take less time here."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx

import runtime
from csdfgen.errors import InputError, ModelError, option
from csdfgen.model.formats import BFLOAT16, FLOAT32
from csdfgen.model.network import Network
from csdfgen.planning.plan import Plan
from csdfgen.precision.quantize import quantize_to_halves

AUTO, WIDE, NARROW = "auto", FLOAT32.dtype, BFLOAT16.dtype

PRECISIONS = (AUTO, WIDE, NARROW)

_FRAMES = 5
"""Frames of each type, in turn, whose medians are compared."""

Model = str | os.PathLike[str] | onnx.ModelProto


@dataclass(frozen=True, slots=True)
class Precision:
    """asked: one of PRECISIONS. used: "float32" (the model as it is) or "bfloat16". seconds: of a frame in each, where
    they were timed. why: what left no choice, "" for nothing.
    """

    asked: str
    used: str
    seconds: Mapping[str, float] = field(default_factory=dict)
    why: str = ""

    def __str__(self) -> str:
        if self.why:
            return f"{self.used}: {self.why}"
        times = (f"{1e3 * s:,.3f} ms in {name}" for name, s in self.seconds.items())
        return f"{self.used}{': a frame takes ' if self.seconds else ''}{', '.join(times)}"

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "asked": self.asked,
            "used": self.used,
            "seconds": dict(self.seconds),
            "why": self.why,
        }


def convert_precision(
    used: str,
    network: Network,
    model: Model,
    load: Callable[[onnx.ModelProto], Network],
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Network:
    """A network as it is, or with weights and activations in bfloat16, as `csdfgen quantize --format bfloat16` stores them.

    used: "float32" or "bfloat16". network: of the model, which declares other `shapes`. load: from a model to its network.
    Raises InputError, ModelError.
    """
    if used == WIDE:
        return network
    found = load(quantize_to_halves(model, used, shapes=shapes, fix=network.fixed or None))
    return replace(found, source=network.source, fixed=network.fixed)


def choose_precision(
    asked: str,
    plan: Callable[[str], Plan],
    feeds: Callable[[], Mapping[str, np.ndarray]],
    threads: int = 1,
) -> tuple[Plan, Precision]:
    """The plan of a model in the precision that is asked for. "auto": in bfloat16 where the median frame on these inputs is
    shorter than in float32, both measured in turn; as it is where it cannot be stored in bfloat16.

    plan: makes that of "float32" or "bfloat16". Raises what that does, and InputError for a word that is none of PRECISIONS.
    """
    if asked not in PRECISIONS:
        raise InputError(f"{option('precision', asked)}: not one of {', '.join(PRECISIONS)}")
    if asked != AUTO:
        return plan(asked), Precision(asked, asked)
    plans = {WIDE: plan(WIDE)}
    try:
        plans[NARROW] = plan(NARROW)
    except (InputError, ModelError) as error:
        return plans[WIDE], Precision(asked, WIDE, why=error.message)
    seconds = _timed(plans, feeds(), threads)
    used = min(seconds, key=seconds.__getitem__)
    return plans[used], Precision(asked, used, seconds)


def _timed(
    plans: Mapping[str, Plan], feeds: Mapping[str, np.ndarray], threads: int
) -> dict[str, float]:
    """Median seconds of a frame of each plan, after one to warm up."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    programs = {name: runtime.compile(plan, threads=threads) for name, plan in plans.items()}
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(1 + _FRAMES):
        for name, program in programs.items():
            start = clock()
            program(feeds)
            times[name].append(clock() - start)
    return {name: statistics.median(some[1:]) for name, some in times.items()}
