"""`csdfgen tune`: measure variants of kernels on this machine, keep them, and report what they bring."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from csdfgen.cli.command import Command
from csdfgen.cli.options import (
    JSON,
    OUTPUT,
    NetworkArgument,
    Typed,
    check_suffix,
    option_group,
    refuse_graph,
)
from csdfgen.cli.terminal import Progress, cut, escape, say, say_json, show_progress, table
from csdfgen.errors import InputError, option, prefix_errors
from csdfgen.model.options import DEFAULTS, declare
from csdfgen.model.units import pluralize

if TYPE_CHECKING:
    from csdfgen.model.network import Network
    from csdfgen.program.steps import Backend
    from csdfgen.tuning.measure import Tuner


_SHOWN_LAYERS = 12
_SHOWN_KEY = 70
_TAKEN = ("fuse", "backend", "cl_device")
"""Options of plans that are compared."""

_FRAMES = 9
"""Of the plans without and with tuning, in turn, in the end."""


@option_group("backend", "cl_device", "fuse", "shape", "fix", "batch")
class _Tuned(Typed):
    """How the model is loaded, and whose kernels are measured."""


@dataclass(frozen=True, kw_only=True)
class Tune(Command):
    """Measure on this machine which variant of each layer's kernel is the fastest at which slab height.

    Run it again to continue where it stopped, or with another model to add its layers.
    """

    examples = (
        "csdfgen tune model.onnx --seconds 60 -o tuned.json",
        "csdfgen run model.onnx --tuning tuned.json",
        "csdfgen tune model.onnx --backend opencl -o gpu.json",
    )

    model: NetworkArgument
    output: Path = declare(
        "The tuning file; an existing file is continued.",
        Path("tuned.json"), "FILE.json", names=OUTPUT,
    )  # fmt: skip
    seconds: float = declare("The approximate measuring time.", 60.0, "S", low=1, high=86_400)
    planning: _Tuned
    as_json: bool = declare("Print one JSON object instead of text.", False, names=JSON)

    def run(self) -> None:
        """Measure, write, compare. Raises CsdfgenError, also KeyboardInterrupt after what was found is
        written.
        """
        from csdfgen.cli.models import load_network
        from csdfgen.tuning.file import describe_machine, read_tuning
        from csdfgen.tuning.measure import Tuner

        asked = self.planning.read()
        usual = {"fuse": DEFAULTS.fuse, **{k: v for k, v in asked.given.items() if k in _TAKEN}}
        check_suffix(self.output, "what was found", ".json")
        refuse_graph(self.model, ", which cannot be run; give the model")
        with show_progress() as progress:
            progress("building native code, once on this machine")
            kernels = _measured_kernels(usual)
            known = None
            if self.output.exists():
                known = read_tuning(self.output, describe_machine(kernels), kernels.variants)
            progress("loading")
            network = load_network(self.model, asked)
            with prefix_errors(network.source or network.name):
                tuner = Tuner(network, known, **usual)
                left = self._measured(tuner, progress)
                progress("comparing plans without and with what was found")
                gain = self._gain(network, usual)
        found, frame = tuner.found, "whole layers" if gain["whole"] else "default plan"
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
        file = escape(self.output)
        say(*[table(*columns, rows=shown)] * bool(rows))
        if len(rows) > _SHOWN_LAYERS:
            say(f"and {len(rows) - _SHOWN_LAYERS} more; all of them in {file}")
        rest = f"; {pluralize(left, 'height')} left, run it again to go on" if left else ""
        before, after = gain["seconds_before"], gain["seconds_after"]
        say(
            f"\n{file}: {pluralize(len(found.shapes), 'layer shape')}, {pluralize(found.count, 'timing')}{rest}",
            f"{frame}, time of a frame, in turn: {1e3 * before:.3f} ms in {gain['bytes_before']:,} bytes "
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

    def _gain(self, network: Network, taken: dict[str, Any]) -> dict[str, Any]:
        """Time of a frame, median, and bytes of the default plan without and with tuning, frames in turn: of this thread, or of
        day where a device computes.
        """
        import runtime
        from csdfgen.backends.registry import load_backend
        from csdfgen.devices.measure import SEED
        from csdfgen.goals.choice import plan
        from runtime.images import random_inputs

        whole = load_backend(taken["backend"]).whole_variants
        usual = {**taken, "rows": "whole"} if whole else taken
        plans = [plan(network, **usual), plan(network, **usual, tuning=str(self.output))]
        feeds = random_inputs(network, SEED)
        programs = [runtime.compile(one) for one in plans]
        clock = time.thread_time if programs[0].driven is None else time.perf_counter
        times: list[list[float]] = [[], []]
        for turn in range(_FRAMES + 1):
            for program, own in zip(programs, times, strict=True):
                start = clock()
                program(feeds)
                if turn:  # the first one finds caches cold
                    own.append(clock() - start)
        before, after = (statistics.median(own) for own in times)
        sizes = {"bytes_before": plans[0].total_bytes, "bytes_after": plans[1].total_bytes}
        return {"whole": whole, "seconds_before": before, "seconds_after": after, **sizes}


def _measured_kernels(usual: dict[str, Any]) -> Backend:
    """The backend that is measured, whose name `usual` then has. Raises InputError for one without variants."""
    from csdfgen.backends.registry import AUTO, find_backend, load_backend

    if usual.get("backend", AUTO) == AUTO:
        usual["backend"] = find_backend("variants")
    kernels = load_backend(usual["backend"], cl_device=usual.get("cl_device", ""))
    if not kernels.variants:
        raise InputError(f"{option('backend', kernels.name)} has no variants to measure")
    return kernels
