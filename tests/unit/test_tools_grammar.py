"""What SDF3 and Kiter print is read by a grammar that refuses what it does not know; a printed
number is an interval.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csdfgen.errors import ToolError
from sdf3_bridge.grammar import (
    clean_errors,
    number,
    read_consistency,
    read_k_periodic,
    read_repetition_vector,
    read_storage,
    read_throughput,
)
from tests.graphs import SEEDED

TIMING = "analysis time: 0.03ms\n"

positive = st.builds(Fraction, st.integers(1, 10**9), st.integers(1, 10**12)) | st.fractions(
    min_value=Fraction(1, 10**6), max_value=10**9, max_denominator=10**6
)


@SEEDED
@given(positive, st.sampled_from((6, 9)))
def test_a_value_lies_in_the_interval_of_its_digits(value: Fraction, digits: int) -> None:
    text = f"{float(value):.{digits}g}"
    printed = number(text, digits)
    assert value in printed
    assert printed.high - printed.low <= value * Fraction(11, 10) * Fraction(10) ** (1 - digits)
    simple = printed.simplest()
    assert simple in printed and simple.denominator <= value.denominator


@SEEDED
@given(st.fractions(min_value=Fraction(1, 700), max_value=1, max_denominator=700))
def test_six_digits_tell_small_fractions(value: Fraction) -> None:
    assert number(f"{float(value):.6g}", 6).simplest() == value


@SEEDED
@given(positive, st.integers(1, 1000))
def test_scaled_intervals_hold_scaled_values(value: Fraction, factor: int) -> None:
    assert value * factor in number(f"{float(value):.6g}", 6).times(factor)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("inf", "no cycle of the graph takes time"),
        ("-inf", "no cycle"),
        ("nan", "no cycle"),
        ("-nan", "no cycle"),
        ("-9.24301e-10", "negative throughput: its counters overflowed"),
        ("2.14748e+09", "its largest number: nothing limits it"),
        ("0,2", "a number was expected"),
        ("0x10", "a number was expected"),
        ("1e", "a number was expected"),
        ("1e9999", "a number was expected"),
        ("٣", "a number was expected"),
        ("", "a number was expected"),
    ],
)
def test_what_is_no_throughput(text: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        number(text, 6)


def test_zero_is_zero() -> None:
    assert (number("0", 6).low, number("0", 6).high) == (0, 0)


def test_throughput() -> None:
    for text in (
        "thr(g) = 0.2\n" + TIMING,
        "thr(g) = 0.2\n",
        "thr(g) = 0.2\nanalysis time: 2.1e+03ms\n",
    ):
        assert Fraction(1, 5) in read_throughput(text, "g")
    assert read_throughput("thr(a = b) = 2) = 0.2\n" + TIMING, "a = b) = 2").text == "0.2"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        TIMING,
        "thr(h) = 0.2\n" + TIMING,
        "thr(g) = \n" + TIMING,
        "thr(g) = 0.2" + TIMING,
        "thr(g) = 0.2 0.3\n" + TIMING,
        "thr(g) = 0.2\nthr(g) = 0.3\n" + TIMING,
        "thr(g) = 0.2\n" + TIMING + "warning: overflow\n",
        "warning: overflow\nthr(g) = 0.2\n",
        "throughput(g) = 0.2\n",
    ],
)
def test_what_is_no_answer_to_throughput(text: str) -> None:
    with pytest.raises(
        ToolError, match="its answer is not understood: 'thr\\(g\\) = NUMBER' was expected"
    ):
        read_throughput(text, "g")


def test_consistency() -> None:
    assert read_consistency("Graph is consistent.\n" + TIMING)
    assert not read_consistency("Graph is not consistent.\n")
    for text in (
        "",
        "Graph is probably consistent.\n",
        "Graph is consistent.\nGraph is not consistent.\n",
    ):
        with pytest.raises(ToolError, match="not understood"):
            read_consistency(text)


def test_repetition_vector() -> None:
    text = "Repetition vector:\n [A] = 12\n [B] = 18\n" + TIMING
    assert read_repetition_vector(text, ["A", "B"]) == {"A": 12, "B": 18}
    for wrong in (
        "",
        text.replace("12", "-12"),
        text.replace("[B]", "[C]"),
        text.replace(" [B] = 18\n", ""),
        text * 2,
    ):
        with pytest.raises(ToolError, match="not understood"):
            read_repetition_vector(wrong, ["A", "B"])


HEAD = "<?xml version='1.0' encoding='UTF-8'?>\n<sdf3 type='sdf' version='1.0'>\n<storageThroughputTradeOffs>\n"
TAIL = "</storageThroughputTradeOffs>\n</sdf3>\n" + TIMING


def points(*entries: tuple[str, int, tuple[int, ...]]) -> str:
    """What `buffersize` prints for channels c0, c1, ..."""
    sets = []
    for throughput, size, capacities in entries:
        channels = "".join(
            f"<ch name='c{i}' sz='{capacity}'/>" for i, capacity in enumerate(capacities)
        )
        sets.append(
            f"<distributionsSet thr='{throughput}' sz='{size}'><distribution>{channels}</distribution></distributionsSet>\n"
        )
    return HEAD + "".join(sets) + TAIL


GOOD = points(("0", 0, (0, 0)), ("0.2", 3, (2, 1)), ("0.333333", 4, (2, 2)))


def test_storage() -> None:
    found = read_storage(GOOD, ["c0", "c1"])
    assert [(point.throughput.text, point.size, point.distributions) for point in found] == [
        ("0.2", 3, ({"c0": 2, "c1": 1},)),
        ("0.333333", 4, ({"c0": 2, "c1": 2},)),
    ]
    assert read_storage(points(("0", 0, (0, 0))), ["c0", "c1"]) == []
    several = GOOD.replace(
        "</distributionsSet>\n</st",
        "<distribution><ch name='c0' sz='1'/><ch name='c1' sz='3'/></distribution></distributionsSet></st",
    )
    assert [len(point.distributions) for point in read_storage(several, ["c0", "c1"])] == [1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("thr(g) = 0.2\n", "begins with 'thr"),
        (GOOD.replace("</sdf3>", ""), "XML that ends with"),
        (GOOD + "Segmentation fault\n", "XML that ends with"),
        (GOOD.replace("<sdf3", "<!DOCTYPE x [<!ENTITY e 'x'>]><sdf3"), "XML that ends with"),
        (GOOD.replace("name='c0'", "name='a&b'"), "its XML is damaged in line"),
        (GOOD.replace("name='c0'", "name='it's'"), "its XML is damaged in line"),
        (
            GOOD.replace("storageThroughputTradeOffs", "results"),
            "<storageThroughputTradeOffs> was expected",
        ),
        (GOOD.replace("<distribution>", "<distribution><note/>", 1), "<ch> was expected"),
        (GOOD.replace("c1", "c2"), "channels that are not the 2 of the graph"),
        (GOOD.replace("<ch name='c1' sz='1'/>", ""), "it has 1 channels"),
        (GOOD.replace("name='c1'", "name='c0'"), "it has 1 channels"),
        (GOOD.replace("sz='4'", "sz='5'"), "add up to 4, not to 5"),
        (GOOD.replace("sz='4'", "sz='-4'"), "'sz' is '-4', not a number of tokens"),
        (GOOD.replace(" sz='4'", ""), "'sz' is '', not a number of tokens"),
        (GOOD.replace("thr='0.2'", ""), "a number was expected"),
        (GOOD.replace("0.333333", "inf"), "printed 'inf'"),
        (points(("0.3", 4, (2, 2)), ("0.2", 3, (2, 1))), "do not ascend"),
        (
            HEAD + "<distributionsSet thr='0.2' sz='3'></distributionsSet>" + TAIL,
            "it holds no distribution",
        ),
        (HEAD.replace("storage", "<x/><storage", 1).replace("<<", "<") + TAIL, "not understood"),
    ],
)
def test_what_is_no_storage(text: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        read_storage(text, ["c0", "c1"])


def k_periodic(throughput: str, period: str) -> str:
    values = {
        "Throughput": throughput,
        "Period": period,
        "Execution Time": "0.01",
        "Scheduling Size": "2",
    }
    return "".join(f"KPeriodic {name} is {value:>12}\n" for name, value in values.items())


def test_k_periodic() -> None:
    found = read_k_periodic(k_periodic("0.428571429", "2.333333"))
    assert Fraction(3, 7) in found.throughput and found.throughput.simplest() == Fraction(3, 7)
    assert not read_k_periodic(k_periodic("0", "inf")).throughput.high
    # where the period is long it has more digits than the throughput
    wide = read_k_periodic(k_periodic("2.32830644e-10", "4294967296.000000")).throughput
    assert (wide.high - wide.low) / wide.high < Fraction(1, 10**6)
    assert Fraction(1, 2**32) in wide
    assert Fraction(4 * 10**6) in read_k_periodic(k_periodic("4000000", "0.000000")).throughput


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (k_periodic("0.2", "5.000000") + "more\n", "not understood"),
        (k_periodic("0.2", "5.000000").replace("KPeriodic T", "Maximum t"), "not understood"),
        (k_periodic("0.2", "6.000000"), "not each other's inverse"),
        (k_periodic("0.2", "0.000000"), "not each other's inverse"),
        (k_periodic("0", "5.000000"), "it would be inf"),
        (k_periodic("0.2", "5"), "a number of 6 decimals"),
        (k_periodic("0.2", "inf"), "a number of 6 decimals"),
        (k_periodic("inf", "0.000000"), "printed 'inf'"),
        (k_periodic("-0.2", "-5.000000"), "a negative throughput"),
    ],
)
def test_what_is_no_k_periodic_throughput(text: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        read_k_periodic(text)


def test_errors_are_told_without_colours_places_and_stacks() -> None:
    text = "\x1b[1;31m[E][ R  reader.cpp:7]\x1b[0m cannot read it      \n\x1b[1;31m[E][ R  reader.cpp:7]\x1b[0m cannot read it\n"
    assert clean_errors(text + "\n\x1b[1;35mCall stack from x:\n  lib(+0x1)\n") == "cannot read it"
    assert clean_errors("one\ntwo\nthree\n") == "one; two"
    assert clean_errors("\x1b[0m\n  \n") == ""
