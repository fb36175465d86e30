"""`csdfgen bundle`: a plan as C, and what times it, in one archive."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from csdfgen import __version__
from csdfgen.cli.command import Command
from csdfgen.cli.emit_c import Oversize, Target
from csdfgen.cli.options import OUTPUT, JsonOption, Planned, check_suffix, parse_counts
from csdfgen.cli.report import PlanArgument
from csdfgen.cli.terminal import escape, say, say_json, show_progress
from csdfgen.errors import InputError, prefix_errors
from csdfgen.model.options import PlanOptions, declare
from csdfgen.model.units import pluralize

if TYPE_CHECKING:
    from csdfgen.cli import models
    from csdfgen.cli.terminal import Progress
    from csdfgen.emission.emit import Emitted


_ARCHIVE = ("an archive", ".tar.gz", ".tgz")


@dataclass(frozen=True, kw_only=True)
class Bundle(Command):
    """Pack a plan as C and a program that times the network's layers, for a board that has a compiler
    and make, but no Python.

    Its result becomes a device profile: csdfgen profile --import result.json.
    """

    examples = (
        "csdfgen bundle model.onnx                      # on the board: tar xmzf, make result.json",
        "csdfgen bundle zoo:resnet8 -o resnet8.tar.gz --target cortex-m7 --heights 1,2,4",
        "csdfgen profile --import result.json -o board.toml",
    )

    model: PlanArgument
    output: Path | None = declare(
        "The archive.", None, "FILE.tar.gz", names=OUTPUT, shown="MODEL.tar.gz"
    )
    target: Target = "host"
    oversize: Oversize = False
    heights: str = declare("Slab heights to measure.", "", "N,N,...", shown="as csdfgen profile")
    as_json: JsonOption = False
    planning: Planned

    def run(self) -> None:
        """Write the archive. Raises CsdfgenError."""
        from csdfgen.backends.registry import find_backend
        from csdfgen.cli.models import load_or_plan
        from csdfgen.devices.measure import HEIGHTS
        from csdfgen.emission.names import network_name
        from csdfgen.emission.targets import get_target

        source = self.planning.source(self.model)
        count = get_target(self.target).count
        heights = parse_counts(self.heights, "heights", "rows") if self.heights else HEIGHTS
        check_suffix(self.output, *_ARCHIVE)
        with show_progress() as progress:
            found = load_or_plan(source, progress, backend=find_backend("emits"), count=count)
            file = self.output or Path(f"{network_name(found.title)}.tar.gz")
            check_suffix(file, *_ARCHIVE)
            with prefix_errors(found.model, if_silent=True):
                made = self._bundled(found, heights, file, progress)
        if self.as_json:
            facts = {"output": str(file), "model": found.model, **asdict(made)}
            say_json({**facts, "heights": heights, "bytes": file.stat().st_size})
            return
        say(
            f"{escape(file)}: {escape(made.name)}, {pluralize(len(made.files), 'file')} and what times "
            f"{pluralize(len(heights), 'slab height')}, {file.stat().st_size:,} bytes; constants of "
            f"{made.weights_bytes:,}, arena of {made.arena_bytes:,}\n"
            f"there: tar xmzf {file.name} && make -C {made.name} result.json; "
            "here: csdfgen profile --import result.json -o board.toml",
            wrap=False,
        )

    def _bundled(
        self, found: models.Planned, heights: tuple[int, ...], file: Path, progress: Progress
    ) -> Emitted:
        import runtime
        from csdfgen.backends.registry import find_backend, load_backend
        from csdfgen.devices.boards import describe_actors, describe_network
        from csdfgen.emission.bundle import Part, bundle
        from csdfgen.emission.times import make_inputs
        from csdfgen.planning.planner import plan_fixed_heights

        network = found.network
        if network.batch > 1:
            raise InputError(
                f"is for {network.batch} images a call; times are of one image, leave --batch and --frames out"
            )
        kernels = load_backend(find_backend("emits"))
        parts = []
        for number, height in enumerate(heights):
            progress("planning what is timed", number, len(heights))
            timed = plan_fixed_heights(network, PlanOptions(str(height)), kernels)
            parts.append(Part(timed, {"rows": str(height)}, describe_actors(timed)))
        progress("computing outputs to compare with")
        feeds = {tensor.name: make_inputs(tensor) for tensor in network.inputs}
        outputs = runtime.compile(found.plan, backend=kernels.name)(feeds)
        return bundle(
            found.plan, found.title, file, parts, kernels, outputs,
            describe_network(found.title, self.target, kernels.name, __version__),
            target=self.target, oversize=self.oversize, maker=f"csdfgen {__version__}", report=progress,
        )  # fmt: skip
