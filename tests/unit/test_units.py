"""Sizes and times as people type them: what is understood, and what is refused with the way out."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csdfgen.errors import InputError, name_options_as_flags
from csdfgen.model.kinds import parse_effort, parse_factor
from csdfgen.model.options import DEFAULTS, PlanOptions
from csdfgen.model.units import (
    SIZES,
    TIMES,
    format_size,
    format_time,
    parse_size,
    parse_time,
)


@pytest.mark.parametrize(
    ("text", "bytes"),
    [
        ("512KB", 512_000),
        ("512kB", 512_000),
        ("512KiB", 524_288),
        ("1.5MiB", 1_572_864),
        ("2MB", 2_000_000),
        ("1GB", 10**9),
        ("1GiB", 2**30),
        ("7B", 7),
        ("4096", 4096),
        (" 4096 ", 4096),
        ("1 KiB", 1024),
        ("1e3", 1000),
        (".5KiB", 512),
        (4096, 4096),
        (4096.9, 4096),
    ],
)
def test_sizes_that_are_understood(text: Any, bytes: int) -> None:
    assert parse_size(text) == bytes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20ms", 0.02), ("0.5s", 0.5), ("300us", 3e-4), ("5ns", 5e-9), ("2", 2.0), (0.25, 0.25)],
)
def test_times_that_are_understood(text: Any, seconds: float) -> None:
    assert parse_time(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "wrong",
    ["512Kb", "512K", "512 kib", "MiB", "-1KiB", "nan", "inf", "1e999", "", "0", "0.5", "x" * 999, "1,5MB",
     "٣KB", "1MB2", -1, 0, 0.0, math.nan, math.inf, -math.inf, True, None, [1], b"1", 10**400, "5ms"],
)  # fmt: skip
def test_what_is_no_size_is_one_line_with_the_units(wrong: Any) -> None:
    with pytest.raises(InputError) as error:
        parse_size(wrong)
    said = str(error.value)
    assert (
        said.startswith(("memory=", "memory is not a finite"))
        and "\n" not in said
        and len(said) < 400
    )
    assert all(f" {unit}" in said for unit in SIZES)


def test_what_has_no_end_is_not_shown_as_inf() -> None:
    with pytest.raises(InputError, match=r"^memory is not a finite number; a number above 0"):
        parse_size(1e400)


@pytest.mark.parametrize("wrong", ["20", "20m", "20MB", "-1ms", "nan", "0s", 0, -1, math.nan, None])
def test_what_is_no_time_is_one_line_with_the_units(wrong: Any) -> None:
    if wrong == "20":
        assert parse_time(wrong) == 20  # alone a number of seconds, in a text as well
        return
    with pytest.raises(InputError) as error:
        parse_time(wrong)
    assert all(unit in str(error.value) for unit in TIMES)


def test_errors_speak_of_flags_on_the_command_line() -> None:
    with (
        name_options_as_flags(),
        pytest.raises(InputError, match=r"^--memory 5XB: 'XB' is no unit"),
    ):
        parse_size("5XB")


@given(st.integers(1, 2**60))
def test_a_size_that_is_shown_is_read_as_no_less(size: int) -> None:
    assert size <= parse_size(format_size(size)) < size + 1024


@given(st.floats(1e-8, 1e6))
def test_a_time_that_is_shown_is_read_as_no_less(seconds: float) -> None:
    again = parse_time(format_time(seconds))
    assert seconds * (1 - 1e-6) <= again <= seconds * 1.02


# Options ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kept"),
    [("low", "low"), (30, "30s"), ("30", "30s"), ("30s", "30s"), ("250ms", "0.25s"), (0.5, "0.5s")],
)
def test_effort_is_a_word_or_seconds(given: Any, kept: str) -> None:
    assert parse_effort(given) == kept
    assert PlanOptions(effort=given).effort == kept


@pytest.mark.parametrize("wrong", ["lots", "", "-1", 0, math.nan, None, 1e300, "1h", True])
def test_an_effort_that_is_none_is_one_line(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"^effort=.*low, normal, high, or seconds above 0"):
        parse_effort(wrong)


@pytest.mark.parametrize(
    "wrong", ["x", "", 0, 0.99, -2, math.nan, math.inf, "inf", None, True, 10**400]
)
def test_a_factor_below_one_is_one_line(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"^recompute=.* a factor from 1"):
        parse_factor(wrong)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("goal", "small", "balanced, memory, speed, throughput"), ("pack", "best", "fast, exact"),
     ("result", "none", "auto, stored, arena, streamed")],
)  # fmt: skip
def test_words_that_do_not_exist_are_one_line(name: str, value: str, words: str) -> None:
    with pytest.raises(InputError, match=f"^{name}='{value}': not one of {words}$"):
        PlanOptions(**{name: value})  # type: ignore[arg-type]


def test_a_word_effort_has_no_seconds() -> None:
    timed = PlanOptions(effort=2)  # type: ignore[arg-type]
    assert DEFAULTS.seconds is None and timed.seconds == 2
    assert DEFAULTS.search_effort == "low" and timed.search_effort == 2
