"""With `--requantize integer`, networks of TensorFlow Lite have the bytes of TensorFlow Lite Micro, which rounds twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.native.families import match_family
from csdfgen.backends.native.library import load
from csdfgen.ops.integers import multipliers, shift_exactly
from runtime.session import Executable
from tests.board_networks import absent
from tests.emitted import Program
from tests.native_steps import MACHINES, compiler_missing, on_each_machine
from tests.tflite_files import NO_SCHEMA, Array, settle

pytest.importorskip("tflite", reason=NO_SCHEMA)

from tests.unit.test_tflite import CASES, Net, feeds, wake_words

KEPT = ("ADD_RELU6", "MAXIMUM", "POOL", "RESIZE", "RELU6", "concat", "GATHER", "PAD", "strides")
"""Layers that keep the format of their input, by a part of their names."""

BYTES_ALONE = (
    "AVERAGE_POOL_2D True 1",
    "BATCH_MATMUL True False",
    "HARD_SWISH",
    "MEAN [3] True",
    "MUL scalar",
)
PAIRS = ("ADD", "ADD relu", "MUL", "SQUARED_DIFFERENCE", "SUB")
WINDOWS = (
    "AVERAGE_POOL_2D False 2",
    "MAX_POOL_2D True 2",
    "MEAN [1, 2] True",
    "MEAN [1, 2] False",
    "MEAN [1] False",
)
PRODUCTS = (
    *(
        "conv",
        "conv strides",
        "conv groups",
        "depthwise",
        "depthwise twice",
        "dense",
        "dense of images",
        "dense kept",
    ),
    *("transposed same", "transposed valid", "transposed small", "BATCH_MATMUL True False"),
)
RESIZES = tuple(kind for kind in CASES if kind.startswith("RESIZE_BILINEAR"))
KINDS = {
    "int8": (*PRODUCTS, *BYTES_ALONE, *PAIRS, *WINDOWS, *RESIZES, *(
        "ABS", "GREATER", "LEAKY_RELU", "PRELU", "QUANTIZE", "RELU", "RELU6",
    )),
    "int16": (*PRODUCTS, *PAIRS, *WINDOWS, *(
        "ABS", "LEAKY_RELU", "LOGISTIC", "PRELU", "QUANTIZE", "RELU", "SOFTMAX", "TANH",
    )),
}  # fmt: skip
"""Type -> layers that TensorFlow Lite Micro has in it, but those that only move or compare integers."""

EVERY = [(dtype, kind) for dtype, kinds in KINDS.items() for kind in kinds]


class OtherNet(Net):
    """Formats of inputs and results are drawn, unless a layer has to keep that of its input."""

    def __init__(self, kind: str, seed: int, dtype: str = "int8") -> None:
        super().__init__(dtype)
        self.rng, self.kept = np.random.default_rng(seed), any(one in kind for one in KEPT)
        self.slopes = kind == "PRELU"

    def drawn(self) -> dict[str, Any]:
        wide = self.dtype == "int16"
        return {
            "scale": [
                float(np.float32(2.0 ** self.rng.uniform(*((-13, -9) if wide else (-7, -3)))))
            ],
            "zero": [0 if wide else int(self.rng.integers(-90, 90))],
        }

    def x(self, *shape: int) -> int:
        return super().x(*shape) if self.kept else self.input(shape, self.dtype, **self.drawn())

    def const(self, *shape: int) -> int:
        """Slopes of PRELU are bytes."""
        if not self.slopes or self.dtype == "int8":
            return super().const(*shape)
        return self.constant(self.rng.integers(-128, 128, shape), "int8", scale=[0.01], zero=[5])

    def bias(self, weight: int, size: int, x: int | None = None) -> int:
        """Of 64 bits for activations of 16."""
        x = self.inputs[0] if x is None else x
        scale = np.float32(self.tensors[x].scale[0]) * np.array(
            self.tensors[weight].scale, np.float32
        )
        array = np.rint(self.rng.uniform(-1, 1, size) / scale)
        dtype = "int64" if self.dtype == "int16" else "int32"
        return self.constant(array, dtype, scale=scale, zero=[0] * scale.size)

    def add(self, *given: Any, form: Any = None, **more: Any) -> int:
        form = form if form or self.kept else {self.dtype: self.drawn()}
        return super().add(*given, form=form, **more)


def built(kind: str, seed: int, path: Path, dtype: str = "int8") -> OtherNet:
    net = OtherNet(kind, seed, dtype)
    CASES[kind][1](net)
    settle(path, net)
    return net


def one_after_the_other(total: int, m: int, e: int) -> int:
    """MultiplyByQuantizedMultiplier, as tensorflow/lite/kernels/internal/common.h has it."""
    product = total * (1 << max(e, 0)) * m
    nudge = (1 << 30) if product >= 0 else 1 - (1 << 30)
    high = abs(product + nudge) >> 31
    high = high if product + nudge >= 0 else -high
    right = max(-e, 0)
    mask = (1 << right) - 1
    return (high >> right) + ((high & mask) > (mask >> 1) + (high < 0))


def test_products_are_rounded_twice() -> None:
    rng = np.random.default_rng(0)
    factors = 2.0 ** rng.uniform(-24, 1, 3000)
    factors[:9] = 2.0 ** np.arange(-8.0, 1)
    totals = np.rint(2.0 ** rng.uniform(0, 24, 3000)).astype(np.int64) * rng.choice([-1, 1], 3000)
    totals[:9] = np.arange(-4, 5)
    m, s = multipliers(factors)
    found = shift_exactly(totals, (m, s))
    once = np.floor(totals * factors + 0.5).astype(np.int64)
    for k, (total, factor) in enumerate(zip(totals.tolist(), factors.tolist(), strict=True)):
        fraction, e = np.frexp(factor)
        assert found[k] == one_after_the_other(total, round(float(fraction) * 2**31), int(e))
    apart = np.abs(found - once)
    assert apart[apart <= 1].sum() > 0 and np.all(apart[np.abs(once) < 2**14] <= 1)


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
@on_each_machine
def test_native_code_has_the_same_bytes(
    machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("csdfgen.backends.native.threads._WORTH", 1)
    kernels = NativeKernels(load(MACHINES[machine]))
    for seed, (dtype, kind) in enumerate(EVERY):
        net = built(kind, seed, tmp_path / "one.tflite", dtype)
        network = csdfgen.load(tmp_path / "one.tflite")
        feed = dict(zip((t.name for t in network.inputs), feeds(net), strict=True))
        (wanted,) = runtime.run(
            csdfgen.plan(network, backend="numpy", requantize="integer"), feed
        ).values()
        plan = csdfgen.plan(network, backend="native", requantize="integer")
        (found,) = Executable(plan, kernels=kernels, threads=2)(feed).values()
        np.testing.assert_array_equal(found, wanted)


BOARD = (
    *(
        ("int8", kind)
        for kind in ("PRELU", "RESIZE_BILINEAR False True (8, 10)", "transposed same")
    ),
    *(("int16", kind) for kind in ("conv", "SOFTMAX", "TANH")),
)


@pytest.mark.networks
@pytest.mark.parametrize(("dtype", "kind"), BOARD)
def test_emitted_code_has_the_same_bytes(dtype: str, kind: str, tmp_path: Path) -> None:
    absent("arm-none-eabi-gcc", "qemu-system-arm", "make")
    net = built(kind, 1, tmp_path / "one.tflite", dtype)
    network = csdfgen.load(tmp_path / "one.tflite")
    plan, other = (
        csdfgen.plan(network, backend=backend, requantize="integer", goal="memory")
        for backend in ("native", "numpy")
    )
    feed = dict(zip((t.name for t in network.inputs), feeds(net), strict=True))
    found = Program(plan, tmp_path / "board", target="cortex-m7")(feed)
    for name, array in runtime.run(other, feed).items():
        np.testing.assert_array_equal(found[name], array)


# Compared with TensorFlow Lite Micro --------------------------------------------------------------


def micro(path: Path) -> Any:
    module = pytest.importorskip(
        "tflite_micro.python.tflite_micro.runtime", reason="tflite-micro is not installed"
    )
    return module.Interpreter.from_file(str(path), arena_size=1 << 20)


def invoked(interpreter: Any, given: list[Array]) -> Array:
    for k, array in enumerate(given):
        interpreter.set_input(array, k)
    interpreter.invoke()
    return np.array(interpreter.get_output(0))


@pytest.mark.parametrize(("dtype", "kind"), EVERY)
def test_layers_have_its_bytes(dtype: str, kind: str, tmp_path: Path) -> None:
    for seed in range(3):
        net = built(kind, seed, tmp_path / "one.tflite", dtype)
        interpreter = micro(tmp_path / "one.tflite")
        network = csdfgen.load(tmp_path / "one.tflite")
        compiled = runtime.compile(csdfgen.plan(network, requantize="integer"))
        for _ in range(8):
            given = feeds(net)
            (found,) = compiled(
                dict(zip((t.name for t in network.inputs), given, strict=True))
            ).values()
            np.testing.assert_array_equal(found, invoked(interpreter, given))


def sound(steps: int, shape: tuple[int, ...]) -> Iterator[Array]:
    """Features as of speech: formants that move, syllables, noise."""
    rng = np.random.default_rng(3)
    bands = np.arange(shape[-1])
    for time in range(steps):
        formants = 9 + 6 * np.sin(time / 23), 24 + 8 * np.sin(time / 11 + 1)
        loud = 90 * np.clip(np.sin(time / 5), 0, 1)
        line = sum(loud * np.exp(-(((bands - f) / 3) ** 2)) for f in formants) - 128
        noise = rng.integers(0, 50, shape)
        yield np.clip(line + noise, -128, 127).astype(np.int8)


@pytest.mark.skipif(not wake_words(), reason="pymicro-wakeword is not installed")
@pytest.mark.parametrize("path", wake_words(), ids=lambda path: path.stem)
def test_ten_seconds_of_networks_that_listen(path: Path) -> None:
    """Step by step, each of 30 ms, with the states of the one before. Kernels of bytes compute all of it."""
    interpreter, network, states = micro(path), csdfgen.load(path), csdfgen.read_states(path)
    plan = csdfgen.plan(network, requantize="integer")
    sums = [layer for layer in plan.network.layers if layer.op_type.startswith("Q")]
    assert len(sums) > 9 and all(match_family(layer) for layer in sums)
    compiled = runtime.compile(plan)
    feed = {name: state.initial for name, state in states.items()}
    (x,) = (t for t in network.inputs if t.name not in states)
    kept = {state.output for state in states.values()}
    (name,) = (t.name for t in network.outputs if t.name not in kept)
    for given in sound(334, x.shape):
        made = compiled({**feed, x.name: given})
        feed = {key: np.array(made[state.output]) for key, state in states.items()}
        np.testing.assert_array_equal(made[name], invoked(interpreter, [given]))


@pytest.mark.networks
@pytest.mark.skipif(not wake_words(), reason="pymicro-wakeword is not installed")
@pytest.mark.parametrize("target", ["cortex-m7", "cortex-m55"])
def test_a_network_that_listens_on_a_board(target: str, tmp_path: Path) -> None:
    """States are outputs of a step and inputs of the next one; their first values are in the file."""
    absent("arm-none-eabi-gcc", "qemu-system-arm", "make")
    path = wake_words()[-1]
    network, states = csdfgen.load(path), csdfgen.read_states(path)
    plans = [
        csdfgen.plan(network, backend=backend, requantize="integer", goal="memory")
        for backend in ("native", "numpy")
    ]
    program, compiled = Program(plans[0], tmp_path, target=target), runtime.compile(plans[1])
    feed = {name: state.initial for name, state in states.items()}
    (x,) = (t for t in network.inputs if t.name not in states)
    for given in sound(4, x.shape):
        found, wanted = (made({**feed, x.name: given}) for made in (program, compiled))
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array)
        feed = {key: found[state.output] for key, state in states.items()}
    assert any(np.any(value != states[key].initial) for key, value in feed.items())
