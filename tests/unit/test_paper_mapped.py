"""Networks on GPU and CPUs of a TX2, by tables of the form that its authors published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from csdfgen.errors import InputError
from csdfgen.goals.throughput import graph_period
from csdfgen.paper.mapped import PROCESSORS, build_parts_graph, read_search, reproduce
from tests.command import Call, refused

GRAPH = {
    "tasks": ["l_0_1", "l_2", "l_3", "l_10"],
    "tasks_reverse_adjacent_list": [[], [0], [0], [1, 2]],
    "tasks_out_comm_cost": [1000, 500, 500, 10],
    "jobs_per_task": [["conv1", "activation2"], ["conv10"], ["conv3"], ["Concat5"]],
}
TIMES = {
    "layers": ["conv1_activation2", "conv3 || conv10", "(Unnamed ITensor* 1) copy", "concat5"],
    "GPU": [4.0, 2.0, 1.0, 0.5],
    "large_CPU": [30.0, 5.0, 5.0, 1.0],
    "small_CPU": [60.0, 10.0, 10.0, 0.8],
}


def folder(place: Path, graph: object = GRAPH, times: object = TIMES) -> Path:
    for name in ("resnet18v1", "mnist"):
        (place / name).mkdir()
        (place / name / "task_graph.json").write_text(json.dumps(graph))
        (place / name / "eval.json").write_text(json.dumps(times))
    return place


def test_a_row_is_the_time_of_its_first_task() -> None:
    """conv10 is none of conv1's, a copy belongs to what is in front of it, and case does not matter."""
    search = read_search(GRAPH, TIMES)
    gpu, large, *_ = search.times.seconds
    assert gpu == pytest.approx((4e-3, 3e-3, 0, 0.5e-3)) and large[0] == pytest.approx(0.03)
    assert search.reads[3] == [(1, "1", 2000), (2, "2", 2000)]


def test_the_period_of_the_graph_is_that_of_the_busiest_processor(tmp_path: Path) -> None:
    search = read_search(GRAPH, TIMES)
    found = search.find()
    assert found.seconds == pytest.approx(5e-3, rel=1e-3) and found.mapping["l_2"] != 0
    for chosen in ((0, 0, 0, 0), (0, 1, 0, 2), (0, 1, 2, 0), (3, 0, 3, 0)):
        period = graph_period(build_parts_graph(search, chosen))
        assert period == pytest.approx(search.predict(chosen), rel=1e-4), chosen
    ((name, cells),), left = reproduce(folder(tmp_path), lambda one: None)[0].items(), ()
    value = {(one.row, one.column): one for one in cells}
    assert name == "TX2" and not left and set(PROCESSORS) <= {column for _, column in value}
    assert value["resnet18v1", "GPU"].ours == pytest.approx(1 / 7.5e-3)
    assert value["resnet18v1", "GPU"].printed == 46 and value["mnist", "GPU"].printed is None
    gain = value["resnet18v1", "gain"]
    assert gain.ours == pytest.approx(100 * (7.5 / 5 - 1), rel=1e-2)
    assert value["mean", "gain"].ours == gain.ours


def test_other_files_are_refused(call: Call, tmp_path: Path) -> None:
    assert "high_throughput_cnns" in call("reproduce", "tx2").out
    command = "reproduce", "tx2", "--tables"
    assert "no folder has task_graph.json" in refused(call(*command, str(tmp_path)))
    folder(tmp_path, times={**TIMES, "large_CPU": [1.0]})
    assert "no times of tasks" in refused(call(*command, str(tmp_path)))
    with pytest.raises(InputError, match="no times of tasks"):
        reproduce(tmp_path, lambda one: None)
