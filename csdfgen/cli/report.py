"""`csdfgen report`: a page about one plan, measured here, compared with onnxruntime."""

from __future__ import annotations

import platform
import shlex
from dataclasses import dataclass
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from csdfgen import __version__
from csdfgen.cli.command import Argument, Command
from csdfgen.cli.options import OUTPUT, SEVERAL, JsonOption, Networks, Planned, check_suffix
from csdfgen.cli.terminal import escape, format_bytes, say, say_json, show_progress
from csdfgen.errors import prefix_errors
from csdfgen.files import write_bytes
from csdfgen.model.options import Option, declare

if TYPE_CHECKING:
    from csdfgen.cli import models


PlanArgument = Annotated[
    str,
    Argument(
        "MODEL|PLAN...",
        f"Model (.onnx, .pt2, .prototxt, .tflite), zoo:NAME[@HEIGHTxWIDTH], or a plan (.json); {SEVERAL}.",
        models=True,
    ),
]
PageOption = Annotated[Path | None, Option("Write an HTML page.", "FILE.html", names=OUTPUT)]

_REPEAT = 5
_LIBRARIES = ("numpy", "onnx", "onnxruntime")


@dataclass(frozen=True, kw_only=True)
class Report(Command):
    """Write an HTML page: memory over the firings of a frame, the arena, phases, layers, the cause of the peak, and a
    measured comparison with onnxruntime.

    Without -o the page is report.html. It loads no other files, and can be printed.
    """

    examples = (
        "csdfgen report model.onnx -o report.html",
        "csdfgen report zoo:squeezenet1_1 --rows 1 --device cortex-m7",
        "csdfgen report plan.json --model model.onnx --no-measure",
    )

    model: PlanArgument
    networks: Networks
    output: PageOption = None
    planning: Planned
    measure: bool = declare(
        "Run frames here and in onnxruntime, or only plan.", True, names=("--measure/--no-measure",)
    )
    repeat: int = declare("Timed frames of each runtime.", _REPEAT, "N", low=1, high=100_000)
    as_json: JsonOption = False

    def run(self) -> None:
        """Write the page. Raises CsdfgenError; outputs that differ are reported on the page."""
        from csdfgen.cli.models import load_or_plan
        from csdfgen.cli.show import overlap_facts
        from csdfgen.devices.catalogue import device
        from csdfgen.devices.memory import account_device_memory
        from csdfgen.devices.model import estimate
        from csdfgen.goals.choice import choose_shown_profile
        from csdfgen.pages.measured import measure_frame
        from csdfgen.pages.report import Facts, report_page
        from csdfgen.reading.zoo import input_span
        from runtime.images import SYMMETRIC, random_inputs

        source, output = self.planning.source(self.model), self.output or Path("report.html")
        check_page(output)
        named = device(self.planning.device) if self.planning.device is not None else None
        with show_progress() as progress:
            found = load_or_plan(source, progress)
            plan = found.plan
            with prefix_errors(found.model):
                profile = named or choose_shown_profile(plan.options)
                times = estimate(plan, profile)
                measured = None
                if self.measure:
                    feeds = random_inputs(plan.network, 0, input_span(found.model) or SYMMETRIC)
                    measured = measure_frame(
                        plan, found.model, feeds, repeat=self.repeat, progress=progress
                    )
            frames = overlap_facts(found.network, plan, profile)
            account = account_device_memory(plan, profile)
            progress("drawing")
            facts = Facts(
                found.title, self._commands(found, output), _versions(), measured, times, profile.title,
                frames.told(profile.name) if frames is not None else (), str(account),
            )  # fmt: skip
            page = report_page(plan, facts)
        write_bytes(output, page)
        if self.as_json:
            values: dict[str, Any] = {
                "output": str(output),
                "model": found.model,
                "planned_bytes": plan.planned_bytes,
            }
            values |= {"figures": dict(plan.figures), "device": profile.name}
            values |= {"account": account.to_json()}
            values |= {"predicted_ms": 1e3 * times.seconds}
            say_json({**values, "measured": measured and measured.to_json()})
            return
        say(
            f"{escape(output)}: {escape(found.title)}, arena of {format_bytes(plan.planned_bytes)}",
            wrap=False,
        )

    def _commands(self, found: models.Planned, output: Path) -> list[tuple[str, str]]:
        """What makes this page, the plan and the comparison again."""
        device, source = self.planning.device, found.source
        more = ["--device", device] if device else []
        more += [] if self.measure else ["--no-measure"]
        more += [] if self.repeat == _REPEAT else ["--repeat", str(self.repeat)]

        def line(*words: str) -> str:
            return shlex.join(["csdfgen", *words])

        if source.is_plan:
            page = line("report", source.name, "--model", found.model, *more, "-o", str(output))
            run = line("run", found.model, "--plan", source.name, "--check")
            compared = "The plan executed, and compared with onnxruntime:"
            return [("This page:", page), (compared, run)]
        typed = [one for one in source.asked.typed() if one[0] != "--device"]
        flags = list(chain.from_iterable(typed))
        # an order that is asked for comes to `run` in the plan's file
        ordered = ["--plan", "plan.json"] if "policy" in source.asked.given else []
        unordered = chain.from_iterable(one for one in typed if one[0] != "--policy")
        run = line("run", found.model, *unordered, *ordered, "--check", "layers")
        return [
            ("This page:", line("report", found.model, *flags, *more, "-o", str(output))),
            ("The plan as a file:", line("schedule", found.model, *flags, "-o", "plan.json")),
            ("The plan executed, and every layer compared with onnxruntime:", run),
        ]


def check_page(path: Path | None) -> None:
    """Refuse now what cannot be written later. Raises InputError."""
    check_suffix(path, "a page", ".html", ".htm")


def _versions() -> list[str]:
    """What made the page."""
    found = [f"csdfgen {__version__}", f"Python {platform.python_version()}"]
    found += [f"{name} {metadata.version(name)}" for name in _LIBRARIES]
    return [*found, f"{platform.system()} {platform.machine()}"]
