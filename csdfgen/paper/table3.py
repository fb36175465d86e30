"""What are the values of Table III of paper 002, counted as its authors did, and as our schedules need
them?

`paper`: `counting`. `schedule`: rows=1 and --fuse full, executed; m_our is the parameters, the outputs
and the arena, of which every byte was touched in a frame, the kernels' workspace included, for which
the paper counts nothing. m_DL is then the parameters
and every tensor of the unfused network once: the paper's own m_DL counts a tensor once a reader.
The times are the same model's, with the phases of our schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import runtime
import zoo_models
from csdfgen.backends import ALWAYS
from csdfgen.errors import PlanError
from csdfgen.goals.choice import plan
from csdfgen.model.network import Network
from csdfgen.paper.counting import Count, count, has_time, phase_seconds
from csdfgen.paper.printed import COLUMNS, TABLE_3
from csdfgen.reading.loader import load

COUNTINGS = ("paper", "schedule")

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the table before rounding, and the printed one."""

    network: str
    counting: str
    column: str
    ours: float
    printed: float

    @property
    def rounded(self) -> float:
        """Ours as the paper prints this cell: two decimals below ten frames a second, else none."""
        return round(self.ours, 2 if self.printed != int(self.printed) else 0)

    @property
    def match(self) -> bool:
        return self.rounded == self.printed


def load_network(name: str, *, weights: bool) -> Network:
    """A network of the table, unfused; tiny YOLO v2 with 12x12 behind the pool without stride, as
    in the authors' tool.
    """
    from zoo_models.yolo import tiny_yolo_v2

    if name == "tiny_yolo_v2":
        return load(tiny_yolo_v2.build(weights=weights, last_pool_pads=False))
    return load(zoo_models.ZOO[name].build(weights=weights))


def count_paper_row(name: str) -> Count:
    """A row of the table counted as the authors did."""
    return count(load_network(name, weights=False))


def schedule_values(name: str) -> tuple[float, float, float, float]:
    """m_DL, m_our (MB), tau_DL, tau_our (frames a second) by our schedule, executed once on random
    values.

    Raises PlanError if the frame did not use the arena that was planned, to the byte.
    """
    network = load_network(name, weights=True)
    counted = count(network)
    whole = sum(tensor.nbytes for tensor in network.tensors.values())
    planned = plan(network, rows=1, backend=ALWAYS)
    random = np.random.default_rng(0)
    images = {t.name: random.uniform(-1, 1, t.shape).astype(t.dtype) for t in network.inputs}
    _, measured = runtime.compile(planned).measure(images)
    if measured.touched_bytes != planned.planned_bytes:
        raise PlanError(
            f"{measured.touched_bytes} bytes touched, {planned.planned_bytes} planned", where=name
        )
    launched = sum(
        len(work.phases)
        for work in planned.conversion.actors
        if work.layer is not None and has_time(work.layer)
    )
    needed = sum(planned.figures[name] for name in ("parameters", "arena", "outputs"))
    return (
        (network.parameter_bytes + whole) / 1e6,
        needed / 1e6,
        counted.tau_dl,
        1 / (counted.seconds + phase_seconds() * launched),
    )


def reproduce_table3(
    countings: tuple[str, ...] = COUNTINGS, progress: Progress = lambda name: None
) -> Iterator[Cell]:
    """The cells of the table, network by network; `progress` is called with its name."""
    for name, printed in TABLE_3.items():
        progress(name)
        for counting in countings:
            if counting == "paper":
                counted = count_paper_row(name)
                values = counted.m_dl, counted.m_our, counted.tau_dl, counted.tau_our
            else:
                values = schedule_values(name)
            m_dl, m_our, tau_dl, tau_our = values
            less, slower = 100 * (1 - m_our / m_dl), 100 * (1 - tau_our / tau_dl)
            row = (m_dl, m_our, less, tau_dl, tau_our, slower)
            for column, ours, value in zip(COLUMNS, row, printed, strict=True):
                yield Cell(name, counting, column, ours, value)
