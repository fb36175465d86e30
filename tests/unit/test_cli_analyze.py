"""Questions about dataflow on the command line: answers as text and JSON, plans written, one line
when something is wrong.
"""

from __future__ import annotations

import os
import re
import signal
import time
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import pytest

from csdfgen.cli import main
from csdfgen.cli.analyze_graph import ENGINES, describe_throughput
from csdfgen.dataflow import graph_json
from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph, add_serial_loops
from schedules.throughput import Throughput
from sdf3_bridge import sdf3xml
from tests.cnn_graphs import cnn_graph
from tests.command import ROOT, Call, refused, start
from tests.graphs import ring
from tests.small_models import residual_classifier


def stages() -> CsdfGraph:
    """a (1 long, 2 tokens) -> b (2 long, 3 to 1) -> c (2 long): the example of Stuijk et al. 2008."""
    actors = Actor("a", (1,)), Actor("b", (2,)), Actor("c", (2,))
    channels = (
        Channel("al", "a", "b", (2,), (3,), token_bytes=4),
        Channel("be", "b", "c", (1,), (2,)),
    )
    return add_serial_loops(CsdfGraph("stages", actors, channels))


def unbalanced() -> CsdfGraph:
    """Consistent forwards, not backwards."""
    channels = Channel("ab", "A", "B", (2,), (1,)), Channel("ba", "B", "A", (1,), (1,), 2)
    return CsdfGraph("unbalanced", (Actor("A", (2,)), Actor("B", (3,))), channels)


def unlimited() -> CsdfGraph:
    """Nothing keeps its actors from starting at any time."""
    return CsdfGraph(
        "unlimited", (Actor("A", (2,)), Actor("B", (3,))), (Channel("ab", "A", "B", (1,), (1,)),)
    )


@pytest.fixture
def call(call: Call) -> Call:
    """`csdfgen analyze`, in a folder with small graphs and a model."""
    sdf3xml.write("stages.xml", stages())
    sdf3xml.write("ring.xml", ring(), sdf3xml.WriteOptions("keep"))
    graph_json.write_graph("dead.json", ring(0))
    graph_json.write_graph("unbalanced.json", unbalanced())
    graph_json.write_graph("unlimited.json", unlimited())
    onnx.save(residual_classifier(), "net.onnx")
    return partial(call, "analyze")


# Answers ----------------------------------------------------------------------------------------


def test_a_graph_alone_is_asked_for_its_structure_and_throughput(call: Call) -> None:
    found = call("stages.xml", "--json").json
    assert found["consistent"] is True and found["repetition"] == {"a": 3, "b": 2, "c": 1}
    assert found["deadlock"] is False and (found["throughput"], found["throughput_decimal"]) == (
        "1/4",
        0.25,
    )
    assert (found["method"], found["exact"], found["engine"]) == ("cycle-ratio", True, "native")
    assert "buffers" not in found and "latency" not in found
    said = call("stages.xml").out
    assert "an iteration takes 6 firings, 1 to 3 by each of 3 actors" in said
    assert "throughput  1/4 = 0.25 iterations per time unit (exact; cycle-ratio)" in said
    assert "limited by b itself" in said and "deadlock    none" in said


def test_the_published_front(call: Call) -> None:
    """Figure 5 of Stuijk et al. 2008: 6, 8, 9 and 10 tokens."""
    found = call("stages.xml", "--buffers", "--json").json
    points = [(point["size"], point["throughput"], point["exact"]) for point in found["buffers"]]
    assert points == [(6, "1/7", True), (8, "1/6", True), (9, "1/5", True), (10, "1/4", True)]
    assert found["buffers"][0]["capacities"] == {"al": 4, "be": 2}
    assert found["left_out"] == {"serial": 3, "overlap": {}} and "throughput" not in found
    said = call("stages.xml", "--buffers").out
    assert re.search(r"^ +6 +18 +1/7 +0.142857143 +57.1% +yes", said, re.MULTILINE)
    assert re.search(r"^al +data +a +b +4 +4 +6 +6 +7", said, re.MULTILINE)
    assert said.count("not counted") == 1 and "3 serial self-loops of one token" in said


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        (("--storage", "live"), [6]),
        (("--storage", "maximal"), [10]),
        (("--at-throughput", "0.19"), [9]),
        (("--at-throughput", "1/6", "--unit", "bytes"), [23]),
        (("--buffers", "--unit", "bytes"), [18, 23, 27, 31]),
    ],
)
def test_which_storage(call: Call, options: tuple[str, ...], sizes: list[int]) -> None:
    assert [
        point["size"] for point in call("stages.xml", *options, "--json").json["buffers"]
    ] == sizes


def test_storage_that_is_not_proven_says_how_far_it_may_be_off(call: Call) -> None:
    graph_json.write_graph("nine.json", cnn_graph("residual", 9, 8))
    (point,) = call("nine.json", "--storage", "maximal", "--seconds", "0", "--json").json["buffers"]
    assert point["exact"] is False and point["size_at_least"] < point["size"]
    said = call("nine.json", "--storage", "maximal", "--seconds", "0").out
    assert re.search(r"at least \d+ are needed, \d+\.\d% less", said)


def test_latency_and_what_channels_hold(call: Call) -> None:
    found = call("stages.xml", "--latency", "--json").json
    assert found["latency"] == 8 and found["peaks"]["al"] == 6 and "throughput" not in found
    said = call("stages.xml", "--latency").out
    assert "latency     8 time units" in said and re.search(
        r"^al +data +a +b +6 +24", said, re.MULTILINE
    )
    assert "serial" not in said


def test_self_timed_execution_tells_transient_and_period(call: Call) -> None:
    limited = "stages.xml", "--throughput", "--method", "self-timed", "--capacities", "al=4,be=2"
    found = call(*limited, "--json").json
    assert (found["throughput"], found["method"], found["period"]) == ("1/7", "self-timed", 7)
    assert found["peaks_self_timed"]["al"] == 4 and found["given_capacities"] == {"al": 4, "be": 2}
    said = call(*limited).out
    assert f"transient of {found['transient']} time units, then periods of 7" in said
    assert "within the capacities given" in said and "self-timed for ever" in said


def test_an_execution_that_is_given_up_says_so() -> None:
    """One component was executed, so that there is a transient; the one that limits took too long."""
    found = Throughput(Fraction(1, 7), "cycle-ratio", True, Fraction(1, 7), transient=4)
    said = "\n".join(map(str, describe_throughput(stages(), found, True)))
    assert "given up after 2,000,000 firings" in said and "transient" not in said


def test_a_bound_is_called_a_bound(call: Call) -> None:
    graph_json.write_graph("bound.json", ring(3))
    exact = Fraction(call("bound.json", "--json").json["throughput"])
    found = call("bound.json", "--method", "1-periodic", "--json").json
    assert (
        Fraction(found["throughput"])
        <= exact
        <= Fraction(found["throughput_at_most"].replace("inf", "999"))
    )
    assert found["exact"] is False
    assert "a bound: not more than" in call("bound.json", "--method", "1-periodic").out


def test_a_deadlock_says_who_waits_for_what(call: Call) -> None:
    found = call("dead.json", "--deadlock", "--json").json
    assert found["deadlock"] is True
    assert [
        (wait["actor"], wait["channel"], wait["there"], wait["needed"]) for wait in found["waiting"]
    ] == [("A", "ba", 0, 1), ("B", "ab", 0, 1)]
    assert "'B' phase 1 waits for 1 more token in 'ab' (0 of 1)" in call("dead.json").out
    whole = call("dead.json", "--throughput", "--buffers", "--latency", "--json").json
    assert (whole["throughput"], whole["buffers"]) == ("0", []) and "latency" not in whole
    assert (
        "buffers     none: it deadlocks whatever the capacities are"
        in call("dead.json", "--buffers").out
    )


@pytest.mark.parametrize(
    ("asked", "share"), [(("--storage", "live"), "50.0%"), (("--at-throughput", "1/3"), "66.7%")]
)
def test_a_distribution_and_the_highest(call: Call, asked: tuple[str, ...], share: str) -> None:
    (point,) = [
        line
        for line in call(
            str(ROOT / "docs/examples/bound.xml"), "--buffers", *asked
        ).out.splitlines()
        if "%" in line
    ]
    assert share in point.split()


def test_what_cannot_be_written_is_refused(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENGINES, "auto", lambda *_: pytest.fail("the engine was asked"))
    assert refused(call("stages.xml", "--buffers", "-o", "none/p.json")).startswith(
        "none/p.json: cannot be written"
    )


def test_a_deadlock_by_capacities_names_the_space(call: Call) -> None:
    found = call("stages.xml", "--capacities", "al=3", "--capacities", "be=2", "--json").json
    assert found["deadlock"] is True and found["throughput"] == "0"
    assert any(wait["space"] and wait["channel"] == "al" for wait in found["waiting"])
    assert re.search(
        r"[0-9] more free places? in 'al'", call("stages.xml", "--capacities", "al=3,be=2").out
    )


def test_an_inconsistent_graph_is_an_answer(call: Call) -> None:
    found = call("unbalanced.json", "--throughput", "--buffers", "--json").json
    assert found["consistent"] is False and "throughput" not in found
    assert "'B' produces 1 * 2 = 2 tokens, 'A' consumes 1 * 1 = 1" in found["inconsistency"]
    said = call("unbalanced.json")
    assert (
        said.code == 0
        and "consistent  no; channel 'ba': out of balance on the cycle B - A - B" in said.out
    )


def test_what_nothing_limits(call: Call) -> None:
    assert call("unlimited.json", "--json").json["throughput"] == "inf"
    assert "throughput  unlimited" in call("unlimited.json").out
    assert call("unlimited.json", "--at-throughput", "1/2", "--json").json["buffers"][0][
        "capacities"
    ] == {"ab": 3}


def test_what_takes_no_time_is_not_told_to_add_serial_self_loops(call: Call) -> None:
    still = replace(unlimited(), actors=(Actor("A", (0,)), Actor("B", (0,))))
    graph_json.write_graph("looped.json", add_serial_loops(still))
    graph_json.write_graph("still.json", still)
    for name in ("looped.json", "still.json"):
        said = call(name, "--throughput").out
        assert "unlimited: no actor takes any time; to limit it, give its actors execution" in said
        assert "serial self-loops" not in said
    assert "to limit it, give its actors serial self-loops" in call("unlimited.json").out


def test_one_time_unit_is_singular(call: Call) -> None:
    quick = add_serial_loops(replace(unlimited(), actors=(Actor("A", (1,)), Actor("B", (0,)))))
    graph_json.write_graph("quick.json", quick)
    said = call("quick.json", "--throughput", "--latency", "--method", "self-timed").out
    assert "latency     1 time unit from" in said and "an iteration every 1 time unit\n" in said
    assert not re.search(r"\b1 time units", said)


def test_capacities_with_any_name(call: Call) -> None:
    graph = ring(2)
    odd = CsdfGraph(
        "odd", graph.actors, tuple(Channel(f"a=1,{c.name}=", *_ends(c)) for c in graph.channels)
    )
    graph_json.write_graph("odd.json", odd)
    names = {"a=1,ab=": 1, "a=1,ba=": 2}
    schedule = call("odd.json", "--buffers", "-o", "odd_plan.json")
    assert schedule.code == 0
    found = call("odd.json", "--capacities", "odd_plan.json", "--json").json
    assert found["given_capacities"].keys() == names.keys()


def _ends(channel: Channel) -> tuple[Any, ...]:
    return (
        channel.source,
        channel.target,
        channel.production,
        channel.consumption,
        channel.initial_tokens,
    )


# Models -----------------------------------------------------------------------------------------


def test_the_five_layers_of_the_paper(call: Call) -> None:
    """Table II, Ex4: 17, 6, 4 and 1 rows, which are 544, 384, 48 and 2 values."""
    rows = call("zoo:cnn5", "--buffers", "--json").json
    assert list(rows["buffers"][0]["capacities"].values()) == [17, 6, 4, 1]
    assert (rows["rows"], rows["left_out"]["serial"], len(rows["left_out"]["overlap"])) == (
        "paper",
        5,
        2,
    )
    counted = "--tokens", "elements", "--unit", "tokens"
    elements = call("zoo:cnn5", "--buffers", *counted, "--json").json
    assert list(elements["buffers"][0]["capacities"].values()) == [544, 384, 48, 2]
    assert elements["buffers"][0]["size"] == 978
    said = call("zoo:cnn5", "--buffers").out
    assert (
        "2 overlap self-loops for what actors keep between phases: 36 tokens, 5,120 bytes" in said
    )
    assert "--rows paper --fuse full --image streamed" in said


def test_storage_is_least_in_bytes_of_a_model_and_in_tokens_of_a_graph(call: Call) -> None:
    """Rows of tensors of different widths do not add up; `--unit` chooses."""
    assert main(("zoo:cnn5", "--rows", "paper", "--tokens", "rows", "-o", "cnn5.xml")) == 0
    asked = "--storage", "live", "--no-overlap", "--json"
    found = [call("zoo:cnn5", *asked), call("cnn5.xml", *asked)]
    found += [
        call("zoo:cnn5", *asked, "--unit", "tokens"),
        call("cnn5.xml", *asked, "--unit", "bytes"),
    ]
    sizes = [(one.json["unit"], one.json["buffers"][0]["size"]) for one in found]
    assert sizes == [("bytes", 3912), ("tokens", 28), ("tokens", 28), ("bytes", 3912)]
    said = call("zoo:cnn5", "--buffers", "-o", "p.json", "--occupancy", "o.svg").out
    assert "least in bytes" in said and "of 3,912  of 4,168" in said
    assert "p.json: 54 firings in buffers of 3,912 bytes, throughput" in said
    assert "o.svg: bytes held, " in said and " within capacities of 3,912 bytes" in said
    unasked = call("zoo:cnn5", "--occupancy", "o.svg", "--unit", "tokens").out
    assert "o.svg: tokens held, " in unasked


def test_overlap_self_loops_take_the_same_room_in_every_distribution(call: Call) -> None:
    without = call("zoo:cnn5", "--buffers", "--json").json
    counted = call("zoo:cnn5", "--buffers", "--overlap", "--json").json
    room = without["left_out"]["overlap"]
    assert room and counted["left_out"]["overlap"] == {}
    for small, large in zip(without["buffers"], counted["buffers"], strict=True):
        assert (
            large["capacities"] == {**small["capacities"], **room}
            and large["throughput"] == small["throughput"]
        )


def test_a_graph_file_is_taken_as_it_is(call: Call) -> None:
    assert main(("zoo:cnn5", "-o", "cnn5.xml", "--rows", "1")) == 0
    whole = call("cnn5.xml", "--buffers", "--json").json
    assert sum(name.startswith("overlap") for name in whole["buffers"][0]["capacities"]) == 2
    bare = call("cnn5.xml", "--buffers", "--no-overlap", "--json").json
    assert not any(name.startswith("overlap") for name in bare["buffers"][0]["capacities"])
    assert whole["buffers"][0]["size"] - bare["buffers"][0]["size"] == sum(
        bare["left_out"]["overlap"].values()
    )
    assert "a time unit is a multiply-accumulate" in call("cnn5.xml", "--throughput").out


def test_memory_device_and_dataflow_in_one_object(call: Call) -> None:
    found = call(
        "net.onnx", "--device", "cortex-m7", "--throughput", "--latency", "--rows", "2", "--json"
    ).json
    assert (
        found["rows"] == "2"
        and found["memory"]["peak_live"] > 0
        and found["device"]["name"] == "cortex-m7"
    )
    assert Fraction(found["throughput"]) > 0 and found["latency"] >= 1 / Fraction(
        found["throughput"]
    )
    said = call("net.onnx", "--device", "cortex-m7", "--throughput").out
    assert said.index("peak_live") < said.index("sequential ") < said.index("throughput ")
    alone = call("net.onnx", "--json").json
    assert alone["rows"] == "auto" and "memory" in alone and "consistent" not in alone


@pytest.mark.parametrize(
    "options",
    [(), ("--storage", "maximal"), ("--overlap", "--rows", "1"), ("--tokens", "elements")],
)
def test_a_plan_with_these_buffers_is_run(call: Call, options: tuple[str, ...]) -> None:
    written = call("net.onnx", "--buffers", *options, "-o", "plan.json")
    assert (written.code, written.err) == (0, "") and "plan.json: " in written.out
    assert main(("run", "net.onnx", "--plan", "plan.json", "--check")) == 0
    found = call("net.onnx", "--buffers", *options, "-o", "plan.json", "--json").json
    assert found["plan"] == "plan.json"


@pytest.mark.networks
@pytest.mark.parametrize(("name", "rows"), [("densenet121", 672), ("inception_v3", 582)])
def test_storage_of_large_networks_is_found_and_executed(call: Call, name: str, rows: int) -> None:
    """At one row a phase, overlap self-loops included."""
    asked = "--throughput", "--latency", "--storage", "live", "--overlap", "--rows", "1"
    asked += "--unit", "tokens"
    found = call(f"zoo:{name}", *asked, "-o", "plan.json", "--json").json
    assert (found["buffers"][0]["size"], found["buffers"][0]["exact"]) == (rows, True)
    assert found["latency"] > 1 / Fraction(found["throughput"])
    assert main(("run", f"zoo:{name}", "--plan", "plan.json", "--check")) == 0


# What is refused --------------------------------------------------------------------------------

BAD: list[tuple[tuple[str, ...], int, str]] = [
    (("missing.xml",), 1, "missing.xml: cannot be read"),
    (("missing.onnx", "--throughput"), 1, "missing.onnx"),
    (("list.json",), 1, "list.json"),
    (("text.onnx", "--buffers"), 1, "text.onnx"),
    (("zoo:cnn6", "--buffers"), 1, "cnn6"),
    (("ring.xml", "--rows", "2"), 1, "ring.xml: is a graph; --rows is for models"),
    (("ring.xml", "--tokens", "rows"), 1, "ring.xml: is a graph; --tokens is for models"),
    (("ring.xml", "--device", "cortex-m7"), 1, "ring.xml: is a graph; --device is for models"),
    (
        ("net.onnx", "--method", "self-timed"),
        1,
        "--method says how a question about dataflow is answered",
    ),
    (("net.onnx", "--capacities", "x=1"), 1, "--capacities says how"),
    (("ring.xml", "--capacities", "ac=2"), 1, "has no channel 'ac'"),
    (
        ("ring.xml", "--capacities", "ba=0"),
        1,
        "channel 'ba': 1 initial tokens, but the capacity is 0",
    ),
    (("ring.xml", "--capacities", "dead.json"), 1, "dead.json"),
    (("ring.xml", "--capacities", "ring.xml"), 1, "ring.xml: has no buffer sizes"),
    (("ring.xml", "--capacities", "none.json"), 1, "none.json: cannot be read"),
    (("stages.xml", "--at-throughput", "1/3"), 1, "throughput 1/3 is wanted; the highest is 1/4"),
    (("unlimited.json", "--buffers"), 1, "nothing limits its throughput"),
    (("unlimited.json", "--storage", "maximal"), 1, "nothing limits its throughput"),
    (("dead.json", "--at-throughput", "1/9"), 1, "'A' phase 1 waits for 1 more token in 'ba'"),
    (("dead.json", "--buffers", "-o", "p.json"), 1, "no capacities are known"),
    (("unbalanced.json", "--buffers", "-o", "p.json"), 1, "channel 'ba': out of balance"),
    (
        ("ring.xml", "--buffers", "-o", "p.xml"),
        1,
        "p.xml: a schedule with its buffers is written as .json",
    ),
    (("ring.xml", "--buffers", "-o", "none/p.json"), 1, "none/p.json"),
    (("ring.xml", "--gantt", "none/g.svg"), 1, "none/g.svg: cannot be written"),
    (("ring.xml", "--csv", "x.csv"), 1, "--csv writes the layers' times"),
    (("ring.xml", "-o", "p.json"), 2, "is about buffers; add --buffers"),
    (("ring.xml", "--unit", "bytes"), 2, "is about buffers; add --buffers"),
    (("ring.xml", "--engine", "abacus"), 2, "'abacus'"),
    (("ring.xml", "--method", "guess"), 2, "'guess'"),
    (("ring.xml", "--storage", "some"), 2, "'some'"),
    (("ring.xml", "--storage", "live", "--at-throughput", "1"), 2, "give one of them"),
    (("ring.xml", "--buffers", "--seconds", "-1"), 2, "greater than or equal to 0"),
    (("ring.xml", "--buffers", "--seconds", "nan"), 2, "less than or equal to 1000000"),
    (("ring.xml", "--at-throughput", "1/0"), 2, "'1/0' is not a throughput above 0, such as 1/5"),
    (("ring.xml", "--at-throughput", "0"), 2, "'0' is not a throughput above 0"),
    (("ring.xml", "--at-throughput", "-1/5"), 2, "'-1/5' is not a throughput above 0"),
    (("ring.xml", "--at-throughput", "1/5/2"), 2, "'1/5/2' is not a throughput above 0"),
    (
        ("ring.xml", "--at-throughput", "1e999999999"),
        2,
        "'1e999999999' is not a throughput above 0",
    ),
    (("ring.xml", "--capacities", "ab=-1"), 2, "'ab=-1' is not CHANNEL=TOKENS"),
    (("ring.xml", "--capacities", "ab"), 2, "'ab' is not CHANNEL=TOKENS"),
    (("ring.xml", "--capacities", "ab=1,ba=0.5"), 2, "'ba=0.5' is not CHANNEL=TOKENS"),
    (("ring.xml", "--capacities", "ab=1,ab=2"), 2, "channel 'ab' is given twice"),
    (("ring.xml", "--capacities", "a.json", "--capacities", "b.json"), 2, "one file is read"),
    ((), 2, "MODEL"),
]
"""What is wrong -> arguments, exit code, what the message says."""


@pytest.mark.parametrize(("arguments", "code", "said"), BAD)
def test_one_line_says_what_is_wrong(
    call: Call, tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    Path("list.json").write_text("[1, 2]")
    Path("text.onnx").write_text("no model")
    before = sorted(path.name for path in tmp_path.iterdir())
    for json_too in ((), ("--json",)):
        result = call(*arguments, *json_too)
        assert (result.code, result.out) == (code, "")
        line = (
            refused(result) if code == 1 else " ".join(re.sub("[│╭╮╰╯─]", " ", result.err).split())
        )
        assert said in line and "internal error" not in line
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_ctrl_c_is_heeded_while_buffers_are_sized(call: Call, tmp_path: Path) -> None:
    graph_json.write_graph("dense.json", cnn_graph("dense", 50, 56))
    os.mkfifo(tmp_path / "held.json")
    before = sorted(path.name for path in tmp_path.iterdir())
    sized = (
        "--storage",
        "maximal",
        "--seconds",
        "1000",
        "-o",
        "plan.json",
        "--capacities",
        "held.json",
    )
    process = start("analyze", "dense.json", *sized, cwd=tmp_path)
    try:
        held = '{"format": "csdfgen-schedule", "version": 1, "graph": "dense50_56", "policy": "", "iterations": 1, '
        (tmp_path / "held.json").write_text(
            held + '"capacities": {}, "firings": []}'
        )  # waits until the command reads it
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)  # it would search for 1,000 s
    finally:
        process.kill()
    assert (process.returncode, out, err) == (130, "", "interrupted\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
