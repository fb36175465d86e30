"""The Python interface: one line for what a command does, values that show and send themselves."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import pydoc
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.cli import main
from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph
from csdfgen.errors import CsdfgenError, InputError, ModelError, PlanError
from csdfgen.model.network import Layer, Network, Node
from csdfgen.phases.conversion import Conversion, convert
from csdfgen.phases.graphs import digest_conversion
from csdfgen.phases.heights import RowSpec, parse_rows
from csdfgen.planning.plan import Plan
from runtime import report as reports
from runtime.images import random_inputs
from runtime.reference import Reference
from schedules import analysis
from schedules.schedule import Schedule, write_schedule
from tests.models import model
from tests.small_models import residual_classifier, two_inputs
from tests.unit.test_loops import MODELS
from tests.ways import some

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = [name for name in csdfgen.__all__ if not name.startswith("_")]
NASTY = "<script>alert(1)</script>\n" + "x" * 5000


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with net.onnx, where everything runs."""
    monkeypatch.chdir(tmp_path)
    onnx.save(residual_classifier(), "net.onnx")
    return tmp_path


@pytest.fixture
def net() -> Network:
    return csdfgen.load("net.onnx")


@pytest.fixture
def plan(net: Network) -> Plan:
    return csdfgen.plan(net)


def cli(*arguments: str) -> None:
    assert main(arguments) == 0


def refused(error: type[CsdfgenError], call: Callable[[], object]) -> str:
    """The one line of an error."""
    with pytest.raises(error) as caught:
        call()
    (line,) = str(caught.value).splitlines()
    return line


# What the package shows -------------------------------------------------------------------------


def test_completion_knows_every_function() -> None:
    assert {*csdfgen.__all__} <= {*dir(csdfgen)}
    shown = {name for name in dir(csdfgen) if not name.startswith("_")}
    assert all(name in FUNCTIONS or f"csdfgen.{name}" in sys.modules for name in shown)


def test_help_lists_functions_and_no_machinery() -> None:
    text = pydoc.plain(pydoc.render_doc(csdfgen))
    assert all(f"    {name}(" in text for name in FUNCTIONS)
    assert "__getattr__" not in text and "__dir__" not in text and "_Package" not in text


@pytest.mark.parametrize("function", [*FUNCTIONS, "runtime.run", "runtime.compile"])
def test_help_of_a_function_names_arguments_and_errors(function: str) -> None:
    found = getattr(runtime if "." in function else csdfgen, function.rpartition(".")[2])
    text = inspect.getdoc(found)
    assert text is not None and "Raises" in text
    kinds = [p.kind for p in inspect.signature(found).parameters.values()]
    assert inspect.Parameter.VAR_KEYWORD not in kinds  # options are listed


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'csdfgen' has no attribute 'lode'"):
        csdfgen.lode  # type: ignore[attr-defined]  # noqa: B018


def loaded_by(code: str) -> list[str]:
    """Which heavy packages are there after some lines of Python."""
    code += "; print(*sorted({'onnx', 'onnxruntime', 'numpy'} & set(sys.modules)))"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_listing_the_package_loads_nothing() -> None:
    assert loaded_by("import csdfgen; dir(csdfgen); csdfgen.analyze") == []


def test_graphs_need_no_networks(net: Network) -> None:
    csdfgen.save_graph(csdfgen.convert(net), "graph.xml")
    code = "import csdfgen; g = csdfgen.read_graph('graph.xml'); csdfgen.schedule(g); csdfgen.analyze(g)"
    assert "onnx" not in loaded_by(code) and "onnxruntime" not in loaded_by(code)


# How values show themselves ---------------------------------------------------------------------


def test_values_say_what_they_are_on_one_short_line(net: Network, plan: Plan) -> None:
    graph = csdfgen.convert(net)
    assert repr(net).startswith("<Network 'net': inputs x 1x3x16x12, layers 7, parameters 0.00")
    assert repr(net.layers[0]).startswith(
        "<Layer 'conv1': operator Conv, inputs x 1x3x16x12, outputs c1 1x8x16x12, parameters 0.0"
    )
    counts = len(graph.actors), sum(graph.phases.values()), len(graph.channels)
    said = "<CsdfGraph 'net': actors {}, phases {}, channels {}>"
    assert repr(graph) == said.format(*counts)
    said = "<Schedule 'net': order demand, actors {}, firings {}, channels {}>"
    assert repr(csdfgen.schedule(graph)) == said.format(*counts)
    assert repr(plan.conversion).startswith("<Conversion 'net': rows ")
    assert "deadlock no, throughput 1/" in repr(csdfgen.analyze(graph))
    told = repr(csdfgen.report(plan))
    assert told.startswith("<Report 'net.onnx': outputs equal, largest difference ")
    assert "not checked" in repr(csdfgen.report(plan, check=None))


def test_a_batch_is_part_of_the_shape() -> None:
    net = csdfgen.load(residual_classifier(batch="n"), batch=3)
    assert "inputs x 3x3x16x12" in repr(net) and "batch 3" in repr(net)


def nasty_values() -> list[Any]:
    model = residual_classifier()
    model.graph.name = NASTY
    net = csdfgen.load(model)
    net = Network(NASTY, net.inputs, net.outputs, net.layers, source=NASTY)
    actors = Actor("a", (1,), NASTY), Actor("b", (1,))
    broken = tuple(Channel(name, "a", "b", (1,), (rate,)) for name, rate in (("ab", 1), (NASTY, 2)))
    graph = CsdfGraph(NASTY, actors, broken)
    schedule = Schedule(NASTY, (), {})
    values = [net, convert(net), graph, schedule, analysis.analyze(graph)]
    return [*values, csdfgen.report(csdfgen.plan(net), check=None)]


def test_names_of_strangers_stay_on_the_line_and_out_of_the_markup() -> None:
    for value in nasty_values():
        for text in (repr(value), value._repr_html_()):
            assert len(text) < 2500 and "\n" not in text, type(value)
        assert "<script" not in value._repr_html_()
        assert value._repr_html_().startswith("<table>")


def test_an_inconsistent_graph_can_be_shown() -> None:
    graph = nasty_values()[2]
    assert re.search("firings an iteration</th><td[^>]*>none: ", graph._repr_html_())
    assert "inconsistent channel" in repr(analysis.analyze(graph))


# What goes to another process -------------------------------------------------------------------


def through_pickle(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("again", [through_pickle, copy.deepcopy, copy.copy])
def test_a_network_runs_after_the_journey(net: Network, again: Callable[[Any], Any]) -> None:
    net.producer  # noqa: B018 -- a cached mapping goes nowhere
    made = again(net)
    assert digest_conversion(convert(made)) == digest_conversion(convert(net))
    assert made.parameter_bytes == net.parameter_bytes and repr(made) == repr(net)
    x = random_inputs(net, 0)
    ours, theirs = runtime.run(csdfgen.plan(net), x), runtime.run(csdfgen.plan(made), x)
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_mappings_are_read_only_where_they_arrive(net: Network) -> None:
    layer = through_pickle(net.layers[0])
    assert isinstance(layer, Layer) and dict(layer.attributes) == dict(net.layers[0].attributes)
    for mapping in (layer.attributes, layer.constants, through_pickle(parse_rows({"a": 1})).layers):
        assert isinstance(mapping, MappingProxyType)
        with pytest.raises(TypeError):
            mapping["new"] = 1  # type: ignore[index]


def test_arrays_that_layers_share_stay_shared(net: Network) -> None:
    weight = np.ones(1000, np.float32)
    layers = tuple(
        Layer(name, "Conv", (), (), constants=MappingProxyType({1: weight})) for name in "ab"
    )
    twice = Network("twice", (), (), layers)
    assert through_pickle(twice).parameter_bytes == twice.parameter_bytes == weight.nbytes


def test_conversions_graphs_schedules_and_answers_travel(net: Network) -> None:
    conversion: Conversion = through_pickle(convert(net, 2))
    assert (
        digest_conversion(conversion) == digest_conversion(convert(net, 2))
        and str(conversion.rows) == "2"
    )
    assert conversion.actor["conv1"].layer is conversion.network.layers[0]  # not a second one
    graph = csdfgen.convert(net)
    for value in (graph, csdfgen.schedule(graph), csdfgen.analyze(graph, with_latency=True)):
        assert through_pickle(value) == value
    node = through_pickle(Node("n", "Relu", 17, MappingProxyType({"a": 1}), (), ("y",)))
    assert dict(node.attributes) == {"a": 1}


# One line for what a command does ---------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["xml", "json"])
def test_convert_makes_the_commands_graph(net: Network, suffix: str) -> None:
    cli("net.onnx", "--rows", "2", "--fuse", "none", "-o", f"theirs.{suffix}")
    graph = csdfgen.convert(net, rows=2, fuse="none")
    csdfgen.save_graph(graph, f"ours.{suffix}")
    assert Path(f"ours.{suffix}").read_bytes() == Path(f"theirs.{suffix}").read_bytes()
    assert csdfgen.read_graph(f"ours.{suffix}") == graph == csdfgen.read_graph(f"theirs.{suffix}")


@pytest.mark.parametrize("suffix", ["xml", "json"])
def test_a_graph_is_read_as_it_was_saved(net: Network, suffix: str) -> None:
    graph = csdfgen.convert(net, serial=False, overlap=False, tokens="rows", rates="paper")
    assert {channel.kind for channel in graph.channels} == {"data"}
    csdfgen.save_graph(graph, f"graph.{suffix}")
    assert csdfgen.read_graph(f"graph.{suffix}") == graph


def test_a_graph_can_be_drawn(net: Network) -> None:
    csdfgen.save_graph(csdfgen.convert(net), "graph.dot")
    assert Path("graph.dot").read_text().startswith("digraph")


def test_schedule_makes_the_commands_schedule(net: Network) -> None:
    csdfgen.save_graph(csdfgen.convert(net), "graph.json")
    cli("schedule", "graph.json", "-o", "theirs.json")
    write_schedule("ours.json", csdfgen.schedule(csdfgen.read_graph("graph.json")))
    assert Path("ours.json").read_bytes() == Path("theirs.json").read_bytes()
    assert csdfgen.schedule(net) == csdfgen.schedule(csdfgen.convert(net))
    assert csdfgen.schedule(net, rows="whole", policy="eager").policy == "eager"


@pytest.mark.parametrize("given", ["net.onnx", "graph.json"])
def test_analyze_gives_the_commands_answers(
    net: Network, capsys: pytest.CaptureFixture[str], given: str
) -> None:
    csdfgen.save_graph(csdfgen.convert(net, rows="whole"), "graph.json")
    capsys.readouterr()
    cli("analyze", given, "--throughput", "--latency", "--buffers", "--storage", "live", "--json")
    theirs = json.loads(capsys.readouterr().out)
    subject = net if given == "net.onnx" else csdfgen.read_graph(given)
    ours = analysis.to_json(csdfgen.analyze(subject, with_latency=True, buffers="live"))
    assert {name: theirs[name] for name in ours} == json.loads(json.dumps(ours))
    assert {"throughput", "latency", "buffers"} <= ours.keys()


@pytest.mark.parametrize("check", ["outputs", "layers", None])
def test_report_as_run(net: Network, capsys: pytest.CaptureFixture[str], check: str | None) -> None:
    words = {"outputs": ["--check"], "layers": ["--check", "layers"], None: []}[check]
    cli("run", "net.onnx", "--json", *words)
    theirs = json.loads(capsys.readouterr().out)
    ours = reports.to_json(csdfgen.report(net, check=check))
    for timed in ("latency_ms", "process", "python_peak_bytes", "call_peak_bytes"):
        del theirs[timed], ours[timed]
    assert theirs == json.loads(json.dumps(ours))
    assert ours["ok"] is (None if check is None else True)


def test_report_takes_models_plans_and_arrays(net: Network) -> None:
    x = np.zeros((1, 3, 16, 12), np.float32)
    model = residual_classifier()
    subjects = (net, csdfgen.plan(net, rows=1), "net.onnx", Path("net.onnx"), model)
    for subject in subjects:
        assert csdfgen.report(subject, x).ok is True
    assert csdfgen.report(csdfgen.load(model), {"x": x}, reference=model).ok is True
    assert str(csdfgen.report(net, rows={"conv1": 2}).plan.conversion.rows) == "auto,conv1=2"


def test_a_difference_is_told_not_raised(net: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Reference.__call__

    def wrong(self: Reference, feeds: Any) -> dict[str, np.ndarray]:
        return {name: array + (name == "scores") for name, array in right(self, feeds).items()}

    monkeypatch.setattr(Reference, "__call__", wrong)
    told = csdfgen.report(net)
    assert told.ok is False and told.layers
    assert "outputs different, largest difference 1" in repr(told)


def test_a_plan_is_kept_in_the_commands_file(net: Network, plan: Plan) -> None:
    csdfgen.save_plan(plan, "ours.json")
    cli("schedule", "net.onnx", "-o", "theirs.json")
    assert Path("ours.json").read_bytes() == Path("theirs.json").read_bytes()
    for network in (net, "net.onnx"):
        again = csdfgen.read_plan("ours.json", network)
        assert (again.order, again.regions, again.figures) == (
            plan.order,
            plan.regions,
            plan.figures,
        )


def test_a_model_is_loaded_with_the_shapes_of_its_plan() -> None:
    free = residual_classifier(batch="n")
    csdfgen.save_plan(csdfgen.plan(csdfgen.load(free, batch=2)), "plan.json")
    assert csdfgen.read_plan("plan.json", free).network.batch == 2
    line = refused(PlanError, lambda: csdfgen.read_plan("plan.json", csdfgen.load(free)))
    assert line.startswith("plan.json: is for x 2x3x16x12, batch 2; 'residual' has x 1x3x16x12")


def test_buffers_are_sized_in_the_unit_that_is_asked_for() -> None:
    channel = Channel("ab", "a", "b", (1,), (1,), token_bytes=6)
    graph = CsdfGraph("two", (Actor("a", (1,)), Actor("b", (1,))), (channel,))
    sizes = {}
    for unit in ("tokens", "bytes"):
        (least,) = csdfgen.analyze(graph, buffers="live", unit=unit).buffers or ()
        sizes[unit] = least.size
    assert sizes == {"tokens": 1, "bytes": 6}


def test_a_plan_for_other_sizes_is_refused() -> None:
    free = model("g (float[1,3,h,12] x) => (y) { y = Relu(x) }")
    made = csdfgen.plan(csdfgen.load(free, shapes={"x": (1, 3, 16, 12)}))
    csdfgen.save_plan(made, "plan.json")
    other = csdfgen.load(free, shapes={"x": (1, 3, 8, 12)})
    line = refused(PlanError, lambda: csdfgen.read_plan("plan.json", other))
    assert "is for x 1x3x16x12, batch 1" in line and "has x 1x3x8x12" in line


def test_a_schedule_of_the_graph_is_a_plan_too(net: Network) -> None:
    write_schedule("order.json", csdfgen.schedule(net))
    made = csdfgen.read_plan("order.json", net)
    assert csdfgen.report(made).ok


# What a program may give, and what it is told ---------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (2, "2"),
        (np.int64(2), "2"),
        ("2,conv1=whole", "2,conv1=whole"),
        ({"conv1": 2}, "auto,conv1=2"),
        ({"conv1": 2, "*": 1}, "1,conv1=2"),
        ({"conv1": (5, 3), "pool": "whole", "*": "paper"}, "paper,conv1=5+3,pool=whole"),
        ({"conv1": "5+3"}, "auto,conv1=5+3"),
        ({"*": 3}, "3"),
        (RowSpec(1, {"conv1": 2}), "1,conv1=2"),
    ],
)
def test_rows_are_taken_in_every_form(net: Network, rows: Any, said: str) -> None:
    assert str(csdfgen.plan(net, rows=rows).conversion.rows) == said


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("x", "rows='x': 'x' is not a number of rows above 0, nor one of auto, whole, paper"),
        (0, "rows=0: '0' is not a number"),
        (True, "rows=True: True is not a number"),
        (None, "rows=None: None is not a number"),
        ([1, 2], "rows=[1, 2]: a list of 2 is not a number"),
        ({"conv1": 0}, "rows={'conv1': 0}: '0' is not a number"),
        ({"conv1": 1.5}, "rows={'conv1': 1.5}: 1.5 is not a number"),
        ({"conv1": ("whole", 2)}, "rows={'conv1': ('whole', 2)}: 'whole+2' adds up"),
        ({"*": (1, 2)}, "rows={'*': (1, 2)}: rows of each phase are for one layer"),
        ({"nobody": 1}, "rows names 'nobody', which is no layer at this fuse level"),
        (RowSpec("x"), "rows='x': 'x' is not a number"),
        (RowSpec(1, {"conv1": 0}), "rows={'conv1': 0}: '0' is not"),
    ],
)
def test_rows_that_are_none_are_one_line(net: Network, rows: Any, said: str) -> None:
    assert refused(InputError, lambda: csdfgen.plan(net, rows=rows)).startswith(said)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda net: csdfgen.plan(net, fuse="x"), "fuse='x': not one of none, fold, full"),
        (lambda net: csdfgen.plan(net, image="x"), "image='x': not one of"),
        (lambda net: csdfgen.plan(net, policy="x"), "policy='x': not one of"),
        (lambda net: csdfgen.convert(net, tokens="x"), "net.onnx: tokens='x': neither"),
        (lambda net: csdfgen.convert(net, rates="x"), "net.onnx: rates='x': neither"),
        (lambda net: csdfgen.report(net, check="x"), "check='x': not one of outputs, layers"),
        (lambda net: csdfgen.report(net, repeat=0), "repeat=0: at least 1 frame"),
        (lambda net: csdfgen.report(net, np.zeros(3)), "net.onnx: input 'x' has shape (3,)"),
        (lambda net: csdfgen.report(csdfgen.plan(net), rows=1), "rows=1 is for networks; a plan"),
        (lambda net: csdfgen.schedule(csdfgen.convert(net), rows=1), "rows=1 is for networks; a g"),
        (
            lambda net: csdfgen.analyze(csdfgen.convert(net), overlap=False),
            "overlap=False is for networks; a graph is cut already",
        ),
        (lambda net: csdfgen.save_graph(csdfgen.convert(net), "g.txt"), "g.txt: a graph is writ"),
        (lambda net: csdfgen.read_graph("g.dot"), "g.dot: a graph is read as .xml, .json"),
        (lambda net: csdfgen.read_plan("none.json", net), "none.json: cannot be read"),
    ],
)
def test_options_are_arguments(net: Network, call: Callable[[Network], object], said: str) -> None:
    line = refused(InputError, lambda: call(net))
    assert line.startswith(said) and "--" not in line


def test_the_command_line_speaks_of_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "net.onnx", "--rows", "nobody=1"]) == 1
    assert (
        "--rows names 'nobody', which is no layer at this --fuse level" in capsys.readouterr().err
    )
    onnx.save(residual_classifier(batch="n"), "free.onnx")
    assert main(["free.onnx", "--shape", "x=1x3x8"]) == 1
    assert "--shape gives 3 (1x3x8)" in capsys.readouterr().err
    line = refused(InputError, lambda: parse_rows("x"))  # what runs next in this process does not
    assert line.startswith("rows='x'")


@pytest.mark.parametrize(
    "shapes",
    [
        (1, 3, 24, 12),
        [1, 3, 24, 12],
        np.array([1, 3, 24, 12]),
        "1x3x24x12",
        "1,3,24,12",
        {"x": "1x3x24x12"},
        {"x": (np.int64(1), 3, 24, 12)},
    ],
    ids=str,
)
def test_a_shape_is_taken_in_every_form(shapes: Any) -> None:
    (tensor,) = csdfgen.load("net.onnx", shapes=shapes).inputs
    assert tensor.shape == (1, 3, 24, 12) and all(type(size) is int for size in tensor.shape)


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({"x": "1x3xfoo"}, "net.onnx: shapes={'x': '1x3xfoo'}: '1x3xfoo' is no shape; sizes such"),
        ({"x": None}, "net.onnx: shapes={'x': None}: None is no shape"),
        ((1, None, 4, 4), "net.onnx: shapes=(1, None, 4, 4): (1, None, 4, 4) is no shape"),
        ((1, 2.5, 4, 4), "net.onnx: shapes=(1, 2.5, 4, 4): "),
        (5, "net.onnx: shapes=5: 5 is no shape"),
        ((1, 3, 8), "net.onnx: input 'x': has 4 dimensions (1x3x16x12), shapes gives 3 (1x3x8)"),
        ((1, 3, 0, 8), "net.onnx: input 'x': cannot have shape 1x3x0x8"),
        ({5: (1, 3, 8, 8)}, "net.onnx: '5' is not an input; the inputs are x=1x3x16x12"),
    ],
)
def test_a_shape_that_is_none_is_one_line(shapes: Any, said: str) -> None:
    assert refused(ModelError, lambda: csdfgen.load("net.onnx", shapes=shapes)).startswith(said)


def test_one_shape_is_for_one_input() -> None:
    line = refused(ModelError, lambda: csdfgen.load(two_inputs(), shapes=(1, 2, 8, 8)))
    assert "one shape for 2 inputs; give shapes by name, the inputs are " in line


@pytest.mark.parametrize("batch", [0, "2", 1.5])
def test_a_batch_that_is_none_is_one_line(batch: Any) -> None:
    line = refused(ModelError, lambda: csdfgen.load("net.onnx", batch=batch))
    assert f"a batch of {batch!r} images is not possible" in line


# Arguments ----------------------------------------------------------------------------------------

WRONG: tuple[object, ...] = (
    None,
    b"abc",
    7,
    -1.5,
    "/nowhere/x.onnx",
    [1],
    {"a": object()},
    object(),
)


@pytest.mark.parametrize(
    "name", [one for one in FUNCTIONS if one != "serve"]
)  # which does not return
def test_a_wrong_argument_is_one_line_that_names_it(name: str, net: Network, plan: Plan) -> None:
    """Of any function, any argument, any value: it is taken, or refused."""
    function = getattr(csdfgen, name)
    signature = inspect.signature(function)
    x = {"x": np.zeros((1, 3, 16, 12), np.float32)}
    good = {"network": net, "graph": csdfgen.convert(net), "plan": plan, "path": "out.xml"}
    good |= {"model": "net.onnx", "source": "net.onnx", "inputs": x, "x": x, "requests": [1]}
    good |= {"name": "find", "function": max}
    needed = [one.name for one in signature.parameters.values() if one.default is one.empty]
    if "table" in needed:
        good["table"] = csdfgen.plan_table(net, requests=[1])
    if name == "save_plan":
        good["path"] = "out.json"
    if name.startswith("read_"):
        csdfgen.save_graph(good["graph"], "out.xml")
        good["path"] = "out.xml" if name == "read_graph" else "out.json"
        table = csdfgen.plan_table(net, requests=[1]) if "table" in name else plan
        table = csdfgen.plan_stream(MODELS["dilated"](64)) if "stream" in name else table
        csdfgen.save_plan(table, "out.json")
    assert name in refused(CsdfgenError, function) and needed[0] in refused(CsdfgenError, function)
    enough = {one: good[one] for one in needed}
    assert "nonsense" in refused(CsdfgenError, lambda: function(**enough, nonsense=1))
    for at, argument in enumerate(signature.parameters):
        values = (*WRONG, net, plan, good["graph"])
        values = (
            values
            if argument in needed
            else [
                values[(3 * at + k) % len(values)]
                for k in range(some(2, len(values) if name != "pareto" else 3))
            ]
        )
        for value in values:
            given = {**enough, argument: value}
            try:
                function(**given)
            except CsdfgenError as error:
                said = str(error)
            else:
                continue
            shown = value if isinstance(value, str) else type(value).__name__  # load reads bytes
            named = argument.rstrip("s") in said or shown in said
            assert "\n" not in said and (argument not in needed or named), (argument, value)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_names_functions_of_csdfgen(name: str) -> None:
    text = inspect.getdoc(getattr(csdfgen, name)) or ""
    assert not re.search(r"\bruntime\.(open|compile|compile_table|run)\b", text)
