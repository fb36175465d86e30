"""Whatever the network, its slabs and its capacities: what the analysis sizes runs, in buffers
within the capacities.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st

import csdfgen
import runtime
from csdfgen.dataflow.graph import add_serial_loops
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.phases.graphs import build_graph
from csdfgen.phases.heights import parse_rows
from csdfgen.planning.capacities import check_channels, row_limits
from csdfgen.planning.checker import check as check_plan
from csdfgen.planning.prepared import convert_network
from csdfgen.rewriting.fuse import fuse
from schedules import SCHEDULERS, Schedule
from schedules.static import schedule_distribution
from schedules.storage import size_storage
from tests.builder import reference
from tests.networks import check_touched, feeds
from tests.planning import plan_from_schedule
from tests.random_networks import models, row_choices

PARTS, NETWORKS_A_PART = 4, 5


def schedules_of(
    network: Network, rows: str, level: str, image: str, tokens: str, overlap: bool
) -> list[Schedule]:
    """Orders with capacities of different kinds: of least storage, for the highest throughput, by
    our own policies.
    """
    options = PlanOptions(str(parse_rows(rows)), level, image)
    conversion = convert_network(network, options)
    graph = add_serial_loops(build_graph(conversion, options, tokens=tokens, overlap=overlap))
    sized = [
        schedule_distribution(graph, size_storage(graph, target, seconds=0.2))
        for target in ("live", "maximal")
    ]
    return [*sized, *(make(graph, 1) for make in SCHEDULERS.values())]


def check(model: onnx.ModelProto, network: Network, schedule: Schedule) -> None:
    plan = plan_from_schedule(network, schedule)
    check_plan(plan)
    rooms = check_channels(plan.conversion, schedule)
    limits = row_limits(plan.conversion, plan.sharing, rooms)
    for buffer in plan.rolling:
        held = plan.regions[buffer.name].capacity
        assert held <= limits[buffer.name] <= buffer.rows, buffer.name
    expected = reference(model, feeds(model))
    got, measured = runtime.compile(plan).measure(feeds(model))
    check_touched(plan, measured.touched_bytes)
    for name, want in expected.items():
        scale = float(np.max(np.abs(want), initial=0.0))
        np.testing.assert_allclose(
            got[name], want, rtol=1e-3, atol=1e-4 + 1e-5 * scale, err_msg=name
        )


@pytest.mark.networks
@pytest.mark.parametrize("part", range(PARTS))
def test_capacities_run_in_the_executor(part: int) -> None:
    @seed(part)
    @settings(
        max_examples=NETWORKS_A_PART,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(models(), st.data())
    def run(model: onnx.ModelProto, data: st.DataObject) -> None:
        level = data.draw(st.sampled_from(("none", "fold", "full")))
        network = csdfgen.load(model)
        layers = [layer.name for layer in fuse(network, level).layers]
        rows = row_choices(data.draw, layers)
        image = data.draw(st.sampled_from(("streamed", "resident")))
        tokens = data.draw(st.sampled_from(("elements", "rows")))
        overlap = data.draw(st.booleans())
        note(
            f"--rows {rows} --fuse {level} --image {image} --tokens {tokens}, overlap loops: {overlap}"
        )
        for schedule in schedules_of(network, rows, level, image, tokens, overlap):
            note(f"order {schedule.policy}")
            check(model, network, schedule)

    run()
