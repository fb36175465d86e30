"""How is a tool asked about a graph, and when is its answer accepted?

The tool must exit with 0, write nothing to its error output, and print what the grammar reads. A throughput must agree
with our own analysis: 6 or 9 printed digits are an interval, which must contain ours. The fraction behind the digits is
then known exactly where ours is; otherwise the simplest fraction of the interval is returned, and not called exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeVar

from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import ToolError
from schedules.analysis import ToolRun
from schedules.throughput import Throughput
from sdf3_bridge.grammar import Printed, clean_errors
from sdf3_bridge.sdf3write import to_xml
from sdf3_bridge.tools import Tool
from sdf3_bridge.variants import WriteOptions

FILE = "graph.xml"
"""Name of the graph's file, in the folder in which the tool runs."""

_UNKNOWN = ("Unknown analysis algorithm", "Unsupported algorithm")

_Answer = TypeVar("_Answer")


class Session:
    """One tool that is asked about one graph: adds up the seconds, and collects the notes that belong to
    the numbers.
    """

    def __init__(self, tool: Tool, timeout: float) -> None:
        self.tool = tool
        self.timeout = timeout
        self.title = tool.family.title
        self.version = tool.version()
        self.seconds = 0.0
        self.notes: list[str] = []

    def ask(
        self,
        graph: CsdfGraph,
        algorithm: str,
        arguments: Sequence[str],
        read: Callable[[str], _Answer],
    ) -> _Answer:
        """The answer of an algorithm for a graph, read by the grammar. Raises ToolError."""
        try:
            xml = to_xml(
                graph, WriteOptions("keep"), warn=False
            )  # what would be read wrongly has been met, or is by `check_agreement`
            done = self.tool.run(arguments, {FILE: xml}, self.timeout)
            self.seconds += done.seconds
            errors = clean_errors(done.stderr)
            if done.signal_name:
                memory = (
                    "; it may need more memory than it is given"
                    if "bad_alloc" in done.stderr
                    else ""
                )
                raise ToolError(f"was killed by {done.signal_name}{memory}{_reason(errors)}")
            if any(text in done.stderr for text in _UNKNOWN):
                raise ToolError(
                    f"this release does not know the algorithm; no fault of the graph{_reason(errors)}"
                )
            if done.exit_code:
                raise ToolError(f"ended with exit code {done.exit_code}{_reason(errors)}")
            if errors:
                raise ToolError(f"reported an error beside its answer{_reason(errors)}")
            return read(done.stdout)
        except ToolError as error:
            raise error.at(f"{self.title} {algorithm}") from None

    def said(self, printed: str = "", factor: int = 1) -> ToolRun:
        """The tool that was run, for the analysis."""
        return ToolRun(
            self.title, str(self.tool.path), self.version, round(self.seconds, 6), printed, factor
        )


def _reason(errors: str) -> str:
    return f": {errors}" if errors else ""


def check_agreement(title: str, printed: Printed, factor: int, ours: Throughput) -> Throughput:
    """The throughput per minimal iteration that a tool printed for `factor` of them. Raises
    ToolError if ours is another.
    """
    scaled = printed.times(factor)
    low, high = max(scaled.low, ours.value), min(scaled.high, ours.upper)
    if low > high:
        times = (
            f", {float((scaled.low + scaled.high) / 2):.6g} per minimal iteration (k = {factor})"
            if factor > 1
            else ""
        )
        own = (
            f"{ours.value} (about {float(ours.value):.9g})"
            if ours.exact
            else f"{ours.value} to {ours.upper}"
        )
        message = f"printed a throughput of {printed.text}{times}; the analysis here finds {own}: they cannot both be right"
        raise ToolError(f"{message}. --engine native gives the latter", where=title)
    if ours.exact:
        return Throughput(ours.value, title.lower(), True, ours.upper)
    between = Printed(printed.text, Fraction(low), Fraction(high))
    return Throughput(between.simplest(), title.lower(), False, between.high)
