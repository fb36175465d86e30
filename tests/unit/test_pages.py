"""Pages about plans: they say what the plan says, load nothing, and no name becomes markup."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import numpy as np
import onnx
import pytest

from csdfgen import load, plan, quantize, save_plan
from csdfgen.charts.plans import footprint
from csdfgen.cli import main
from csdfgen.dataflow import graph_json
from csdfgen.pages.comparison import compare_plans, comparison_page
from csdfgen.pages.layers import layer_lines
from csdfgen.pages.report import Facts, report_page
from csdfgen.planning.plan import Plan
from runtime.resident import measure_onnxruntime_growth
from tests.graphs import ring
from tests.quantized_models import feeds_of
from tests.small_models import residual_classifier
from tests.unit.test_plan_charts import EVIL, PLANS, SVG, concatenated
from tests.unit.test_recurrent import model as recurrent

Call = Callable[..., tuple[int, str, str]]

LOADING = {"src", "href", "srcset", "action", "data", "poster", "background", "xlink:href"}
"""Attributes for which a browser asks somebody."""


class Page(HTMLParser):
    """Cells by row, texts of scripts by id, and what is wrong with a page."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.scripts: list[tuple[str | None, str]] = []
        self.code: list[str] = []
        self.text = ""
        self.feed(page.decode())
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "code":
            self.code.append("")
        elif tag == "script":
            self.scripts.append((dict(attrs).get("id"), ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            name, text = self.scripts[-1]
            self.scripts[-1] = name, text + data
            return
        self.text += data
        if self.open and self.open[-1] == "code":
            self.code[-1] += data
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data

    def row(self, name: str) -> list[str]:
        """The first row of a table that begins with a name."""
        return next(row for row in self.rows if row and row[0] == name)


def check_that_nothing_is_loaded(page: bytes) -> Page:
    """No address, no element that asks for one, no style that does, and a policy that forbids it."""
    asking = r"https?:[^\s\"']*|@import|url\(|<link|<img|<iframe|<base|fetch\(|XMLHttp|import\("
    assert not re.findall(asking, page.decode(), re.IGNORECASE)
    found = Page(page)
    for tag, attributes in found.tags:
        assert not LOADING & attributes.keys(), (tag, attributes)
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
    policies = [
        a["content"] for t, a in found.tags if a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies and "default-src 'none'" in (policies[0] or "")
    return found


@pytest.fixture(params=PLANS)
def planned(request: pytest.FixtureRequest) -> Plan:
    return PLANS[request.param]()


def test_a_report_says_what_the_plan_says(planned: Plan) -> None:
    page = check_that_nothing_is_loaded(report_page(planned, Facts("net")))
    for name, value in planned.figures.items():
        assert page.row(name)[2] == f"{value:,}"
    layers = [row for row in page.rows if len(row) == 10]
    assert len(layers) == 1 + sum(work.kind != "output" for work in planned.conversion.actors)
    for work in planned.conversion.actors:
        if work.kind == "output":
            continue
        row = next(row for row in layers if row[0] == work.name)
        assert row[2] == f"{len(work.phases):,}"
        scratch = max(planned.workspace(work.name, k)[1] for k in range(len(work.phases)))
        assert row[7] == (f"{scratch:,}" if scratch else "")
    assert page.row("together")[2] == f"{planned.figures['peak_live']:,}"


def test_a_report_says_of_how_many_images_it_is() -> None:
    page = Page(report_page(PLANS["frames"](), Facts("net")))
    assert "2 images take " in page.text and "Memory over 2 images" in page.text
    page = Page(report_page(PLANS["lenet5"](), Facts("net")))
    assert "A frame takes " in page.text and "Memory over a frame" in page.text


def test_every_chart_is_there_for_a_screen_and_for_a_telephone(planned: Plan) -> None:
    """A browser scales both to its width; the style hides one of them by the width of the window."""
    page = Page(report_page(planned, Facts("net")))
    charts = [attributes for tag, attributes in page.tags if tag == "svg"]
    widths = [(one["class"], one["viewbox"].split()[2], one["data-kind"]) for one in charts]  # type: ignore[union-attr]
    kinds = ("memory", "arena", "phases")
    assert widths == [
        (name, width, kind)
        for kind in kinds
        for name, width in (("broad", "960"), ("narrow", "380"))
    ]
    style = files("csdfgen.pages").joinpath("page.css").read_text()
    assert ".chart svg { display: block; width: 100%; height: auto; }" in style
    narrow = style[style.index("@media screen and (max-width: 760px)") :]
    assert narrow.index(".broad { display: none; }") < narrow.index(".narrow { display: block; }")


def test_a_report_says_number_formats() -> None:
    """Tensors and weights by type; together what the figures say."""
    model = residual_classifier()
    feeds = [feeds_of(model, seed) for seed in range(2)]
    made = quantize(model, feeds)
    page = Page(report_page(made.plan, Facts("net")))
    network = made.plan.network
    kinds = Counter(tensor.dtype for tensor in network.tensors.values())
    assert set(kinds) == {"float32", "uint8"}
    for kind, count in kinds.items():
        cells = page.row(kind)
        assert cells[1] == f"{count:,}"
        taken = sum(t.nbytes for t in network.tensors.values() if t.dtype == kind)
        assert cells[2] == f"{taken:,}"
    assert page.row("all")[3] == f"{made.plan.figures['parameters']:,}"
    assert (
        int(page.row("int8")[3].replace(",", "")) > 0 < int(page.row("int32")[3].replace(",", ""))
    )


def test_a_layer_with_two_outputs_holds_the_rows_of_the_longer_one() -> None:
    both = plan(load(recurrent("GRU", ("Y", "Y_h"), steps=9)), rows="whole")
    (line,) = (one for one in layer_lines(both, footprint(both)) if one.name == "recurrent")
    assert line.held_rows == 9


def test_the_script_gets_every_row(planned: Plan) -> None:
    page = Page(report_page(planned, Facts("net")))
    (text,) = (text for name, text in page.scripts if name == "footprint")
    data = json.loads(text)
    _, row, end, low, high, first, last = map(np.array, data["columns"])
    alive = np.zeros(data["firings"], np.int64)
    for k in range(len(row)):
        alive[first[k] : last[k]] += high[k] - low[k]
    found = footprint(planned)
    assert alive.tolist() == found.alive.tolist()
    assert int((end - row).sum()) == len(found.row) and data["left_out"] == 0
    order = [layer for layer, count in data["runs"] for _ in range(count)]
    names = [data["layers"][layer] for layer in order]
    assert names == [actor for actor, _ in planned.order]


@pytest.mark.skipif(shutil.which("node") is None, reason="node reads the script; there is none")
def test_the_script_is_one(tmp_path: Path) -> None:
    page = Page(report_page(PLANS["residual"](), Facts("net")))
    (text,) = (text for name, text in page.scripts if name is None)
    (tmp_path / "page.js").write_text(text)
    subprocess.run(["node", "--check", tmp_path / "page.js"], check=True)


def test_names_do_not_become_markup() -> None:
    planned = PLANS["concatenated"]()
    assert EVIL in planned.network.layers[0].name
    page = report_page(planned, Facts(EVIL, [(EVIL, EVIL)], [EVIL]))
    found = check_that_nothing_is_loaded(page)
    assert len([tag for tag, _ in found.tags if tag == "script"]) == 2, "data, and the page's own"
    assert EVIL.encode() not in page
    assert EVIL in found.text
    both = comparison_page(compare_plans([EVIL, "b"], [planned, PLANS["whole"]()]))
    assert EVIL.encode() not in both and EVIL in check_that_nothing_is_loaded(both).text


def test_a_bound_and_its_proof_are_told() -> None:
    planned = PLANS["residual"]()
    peak = planned.figures["peak_live"]
    for bound, said in (
        (peak, "this one needs no more"),
        (peak // 2, "this one needs 2 times that"),
    ):
        figures = {**planned.figures, "lower_bound": bound}
        page = Page(report_page(replace(planned, figures=figures), Facts("net")))
        assert said in page.text
        assert page.row("lower_bound")[2] == f"{bound:,}"
    planned = replace(planned, figures={**planned.figures, "lower_bound": 0})
    assert "without a proven bound" in Page(report_page(planned, Facts("net"))).text


@pytest.mark.networks
def test_the_page_of_a_large_network_stays_small() -> None:
    planned = plan(load("zoo:densenet121"))
    page = report_page(planned, Facts("densenet121"))
    assert len(page) < 2_000_000
    check_that_nothing_is_loaded(page)


# Commands -----------------------------------------------------------------------------------------


@pytest.fixture
def csdfgen(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Call:
    """The command, in a folder with models: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    onnx.save(residual_classifier(), "net.onnx")
    onnx.save(concatenated(), "evil.onnx")

    def call(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(arguments)
        return code, *capfd.readouterr()

    return call


def refused(result: tuple[int, str, str]) -> str:
    """The one line that a refused command leaves on stderr."""
    code, out, err = result
    assert code == 1 and not out and len(err.splitlines()) == 1, (code, out, err)
    return err


def test_report_measures_and_compares(csdfgen: Call) -> None:
    code, out, err = csdfgen(
        "report",
        "net.onnx",
        "--rows",
        "1",
        "-o",
        "r.html",
        "--device",
        "cortex-m7",
        "--repeat",
        "2",
    )
    assert (code, err) == (0, "") and out.startswith("r.html: net, arena of ")
    page = check_that_nothing_is_loaded(Path("r.html").read_bytes())
    made = plan(load("net.onnx"), rows=1)
    assert page.row("arena")[2] == f"{made.planned_bytes:,}"
    assert "measured, as planned" in page.text and "equal" in page.text
    assert page.row("time of a frame, one thread")[1].endswith(" ms")
    assert any(row[0] == "input:x" and row[-1].endswith(" ms") for row in page.rows if row)
    assert (
        page.code[0] == "csdfgen report net.onnx --rows 1 --device cortex-m7 --repeat 2 -o r.html"
    )
    assert page.code[2] == "csdfgen run net.onnx --rows 1 --check layers"
    assert not [path for path in Path().iterdir() if path.name.endswith(".part")]


def test_figures_of_a_page_as_json(csdfgen: Call) -> None:
    for more in ([], ["--no-measure"]):
        _, out, _ = csdfgen("report", "net.onnx", "--rows", "1", "--json", *more)
        values = json.loads(out)
        assert values["output"] == "report.html" and Path("report.html").exists()
        assert values["planned_bytes"] == plan(load("net.onnx"), rows=1).planned_bytes
        total = values["account"]["total"]
        assert values["planned_bytes"] < total
        assert f"{total:,} bytes in all" in Path("report.html").read_text()
        assert (values["measured"] is None) == bool(more)
        assert more or (values["measured"]["equal"] and values["measured"]["latency_ms"] > 0)


def test_the_commands_on_the_page_work(csdfgen: Call) -> None:
    assert csdfgen("report", "net.onnx", "--policy", "eager", "--no-measure")[0] == 0
    page = Page(Path("report.html").read_bytes())
    commands = page.code
    assert len(commands) == 3 and "-o plan.json" in commands[1]
    for command in commands:
        assert csdfgen(*shlex.split(command)[1:])[0] == 0, command


def test_report_of_a_plan_is_that_of_its_model(csdfgen: Call) -> None:
    made = plan(load("net.onnx"), rows=2)
    Path("sub").mkdir()
    save_plan(made, "sub/plan.json")
    assert csdfgen("report", "sub/plan.json", "--no-measure", "-o", "a.html")[0] == 0
    assert csdfgen("report", "net.onnx", "--rows", "2", "--no-measure", "-o", "b.html")[0] == 0
    a, b = (Page(Path(name).read_bytes()) for name in ("a.html", "b.html"))
    assert a.rows == b.rows and a.scripts == b.scripts
    Path("net.onnx").rename("sub/other.onnx")
    line = refused(csdfgen("report", "sub/plan.json", "--no-measure"))
    assert (
        "made for 'net.onnx', which is neither in its folder nor in this one; name it with --model"
        in line
    )
    assert csdfgen("report", "sub/plan.json", "--no-measure", "--model", "sub/other.onnx")[0] == 0


def test_what_report_refuses(csdfgen: Call) -> None:
    Path("made.json").write_text('{"format": "something"}')
    Path("text.json").write_text("hello")
    graph_json.write_graph("graph.json", ring())
    save_plan(plan(load("net.onnx")), "plan.json")
    assert "a page is written as .html" in refused(csdfgen("report", "net.onnx", "-o", "x.svg"))
    assert "cannot be written" in refused(csdfgen("report", "net.onnx", "-o", "nowhere/x.html"))
    assert "'format' is 'something'" in refused(csdfgen("report", "made.json"))
    assert "is not JSON" in refused(csdfgen("report", "text.json"))
    assert "csdfgen-plan" in refused(csdfgen("report", "graph.json"))
    assert "is a graph" in refused(csdfgen("report", "graph.xml"))
    assert "cannot be read" in refused(csdfgen("report", "absent.json"))
    assert "leave --rows out" in refused(csdfgen("report", "plan.json", "--rows", "2"))
    assert "absent.onnx" in refused(csdfgen("report", "absent.onnx"))
    assert "not a known device" in refused(csdfgen("report", "net.onnx", "--device", "abacus"))
    assert not Path("report.html").exists()


def test_schedule_draws_charts(csdfgen: Call) -> None:
    made = plan(load("net.onnx"), rows=1)
    for kind in ("memory", "arena", "phases"):
        code, out, err = csdfgen(
            "schedule", "net.onnx", "--rows", "1", "--chart", kind, "-o", f"{kind}.svg"
        )
        assert (code, err) == (0, "") and out.startswith(
            f"{kind}.svg: {kind}, {len(made.order)} firings"
        )
        assert ET.parse(f"{kind}.svg").getroot().tag == f"{SVG}svg"


def test_what_charts_refuse(csdfgen: Call) -> None:
    graph_json.write_graph("graph.json", ring())
    chart = ("schedule", "net.onnx", "--chart")
    assert "--chart foo is not one of memory, arena, phases" in refused(
        csdfgen(*chart, "foo", "-o", "x.svg")
    )
    assert "with -o FILE.svg" in refused(csdfgen(*chart, "memory"))
    assert "a chart is written as .svg" in refused(csdfgen(*chart, "memory", "-o", "x.json"))
    assert "cannot be written" in refused(csdfgen(*chart, "arena", "-o", "nowhere/x.svg"))
    assert "--chart is for models" in refused(
        csdfgen("schedule", "graph.json", "--chart", "arena", "-o", "x.svg")
    )


def test_compare_tells_what_differs(csdfgen: Call) -> None:
    a, b = plan(load("net.onnx")), plan(load("net.onnx"), rows=1, policy="eager")
    save_plan(a, "a.json")
    code, out, err = csdfgen("compare", "a.json", "net.onnx+rows=1+policy=eager", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    for name, value in a.figures.items():
        assert (
            found["figures"][name]["a"] == value and found["figures"][name]["b"] == b.figures[name]
        )
    assert (found["a"]["order"], found["b"]["order"]) == (a.policy, "eager")
    assert not found["same_order"] and found["layers"]
    code, out, _ = csdfgen("compare", "a.json", "net.onnx+rows=1+policy=eager")
    assert code == 0 and f"{a.planned_bytes:,}" in out and f"{b.planned_bytes:,}" in out
    for layer in found["layers"]:
        assert f"{layer['phases']['a']} > {layer['phases']['b']}" in out
    assert csdfgen("compare", "a.json", "net.onnx+rows=1+policy=eager", "-o", "c.html")[0] == 0
    page = check_that_nothing_is_loaded(Path("c.html").read_bytes())
    assert page.row("arena")[2:4] == [f"{a.planned_bytes:,}", f"{b.planned_bytes:,}"]
    changed = [tag for tag, attributes in page.tags if attributes.get("class") == "changed"]
    assert len(changed) >= len(found["layers"])


def test_compare_of_the_same(csdfgen: Call) -> None:
    code, out, _ = csdfgen("compare", "net.onnx", "net.onnx")
    assert code == 0 and "the same phases in the same order; 0 of " in out
    found = json.loads(csdfgen("compare", "net.onnx", "evil.onnx", "--json")[1])
    assert found["layers"], "layers that only one network has differ"


def test_what_compare_refuses(csdfgen: Call) -> None:
    assert "'+height=' is no option" in refused(csdfgen("compare", "net.onnx", "net.onnx+height=1"))
    assert "is given twice" in refused(csdfgen("compare", "net.onnx", "net.onnx+rows=1+rows=2"))
    assert "+policy=lazy is not one of" in refused(
        csdfgen("compare", "net.onnx", "net.onnx+policy=lazy")
    )
    assert "NAME=SIZE" in refused(csdfgen("compare", "net.onnx", "net.onnx+shape=x"))
    free = residual_classifier(batch="N")
    free.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "H"
    onnx.save(free, "free.onnx")
    assert "; set them with +shape=x=1x" in refused(csdfgen("compare", "free.onnx", "net.onnx"))
    assert "'+batch=0'" in refused(csdfgen("compare", "net.onnx", "net.onnx+batch=0"))
    assert "fuse" in refused(csdfgen("compare", "net.onnx", "net.onnx+fuse=all"))
    assert "a page is written as .html" in refused(
        csdfgen("compare", "net.onnx", "net.onnx", "-o", "x.txt")
    )


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux tells it")
def test_onnxruntime_grows_by_about_its_tensors(tmp_path: Path) -> None:
    """At least two tensors that are alive together, at most all that there are, twice."""
    network = load("zoo:squeezenet1_1@128x128")
    inputs = {tensor.name: network.whole_shape(tensor) for tensor in network.inputs}
    grown = measure_onnxruntime_growth("zoo:squeezenet1_1@128x128", inputs, 1, {})
    figures = plan(network).figures
    if grown is None:
        pytest.skip("the system does not let a process look at itself")
    assert figures["whole_layer_live"] / 2 <= grown <= 2 * figures["sum_of_tensors"]
