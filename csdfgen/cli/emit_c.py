"""`csdfgen emit-c`: a plan as a folder of C."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from csdfgen import __version__
from csdfgen.cli.command import Command
from csdfgen.cli.options import OUTPUT, JsonOption, Networks, Planned, Stateful, refuse
from csdfgen.cli.report import PlanArgument
from csdfgen.cli.terminal import escape, say, say_json, show_progress
from csdfgen.errors import InputError, prefix_errors
from csdfgen.model.options import Option, declare
from csdfgen.model.units import pluralize

if TYPE_CHECKING:
    import numpy as np

    from csdfgen.cli import models
    from csdfgen.planning.plan import Plan
    from csdfgen.planning.streams import StreamPlan

Target = Annotated[
    str,
    Option(
        "The target of the compiler and flags in the Makefile.",
        "host|aarch64|cortex-m0plus|cortex-m4|cortex-m7|cortex-m33|cortex-m55|cortex-m85|rv32imc|generic",
    ),
]
Oversize = Annotated[bool, Option("Write the code even if it exceeds the target's memory.")]


@dataclass(frozen=True, kw_only=True)
class EmitC(Command):
    """Write a plan as C that needs nothing but a compiler: tables, the kernels that they name, a
    program that runs it on files, a Makefile and a CMakeLists.txt.

    NAME.h documents the entry points: NAME_run for whole arrays, NAME_push_row for rows as they arrive; with --stream
    they have no last one.
    """

    examples = (
        "csdfgen emit-c model.onnx -o model && make -j4 -C model",
        "csdfgen emit-c zoo:resnet8 -o resnet8 --target cortex-m7 --goal memory",
        "csdfgen emit-c model.onnx -o components/model --layout esp-idf --target generic",
        "csdfgen emit-c wakeword.onnx -o wakeword --target cortex-m7 --stream",
        "csdfgen emit-c plan.json --model model.onnx -o model --force",
    )

    model: PlanArgument
    networks: Networks
    output: Path = declare("The output folder.", ..., "DIR", names=OUTPUT)
    target: Target = "host"
    layout: str = declare(
        "The build system that takes the folder: a Makefile and a program, a CMake package, a Zephyr module, an "
        "ESP-IDF component, or a PlatformIO and Arduino library.",
        "make",
        "make|cmake|zephyr|esp-idf|platformio",
    )
    check: bool = declare("Emit NAME_check, a self-test that a board can call.", False)
    stream: bool = declare("Emit functions that take rows without end, instead of frames.", False)
    passes: int = declare(
        "How often the rows of a --stream may be given, so that they can depend on means and other results of all of them.",
        1, "N", low=1, high=100,
    )  # fmt: skip
    stateful: Stateful = None
    force: bool = declare("Write into a non-empty folder; other files are kept.", False)
    oversize: Oversize = False
    as_json: JsonOption = False
    planning: Planned

    def run(self) -> None:
        """Write the folder. Raises CsdfgenError."""
        from csdfgen.backends.registry import find_backend
        from csdfgen.cli.models import load_or_plan, load_stream, name_model
        from csdfgen.emission.emit import check_folder, emit
        from csdfgen.emission.layouts import check_layout
        from csdfgen.emission.targets import get_target

        check_layout(self.layout)
        source = self.planning.source(self.model)
        count = get_target(self.target).count
        check_folder(self.output, self.force)
        backend = find_backend("emits")
        if self.stream and self.check:
            raise InputError("--check is of a frame, --stream has none; leave one of them out")
        for name, asks in (("stateful", self.stateful), ("passes", self.passes > 1)):
            refuse([(asks and not self.stream, f"--{name} is of a --stream; give both")])
        with show_progress() as progress:
            plan: Plan | StreamPlan
            chosen = ""
            if self.stream:
                states = self.stateful or ()
                usual = {"backend": backend, "count": count}
                plan = load_stream(source, progress, states, self.passes, **usual)
                model, title, expected = source.name, name_model(source.name), None
            else:
                found = load_or_plan(source, progress, backend=backend, count=count)
                plan, model, title = found.plan, found.model, found.title
                chosen = "; the fastest of a table of plans" * found.of_table
                expected = _expected(found) if self.check else None
            with prefix_errors(model, if_silent=True):
                made = emit(
                    plan, title, self.output, target=self.target, layout=self.layout, force=self.force,
                    check=expected, oversize=self.oversize, maker=f"csdfgen {__version__}", report=progress,
                )  # fmt: skip
        if self.as_json:
            say_json({"output": str(self.output), "model": model, **asdict(made)})
            return
        say(
            f"{escape(self.output)}: {escape(made.name)}, {pluralize(len(made.files), 'file')}, {made.name}.c of "
            f"{made.source_bytes:,} bytes, constants of {made.weights_bytes:,}, arena of {made.arena_bytes:,}{chosen}",
            wrap=False,
        )


def _expected(found: models.Planned) -> dict[str, np.ndarray]:
    """The outputs for the inputs of a self-test. Raises CsdfgenError."""
    import runtime
    from csdfgen.backends.registry import find_backend
    from csdfgen.emission.times import make_inputs

    feeds = {
        tensor.name: make_inputs(replace(tensor, shape=found.network.whole_shape(tensor)))
        for tensor in found.network.inputs
    }
    return runtime.compile(found.plan, backend=find_backend("emits"))(feeds)
