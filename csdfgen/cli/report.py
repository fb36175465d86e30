"""`csdfgen report`: a page about one plan, measured here, beside onnxruntime."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from csdfgen import __version__
from csdfgen.cli.frames import frames_facts, told_of_frames
from csdfgen.cli.models import input_span
from csdfgen.cli.plans import Asked, Planned, planned
from csdfgen.cli.terminal import console, mebibytes, plain, stages
from csdfgen.devices.catalogue import device
from csdfgen.devices.model import estimate
from csdfgen.errors import CsdfgenError, InputError
from csdfgen.files import check_writable, write_bytes
from csdfgen.goals.choice import profile_for
from csdfgen.pages.beside import measured_beside
from csdfgen.pages.report import Told, report_page
from runtime.images import random_inputs

__all__ = ["ReportRequest", "check_page", "run_report"]

_LIBRARIES = ("numpy", "onnx", "onnxruntime")


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """What the user asked for. measure: run a frame here, and onnxruntime's."""

    asked: Asked
    output: Path
    device: str | None = None
    measure: bool = True
    repeat: int = 5


def check_page(path: Path) -> None:
    """Refuse now what cannot be written later. Raises InputError."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError("a page is written as .html", where=str(path))
    check_writable(path)


def run_report(request: ReportRequest) -> None:
    """Write the page. Raises CsdfgenError; outputs that differ are told on the page, no error."""
    check_page(request.output)
    named = device(request.device) if request.device is not None else None
    with stages() as stage:
        found = planned(request.asked, stage)
        plan = found.plan
        try:
            profile = named or profile_for(plan.options)
            times = estimate(plan, profile)
            beside = None
            if request.measure:
                feeds = random_inputs(plan.network, 0, input_span(found.model))
                beside = measured_beside(
                    plan, found.model, feeds, repeat=request.repeat, stage=stage
                )
        except CsdfgenError as error:
            raise error.at(found.model) from None
        frames = frames_facts(found.network, plan, profile)
        stage("drawing")
        page = report_page(
            plan,
            Told(
                found.title,
                _commands(found, request),
                _versions(),
                beside,
                times,
                profile.title,
                told_of_frames(frames, profile) if frames is not None else (),
            ),
        )
    write_bytes(request.output, page)
    console().print(
        f"{request.output}: {plain(found.title)}, arena of {plan.planned_bytes:,} bytes "
        f"({mebibytes(plan.planned_bytes)} MiB)",
        soft_wrap=True,
    )


def _commands(found: Planned, request: ReportRequest) -> list[tuple[str, str]]:
    """What makes this page, the plan and the comparison again."""
    asked = request.asked
    more = [] if request.device is None else ["--device", request.device]
    more += [] if request.measure else ["--no-measure"]
    more += (
        []
        if request.repeat == ReportRequest(asked, request.output).repeat
        else ["--repeat", str(request.repeat)]
    )
    if asked.is_plan:
        model = ["--model", found.model]
        again = found.command("report", asked.source, *model, *more, "-o", str(request.output))
        return [
            ("This page:", again),
            (
                "The plan executed, and compared with onnxruntime:",
                found.command("run", found.model, "--plan", asked.source, "--check"),
            ),
        ]
    flags = asked.flags()
    return [
        (
            "This page:",
            found.command("report", found.model, *flags, *more, "-o", str(request.output)),
        ),
        ("The plan as a file:", found.command("schedule", found.model, *flags, "-o", "plan.json")),
        (
            "The plan executed, and every layer compared with onnxruntime:",
            found.command(
                "run",
                found.model,
                *_without_policy(flags),
                *(["--plan", "plan.json"] if asked.policy else []),
                "--check",
                "layers",
            ),
        ),
    ]


def _versions() -> list[str]:
    """What made the page."""
    found = [f"csdfgen {__version__}", f"Python {platform.python_version()}"]
    found += [f"{name} {metadata.version(name)}" for name in _LIBRARIES]
    return [*found, f"{platform.system()} {platform.machine()}"]


def _without_policy(flags: list[str]) -> list[str]:
    """What `run` takes; an order that was asked for comes with the plan's file."""
    return flags[: flags.index("--policy")] if "--policy" in flags else flags
