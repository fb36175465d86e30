"""The account of memory is exact: as in what is executed, and as the linker of emitted code has it."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from benchmarks.bench_boards import ram, sections
from csdfgen.backends.native.structures import PANEL
from csdfgen.emission.account import account_memory
from csdfgen.emission.emit import emitted_account
from csdfgen.emission.targets import STACK, TARGETS
from csdfgen.planning.plan import Plan
from tests.board_networks import NETWORKS, absent, feeds_of
from tests.emitted import Program
from tests.models import model as small_model
from tests.models import onnxruntime_outputs
from tests.native_steps import compiler_missing
from tests.quantized_models import quantized
from zoo_models import ZOO

needs_compiler = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

TINY = [name for name, entry in ZOO.items() if entry.family == "MLPerf Tiny"]


@cache
def plan_of(name: str, form: str) -> Plan:
    model = ZOO[name].build()
    model = quantized(model, "QDQ") if form == "int8" else model
    return csdfgen.plan(csdfgen.load(model), backend="native", goal="memory")


@needs_compiler
@pytest.mark.networks
@pytest.mark.parametrize(("name", "form"), list(product(TINY, ("float32", "int8"))))
def test_the_account_is_what_the_linker_says(name: str, form: str, tmp_path: Path) -> None:
    board = TARGETS["cortex-m7"].board
    assert board is not None
    absent(TARGETS["cortex-m7"].compiler, "make")
    plan = plan_of(name, form)
    account = emitted_account(plan, STACK)
    program = Program(plan, tmp_path / "c", target="cortex-m7")
    file = program.folder / "small.map"
    items, there = ram(file, board), sections(file)
    assert account.constants == there[".constants"][1]
    linked = file.read_text().partition("Linker script and memory map")[2]
    tables = re.findall(r"^ \.rodata\.\S+\s+0x0*([1-9a-f]\w*)\s+(0x\w+) .*small\.o", linked, re.M)
    assert account.program == sum(int(size, 16) for _, size in tables)
    assert account.arena <= items["small.o: arena"] < account.arena + 8
    assert account.inputs + account.outputs == items["main.o: data"]
    assert account.stack == items["stack"]


@pytest.mark.parametrize("weights", ["copied", "mapped"])
@pytest.mark.parametrize("backend", ["numpy", pytest.param("native", marks=needs_compiler)])
@pytest.mark.parametrize("name", ["everything", "integers"])
def test_nothing_is_packed_for_the_account(name: str, backend: str, weights: str) -> None:
    """It is that of the compiled program, which computes what it should."""
    plan = csdfgen.plan(csdfgen.load(NETWORKS[name]()), backend=backend, weights=weights)
    account = account_memory(plan)
    program = runtime.compile(plan)
    assert program.account == account == account_memory(plan)
    assert account.total == account.constants + account.program + plan.total_bytes
    assert (account.program > 0) is (backend == "native")
    feeds = feeds_of(plan, 0)
    for output, wanted in onnxruntime_outputs(NETWORKS[name](), feeds).items():
        np.testing.assert_allclose(program(feeds)[output], wanted, rtol=0, atol=1e-4)


def single_layer(rng: np.random.Generator) -> tuple[onnx.ModelProto, int]:
    """A convolution, or a product of a matrix or a map, and the bytes of its weights, with zeros where it has no bias."""
    kind, groups = rng.choice(["Conv", "Gemm", "map"]), int(rng.choice([1, 1, 2, 3, 7, 24]))
    ins, outs, high, wide = (int(n) for n in (*rng.integers(1, 70, 2), *rng.integers(1, 6, 2)))
    given: dict[str, np.ndarray] = {}
    bias = ", b" if rng.random() < 0.5 else ""
    if kind == "Conv":
        ins, outs = ins // groups + 1, groups * (outs // groups + 1)
        given["w"] = np.ones((outs, ins, high, wide), np.float32)
        read = f"1, {groups * ins}, 9, 9"
        nodes = f"y = Conv<group={groups}, strides=[1, {rng.integers(1, 3)}]>(x, w{bias})"
    elif kind == "Gemm":
        read, given["w"] = f"5, {ins}", np.ones((ins, outs), np.float32)
        nodes = f"y = Gemm(x, w{bias})"
    else:
        read, given["w"] = f"1, {ins}, 4, 3", np.ones((12 * ins, outs), np.float32)
        nodes = f"f = Flatten(x) y = Gemm(f, w{bias})"
    if bias:
        given["b"] = np.ones(outs, np.float32)
    made = ", ".join("NCHW") if kind == "Conv" else "N, C"
    text = f"g (float[{read}] x) => (float[{made}] y) {{ {nodes} }}"
    return small_model(text, given), given["w"].nbytes + 4 * outs


@needs_compiler
@pytest.mark.parametrize("seed", range(60))
def test_weights_take_no_more_than_a_vector_behind_the_last(seed: int) -> None:
    """Of any number of outputs, in any number of groups: vectors of weights and of biases are read whole."""
    model, own = single_layer(np.random.default_rng(seed))
    account = account_memory(csdfgen.plan(csdfgen.load(model), backend="native"))
    assert own <= account.constants <= own + 2 * 4 * (PANEL - 1)
