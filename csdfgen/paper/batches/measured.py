"""What do the algorithms of paper 000 gain on this machine? Requests of several images, executed in native code."""

from __future__ import annotations

import time
from collections.abc import Iterator

from csdfgen.backends.registry import find_backend
from csdfgen.errors import CsdfgenError
from csdfgen.goals.choice import plan
from csdfgen.paper.cells import Cell, Left
from csdfgen.paper.turns import PART, measure_cells
from csdfgen.reading.loader import load
from runtime.session import Executable

NETWORKS = ("googlenet", "squeezenet1_1")
IMAGES, REPEATS = 8, 11

WAYS = {
    "fbs": "one batch", "greedy": "greedy", "vbs-paper": "Algorithm 1", "vbs": "ours", "joint": "ours, slabs of rows",
}  # fmt: skip
"""`--batching` -> how the page calls it."""

_WHOLE = 1.5
"""Memory of a request, in that of whole layers of one image with all outputs."""


def requests(left: list[Left]) -> Iterator[Cell]:
    """Milliseconds an image by every way in one memory; left: what has no plan or cannot be measured is added."""
    for name in NETWORKS:
        try:
            yield from _network(name, left)
        except CsdfgenError as error:
            left.append(Left(PART, name, 0, str(error)))


def _network(name: str, left: list[Left]) -> Iterator[Cell]:
    network, backend = load(f"zoo:{name}"), find_backend("emits")
    whole = plan(network, rows="whole", backend=backend).planned_bytes
    memory = round(_WHOLE * (whole + IMAGES * network.output_bytes))
    row, programs = f"{name}, {memory / 2**20:.2f} MiB", {}
    for way, title in WAYS.items():
        try:
            found = plan(network, requests=IMAGES, batching=way, memory=memory, backend=backend)
        except CsdfgenError as error:
            left.append(Left(PART, f"{row}: {title}", 0, str(error)))
        else:
            programs[title] = Executable(found)
    yield from measure_cells(row, programs, time.thread_time, REPEATS)
