"""Sums that become bytes by integers alone (`--requantize integer`): the true product, rounded; the same bytes whatever
computes them; a step from those of float at most; and no floating point in the code of such layers.
"""

from __future__ import annotations

import re
import subprocess
from fractions import Fraction
from functools import cache
from math import floor
from pathlib import Path

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.native.build import STANDARD
from csdfgen.backends.native.generate import SOURCES, write
from csdfgen.backends.native.library import load
from csdfgen.backends.native.ways import Ways
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.ops.integers import multipliers
from csdfgen.planning.plan import Plan
from csdfgen.planning.plan_file import read_plan, write_plan
from runtime.session import Executable
from tests.board_networks import absent, feeds_of, integers
from tests.emitted import Program
from tests.native_steps import compiler_missing
from tests.unit.test_byte_winograd import MACHINES, random_layer

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
@pytest.mark.parametrize("machine", MACHINES)
def test_native_code_has_the_same_bytes(machine: str) -> None:
    """At any height, with any number of threads, by fewer products too."""
    x = feeds_of(planned("integer", backend="numpy"), 0)
    for pairs in (False, True):
        kernels = NativeKernels(load(MACHINES[machine]), ways=Ways(pairs=pairs))
        for rows in (1, "auto", "whole"):
            plan = planned("integer", backend="native", rows=rows)
            for threads in (1, 2):
                (found,) = Executable(plan, kernels=kernels, threads=threads)(x).values()
                np.testing.assert_array_equal(found, right())


@needs_compiler
@pytest.mark.parametrize("machine", ["-march=native", "-DCSDF_SCALAR"])
def test_emitted_code_has_the_same_bytes(machine: str, tmp_path: Path) -> None:
    program = Program(
        planned("integer", backend="native"), tmp_path, target="host", machine=machine
    )
    assert "kernels/rescale_integers.c" in program.emitted.files
    (found,) = program(feeds_of(program.plan, 0)).values()
    np.testing.assert_array_equal(found, right())


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


def test_no_floating_point_in_the_code_of_integer_layers(tmp_path: Path) -> None:
    """For a processor without it, compilers call functions named __aeabi_f..., and __aeabi_d... for double."""
    absent("arm-none-eabi-gcc", "arm-none-eabi-nm")
    write(tmp_path)
    called = {}
    for name in ("conv_bytes", "depthwise_bytes", "rescale_integers", "rescale"):
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
        names = subprocess.run(
            ["arm-none-eabi-nm", "-u", str(made)], check=True, capture_output=True, text=True
        ).stdout
        called[name] = re.findall(r"__aeabi_(?:[fdi]2|[fd])\w+|__aeabi_\w*2[fd]\w*", names)
    assert called.pop("rescale")  # floats are found where there are some
    assert not any(called.values()), called
