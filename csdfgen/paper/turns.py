"""How long does each of several programs take on this machine? They take turns, so that a busy machine slows all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

from csdfgen.paper.cells import Cell
from runtime.images import random_inputs
from runtime.session import Executable

PART = "measured here"

Clock = Callable[[], float]


def take_turns(
    programs: Sequence[Executable], clock: Clock, repeats: int
) -> list[tuple[float, ...]]:
    """Seconds of a frame of each program, a tuple a round, after two rounds that are not counted."""
    frames = [(one, random_inputs(one.plan.network, 1)) for one in programs]
    rounds = []
    for _ in range(repeats + 2):
        seconds = []
        for frame, x in frames:
            start = clock()
            frame(x)
            seconds.append(clock() - start)
        rounds.append(tuple(seconds))
    return rounds[2:]


def measure_cells(
    row: str, programs: Mapping[str, Executable], clock: Clock, repeats: int
) -> Iterator[Cell]:
    """For each program, by its name: median milliseconds an image, its share of the first program's time, and KiB of arena."""
    rounds = take_turns(list(programs.values()), clock, repeats)
    images = [one.plan.conversion.frames for one in programs.values()]
    for k, (name, program) in enumerate(programs.items()):
        ms = 1e3 * median(one[k] for one in rounds) / images[k]
        share = median(one[k] / one[0] for one in rounds) * images[0] / images[k]
        for column, value, unit, digits in (
            ("an image, ms", ms, "ms", 2),
            ("of the first's time", share, "", 2),
            ("arena, KiB", program.plan.figures["arena"] / 1024, "KiB", 0),
        ):
            yield Cell(PART, f"{row}: {name}", column, unit, None, value, digits)
