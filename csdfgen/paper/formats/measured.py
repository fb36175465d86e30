"""What do paper 003's number formats gain on this machine? Frames of its network in native code, and the noise of each."""

from __future__ import annotations

import time
from collections.abc import Iterator

from csdfgen.backends.registry import find_backend
from csdfgen.errors import CsdfgenError
from csdfgen.goals.choice import plan
from csdfgen.paper.cells import Cell, Left
from csdfgen.paper.turns import PART, measure_cells
from csdfgen.precision.quantize import quantize
from csdfgen.reading.loader import load
from runtime.images import random_inputs
from runtime.session import Executable
from zoo_models import ZOO

NETWORK, SIZE, REPEATS = "caffenet", 227, 21

FORMATS = ("float16", "bfloat16", "int8")
"""What csdfgen has of the paper's formats and near them; int16 is what it computes in the paper's own arithmetic above."""


def formats(left: list[Left]) -> Iterator[Cell]:
    """Milliseconds and KiB of arena of a frame in each format beside float32; left: what cannot be measured is added."""
    try:
        model, backend = ZOO[NETWORK].build(SIZE, weights=True), find_backend("emits")
        network = load(model)
        programs = {"float32": Executable(plan(network, backend=backend))}
        for name in FORMATS:
            images = random_inputs(network, 1)
            stored = load(quantize(model, images, format=name, method="minmax").model)
            programs[name] = Executable(plan(stored, backend=backend))
        yield from measure_cells("ImageNet", programs, time.thread_time, REPEATS)
    except CsdfgenError as error:
        left.append(Left(PART, "ImageNet", 0, str(error)))
