"""Answers of SDF3 and Kiter in our names and units; what they get wrong, or cannot, is one line.
With stand-ins for both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from csdfgen.cli import main
from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph, add_serial_loops, repetition_vector
from csdfgen.dataflow.graph_json import write_graph
from csdfgen.dataflow.transform import add_space_channels
from csdfgen.errors import GraphError, ToolError
from schedules.analysis import to_json
from schedules.throughput import throughput
from sdf3_bridge.engines import analyze_kiter, analyze_sdf3
from sdf3_bridge.iteration import sdf3_iteration
from sdf3_bridge.names import encode_name
from sdf3_bridge.prepare import add_loops, prepare_buffersize, reduce_graph, stretch_times
from sdf3_bridge.sdf3read import from_xml
from tests.graphs import convolution, ring
from tests.standin import DATA, Reply, asked, asked_graph, read_transcript, stand_in

TIMING = "analysis time: 0.03ms\n"
Sdf3 = Callable[..., Path]


def reply(name: str) -> Reply:
    return read_transcript(DATA / f"{name}.txt").reply


def vector(graph: CsdfGraph) -> Reply:
    """SDF3's repetition vector of a graph."""
    lines = "".join(
        f" [{encode_name(actor)}] = {count}\n"
        for actor, count in sdf3_iteration(graph).firings.items()
    )
    return Reply(f"Repetition vector:\n{lines}{TIMING}")


def rate(text: str, name: str = "ring") -> Reply:
    return Reply(f"thr({name}) = {text}\n{TIMING}")


def storage(*entries: tuple[str, Mapping[str, int]]) -> Reply:
    """What `buffersize` prints: throughput, and tokens by channel; the timing line is missing in
    some releases.
    """
    sets = []
    for value, capacities in entries:
        channels = "".join(
            f"<ch name='{encode_name(name)}' sz='{size}'/>" for name, size in capacities.items()
        )
        total = sum(capacities.values())
        sets.append(
            f"<distributionsSet thr='{value}' sz='{total}'><distribution>{channels}</distribution></distributionsSet>"
        )
    return Reply(
        f"<sdf3><storageThroughputTradeOffs>{''.join(sets)}</storageThroughputTradeOffs></sdf3>\n{TIMING}"
    )


@pytest.fixture
def sdf3(tmp_path: Path) -> Sdf3:
    """Makes a stand-in for SDF3 that has these answers, and those for the ring."""

    def make(**replies: Reply) -> Path:
        known = {
            "repetition_vector": reply("sdf3_ring_repetition_vector"),
            "throughput": reply("sdf3_ring_throughput"),
        }
        return stand_in(tmp_path / "sdf3", "sdf3analysis-csdf", known | replies)

    return make


@pytest.fixture
def kiter(tmp_path: Path) -> Callable[[Reply], Path]:
    return lambda answer: stand_in(tmp_path / "kiter", "kiter", {"KPeriodicThroughput": answer})


def two_and_three() -> CsdfGraph:
    """Actors of 2 and 3 phases: SDF3 counts 6 minimal iterations as one."""
    channels = (
        Channel("a/b", "A 1", "B", (1, 1), (1, 1, 0)),
        Channel("b a", "B", "A 1", (1, 1, 0), (1, 1), 3),
    )
    return add_serial_loops(
        CsdfGraph("2 & 3", (Actor("A 1", (1, 1)), Actor("B", (1, 1, 1))), channels)
    )


# Throughput -------------------------------------------------------------------------------------


def test_throughput_of_sdf3(sdf3: Sdf3) -> None:
    tool = sdf3()
    found = analyze_sdf3(ring(), tool=tool)
    assert found.throughput is not None and found.tool is not None
    assert (found.throughput.value, found.throughput.exact, found.throughput.method) == (
        Fraction(1, 5),
        True,
        "sdf3",
    )
    assert (found.repetition, found.deadlock, found.buffers, found.notes) == (
        {"A": 1, "B": 1},
        None,
        None,
        (),
    )
    assert (found.tool.printed, found.tool.k, found.tool.version, found.tool.path) == (
        "0.2",
        1,
        "1.0",
        str(tool),
    )
    assert [call[-1] for call in asked(tool)] == ["repetition_vector", "throughput"]
    assert all(call[:3] == ["--graph", "graph.xml", "--algo"] for call in asked(tool))


def test_an_iteration_of_sdf3_is_k_minimal_ones_and_names_are_ours(sdf3: Sdf3) -> None:
    graph = two_and_three()
    exact = throughput(graph).value
    printed = f"{float(exact) / 6:.6g}"
    tool = sdf3(repetition_vector=vector(graph), throughput=rate(printed, encode_name(graph.name)))
    found = analyze_sdf3(graph, tool=tool)
    assert found.throughput is not None and found.tool is not None
    assert (found.throughput.value, found.tool.k, found.tool.printed) == (exact, 6, printed)
    assert found.repetition == {"A 1": 2, "B": 3}


def test_a_release_that_counts_minimal_iterations(sdf3: Sdf3) -> None:
    graph = two_and_three()
    exact = throughput(graph).value
    minimal = Reply("Repetition vector:\n [A_x20_1] = 2\n [B] = 3\n")
    tool = sdf3(
        repetition_vector=minimal, throughput=rate(f"{float(exact):.6g}", encode_name(graph.name))
    )
    found = analyze_sdf3(graph, tool=tool)
    assert found.throughput is not None and found.tool is not None
    assert (found.throughput.value, found.tool.k) == (exact, 1)


def test_digits_are_no_exact_fraction(sdf3: Sdf3, monkeypatch: pytest.MonkeyPatch) -> None:
    import schedules.throughput

    graph = add_serial_loops(
        CsdfGraph("ring", (Actor("A", (2,)), Actor("B", (3,))), ring().channels)
    )
    monkeypatch.setattr(schedules.throughput, "MAX_EVENTS", 0)
    ours = throughput(graph)
    assert not ours.exact
    found = analyze_sdf3(graph, tool=sdf3()).throughput
    assert found is not None
    assert (found.value, found.exact) == (Fraction(1, 5), False)
    assert found.value <= found.upper <= Fraction(2000005, 10**7)


def test_capacities_become_channels_back(sdf3: Sdf3) -> None:
    chain = add_serial_loops(
        CsdfGraph(
            "ring", (Actor("A", (2,)), Actor("B", (3,))), (Channel("ab", "A", "B", (1,), (1,)),)
        )
    )
    tool = sdf3(throughput=rate("0.2"))
    assert to_json(analyze_sdf3(chain, {"ab": 1}, tool=tool))["throughput"] == "1/5"
    back = next(
        channel for channel in from_xml(asked_graph(tool)).channels if channel.name == "space_ab"
    )
    assert (back.source, back.target, back.initial_tokens) == ("B", "A", 1)
    with pytest.raises(GraphError, match="has no channel 'xy', which is given a capacity"):
        analyze_sdf3(chain, {"xy": 1}, tool=tool)


def test_deadlock_and_inconsistency(sdf3: Sdf3) -> None:
    found = analyze_sdf3(ring(0), tool=sdf3(throughput=rate("0")), buffers="front")
    assert found.deadlock is not None and found.throughput is not None
    assert (found.throughput.value, found.buffers) == (0, ())
    odd = CsdfGraph(
        "odd",
        ring().actors,
        (Channel("ab", "A", "B", (2,), (1,)), Channel("ba", "B", "A", (1,), (1,), 2)),
    )
    tool = sdf3(consistency=reply("sdf3_inconsistent"))
    found = analyze_sdf3(odd, tool=tool)
    assert not found.consistent and found.throughput is None
    assert [call[-1] for call in asked(tool)][-1] == "consistency"
    with pytest.raises(
        ToolError, match="finds consistent what is not: channel 'ba': out of balance"
    ):
        analyze_sdf3(odd, tool=sdf3(consistency=Reply("Graph is consistent.\n")))


def test_self_loops_are_added_where_sdf3_needs_them_and_it_is_said(sdf3: Sdf3) -> None:
    actors = Actor("A", (1, 5)), Actor("B", (1,))
    graph = CsdfGraph(
        "ring",
        actors,
        (Channel("ab", "A", "B", (1, 1), (2,)), Channel("ba", "B", "A", (4,), (2, 2), 8)),
    )
    exact = throughput(add_serial_loops(graph)).value
    assert throughput(graph).value > exact
    tool = sdf3(
        repetition_vector=vector(add_loops(graph)[0]), throughput=rate(f"{float(exact) / 2:.6g}")
    )
    found = analyze_sdf3(graph, tool=tool)
    assert found.throughput is not None and found.throughput.value == exact
    assert found.notes[0].startswith("a one-token self-loop was added to 'A': SDF3 is not reliable")
    assert (
        found.notes[1]
        == f"without the added self-loops the throughput is {throughput(graph).value} (--engine native)"
    )
    sent = from_xml(asked_graph(tool))
    assert [channel.source for channel in sent.channels if channel.is_serial] == ["A"]


def test_rates_are_divided_and_what_carries_no_token_is_left_out(sdf3: Sdf3) -> None:
    ab, ba = ring().channels
    wide = replace(ab, production=(3 * 2**30,), consumption=(3 * 2**30,)), ba
    idle = Channel("idle", "A", "C", (0,), (0,), 7)
    graph = CsdfGraph("ring", (*ring().actors, Actor("C", (9,))), (*wide, idle))
    tool = sdf3()
    assert to_json(analyze_sdf3(graph, tool=tool))["throughput"] == "1/5"
    sent = from_xml(asked_graph(tool))
    assert [actor.name for actor in sent.actors] == ["A", "B"]
    assert sent.channels[0].production == (1,)


# Refused before the call ------------------------------------------------------------------------


def with_phases(*counts: int) -> CsdfGraph:
    """A ring of actors with so many phases, all firing once round."""
    actors = tuple(Actor(f"a{i}", (1,) * count) for i, count in enumerate(counts))
    ends = zip(actors, (*actors[1:], actors[0]), strict=True)
    channels = tuple(
        Channel(
            f"c{i}",
            a.name,
            b.name,
            (1,) + (0,) * (a.phases - 1),
            (1,) + (0,) * (b.phases - 1),
            int(i == len(counts) - 1),
        )
        for i, (a, b) in enumerate(ends)
    )
    return add_serial_loops(CsdfGraph("ring", actors, channels))


def two_actors(*channels: Channel, phases: int = 1) -> CsdfGraph:
    """Of an actor A with so many phases, and B."""
    return CsdfGraph("g", (Actor("A", (1,) * phases), Actor("B", (1,))), channels)


REFUSED: list[tuple[CsdfGraph, str]] = [
    (
        with_phases(256, 257),
        r"SDF3 takes 65,792 iterations of the graph for one, so that every actor fires 16,842,752 times or more in an "
        r"iteration \('a0' the fewest\), and SDF3's counters hold only if one fires fewer than 65,536 times\. "
        r"What would help: equal phase counts \(they are 256, 257\): lists padded to 257 entries .* make it 257",
    ),
    (
        two_actors(Channel("ab", "A", "B", (2**31, 1), (2**31 + 1,), 2**30), phases=2),
        "the number of tokens produced on channel 'ab' in 2 firings is 2,147,483,649; SDF3 counts right below 2,147,483,648",
    ),
    (
        two_actors(Channel("ab", "A", "B", (2**31,), (1,))),
        "the number of firings of actor 'B' in an iteration of SDF3 is 2,147,483,648",
    ),
    (
        two_actors(ring().channels[0], replace(ring().channels[1], initial_tokens=2**31)),
        "the number of initial tokens of channel 'ba' is 2,147,483,648",
    ),
    (
        CsdfGraph("g", (Actor("A", (2**32 - 1,)), *ring().actors[1:]), ring().channels),
        r"actor 'A': has an execution time of 4294967295; SDF3 computes right below 4294967295; a coarser unit",
    ),
    (two_actors(), "no channel carries a token, so nothing limits it"),
]


@pytest.mark.parametrize(("graph", "message"), REFUSED)
def test_graphs_beyond_the_limits_of_sdf3(graph: CsdfGraph, message: str, sdf3: Sdf3) -> None:
    tool = sdf3()
    with pytest.raises(GraphError, match=message):
        analyze_sdf3(graph, tool=tool)
    assert asked(tool) == []


def test_a_self_loop_that_buffersize_would_never_enlarge(sdf3: Sdf3) -> None:
    loop = Channel("loop", "A", "A", (1,), (1,), 2)
    graph = CsdfGraph("ring", ring().actors, (*ring(3).channels, loop))
    with pytest.raises(
        GraphError,
        match="channel 'loop': 2 tokens let actor 'A' overlap with itself; SDF3's buffersize never",
    ):
        analyze_sdf3(graph, buffers="front", with_throughput=False, tool=sdf3())


def test_parts_that_nothing_connects(sdf3: Sdf3) -> None:
    answer = Reply("Repetition vector:\n [A] = 1\n [B] = 2\n")
    with pytest.raises(
        ToolError, match="no multiple of the minimal one: parts of the graph that nothing connects"
    ):
        analyze_sdf3(ring(), tool=sdf3(repetition_vector=answer))


# Refused after it -------------------------------------------------------------------------------

BAD_ANSWERS: list[tuple[Reply, str]] = [
    (reply("sdf3_killed"), "was killed by SIGSEGV"),
    (
        Reply(stderr="what():  std::bad_alloc\n", exit_code=-6),
        "killed by SIGABRT; it may need more memory",
    ),
    (
        Reply(stderr="No default processor set for actor.\n", exit_code=1),
        "ended with exit code 1: No default processor",
    ),
    (Reply(exit_code=7), "ended with exit code 7$"),
    (
        reply("sdf3_unknown_algorithm"),
        "this release does not know the algorithm; no fault of the graph",
    ),
    (Reply("thr(ring) = 0.2\n", "a warning\n"), "reported an error beside its answer: a warning"),
    (Reply(), "was expected, what it printed is empty"),
    (Reply("\x00\ufffdthr"), "not understood"),
    (
        rate("0.25"),
        r"printed a throughput of 0\.25; the analysis here finds 1/5 \(about 0\.2\): they cannot both be right",
    ),
    (rate("0"), r"printed a throughput of 0; the analysis here finds 1/5"),
    (rate("-9.24301e-10"), "negative throughput: its counters overflowed"),
    (rate("inf"), "no cycle of the graph takes time"),
    (rate("nan"), "no cycle of the graph takes time"),
    (rate("2.14748e+09"), "nothing limits it"),
    (rate("0.2", "gnir"), r"'thr\(ring\) = NUMBER' was expected"),
]


@pytest.mark.parametrize(("answer", "message"), BAD_ANSWERS)
def test_bad_answers(answer: Reply, message: str, sdf3: Sdf3) -> None:
    with pytest.raises(ToolError, match=message) as error:
        analyze_sdf3(ring(), tool=sdf3(throughput=answer))
    assert str(error.value).startswith("SDF3")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("algorithm", ["repetition_vector", "throughput", "buffersize"])
def test_no_answer(algorithm: str, sdf3: Sdf3) -> None:
    tool = sdf3(**{algorithm: reply("sdf3_endless")})
    with pytest.raises(
        ToolError, match=f"SDF3 {algorithm}: sdf3analysis-csdf: gave no answer in 0.7 s"
    ):
        analyze_sdf3(ring(), buffers="front", tool=tool, timeout=0.7)


# Storage ----------------------------------------------------------------------------------------


def chain() -> CsdfGraph:
    """Two actors and a channel; capacity 1 gives 1/5, capacity 2 gives 1/3."""
    actors = Actor("A", (2,)), Actor("B", (3,))
    return add_serial_loops(
        CsdfGraph("ring", actors, (Channel("ab", "A", "B", (1,), (1,), token_bytes=6),))
    )


LOOPS = {"serial_A": 2, "serial_B": 2}
FRONT = (
    ("0", {"ab": 0, "serial_A": 0, "serial_B": 0}),
    ("0.2", {"ab": 1, **LOOPS}),
    ("0.333333", {"ab": 2, **LOOPS}),
)


def sizes(found: Any) -> list[tuple[int, str]]:
    return [(entry["size"], entry["throughput"]) for entry in to_json(found)["buffers"]]


def test_storage_of_sdf3(sdf3: Sdf3) -> None:
    tool = sdf3(throughput=rate("0.333333"), buffersize=storage(*FRONT))
    found = analyze_sdf3(chain(), buffers="front", tool=tool)
    assert sizes(found) == [(1, "1/5"), (2, "1/3")]
    assert found.buffers is not None and [entry.capacities for entry in found.buffers] == [
        {"ab": 1},
        {"ab": 2},
    ]
    assert [entry.exact for entry in found.buffers] == [True, False]
    for wanted, expected in (
        ({"buffers": "live"}, [(1, "1/5")]),
        ({"buffers": "maximal"}, [(2, "1/3")]),
    ):
        assert sizes(analyze_sdf3(chain(), tool=tool, **wanted)) == expected  # type: ignore[arg-type]
    assert sizes(analyze_sdf3(chain(), tool=tool, target=Fraction(1, 4))) == [(2, "1/3")]
    with pytest.raises(
        GraphError, match="throughput 1/2 is wanted; the highest that SDF3 lists is 1/3"
    ):
        analyze_sdf3(chain(), tool=tool, target=Fraction(1, 2))


def test_dominated_distributions_are_dropped(sdf3: Sdf3) -> None:
    slower = ("0.333333", {"ab": 3, **LOOPS})
    tool = sdf3(throughput=rate("0.333333"), buffersize=storage(*FRONT, slower))
    assert sizes(analyze_sdf3(chain(), buffers="front", tool=tool)) == [(1, "1/5"), (2, "1/3")]


def test_storage_is_looked_for_without_the_capacities_given(sdf3: Sdf3) -> None:
    tool = sdf3(throughput=rate("0.2"), buffersize=storage(*FRONT))
    found = analyze_sdf3(chain(), {"ab": 1}, buffers="front", tool=tool)
    assert (to_json(found)["throughput"], sizes(found)) == ("1/5", [(1, "1/5"), (2, "1/3")])


def test_a_lone_marker_is_no_result(sdf3: Sdf3) -> None:
    tool = sdf3(throughput=rate("0.333333"), buffersize=storage(*FRONT[:1]))
    with pytest.raises(
        ToolError,
        match="SDF3 buffersize: no result: it lists no distribution but the one that stands for a",
    ):
        analyze_sdf3(chain(), buffers="front", tool=tool)


def test_distributions_that_do_not_have_their_throughput(sdf3: Sdf3) -> None:
    tool = sdf3(throughput=rate("0.333333"), buffersize=storage(("0.333333", {"ab": 1, **LOOPS})))
    with pytest.raises(
        ToolError,
        match=r"SDF3 buffersize: printed a throughput of 0\.333333; the analysis here finds 1/5",
    ):
        analyze_sdf3(chain(), buffers="front", tool=tool)
    tool = sdf3(
        throughput=rate("0.333333"),
        buffersize=storage(("0.333333", {"ab": 2, "serial_A": 3, "serial_B": 2})),
    )
    with pytest.raises(ToolError, match="gives channel 'serial_A' a size of 3; 2 was expected"):
        analyze_sdf3(chain(), buffers="front", tool=tool)


def test_overlap_loops_are_left_out_and_their_size_is_added(sdf3: Sdf3) -> None:
    graph = add_serial_loops(replace(convolution(), name="ring"))
    sizing = prepare_buffersize(add_loops(reduce_graph(graph))[0], in_bytes=False)
    assert [channel.name for channel in sizing.outside] == ["rows"]
    capacities = {
        "in": 2,
        "out": 1,
        **{channel.name: 2 for channel in sizing.graph.channels if channel.is_serial},
    }
    exact = throughput(graph, {"in": 2, "out": 1, "rows": 4}).value
    names = [channel.name for channel in sizing.graph.channels]
    answer = storage((f"{float(exact):.6g}", {name: capacities[name] for name in names}))
    tool = sdf3(
        repetition_vector=vector(graph),
        throughput=rate(f"{float(throughput(graph).value):.6g}"),
        buffersize=answer,
    )
    found = analyze_sdf3(graph, buffers="front", tool=tool)
    assert found.buffers is not None
    assert (found.buffers[0].size, found.buffers[0].capacities) == (
        7,
        {"in": 2, "out": 1, "rows": 4},
    )
    assert any("without 'rows'" in note and "4 tokens" in note for note in found.notes)
    assert all(channel.name != "rows" for channel in from_xml(asked_graph(tool)).channels)


def test_every_overlap_loop_is_left_out() -> None:
    graph = convolution()
    again = replace(graph.channels[1], name="again")
    both = add_serial_loops(replace(graph, channels=(*graph.channels, again)))
    sizing = prepare_buffersize(both, in_bytes=False)
    assert {channel.name for channel in sizing.outside} == {"rows", "again"}
    assert {channel.name for channel in sizing.graph.channels}.isdisjoint({"rows", "again"})


def test_bytes_are_the_tokens_of_sdf3(sdf3: Sdf3) -> None:
    ends = (
        Channel("ab", "A", "B", (1,), (1,), token_bytes=6),
        Channel("bc", "B", "C", (1,), (1,), token_bytes=4),
    )
    actors = *ring().actors, Actor("C", (1,))
    graph = add_serial_loops(CsdfGraph("ring", actors, ends))
    sent = prepare_buffersize(graph, in_bytes=True)
    assert (sent.weights, [channel.production for channel in sent.graph.channels[:2]]) == (
        {"ab": 3, "bc": 2},
        [(3,), (2,)],
    )
    answer = storage(("0.2", {"ab": 3, "bc": 4, **LOOPS, "serial_C": 2}))
    value = throughput(graph, {"ab": 1, "bc": 2}).value
    tool = sdf3(repetition_vector=vector(graph), throughput=rate("0.333333"), buffersize=answer)
    found = analyze_sdf3(graph, buffers="live", unit="bytes", tool=tool)
    assert found.buffers is not None
    assert (found.buffers[0].size, found.buffers[0].capacities, found.buffers[0].throughput) == (
        14,
        {"ab": 1, "bc": 2},
        value,
    )
    odd = sdf3(
        repetition_vector=vector(graph),
        throughput=rate("0.333333"),
        buffersize=storage(("0.2", {"ab": 4, "bc": 4, **LOOPS, "serial_C": 2})),
    )
    with pytest.raises(
        ToolError, match="gives channel 'ab' a size of 4; a multiple of 3 was expected"
    ):
        analyze_sdf3(graph, buffers="live", unit="bytes", tool=odd)


# Kiter ------------------------------------------------------------------------------------------


def test_throughput_of_kiter(kiter: Callable[[Reply], Path]) -> None:
    tool = kiter(reply("kiter_ring"))
    found = analyze_kiter(ring(), tool=tool)
    assert found.throughput is not None and found.tool is not None
    assert (found.throughput.value, found.throughput.method, found.tool.printed) == (
        Fraction(1, 5),
        "kiter",
        "0.2",
    )
    assert asked(tool) == [["-f", "graph.xml", "-a", "KPeriodicThroughput"]]


def test_kiter_is_told_wrong_where_actors_may_overlap(kiter: Callable[[Reply], Path]) -> None:
    for answer, reason in (
        (reply("kiter_no_limit"), "reported an error beside its answer: NO CYCLE HAS A TIME"),
        (
            Reply(reply("kiter_ring").stdout.replace("0.2", "0.25").replace("5.0", "4.0")),
            "printed a throughput of 0.25",
        ),
    ):
        with pytest.raises(
            ToolError,
            match=f"{reason}.*; Kiter is not reliable where actors may overlap with themselves; 'A', 'B'",
        ):
            analyze_kiter(ring(), tool=kiter(answer))
    with pytest.raises(ToolError) as error:
        analyze_kiter(add_serial_loops(ring()), tool=kiter(reply("kiter_no_limit")))
    assert "not reliable" not in str(error.value)


def test_limits_of_sdf3_are_no_warning_where_kiter_is_asked(
    kiter: Callable[[Reply], Path], caplog: pytest.LogCaptureFixture
) -> None:
    graph = replace(ring(), actors=(Actor("A", (2**32,)), Actor("B", (3,))))
    text = (
        reply("kiter_ring")
        .stdout.replace("0.2", f"{1 / (2**32 + 3):.9g}")
        .replace("5.0", f"{2**32 + 3}.0")
    )
    found = analyze_kiter(graph, tool=kiter(Reply(text))).throughput
    assert found is not None and found.value == Fraction(1, 2**32 + 3)
    assert caplog.messages == []


def test_kiter_is_told_wrong_about_an_actor_that_is_alone(kiter: Callable[[Reply], Path]) -> None:
    graph = add_serial_loops(CsdfGraph("alone", (Actor("A", (2, 3)),), ()))
    answer = Reply(reply("kiter_ring").stdout.replace("0.2", "0.4").replace("5.0", "2.5"))
    with pytest.raises(
        ToolError,
        match=r"finds 1/5 .*; Kiter takes one firing for the iteration of an actor that has nothing but",
    ):
        analyze_kiter(graph, tool=kiter(answer))


def test_not_checkable(kiter: Callable[[Reply], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    import schedules.throughput

    monkeypatch.setattr(schedules.throughput, "MAX_EVENTS", 0)
    graph = replace(ring(), actors=(Actor("A", (2,)), Actor("B", (3,))))
    tool = kiter(reply("kiter_ring"))
    assert not throughput(graph).exact
    with pytest.raises(
        GraphError, match="its throughput cannot be checked here; Kiter is not reliable"
    ):
        analyze_kiter(graph, tool=tool)
    assert asked(tool) == []


def test_inconsistent_graphs_never_reach_kiter(kiter: Callable[[Reply], Path]) -> None:
    odd = CsdfGraph(
        "odd",
        ring().actors,
        (Channel("ab", "A", "B", (2,), (1,)), Channel("ba", "B", "A", (1,), (1,), 2)),
    )
    tool = kiter(Reply())
    assert not analyze_kiter(odd, tool=tool).consistent
    assert asked(tool) == []


def test_kiter_is_asked_again_where_times_of_0_made_it_fail(tmp_path: Path) -> None:
    actors = Actor("A", (1,)), Actor("B", (0,)), Actor("C", (0,))
    channels = Channel("ab", "A", "B", (1,), (1,)), Channel("ac", "A", "C", (1,), (1,))
    graph = add_serial_loops(CsdfGraph("zero", actors, channels))
    longer = stretch_times(graph)
    assert longer is not None and (longer.factor, longer.added) == (2_000_000, 2)
    assert [actor.execution_times for actor in longer.graph.actors] == [(2_000_000,), (1,), (1,)]
    ring_text = reply("kiter_ring").stdout
    wrong = Reply(ring_text.replace("0.2", "3").replace("5.000000", "0.333333"))
    right = Reply(ring_text.replace("0.2", "5e-07").replace("5.000000", "2000000.000000"))
    tool = stand_in(tmp_path, "kiter", {"KPeriodicThroughput": [wrong, right]})
    found = analyze_kiter(graph, tool=tool)
    assert found.throughput is not None and found.tool is not None
    assert (found.throughput.value, found.throughput.exact, found.tool.printed) == (
        1,
        True,
        "5e-07",
    )
    assert found.notes == (
        "Kiter failed on the times of 0: what it printed is for times multiplied by 2000000, where those of 0 are 1",
    )


# The graph that they get ------------------------------------------------------------------------


def test_what_is_prepared_has_the_same_throughput() -> None:
    for graph, capacities in (
        (ring(3), {"ab": 2, "ba": 3}),
        (two_and_three(), {"a/b": 2}),
        (convolution(), {"in": 3, "rows": 4}),
    ):
        bounded = add_space_channels(graph, capacities)
        assert throughput(reduce_graph(bounded)).value == throughput(graph, capacities).value
        assert repetition_vector(bounded) == repetition_vector(graph)


# The command line -------------------------------------------------------------------------------


def test_command_line(
    sdf3: Sdf3, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CSDFGEN_SDF3", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    path = str(tmp_path / "ring.json")
    write_graph(path, chain())
    tool = sdf3(throughput=rate("0.333333"), buffersize=storage(*FRONT))
    assert (
        main(
            (
                "analyze",
                path,
                "--throughput",
                "--buffers",
                "--engine",
                "sdf3",
                "--sdf3",
                str(tool),
                "--json",
            )
        )
        == 0
    )
    values = json.loads(capfd.readouterr().out)
    assert {
        key: values[key]
        for key in (
            "consistent",
            "repetition",
            "deadlock",
            "throughput",
            "exact",
            "engine",
            "method",
        )
    } == {
        "consistent": True,
        "repetition": {"A": 1, "B": 1},
        "deadlock": False,
        "throughput": "1/3",
        "exact": True,
        "engine": "sdf3",
        "method": "sdf3",
    }
    assert [
        (entry["size"], entry["throughput"], entry["capacities"]) for entry in values["buffers"]
    ] == [(1, "1/5", {"ab": 1}), (2, "1/3", {"ab": 2})]
    assert values["tool"]["title"] == "SDF3" and values["tool"]["path"] == str(tool)
    monkeypatch.setenv("CSDFGEN_SDF3", str(tool.parent))
    assert main(("analyze", path, "--engine", "sdf3")) == 0
    assert "engine      SDF3 (version 1.0, " in capfd.readouterr().out


LINES: list[tuple[tuple[str, ...], int, str]] = [
    (
        ("--engine", "sdf3"),
        1,
        "SDF3 is not installed: point to it with --sdf3 or CSDFGEN_SDF3 (the folder that holds sdf3analysis-csdf,",
    ),
    (
        ("--engine", "kiter"),
        1,
        "Kiter is not installed: point to it with --kiter or CSDFGEN_KITER (the folder that holds kiter,",
    ),
    (("--engine", "sdf3", "--sdf3", "nowhere"), 1, "--sdf3=nowhere: is not there"),
    (("--engine", "sdf3", "--latency"), 1, "--latency: SDF3 computes none"),
    (("--engine", "kiter", "--buffers"), 1, "--buffers: Kiter is asked for throughput only"),
    (("--sdf3", "x"), 2, "add --engine sdf3"),
    (("--engine", "sdf3", "--kiter", "x"), 2, "add --engine kiter"),
    (("--engine", "native", "--timeout", "5"), 2, "add --engine sdf3 or kiter"),
    (("--engine", "sdf3", "--method", "self-timed"), 2, "--engine sdf3 has none"),
    (("--engine", "sdf3", "--timeout", "0"), 2, "--timeout"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), LINES)
def test_command_lines_that_are_refused(
    arguments: tuple[str, ...],
    code: int,
    message: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("CSDFGEN_SDF3", "CSDFGEN_KITER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    write_graph("ring.json", ring())
    assert main(("analyze", "ring.json", *arguments)) == code
    out, err = capfd.readouterr()
    assert out == "" and message in err
    if code == 1:
        assert err.count("\n") == 1 and err.startswith("ring.json: ")
