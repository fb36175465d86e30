"""The user's three steps, and `schedule` of graphs: convert to a graph file, analyze it to a plan,
run the model by the plan.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import onnx
import pytest
from onnx import helper

from sdf3_bridge import encode_name, sdf3xml
from sdf3_bridge.iteration import sdf3_iteration
from tests.command import Call, refused
from tests.small_models import model, residual_classifier, weight
from tests.standin import Reply, stand_in

ODD = ('conv, "one"=1\\', "π <&> 'two'\n", " blank ")
"""Names of layers that need care in XML, in JSON, in options, on a terminal."""


def oddly_named() -> onnx.ModelProto:
    """Three convolutions whose names, tensors and input are what no tool expects."""
    nodes = [
        helper.make_node("Conv", ["in put,=", "w1"], ["a->b"], ODD[0], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a->b", "w2"], ["overlap:a->b"], ODD[1], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["overlap:a->b", "w3"], ["out\tput"], ODD[2], pads=[1, 1, 1, 1]),
    ]
    weights = [weight("w1", 4, 2, 3, 3), weight("w2", 4, 4, 3, 3), weight("w3", 2, 4, 3, 3)]
    return model(nodes, {"in put,=": (1, 2, 9, 7)}, ["out\tput"], weights, 'odd "net" & more')


@pytest.fixture
def call(call: Call) -> Call:
    """The command, in a folder with small models."""
    onnx.save(residual_classifier(), "net.onnx")
    onnx.save(residual_classifier(batch="N"), "free.onnx")
    onnx.save(oddly_named(), "odd.onnx")
    return call


def steps(
    call: Call, network: str, *options: str, graph: str = "graph.xml", how: tuple[str, ...] = ()
) -> dict[str, object]:
    """Convert, analyze, run; what the last step reports."""
    for command in (
        (network, "-o", graph, *options),
        ("analyze", graph, "--buffers", *how, "-o", "plan.json"),
    ):
        result = call(*command)
        assert result.code == 0, result.err
        assert not result.err or "--no-serial" in options
    found = call("run", network, "--plan", "plan.json", "--check", "--json").json
    assert found["ok"] is True
    assert found["planned_bytes"] == found["measured_bytes"]
    return found


@pytest.mark.parametrize("graph", ["graph.xml", "graph.json"])
@pytest.mark.parametrize("tokens", ["elements", "rows"])
@pytest.mark.parametrize("rows", ["1", "auto", "whole", "paper", "2,conv2=1,x=5+3"])
def test_rows_and_tokens(call: Call, graph: str, tokens: str, rows: str) -> None:
    fuse = "none" if tokens == "rows" else "full"
    found = steps(
        call,
        "net.onnx",
        "--rows",
        rows,
        "--tokens",
        tokens,
        "--fuse",
        fuse,
        graph=graph,
        how=("--engine", "native"),
    )
    assert (found["rows"], found["fuse"]) == (
        rows if rows[0] in "1awp" else "2,conv2=1,x=5+3",
        fuse,
    )


@pytest.mark.parametrize("fuse", ["none", "fold", "full"])
@pytest.mark.parametrize("image", ["streamed", "resident"])
@pytest.mark.parametrize(
    "how", [("--storage", "live"), ("--storage", "maximal", "--unit", "bytes"), ("--no-overlap",)]
)
def test_fusing_images_and_storage(call: Call, fuse: str, image: str, how: tuple[str, ...]) -> None:
    found = steps(call, "net.onnx", "--rows", "1", "--fuse", fuse, "--image", image, how=how)
    assert (found["fuse"], found["image"]) == (fuse, image)


@pytest.mark.parametrize("given", [("--batch", "3"), ("--shape", "x=2x3x12x10")])
def test_batches_and_shapes(call: Call, given: tuple[str, str]) -> None:
    steps(call, "free.onnx", *given)
    assert call("run", "free.onnx", "--plan", "plan.json", *given).code == 0
    other = refused(call("run", "free.onnx", "--plan", "plan.json", "--batch", "7"))
    assert other.startswith("plan.json: was made for other shapes")


@pytest.mark.parametrize("graph", ["graph.xml", "graph.json"])
def test_names_that_no_tool_expects(call: Call, graph: str) -> None:
    spec = f"1,{ODD[0]}=2".replace("\\", "\\\\").replace("conv, ", "conv\\, ")
    steps(call, "odd.onnx", "--rows", spec, "--fuse", "none", graph=graph)
    values = json.loads(Path("plan.json").read_text())
    assert values["origin"]["options"]["rows"] == spec
    assert {firing for item in values["firings"] for firing in [item.get("actor")]} & {
        *ODD,
        "input:in put,=",
    }


def test_networks_of_the_zoo_and_their_files(call: Call) -> None:
    steps(call, "zoo:lenet5", "--rows", "1")
    assert call("zoo", "lenet5", "-o", "lenet.onnx", "--seed", "3").code == 0
    assert (
        call("run", "lenet.onnx", "--plan", "plan.json", "--check", "--json").json["ok"] is True
    )  # other weights, same rows
    said = refused(call("run", "net.onnx", "--plan", "plan.json"))
    assert (
        "made for 'zoo:lenet5', cannot be loaded with the plan's shapes: net.onnx: 'image' is not an input"
        in said
    )


def test_the_papers_network_takes_its_rows(call: Call) -> None:
    found = steps(call, "zoo:cnn5", "--rows", "paper", "--tokens", "rows", how=("--no-overlap",))
    assert found["figures"]["sum_of_capacities"] == 4 * 978  # type: ignore[index]
    values = json.loads(Path("plan.json").read_text())
    sizes = [
        tokens for name, tokens in values["capacities"].items() if not name.startswith("serial")
    ]
    assert sizes == [17, 6, 4, 1]


def sdf3_for_cnn5(folder: Path, tokens: str) -> Path:
    """A stand-in that answers about zoo:cnn5 as SDF3 does; tokens: "elements" or "rows"."""
    found = sdf3_iteration(sdf3xml.read("graph.xml"))
    names = [encode_name(name) for name in ("image->n2", "n2->n3", "n3->n4", "n4->output:n4")]
    rows = zip(names, (17, 6, 4, 1), (32, 64, 12, 2), strict=True)
    serial = {
        encode_name(f"serial_{name}"): 2 for name in ("input:image", "n2", "n3", "n4", "output:n4")
    }
    sizes = serial | {
        name: count * (row if tokens == "elements" else 1) for name, count, row in rows
    }
    rate = f"{1 / 297136 / found.factor:.6g}"
    channels = "".join(f"<ch name='{name}' sz='{size}'/>" for name, size in sizes.items())
    points = f"<distributionsSet thr='{rate}' sz='{sum(sizes.values())}'>"
    points += f"<distribution>{channels}</distribution></distributionsSet>"
    vector = "".join(f" [{encode_name(name)}] = {count}\n" for name, count in found.firings.items())
    timing = "analysis time: 0.1ms\n"
    replies = {
        "repetition_vector": Reply(f"Repetition vector:\n{vector}{timing}"),
        "throughput": Reply(f"thr(cnn5) = {rate}\n{timing}"),
        "buffersize": Reply(
            f"<sdf3><storageThroughputTradeOffs>{points}</storageThroughputTradeOffs></sdf3>\n{timing}"
        ),
    }
    return stand_in(folder, "sdf3analysis-csdf", replies)


@pytest.mark.parametrize("tokens", ["elements", "rows"])
def test_what_sdf3_sizes_runs(call: Call, tmp_path: Path, tokens: str) -> None:
    call("zoo:cnn5", "-o", "graph.xml", "--rows", "paper", "--tokens", tokens)
    tool = sdf3_for_cnn5(tmp_path / "sdf3", tokens)
    how = ("--engine", "sdf3", "--sdf3", str(tool), "--storage", "live")
    found = steps(call, "zoo:cnn5", "--rows", "paper", "--tokens", tokens, how=how)
    assert found["figures"]["sum_of_capacities"] == 4 * 978  # type: ignore[index]
    values = json.loads(Path("plan.json").read_text())
    assert values["throughput"] == "1/297136"


def test_a_graph_that_was_edited_no_longer_fits(call: Call) -> None:
    call("net.onnx", "-o", "graph.xml", "--rows", "1", "--tokens", "rows", "--fuse", "none")
    text = Path("graph.xml").read_text()
    edited = text.replace('rate="2,14*1,0"', 'rate="16*1"')
    assert edited != text
    Path("graph.xml").write_text(edited)
    assert call("analyze", "graph.xml", "--buffers", "--no-overlap", "-o", "plan.json").code == 0
    said = refused(call("run", "net.onnx", "--plan", "plan.json"))
    assert re.fullmatch(
        r"plan.json: with rows for tokens: firing \d+ \('conv1' phase 1\): channel 'x->conv1' holds 1 of the 2 .*",
        said,
    )


def test_a_graph_of_nobody_gives_no_plan(call: Call) -> None:
    call("net.onnx", "-o", "graph.xml")
    text = Path("graph.xml").read_text()
    start = text.index(" csdfgen='")
    Path("graph.xml").write_text(text[:start] + text[text.index("}'", start) + 2 :])
    assert sdf3xml.read("graph.xml").origin is None
    assert call("analyze", "graph.xml", "--buffers", "-o", "plan.json").code == 0
    assert "does not say from which network it was made" in refused(
        call("run", "net.onnx", "--plan", "plan.json")
    )


def test_rates_of_the_paper_are_no_plan(call: Call) -> None:
    call("net.onnx", "-o", "graph.xml", "--rates", "paper")
    call("analyze", "graph.xml", "--buffers", "-o", "plan.json")
    assert "make it with --rates exact" in refused(call("run", "net.onnx", "--plan", "plan.json"))


@pytest.mark.parametrize("graph", ["graph.xml", "graph.json"])
@pytest.mark.parametrize(
    "form",
    [("--gcd",), ("--no-overlap",), ("--no-serial",), ("--gcd", "--tokens", "rows", "--rows", "2")],
)
def test_other_forms_of_the_same_graph(call: Call, graph: str, form: tuple[str, ...]) -> None:
    rows = () if "--rows" in form else ("--rows", "1")
    found = steps(call, "net.onnx", *rows, *form, graph=graph, how=("--storage", "live"))
    assert (
        found["figures"]
        == call("run", "net.onnx", "--rows", "2" if "--rows" in form else "1", "--json").json[
            "figures"
        ]
    )


def test_buffer_sizes_that_are_used_are_not_said_to_be_dropped(call: Call) -> None:
    call("net.onnx", "-o", "graph.xml")
    call("schedule", "graph.xml", "-o", "plan.json")
    call("graph.xml", "-o", "sized.xml", "--capacities", "plan.json", "--capacities-as", "sizes")
    for command in ("analyze", "schedule"):
        assert "dropped" in call(command, "sized.xml").err
        assert "dropped" not in call(command, "sized.xml", "--capacities", "sized.xml").err


def test_capacities_as_channels_are_kept(call: Call) -> None:
    """A graph whose capacities are channels back: the order obeys them, and they store nothing
    themselves.
    """
    call("net.onnx", "-o", "graph.xml", "--rows", "1")
    call("analyze", "graph.xml", "--buffers", "-o", "least.json")
    steps(
        call,
        "net.onnx",
        "--rows",
        "1",
        "--capacities",
        "least.json",
        graph="tight.xml",
        how=("--storage", "live"),
    )
    assert any(channel.kind == "space" for channel in sdf3xml.read("tight.xml").channels)


# schedule ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["demand", "eager", "layers", "bounded", "self-timed"])
def test_orders_of_a_graph(call: Call, policy: str) -> None:
    call("net.onnx", "-o", "graph.xml", "--rows", "1")
    assert f"order '{policy}'" in call("schedule", "graph.xml", "--policy", policy).out
    assert call("schedule", "graph.xml", "--policy", policy, "-o", "plan.json").code == 0
    assert json.loads(Path("plan.json").read_text())["policy"] == policy
    assert call("run", "net.onnx", "--plan", "plan.json", "--check", "--json").json["ok"] is True


def test_orders_of_a_model(call: Call) -> None:
    arenas = {}
    for policy in ("demand", "layers"):
        call("schedule", "net.onnx", "--rows", "1", "--policy", policy, "-o", "plan.json")
        values = json.loads(Path("plan.json").read_text())
        assert values["options"]["policy"] == policy
        arenas[policy] = values["arena"]
    assert arenas["demand"] < arenas["layers"]
    assert "--policy is one of demand, eager, layers, bounded, loop for it" in refused(
        call("schedule", "net.onnx", "--policy", "self-timed")
    )


def test_start_times_that_repeat(call: Call) -> None:
    call("net.onnx", "-o", "graph.xml", "--rows", "1")
    shown = call("schedule", "graph.xml", "--periodic").out
    throughput = call("analyze", "graph.xml", "--throughput", "--json").json["throughput"]
    assert (
        f"throughput {throughput}" in shown
        and "first start" in shown
        and "under way at one time" in shown
    )
    assert call("schedule", "graph.xml", "--periodic", "-o", "starts.json").out.startswith(
        "starts.json: "
    )
    values = json.loads(Path("starts.json").read_text())
    assert (values["format"], values["throughput"]) == ("csdfgen-starts", throughput)
    assert min(row[0] for row in values["starts"].values()) == 0
    assert values["origin"]["model"] == "net.onnx"
    assert (
        "'csdfgen-schedule' is needed; csdfgen schedule without --periodic writes one"
        in refused(call("run", "net.onnx", "--plan", "starts.json"))
    )


@pytest.mark.parametrize("policy", ["eager", "self-timed"])
def test_orders_within_capacities(call: Call, policy: str) -> None:
    call("net.onnx", "-o", "graph.xml", "--rows", "1")
    call("analyze", "graph.xml", "--buffers", "-o", "least.json")
    assert (
        call(
            "schedule",
            "graph.xml",
            "--capacities",
            "least.json",
            "--policy",
            policy,
            "-o",
            "plan.json",
        ).code
        == 0
    )
    least, found = (
        json.loads(Path(name).read_text())["capacities"] for name in ("least.json", "plan.json")
    )
    assert {name: found[name] for name in found if "serial" not in name} == {
        name: least[name] for name in least if "serial" not in name
    }
    assert call("run", "net.onnx", "--plan", "plan.json", "--check", "--json").json["ok"] is True
    free, tight = (
        call("schedule", "graph.xml", "--periodic", *more).out
        for more in ((), ("--capacities", "least.json"))
    )
    assert free != tight
    said = refused(call("schedule", "graph.xml", "--capacities", "x->conv1=1"))
    assert said.startswith("graph.xml: ") and "deadlock" in said


REFUSED = [
    (
        ("net.onnx", "--capacities", "x->conv1=3"),
        "net.onnx: is a model; --capacities is for graphs",
    ),
    (
        ("graph.xml", "--capacities", "nothing=3"),
        "graph.xml: graph 'net': has no channel 'nothing', which",
    ),
    (
        ("net.onnx", "--periodic"),
        "net.onnx: is a model; --periodic is for graphs, make one with csdfgen MODEL -o graph.xml",
    ),
    (
        ("graph.xml", "--periodic", "--policy", "eager"),
        "graph.xml: --policy eager orders the firings of one processor",
    ),
    (("graph.xml", "--periodic", "-o", "starts.txt"), "starts.txt: a plan is written as .json"),
    (
        ("free.xml", "--periodic"),
        "free.xml: graph 'net': nothing limits its throughput, no cycle of actors takes time; give its actors "
        "serial self-loops",
    ),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED, ids=[" ".join(row[0]) for row in REFUSED])
def test_what_is_no_schedule_is_one_line(call: Call, arguments: tuple[str, ...], said: str) -> None:
    call("net.onnx", "-o", "graph.xml", "--rows", "1")
    call("net.onnx", "-o", "free.xml", "--rows", "whole")
    serial = re.compile(r".*serial_.*\n")
    Path("free.xml").write_text(serial.sub("", Path("free.xml").read_text()))
    assert refused(call("schedule", *arguments)).startswith(said)
