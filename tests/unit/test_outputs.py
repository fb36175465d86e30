"""Outputs once: rows go to the caller's arrays as they are made, are handed on and not stored, or lie
in the arena until the next frame.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import csdfgen
import runtime
from csdfgen.errors import CapacityExceededError, InputError, PlanError
from csdfgen.model.network import Network
from csdfgen.pages.measured import measure_frame
from csdfgen.planning.checker import check
from csdfgen.planning.plan import Plan
from csdfgen.planning.plan_file import from_json, to_json
from runtime.bound import BoundProgram
from runtime.report import measure
from runtime.verify import _Rows, check_outputs, check_rows
from tests.builder import Graph
from tests.models import onnxruntime_outputs
from tests.planning import plan_from_schedule, to_plan
from tests.small_models import residual_classifier

Rows = list[tuple[str, int, int, int, np.ndarray]]

SIZE = 32


def several() -> onnx.ModelProto:
    """Heads of a detector at two strides; one output is read further."""
    g = Graph()
    a = g.node("Relu", g.conv(g.input("x", (1, 3, SIZE, SIZE)), 4, strides=[2, 2]))
    b = g.node("Relu", g.conv(a, 8, strides=[2, 2]))
    return g.model(g.node("Sigmoid", g.conv(b, 1, 1)), g.conv(b, 10, 1), a, g.conv(a, 2, 1))


def in_pieces() -> onnx.ModelProto:
    """An output whose rows lie in two buffers: computed in place of a Concat's result."""
    g = Graph()
    x = g.input("x", (1, 3, SIZE, SIZE))
    both = g.node("Concat", g.conv(x, 4), g.conv(x, 2), channels=6, axis=1)
    return g.model(g.node("Sigmoid", both))


def joined() -> onnx.ModelProto:
    """Outputs of which one is a part of the other: Concat and its operands, and a sum in place."""
    g = Graph()
    x = g.input("x", (1, 3, SIZE, SIZE))
    a, b = g.conv(x, 2), g.node("Relu", g.conv(x, 3))
    c = g.node("Concat", a, b, axis=1)
    return g.model(c, a, b, g.node("Add", c, c))


def views() -> onnx.ModelProto:
    """Outputs that are views: of the input, of a layer, of each other."""
    g = Graph()
    x = g.input("x", (1, 4, SIZE, SIZE))
    a = g.conv(x, 4)
    left, right = "left", "right"
    g.nodes.append(helper.make_node("Split", [a], [left, right], axis=1))
    return g.model(g.node("Identity", x), left, right, g.node("Identity", left), a)


def rowless() -> onnx.ModelProto:
    """A vector without rows, scores that are summed row by row, and a map that is turned round."""
    g = Graph()
    a = g.node("Relu", g.conv(g.input("x", (1, 3, SIZE, SIZE)), 4))
    mean = g.node("GlobalAveragePool", a)
    return g.model(
        mean, g.node("Flatten", mean), g.node("ReduceSum", a, keepdims=0),
        g.node("Transpose", a, perm=[0, 3, 1, 2]),
    )  # fmt: skip


def half() -> onnx.ModelProto:
    g = Graph()
    x = g.node("Tanh", g.input("x", (1, 6, SIZE, SIZE), dtype="float16"))
    return g.model(x, g.node("GlobalAveragePool", x))


def of(nodes: list[onnx.NodeProto], **outputs: tuple[int, list[int]]) -> onnx.ModelProto:
    """A model of float x 1x2xSIZEx5, and outputs by name as (type, shape)."""
    ends = [
        helper.make_tensor_value_info(name, *found)
        for name, found in {"x": (TensorProto.FLOAT, [1, 2, SIZE, 5]), **outputs}.items()
    ]
    made = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def integers() -> onnx.ModelProto:
    """int8 and int64 rows."""
    return of(
        [
            helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT8),
            helper.make_node("Cast", ["x"], ["z"], to=TensorProto.INT64),
        ],
        y=(TensorProto.INT8, [1, 2, SIZE, 5]),
        z=(TensorProto.INT64, [1, 2, SIZE, 5]),
    )


def constant() -> onnx.ModelProto:
    """An output that no image reaches."""
    return of(
        [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Shape", ["x"], ["z"])],
        y=(TensorProto.FLOAT, [1, 2, SIZE, 5]),
        z=(TensorProto.INT64, [4]),
    )


MODELS = [several, joined, in_pieces, views, rowless, half, integers, constant]


def image(network: Network, seed: int = 0) -> np.ndarray:
    (x,) = network.inputs
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, network.whole_shape(x)).astype(x.dtype)


def streamed(plan: Plan, x: np.ndarray) -> tuple[dict[str, np.ndarray], Rows]:
    """The outputs put together from the rows that are handed on, and the calls."""
    network, calls = plan.network, []
    axes = {o.name: None if o.tensor is None else o.tensor.row_axis for o in network.outputs}
    images = {o.name: network.batch if o.tensor is not None else 1 for o in network.outputs}
    found: dict[str, list[list[np.ndarray]]] = {n: [[] for _ in range(images[n])] for n in axes}

    def take(name: str, number: int, start: int, stop: int, rows: np.ndarray) -> None:
        assert not rows.flags.writeable
        parts = found[name][number]
        axis = axes[name]
        assert stop - start == (1 if axis is None else rows.shape[axis])
        done = 0 if axis is None else sum(part.shape[axis] for part in parts)
        assert start == done, "rows come in turn"
        parts.append(rows.copy())
        calls.append((name, number, start, stop, parts[-1]))

    assert runtime.run(plan, x, on_rows=take) == {}
    return {
        name: np.concatenate([_together(parts, axes[name]) for parts in each])
        if network.batch > 1 and images[name] > 1
        else _together(each[0], axes[name])
        for name, each in found.items()
    }, calls


def _together(parts: list[np.ndarray], axis: int | None) -> np.ndarray:
    if axis is not None:
        return np.concatenate(parts, axis)
    (one,) = parts
    return one


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("rows", [1, 3, "auto", "whole"])
@pytest.mark.parametrize("level", ["none", "full"])
def test_all_are_right(make: Callable[[], onnx.ModelProto], rows: int | str, level: str) -> None:
    proto = make()
    network = csdfgen.load(proto)
    x = image(network) * np.array(100 if make is integers else 1, np.float32)
    x = x.astype(network.inputs[0].dtype)
    want = onnxruntime_outputs(proto, {network.inputs[0].name: x})
    plan = csdfgen.plan(network, rows=rows, fuse=level, result="stored")
    program = runtime.compile(plan)
    stored, measured = program.measure(x)
    given = {name: np.zeros_like(value) for name, value in stored.items()}
    assert program(x, out=given).keys() == stored.keys()
    handed, _ = streamed(plan, x)
    assert stored.keys() == handed.keys() == want.keys()
    rtol, atol = (1e-2, 1e-2) if make is half else (1e-4, 1e-5)
    for name, theirs in want.items():
        assert stored[name].dtype == theirs.dtype and stored[name].shape == theirs.shape
        np.testing.assert_allclose(stored[name], theirs, rtol=rtol, atol=atol)
        assert np.array_equal(given[name], stored[name])
        assert np.array_equal(handed[name], stored[name])
    assert measured.touched_bytes == plan.planned_bytes
    assert plan.figures["outputs"] == sum(value.nbytes for value in stored.values())


@pytest.mark.parametrize("frames", [1, 2, 4])
@pytest.mark.parametrize("rows", [1, "whole"])
def test_every_image_of_a_batch_is_handed_on(frames: int, rows: int | str) -> None:
    g = Graph()
    a = g.node("Relu", g.conv(g.input("x", (4, 3, 9, 7)), 4))
    network = csdfgen.load(g.model(a, g.node("GlobalAveragePool", a), g.conv(a, 2, 1)))
    x = image(network)
    want = runtime.run(csdfgen.plan(network), x)
    plan = csdfgen.plan(network, rows=rows, frames=frames, policy="layers")
    handed, calls = streamed(plan, x)
    for name, value in runtime.run(plan, x).items():
        np.testing.assert_allclose(value, want[name], rtol=1e-5, atol=1e-6)
        assert np.array_equal(handed[name], value)
    assert {number for _, number, *_ in calls} == {0, 1, 2, 3}
    assert plan.figures["outputs"] == sum(value.nbytes for value in want.values())


def test_images_that_are_computed_together_are_handed_on_one_by_one() -> None:
    g = Graph()
    network = csdfgen.load(g.model(g.node("Relu", g.input("x", (4, 3, 5, 7)))))
    x = image(network)
    plan = csdfgen.plan(network, frames=4, batches=4, result="streamed", backend="numpy")
    handed, calls = streamed(plan, x)
    assert all(np.array_equal(one, np.maximum(x, 0)) for one in handed.values())
    assert [number for _, number, *_ in calls] == [0, 1, 2, 3]


def large() -> Network:
    g = Graph()
    a = g.node("Relu", g.conv(g.input("x", (1, 3, 128, 128)), 8))
    return csdfgen.load(g.model(g.conv(a, 16, 1), g.node("Sigmoid", g.conv(a, 4, 1))))


def test_no_row_of_an_output_stays_in_the_arena() -> None:
    """Of 20 channels a row each at most, where 128 rows were."""
    plan = csdfgen.plan(large(), rows=1, result="stored")
    outputs = 20 * 128 * 128 * 4
    assert plan.figures["outputs"] == outputs
    assert plan.figures["peak_live"] <= plan.planned_bytes < outputs / 8
    held = {b.name: plan.regions[b.name].capacity for b in plan.rolling}
    for output in plan.network.outputs:
        assert output.tensor is not None
        assert held[plan.sharing.places[output.tensor.name].buffer] == 1


def test_a_frame_allocates_its_outputs_and_nothing_else() -> None:
    plan = csdfgen.plan(large(), rows=1, result="stored")
    program, outputs = runtime.compile(plan), plan.figures["outputs"]
    x = image(plan.network)
    program(x)
    fresh, measured = program.measure(x)
    assert measured.python_peak_bytes < 32768
    assert outputs <= measured.call_peak_bytes < outputs + 65536
    _, given = program.measure(x, out={name: value.copy() for name, value in fresh.items()})
    assert given.call_peak_bytes < 65536
    _, handed = program.measure(x, on_rows=lambda *rows: None)
    assert handed.call_peak_bytes < 65536


def test_arrays_in_any_order_in_memory_are_filled() -> None:
    plan = csdfgen.plan(large(), rows=2)
    x = image(plan.network)
    program = runtime.compile(plan)
    want = program(x)
    for name, value in program(x, out={n: np.asfortranarray(v) for n, v in want.items()}).items():
        assert value.flags.f_contiguous and np.array_equal(value, want[name])


def test_what_the_function_raises_ends_the_frame_and_the_next_one_is_whole() -> None:
    plan = csdfgen.plan(large(), rows=1, result="stored")
    program, x = runtime.compile(plan), image(plan.network)
    want = program(x)

    def stop(name: str, number: int, start: int, stop: int, rows: np.ndarray) -> None:
        if start == 60:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        program(x, on_rows=stop)
    for name, value in program(x).items():
        assert np.array_equal(value, want[name])


def test_the_function_sees_floating_point_errors_as_the_caller_does() -> None:
    plan = csdfgen.plan(large(), rows=1, result="stored")

    def divide(name: str, number: int, start: int, stop: int, rows: np.ndarray) -> None:
        np.ones(1) / np.zeros(1)

    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        runtime.run(plan, image(plan.network), on_rows=divide)


@pytest.mark.parametrize("result", ["stored", "arena"])
def test_the_same_arrays_again_and_again(result: str) -> None:
    g = Graph()
    x = g.input("x", (1, 3, SIZE, SIZE))
    model = g.model(g.conv(g.node("Relu", g.conv(x, 4)), 2))
    frame = runtime.compile(csdfgen.plan(csdfgen.load(model), result=result, backend="numpy"))
    image, other = (np.ascontiguousarray(g.feeds(seed)["x"]) for seed in (1, 2))
    wanted = [onnxruntime_outputs(model, {"x": one}) for one in (image, other)]
    (name,) = wanted[0]
    y, z = (np.zeros_like(wanted[0][name]) for _ in range(2))
    frame.run_into(image, y)
    np.testing.assert_allclose(y, wanted[0][name], rtol=1e-4, atol=1e-5)
    held = frame(other)[name]
    y[...] = 0
    frame.run_into(image, y)  # a frame was between
    frame.run_into(image, z)
    frame.run_into(other, z)
    image[...] = other  # the same arrays, other numbers
    frame.run_into(image, y)
    for found in (held, y, z):
        np.testing.assert_allclose(found, wanted[1][name], rtol=1e-4, atol=1e-5)
    for wrong in (y[0], y.astype(np.float64)):
        with pytest.raises(InputError, match="is needed"):
            frame.run_into(image, wrong)
    with pytest.raises(InputError, match="the network takes"):
        frame.run_into(image[:, :, 1:], y)
    with pytest.raises(InputError, match="an array is needed"):
        frame.run_into(image.tolist(), y)  # type: ignore[arg-type]
    two = runtime.compile(csdfgen.plan(csdfgen.load(several()), backend="numpy"))
    with pytest.raises(InputError, match="takes one input and one output, the network has 1 and 4"):
        two.run_into(image, y)


@pytest.mark.parametrize(
    ("into", "most"), [pytest.param(False, 42, id="call"), pytest.param(True, 12, id="run_into")]
)
def test_a_frame_of_native_code_makes_few_calls(into: bool, most: int) -> None:
    """Calls, of Python and of C, that the interpreter makes for a frame: what a frame of a small network costs."""
    g = Graph()
    model = g.model(g.node("Relu", g.input("x", (1, 16))))
    frame = runtime.compile(csdfgen.plan(csdfgen.load(model), backend="native", result="stored"))
    x = g.feeds(1)["x"]
    y = next(iter(frame(x).values()))
    frame.run_into(x, y)
    calls: list[str] = []
    note = sys.getprofile()
    sys.setprofile(lambda _frame, event, _given: calls.append(event))
    try:
        frame.run_into(x, y) if into else frame(x)
    finally:
        sys.setprofile(note)
    assert 0 < sum(event.endswith("call") for event in calls) <= most


def test_a_frame_within_a_frame_and_two_places_for_rows_are_refused() -> None:
    plan = csdfgen.plan(large(), rows=1, result="stored")
    program, x = runtime.compile(plan), image(plan.network)

    def again(name: str, number: int, start: int, stop: int, rows: np.ndarray) -> None:
        program(x)

    def refused() -> None:
        with pytest.raises(InputError, match="within its own frame"):
            program(x, on_rows=again)

    waiting = Thread(target=refused, daemon=True)  # it would wait for itself
    waiting.start()
    waiting.join(30)
    assert not waiting.is_alive()
    with pytest.raises(InputError, match="out and on_rows"):
        program(x, out={}, on_rows=lambda *rows: None)


def test_the_checker_holds_rows_to_their_handing_on() -> None:
    """A row that is overwritten in the firing that completes it would be handed on wrong."""
    from dataclasses import replace

    plan = csdfgen.plan(large(), rows=1, fuse="none", result="stored")
    name = plan.sharing.places[plan.network.outputs[0].tensor.name].buffer  # type: ignore[union-attr]
    lives = {one.buffer: one for one in plan.lifetimes.each}
    image, made = plan.network.inputs[0].name, lives[name].born[0]
    there = (lives[image].born <= made) & (lives[image].gone > made)
    table = list(plan.regions[name].table)
    table[0] = plan.regions[image].table[int(np.flatnonzero(there)[0])]
    moved = replace(plan.regions[name], table=tuple(table))
    with pytest.raises((PlanError, CapacityExceededError)):
        check(replace(plan, regions={**plan.regions, name: moved}))


def test_a_plan_file_that_keeps_outputs_whole_is_read() -> None:
    """As they were written before rows were handed on."""
    network = large()
    plan = csdfgen.plan(network, rows=1)
    values = to_json(plan)
    outputs = {o.tensor.name for o in network.outputs if o.tensor is not None}
    for item in values["buffers"]:
        if item["name"] in outputs:
            size = plan.by_name[item["name"]].row_bytes
            end = values["arena"] + 128 * size
            item["offsets"] = ",".join(map(str, range(values["arena"], end, size)))
            values["arena"] = end
    older = to_plan(from_json(values), network)
    assert older.planned_bytes > plan.planned_bytes + 9 * plan.figures["outputs"] // 10
    x = image(network)
    for name, value in runtime.run(older, x).items():
        assert np.array_equal(value, runtime.run(plan, x)[name])


def test_the_schedule_of_a_graph_keeps_no_outputs_either() -> None:
    network = csdfgen.load(several())
    order = csdfgen.schedule(csdfgen.convert(network, rows=1))
    plan = plan_from_schedule(network, order)
    x = image(network)
    want = runtime.run(csdfgen.plan(network, rows=1), x)
    for name, value in runtime.run(plan, x).items():
        assert np.array_equal(value, want[name])
    assert plan.figures["peak_live"] < plan.figures["outputs"]


# In the arena -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("rows", [1, 3, "whole"])
@pytest.mark.parametrize("level", ["none", "full"])
def test_in_the_arena(make: Callable[[], onnx.ModelProto], rows: int | str, level: str) -> None:
    network = csdfgen.load(make())
    x = image(network)
    plan = csdfgen.plan(network, rows=rows, fuse=level, result="arena")
    program = runtime.compile(plan)
    found, measured = program.measure(x)
    want = runtime.run(csdfgen.plan(network, rows=rows, fuse=level), x)
    assert found.keys() == want.keys()
    for name, value in want.items():
        assert found[name].dtype == value.dtype and found[name].shape == value.shape
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)
    given = {name: np.zeros_like(value) for name, value in want.items()}
    program(x, out=given)
    handed, _ = streamed(plan, x)
    for name, value in found.items():
        assert np.array_equal(given[name], value) and np.array_equal(handed[name], value)
    assert measured.touched_bytes == plan.planned_bytes
    assert plan.figures["outputs"] == 0
    again = to_plan(from_json(to_json(plan)), network)
    assert again.regions == plan.regions and again.options.result == "arena"


def test_an_output_in_place_of_what_it_is_made_from_stays_in_the_arena() -> None:
    network = csdfgen.load(half())
    plan = csdfgen.plan(network, rows=1, result="arena")
    assert any(len(plan.sharing.members[b.name]) > 1 for b in plan.rolling if b.kept)
    want = runtime.run(csdfgen.plan(network, rows=1), image(network))
    for name, value in runtime.run(plan, image(network)).items():
        assert np.array_equal(value, want[name])


def test_rows_lie_where_outputs_will_be() -> None:
    """The arena with the outputs is smaller than the arena beside them, and nothing else is taken."""
    network = csdfgen.load(several())
    stored = csdfgen.plan(network, rows=1, result="stored").figures
    plan = csdfgen.plan(network, rows=1, result="arena")
    assert plan.planned_bytes < stored["arena"] + stored["outputs"]
    outputs = [buffer for buffer in plan.rolling if buffer.kept]
    assert sum(b.rows * b.row_bytes for b in outputs) == stored["outputs"]
    ends = max(max(plan.regions[b.name].table) + b.row_bytes for b in outputs)
    others = [min(plan.regions[b.name].table) for b in plan.rolling if not b.kept]
    assert min(others) < ends, "some row lies where a row of an output comes later"


def test_outputs_that_were_let_go_of_make_room_for_the_next() -> None:
    network = csdfgen.load(several())
    program = runtime.compile(csdfgen.plan(network, rows=1, result="arena"))
    x = image(network)
    addresses = []
    for _ in range(3):
        found = program(x)
        addresses.append({name: value.ctypes.data for name, value in found.items()})
        del found
    assert addresses[0] == addresses[1] == addresses[2]


@pytest.mark.parametrize("hold", [dict, lambda found: next(iter(found.values()))[..., 1:]])
def test_outputs_that_are_held_stay_as_they_are(hold: Callable[[Any], Any]) -> None:
    """All of them, or a view of one; after that every frame gives arrays of its own."""
    network = csdfgen.load(several())
    program = runtime.compile(csdfgen.plan(network, rows=1, result="arena"))
    x = image(network)
    want = runtime.run(csdfgen.plan(network, rows=1), x)
    held = [hold(program(x))]
    copies = [np.copy(one) for one in _values(held[0])]
    for _ in range(3):
        found = program(x)
        assert not any(np.shares_memory(a, b) for a in _values(found) for b in _values(held[0]))
        for name, value in want.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)
            found[name][...] = 0  # nobody else's
        program(-x)
    for now, before in zip(_values(held[0]), copies, strict=True):
        assert np.array_equal(now, before)


def _values(found: Any) -> list[np.ndarray]:
    return list(found.values()) if isinstance(found, dict) else [found]


def test_large_outputs_go_to_the_arena_and_few_scores_do_not() -> None:
    detector, classifier = csdfgen.load(several()), csdfgen.load(residual_classifier())
    assert csdfgen.plan(detector).options.result == "arena"
    assert csdfgen.plan(classifier).options.result == "stored"
    assert csdfgen.plan(detector, result="stored").options.result == "stored"
    assert csdfgen.plan(detector, recompute=1.5).options.result == "stored"
    batch = Graph()
    made = batch.conv(batch.input("x", (2, 3, SIZE, SIZE)), 4)
    assert csdfgen.plan(csdfgen.load(batch.model(made))).options.result == "stored"


@pytest.mark.parametrize("rows", [1, "whole"])
def test_a_batch_lies_in_the_arena_if_one_run_takes_it(rows: int | str) -> None:
    g = Graph()
    a = g.node("Relu", g.conv(g.input("x", (2, 3, 9, 7)), 4))
    network = csdfgen.load(g.model(a, g.node("GlobalAveragePool", a), g.conv(a, 2, 1)))
    x = image(network)
    plan = csdfgen.plan(network, rows=rows, frames=2, result="arena")
    want = runtime.run(csdfgen.plan(network, rows=rows), x)
    for name, value in runtime.run(plan, x).items():
        assert value.shape == want[name].shape
        np.testing.assert_allclose(value, want[name], rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match="the outputs of 1 of 2 images; take frames=2"):
        csdfgen.plan(network, rows=rows, result="arena")


def test_outputs_in_the_arena_and_two_memories_are_refused() -> None:
    with pytest.raises(PlanError, match="leave it or fast out"):
        csdfgen.plan(large(), result="arena", fast="64KiB", slow="8MiB")


def test_the_checker_holds_outputs_in_the_arena_to_the_end() -> None:
    from dataclasses import replace

    plan = csdfgen.plan(large(), rows=1, result="arena")
    output = next(b for b in plan.rolling if b.kept)
    region = plan.regions[output.name]
    table = (region.table[1], region.table[0], *region.table[2:])
    pieces = replace(region, table=table)
    with pytest.raises(PlanError, match="pieces; 1 is needed"):
        check(replace(plan, regions={**plan.regions, output.name: pieces}))
    lives = {one.buffer: one for one in plan.lifetimes.each}
    late = next(b for b in plan.rolling if not b.kept and lives[b.name].born.max() > 100)
    other = plan.regions[late.name]
    over = replace(other, table=(*other.table[:-1], region.table[0] // 16 * 16))
    with pytest.raises((PlanError, CapacityExceededError)):
        check(replace(plan, regions={**plan.regions, late.name: over}))


# Compared with onnxruntime -----------------------------------------------------------------------------


def test_streamed_rows_are_compared_as_they_are_made() -> None:
    proto = several()
    found = csdfgen.report(csdfgen.load(proto), reference=proto, rows=1, result="streamed")
    assert found.ok and found.figures["outputs"] == 0
    assert found.plan.options.result == "streamed"
    stored = csdfgen.report(csdfgen.load(proto), reference=proto, rows=1, result="stored")
    assert stored.figures["outputs"] > 0
    assert [(one.name, one.values) for one in found.comparisons or ()] == [
        (one.name, one.values) for one in stored.comparisons or ()
    ]
    assert found.outputs == stored.outputs
    with pytest.raises(InputError, match="not one of auto, stored, arena, streamed"):
        csdfgen.report(csdfgen.load(proto), reference=proto, result="kept")


def test_a_wrong_row_is_found_while_streaming() -> None:
    g = Graph()
    x = g.input("x", (2, 3, 8, 6))
    network = csdfgen.load(g.model(x_out := g.node("Relu", x)))
    other = Graph()
    y = other.input("x", (2, 3, 8, 6))
    shifted = other.model(other.node("Relu", other.node("Add", y, other.constant(bump()))))
    shifted.graph.output[0].name = x_out
    shifted.graph.node[-1].output[0] = x_out
    plan = csdfgen.plan(network, rows=1)
    feeds = {"x": image(network) + 2}
    (one,) = check_rows(shifted, plan, feeds)
    (whole,) = check_outputs(shifted, plan, feeds, runtime.run(plan, feeds))
    assert one == whole and (one.wrong, one.first_wrong_row) == (1, 5)


def test_rows_that_are_not_handed_on_are_wrong() -> None:
    plan = csdfgen.plan(csdfgen.load(narrow()), rows=1)
    wanted = onnxruntime_outputs(narrow(), {"x": image(plan.network)})
    ((name, array),) = wanted.items()
    rows = _Rows(plan, wanted, {})
    rows.compare(name, 0, 0, SIZE - 1, array[:, :, :-1])
    (missing,) = rows.found()
    rows.compare(name, 0, SIZE - 1, SIZE, array[:, :, -1:])
    (whole,) = rows.found()
    assert (missing.wrong, whole.wrong) == (array[:, :, -1:].size, 0)


def bump() -> np.ndarray:
    """0 but for one value, in row 5 of the second image."""
    found = np.zeros((2, 3, 8, 6), np.float32)
    found[1, 2, 5, 3] = 1
    return found


def test_classes_are_compared_where_scores_are_streamed() -> None:
    proto = residual_classifier()
    plan = csdfgen.plan(csdfgen.load(proto), rows=1)
    feeds = {plan.network.inputs[0].name: image(plan.network)}
    assert check_rows(proto, plan, feeds) == check_outputs(
        proto, plan, feeds, runtime.run(plan, feeds)
    )


def narrow() -> onnx.ModelProto:
    """An output of 2 channels behind a map of 16."""
    g = Graph()
    return g.model(g.conv(g.node("Relu", g.conv(g.input("x", (1, 3, SIZE, SIZE)), 16)), 2, 1))


@pytest.mark.parametrize(
    ("make", "rows", "in_turn"), [(several, 1, True), (narrow, "whole", False)]
)
def test_plain_loop(make: Callable[[], onnx.ModelProto], rows: int | str, in_turn: bool) -> None:
    """Whichever takes less memory with the outputs of two frames."""
    plan = csdfgen.plan(csdfgen.load(make()), rows=rows, result="arena")
    assert (2 * plan.network.output_bytes >= plan.planned_bytes) == in_turn
    program, x = runtime.compile(plan), image(plan.network)
    y, other = program(x), program(-x)
    want = [{name: value.copy() for name, value in one.items()} for one in (y, other)]
    del other
    seen = []
    for k in range(1, 7):
        z = program(x if k % 2 == 0 else -x)
        for one, number in ((y, (k - 1) % 2), (z, k % 2)):
            assert all(np.array_equal(one[name], want[number][name]) for name in one)
        assert all(value.flags.owndata != in_turn for value in z.values())
        seen.append(next(iter(z.values())).ctypes.data)
        y = z
    assert not in_turn or (len(set(seen)) == 2 and seen[0] != seen[1])


def test_the_second_frame_of_a_plain_loop_lowers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first outputs are still held then: the program is bound to other memory as it is."""
    plan = csdfgen.plan(csdfgen.load(several()), rows=1, result="arena")
    program, x = runtime.compile(plan), image(plan.network)
    y = program(x)
    first = {name: value.copy() for name, value in y.items()}
    monkeypatch.setattr(type(program._kernels), "lower", lambda *given: pytest.fail("lowered"))
    for _ in range(3):
        y = program(x)
        assert all(np.array_equal(y[name], first[name]) for name in first)


def test_what_is_timed_stays_in_its_arena(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A frame that went on in another arena would be timed with the binding of all its steps."""
    monkeypatch.setattr(BoundProgram, "elsewhere", lambda program: pytest.fail("in another arena"))
    path = tmp_path / "several.onnx"
    onnx.save(several(), path)
    plan = csdfgen.plan(csdfgen.load(path), rows=1, result="arena")
    feeds = {"x": image(plan.network)}
    report, outputs = measure(plan, feeds, repeat=3)
    assert report.result == "arena" and outputs
    assert measure_frame(plan, str(path), feeds, repeat=3).equal
