"""What did SDF3 or Kiter print? Read by a grammar of all that they are known to print; anything
else is refused.

The forms are those of the release of March 2009 of SDF3 and of Kiter's revision 8f38726, as they
were recorded. A printed number
is not a value but an interval: of all values that are printed so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from lxml import etree

from csdfgen.errors import ToolError
from csdfgen.files import quote

LARGEST = 2 * 10**9
"""Throughputs above it are the largest `int` of the tool, which stands for "no limit"."""

_NUMBER = r"([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,3}))?"
_TIMING = r"(?:analysis time: \S+ms\n?)?"
_COLOURS = re.compile("\x1b\\[[0-9;]*m")
_PLACE = re.compile(r"^\[[A-Z]\]\[[^\]]*\]\s*")


@dataclass(frozen=True, slots=True)
class Printed:
    """A number of at least 0 as it was printed, and the interval of values that are printed so."""

    text: str
    low: Fraction
    high: Fraction

    def __contains__(self, value: object) -> bool:
        return isinstance(value, Fraction) and self.low <= value <= self.high

    def times(self, factor: int) -> Printed:
        """The interval of a value that is `factor` times the printed one."""
        return Printed(self.text, self.low * factor, self.high * factor)

    def simplest(self) -> Fraction:
        """The fraction of least denominator that is printed so.

        >>> number("0.142857", 6).simplest(), number("0.0555556", 6).simplest()
        (Fraction(1, 7), Fraction(1, 18))
        """
        return _simplest(self.low, self.high)


def number(text: str, digits: int, decimals: int | None = None) -> Printed:
    """A number that was printed with so many significant digits (C's %g, trailing zeros dropped),
    or so many decimals.

    Raises ToolError: not a number, or none that a throughput could be.
    """
    found = re.fullmatch(_NUMBER, text)
    if found is None:
        if re.fullmatch(r"[+-]?(inf|nan)", text):
            raise ToolError(
                f"printed '{text}' for a throughput: no cycle of the graph takes time, or the tool failed"
            )
        if re.fullmatch("-" + _NUMBER, text):
            raise ToolError(f"printed '{text}', a negative throughput: its counters overflowed")
        raise ToolError(f"printed {quote(text)}; a number was expected")
    whole, fraction, exponent = found[1], found[2] or "", int(found[3] or 0)
    value = Fraction(int(whole + fraction)) * Fraction(10) ** (exponent - len(fraction))
    if value > LARGEST:
        raise ToolError(
            f"printed '{text}' for a throughput, its largest number: nothing limits it, or its counters overflowed"
        )
    if decimals is not None:
        place = -decimals
    elif not value:
        return Printed(text, value, value)
    else:
        place = _exponent(value) - digits + 1
    half = Fraction(10) ** place / 2
    return Printed(text, max(value - half, Fraction(0)), value + half)


def _exponent(value: Fraction) -> int:
    """e such that 10^e <= value < 10^(e+1).

    >>> _exponent(Fraction(1, 8)), _exponent(Fraction(10))
    (-1, 1)
    """
    guess = len(str(value.numerator)) - len(str(value.denominator))
    return guess if Fraction(10) ** guess <= value else guess - 1


def _simplest(low: Fraction, high: Fraction) -> Fraction:
    """The fraction of least denominator in [low, high], by continued fractions.

    >>> _simplest(Fraction(3, 10), Fraction(4, 10))
    Fraction(1, 3)
    """
    whole: list[int] = []
    while low > floor(low) and floor(low) == floor(high):
        whole.append(floor(low))
        low, high = 1 / (high - floor(low)), 1 / (low - floor(low))
    value = low if low == floor(low) else Fraction(floor(low) + 1)
    for part in reversed(whole):
        value = part + 1 / value
    return value


def _refuse(what: str, text: str) -> ToolError:
    line = next((line for line in text.splitlines() if line.strip()), "")
    shown = f"begins with {quote(line)}" if line else "is empty"
    return ToolError(f"its answer is not understood: {what} was expected, what it printed {shown}")


# SDF3 -------------------------------------------------------------------------------------------


def read_throughput(stdout: str, graph: str) -> Printed:
    """The number behind `thr(graph) = `, of 6 digits, per iteration of SDF3. Raises ToolError."""
    found = re.fullmatch(rf"thr\((.*)\) = (\S+)\n{_TIMING}", stdout)
    if found is None or found[1] != graph:
        raise _refuse(f"'thr({graph}) = NUMBER'", stdout)
    return number(found[2], 6)


def read_consistency(stdout: str) -> bool:
    """Whether SDF3 found the graph consistent. Raises ToolError."""
    found = re.fullmatch(rf"Graph is (not )?consistent\.\n{_TIMING}", stdout)
    if found is None:
        raise _refuse("'Graph is consistent.' or 'Graph is not consistent.'", stdout)
    return found[1] is None


def read_repetition_vector(stdout: str, actors: Sequence[str]) -> dict[str, int]:
    """Actor -> firings per iteration of SDF3; all 0 if it is not consistent. Raises ToolError."""
    found = re.fullmatch(rf"Repetition vector:\n((?: \[.*\] = [0-9]+\n)*){_TIMING}", stdout)
    rows = re.findall(r" \[(.*)\] = ([0-9]+)\n", found[1]) if found else []
    if found is None or [name for name, _ in rows] != list(actors):
        raise _refuse(f"'Repetition vector:' and a line for each of {len(actors)} actors", stdout)
    return {name: int(count) for name, count in rows}


@dataclass(frozen=True, slots=True)
class Point:
    """Storage distributions of one size and what they give, per iteration of SDF3; distributions:
    channel -> tokens.
    """

    throughput: Printed
    size: int
    distributions: tuple[Mapping[str, int], ...]


_END = "</sdf3>"


def read_storage(stdout: str, channels: Sequence[str]) -> list[Point]:
    """The points of `buffersize`, each with all channels; none if SDF3 found no distribution that
    lives. Raises ToolError.

    What is printed is XML and a line of timing. A point of throughput 0 is a marker (of size 0) and
    left out.
    """
    document, end, rest = stdout.partition(_END)
    if not end or re.fullmatch(rf"\n?{_TIMING}\n?", rest) is None or "<!" in document:
        raise _refuse(f"XML that ends with '{_END}' and a line of timing", rest if end else stdout)
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    try:
        root = etree.fromstring((document + end).encode(), parser)
    except etree.XMLSyntaxError as error:
        raise ToolError(
            f"its answer is not understood: its XML is damaged in line {error.lineno}: {error.msg}"
        ) from None
    _expect(root, "sdf3")
    (tradeoffs,) = _children(root, "storageThroughputTradeOffs", exactly=1)
    points = [_point(element, channels) for element in _children(tradeoffs, "distributionsSet")]
    sizes = [point.size for point in points]
    if sizes != sorted(sizes):
        raise ToolError(
            f"its answer is not understood: the sizes of its distributions do not ascend: {quote(sizes)}"
        )
    return [point for point in points if point.throughput.high]


def _point(element: etree._Element, channels: Sequence[str]) -> Point:
    size = _count(element, "sz")
    throughput = number(element.get("thr", ""), 6)
    found = []
    for distribution in _children(element, "distribution"):
        capacities = {ch.get("name", ""): _count(ch, "sz") for ch in _children(distribution, "ch")}
        if list(capacities) != list(channels):
            raise _odd(
                distribution,
                f"it has {len(capacities)} channels that are not the {len(channels)} of the graph in order",
            )
        if sum(capacities.values()) != size:
            raise _odd(
                distribution, f"its capacities add up to {sum(capacities.values())}, not to {size}"
            )
        found.append(capacities)
    if not found:
        raise _odd(element, "it holds no distribution")
    return Point(throughput, size, tuple(found))


def _children(
    element: etree._Element, tag: str, exactly: int | None = None
) -> list[etree._Element]:
    found = list(element)
    for child in found:
        _expect(child, tag)
    if exactly is not None and len(found) != exactly:
        raise _odd(element, f"it holds {len(found)} elements, not {exactly}")
    return found


def _expect(element: etree._Element, tag: str) -> None:
    if element.tag != tag:
        raise _odd(element, f"<{tag}> was expected")


def _count(element: etree._Element, key: str) -> int:
    text = element.get(key, "")
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise _odd(element, f"'{key}' is {quote(text)}, not a number of tokens")
    return int(text)


def _odd(element: etree._Element, what: str) -> ToolError:
    return ToolError(
        f"its answer is not understood: <{element.tag}> in line {element.sourceline} of what it printed: {what}"
    )


# Kiter ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KiterThroughput:
    """Throughput per minimal iteration, of 9 digits, and the period that was printed with it."""

    throughput: Printed
    period: str


_SLACK = Fraction(1, 5 * 10**7)
"""Kiter computes with floating-point numbers: what it prints is right to some 2e-8."""


def read_k_periodic(stdout: str) -> KiterThroughput:
    """What `KPeriodicThroughput` prints; period and throughput must be each other's inverse. Raises
    ToolError.
    """
    lines = r"KPeriodic Throughput is +(\S+)\nKPeriodic Period is +(\S+)\n"
    found = re.fullmatch(
        lines
        + r"(?:KPeriodic Execution Time is +\S+\n)?(?:KPeriodic Scheduling Size is +[0-9]+\n?)?",
        stdout,
    )
    if found is None:
        raise _refuse("'KPeriodic Throughput is NUMBER' and 'KPeriodic Period is NUMBER'", stdout)
    rate, text = number(found[1], 9), found[2]
    if not rate.high:
        if text != "inf":
            raise ToolError(f"printed throughput 0 and period {quote(text)}; it would be inf")
        return KiterThroughput(rate, text)
    low, high = rate.low * (1 - _SLACK), rate.high * (1 + _SLACK)
    if re.fullmatch(r"[0-9]{1,30}\.[0-9]{6}", text) is None:
        raise ToolError(
            f"printed throughput {rate.text} and period {quote(text)}; a number of 6 decimals was expected"
        )
    half = Fraction(1, 2 * 10**6)
    period = Fraction(text)
    if period > half:
        # the period is the better source where it is long, the throughput where it is short
        shortest, longest = (period - half) * (1 - _SLACK), (period + half) * (1 + _SLACK)
        low, high = max(low, 1 / longest), min(high, 1 / shortest)
    if low > high or (not period and rate.high < 1 / half):
        raise ToolError(
            f"printed throughput {rate.text} and period {text}, which are not each other's inverse"
        )
    return KiterThroughput(Printed(rate.text, low, high), text)


def clean_errors(stderr: str, most: int = 2) -> str:
    """The first lines of an error output, without colours, places in source code and call stacks;
    "" if there is none.
    """
    lines = []
    for line in _COLOURS.sub("", stderr).splitlines():
        line = _PLACE.sub("", line.strip()).strip()
        if line.startswith("Call stack"):
            break
        if line and line not in lines:
            lines.append(line)
    return "; ".join(lines[:most])
