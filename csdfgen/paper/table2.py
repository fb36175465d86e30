"""What do Ex1 to Ex4 of paper 002's Table II need? Scheduled for the given phases, and executed.

Only the rows a phase are taken from the paper; order and buffers are found. The paper counts a byte
an element; the networks run in float32, so that its bytes are elements here. The table prints
frames a second, but no time of a layer. All four follow from one time of the layers, which is fitted, and the
launch of a phase that Table III gives (equation (2)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import runtime
from csdfgen.backends import ALWAYS
from csdfgen.goals.choice import plan
from csdfgen.paper.counting import count, phase_seconds
from csdfgen.paper.printed import TABLE_2, Example
from csdfgen.planning.plan import Plan
from csdfgen.reading.loader import load
from schedules.schedule import Firing, compact_loops, format_loops

NAMES = {"input:image": "n1", "output:n4": "n5"}
"""Our names of the paper's data layers."""


@dataclass(frozen=True, slots=True)
class ExampleResult:
    """What came out for a row of Table II: buffers in elements, frames a second by the published model
    of the TX2 and by the fitted time of the layers, whether the outputs are Ex1's.
    """

    printed: Example
    phases: tuple[int, ...]
    order: str
    buffers: tuple[int, ...]
    throughput: float
    fitted: float
    same_outputs: bool

    @property
    def total(self) -> int:
        return sum(self.buffers)

    @property
    def match(self) -> bool:
        """Whether phases, order and every buffer are as printed."""
        one = self.printed
        return (self.phases, self.order, self.buffers) == (one.phases, one.order, one.buffers)


def fit_launch_seconds(examples: Sequence[Example] = TABLE_2) -> tuple[float, float]:
    """Seconds that a phase may take, from and to, if a frame takes the same time for its layers in all rows and the
    frames a second are rounded: of two rows, the times differ by as many launches as their phases.

    >>> [round(seconds * 1e6, 2) for seconds in fit_launch_seconds()]
    [4.98, 5.25]
    """
    rows = [(sum(one.phases), *_frame_seconds(one)) for one in examples]
    pairs = [(less, more) for less in rows for more in rows if less[0] < more[0]]
    return (
        max((b[1] - a[2]) / (b[0] - a[0]) for a, b in pairs),
        min((b[2] - a[1]) / (b[0] - a[0]) for a, b in pairs),
    )


def fit_layer_seconds(launch: float, examples: Sequence[Example] = TABLE_2) -> float:
    """Seconds of the layers alone with which all rows come closest to print. launch: seconds of a phase."""
    least, most = zip(*(_frame_seconds(one) for one in examples), strict=True)
    phases = [launch * sum(one.phases) for one in examples]
    from_, to = max(map(float.__sub__, least, phases)), min(map(float.__sub__, most, phases))
    return (from_ + to) / 2


def _frame_seconds(example: Example) -> tuple[float, float]:
    """From and to: seconds of a frame that give the printed frames a second, rounded."""
    return 1 / (example.throughput + 0.5), 1 / (example.throughput - 0.5)


def plan_example(example: Example) -> Plan:
    """The plan of the five-layer network with the phases of one row of the table."""
    return plan(load("zoo:cnn5"), rows=example.rows, policy="demand", backend=ALWAYS)


def reproduce_table2(examples: tuple[Example, ...] = TABLE_2) -> tuple[ExampleResult, ...]:
    """Schedule and execute the rows of the table."""
    image = np.random.default_rng(0).uniform(-1, 1, (1, 1, 32, 32)).astype(np.float32)
    seconds, layers = count(load("zoo:cnn5")).seconds, fit_layer_seconds(phase_seconds())
    results: list[ExampleResult] = []
    first: dict[str, np.ndarray] | None = None
    for example in examples:
        planned = plan_example(example)
        outputs = runtime.run(planned, image)
        first = first or outputs
        actors = planned.conversion.actors
        firings = [Firing(NAMES.get(actor, actor), phase) for actor, phase in planned.order]
        launched = sum(len(work.phases) for work in actors if work.layer is not None)
        results.append(
            ExampleResult(
                example,
                tuple(len(work.phases) for work in actors),
                _separate_pairs(format_loops(compact_loops(firings, nested=False)), example),
                tuple(planned.regions[b.name].size // 4 for b in planned.rolling),
                1 / (seconds + launched * phase_seconds()),
                1 / (layers + len(planned.order) * phase_seconds()),
                all(
                    np.allclose(first[name], value, rtol=1e-5, atol=1e-6)
                    for name, value in outputs.items()
                ),
            )
        )
    return tuple(results)


def _separate_pairs(text: str, example: Example) -> str:
    """Loops written out where the paper does so: Ex2 has "n1(1), n2(1), n1(2), n2(2)" for
    "[n1(1-2), n2(1-2)]".
    """
    if "[" in example.order:
        return text
    return text.replace("[n1(1-2), n2(1-2)]", "n1(1), n2(1), n1(2), n2(2)")
