"""What do Ex1 to Ex4 of paper 002's Table II need? Scheduled for the given phases, and executed.

Only the rows a phase are taken from the paper; order and buffers are found. The paper counts a byte
an element; the networks run in float32, so that its bytes are elements here. The table prints
frames a second, but no times from which they could follow: they are compared with what the published model of
the TX2 gives, which is no reproduction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import runtime
from csdfgen.backends import ALWAYS
from csdfgen.goals.choice import plan
from csdfgen.paper.counting import count, phase_seconds
from csdfgen.paper.printed import TABLE_2, Example
from csdfgen.planning.plan import Plan
from csdfgen.reading.loader import load
from schedules.schedule import Firing, compact, loop_text

__all__ = ["ExampleResult", "plan_example", "reproduce_table2"]

NAMES = {"input:image": "n1", "output:n4": "n5"}
"""Our names of the paper's data layers."""


@dataclass(frozen=True, slots=True)
class ExampleResult:
    """What came out for a row of Table II: buffers in elements, modelled frames a second, whether
    the outputs are Ex1's.
    """

    printed: Example
    phases: tuple[int, ...]
    order: str
    buffers: tuple[int, ...]
    throughput: float
    same_outputs: bool

    @property
    def total(self) -> int:
        return sum(self.buffers)

    @property
    def match(self) -> bool:
        """Whether phases, order and every buffer are as printed."""
        one = self.printed
        return (self.phases, self.order, self.buffers) == (one.phases, one.order, one.buffers)


def plan_example(example: Example) -> Plan:
    """The plan of the five-layer network with the phases of one row of the table."""
    return plan(load("zoo:cnn5"), rows=example.rows, policy="demand", backend=ALWAYS)


def reproduce_table2(examples: tuple[Example, ...] = TABLE_2) -> tuple[ExampleResult, ...]:
    """Schedule and execute the rows of the table."""
    image = np.random.default_rng(0).uniform(-1, 1, (1, 1, 32, 32)).astype(np.float32)
    seconds = count(load("zoo:cnn5")).seconds
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
                _separate_pairs(loop_text(compact(firings, nested=False)), example),
                tuple(planned.regions[b.name].size // 4 for b in planned.rolling),
                1 / (seconds + launched * phase_seconds()),
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
