"""Laws of the SDF3 bridge on seeded random graphs and damaged files: nothing is lost, nothing
changes but the form.
"""

from __future__ import annotations

import random
from dataclasses import replace
from math import gcd
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from csdfgen.cli import main
from csdfgen.dataflow.graph import Channel, CsdfGraph, add_serial_loops, repetition_vector
from csdfgen.dataflow.transform import add_space_channels, enlarge_tokens, remove_channels
from schedules.analysis import analyze, to_json
from schedules.storage import size_storage
from schedules.throughput import throughput
from sdf3_bridge import sdf3xml
from sdf3_bridge.sdf3xml import Sdf3File, WriteOptions
from tests.graphs import SDF3_DATA, SEEDED, consistent_graphs

GRAPHS = sorted((SDF3_DATA / "graphs").glob("*.xml"))
needs_data = pytest.mark.skipif(
    not GRAPHS, reason="the SDF3 reference graphs are not beside the repository"
)

NAMES = st.text(min_size=1, max_size=6)


@st.composite
def decorated_graphs(draw: st.DrawFn, max_actors: int = 6, live: bool = True) -> CsdfGraph:
    """Random graphs with any names, functions, sizes and kinds; rates and tokens may have a common
    divisor.
    """
    graph = draw(consistent_graphs(max_actors=max_actors, live=live))
    chosen = draw(
        st.lists(NAMES, min_size=len(graph.actors), max_size=len(graph.actors), unique=True)
    )
    actors = dict(zip(graph.phases, chosen, strict=True))
    names = draw(
        st.lists(NAMES, min_size=len(graph.channels), max_size=len(graph.channels), unique=True)
    )
    channels = []
    for channel, name in zip(graph.channels, names, strict=True):
        unit, kind = draw(st.sampled_from((1, 1, 2, 6))), "data"
        if channel.source == channel.target:
            kind = draw(st.sampled_from(("data", "overlap")))
        channels.append(
            Channel(
                name,
                actors[channel.source],
                actors[channel.target],
                tuple(unit * rate for rate in channel.production),
                tuple(unit * rate for rate in channel.consumption),
                unit * channel.initial_tokens + draw(st.integers(0, unit - 1)),
                draw(st.integers(0, 9)),
                kind,  # type: ignore[arg-type]
            )
        )
    made = tuple(
        replace(
            actor, name=actors[actor.name], function=draw(st.sampled_from(("", "Conv 3x3", "a&b")))
        )
        for actor in graph.actors
    )
    return CsdfGraph(draw(NAMES), made, tuple(channels))


@st.composite
def write_options(draw: st.DrawFn, graph: CsdfGraph) -> WriteOptions:
    """Every combination of options, with capacities for some channels."""
    capacities = {
        channel.name: channel.initial_tokens + draw(st.integers(0, 40))
        for channel in graph.channels
        if draw(st.booleans())
    }
    return WriteOptions(
        draw(st.sampled_from(("add", "keep", "drop"))),
        draw(st.booleans()),
        draw(st.booleans()),
        capacities,
        draw(st.sampled_from(("channels", "sizes"))),
        draw(st.sampled_from((None, "0.25", "3e-08"))),
    )


@st.composite
def graphs_and_options(draw: st.DrawFn) -> tuple[CsdfGraph, WriteOptions]:
    graph = draw(decorated_graphs())
    return graph, draw(write_options(graph))


def written(graph: CsdfGraph, options: WriteOptions, folder: Path) -> Sdf3File:
    """What is read from the file that is written."""
    sdf3xml.write(folder / "g.xml", graph, options)
    return sdf3xml.read_file(folder / "g.xml")


@settings(SEEDED, max_examples=75)
@given(graphs_and_options())
def test_what_is_written_is_read_back(pair: tuple[CsdfGraph, WriteOptions]) -> None:
    graph, options = pair
    wanted, sizes = sdf3xml.variant(graph, options)
    data = sdf3xml.to_xml(graph, options)
    assert data == sdf3xml.to_xml(graph, options)
    assert sdf3xml.from_xml(data) == wanted
    again = sdf3xml.to_xml(
        wanted,
        WriteOptions(
            "keep", capacities=sizes, capacities_as="sizes", throughput=options.throughput
        ),
    )
    assert data == again


@settings(SEEDED, max_examples=100)
@given(decorated_graphs(live=False))
def test_a_file_is_analysed_as_the_graph_is(graph: CsdfGraph) -> None:
    graph = add_serial_loops(graph)
    back = sdf3xml.from_xml(sdf3xml.to_xml(graph))
    assert to_json(analyze(back, with_latency=True)) == to_json(analyze(graph, with_latency=True))


@settings(SEEDED, max_examples=100)
@given(graphs_and_options())
def test_capacities_as_channels_give_their_throughput(pair: tuple[CsdfGraph, WriteOptions]) -> None:
    graph, options = pair
    graph = add_serial_loops(graph)
    bounded = sdf3xml.from_xml(sdf3xml.to_xml(graph, WriteOptions(capacities=options.capacities)))
    assert throughput(bounded).value == throughput(graph, options.capacities).value
    assert repetition_vector(bounded) == repetition_vector(graph)


@settings(SEEDED, max_examples=100)
@given(graphs_and_options())
def test_larger_tokens_change_nothing_but_the_unit(pair: tuple[CsdfGraph, WriteOptions]) -> None:
    graph, options = pair
    graph = add_serial_loops(graph)
    divided, capacities = enlarge_tokens(graph, options.capacities)
    assert throughput(divided, capacities).value == throughput(graph, options.capacities).value
    for before, after in zip(graph.channels, divided.channels, strict=True):
        for one, other in (
            (before.production, after.production),
            (before.consumption, after.consumption),
            ((before.initial_tokens,), (after.initial_tokens,)),
        ):
            assert [n * before.token_bytes for n in one] == [n * after.token_bytes for n in other]
        assert (
            not any(after.production)
            or gcd(*after.production, *after.consumption, after.initial_tokens) == 1
        )
    assert enlarge_tokens(divided, capacities) == (divided, capacities)
    forward = add_space_channels(divided, capacities)
    assert throughput(forward).value == throughput(graph, options.capacities).value
    assert remove_channels(forward, "space") == divided


@settings(SEEDED, max_examples=60)
@given(decorated_graphs(max_actors=3))
def test_the_least_storage_has_as_many_bytes_in_larger_tokens(graph: CsdfGraph) -> None:
    graph = add_serial_loops(graph)
    divided = enlarge_tokens(graph)[0]
    # a self-loop of one token, which is not sized, may come of one of several
    assume(
        [channel.is_serial for channel in divided.channels]
        == [channel.is_serial for channel in graph.channels]
    )
    found, other = size_storage(graph, "live", "bytes"), size_storage(divided, "live", "bytes")
    assert found.exact and other.exact and found.size == other.size


# Reference data ---------------------------------------------------------------------------------


@needs_data
@pytest.mark.parametrize("path", GRAPHS, ids=[path.stem for path in GRAPHS])
def test_reference_graphs_survive_a_second_round(path: Path, tmp_path: Path) -> None:
    first = sdf3xml.read_file(path)
    options = WriteOptions(
        "keep", capacities=first.capacities, capacities_as="sizes", throughput=first.throughput
    )
    second = written(first.graph, options, tmp_path)
    assert second == first
    data = (tmp_path / "g.xml").read_bytes()
    assert written(second.graph, options, tmp_path) == first
    assert (tmp_path / "g.xml").read_bytes() == data


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The file with some bytes changed, cut out, doubled or moved, or with a number or a name
    exchanged.
    """
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        start = rng.randrange(len(changed))
        stop = min(len(changed), start + rng.choice((1, 1, 3, 20)))
        kind = rng.randrange(6)
        if kind == 0:
            changed[start] = rng.randrange(256)
        elif kind == 1:
            del changed[start:stop]
        elif kind == 2:
            changed[start:start] = changed[start:stop]
        elif kind == 3:
            changed[start:stop] = rng.choice(
                (
                    b"-1",
                    b"0",
                    b"99999999999",
                    b"9*9",
                    b"7000000*1",
                    b"'",
                    b"<",
                    b">",
                    b"&",
                    b";",
                    b"",
                )
            )
        elif kind == 4:
            other = rng.randrange(len(changed))
            changed[start:stop] = changed[other : other + stop - start]
        else:
            digits = [
                i for i in range(start, min(len(changed), start + 400)) if 48 <= changed[i] < 58
            ]
            if digits:
                changed[rng.choice(digits)] = rng.choice(b"0123456789*,-")
        if not changed:
            return b""
    return bytes(changed)


@needs_data
@pytest.mark.parametrize("path", GRAPHS, ids=[path.stem for path in GRAPHS])
def test_a_damaged_file(path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data, rng = path.read_bytes(), random.Random(path.stem)
    target = tmp_path / "bad.xml"
    for _ in range(8):
        target.write_bytes(damaged(data, rng))
        code = main([str(target), "-o", str(tmp_path / "out.xml")])
        lines = capfd.readouterr().err.splitlines()
        assert code in (0, 1), lines
        assert len(lines) == 1 or code == 0
        assert all(
            line.startswith((f"{target}", "warning: ")) and "internal error" not in line
            for line in lines
        ), lines
        if code == 0:
            assert sdf3xml.to_xml(sdf3xml.read(tmp_path / "out.xml")) == sdf3xml.to_xml(
                sdf3xml.read(target)
            )
