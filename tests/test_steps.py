"""Networks in buffers that the analysis sized: graph to file, capacities found, order kept in a
file, executed, compared.

The way of `csdfgen MODEL -o graph`, `csdfgen analyze graph --buffers -o plan.json`, `csdfgen run
MODEL --plan plan.json --check`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.dataflow import graph_json
from csdfgen.dataflow.graph import add_serial_loops
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.phases.graphs import build_graph
from csdfgen.phases.heights import parse_rows
from csdfgen.planning.checker import check as check_plan
from csdfgen.planning.prepared import convert_network
from csdfgen.planning.saved import read_saved
from csdfgen.reading.zoo import build
from schedules.static import write_storage_plan
from schedules.storage import size_storage
from sdf3_bridge import sdf3xml
from tests.builder import reference
from tests.networks import check_touched, feeds, light, with_last_scores
from tests.planning import plan_of_saved

pytestmark = pytest.mark.networks

Target = Literal["live", "maximal"]

SMALL_ZOO = (
    "cnn5",
    "lenet5",
    "mnist",
    "ds_cnn",
    "resnet8",
    "mobilenet_v1_x0_25",
    "squeezenet1_1@64x64",
    "mobilenet_v2@64x48",
    "mobilenet_v3_small@64x64",
    "shufflenet_v2@64x64",
    "densenet121@64x64",
    "googlenet@64x64",
    "inception_v3@107x107",
    "yolov3_tiny@64x64",
    "unet@32x48",
)
"""Networks of the zoo at small sizes, all kinds of connections among them."""

DEEP = ("densenet121", "inception_v2", "resnet50", "vgg19")
"""Light networks that run at default heights alone: at one row they take minutes."""


def run_steps(
    network: Network,
    expected: dict[str, np.ndarray],
    x: dict[str, np.ndarray],
    rows: str,
    target: Target,
    folder: Path,
) -> None:
    """From network to graph file to plan file to outputs; rows as tokens in .json, elements in
    .xml.
    """
    level = "full" if target == "live" else "none"
    options = PlanOptions(str(parse_rows(rows)), level)
    conversion = convert_network(network, options)
    tokens, overlap = ("elements", True) if target == "live" else ("rows", False)
    graph = add_serial_loops(build_graph(conversion, options, tokens=tokens, overlap=overlap))
    if target == "live":
        sdf3xml.write(folder / "graph.xml", graph)
        graph = sdf3xml.read(folder / "graph.xml")
    else:
        graph_json.write_graph(folder / "graph.json", graph)
        graph = graph_json.read_graph(folder / "graph.json")
    found = size_storage(graph, target, seconds=1.0)
    write_storage_plan(folder / "plan.json", graph, found)
    saved = read_saved(folder / "plan.json")
    assert dict(saved.options) == {"rows": rows, "fuse": level, "image": "streamed"}
    plan = plan_of_saved(saved, network)
    check_plan(plan)
    got, measured = runtime.compile(plan).measure(x)
    check_touched(plan, measured.touched_bytes)
    for name, want in expected.items():
        scale = float(np.max(np.abs(want), initial=0.0))
        np.testing.assert_allclose(
            got[name], want, rtol=1e-3, atol=1e-4 + 1e-5 * scale, err_msg=name
        )


def check(model: onnx.ModelProto, tmp_path: Path, ways: tuple[tuple[str, Target], ...]) -> None:
    network = csdfgen.load(model)
    x = feeds(model)
    expected = reference(model, x)
    for rows, target in ways:
        run_steps(network, expected, x, rows, target, tmp_path)


@pytest.mark.parametrize("name", ["densenet121", "shufflenet", "squeezenet"])
def test_light_networks_run_in_sized_buffers(name: str, tmp_path: Path) -> None:
    ways: tuple[tuple[str, Target], ...] = (("1", "live"), ("auto", "maximal"))
    check(with_last_scores(light(name)), tmp_path, ways[name in DEEP :])


@pytest.mark.parametrize("name", SMALL_ZOO)
def test_networks_of_the_zoo_run_in_sized_buffers(name: str, tmp_path: Path) -> None:
    """Each both ways, at one row and at more."""
    ways: tuple[tuple[str, Target], ...] = (("1", "live"), ("whole", "maximal"))
    others: tuple[tuple[str, Target], ...] = (("1", "maximal"), ("2", "live"))
    check(build(f"zoo:{name}"), tmp_path, others if SMALL_ZOO.index(name) % 2 else ways)
