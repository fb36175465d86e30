"""`csdfgen compile`: a model as one file that runs without it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from csdfgen.cli.command import Command
from csdfgen.cli.options import OUTPUT, JsonOption, Planned, check_suffix
from csdfgen.cli.report import PlanArgument
from csdfgen.cli.terminal import escape, say, say_json, show_progress
from csdfgen.errors import InputError, prefix_errors
from csdfgen.model.options import declare

_SUFFIX = "a compiled program", ".csdfgen"


@dataclass(frozen=True, kw_only=True)
class Compile(Command):
    """Compile a plan and its packed weights to one file, which runs without the model on processors like this one and
    starts in milliseconds.

    Run it with csdfgen run, in Python with csdfgen.open, or in C: csdfgen.h and the library that --library writes.
    """

    examples = (
        "csdfgen compile model.onnx && csdfgen run model.csdfgen",
        "csdfgen compile zoo:resnet18 -o resnet18.csdfgen --goal memory",
        "csdfgen compile model.onnx --library lib      # lib/libcsdfgen.so, lib/csdfgen.h",
    )

    model: PlanArgument
    output: Path | None = declare(
        "The compiled program.", None, "FILE.csdfgen", names=OUTPUT, shown="MODEL.csdfgen"
    )
    library: Path | None = declare(
        "Write the kernels as a shared library, with its header, for C programs into this folder.",
        None, "FOLDER",
    )  # fmt: skip
    threads: int = declare("The threads that execute the program.", 1, "N", low=1, high=1024)
    as_json: JsonOption = False
    planning: Planned

    def run(self) -> None:
        """Write the file. Raises CsdfgenError."""
        import runtime
        from csdfgen.backends.registry import find_backend
        from csdfgen.cli.models import load_or_plan
        from csdfgen.emission.names import network_name

        source = self.planning.source(self.model)
        check_suffix(self.output, *_SUFFIX)
        with show_progress() as progress:
            found = load_or_plan(source, progress, backend=find_backend("emits"))
            file = self.output or Path(f"{network_name(found.title)}.csdfgen")
            with prefix_errors(found.model, if_silent=True):
                frame = runtime.compile(found.plan, threads=self.threads)
                progress("writing")
                size = frame.save(file)
        library = () if self.library is None else _write_library(self.library)
        constants, arena = frame.weight_bytes[0], found.plan.planned_bytes
        if self.as_json:
            sizes = {"bytes": size, "weights_bytes": constants, "arena_bytes": arena}
            say_json({"output": str(file), "model": found.model, **sizes, "library": library})
            return
        say(
            f"{escape(file)}: {escape(found.title)}, {size:,} bytes; constants of {constants:,}, "
            f"arena of {arena:,}",
            wrap=False,
        )
        if library:
            say(f"{escape(self.library)}: {', '.join(library)}", wrap=False)


def _write_library(folder: Path) -> tuple[str, ...]:
    """The names of the files that were written. Raises InputError."""
    from csdfgen.backends.native.library import load
    from csdfgen.backends.native.structures import SOURCES

    sources = {"libcsdfgen.so": load().path, "csdfgen.h": SOURCES / "csdfgen.h"}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, source in sources.items():
            shutil.copyfile(source, folder / name)
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror or error}", where=str(folder)
        ) from None
    return tuple(sources)
