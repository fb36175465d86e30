"""Sums that become bytes by integers alone (`--requantize integer`): the true product, rounded; the same bytes whatever
computes them; a step from those of float at most; and no floating point in the code of such layers.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import floor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import csdfgen
import runtime
from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.native.build import STANDARD
from csdfgen.backends.native.generate import SOURCES, write
from csdfgen.backends.native.library import load
from csdfgen.backends.native.ways import Ways
from csdfgen.backends.registry import load_backend
from csdfgen.lowering.program import lower
from csdfgen.model.network import Layer, Network
from csdfgen.model.options import PlanOptions
from csdfgen.ops._operands import set_attributes
from csdfgen.ops.integers import (
    get_scale,
    get_zero,
    limits,
    multipliers,
    rescale_factor,
    use_shifts,
    uses_shifts,
)
from csdfgen.ops.quantized_maps import pair_table
from csdfgen.planning.plan import Plan
from csdfgen.planning.plan_file import read_plan, write_plan
from runtime.session import Executable
from tests.board_networks import absent, feeds_of, integers
from tests.command import execute
from tests.emitted import Program
from tests.native_steps import MACHINES, compiler_missing, on_each_machine
from tests.unit.test_byte_averages import WINDOWS, pool
from tests.unit.test_byte_winograd import random_layer
from tests.unit.test_native_bytes import Case

needs_compiler = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")


@cache
def network() -> Network:
    return csdfgen.load(integers())


def planned(requantize: str, **options: object) -> Plan:
    return csdfgen.plan(network(), requantize=requantize, **options)


@cache
def right() -> np.ndarray:
    """What numpy computes."""
    plan = planned("integer", backend="numpy")
    (found,) = runtime.compile(plan)(feeds_of(plan, 0)).values()
    return found


def test_multipliers_give_the_true_product_rounded_upwards() -> None:
    rng = np.random.default_rng(0)
    factors = np.float32(2.0 ** rng.uniform(-40, 34, 400))
    factors[:3] = 0.5, 1.0, 2.0**-12  # with ties
    sums = np.concatenate([rng.integers(-(2**31), 2**31, 397), [1, 3, -1]])
    sums[3:200] >>= rng.integers(0, 31, 197)
    for factor, m, s, total in zip(factors, *multipliers(factors), sums, strict=True):
        assert 1 <= s <= 62 and 0 <= m < 2**31
        for whole in (int(total), -1, 0, 1, 6144):
            made = (whole * int(m) + 2 ** (int(s) - 1)) >> int(s)
            assert abs(whole * int(m) + 2 ** (int(s) - 1)) < 2**63
            true = floor(whole * Fraction(float(factor)) + Fraction(1, 2))
            # beyond every byte it is enough to be beyond
            assert made == true or (min(abs(made), abs(true)) > 2**17 and made * true > 0)


def test_the_plan_keeps_what_it_was_made_for(tmp_path: Path) -> None:
    plan = planned("integer", backend="numpy")
    assert plan.options.to_json()["requantize"] == "integer"
    assert "requantize" not in PlanOptions().to_json()
    path = tmp_path / "plan.json"
    write_plan(path, planned("integer", backend="numpy"))
    assert read_plan(path).options.requantize == "integer"


@needs_compiler
@on_each_machine
def test_native_code_has_the_same_bytes(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At any height, with any number of threads, by fewer products too."""
    monkeypatch.setattr("csdfgen.backends.native.threads._WORTH", 1)
    x = feeds_of(planned("integer", backend="numpy"), 0)
    for pairs in (False, True):
        kernels = NativeKernels(load(MACHINES[machine]), ways=Ways(pairs=pairs))
        for rows in (1, "auto", "whole"):
            plan = planned("integer", backend="native", rows=rows)
            for threads in (1, 2):
                (found,) = Executable(plan, kernels=kernels, threads=threads)(x).values()
                np.testing.assert_array_equal(found, right())


@pytest.mark.networks
@needs_compiler
@pytest.mark.parametrize("machine", ["-march=native", "-DCSDF_SCALAR"])
def test_emitted_code_has_the_same_bytes(machine: str, tmp_path: Path) -> None:
    program = Program(
        planned("integer", backend="native"), tmp_path, target="host", machine=machine
    )
    assert "kernels/rescale_integers.c" in program.emitted.files
    (found,) = program(feeds_of(program.plan, 0)).values()
    np.testing.assert_array_equal(found, right())


@pytest.mark.networks
def test_a_step_from_float_at_most() -> None:
    """Where float32 has rounded the sum, or the product to a tie, and in ties; that is rare."""
    apart = []
    for seed in range(12):
        model, x = random_layer(seed)
        one = csdfgen.load(model)
        both = [
            runtime.compile(csdfgen.plan(one, backend="numpy", requantize=way))({"x": x})["y"]
            for way in ("float", "integer")
        ]
        apart.append(np.abs(both[0].astype(int) - both[1]).reshape(-1))
    steps = np.concatenate(apart)
    assert steps.max() <= 1
    assert steps.mean() < 1e-4


def of_two(op_type: str, seed: int) -> Network:
    """A layer on two maps of 256 x 256 bytes, with factors up to 128 times each other."""
    case = Case(seed)
    dtype = case.rng.choice(["int8", "uint8"])
    inputs = []
    for name in "ab":
        scale = np.float32(0.01 * 2.0 ** case.rng.uniform(-3.5, 3.5))
        inputs += [name, case.constant(scale), case.constant(case.bytes_of(dtype, ()))]
    largest = 0.02 if op_type == "QLinearAdd" else 0.1
    inputs += [
        case.constant(np.float32(case.rng.uniform(largest / 10, largest))),
        case.constant(case.bytes_of(dtype, ())),
    ]
    node = helper.make_node(op_type, inputs, ["y"], domain="com.microsoft")
    shape = (dtype, (1, 1, 256, 256))
    model = case.model(node, shape, shape)
    model.graph.input[0].name = "a"
    second = model.graph.input.add()
    second.CopyFrom(model.graph.input[0])
    second.name = "b"
    return csdfgen.load(model)


def true_value(layer: Layer, a: int, b: int) -> Fraction:
    """Of two bytes, before it is rounded, by the factors in float32."""
    x, y = a - get_zero(layer, "x"), b - get_zero(layer, "w")
    if layer.op_type == "QLinearMul":
        return x * y * Fraction(float(rescale_factor(layer)))
    fs = [Fraction(float(get_scale(layer, r) / get_scale(layer, "y"))) for r in "xw"]
    return fs[0] * x + fs[1] * y


@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_two_bytes_become_the_true_one(op_type: str) -> None:
    """Rounded to the nearest, ties upwards; the smaller factor of a sum may have lost what is below 2^-20 of a step."""
    apart = []
    for seed in range(10):
        (layer,) = of_two(op_type, seed).layers
        every = np.arange(256, dtype=np.uint8).view(layer.output.dtype).astype(int)
        found = pair_table(use_shifts(layer)).astype(int).reshape(256, 256)
        low, high = limits(layer.output.dtype)
        for k, j in Case(seed).rng.integers(0, 256, (400, 2)):
            value = true_value(layer, int(every[k]), int(every[j])) + Fraction(1, 2)
            near = {
                min(max(floor(value + e) + get_zero(layer, "y"), low), high)
                for e in (-(Fraction(1, 2**20)), Fraction(1, 2**20))
            }
            assert found[k, j] in near
        apart.append(np.abs(found.reshape(-1) - pair_table(layer)))
    steps = np.concatenate(apart)
    assert steps.max() <= 1
    assert steps.mean() < 1e-4


def test_sums_of_terms_far_beyond_bytes_stay_as_they_are() -> None:
    (layer,) = of_two("QLinearAdd", 0).layers
    form = replace(layer.attributes["y"], scale=(1e-7,))
    wide = set_attributes(layer, y=form)
    assert uses_shifts(use_shifts(layer))
    assert not uses_shifts(use_shifts(wide))


@needs_compiler
@on_each_machine
@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_native_code_has_the_bytes_of_the_table(op_type: str, machine: str) -> None:
    """For every pair of bytes."""
    kernels = NativeKernels(load(MACHINES[machine]))
    for seed in range(4):
        network = of_two(op_type, seed)
        (layer,) = network.layers
        every = np.arange(256, dtype=np.uint8).view(layer.output.dtype)
        a, b = np.meshgrid(every, every, indexing="ij")
        plan = csdfgen.plan(network, backend="native", requantize="integer")
        (found,) = Executable(plan, kernels=kernels)(
            {"a": a[None, None], "b": b[None, None]}
        ).values()
        np.testing.assert_array_equal(found.reshape(-1), pair_table(use_shifts(layer)))


@needs_compiler
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", sorted(WINDOWS))
def test_averages(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of windows: numpy and native code have the same bytes, on two threads, too, which are the true average, rounded."""
    monkeypatch.setattr("csdfgen.backends.native.threads._WORTH", 1)
    shape, attributes = WINDOWS[name]
    network = csdfgen.load(pool(shape, dtype, attributes))
    info = np.iinfo(dtype)
    x = {"x": np.random.default_rng(8).integers(info.min, info.max + 1, shape).astype(dtype)}
    by_float = runtime.compile(csdfgen.plan(network, backend="numpy"))(x)["y"].astype(int)
    for rows in (1, 2, "whole"):
        for backend in ("numpy", "native"):
            plan = csdfgen.plan(network, rows=rows, backend=backend, requantize="integer")
            if backend == "native":
                used = {one.kernel for one in lower(plan, load_backend("native")).instructions}
                assert used & {"average_integers_of", "sum_integers_of"}, used
            found = runtime.compile(plan, threads=2)(x)["y"].astype(int)
            if rows == 1 and backend == "numpy":
                want = found
                assert np.abs(want - by_float).max() <= 1
                assert np.mean(want != by_float) < 0.01
            np.testing.assert_array_equal(found, want)


@needs_compiler
def test_an_average_of_a_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all its pixels, on two threads, too."""
    monkeypatch.setattr("csdfgen.backends.native.threads._WORTH", 1)
    model = pool((1, 64, 5, 7), "uint8", {})
    (node,) = model.graph.node
    del node.attribute[:]
    node.op_type = "QLinearGlobalAveragePool"
    network = csdfgen.load(model)
    x = {"x": np.random.default_rng(6).integers(0, 256, (1, 64, 5, 7)).astype(np.uint8)}
    plans = [
        csdfgen.plan(network, rows=2, backend=one, requantize="integer")
        for one in ("numpy", "native")
    ]
    used = {one.kernel for one in lower(plans[1], load_backend("native")).instructions}
    assert "sum_integers_of" in used, used
    (want,) = runtime.compile(plans[0])(x).values()
    for threads in (1, 2):
        (found,) = runtime.compile(plans[1], threads=threads)(x).values()
        np.testing.assert_array_equal(found, want)


def without_ends() -> onnx.ModelProto:
    """The network without the layers that make bytes of floats and floats of bytes."""
    model = onnx.ModelProto()
    model.CopyFrom(integers())
    graph = model.graph
    ends = [n for n in graph.node if n.op_type in ("QuantizeLinear", "DequantizeLinear")]
    first, last = ends
    for node in ends:
        graph.node.remove(node)
    kind = onnx.TensorProto.INT8
    found = [(first.output[0], (1, 3, 20, 14)), (last.input[0], (1, 10))]
    for ports, (name, shape) in zip((graph.input, graph.output), found, strict=True):
        del ports[:]
        ports.append(helper.make_tensor_value_info(name, kind, shape))
    return model


@pytest.mark.networks
def test_a_network_on_a_cortex_m3(tmp_path: Path) -> None:
    """Sums, products, averages, joins: no function of the compiler for floating point is there that it could call."""
    absent("arm-none-eabi-gcc", "qemu-system-arm", "make")
    network = csdfgen.load(without_ends())
    (tensor,) = network.inputs
    x = np.random.default_rng(0).integers(-128, 128, tensor.shape).astype(np.int8)
    plan = csdfgen.plan(network, backend="native", requantize="integer", goal="memory")
    (want,) = runtime.compile(csdfgen.plan(network, backend="numpy", requantize="integer"))(
        {tensor.name: x}
    ).values()
    program = Program(plan, tmp_path / "integer", target="cortex-m7", machine=M3, linked=MAKE)
    (found,) = program({tensor.name: x}).values()
    np.testing.assert_array_equal(found, want)
    plain = csdfgen.plan(network, backend="native", goal="memory")
    program = Program(plain, tmp_path / "float", target="cortex-m7", machine=M3, linked=MAKE)
    with pytest.raises(AssertionError, match="met a fault"):
        program({tensor.name: x})


M3 = "-mcpu=cortex-m3 -mthumb -mfloat-abi=soft -DCSDF_SCALAR"
FLOATS = (
    *("fadd", "fsub", "frsub", "fmul", "fdiv", "f2iz", "i2f", "fcmpeq", "fcmplt", "fcmple", "fcmpge", "fcmpgt"),
    *("dadd", "dsub", "dmul", "ddiv", "d2iz", "i2d", "f2d", "d2f", "l2f", "f2lz", "l2d", "d2lz"),
)  # fmt: skip
MAKE = (
    f"TARGET={M3}",
    "QEMU=qemu-system-arm -M mps2-an385 -display none -monitor none -serial none",
    "LDFLAGS=-Wl,--gc-sections " + " ".join(f"-Wl,--defsym=__aeabi_{one}=0" for one in FLOATS),
)
"""Makefile's variables: a Cortex-M3 that stops where it calls one of these functions."""


def test_no_floating_point_in_the_code_of_integer_layers(tmp_path: Path) -> None:
    """For a processor without it, compilers call functions named __aeabi_f..., and __aeabi_d... for double."""
    absent("arm-none-eabi-gcc", "arm-none-eabi-nm")
    write(tmp_path)
    called = {}
    for name in (
        *("conv_bytes", "depthwise_bytes", "rescale_integers", "map_integers", "pool_integers"),
        "map_twice",
        *("rescale", "map_bytes"),
    ):
        made = tmp_path / f"{name}.o"
        command = [
            "arm-none-eabi-gcc",
            *STANDARD,
            "-O2",
            "-mcpu=cortex-m3",
            "-mthumb",
            "-DCSDF_SCALAR",
        ]
        command += [
            f"-I{tmp_path}",
            f"-I{SOURCES}",
            "-c",
            str(SOURCES / f"{name}.c"),
            "-o",
            str(made),
        ]
        subprocess.run(command, check=True)
        names = execute("arm-none-eabi-nm", "-u", made, check=True).stdout
        called[name] = re.findall(r"__aeabi_(?:[fdi]2|[fd])\w+|__aeabi_\w*2[fd]\w*", names)
    for name in ("rescale", "map_bytes"):
        assert called.pop(name)  # floats are found where there are some
    assert not any(called.values()), called
