"""Convolutions by products of pairs of bfloat16 or float16: the bits of float32's kernels on widened slabs,
whatever the layer, its slabs, its threads and the processor.
"""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import csdfgen
import runtime
from csdfgen.backends import registry
from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.native.build import STANDARD, WARNINGS, find_compiler
from csdfgen.backends.native.families import match_family
from csdfgen.backends.native.families.widened import Widened
from csdfgen.backends.native.generate import SOURCES, write
from csdfgen.backends.native.library import load
from csdfgen.backends.native.packing import pack_paired_conv_weights
from csdfgen.backends.native.prebuilt import has_slow_pairs
from csdfgen.backends.native.ways import Ways
from csdfgen.lowering.program import lower
from csdfgen.model.network import Network
from csdfgen.planning.plan import Plan
from runtime.session import Executable
from tests.board_networks import absent
from tests.emitted import Program
from tests.native_steps import MACHINES, compiler_missing, on_each_machine
from tests.networks import planned_together
from tests.unit.test_bfloat16 import graph_of
from tests.ways import some

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

PAIRS = {"bfloat16": "conv_bf16_of", "float16": "conv_f16_of"}
"""Type -> its kernel."""

HERE = pytest.mark.parametrize(
    "machine",
    [
        *on_each_machine.args[1],
        pytest.param(
            "pairs", marks=pytest.mark.skipif(not has_slow_pairs(), reason="the host's are these")
        ),
    ],
)
"""Each machine, and the processor's products of pairs where the host does without, since they are slow."""

FORMS = pytest.mark.parametrize("form", PAIRS)


def kernels_of(machine: str, halves: bool) -> NativeKernels:
    """Those that multiply pairs, whether that suits the processor or not, and those that widen; no sums of other products."""
    return NativeKernels(
        load(MACHINES[machine]), ways=Ways(True, bfloat16=halves - 1, float16=halves - 1)
    )


def _with_room() -> NativeKernels:
    """Those whose plans have room for values, also on a processor that multiplies pairs."""
    return NativeKernels(load(), ways=Ways(True))


def random(form: str, rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(form)


def graph(
    form: str, nodes: Sequence[onnx.NodeProto], x: np.ndarray, given: Mapping[str, np.ndarray]
) -> onnx.ModelProto:
    """From x to y."""
    of = getattr(TensorProto, form.upper())
    return graph_of(nodes, x.shape, of, of, given)


def random_layer(seed: int, form: str) -> tuple[onnx.ModelProto, np.ndarray]:
    """A Conv, or a ConvTranspose, with what follows it in the slab, and its input; some values are infinite."""
    rng = np.random.default_rng(seed)
    kind = "ConvTranspose" if seed % 5 == 4 else "Conv"
    groups, ins, outs = (int(rng.integers(*of)) for of in ((1, 3), (16, 70), (1, 90)))
    taps, strides, dilations = (
        [int(n) for n in rng.integers(1, most, 2)] for most in (4, 3, 3)
    )  # fmt: skip
    if seed == 3:
        taps, ins = [5, 2], 1301  # channels in two passes
    pads = [int(n) for n in rng.integers(0, 2, 4)]
    if kind == "ConvTranspose":
        taps, dilations = [max(n, s) for n, s in zip(taps, strides, strict=True)], [1, 1]
        w = random(form, rng, ins * groups, outs, *taps)
    else:
        w = random(form, rng, outs * groups, ins, *taps)
    x = random(form, rng, 1, ins * groups, *(int(n) for n in rng.integers(8, 18, 2)))
    x[0, 0, 3, 3] = np.inf
    given = {"w": (w.astype(np.float32) / 8).astype(form), "b": random(form, rng, outs * groups)}
    node = helper.make_node(
        kind, ["x", "w", "b"], ["c"],
        kernel_shape=taps, strides=strides, dilations=dilations, pads=pads, group=groups,
    )  # fmt: skip
    relu = helper.make_node("Relu", ["c"], ["y"])
    return graph(form, [node, relu], x, given), x


def kernels_in(plan: Plan, kernels: NativeKernels) -> set[str]:
    return {one.kernel for one in lower(plan, kernels).instructions}


def planned(network: Network, heights: Sequence[object]) -> list[Plan]:
    """Plans at these heights, which are executed by any kernels."""
    room = _with_room()
    return [csdfgen.plan(network, rows=one, backend="native", kernels=room) for one in heights]


@cache
def planned_layer(seed: int, form: str) -> tuple[list[Plan], np.ndarray]:
    """A random layer, for all machines."""
    model, x = random_layer(seed, form)
    return planned(csdfgen.load(model), (1, 3, "whole")), x


def check(form: str, plans: Sequence[Plan], x: np.ndarray, machine: str) -> None:
    """The same bits by both ways, by these plans, with one thread and two."""
    found = []
    for halves in (False, True):
        kernels = kernels_of(machine, halves)
        for plan, threads in product(plans, (1, 2)):
            made = Executable(plan, kernels=kernels, threads=threads)
            used = {one.kernel for one in made._bound.program.instructions}
            assert (PAIRS[form] in used) is halves
            found.append(made({"x": x})["y"].view(np.uint16).copy())
    assert len(np.unique(found[0])) > 10
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@FORMS
@HERE
@pytest.mark.parametrize(
    "seeds", [range(10), pytest.param(range(10, some(30, 60)), marks=pytest.mark.networks)]
)
def test_random_layers(
    seeds: range, machine: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("csdfgen.backends.native.threads._WORTH", 1000)
    for seed in seeds:
        check(form, *planned_layer(seed, form), machine)


@FORMS
@HERE
def test_several_images_in_a_step(machine: str, form: str) -> None:
    """They are taken one by one."""
    model, x = random_layer(5, form)
    del model.graph.node[1]  # the Relu
    model.graph.node[0].output[0] = "y"
    network = csdfgen.load(model, batch=3)
    (layer,) = network.layers
    together = planned_together(network, 2, {layer.name: 3}, 3, backend="native")
    kernels = kernels_of(machine, True)
    assert PAIRS[form] in kernels_in(together, kernels)
    images = [np.roll(x, k, -1) for k in range(3)]
    found = Executable(together, kernels=kernels)({"x": np.concatenate(images)})["y"]
    plan = csdfgen.plan(csdfgen.load(model), backend="native", kernels=_with_room())
    alone = Executable(plan, kernels=kernels_of(machine, False))
    want = np.concatenate([alone({"x": one})["y"].copy() for one in images])
    np.testing.assert_array_equal(found.view(np.uint16), want.view(np.uint16))


def joined(sizes: tuple[int, ...], form: str) -> tuple[onnx.ModelProto, np.ndarray]:
    """A Conv of what a Concat joins, which lies apart."""
    rng = np.random.default_rng(1)
    given = {f"w{k}": random(form, rng, size, 16, 1, 1) for k, size in enumerate(sizes)}
    given["w"] = random(form, rng, 20, sum(sizes), 3, 3)
    names = [f"p{k}" for k in range(len(sizes))]
    nodes = [helper.make_node("Conv", ["x", f"w{k}"], [name]) for k, name in enumerate(names)]
    nodes.append(helper.make_node("Concat", names, ["joined"], axis=1))
    nodes.append(helper.make_node("Conv", ["joined", "w"], ["y"], pads=[1, 0, 1, 2]))
    x = random(form, rng, 1, 16, 9, 11)
    return graph(form, nodes, x, given), x


@FORMS
@pytest.mark.parametrize("sizes", [(18, 7), (17, 8), (600, 30)])
@HERE
def test_channels_of_two_tensors(machine: str, sizes: tuple[int, int], form: str) -> None:
    """No pair has channels of both: behind an odd number of them, slabs are widened."""
    model, x = joined(sizes, form)
    check(form, planned(csdfgen.load(model), (1, 3, "whole")), x, machine)


@FORMS
def test_channels_of_many_tensors(form: str) -> None:
    """They are read in two passes, alike on processors that multiply pairs and on others."""
    model, x = joined((6,) * 9, form)
    network, found = csdfgen.load(model), []
    for machine in ("host", "scalar"):
        kernels = kernels_of(machine, True)
        plan = csdfgen.plan(network, rows=3, backend="native", kernels=kernels)
        assert PAIRS[form] in kernels_in(plan, kernels)
        found.append(Executable(plan, kernels=kernels)({"x": x})["y"].view(np.uint16).copy())
    np.testing.assert_array_equal(*found)


@FORMS
def test_zeros_keep_their_sign(form: str) -> None:
    """Sums that are continued from one run of pairs to the next: negative zeros stay such."""
    rng = np.random.default_rng(3)
    given = {"w": -np.abs(random(form, rng, 48, 70, 3, 3)), "b": random(form, rng, 48)}
    given["b"][::2] *= 0
    assert np.signbit(given["b"][::2].astype(np.float32)).any()
    x = np.zeros((1, 70, 9, 10), form)
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1])
    network = csdfgen.load(graph(form, [node], x, given))
    check(form, planned(network, (1, "whole")), x, "host")


@FORMS
def test_planes_and_few_channels(form: str) -> None:
    """Planes are pieces; one of few channels is widened."""
    rng = np.random.default_rng(2)
    weights = {"w": random(form, rng, 9, 20, 3, 3, 2)}
    for kind in ("direct", "odd", "few"):
        if kind == "odd":
            weights["w"] = weights["w"][:, :19]
        if kind == "few":
            weights["w"] = weights["w"][:, :7, :1, 1:2]
        x = random(form, rng, 1, weights["w"].shape[1], 6, 7, 8)
        node = helper.make_node("Conv", ["x", "w"], ["y"])
        model = graph(form, [node], x, weights)
        network = csdfgen.load(model)
        found = []
        for halves in (False, True):
            kernels = kernels_of("host", halves)
            for rows in (1, "whole"):
                plan = csdfgen.plan(network, rows=rows, backend="native", kernels=_with_room())
                assert (PAIRS[form] in kernels_in(plan, kernels)) is (halves and kind == "direct")
                found.append(Executable(plan, kernels=kernels)({"x": x})["y"].view(np.uint16))
        for other in found[1:]:
            np.testing.assert_array_equal(other, found[0])


@HERE
@pytest.mark.parametrize(
    "layer",
    [
        (32, 3, 1, 1),
        (40, 3, 2, 1),
        (300, 5, 1, 1),
        (7, 7, 1, 1),
        (33, 3, 1, 2),
        (16, 8, 1, 1),
        (16, 9, 1, 1),
    ],
    ids=str,
)
def test_depthwise_layers_of_bfloat16(
    machine: str, layer: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bits of widened values; windows of more taps than the kernel takes, and float16, are widened."""
    monkeypatch.setattr("csdfgen.backends.native.threads._WORTH", 1000)
    channels, size, stride, dilation = layer
    rng, form = np.random.default_rng(sum(layer)), "bfloat16"
    x = random(form, rng, 1, channels, 19, 21)
    x[0, 0, 3, 3] = np.inf
    given = {"w": random(form, rng, channels, 1, size, size), "b": random(form, rng, channels)}
    node = helper.make_node(
        "Conv", ["x", "w", "b"], ["c"], group=channels, pads=[size // 2] * 4,
        kernel_shape=[size] * 2, strides=[stride] * 2, dilations=[dilation] * 2,
    )  # fmt: skip
    network = csdfgen.load(graph(form, [node, helper.make_node("Relu", ["c"], ["y"])], x, given))
    found = []
    for halves in (False, True):
        kernels = kernels_of(machine, halves)
        for rows in (1, 3, "whole"):
            plan = csdfgen.plan(network, rows=rows, backend="native", kernels=_with_room())
            own = "depthwise_bf16_of" in kernels_in(plan, kernels)
            assert own is (halves and size**2 <= 64)
            for threads in (1, 2):
                y = Executable(plan, kernels=kernels, threads=threads)({"x": x})["y"]
                found.append(y.view(np.uint16).copy())
    assert len(np.unique(found[0])) > 10
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@HERE
@pytest.mark.parametrize(
    "layer", [(3, 20, 3, 2), (3, 33, 7, 2), (1, 16, 8, 1), (12, 7, 2, 1)], ids=str
)
def test_few_channels_of_bfloat16_are_pairs_across_taps(
    machine: str, layer: tuple[int, int, int, int]
) -> None:
    """First layers: windows that see padding at the left or right, and windows that are one run a row."""
    ins, outs, size, stride = layer
    rng, form = np.random.default_rng(sum(layer)), "bfloat16"
    x = random(form, rng, 1, ins, 17, 18)
    given = {"w": random(form, rng, outs, ins, size, size), "b": random(form, rng, outs)}
    node = helper.make_node(
        "Conv", ["x", "w", "b"], ["c"], pads=[size // 2] * 4,
        kernel_shape=[size] * 2, strides=[stride] * 2,
    )  # fmt: skip
    relu = helper.make_node("Relu", ["c"], ["y"])
    network = csdfgen.load(graph(form, [node, relu], x, given))
    check(form, planned(network, (1, 3, "whole")), x, machine)


SUITS = "bf16_suits", "f16_suits"


@pytest.fixture
def suited(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if this processor multiplied pairs, so that plans have no room to widen."""
    for name in SUITS:
        monkeypatch.setattr(load(), name, 0)
    registry._made.cache_clear()
    yield
    registry._made.cache_clear()


def small(form: str) -> tuple[onnx.ModelProto, np.ndarray]:
    """Layers in a row, one of an odd number of channels; the first rows are small numbers."""
    rng = np.random.default_rng(4)
    shapes = {"a": (33, 16, 3, 3), "b": (24, 33, 2, 3), "c": (40, 24, 1, 1)}
    given = {name: random(form, rng, *shape) for name, shape in shapes.items()}
    given = {name: (w.astype(np.float32) / 12).astype(form) for name, w in given.items()}
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["p"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["p"], ["q"]),
        helper.make_node("Conv", ["q", "b"], ["r"], strides=[2, 1], dilations=[1, 2]),
        helper.make_node("Conv", ["r", "c"], ["y"]),
    ]
    x = random(form, rng, 1, 16, 15, 14)
    x[:, :, :5] *= np.array(2**-17, form)  # subnormal numbers of float16
    return graph(form, nodes, x, given), x


@FORMS
def test_few_outputs_are_computed_in_vectors_along_sums(form: str) -> None:
    rng = np.random.default_rng(0)
    for outputs, suits in ((3, -1), (48, 0)):
        given = {"w": random(form, rng, outputs, 64, 3, 3)}
        node = helper.make_node("Conv", ["x", "w"], ["y"])
        network = csdfgen.load(graph(form, [node], random(form, rng, 1, 64, 9, 9), given))
        family = match_family(network.layers[0], Ways(bfloat16=0, float16=0))
        assert isinstance(family, Widened) and family.suits == suits


@FORMS
@pytest.mark.usefixtures("suited")
def test_plans_have_no_room_to_widen_and_run_everywhere(form: str) -> None:
    model, x = small(form)
    network = csdfgen.load(model)
    plan = csdfgen.plan(network, rows=3, backend="native")
    got = runtime.compile(plan)({"x": x})["y"].view(np.uint16).copy()
    for name in SUITS:
        setattr(load(), name, -1)
    registry._made.cache_clear()
    wide = csdfgen.plan(network, rows=3, backend="native", exact=True)
    assert plan.figures["arena"] < wide.figures["arena"]
    for one in (wide, plan):
        np.testing.assert_array_equal(runtime.compile(one)({"x": x})["y"].view(np.uint16), got)


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [((40, 63, 1, 1), {"conv_of"}), ((40, 64, 1, 1), {"pairs"}), ((40, 64, 3, 3), {"pairs"})],
)
@FORMS
def test_weights_in_two_bytes(form: str, shape: tuple[int, ...], wanted: set[str]) -> None:
    """By steps that add up products, although there is room to widen; code for other processors widens there."""
    rng = np.random.default_rng(6)
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    x = random(form, rng, 1, shape[1], 40, 40)
    network = csdfgen.load(graph(form, [node], x, {"w": random(form, rng, *shape)}))
    kernels = NativeKernels(load(), ways=Ways(bfloat16=40 * 64, float16=40 * 64))
    plan = csdfgen.plan(network, rows=4, backend="native", kernels=NativeKernels(load()))
    names = {"conv_of": "conv_of", PAIRS[form]: "pairs"}
    assert {names[one] for one in kernels_in(plan, kernels) & names.keys()} == wanted
    assert PAIRS[form] not in kernels_in(plan, kernels.anywhere())


@pytest.mark.usefixtures("suited")
@pytest.mark.parametrize(
    ("form", "machine"),
    [
        ("bfloat16", "-march=armv8.6-a"),
        ("float16", "-march=armv8.2-a+fp16fml"),
        *(pytest.param(form, "-march=armv8-a", marks=pytest.mark.networks) for form in PAIRS),
    ],
)
def test_arm(form: str, machine: str, tmp_path: Path) -> None:
    """BFMLALT and BFMLALB, FMLAL and FMLAL2, and a processor without them, have the bits of this one."""
    absent("aarch64-linux-gnu-gcc", "qemu-aarch64")
    model, x = small(form)
    plan = csdfgen.plan(csdfgen.load(model), rows=3, backend="native", kernels=_with_room())
    want = runtime.compile(plan)({"x": x})["y"].view(np.uint16)
    start = ["qemu-aarch64", "-cpu", "max"]
    program = Program(
        plan, tmp_path / "c", target="aarch64", machine=machine, linked=["-static"], start=start
    )
    np.testing.assert_array_equal(program({"x": x})["y"].view(np.uint16), want)


@pytest.mark.networks
@pytest.mark.parametrize("machine", ["cooperlake", "znver4", "sapphirerapids"])
def test_processors_that_multiply_pairs(machine: str, tmp_path: Path) -> None:
    """As many products are in the code as blocks have, and nothing is widened."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip(f"a processor of another kind: {platform.machine()}")
    write(tmp_path)
    flags = ["-O1", "-Werror", f"-march={machine}", f"-I{tmp_path}", "-S"]
    command = [*STANDARD, *WARNINGS, *flags, "-o", str(tmp_path / "made.s")]
    code, _, said = find_compiler().run([*command, SOURCES / "conv_bf16.c"])
    if "unknown" in said or "bad value" in said:
        pytest.skip(f"the compiler knows no {machine}")
    assert (code, said) == (0, "")
    text = (tmp_path / "made.s").read_text()
    assert text.count("vdpbf16ps") > 1000 and "vfmadd" not in text


@pytest.mark.networks
@pytest.mark.parametrize(
    ("form", "machine", "products", "widening"),
    [
        ("bf16", "armv8.6-a", ("bfmlalt", "bfmlalb"), "shl"),
        ("f16", "armv8.2-a+fp16fml", ("fmlal", "fmlal2"), "fcvtl"),
    ],
)
def test_arm_processors_that_multiply_pairs(
    form: str, machine: str, products: Sequence[str], widening: str, tmp_path: Path
) -> None:
    """As many products are in the code as blocks have, nothing is widened, and the largest block stores no sum."""
    absent("aarch64-linux-gnu-gcc")
    write(tmp_path)
    command = f"aarch64-linux-gnu-gcc -O2 -w -march={machine} -I{tmp_path} -S -o -".split()
    command += [*STANDARD, str(SOURCES / f"conv_{form}.c")]
    text = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True).stdout
    words = [line.split()[0] for line in text.splitlines() if line.startswith("\t")]
    assert widening not in words
    for word in products:
        assert words.count(word) > 1000
    largest = text[text.index("\nrun_4x6:") : text.index(".size\trun_4x6")].splitlines()
    first = next(k for k, line in enumerate(largest) if line.startswith(f"\t{products[0]}"))
    last = max(k for k, line in enumerate(largest) if line.startswith(f"\t{products[1]}"))
    assert not [line for line in largest[first:last] if line.startswith("\tst") and "q" in line]


def test_weights_of_pairs() -> None:
    """The first channel of a pair is the upper half; -0 fills up. Of float16 there are four of each. Behind the panel of
    sixteen outputs of a group comes one of the last, of float16 of four.
    """
    weights = random("bfloat16", np.random.default_rng(0), 34, 5, 2, 3)
    packed = pack_paired_conv_weights(weights, 2)
    terms = 2 * 3 * 3
    assert packed.size == 34 * terms + 15 and not packed[34 * terms :].any()
    wide, narrow = np.split(packed[: 34 * terms].reshape(2, 17 * terms), [16 * terms], axis=1)
    wide, narrow = wide.reshape(2, 2, 3, 3, 16), narrow.reshape(2, 2, 3, 3, 1)
    bits = weights.view(np.uint16)
    assert wide[1, 1, 2, 1, 4] == int(bits[21, 2, 1, 2]) << 16 | int(bits[21, 3, 1, 2])
    assert narrow[0, 0, 1, 2, 0] == int(bits[16, 4, 0, 1]) << 16 | 0x8000
    fours = pack_paired_conv_weights(weights.astype(np.float16), 2).view(np.uint16)
    assert fours.size == 2 * (40 * terms + 12)
    wide, narrow = np.split(fours[: 80 * terms].reshape(2, 40 * terms), [32 * terms], axis=1)
    wide, narrow = wide.reshape(2, 2, 3, 3, 4, 2, 4), narrow.reshape(2, 2, 3, 3, 1, 2, 4)
    bits = weights.astype(np.float16).view(np.uint16)
    assert [*wide[1, 1, 2, 1, 1, :, 2]] == [*bits[17 + 6, 2:4, 1, 2]]
    assert [*narrow[0, 0, 1, 2, 0, :, 0]] == [bits[16, 4, 0, 1], 0x8000]


@FORMS
@HERE
@pytest.mark.parametrize("kind", ["MatMul", "Gemm", "one row"])
def test_matrices(kind: str, machine: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of a matrix is a pixel; of a single one, weights are widened in registers as before."""
    monkeypatch.setattr("csdfgen.backends.native.threads._WORTH", 1000)
    rng = np.random.default_rng(5)
    rows = 1 if kind == "one row" else 29
    given = {"w": random(form, rng, 77, 100) if kind != "Gemm" else random(form, rng, 100, 77)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"])]
    if kind == "Gemm":
        given["b"] = random(form, rng, 100)
        nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["p"], transB=1)]
    elif kind == "MatMul":
        given["a"] = random(form, rng, 100)
        nodes += [helper.make_node("Add", ["p", "a"], ["q"])]
    nodes.append(helper.make_node("Relu", ["q" if kind == "MatMul" else "p"], ["y"]))
    # images come one by one, so that a Gemm of several is one of single rows
    x = random(form, rng, rows, 77) if kind == "Gemm" else random(form, rng, 1, rows, 77)
    model = graph(form, nodes, x, given)
    network = csdfgen.load(model)
    found = []
    for halves in (False, True):
        kernels = kernels_of(machine, halves)
        for height in (1, 5, "whole"):
            plan = csdfgen.plan(network, rows=height, backend="native", kernels=_with_room())
            pairs = halves and kind == "MatMul" and height != 1
            assert (PAIRS[form] in kernels_in(plan, kernels)) is pairs
            for threads in (1, 2):
                y = Executable(plan, kernels=kernels, threads=threads)({"x": x})["y"]
                found.append(y.view(np.uint16).copy())
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@FORMS
def test_of_a_tensor_without_rows_no_more_is_widened_than_a_part_reads(form: str) -> None:
    rng = np.random.default_rng(7)
    x, w = random(form, rng, 1, 61, 77), random(form, rng, 77, 100)
    network = csdfgen.load(
        graph(form, [helper.make_node("MatMul", ["x", "w"], ["y"])], x, {"w": w})
    )
    assert network.inputs[0].row_axis is None
    plan = csdfgen.plan(network, backend="native")
    assert plan.figures["workspace"] <= np.dtype("float32").itemsize * 8 * (77 + 100)
    got = Executable(plan)({"x": x})["y"].astype(np.float32)
    want = x.astype(np.float32) @ w.astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=1e-2, atol=1e-2)
