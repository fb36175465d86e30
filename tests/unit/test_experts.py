"""Networks of the zoo whose images choose what is run: a mixture of experts, and early exits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import csdfgen
import runtime
from benchmarks.expert_gate import choose_experts, gate
from benchmarks.train_gate import loads, model_of, percent, trained
from csdfgen.errors import InputError
from csdfgen.model.rows import Rows
from csdfgen.ops import get_operator
from csdfgen.paper.formats.digits import pictures as digits
from zoo_models import ZooEntry, count
from zoo_models._builder import Builder
from zoo_models.branchy import b_alexnet
from zoo_models.experts import CHOSEN, EXPERTS, alexnet_moe, alexnet_moe_dense, expert

SIZE = (80, 67)
FEW = {"experts": 6, "chosen": 2}
"""A mixture that is quick."""


def session(model: onnx.ModelProto, *more: str) -> onnxruntime.InferenceSession:
    """more: names of other values that become outputs."""
    known = {value.name: value for value in model.graph.value_info}
    asked = onnx.ModelProto()
    asked.CopyFrom(model)
    asked.graph.output.extend(known[name] for name in more)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(asked.SerializeToString(), options, providers=providers)


def pictures(count: int, *shape: int) -> list[np.ndarray]:
    """Noise on coloured squares, so that they differ on the whole."""
    rng = np.random.default_rng(2018)
    found = []
    for _ in range(count):
        squares = np.kron(rng.uniform(-1, 1, (1, 3, 3, 3)), np.ones([-(-n // 3) for n in shape]))
        noise = rng.uniform(-1, 1, (1, 3, *shape))
        found.append((squares[..., : shape[0], : shape[1]] + noise).astype(np.float32) / 2)
    return found


def run(
    one: onnxruntime.InferenceSession, image: np.ndarray, name: str = "image"
) -> Sequence[np.ndarray]:
    outputs: Sequence[np.ndarray] = one.run(None, {name: image})
    return outputs


@pytest.mark.parametrize("entry", [alexnet_moe, alexnet_moe_dense, b_alexnet])
def test_counts_are_the_published_ones_and_shapes_those_that_onnx_infers(entry: ZooEntry) -> None:
    model = entry.build(weights=False)
    counts, published = count(model), entry.published
    assert (counts.parameters, counts.macs) == (published.parameters, published.macs)
    onnx.checker.check_model(model)
    declared = {value.name: value for value in (*model.graph.value_info, *model.graph.output)}
    del model.graph.value_info[:]
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    found = {value.name: value for value in (*inferred.value_info, *inferred.output)}
    assert {name: found[name].type for name in declared} == {n: v.type for n, v in declared.items()}


def test_experts_that_are_not_chosen_take_no_multiply_accumulates() -> None:
    """Of all others the trunk and the gate are left, and four experts: the figure of paper 003."""
    one = count(expert(weights=False)).macs
    assert count(alexnet_moe.build(weights=False)).macs - (EXPERTS - CHOSEN) * one == 298_041_104


@pytest.fixture(scope="module")
def mixture() -> onnx.ModelProto:
    return alexnet_moe.build(*SIZE, **FEW)


@pytest.fixture(scope="module")
def shares() -> str:
    return "gate/scatterelements1"


def test_both_forms_of_a_mixture_give_the_same(mixture: onnx.ModelProto, shares: str) -> None:
    branches, dense = (
        session(mixture, shares),
        session(alexnet_moe_dense.build(*SIZE, **FEW), shares),
    )
    used = set()
    for image in pictures(12, *SIZE):
        (found, gates), (expected, others) = run(branches, image), run(dense, image)
        np.testing.assert_array_equal(gates, others)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
        used.add(tuple(np.flatnonzero(gates)))
        assert np.isclose(gates.sum(), 1)
    assert {len(experts) for experts in used} == {FEW["chosen"]}
    assert len(used) > 1, "every picture has the same experts"


def test_experts_not_chosen_are_not_read(mixture: onnx.ModelProto, shares: str) -> None:
    image = pictures(1, *SIZE)[0]
    expected, gates = run(session(mixture, shares), image)
    damaged = onnx.ModelProto()
    damaged.CopyFrom(mixture)
    for tensor in damaged.graph.initializer:
        part, _, _ = tensor.name.partition("/")
        if part.startswith("expert") and not gates[0, int(part[6:])]:
            tensor.raw_data = np.full(list(tensor.dims), np.nan, "<f4").tobytes()
    np.testing.assert_array_equal(run(session(damaged), image)[0], expected)


def test_of_equal_shares_those_of_lower_index_are_kept() -> None:
    b = Builder("ties")
    one = session(b.model(b.only_largest(b.input(8, name="image"), 3)))
    for row in ([1, 2, 2, 0, 2, 2, 1, 0], [1] * 8, [0.5, 1, 0.5, 0.5, 0, 0, 0.25, 0.5]):
        shares = np.array([row], np.float32)
        best, kept = choose_experts(shares, 3)
        expected = np.zeros((1, 8))
        np.put_along_axis(expected, best, kept, axis=1)
        np.testing.assert_allclose(run(one, shares)[0], expected, rtol=1e-6)


def test_pictures_leave_where_a_side_is_sure() -> None:
    """A threshold above all entropies lets every picture out, 0 none."""
    images = pictures(12, 32, 32)
    first, second, last = (
        np.array([run(one, image)[0] for image in images])
        for one in (session(b_alexnet.build(sure=sure)) for sure in ((9, 9), (0, 9), (0, 0)))
    )
    shares = [gate(side[:, 0]) for side in (first, second)]
    entropies = [-(p * np.log(p)).sum(axis=1) for p in shares]
    sure = tuple(float(np.median(one)) for one in entropies)
    left = [entropy < limit for entropy, limit in zip(entropies, sure, strict=True)]
    exits = np.where(left[0], 0, np.where(left[1], 1, 2))
    assert set(exits) == {0, 1, 2}
    network = session(b_alexnet.build(sure=sure))
    for k, image in enumerate(images):
        expected = (first, second, last)[exits[k]][k]
        np.testing.assert_array_equal(run(network, image)[0], expected)


def test_parts_behind_an_exit_are_what_a_later_one_costs_more() -> None:
    """What the entry's note says of pictures that leave early."""
    model = b_alexnet.build(weights=False)
    (first,) = (node for node in model.graph.node if node.op_type == "If")
    whole = count(model).macs
    trunk = onnx.ModelProto()
    trunk.CopyFrom(model)
    trunk.graph.node.remove(first)
    assert f"{count(trunk).macs:,}" in b_alexnet.published.notes
    (rest,) = (one.g for one in first.attribute if one.name == "else_branch")
    (second,) = (node for node in rest.node if node.op_type == "If")
    rest.node.remove(second)
    trunk.graph.node.extend(rest.node)
    trunk.graph.value_info.extend(rest.value_info)
    assert f"{count(trunk).macs:,}" in b_alexnet.published.notes
    assert count(trunk).macs < whole


# --- trained on digits ---------------------------------------------------------------------------


def test_a_load_loss_keeps_experts_alive() -> None:
    """With fewer epochs than the page's."""
    try:
        alive, dead = (trained(load=load, epochs=5) for load in (10.0, 0.0))
    except InputError as error:
        pytest.skip(str(error))
    (parts, loss), (others, larger) = loads(alive), loads(dead)
    assert parts.min() > 0.05 and others.min() < 0.01
    assert loss < larger / 10
    assert percent(alive, CHOSEN) > 90
    assert percent(alive, CHOSEN) > percent(alive, 1)
    classes = alive.classes(digits().test[:40], CHOSEN)
    for dense in (False, True):
        network = session(model_of(alive, dense=dense))
        for image, expected in zip(digits().test, classes, strict=False):
            assert run(network, image[None].astype(np.float32), "x")[0].argmax() == expected


# --- by csdfgen ------------------------------------------------------------------------------------


def executed(frame: Any) -> int:
    """Multiply-accumulates of the last run: those of layers whose firings were not left out."""
    plan = frame.plan
    left = {plan.order[number][0] for number in frame.left_out}
    return sum(
        get_operator(layer).cost(layer, Rows(0, layer.output.rows))
        for layer in plan.network.layers
        if layer.op_type in ("Conv", "Gemm") and layer.name not in left
    )


def test_chosen_experts_alone_are_computed(mixture: onnx.ModelProto) -> None:
    """As in onnxruntime; 298,041,104 multiply-accumulates are left of 939,757,328 in the whole network."""
    plan = csdfgen.plan(csdfgen.load(mixture))
    network, frame = session(mixture), runtime.compile(plan)
    expert = "expert0/"
    one = sum(
        get_operator(layer).cost(layer, Rows(0, layer.output.rows))
        for layer in plan.network.layers
        if layer.op_type in ("Conv", "Gemm") and expert in layer.name
    )
    whole = count(mixture).macs
    for image in pictures(6, *SIZE):
        np.testing.assert_allclose(
            *frame(image).values(), *run(network, image), rtol=1e-3, atol=1e-6
        )
        assert executed(frame) == whole - (FEW["experts"] - FEW["chosen"]) * one
    assert sum(yes for yes, _ in frame.branches.values()) == 6 * FEW["chosen"]


def test_pictures_that_leave_early_take_less() -> None:
    model = b_alexnet.build()
    network, frame = session(model), runtime.compile(csdfgen.plan(csdfgen.load(model)))
    found = set()
    rng = np.random.default_rng(4)
    for _ in range(20):
        image = rng.uniform(-1, 1, (1, 3, 32, 32)).astype(np.float32)
        (want,) = run(network, image)
        np.testing.assert_allclose(frame(image)["scores"], want, rtol=1e-3, atol=1e-4)
        found.add(f"{executed(frame):,}")
    assert len(found) == 3
    notes = f"{b_alexnet.published.notes} {b_alexnet.published.macs:,}"
    assert all(one in notes for one in found)
