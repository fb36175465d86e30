"""Small CSDF graphs that several tests use, and hypothesis strategies for random consistent ones."""

from __future__ import annotations

from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st

from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph

SEEDED = settings(deadline=None, derandomize=True)
"""The same examples in every run, however busy the machine."""

SDF3_DATA = Path(__file__).resolve().parents[2] / "shared" / "sdf3"
"""Reference graphs, kept beside the repository and not in it."""


def convolution(height: int = 8) -> CsdfGraph:
    """One 3x3 convolution, pad 1, one output row a phase, between a source and a sink."""
    rows = (1,) * height
    return CsdfGraph(
        "conv",
        (
            Actor("src", rows, "Input"),
            Actor("conv", (3,) * height, "Conv 3x3"),
            Actor("snk", rows, "Output"),
        ),
        (
            Channel("in", "src", "conv", rows, (2, *(1,) * (height - 2), 0), token_bytes=40),
            Channel(
                "rows",
                "conv",
                "conv",
                (2,) * (height - 1) + (0,),
                (0,) + (2,) * (height - 1),
                token_bytes=40,
                kind="overlap",
            ),
            Channel("out", "conv", "snk", rows, rows, token_bytes=16),
        ),
    )


def ring(tokens: int = 1) -> CsdfGraph:
    """Two actors in a ring; without tokens it deadlocks."""
    return CsdfGraph(
        "ring",
        (Actor("A", (2,)), Actor("B", (3,))),
        (Channel("ab", "A", "B", (1,), (1,)), Channel("ba", "B", "A", (1,), (1,), tokens)),
    )


def _split(draw: st.DrawFn, total: int, phases: int) -> tuple[int, ...]:
    """`total` tokens divided among phases; some get none."""
    cuts = sorted(draw(st.lists(st.integers(0, total), min_size=phases - 1, max_size=phases - 1)))
    return tuple(b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True))


@st.composite
def consistent_graphs(draw: st.DrawFn, max_actors: int = 6, live: bool = True) -> CsdfGraph:
    """Chains, forks, joins and cycles of actors of 1 to 4 phases, balanced by construction.

    live: channels backwards hold the tokens of a whole iteration, so that no graph deadlocks;
        otherwise some may.
    """
    count = draw(st.integers(1, max_actors))
    phases = [draw(st.integers(1, 4)) for _ in range(count)]
    rounds = [draw(st.sampled_from((1, 1, 2, 3, 4, 6))) for _ in range(count)]
    actors = tuple(
        Actor(f"a{i}", tuple(draw(st.integers(0, 5)) for _ in range(n)))
        for i, n in enumerate(phases)
    )
    pairs = [(draw(st.integers(0, i - 1)), i) for i in range(1, count)]
    pairs += draw(
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=4)
    )
    channels = []
    for number, (source, target) in enumerate(pairs):
        unit = draw(st.integers(1, 3))
        production = _split(draw, unit * rounds[target], phases[source])
        consumption = _split(draw, unit * rounds[source], phases[target])
        whole = unit * rounds[source] * rounds[target]
        least = 0 if source < target or not live else whole
        tokens = draw(
            st.integers(least, whole + 2) if source >= target else st.sampled_from((0, 0, 0, 1, 3))
        )
        channels.append(
            Channel(f"c{number}", f"a{source}", f"a{target}", production, consumption, tokens)
        )
    return CsdfGraph("random", actors, tuple(channels))
