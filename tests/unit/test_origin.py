"""A graph that was made from a network says how, in every file of ours; what says it wrongly is
refused with one line.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import csdfgen
from csdfgen.dataflow import graph_json
from csdfgen.dataflow.graph import CsdfGraph, add_serial_loops
from csdfgen.dataflow.origin import Origin, from_text, to_text
from csdfgen.errors import CsdfgenError, GraphError, ScheduleError
from csdfgen.model.options import OPTIONS, PlanOptions
from csdfgen.phases.graphs import build_graph, digest_conversion
from csdfgen.phases.heights import parse_rows
from csdfgen.planning.prepared import convert_network
from schedules import demand_driven, schedule
from sdf3_bridge import sdf3xml
from tests.graphs import SEEDED
from tests.small_models import residual_classifier, two_inputs

NAMES = st.text(min_size=1)
ORIGINS = st.builds(
    Origin,
    model=NAMES,
    batch=st.integers(1, 2**40),
    inputs=st.dictionaries(NAMES, st.lists(st.integers(0, 2**40), max_size=5).map(tuple)).map(
        lambda d: tuple(d.items())
    ),
    plan_options=st.builds(
        PlanOptions,
        rows=NAMES,
        fuse=st.sampled_from(OPTIONS["fuse"].kind.words),
        image=st.sampled_from(OPTIONS["image"].kind.words),
        policy=st.sampled_from(OPTIONS["policy"].kind.words),
        frames=st.integers(1, 2**30),
    ),
    tokens=NAMES,
    rates=NAMES,
    digest=st.text("0123456789abcdef", max_size=16),
)


def made(
    rows: int | str = 2, fuse: str = "full", image: str = "streamed", model: Any = None
) -> CsdfGraph:
    network = csdfgen.load(model or residual_classifier())
    options = PlanOptions(str(parse_rows(rows)), fuse, image)
    return build_graph(convert_network(network, options), options)


@given(ORIGINS)
@SEEDED
def test_any_origin_survives_its_text(origin: Origin) -> None:
    text = to_text(origin)
    assert text.isascii() and "\n" not in text
    assert from_text(text) == origin


@given(ORIGINS)
@SEEDED
def test_any_origin_survives_the_files(origin: Origin) -> None:
    graph = CsdfGraph(made().name, made().actors, made().channels, origin)
    assert sdf3xml.from_xml(sdf3xml.to_xml(graph)).origin == origin
    assert graph_json.from_json(json.loads(json.dumps(graph_json.to_json(graph)))) == graph
    assert (
        schedule.from_json(json.loads(json.dumps(schedule.to_json(demand_driven(graph))))).origin
        == origin
    )


def test_it_says_how_the_graph_was_made(tmp_path: Path) -> None:
    graph = made("1,conv2=whole", "fold", "resident")
    assert graph.origin is not None
    assert graph.origin.inputs == (("x", (1, 3, 16, 12)),)
    assert graph.origin.options == {
        "rows": "1,conv2=whole",
        "fuse": "fold",
        "image": "resident",
        "policy": "best",
        "frames": 1,
        "tokens": "elements",
        "rates": "exact",
    }
    assert add_serial_loops(graph).origin == graph.origin
    sdf3xml.write(tmp_path / "graph.xml", graph)
    graph_json.write_graph(tmp_path / "graph.json", sdf3xml.read(tmp_path / "graph.xml"))
    assert graph_json.read_graph(tmp_path / "graph.json").origin == graph.origin


def test_the_digest_is_that_of_the_phases() -> None:
    def digest(model: Any = None, rows: int = 2, image: str = "streamed") -> str:
        options = PlanOptions(str(rows), image=image)
        return digest_conversion(
            convert_network(csdfgen.load(model or residual_classifier()), options)
        )

    model = residual_classifier()
    for weight in model.graph.initializer:
        if weight.data_type == 1 and weight.raw_data:
            weight.raw_data = bytes(len(weight.raw_data))
    assert digest() == digest() == digest(model)
    others = {digest(rows=1), digest(image="resident"), digest(two_inputs())}
    assert len(others - {digest()}) == 3


def _set(path: str, value: Any) -> Any:
    def edit(values: dict[str, Any]) -> None:
        *outer, last = path.split(".")
        for key in outer:
            values = values[key]
        values[last] = value

    return edit


WRONG = [
    (_set("origin", "net.onnx"), "an object is needed"),
    (lambda values: values["origin"].pop("model"), "has no 'model'"),
    (_set("origin.model", 7), "a string is needed"),
    (_set("origin.batch", 0), "a whole number from 1"),
    (_set("origin.batch", "1"), "a whole number from 1"),
    (_set("origin.inputs.x", [1, -3]), "list of at most 32 sizes"),
    (_set("origin.inputs.x", [1, "3"]), "list of at most 32 sizes"),
    (_set("origin.inputs.x", [1] * 1000), "list of at most 32 sizes"),
    (lambda values: values["origin"].pop("options"), "has no 'options'"),
    (_set("origin.options.rows", 1), "a string is needed"),
    (lambda values: values["origin"]["options"].pop("fuse"), "has no 'fuse'"),
    (_set("origin.digest", "0" * 10**6), "at most 64 are read"),
]


@pytest.mark.parametrize(("edit", "said"), WRONG)
def test_a_wrong_origin_is_refused_with_one_line(edit: Any, said: str) -> None:
    graph = made()
    assert graph.origin is not None
    for to_json, from_json, error in (
        (lambda: graph_json.to_json(graph), graph_json.from_json, GraphError),
        (lambda: schedule.to_json(demand_driven(graph)), schedule.from_json, ScheduleError),
    ):
        values = copy.deepcopy(to_json())
        edit(values)
        with pytest.raises(error, match=said) as caught:
            from_json(values, "file.json")
        assert str(caught.value).startswith("file.json: origin") and "\n" not in str(caught.value)
    values = copy.deepcopy(graph_json.to_json(graph))
    edit(values)
    attribute = json.dumps(values["origin"]).replace("&", "&amp;").replace("'", "&apos;")
    right = sdf3xml.to_xml(graph).decode()
    text = right.replace(to_text(graph.origin), attribute)
    assert text != right
    with pytest.raises(GraphError, match=said) as caught:
        sdf3xml.from_xml(text.encode(), "graph.xml")
    assert str(caught.value).startswith("graph.xml:4: <csdf>") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"model": "a", "model": "b"}', "NaN", "[" * 10**5]
)
def test_an_attribute_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(CsdfgenError) as caught:
        from_text(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["3/4/5", "-1", "1/0", "1.5", "", "nan", "1" * 2000])
def test_a_throughput_that_is_none_is_refused(text: str) -> None:
    values = {**schedule.to_json(demand_driven(made())), "throughput": text}
    with pytest.raises(ScheduleError, match="a fraction such as"):
        schedule.from_json(values, "file.json")
