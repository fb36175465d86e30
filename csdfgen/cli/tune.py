"""`csdfgen tune`: measure variants of kernels on this machine, keep them, and report what they bring."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from csdfgen.cli.command import Command
from csdfgen.cli.options import JSON, OUTPUT, Fused, ModelArgument, check_suffix, refuse_graph
from csdfgen.cli.terminal import Progress, cut, plain, reporting, say, say_json, table
from csdfgen.errors import about
from csdfgen.model.options import DEFAULTS, declare
from csdfgen.model.units import counted

if TYPE_CHECKING:
    from csdfgen.model.network import Network
    from csdfgen.tuning.measure import Tuner

__all__ = ["Tune"]

_SHOWN_LAYERS = 12
_SHOWN_KEY = 70
_FRAMES = 9
"""Of the plans without and with tuning, in turn, in the end."""


@dataclass(frozen=True, kw_only=True)
class Tune(Command):
    """Measure on this machine which variant of each layer's kernel is the fastest at which slab height.

    Run it again to go on where it ended, or with another model to add its layers.
    """

    examples = (
        "csdfgen tune model.onnx --seconds 60 -o tuned.json",
        "csdfgen run model.onnx --tuning tuned.json",
    )

    model: ModelArgument
    output: Path = declare(
        "What was found; one that is there is continued.",
        Path("tuned.json"), "FILE.json", names=OUTPUT,
    )  # fmt: skip
    seconds: float = declare("How long to measure, about.", 60.0, "S", low=1, high=86_400)
    fused: Fused
    as_json: bool = declare("Print one JSON object instead of the summary.", False, names=JSON)

    def run(self) -> None:
        """Measure, write, compare. Raises CsdfgenError, also KeyboardInterrupt after what was found is
        written.
        """
        from csdfgen.cli.models import load_network
        from csdfgen.tuning.file import machine_of, read_tuning
        from csdfgen.tuning.measure import Tuner

        asked = self.fused.read()
        fuse = asked.given.get("fuse", DEFAULTS.fuse)
        check_suffix(self.output, "what was found", ".json")
        refuse_graph(self.model, ", which cannot be run; give the model")
        with reporting() as progress:
            progress("building native code, once on this machine")
            machine = machine_of()
            known = read_tuning(self.output, machine) if self.output.exists() else None
            progress("loading")
            network = load_network(self.model, asked)
            with about(network.source or network.name):
                tuner = Tuner(network, known, fuse=fuse)
                left = self._measured(tuner, progress)
                progress("comparing plans without and with what was found")
                gain = self._gain(network, fuse)
        found = tuner.found
        facts = {
            "file": str(self.output), "shapes": len(found.shapes), "timings": found.count, "heights_left": left, **gain,
        }  # fmt: skip
        if self.as_json:
            say_json(facts)
            return
        rows = found.changed()
        shown = (
            (cut(key, _SHOWN_KEY), str(height), best, f"{us:.1f}", second, f"{other:.1f}")
            for key, height, best, us, second, other in rows[:_SHOWN_LAYERS]
        )
        columns = ("layer shape", "> rows", "variant", "> us", "next best", "> us ")
        file = plain(str(self.output))
        say(*[table(*columns, rows=shown)] * bool(rows))
        if len(rows) > _SHOWN_LAYERS:
            say(f"and {len(rows) - _SHOWN_LAYERS} more; all of them in {file}")
        rest = f"; {counted(left, 'height')} left, run it again to go on" if left else ""
        before, after = gain["seconds_before"], gain["seconds_after"]
        say(
            f"\n{file}: {counted(len(found.shapes), 'layer shape')}, {counted(found.count, 'timing')}{rest}",
            f"default plan, thread time of a frame, in turn: {1e3 * before:.3f} ms in {gain['bytes_before']:,} bytes "
            f"without tuning, {1e3 * after:.3f} ms in {gain['bytes_after']:,} with it ({after / before:.3f} times)",
        )

    def _measured(self, tuner: Tuner, progress: Progress) -> int:
        """Heights that are left; what was found is written whatever ends it."""
        from csdfgen.tuning.file import write_tuning

        before = tuner.found.count
        try:
            return tuner.run(self.seconds, progress, lambda found: write_tuning(self.output, found))
        except KeyboardInterrupt:
            if tuner.found.count > before:
                write_tuning(self.output, tuner.found)
            raise

    def _gain(self, network: Network, fuse: str) -> dict[str, float]:
        """Thread time of a frame, median, and bytes of the default plan without and with tuning, frames in turn."""
        import runtime
        from csdfgen.backends.registry import backend_that
        from csdfgen.devices.measure import SEED
        from csdfgen.goals.choice import plan
        from runtime.images import random_inputs

        usual: dict[str, Any] = {"fuse": fuse, "backend": backend_that("variants")}
        plans = [plan(network, **usual), plan(network, **usual, tuning=str(self.output))]
        feeds = random_inputs(network, SEED)
        programs = [runtime.compile(one) for one in plans]
        times: list[list[float]] = [[], []]
        for turn in range(_FRAMES + 1):
            for program, own in zip(programs, times, strict=True):
                start = time.thread_time()
                program(feeds)
                if turn:  # the first one finds caches cold
                    own.append(time.thread_time() - start)
        before, after = (statistics.median(own) for own in times)
        sizes = {"bytes_before": plans[0].total_bytes, "bytes_after": plans[1].total_bytes}
        return {"seconds_before": before, "seconds_after": after, **sizes}
