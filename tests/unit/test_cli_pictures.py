"""`--gantt`, `--occupancy` and `--dot` on the command line: what is drawn in which storage, and one
line when it cannot be.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from csdfgen.cli import main
from csdfgen.dataflow import graph_json
from csdfgen.dataflow.graph import add_serial_loops
from csdfgen.dataflow.transform import add_space_channels
from tests.graphs import convolution, ring

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def csdfgen(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Call:
    """The command, in a folder with graphs: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    graph_json.write_graph("conv.json", add_serial_loops(convolution(8)))
    graph_json.write_graph("ring.json", ring())
    graph_json.write_graph("dead.json", ring(0))
    channel = replace(ring().channels[0], production=(2,))
    graph_json.write_graph("bad.json", replace(ring(), channels=(channel, ring().channels[1])))

    def call(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(arguments)
        return code, *capfd.readouterr()

    return call


def title(path: str) -> str:
    return ET.parse(path).getroot().findtext("{http://www.w3.org/2000/svg}title") or ""


def texts(path: str) -> list[str]:
    return [
        element.text or ""
        for element in ET.parse(path).getroot().iter("{http://www.w3.org/2000/svg}text")
    ]


def test_pictures_show_the_least_storage_that_was_found(csdfgen: Call) -> None:
    code, out, err = csdfgen(
        "analyze",
        "conv.json",
        "--buffers",
        "--gantt",
        "g.svg",
        "--occupancy",
        "o.svg",
        "--dot",
        "g.dot",
        "--unit",
        "bytes",
    )
    assert (code, err) == (0, "")
    assert "pictures    g.dot: the graph within capacities of 256 bytes\n" in out
    assert "g.svg: 64 firings, self-timed execution within capacities of 256 bytes\n" in out
    assert title("g.svg") == "conv: self-timed execution"
    assert title("o.svg") == "conv: bytes held, self-timed execution"
    assert {"2 tokens", "80 bytes"} & set(texts("o.svg")) == {"80 bytes"}
    dot = Path("g.dot").read_text()
    assert (
        "capacity 4" in dot
        and "penwidth=3" in dot
        and 'label="throughput 1/32 iterations a time unit"' in dot
    )


def test_pictures_show_the_capacities_that_were_given(csdfgen: Call) -> None:
    code, out, _ = csdfgen(
        "analyze", "conv.json", "--capacities", "in=5,out=5,rows=4", "--gantt", "g.svg", "--json"
    )
    assert code == 0
    assert json.loads(out)["pictures"] == {"gantt": "g.svg"}
    assert {"transient", "period"} <= set(texts("g.svg"))


@pytest.mark.parametrize(
    ("draw", "shown"),
    [
        ("self-timed", "self-timed execution"),
        ("static", "one processor, order 'self-timed'"),
        ("periodic", "periodic schedule"),
    ],
)
def test_three_kinds_of_execution_are_drawn(csdfgen: Call, draw: str, shown: str) -> None:
    assert csdfgen("analyze", "ring.json", "--gantt", "g.svg", "--draw", draw)[0] == 0
    assert title("g.svg") == f"ring: {shown}"


def test_models_are_drawn_too(csdfgen: Call) -> None:
    code, out, _ = csdfgen("analyze", "zoo:cnn5", "--gantt", "g.svg")
    assert code == 0
    assert "g.svg: " in out
    assert "n2" in texts("g.svg")


def test_the_schedule_of_a_graph_is_drawn(csdfgen: Call) -> None:
    code, out, _ = csdfgen("schedule", "conv.json", "--gantt", "g.svg")
    assert (code, out) == (0, "g.svg: 24 firings on one processor\n")
    assert title("g.svg") == "conv: one processor, order 'demand'"


def test_a_deadlock_is_drawn_with_who_waits_for_whom(csdfgen: Call) -> None:
    assert csdfgen("analyze", "dead.json", "--gantt", "g.svg", "--dot", "g.dot")[0] == 0
    assert any("'A' phase 1 waits for 1 more token in 'ba'" in text for text in texts("g.svg"))
    dot = Path("g.dot").read_text()
    assert dot.count("penwidth=3") == 4
    assert 'label="deadlock after 0 firings: ' in dot


def test_free_space_is_drawn_as_the_capacity_that_it_is(csdfgen: Call) -> None:
    graph_json.write_graph("room.json", add_space_channels(ring(2), {"ab": 2, "ba": 3}))
    assert csdfgen("analyze", "room.json", "--dot", "g.dot")[0] == 0
    dot = Path("g.dot").read_text()
    assert dot.count("style=solid") == 2
    assert "capacity 2" in dot and "capacity 3" in dot
    graph_json.write_graph("tight.json", add_space_channels(ring(2), {"ab": 1, "ba": 2}))
    assert csdfgen("analyze", "tight.json", "--dot", "g.dot")[0] == 0
    assert 'a1 -> a0 [label="  space in ab  ", constraint=false' in Path("g.dot").read_text()


def test_an_inconsistent_graph_can_be_seen_but_not_executed(csdfgen: Call) -> None:
    assert csdfgen("analyze", "bad.json", "--dot", "g.dot")[0] == 0
    assert "label=\"inconsistent: channel 'ba': out of balance" in Path("g.dot").read_text()
    Path("g.dot").unlink()
    code, out, err = csdfgen("analyze", "bad.json", "--gantt", "g.svg", "--dot", "g.dot")
    assert (code, out) == (1, "")
    assert err.startswith("bad.json: channel 'ba': out of balance") and err.endswith(
        "it has no execution to be drawn\n"
    )
    assert not Path("g.dot").exists() and not Path("g.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ("analyze", "ring.json", "--gantt", "g.png"),
            1,
            "g.png: --gantt writes .svg; give FILE.svg",
        ),
        (("analyze", "ring.json", "--dot", "g.svg"), 1, "g.svg: --dot writes .dot; give FILE.dot"),
        (
            ("analyze", "ring.json", "--gantt", "no/g.svg"),
            1,
            "no/g.svg: cannot be written: No such file or directory",
        ),
        (("analyze", "ring.json", "--gantt", "g.svg", "--occupancy", "g.svg"), 2, "given twice"),
        (("analyze", "ring.json", "--draw", "static"), 2, "says what charts show"),
        (
            ("analyze", "dead.json", "--gantt", "g.svg", "--draw", "periodic"),
            1,
            "dead.json: graph 'ring': deadlock after 0",
        ),
        (
            ("schedule", "zoo:cnn5", "--gantt", "g.svg"),
            1,
            "zoo:cnn5: is a model; --gantt is for graphs",
        ),
        (("schedule", "ring.json", "--gantt", "g.png"), 1, "g.png: --gantt writes .svg"),
    ],
)
def test_what_is_not_drawn(csdfgen: Call, arguments: tuple[str, ...], code: int, said: str) -> None:
    found, out, err = csdfgen(*arguments)
    assert found == code
    assert out == ""
    assert said in " ".join(err.replace("│", " ").split())
    assert list(Path().glob("*.svg")) == []
