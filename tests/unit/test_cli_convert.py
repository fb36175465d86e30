"""Forms of a graph on the command line: self-loops, larger tokens, capacities as channels or sizes,
what is kept and dropped.
"""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from csdfgen.cli import main
from csdfgen.dataflow import graph_json
from csdfgen.dataflow.graph import Channel, CsdfGraph, add_serial_loops
from schedules.throughput import throughput
from sdf3_bridge import sdf3xml
from tests.graphs import convolution, ring
from tests.small_models import residual_classifier


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graph_json.write_graph("g.json", convolution())
    graph_json.write_graph("ring.json", ring())


def call(*arguments: str) -> None:
    assert main(arguments) == 0


def channels(path: str) -> dict[str, Channel]:
    graph = sdf3xml.read(path) if path.endswith(".xml") else graph_json.read_graph(path)
    return {channel.name: channel for channel in graph.channels}


def kinds(path: str) -> set[str]:
    return {channel.kind for channel in channels(path).values()}


def test_self_loops_are_written_or_left_out() -> None:
    for arguments, in_xml, in_json in (
        ([], {"data", "overlap", "serial"}, {"data", "overlap"}),
        (["--serial"], {"data", "overlap", "serial"}, {"data", "overlap", "serial"}),
        (["--no-serial", "--overlap"], {"data", "overlap"}, {"data", "overlap"}),
        (["--no-overlap"], {"data", "serial"}, {"data"}),
        (["--no-serial", "--no-overlap"], {"data"}, {"data"}),
    ):
        call("g.json", "-o", "out.xml", *arguments)
        call("g.json", "-o", "out.json", *arguments)
        assert (kinds("out.xml"), kinds("out.json")) == (in_xml, in_json)
    call("out.xml", "-o", "again.xml")
    call("again.xml", "-o", "none.json", "--no-serial")
    assert "serial" in kinds("again.xml") and kinds("none.json") == {"data"}


def test_rates_are_divided_and_bytes_stay() -> None:
    onnx.save(residual_classifier(), "net.onnx")
    call("net.onnx", "-o", "elements.xml", "--rows", "1")
    call("net.onnx", "-o", "divided.xml", "--rows", "1", "--gcd")
    call("net.onnx", "-o", "rows.xml", "--rows", "1", "--tokens", "rows")
    before, after, rows = channels("elements.xml"), channels("divided.xml"), channels("rows.xml")
    assert before != after
    for name, channel in rows.items():
        assert sum(after[name].production) <= sum(channel.production)
        assert (
            sum(after[name].production) * after[name].token_bytes
            == sum(before[name].production) * before[name].token_bytes
        )


def test_capacities_limit_the_graph_that_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    call("g.json", "-o", "bounded.xml", "--capacities", "in=3,out=1", "--capacities", "rows=4")
    given = {"in": 3, "out": 1, "rows": 4}
    bounded = sdf3xml.read("bounded.xml")
    assert {c.name for c in bounded.channels if c.kind == "space"} == {
        "space_in",
        "space_out",
        "space_rows",
    }
    assert throughput(bounded).value == throughput(add_serial_loops(convolution()), given).value
    call(
        "g.json", "-o", "sizes.xml", "--capacities", "in=3,out=1,rows=4", "--capacities-as", "sizes"
    )
    assert sdf3xml.read_file("sizes.xml").capacities == given
    call("sizes.xml", "-o", "kept.xml")
    assert Path("kept.xml").read_bytes() == Path("sizes.xml").read_bytes()
    call("sizes.xml", "-o", "obeyed.json", "--capacities-as", "channels")
    assert throughput(graph_json.read_graph("obeyed.json")).value == throughput(bounded).value
    call("sizes.xml", "-o", "drawn.dot")
    assert Path("drawn.dot").read_text().count("capacity") == 3
    capsys.readouterr()
    call("sizes.xml", "-o", "lost.json")
    assert capsys.readouterr().err == "warning: sizes.xml: not modelled and dropped: 3 bufferSize\n"
    call("sizes.xml", "-o", "fewer.xml", "--capacities", "in=5")
    assert [c.name for c in sdf3xml.read("fewer.xml").channels if c.kind == "space"] == ["space_in"]


def test_buffer_sizes_limit_an_analysis_only_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    call("g.json", "-o", "g.xml", "--capacities", "in=2,out=1,rows=4", "--capacities-as", "sizes")
    dropped = "warning: g.xml: not modelled and dropped: 3 bufferSize\n"
    cases = (
        ((), dropped),
        (("--capacities", "g.xml"), ""),
        (("--capacities", "in=2,out=1,rows=4"), dropped),
    )
    for arguments, warning in cases:
        capsys.readouterr()
        call("analyze", "g.xml", "--throughput", "--json", *arguments)
        printed = capsys.readouterr()
        value = throughput(
            sdf3xml.read("g.xml"), {"in": 2, "out": 1, "rows": 4} if arguments else None
        ).value
        assert json.loads(printed.out)["throughput"] == str(value)
        assert printed.err == warning
    assert main(["analyze", "ring.json", "--capacities", "g.xml"]) == 1
    assert "has no channel 'in', which is given a capacity" in capsys.readouterr().err


def test_capacities_come_from_a_schedule_or_a_graph_in_its_own_tokens() -> None:
    onnx.save(residual_classifier(), "net.onnx")
    call("net.onnx", "-o", "rows.json", "--tokens", "rows", "--serial")
    call("schedule", "rows.json", "-o", "schedule.json")
    call("net.onnx", "-o", "rows.xml", "--tokens", "rows", "--capacities", "schedule.json")
    call("net.onnx", "-o", "elements.xml", "--capacities", "schedule.json")
    call(
        "net.onnx",
        "-o",
        "sizes.xml",
        "--capacities",
        "schedule.json",
        "--capacities-as",
        "sizes",
        "--gcd",
    )
    call("net.onnx", "-o", "again.xml", "--capacities", "sizes.xml", "--gcd")
    call(
        "net.onnx",
        "-o",
        "none.xml",
        "--tokens",
        "rows",
        "--capacities",
        "schedule.json",
        "--no-overlap",
    )
    graphs = [sdf3xml.read(f"{name}.xml") for name in ("rows", "elements", "again")]
    assert (
        len({throughput(graph).value for graph in graphs}) == 1 and throughput(graphs[0]).value > 0
    )
    assert any(
        channel.kind == "space" and channel.source == channel.target
        for channel in graphs[0].channels
    )
    assert not any(
        channel.kind == "space" and channel.source == channel.target
        for channel in sdf3xml.read("none.xml").channels
    )


def test_what_is_typed_wrong_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, code, said in (
        (
            ["--capacities", "in"],
            2,
            "'in' is not CHANNEL=TOKENS,..., nor a schedule (.json) or a graph with buffer sizes (.xml)",
        ),
        (["--capacities", "in=1,in=2"], 2, "channel 'in' is given twice"),
        (
            ["--capacities", "a.json", "--capacities", "b.xml"],
            2,
            "'a.json' and 'b.xml': one file is read",
        ),
        (
            ["--capacities", "no=1"],
            1,
            "g.json: graph 'conv': has no channel 'no', which is given a capacity",
        ),
        (
            ["--capacities", "missing.xml"],
            1,
            "missing.xml: cannot be read: No such file or directory",
        ),
        (
            ["--capacities", "g.json"],
            1,
            "g.json: 'format' is 'csdfgen-graph', for csdfgen schedule; 'csdfgen-schedule' is needed",
        ),
        (
            ["--capacities-as", "sizes"],
            1,
            "--capacities-as says how capacities are written, but there are none; add --capacities",
        ),
        (
            ["--capacities", "in=3", "--capacities-as", "sizes"],
            1,
            "--capacities-as sizes: only .xml and .dot say the size of a",
        ),
    ):
        assert main(["g.json", "-o", "out.json", *arguments]) == code
        printed = capsys.readouterr()
        assert printed.out == "" and said in " ".join(printed.err.replace("│", " ").split()), (
            printed.err
        )
        assert code == 2 or len(printed.err.splitlines()) == 1
    assert main(["ring.json", "-o", "out.xml", "--capacities", "ba=0"]) == 1
    assert (
        capsys.readouterr().err
        == "ring.json: channel 'ba': 1 initial tokens, but the capacity is 0\n"
    )
    assert not Path("out.xml").exists()


def test_a_graph_without_actors_is_not_written_as_xml(capsys: pytest.CaptureFixture[str]) -> None:
    graph_json.write_graph("empty.json", CsdfGraph("empty", (), ()))
    assert main(["empty.json", "-o", "empty.xml"]) == 1
    assert (
        capsys.readouterr().err
        == "empty.json: graph 'empty': has no actor; SDF3 needs at least one\n"
    )
