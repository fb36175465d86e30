"""Laws of operators that stream, on random layers at two heights; of the others, that they say why and what to do. Random
networks that stream.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.errors import CsdfgenError, ModelError
from csdfgen.model.network import Layer, Network, Output
from csdfgen.ops import get_operator
from csdfgen.ops.padding import widen
from csdfgen.phases.streaming import RowRule, find_row_rule, find_stream_obstacle, read_rows
from tests.builder import reference
from tests.native_steps import COMPUTED_BY
from tests.op_harness import Arg, Sample, run_in_slabs
from tests.op_samples import SAMPLES
from tests.streaming_networks import Streaming, draw_sized, draw_streaming, fix_sizes
from tests.ways import some

LAYERS = some(200, 10_000)
"""Random layers that are tried, of samples and of families by turns."""

NETWORKS = some(12, 200)
"""Random networks that are planned and run at random heights."""

FOUND = (90_002,)
"""Seeds that found a fault: scratch for rows released together at an image's end alone."""

LEAST = 60
"""Rows of an image from which on its middle shows the rule of a layer of these tests."""

At = Callable[[int], Sample]
"""A layer of an image of so many rows."""


def stretched(sample: Sample) -> At | None:
    """A sample at any height; None if it has no rows."""
    args = [one for one in sample.inputs if isinstance(one, Arg)]
    heights = {1 if one.row_axis is None else one.shape[one.row_axis] for one in args} - {1}
    if len(heights) != 1:
        return None

    def tall(one: Any, rows: int) -> Any:
        k = one.row_axis if isinstance(one, Arg) else None
        if k is None or one.shape[k] == 1:
            return one
        return replace(one, shape=(*one.shape[:k], rows, *one.shape[k + 1 :]))

    return lambda rows: replace(sample, inputs=tuple(tall(one, rows) for one in sample.inputs))


STRETCHED = [one for one in map(stretched, SAMPLES) if one is not None]


def image(rows: int, channels: int = 4) -> Arg:
    return Arg((1, channels, rows, 3), 2)


def some_weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def windowed(rng: np.random.Generator) -> At:
    """A convolution or a pool."""
    kind = str(rng.choice(["Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"]))
    kernel, stride = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    top, bottom = (int(one) for one in rng.integers(0, kernel, 2))
    attributes: dict[str, Any] = {
        "kernel_shape": [kernel, 1],
        "strides": [stride, 1],
        "pads": [top, 0, bottom, 0],
    }
    if kind != "LpPool":
        attributes["dilations"] = [int(rng.integers(1, 3)), 1]
    if kind.endswith("Pool") and kind != "LpPool":
        attributes["ceil_mode"] = int(rng.integers(2))
    if kind == "AveragePool":
        attributes["count_include_pad"] = int(rng.integers(2))
    weights = (some_weights(rng, 4, 4, kernel, 1),) if kind.startswith("Conv") else ()
    return lambda rows: Sample(kind, (image(rows), *weights), attributes, opset=19)


def resized(rng: np.random.Generator) -> At:
    kinds = (
        "half_pixel",
        "asymmetric",
        "pytorch_half_pixel",
        "align_corners",
        "half_pixel_symmetric",
    )
    attributes = {
        "mode": str(rng.choice(["nearest", "linear", "cubic"])),
        "coordinate_transformation_mode": str(rng.choice(kinds)),
        "nearest_mode": str(rng.choice(["floor", "ceil", "round_prefer_floor"])),
    }
    scale = np.array([1, 1, rng.choice([0.25, 0.5, 1.5, 2, 3, 4]), 1], np.float32)
    return lambda rows: Sample("Resize", (image(rows), None, scale), attributes, opset=19)


def padded(rng: np.random.Generator) -> At:
    mode = str(rng.choice(["constant", "edge", "reflect", "wrap"]))
    pads = np.array([0, 0, *rng.integers(-2, 4, 1), 1, 0, 0, *rng.integers(-2, 4, 1), 0], np.int64)
    return lambda rows: Sample("Pad", (image(rows), pads), {"mode": mode}, opset=19)


def moved(rng: np.random.Generator) -> At:
    """Rows into channels and back, steps along rows, other orders of axes."""
    size, start, step = (int(one) for one in rng.integers((1, 0, 1), (4, 6, 4)))
    cut = tuple(np.array([one], np.int64) for one in (start, 2**62, 2, step))
    last = [int(one) for one in rng.permutation([1, 3])]
    made: tuple[At, ...] = (
        lambda rows: Sample("DepthToSpace", (image(rows, size * size),), {"blocksize": size}),
        lambda rows: Sample(
            "SpaceToDepth", (Arg((1, 2, rows - rows % size, 2 * size), 2),), {"blocksize": size}
        ),
        lambda rows: Sample("Slice", (image(rows), *cut)),
        lambda rows: Sample("Transpose", (image(rows),), {"perm": [0, last[0], 2, last[1]]}),
        lambda rows: Sample("Reshape", (image(rows), np.array([1, 4, 3 * rows], np.int64))),
        lambda rows: Sample("Concat", (image(rows), image(rows)), {"axis": last[0]}),
    )
    return made[int(rng.integers(len(made)))]


FAMILIES = (windowed, resized, padded, moved)


def network_of(layer: Layer) -> Network:
    inputs = tuple(one for one in layer.inputs if one is not None)
    return Network("one", inputs, tuple(Output(t.name, t) for t in layer.outputs), (layer,))


def drawn(seed: int) -> tuple[At, np.random.Generator]:
    rng = np.random.default_rng(seed)
    if rng.random() < 0.5:
        return STRETCHED[int(rng.integers(len(STRETCHED)))], rng
    return FAMILIES[int(rng.integers(len(FAMILIES)))](rng), rng


def moves_exactly(layer: Layer, rule: RowRule) -> None:
    """(S) and (C): every row reads what the rule says, cut to the image, or less at its ends."""
    heights = [t.rows for t in layer.inputs if t is not None]
    for row in range(layer.output.rows):
        for rows, ruled, height, by in zip(
            read_rows(layer, row), rule.read(row), heights, rule.moves, strict=True
        ):
            if rows is None or not by:
                continue
            assert ruled is not None
            assert max(0, ruled[0]) <= rows[0] and rows[1] <= min(height, ruled[1]), row
            if (
                ruled[0] >= 0
                and ruled[1] <= height
                and rule.step < row < layer.output.rows - rule.step
            ):
                assert rows == ruled or rule.step == 1, row


def shifted(
    feed: np.ndarray, axis: int, height: int, start: int, rng: np.random.Generator
) -> np.ndarray:
    """An operand of an image of so many rows that shows another one from a row on."""
    places = rng.integers(0, feed.shape[axis], height)
    places[start : start + feed.shape[axis]] = np.arange(feed.shape[axis])
    return np.take(feed, places, axis)


def computes_alike(low: Sample, tall: Sample, rule: RowRule, rng: np.random.Generator) -> int:
    """(V): slabs of an image are those of a taller one that shows it further down, bit for bit. Returns how many rows were
    compared.
    """
    one, other = widen(low.layer()), widen(tall.layer())
    height, feeds = int(rng.integers(1, 5)), low.feeds()
    turns, more = height * int(rng.integers(1, 3)), dict[int, np.ndarray]()
    operands = [(k, operand) for k, operand in enumerate(one.inputs) if operand is not None]
    for (k, operand), by in zip(operands, rule.moves, strict=True):
        number, axis = int(operand.name[1:]), operand.row_axis
        if not by:  # it has no rows that stream
            more[number] = feeds[number]
            continue
        assert axis is not None
        more[number] = shifted(feeds[number], axis, other.computed(k).rows, turns * by, rng)
    found, wanted = (
        run_in_slabs(sample, layer, fed, height)
        for sample, layer, fed in ((low, one, feeds), (tall, other, more))
    )
    slabs = range(0, one.output.rows - height + 1, height)
    inside = [
        row
        for start in slabs
        for row in range(start, start + height)
        if all(is_inside(one, rule, near) for near in range(start, start + height))
    ]
    for a, b, tensor in zip(found, wanted, one.outputs, strict=True):
        axis = tensor.row_axis or 0
        a, b = (
            np.take(a, inside, axis),
            np.take(b, [row + turns * rule.step for row in inside], axis),
        )
        np.testing.assert_allclose(a, b, rtol=0, atol=0 if has_exact_taps(one) else 1e-4)
    return len(inside)


def has_exact_taps(layer: Layer) -> bool:
    """Whether positions of rows are exact numbers: by a third of a row they are rounded, more so further down."""
    return all(scale in (0.25, 0.5, 1, 2, 4) for scale in layer.attributes.get("scales", ()))


def is_inside(layer: Layer, rule: RowRule, row: int) -> bool:
    """Whether all that the rule names exists, and a step on either side: taps without weight are in no rule."""
    heights = [t.rows for t in layer.inputs if t is not None]
    named = zip(rule.read(row), rule.moves, heights, strict=True)
    return all(one is None or (one[0] >= by and one[1] + by <= n) for one, by, n in named)


def obeys(at: At, rng: np.random.Generator) -> str:
    """What was found of a layer: "streams", "refused", or "" if there is none at such heights."""
    rows = int(rng.integers(LEAST, 90))
    heights = rows, rows + int(rng.integers(60, 99))
    sample, other = (at(one) for one in heights)
    try:
        low, tall = widen(sample.layer()), widen(other.layer())
    except ModelError:
        return ""
    obstacle = find_stream_obstacle(network_of(low), network_of(tall))
    if obstacle is not None:
        assert obstacle.layer == "sample" and obstacle.reason and obstacle.way_out
        return "refused"
    rule = find_row_rule(low)
    if not isinstance(rule, RowRule) or get_operator(low).held(low):
        return ""
    for one in (low, tall):
        moves_exactly(one, rule)
    assert computes_alike(sample, other, rule, rng) > 0
    return "streams"


@pytest.mark.parametrize("number", range(20))
def test_layers_that_stream_obey_the_laws(number: int) -> None:
    found = [obeys(*drawn(1000 * number + k)) for k in range(LAYERS // 20)]
    assert "streams" in found


@pytest.mark.parametrize("seed", [*range(NETWORKS), *FOUND])
def test_random_networks_compute_what_onnxruntime_does_at_any_height(seed: int) -> None:
    compares_with_onnxruntime(seed, COMPUTED_BY[seed % len(COMPUTED_BY)])


def cut(rows: int, most: int, rng: np.random.Generator) -> list[int]:
    """Where a stream is cut into pushes of up to so many rows, or of none."""
    ends = np.cumsum(rng.integers(0, most + 1, 3 * rows))
    return [0, *ends[ends < rows].tolist(), rows]


@pytest.mark.parametrize("seed", range(NETWORKS))
def test_it_does_not_matter_how_rows_are_cut_into_pushes(seed: int) -> None:
    """Bit by bit; those of two streams of one program may come by turns, from two threads."""
    backend = COMPUTED_BY[seed % len(COMPUTED_BY)]
    plan = csdfgen.plan_stream(draw_streaming(seed).at(64), backend=backend, effort="0.001s")
    program, rng = runtime.compile(plan), np.random.default_rng(seed)
    rows = plan.least + 2 * plan.turn + int(rng.integers(plan.turn))
    rows = min(rows, 1_500) // plan.period * plan.period
    (name,) = program.ins
    x = rng.standard_normal(program.ins[name].new(rows).shape).astype(np.float32)

    def pushed(most: int) -> dict[str, np.ndarray]:
        stream = program.open()
        ends = cut(rows, most, np.random.default_rng(most)) if most else [0, rows]
        parts = [stream.push(x[:, :, a:b]) for a, b in pairwise(ends)] + [stream.finish()]
        assert stream.rows_in == {name: rows}
        return {
            one: np.concatenate([part[one] for part in parts if one in part], 2)
            for one in program.outs
        }

    whole = pushed(0)
    with ThreadPoolExecutor(2) as threads:
        for found in threads.map(pushed, (1, 2, plan.period + 1, plan.turn + 3)):
            for one, wanted in whole.items():
                np.testing.assert_array_equal(found[one], wanted)


@pytest.mark.parametrize("seed", [*range(NETWORKS), 14, 49])
def test_exports_of_one_height_stream_where_those_of_a_free_one_do(seed: int) -> None:
    """Their constants have sizes of the height of the export, which is a low one, of few rows in the deepest layers."""
    net, backend = draw_sized(seed), COMPUTED_BY[seed % len(COMPUTED_BY)]
    written = net.step * (2 + seed % 7)
    fixed = fix_sizes(net.at(written))
    try:
        plan = csdfgen.plan_stream(fixed, backend=backend, effort="0.001s")
    except CsdfgenError as error:
        free = net.at(64)
        free.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "rows"
        with pytest.raises(type(error)):
            csdfgen.plan_stream(free, backend=backend, effort="0.001s")
    else:
        compares_heights(plan, net, seed)


def compares_with_onnxruntime(seed: int, backend: str) -> None:
    """A random network, into which rows are pushed in pieces of any number."""
    net = draw_streaming(seed)
    effort = "low" if seed % 10 == 0 else "0.001s"  # searches for fewer bytes are most of the time
    compares_heights(csdfgen.plan_stream(net.at(64), backend=backend, effort=effort), net, seed)


def compares_heights(plan: csdfgen.StreamPlan, net: Streaming, seed: int) -> None:
    """A plan of a network, of two heights, with onnxruntime."""
    rng = np.random.default_rng(seed)
    program = runtime.compile(plan)
    for most in (min(plan.least, 2_000), min(plan.least + 3 * plan.turn, 2_000)):
        rows = net.step * int(rng.integers(1 + most // net.step // 2, 2 + most // net.step))
        x = rng.standard_normal(program.ins["x"].new(rows).shape).astype(np.float32)
        ends = np.append(np.sort(rng.integers(0, rows, 9)), rows)
        parts = [x[:, :, a:b] for a, b in pairwise([0, *ends.tolist()])]
        found: dict[str, list[np.ndarray]] = {}
        for made in program.stream(parts):
            for name, rows_made in made.items():
                found.setdefault(name, []).append(rows_made)
        for name, want in reference(net.at(rows), {"x": x}).items():
            np.testing.assert_allclose(np.concatenate(found[name], 2), want, rtol=1e-4, atol=1e-4)
