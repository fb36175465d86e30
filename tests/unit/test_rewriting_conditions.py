"""A rule that breaks a condition of the rewritings is named, whichever condition it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import csdfgen
from csdfgen.model.network import Layer, Network, Output, Tensor
from csdfgen.rewriting import fuse as rewriting
from csdfgen.rewriting.conditions import BrokenRewritingError, check_network
from csdfgen.rewriting.fuse import apply_in_the_producers_slab, fuse, merge_pairs
from tests.models import model
from zoo_models import ZOO

RNG = np.random.default_rng(2)
WEIGHTS = {
    "w": RNG.normal(size=(4, 3, 3, 3)).astype(np.float32),
    "b": RNG.normal(size=4).astype(np.float32),
    "two": np.array(2, np.float32),
    "halves": np.array([2, 2]),
}


def network_of(nodes: str, outputs: str = "y") -> Network:
    used = {name: array for name, array in WEIGHTS.items() if f" {name}" in nodes}
    return csdfgen.load(model(f"g (float[1,3,8,8] x) => ({outputs}) {{ {nodes} }}", used))


CONV_RELU = "c = Conv <pads = [1,1,1,1]> (x, w, b)  y = Relu(c)"
CONV_RELU_MUL = "c = Conv <pads = [1,1,1,1]> (x, w, b)  r = Relu(c)  y = Mul(r, two)"


def joined(producer: Layer, layer: Layer, **changes: Any) -> Layer:
    """A Relu in the producer's slab, but for what is changed."""
    merged = apply_in_the_producers_slab(producer, layer)
    assert merged is not None
    return replace(merged, **changes)


def other_output(**changes: Any) -> Callable[[Layer, Layer], Layer]:
    def rule(producer: Layer, layer: Layer) -> Layer:
        return joined(producer, layer, outputs=(replace(layer.output, **changes),))

    return rule


def with_constant(position: int, array: np.ndarray) -> Callable[[Layer, Layer], Layer]:
    def rule(producer: Layer, layer: Layer) -> Layer:
        constants = MappingProxyType({**producer.constants, position: array})
        return joined(producer, layer, constants=constants)

    return rule


def loses_a_weight(producer: Layer, layer: Layer) -> Layer:
    return joined(producer, layer, constants=MappingProxyType({2: producer.constants[2]}))


def reads_too_much(producer: Layer, layer: Layer) -> Layer:
    more = Tensor("elsewhere", (1, 3, 8, 8))
    return joined(producer, layer, inputs=(*producer.inputs, more), input_axes=(2, None, None, 2))


def reads_nothing(producer: Layer, layer: Layer) -> Layer:
    return joined(producer, layer, inputs=(None, None, None))


def reads_what_is_between(producer: Layer, layer: Layer) -> Layer:
    return joined(producer, layer, inputs=layer.inputs, input_axes=layer.input_axes)


def forgets_an_axis(producer: Layer, layer: Layer) -> Layer:
    return joined(producer, layer, input_axes=producer.input_axes[:1])


def is_renamed(producer: Layer, layer: Layer) -> Layer:
    return joined(producer, layer, name="somebody")


def forgets_a_node(producer: Layer, layer: Layer) -> Layer:
    return joined(producer, layer, onnx_nodes=producer.onnx_nodes)


def swaps_nodes(producer: Layer, layer: Layer) -> Layer:
    return joined(producer, layer, onnx_nodes=(*layer.onnx_nodes, *producer.onnx_nodes))


PAIRS: list[tuple[Callable[[Layer, Layer], Layer], str]] = [
    (other_output(name="z"), r"makes 'z' .*, 'y' .* is wanted"),
    (other_output(shape=(1, 4, 8, 9)), r"makes 'y' float32 1x4x8x9 .*1x4x8x8"),
    (other_output(row_axis=None), r"\(row axis None\), .*\(row axis 2\) is wanted"),
    (reads_too_much, r"reads elsewhere, x, x is wanted"),
    (reads_nothing, r"reads nothing, x is wanted"),
    (reads_what_is_between, r"reads c, x is wanted"),
    (forgets_an_axis, r"has 1 row axes for 3 inputs"),
    (with_constant(0, WEIGHTS["b"]), r"input 0 is both computed and a constant"),
    (
        with_constant(1, WEIGHTS["w"].astype(np.float64)),
        r"constant 1 of 'Conv_0' is float64, float32 is wanted",
    ),
    (
        with_constant(7, np.zeros(4, np.float16)),
        r"constant 7 of 'Conv_0' is float16, float32 is wanted",
    ),
    (loses_a_weight, r"constant 1 of 'Conv_0' is lost"),
    (is_renamed, r"is named 'somebody', neither 'Conv_0' nor 'Relu_1'"),
    (forgets_a_node, r"ONNX nodes Conv_0, Conv_0, Relu_1 is wanted"),
    (swaps_nodes, r"stands for the ONNX nodes"),
]


@pytest.mark.parametrize(("rule", "said"), PAIRS)
def test_a_broken_rule_is_named(rule: Callable[[Layer, Layer], Layer], said: str) -> None:
    match = rf"^rewriting '{rule.__name__}' at 'Relu_1': .*{said}"
    with pytest.raises(BrokenRewritingError, match=match) as caught:
        merge_pairs(network_of(CONV_RELU), [rule])
    assert isinstance(caught.value, AssertionError) and "\n" not in str(caught.value)
    assert caught.value.rule == rule.__name__


def test_the_element_type_of_an_output_is_kept() -> None:
    def casts(producer: Layer, layer: Layer) -> Layer:
        (wrong,) = network_of("y = Cast <to = 11> (x)").layers[0].outputs
        return joined(producer, layer, outputs=(replace(wrong, shape=layer.output.shape),))

    with pytest.raises(BrokenRewritingError, match=r"makes 'y' float64 .*, 'y' float32 .*wanted$"):
        merge_pairs(network_of(CONV_RELU), [casts])


def test_what_was_applied_to_a_slab_stays_applied() -> None:
    def forgets_the_slab(producer: Layer, layer: Layer) -> Layer | None:
        if layer.op_type != "Mul":
            return apply_in_the_producers_slab(producer, layer)
        return joined(producer, layer, epilogue=(replace(layer, epilogue=()),))

    match = "'forgets_the_slab' at 'Mul_2': 'Relu_1', which was applied to a slab, is applied no"
    with pytest.raises(BrokenRewritingError, match=match):
        merge_pairs(network_of(CONV_RELU_MUL), [forgets_the_slab])


def test_no_reader_of_another_output_is_lost() -> None:
    def takes_a_split(producer: Layer, layer: Layer) -> Layer | None:
        if producer.op_type != "Split":
            return None
        nodes = (*producer.onnx_nodes, *layer.onnx_nodes)
        return replace(producer, outputs=layer.outputs, onnx_nodes=nodes)

    nodes = "a, z = Split <axis = 2> (x)  y = Relu(a)"
    match = "'takes_a_split' at 'Relu_1': 'z', another output of 'Split_0', is made no more"
    with pytest.raises(BrokenRewritingError, match=match):
        merge_pairs(network_of(nodes, "y, z"), [takes_a_split])


# Whole networks ---------------------------------------------------------------------------------

NODES = "c = Conv <pads = [1,1,1,1]> (x, w, b)  i = Identity(c)  r = Relu(i)  y = Add(r, i)"


def without(network: Network, *names: str) -> tuple[Layer, ...]:
    return tuple(layer for layer in network.layers if layer.name not in names)


def changed(network: Network, name: str, **changes: Any) -> tuple[Layer, ...]:
    return tuple(
        replace(layer, **changes) if layer.name == name else layer for layer in network.layers
    )


def breaks(**changes: Callable[[Network], Any]) -> Callable[[Network], Network]:
    return lambda network: replace(network, **{k: f(network) for k, f in changes.items()})


def _of_row_axis(network: Network, axis: int | None) -> Tensor:
    tensor = network.outputs[0].tensor
    assert tensor is not None
    return replace(tensor, row_axis=axis)


def _of_type(network: Network, dtype: str) -> Tensor:
    tensor = network.outputs[0].tensor
    assert tensor is not None
    return replace(tensor, format=replace(tensor.format, dtype=dtype))


def _of_identity(network: Network) -> tuple[Layer, ...]:
    """Without the Identity, but only one of its two readers reads what it read."""
    c = network.layers[0].output
    rest = without(network, "Identity_1")
    return (rest[0], replace(rest[1], inputs=(c,)), *rest[2:])


NETWORKS: list[tuple[Callable[[Network], Network], str]] = [
    (
        breaks(inputs=lambda n: (replace(n.inputs[0], name="q"),)),
        r"the inputs are 'q' .*, 'x' .* are wanted",
    ),
    (breaks(outputs=lambda n: ()), r"the outputs are nothing, y are wanted"),
    (
        breaks(outputs=lambda n: (replace(n.outputs[0], tensor=_of_type(n, "float64")),)),
        r"output 'y' is 'y' float64 .*, 'y' float32 .* is wanted",
    ),
    (
        breaks(outputs=lambda n: (replace(n.outputs[0], tensor=n.inputs[0]),)),
        r"output 'y' is 'x' float32 1x3x8x8 .*, 'y' float32 1x4x8x8 .* is wanted",
    ),
    (
        breaks(outputs=lambda n: (replace(n.outputs[0], tensor=_of_row_axis(n, 3)),)),
        r"output 'y' is 'y' .*\(row axis 3\), 'y' .*\(row axis 2\) is wanted",
    ),
    (
        breaks(outputs=lambda n: (Output("y", None, np.zeros(3)),)),
        r"output 'y' is a constant, 'y' float32 1x4x8x8 .* is wanted",
    ),
    (breaks(layers=lambda n: without(n, "Add_3")), r"output 'y' is made by no layer"),
    (breaks(layers=lambda n: n.layers[::-1]), r"'Add_3' reads 'r' before it is made"),
    (breaks(layers=lambda n: without(n, "Relu_2")), r"'Add_3' reads 'r' before"),
    (breaks(layers=_of_identity), r"'Add_3' reads 'i' before"),
    (breaks(layers=lambda n: (n.layers[0], *n.layers)), r"'c' is made twice"),
    (
        breaks(layers=lambda n: changed(n, "Add_3", inputs=(n.layers[2].output, None))),
        r"0 layers are gone with 1 reads, each has one of its own",
    ),
    (
        breaks(layers=lambda n: changed(n, "Relu_2", onnx_nodes=("Conv_0",))),
        r"ONNX node 'Conv_0' is in 2 layers, 1 before",
    ),
]


@pytest.mark.parametrize(("broken", "said"), NETWORKS)
def test_a_broken_pass_is_named(broken: Callable[[Network], Network], said: str) -> None:
    network = network_of(NODES)
    check_network("nothing", network, network)
    with pytest.raises(BrokenRewritingError, match=rf"^rewriting 'a pass' at 'g': {said}"):
        check_network("a pass", network, broken(network))


def test_only_nodes_that_hand_on_their_input_may_vanish() -> None:
    network = network_of(NODES)
    identity = network.layers[1]
    dropped = rewriting.drop_identities(network)
    assert "Identity_1" not in {name for layer in dropped.layers for name in layer.onnx_nodes}
    with pytest.raises(BrokenRewritingError, match="ONNX node 'Identity_1' is in 0 layers, 1 bef"):
        check_network("a pass", network, dropped)
    assert identity.op_type in rewriting.PASSED_ON


def test_only_nodes_of_parts_may_be_in_several_layers() -> None:
    network = network_of(CONV_RELU)
    conv, relu = network.layers
    part = replace(conv, name="part", outputs=(replace(conv.output, name="p"),))
    twice = replace(network, layers=(conv, part, relu))
    nodes = frozenset(conv.onnx_nodes)
    check_network("parts", network, twice, may_repeat=nodes)
    with pytest.raises(BrokenRewritingError, match="is in 2 layers, 1 before"):
        check_network("parts", network, twice, may_repeat=frozenset(relu.onnx_nodes))
    lost = replace(network, layers=(conv, replace(relu, onnx_nodes=conv.onnx_nodes)))
    with pytest.raises(BrokenRewritingError, match="is in 0 layers, 1 before"):
        check_network("parts", network, lost, may_repeat=nodes)


def test_both_passes_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    monkeypatch.setattr(rewriting, "check_network", lambda name, *_, **__: checked.append(name))
    monkeypatch.setattr(rewriting, "check_pair", lambda name, *_: checked.append(name))
    fuse(network_of(CONV_RELU), "full")
    # what changes nothing needs no check: there is no identity to drop
    assert checked == ["apply_in_the_producers_slab", "merge_pairs"]


def test_a_slab_is_kept_when_a_network_is_rewritten_again() -> None:
    """A BatchNormalization with a Relu in its slab once went into the Conv without it."""
    network = csdfgen.load(ZOO["resnet8"].build(weights=False))
    once = merge_pairs(network, [_on_normalization])
    assert any(x.op_type == "BatchNormalization" and x.epilogue for x in once.layers)
    twice = fuse(once, "full")
    applied = [e.op_type for x in twice.layers for e in x.epilogue]
    assert applied.count("Relu") == sum(x.op_type == "Relu" for x in network.layers)


def _on_normalization(producer: Layer, layer: Layer) -> Layer | None:
    """A Relu in the slab of a BatchNormalization, and nothing else."""
    if (producer.op_type, layer.op_type) != ("BatchNormalization", "Relu"):
        return None
    return apply_in_the_producers_slab(producer, layer)
