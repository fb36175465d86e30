"""The formulas of paper 003: quantizers, integer arithmetic, experts, blob reuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.expert_gate import choose_experts, gate, load_loss, mix_outputs
from csdfgen.errors import InputError
from csdfgen.paper.formulas.integers import (
    Factor,
    multiply_separated,
    relu,
    rescale_sums,
    round_sums,
    shift_bits,
)
from csdfgen.paper.formulas.quantizers import (
    Quantizer,
    Range,
    Tap,
    choose_zero_point,
    pseudo_quantize,
)
from csdfgen.paper.formulas.reuse import Reuse, assign_buffers


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int8"])
@pytest.mark.parametrize("ends", [(-273.0, 999.0), (-1.0, 0.0), (0.0, 6.0), (-1e-9, 1e-9)])
def test_binned_values_are_at_most_a_step_away(dtype: str, ends: tuple[float, float]) -> None:
    """Half a step of rounding, and half of the zero point's own at the ends."""
    quantizer = Quantizer.of(Range(*ends), dtype)
    values = np.linspace(*ends, 1001)
    away = np.abs(pseudo_quantize(values, quantizer) - values).max()
    assert away <= quantizer.scale * 1.0001
    assert pseudo_quantize(np.zeros(1), quantizer)[0] == 0  # padding stays what it is
    inner = values[50:-50]
    assert np.abs(pseudo_quantize(inner, quantizer) - inner).max() <= quantizer.scale * 0.5001


def test_halves_go_away_from_zero() -> None:
    assert choose_zero_point(-2.5, 1.0, "uint8") == 3
    assert Quantizer(1.0, 10, "uint8").integers(np.array([0.5, 1.5, -0.5])).tolist() == [11, 12, 9]


def test_a_range_without_zero_is_cut_off_as_printed() -> None:
    """Formula 1.2 clamps: 10 to 20 is stored as 0 to 10. With 0 in the range nothing is lost."""
    values = np.array([10.0, 20.0])
    assert pseudo_quantize(values, Quantizer.of(Range(10, 20), "uint8")).tolist() == [10.0, 10.0]
    held = pseudo_quantize(values, Quantizer.of(Range(10, 20).with_zero(), "uint8"))
    assert held == pytest.approx(values, abs=0.04)


@pytest.mark.parametrize("value", [0.0, 1.8, -3.25])
def test_a_range_of_no_width_is_legal(value: float) -> None:
    found = Range().observed(np.full(3, value))
    assert pseudo_quantize(np.array([value]), Quantizer.of(found, "uint8")) == pytest.approx(
        [value]
    )


def test_what_cannot_be_quantized_is_told() -> None:
    with pytest.raises(InputError, match="nothing was observed"):
        Quantizer.of(Range(), "uint8")
    with pytest.raises(InputError, match="1 of 3 observed values are not finite"):
        Range().observed(np.array([1.0, np.nan, 2.0]))
    with pytest.raises(InputError, match="mode 'watch' is none of passive"):
        Tap("watch").passed(np.zeros(1))  # type: ignore[arg-type]


def test_four_modes_of_a_tap() -> None:
    values = np.array([-1.0, 0.301, 1.55], np.float32)
    tap, same = Tap().passed(values)
    assert same is values and tap.seen == Range()
    tap, same = replace(tap, mode="observe").passed(values)
    assert same is values and tap.seen == Range(-1.0, float(values[2]))
    _, near = replace(tap, mode="pseudo-quantize").passed(values)
    _, integers = replace(tap, mode="quantize").passed(values)
    assert near.dtype == np.float32 and integers.dtype == np.uint8
    assert near == pytest.approx(Quantizer.of(tap.seen, "uint8").values(integers))


@pytest.mark.parametrize("bits", [7, 15, 31])
def test_a_factor_is_as_good_as_its_bits(bits: int) -> None:
    for real in (1e-6, 0.013, 0.4999, 0.5, 0.75, 0.99999999, 1.0, 1.25, 37.5):
        factor = Factor.of(real, bits)
        assert 2 ** (bits - 1) <= factor.m < 2**bits
        assert abs(factor.value / real - 1) <= 2.0**-bits
    with pytest.raises(InputError, match="above 0"):
        Factor.of(0.0, bits)
    assert shift_bits(1, wide=True) == 31 and shift_bits(2, wide=False) == 7


def test_the_listing_loses_levels() -> None:
    """Factor 1 leaves every second level, 1.25 leaves 97 of 156 (note 9 of the reproduction)."""
    x = np.arange(256)
    assert len(np.unique(relu(x[128:], 128, Factor.of(1.0, 31), 0, "uint8"))) == 64
    assert len(np.unique(relu(x[100:], 100, Factor.of(1.25, 31), 0, "uint8"))) == 97
    assert len(np.unique(round_sums(x[100:] - 100, Factor.of(1.25, 31), 0, "uint8"))) == 156


def test_truncation_goes_towards_zero_before_the_shift() -> None:
    factor = Factor.of(0.75, 15)  # no shift: -5 * .75 = -3.75 is cut to -3
    assert rescale_sums(np.array([-5, 5]), factor, 10, "uint8").tolist() == [7, 13]
    assert round_sums(np.array([-5, 5]), factor, 10, "uint8").tolist() == [6, 14]


def test_the_separated_product_is_the_product_of_differences() -> None:
    rng = np.random.default_rng(0)
    for dtype, high in (("uint8", 256), ("uint16", 65536)):
        a = rng.integers(0, high, (5, 70)).astype(dtype)
        b = rng.integers(0, high, (70, 3)).astype(dtype)
        wanted = (a.astype(np.int64) - 91) @ (b.astype(np.int64) - 7)
        assert np.array_equal(multiply_separated(a, b, 91, 7), wanted)


def test_experts_share_a_sample() -> None:
    rng = np.random.default_rng(1)
    shares = gate(rng.normal(size=(6, 8)))
    assert shares.sum(axis=1) == pytest.approx(np.ones(6))
    best, kept = choose_experts(shares, 3)
    assert kept.sum(axis=1) == pytest.approx(np.ones(6))
    assert (np.take_along_axis(shares, best, 1).min(axis=1) >= np.sort(shares)[:, -3]).all()
    outputs = rng.normal(size=(8, 6, 4))
    alone = sum(kept[2, k] * outputs[best[2, k], 2] for k in range(3))
    assert mix_outputs(shares, 3, outputs)[2] == pytest.approx(alone)
    assert mix_outputs(shares, 8, outputs)[2] == pytest.approx(shares[2] @ outputs[:, 2])
    with pytest.raises(InputError, match="9 of 8 experts"):
        choose_experts(shares, 9)


def test_noise_is_drawn_in_training_alone() -> None:
    wanted = np.zeros((2, 4))
    assert np.array_equal(gate(wanted), np.full((2, 4), 0.25))
    noisy = gate(wanted, np.ones((2, 4)), np.ones((2, 4)), seed=3)
    assert not np.allclose(noisy, 0.25) and noisy.sum(axis=1) == pytest.approx([1, 1])


def test_an_even_load_costs_nothing() -> None:
    best = np.array([[0, 1], [2, 3], [1, 2], [3, 0]])
    assert load_loss(best, 4) == 0
    assert load_loss(np.zeros((4, 1), int), 4) == pytest.approx((0.75**2 + 3 * 0.25**2) / 4)


def test_buffers_of_dead_tensors_are_taken_first_free() -> None:
    sizes = {"x": 5, "a": 9, "b": 2, "c": 4}
    chain = (Reuse(("x",), ("a",)), Reuse(("a",), ("a'",), in_place=True), Reuse(("a'",), ("b",)))
    assert assign_buffers({**sizes, "a'": 9}, (*chain, Reuse(("b",), ("c",))), ["x"]) == (5, 9)


def test_a_second_reader_finds_another_tensor_where_the_first_frees() -> None:
    """As published, x's buffer is taken while the Add still wants x: fewer bytes than are alive."""
    steps = (Reuse(("x",), ("a",)), Reuse(("a",), ("b",)), Reuse(("b", "x"), ("sum",)))
    sizes = {"x": 8, "a": 8, "b": 8, "sum": 8}
    assert sum(assign_buffers(sizes, steps, ["x"], "first")) == 16
    assert sum(assign_buffers(sizes, steps, ["x"], "last")) == 24
