"""Graphs as DOT text: what it shows, and that any name survives Graphviz's quoting."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from csdfgen.dataflow.dot import CriticalArrow, to_dot
from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph, add_serial_loops
from tests.graphs import SEEDED, convolution

STRING = r'"(?:[^"\\]|\\.)*"'
ATTRIBUTES = rf"\[(?:\w+=(?:{STRING}|[\w.]+)(?:, )?)+\]"
LINE = re.compile(
    rf"digraph {STRING} \{{|\}}|  (?:node|edge|graph|a\d+(?: -> a\d+)?) {ATTRIBUTES};"
)


def test_actors_phases_functions_rates_and_self_loops_are_shown() -> None:
    text = to_dot(add_serial_loops(convolution(8)), {"in": 3})
    assert text.splitlines()[0] == 'digraph "conv" {'
    assert r'a1 [label="conv\nConv 3x3\n8 phases"];' in text
    assert (
        r'a0 -> a1 [label="  8*1 -> 2,6*1,0  \n  capacity 3  ", style=solid, tooltip="in"];' in text
    )
    assert r'a1 -> a1 [label="  7*2,0 -> 0,7*2  ", style=dashed, tooltip="rows"];' in text
    assert (
        r'a1 -> a1 [label="  1 token  ", style=dotted, tooltip="serial_conv", tailport=w, headport=w];'
        in text
    )
    assert to_dot(add_serial_loops(convolution(8)), {"in": 3}) == text


def test_a_critical_cycle_is_coloured_and_thick_and_waits_for_space_have_arrows_of_their_own() -> (
    None
):
    loop = [CriticalArrow("conv", "conv", "", False)]
    lines = to_dot(add_serial_loops(convolution(8)), critical=loop).splitlines()
    thick = [line for line in lines if "penwidth=3" in line]
    assert [line.split(" [")[0] for line in thick] == ["  a1", "  a1 -> a1"]
    assert (
        'style=dotted, tooltip="serial_conv", tailport=w, headport=w, color="#c0392b", penwidth=3'
        in thick[1]
    )

    cycle = [CriticalArrow("src", "conv", "in", False), CriticalArrow("conv", "src", "in", True)]
    text = to_dot(convolution(8), {"in": 2}, cycle, "throughput 1/20")
    assert 'tooltip="in", color="#c0392b", penwidth=3];' in text
    assert (
        '  a1 -> a0 [label="  space in in  ", constraint=false, color="#c0392b", penwidth=3];'
        in text
    )
    assert 'graph [label="throughput 1/20", labelloc=b' in text
    for line in text.splitlines():
        assert LINE.fullmatch(line), line


def test_one_phase_is_singular_and_long_lists_are_cut() -> None:
    actors = (Actor("A", (1,) * 90), Actor("B", (1,)))
    text = to_dot(CsdfGraph("g", actors, (Channel("ab", "A", "B", tuple(range(90)), (4005,)),)))
    assert r"B\n1 phase" in text
    assert '"  0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,... -> 4005  "' in text


def test_quotes_backslashes_and_entities_are_escaped() -> None:
    graph = convolution(4)
    graph = replace(
        graph, actors=(replace(graph.actors[0], function=r'a"b\N&lt;' + "\n"), *graph.actors[1:])
    )
    assert r'a0 [label="src\na\"b\\N&amp;lt;<a>\n4 phases"];' in to_dot(graph)


@given(st.text(min_size=1), st.text(min_size=1))
@SEEDED
def test_every_line_is_dot_whatever_the_names(name: str, function: str) -> None:
    graph = CsdfGraph(
        name, (Actor(name, (1,), function),), (Channel(function, name, name, (1,), (1,), 1),)
    )
    for line in to_dot(graph).splitlines():
        assert LINE.fullmatch(line), line
