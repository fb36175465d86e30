"""Orders and components against their definitions, on random graphs with cycles."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given

from csdfgen.dataflow.graph import CsdfGraph
from schedules.order import component_numbers, strongly_connected_components, topological_order
from tests.command import python
from tests.graphs import SEEDED, consistent_graphs
from tests.native_steps import compiler_missing

ROOT = Path(__file__).resolve().parents[2]


def reached(size: int, arrows: list[tuple[int, int]]) -> list[set[int]]:
    """For every node those that some way leads to, itself among them (Warshall)."""
    to = [{node, *(target for source, target in arrows if source == node)} for node in range(size)]
    for middle, node in product(range(size), repeat=2):
        if middle in to[node]:
            to[node] |= to[middle]
    return to


@pytest.mark.parametrize("seed", range(40))
def test_a_component_is_who_reach_each_other_and_targets_come_first(seed: int) -> None:
    draw = random.Random(seed)
    size = draw.randint(1, 12)
    arrows = [
        (draw.randrange(size), draw.randrange(size)) for _ in range(draw.randint(0, 2 * size))
    ]
    number, to = component_numbers(size, arrows), reached(size, arrows)
    assert sorted(set(number)) == list(range(max(number) + 1))
    for one, other in product(range(size), repeat=2):
        assert (number[one] == number[other]) == (other in to[one] and one in to[other])
        assert other not in to[one] or number[other] <= number[one]


@SEEDED
@given(consistent_graphs(max_actors=9, live=False))
def test_the_first_actor_that_waits_for_none_comes_next(graph: CsdfGraph) -> None:
    index = {actor.name: number for number, actor in enumerate(graph.actors)}
    number = strongly_connected_components(graph)
    before: list[set[int]] = [set() for _ in index]
    for channel in graph.channels:
        source, target = index[channel.source], index[channel.target]
        first = next((rate for rate in channel.consumption if rate), 0)
        if number[source] != number[target] or channel.initial_tokens < first:
            before[target].add(source)
    left = sorted(index.values())
    expected: list[int] = []
    while left:
        free = [actor for actor in left if not before[actor] & set(left) - {actor}]
        chosen = free[0] if free else min(left, key=lambda actor: (-number[actor], actor))
        left.remove(chosen)
        expected.append(chosen)
    assert topological_order(graph) == expected


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
def test_planning_loads_no_large_library() -> None:
    code = """if True:
        import sys
        import csdfgen, runtime
        runtime.compile(csdfgen.plan(csdfgen.load("zoo:resnet8"), backend="native"))
        large = {"scipy", "networkx", "rich", "typer", "PIL", "onnxruntime", "unittest", "lxml"}
        print(sorted(large & sys.modules.keys()))"""
    said = python("-c", code, check=True)
    assert said.stdout.splitlines() == ["[]"]
