"""What is the outcome of one point of a sweep? The figures of its plan, which any process can make.

A worker may run on another machine. It refuses points if it has other files, another csdfgen or other instructions, so
that a table does not depend on where its rows come from.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType

from csdfgen.devices.model import estimate
from csdfgen.errors import (
    CsdfgenError,
    InputError,
    ToolError,
    name_options_as_arguments,
    prefix_errors,
)
from csdfgen.goals.choice import choose_plan, load_profile, run_options
from csdfgen.model.network import Network
from csdfgen.model.options import OPTIONS, PlanOptions
from csdfgen.planning.plan import Plan
from csdfgen.precision.quantize import Quantized, quantize
from csdfgen.reading.loader import load_frames
from csdfgen.sweeps.axes import Value, parse_shapes
from csdfgen.sweeps.sources import (
    digest_files,
    instructions,
    locate_device,
    locate_model,
    program_digest,
)
from csdfgen.sweeps.spec import Point
from runtime.images import ImageOptions, read_frames

Outcome = Mapping[str, Value]
"""The figures of a point, by the names of `FIGURES`, and `plan_seconds`, the time of planning."""

FIGURES: Mapping[str, str] = MappingProxyType(
    {
        "ok": "flag", "images": "integer", "planned_bytes": "integer", "outputs_bytes": "integer",
        "peak_live_bytes": "integer", "whole_layer_live_bytes": "integer", "firings": "integer",
        "predicted_frame_ms": "number", "predicted_request_ms": "number", "predicted_on": "text", "sqnr_db": "number",
        "error": "text",
    }
)  # fmt: skip
"""Figure -> kind (`axes.Axis`). images: of the request; planned_bytes: of the arena; outputs_bytes: of arrays outside
of it; a frame is one image, a request all of them; sqnr_db: of formats that were calibrated.
"""

_BATCHING = "joint"
"""The default of how requests are batched."""


@dataclass(frozen=True, slots=True)
class Task:
    """A point for a worker. folder: that of the spec, in which files are searched. digests: of the files of the point, by
    name; program, code: of the csdfgen that made the task (`sources`).
    """

    point: Point
    folder: str
    digests: Mapping[str, str]
    program: str
    code: str

    @property
    def key(self) -> str:
        """32 hexadecimal digits of all that the outcome depends on."""
        parts = (
            sorted(self.point.values.items()),
            asdict(self.point.calibration) if self.point.values["formats"] else None,
            sorted(self.digests.items()),
            self.program,
            self.code,
        )
        return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def make_task(point: Point, folder: str) -> Task:
    """The task of a point whose backend is known. Raises CsdfgenError for a missing file."""
    code = instructions(str(point.values["backend"]))
    return Task(point, folder, digest_files(point, folder), program_digest(), code)


def plan_point(task: Task) -> Outcome:
    """Plan a point; a refusal by csdfgen is an outcome too. Raises CsdfgenError if this process cannot plan it."""
    _check(task)
    start = time.perf_counter()
    with name_options_as_arguments():
        found = _outcome(task)
    return {**found, "plan_seconds": time.perf_counter() - start}


def _check(task: Task) -> None:
    """Raise InputError if this process would make other plans."""
    if program_digest() != task.program:
        raise InputError("a worker has another csdfgen; install the same version there")
    if instructions(str(task.point.values["backend"])) != task.code:
        here = instructions(str(task.point.values["backend"]))
        raise InputError(
            f"a worker's native code is for {here}, here it is for {task.code}, with other scratch; "
            "say backend = 'numpy', or take workers of one kind"
        )
    for name, digest in digest_files(task.point, task.folder).items():
        if digest != task.digests[name]:
            raise InputError(
                "is another file where a worker runs, or has changed; share the folder", where=name
            )


def _outcome(task: Task) -> dict[str, Value]:
    nothing: dict[str, Value] = dict.fromkeys(FIGURES)
    try:
        return nothing | {"ok": True} | _figures(task)
    except ToolError:
        raise  # a missing compiler is no property of a point
    except CsdfgenError as error:
        message = str(error).replace(f"{task.folder}{os.sep}", "")
        return nothing | {"ok": False, "error": message}


def _figures(task: Task) -> dict[str, Value]:
    """The figures of a plan. Raises CsdfgenError."""
    values = task.point.values
    model = locate_model(task.folder, str(values["model"]))
    options = _options(task)
    network = load_frames(
        model,
        options.frames,
        shapes=parse_shapes(str(values["shape"] or "")),
        batch=_count(values["batch"]),
        apart=bool(options.batching),
    )
    with prefix_errors(model):
        if values["formats"]:
            made = _quantized(task, network, options)
            return _shown(made.plan) | {"sqnr_db": made.sqnr_db}
        return _shown(choose_plan(network, options))


def _count(value: Value) -> int | None:
    return None if value is None else int(value)


def _options(task: Task) -> PlanOptions:
    """The options that a point is planned with. Raises InputError."""
    values = task.point.values
    given = {
        name: value / declared.kind.factor if isinstance(value, float) else value
        for name, declared in OPTIONS.items()
        if (value := values.get(name)) is not None and name != "requests"
    }
    if values["device"]:
        given["device"] = locate_device(task.folder, str(values["device"]))
    if values["tuning"]:
        given["tuning"] = locate_model(task.folder, str(values["tuning"]))
    if values["requests"]:
        given |= {"frames": values["requests"], "batching": values["batching"] or _BATCHING}
    return run_options({"weights": "copied", **given})


def _quantized(task: Task, network: Network, options: PlanOptions) -> Quantized:
    """The model in other formats, with its plan. Raises CsdfgenError."""
    values, given = task.point.values, task.point.calibration
    files = [locate_model(task.folder, name) for name in given.files]
    images = ImageOptions(given.resize, given.mean, given.std, given.layout)
    return quantize(
        locate_model(task.folder, str(values["model"])),
        read_frames(files, network, images) or None,
        format=str(values["formats"]),
        integer_io=given.integer_io,
        planning=options,
        shapes=parse_shapes(str(values["shape"] or "")) or None,
    )


def _shown(plan: Plan) -> dict[str, Value]:
    """The figures of a plan. An order covers `conversion.frames` images, and is repeated for a batch."""
    profile = load_profile(plan.options)
    figures, covered = plan.figures, plan.conversion.frames
    seconds = estimate(plan, profile).seconds
    images = max(covered, plan.network.batch)
    return {
        "images": images,
        "planned_bytes": plan.planned_bytes,
        "outputs_bytes": figures.get("outputs", 0),
        "peak_live_bytes": figures["peak_live"],
        "whole_layer_live_bytes": figures["whole_layer_live"],
        "firings": plan.firings,
        "predicted_frame_ms": 1e3 * seconds / covered,
        "predicted_request_ms": 1e3 * seconds * images / covered,
        "predicted_on": profile.name,
    }
