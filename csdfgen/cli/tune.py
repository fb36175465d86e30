"""`csdfgen tune`: measure variants of kernels on this machine, keep them, and say what they bring."""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import runtime
from csdfgen.backends.native.library import load
from csdfgen.cli.models import load_network
from csdfgen.cli.options import ModelOptions, is_graph_file
from csdfgen.cli.terminal import Stage, console, counted, plain, stages, table
from csdfgen.devices.measure import SEED
from csdfgen.errors import CsdfgenError, InputError
from csdfgen.files import check_writable
from csdfgen.goals.choice import plan
from csdfgen.model.network import Network
from csdfgen.tuning.file import Tuning, machine_of, read_tuning, write_tuning
from csdfgen.tuning.measure import Tuner
from runtime.images import random_inputs

__all__ = ["TuneRequest", "run_tune"]

_SHOWN_LAYERS = 12
_SHOWN_KEY = 70
_FRAMES = 9
"""Of the plans without and with tuning, in turn, in the end."""


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """What the user asked for."""

    model: str
    output: Path
    options: ModelOptions
    seconds: float
    as_json: bool


@dataclass(frozen=True, slots=True)
class _Gain:
    """Thread time of a frame, median, and bytes of the default plan without and with tuning."""

    before: float
    after: float
    bytes_before: int
    bytes_after: int


def run_tune(request: TuneRequest) -> None:
    """Measure, write, compare. Raises CsdfgenError, also KeyboardInterrupt after what was found is
    written.
    """
    if request.output.suffix.lower() != ".json":
        raise InputError("what was found is written as .json", where=str(request.output))
    if is_graph_file(request.model):
        raise InputError("is a graph, which cannot be run; give the model", where=request.model)
    check_writable(request.output)
    with stages() as stage:
        stage("building native code, once on this machine")
        library = load()
        machine = machine_of(library)
        known = read_tuning(request.output, machine) if request.output.exists() else None
        stage("loading")
        network = load_network(request.model, request.options)
        try:
            tuner = Tuner(network, library, machine, known, fuse=request.options.fuse or "full")
            left = _measured(tuner, request, stage)
            stage("comparing plans without and with what was found")
            gain = _gain(network, request)
        except CsdfgenError as error:
            raise error.at(network.source or network.name) from None
    _say(request, tuner, left, gain)


def _measured(tuner: Tuner, request: TuneRequest, stage: Stage) -> int:
    """Heights that are left; what was found is written whatever ends it."""
    before = tuner.found.count
    try:
        return tuner.run(request.seconds, stage, lambda found: write_tuning(request.output, found))
    except KeyboardInterrupt:
        if tuner.found.count > before:
            write_tuning(request.output, tuner.found)
        raise


def _gain(network: Network, request: TuneRequest) -> _Gain:
    """The default plan against the one with tuning, frames in turn."""
    fuse = request.options.fuse or "full"
    plans = [
        plan(network, fuse=fuse, backend="native"),
        plan(network, fuse=fuse, backend="native", tuning=str(request.output)),
    ]
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
    return _Gain(before, after, *(one.total_bytes for one in plans))


# What is said -----------------------------------------------------------------------------------


def _say(request: TuneRequest, tuner: Tuner, left: int, gain: _Gain) -> None:
    rows = _changed(tuner.found)
    if request.as_json:
        print(json.dumps(_json(request, tuner, left, gain), indent=2, allow_nan=False))
        return
    out = console()
    shown = table(
        "layer shape", "rows", "variant", "us", "next best", "us ", right=("rows", "us", "us ")
    )
    for key, height, best, us, second, other in rows[:_SHOWN_LAYERS]:
        name = key if len(key) <= _SHOWN_KEY else key[: _SHOWN_KEY - 3] + "..."
        shown.add_row(plain(name), str(height), best, f"{us:.1f}", second, f"{other:.1f}")
    if rows:
        out.print(shown)
    if len(rows) > _SHOWN_LAYERS:
        out.print(
            f"and {len(rows) - _SHOWN_LAYERS} more; all of them in {plain(str(request.output))}"
        )
    out.print(
        f"\n{plain(str(request.output))}: {counted(len(tuner.found.shapes), 'layer shape')}, "
        f"{counted(tuner.found.count, 'timing')}"
        + (f"; {counted(left, 'height')} left, run it again to go on" if left else "")
    )
    out.print(
        f"default plan, thread time of a frame, in turn: {1e3 * gain.before:.3f} ms in {gain.bytes_before:,} bytes "
        f"without tuning, {1e3 * gain.after:.3f} ms in {gain.bytes_after:,} with it "
        f"({gain.after / gain.before:.3f} times)"
    )


_Row = tuple[str, int, str, float, str, float]


def _changed(found: Tuning) -> list[_Row]:
    """Shapes and heights with several variants: the best and the next best, in microseconds; where
    they differ most comes first.
    """
    rows: list[_Row] = []
    for key, heights in found.shapes.items():
        for height, ways in heights.items():
            if len(ways) > 1:
                (best, first), (second, other) = sorted(
                    ways.items(), key=lambda item: item[1].seconds
                )[:2]
                rows.append((key, height, best, 1e6 * first.seconds, second, 1e6 * other.seconds))
    return sorted(rows, key=lambda row: row[3] / row[5])


def _json(request: TuneRequest, tuner: Tuner, left: int, gain: _Gain) -> dict[str, object]:
    return {
        "file": str(request.output),
        "shapes": len(tuner.found.shapes),
        "timings": tuner.found.count,
        "heights_left": left,
        "seconds_before": gain.before,
        "seconds_after": gain.after,
        "bytes_before": gain.bytes_before,
        "bytes_after": gain.bytes_after,
    }
