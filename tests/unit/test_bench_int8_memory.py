"""The benchmark of int8 arenas: models in int8 throughout, arenas that do not depend on ranges, tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import csdfgen
from benchmarks import bench_int8_memory as bench
from benchmarks.bench_int8_memory import Row, missed, structural
from benchmarks.chains import CHAINS
from csdfgen.precision.ends import remove_end_conversions
from tests.builder import Graph
from zoo_models import ZOO


def _model() -> onnx.ModelProto:
    """Windows, an addition, a Concat, a pool, scores."""
    g = Graph()
    x = g.input("x", (1, 3, 17, 12))
    a = g.node("Relu", g.conv(x, 8))
    b = g.node("Relu", g.node("Add", g.conv(a, 8), a))
    c = g.node("Concat", g.node("MaxPool", b, kernel_shape=[2, 2], strides=[2, 2]),
               g.conv(b, 8, 2, strides=[2, 2], pads=[0, 0, 0, 0]), axis=1, channels=16)  # fmt: skip
    return g.model(g.node("GlobalAveragePool", g.conv(c, 5, kernel=1)))


def test_inputs_and_outputs_are_integers() -> None:
    network = csdfgen.load(structural(_model()))
    assert [tensor.dtype for tensor in network.inputs] == ["uint8"]
    kinds = {layer.op_type for layer in network.layers}
    assert not kinds & {"QuantizeLinear", "DequantizeLinear", "Conv", "Add", "Relu"}


def test_an_input_that_is_read_in_float_too_stays() -> None:
    model = bench.convert_to_int8(bench.prepare_model(_model()), {})
    model.graph.node.append(onnx.helper.make_node("Exp", ["x"], ["raised"]))
    kind = onnx.TensorProto.FLOAT
    model.graph.output.append(onnx.helper.make_tensor_value_info("raised", kind, (1, 3, 17, 12)))
    assert csdfgen.load(remove_end_conversions(model)[0]).inputs[0].dtype == "float32"


@pytest.mark.parametrize("goal", bench.GOALS)
def test_arenas_do_not_depend_on_ranges(goal: str) -> None:
    model = _model()
    pictures = np.random.default_rng(0).normal(2, 3, (2, 3, 17, 12)).astype(np.float32)
    arenas = [
        csdfgen.plan(csdfgen.load(one), goal=goal, backend="numpy").figures["arena"]
        for one in (
            structural(model),
            remove_end_conversions(csdfgen.quantize(model, pictures).model)[0],
        )
    ]
    assert arenas[0] == arenas[1]


def _row(name: str, format_: str, arena: int, image: str = "streamed") -> Row:
    return Row(name, format_, image, "memory", arena, 10, arena, arena, 0, 8 * arena)


def test_bars_that_are_missed_are_told() -> None:
    rows = [
        _row("mobilenet_v2", "int8", 200 * 1024 + 1, "resident"),
        _row("mobilenet_v2", "int8", 115 * 1024),
        _row("mobilenet_v2", "float32", 115 * 1024 * 3),
    ]
    found = missed({row.key: row for row in rows})
    assert len(found) == 2
    assert found[0].startswith("mobilenet_v2, resident: 204,801 bytes, at most 204,800 are allowed")
    assert found[1] == "zoo, memory: 0.333 of float, at most 0.30"
    table = bench.rival_table({row.key: row for row in rows})
    assert any(
        line.startswith("| mobilenet_v2, resident | 200.0 (0.0) | Vela, Size 353.0 (1.00): 1.76;")
        for line in table
    )


def test_rivals_are_of_networks_that_are_here() -> None:
    names = {rival.network.removesuffix(bench.RESIDUALS) for rival in bench.RIVALS}
    assert names <= {*ZOO, *CHAINS}
    barred = {(r.network, r.image): r.bar for r in bench.RIVALS if r.bar}
    assert len(barred) == 9 and barred["resnet50", "streamed"] == 360 * 1024


def test_residuals_are_added_where_blocks_keep_their_shape() -> None:
    name = "mbv2_w0.35_chain"
    plain, residual = (bench.float_model(n) for n in (name, name + bench.RESIDUALS))
    added = [node for node in residual.graph.node if node.op_type == "Add"]
    assert len(added) == 10  # of 17 blocks, as in MobileNetV2
    assert len(residual.graph.node) - len(plain.graph.node) == 10


def test_rows_go_through_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "CSV", tmp_path / "rows.csv")
    assert bench.read_rows() == {}
    rows = [_row("a", "int8", 5), _row("a", "float32", 20)]
    bench.write_rows(rows)
    assert list(bench.read_rows().values()) == rows
