"""Laws of operators that are layers of others: a network of one node of it, in slabs of any height."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import csdfgen
import runtime
from csdfgen.model.network import Layer, Network, Output, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops import OPERATORS, get_operator
from csdfgen.ops.evaluated import run_layer
from tests.native_steps import compiler_missing
from tests.op_harness import Arg, Sample, check_rows, heights
from tests.op_samples import SAMPLES as KERNELS
from tests.op_samples.composed import SAMPLES, WITHOUT_A_REFERENCE
from tests.planning import LITTLE
from tests.property.test_operator_laws import (
    BEHIND_EACH_OTHER,
    IN_PIECES,
    check_declared_rows,
    kernels_of,
    stored_by_another_axis,
)
from tests.scattered import overwritten, run_scattered
from tests.simple_executor import execute

IDS = [str(s) for s in SAMPLES]


def _close(got: np.ndarray, want: np.ndarray) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    rtol, atol = {2: (1e-2, 1e-2), 4: (1e-3, 1e-4), 8: (1e-6, 1e-8)}[got.dtype.itemsize]
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_slabs_of_every_layer_are_onnxruntimes(sample: Sample) -> None:
    model = sample.model(sample.outputs_of())
    wanted = sample.reference(sample.outputs_of(), sample.feeds())
    feeds = {f"i{k}": array for k, array in sample.feeds().items()}
    network = csdfgen.load(model)
    for height in (1, 2, 10**9):
        found = execute(network, feeds, height)
        for got, want in zip(found.values(), wanted, strict=True):
            _close(got, want)


@pytest.mark.networks
@pytest.mark.parametrize("number", range(len(SAMPLES)), ids=IDS)
def test_plans_of_both_backends_compute_what_onnxruntime_does(number: int) -> None:
    sample = SAMPLES[number]
    model = sample.model(sample.outputs_of())
    wanted = sample.reference(sample.outputs_of(), sample.feeds(1))
    feeds = {f"i{k}": array for k, array in sample.feeds(1).items()}
    network = csdfgen.load(model)
    # a choice among heights of hundreds of layers of a few bytes takes a quarter of a minute
    choice = "auto" if len(network.layers) < 100 else "3"
    rows = ("1", choice, "whole", "2")[number % 4]
    for backend in ("numpy",) if compiler_missing() else ("numpy", "native"):
        plan = csdfgen.plan(network, backend=backend, rows=rows, effort=LITTLE)
        found = runtime.run(plan, feeds)
        given = found if isinstance(found, dict) else {"": found}
        for got, want in zip(given.values(), wanted, strict=True):
            _close(np.asarray(got), want)


# Each layer by itself -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A layer of a sample. feeds: what it reads, by position; wanted: what it makes, both in ONNX axis order."""

    layer: Layer
    feeds: Mapping[int, np.ndarray]
    wanted: tuple[np.ndarray, ...]


@cache
def parts(number: int) -> tuple[Part, ...]:
    """The layers of a sample, each kind of layer (operator, shapes, settings) once."""
    sample = SAMPLES[number]
    known = {f"i{k}": array for k, array in sample.feeds().items()}
    found: dict[str, Part] = {}
    for layer in sample.operator.layers(sample.node()):
        read = {k: known[t.name] for k, t in enumerate(layer.inputs) if t is not None}
        with np.errstate(all="ignore"):
            arrays = [read.get(k) for k in range(len(layer.inputs))]
            made = run_layer(get_operator(layer), layer, arrays)
        known.update((t.name, a) for t, a in zip(layer.outputs, made, strict=True))
        inputs = tuple(
            None if t is None else replace(t, name=f"i{k}") for k, t in enumerate(layer.inputs)
        )
        constants = {k: (a.shape, a.dtype) for k, a in layer.constants.items()}
        outputs = [(t.shape, t.row_axis) for t in layer.outputs]
        kind = (layer.op_type, inputs, layer.input_axes, constants, outputs, layer.attributes)
        found.setdefault(str(kind), Part(replace(layer, inputs=inputs), read, made))
    return tuple(found.values())


NUMBERS = pytest.mark.parametrize("number", range(len(SAMPLES)), ids=IDS)


@NUMBERS
def test_operands_may_be_stored_by_any_axis(number: int) -> None:
    """Behind a Reshape, a Transpose, a product."""
    sample = SAMPLES[number]
    feeds = {f"i{k}": array for k, array in sample.feeds().items()}
    wanted = sample.reference(sample.outputs_of(), sample.feeds())
    for turn in (0, 1):
        inputs = [
            stored_by_another_axis(i, number + turn) if isinstance(i, Arg) else i
            for i in sample.inputs
        ]
        other = replace(sample, inputs=tuple(inputs))
        read = tuple(t for t in other.node().inputs if isinstance(t, Tensor))
        outputs = tuple(Output(t.name, t) for t in other.outputs_of())
        network = Network("sample", read, outputs, other.operator.layers(other.node()))
        found = execute(network, feeds, (1, 2, 3, 10**9)[(number + turn) % 4])
        for got, want in zip(found.values(), wanted, strict=True):
            _close(got, want)


@NUMBERS
def test_rows_of_every_layer_are_monotone_and_inside(number: int) -> None:
    for part in parts(number):
        for height in heights(part.layer):
            check_rows(part.layer, get_operator(part.layer), height)


@pytest.mark.parametrize("backend", ["numpy", "native"])
@NUMBERS
def test_layers_read_pieces_and_write_over_what_they_read(number: int, backend: str) -> None:
    for k, part in enumerate(parts(number)):
        layouts = [IN_PIECES[(number + k) % len(IN_PIECES)]]
        if overwritten(part.layer):
            layouts.append(BEHIND_EACH_OTHER[(number + k) % len(BEHIND_EACH_OTHER)])
        tall = heights(part.layer)
        for turn, layout in enumerate(layouts):
            height = tall[(number + k + turn) % len(tall)]
            found = run_scattered(
                part.layer, part.feeds, height, layout, None, None, kernels_of(backend)
            )
            for got, want in zip(found, part.wanted, strict=True):
                _close(got, want)


CHOOSING = frozenset(
    {
        "Gather",
        "GatherElements",
        "GatherND",
        "MaxPool",
        "RoiAlign",
        "ScatterElements",
        "ScatterND",
        "TopK",
        "TreeEnsemble",
        "Where",
    }
)
"""Operators that read elements which need not reach the output: others are chosen."""


def _reads_all(layer: Layer) -> bool:
    """Whether it reads all rows that it declares: windows with holes need not, and Attention holds some masks whole."""
    holes = max(layer.attributes.get("dilations", (1,))) > 1
    rows = get_operator(layer).input_rows(layer, Rows(0, 1))
    masked = layer.op_type == "Attention" and any(one and len(one) > 1 for one in rows[3:])
    return layer.op_type not in CHOOSING and not holes and not masked


@NUMBERS
def test_a_nan_in_a_row_that_a_layer_declares_reaches_its_output(number: int) -> None:
    for part in parts(number):
        if _reads_all(part.layer):
            check_declared_rows(part.layer, part.feeds)


def test_every_composed_operator_has_a_sample() -> None:
    own = {name for name, one in OPERATORS.items() if one.parts is not None}
    missing = (
        own
        - {s.op_type for s in (*SAMPLES, *KERNELS)}
        - WITHOUT_A_REFERENCE
        - {"GRU", "LSTM", "RNN"}
    )
    assert not missing


def _found(
    op_type: str, x: np.ndarray, *others: np.ndarray, outputs: int = 1, **attributes: Any
) -> list[np.ndarray]:
    """The outputs of a node of com.microsoft, of an input and constants."""
    names = [f"i{k}" for k in range(len(others))]
    node = helper.make_node(
        op_type, ["x", *names], OUTPUTS[:outputs], domain="com.microsoft", **attributes
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", 1, x.shape)],
        [helper.make_tensor_value_info(name, 1, None) for name in OUTPUTS[:outputs]],
        [numpy_helper.from_array(a, n) for a, n in zip(others, names, strict=True)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    network = csdfgen.load(helper.make_model(graph, opset_imports=opsets))
    return list(execute(network, {"x": x}, 1).values())


OUTPUTS = ("y", "sum")


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(0, 1, shape).astype(np.float32)


def _swish(x: np.ndarray, alpha: float = 1) -> np.ndarray:
    return np.asarray(x / (1 + np.exp(-alpha * x)))


def _group_norm(x: np.ndarray, gain: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Of two groups; channels are the second axis."""
    groups = x.reshape(x.shape[0], 2, -1).astype(np.float64)
    centred = groups - groups.mean(-1, keepdims=True)
    normal = (centred / np.sqrt(groups.var(-1, keepdims=True) + 1e-5)).reshape(x.shape)
    return np.asarray(normal * gain[:, None, None] + shift[:, None, None])


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("activation", [0, 1])
def test_group_norm_of_channels_first_and_last(last: int, activation: int) -> None:
    x, gain, shift = _normal(1, 5, 3, 8) if last else _normal(1, 8, 5, 3), _normal(8), _normal(8)
    (found,) = _found(
        "GroupNorm", x, gain, shift, groups=2, activation=activation, channels_last=last
    )
    want = _group_norm(np.moveaxis(x, -1, 1) if last else x, gain, shift)
    want = _swish(want) if activation else want
    want = np.moveaxis(want, 1, -1) if last else want
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 5, 3, 8), (2, 1, 1, 8), (2, 8)])
def test_group_norm_of_a_sum(shape: tuple[int, ...]) -> None:
    x, skip, bias, gain, shift = _normal(2, 5, 3, 8), _normal(*shape), *(_normal(8),) * 3
    found, total = _found(
        "SkipGroupNorm", x, gain, shift, skip, bias, outputs=2, groups=2, activation=1
    )
    want = x + skip.reshape(2, *(shape[1:3] if len(shape) == 4 else (1, 1)), 8) + bias
    np.testing.assert_allclose(total, want, rtol=1e-5, atol=1e-6)
    normal = np.moveaxis(_group_norm(np.moveaxis(want, -1, 1), gain, shift), 1, -1)
    np.testing.assert_allclose(found, _swish(normal), rtol=1e-4, atol=1e-5)


def test_sums_and_gates_of_com_microsoft() -> None:
    x, bias, skip = _normal(2, 6, 8), _normal(8), _normal(1, 6, 8)
    first, second = np.split(x + bias, 2, -1)
    gelu = second / 2 * (1 + np.vectorize(math.erf)(second / math.sqrt(2)))
    gate, up = np.split(x, 2, -1)
    clipped = _swish(np.minimum(gate, 0.5), 1.7) * (np.clip(up, -0.5, 0.5) + 1)
    swiglu: dict[str, float] = {"limit": 0.5, "activation_alpha": 1.7, "activation_beta": 1.0}
    for (found,), want in (
        (_found("BiasAdd", x, bias, skip), x + bias + skip),
        (_found("BiasSplitGelu", x, bias), first * gelu),
        (_found("SwiGLU", x), _swish(gate) * up),
        (_found("SwiGLU", x, skip.repeat(2, 0)), _swish(x) * skip),
        (_found("SwiGLU", x, **swiglu), clipped),
    ):
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
