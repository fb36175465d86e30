"""The tables of docs/sdf3.md, and the pictures of docs/analysis.md. `python -m tests.sdf3_page` makes and
writes them.

The tables come from the values that were recorded from SDF3 and Kiter; where these are not beside
the repository, what the page has stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from csdfgen.charts import gantt_chart, occupancy_chart, trace_self_timed
from csdfgen.files import write_bytes
from schedules.storage import size_storage
from sdf3_bridge.sdf3read import read
from tests.conformance.comparison import NOT_COMPARED, QUESTIONS, Compared, compared, value
from tests.conformance.differences import DIFFERENCES, NO_ANSWER, REASONS, path_of, proof
from tests.conformance.recorded import graph_of, rows
from tests.documents import ROOT
from tests.graphs import SDF3_DATA

PAGE = ROOT / "docs" / "sdf3.md"
EXAMPLES = ROOT / "docs" / "examples"
BLOCK = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

SIZING = {"buffersize": "SDF3", "ThroughputBufferingDSE": "Kiter"}
"""Algorithms that look for capacities, and whose they are."""

_SHOWN = 110
_MANY = 8


def _table(
    head: str, lines: Iterator[tuple[object, ...]] | list[tuple[object, ...]], right: str = ""
) -> str:
    """A table; `right` has an "r" for every column of numbers."""
    columns = head.split("|")
    marks = [("---:" if mark == "r" else "---") for mark in right.ljust(len(columns))]
    body = [f"| {' | '.join(map(str, line))} |" for line in lines]
    return "\n".join(
        [f"| {' | '.join(column.strip() for column in columns)} |", f"|{'|'.join(marks)}|", *body]
    )


def agreement() -> str:
    """How many values were compared, by question."""
    agree, differ, from_rows = Counter[str](), Counter[str](), Counter[str]()
    for item in compared():
        (agree if item.agrees else differ)[item.question] += 1
        from_rows[item.question] += item.rows
    titles = [question.title for question in QUESTIONS]
    lines = [(title, from_rows[title], agree[title], differ[title] or "") for title in titles]
    total = ("**all**", from_rows.total(), agree.total(), differ.total())
    left = Counter(
        row.metric for row in rows() if not any(question.asks(row) for question in QUESTIONS)
    )
    meanings = {
        **dict(NOT_COMPARED),
        "pareto_distribution": "SDF3's mark for the absence of a distribution",
    }
    apart = "; ".join(
        f"{left[metric]} of `{metric}` ({meaning})" for metric, meaning in sorted(meanings.items())
    )
    table = _table("question | rows | agree | differ", [*lines, total], " rrr")
    return f"{table}\n\n{left.total()} rows are not compared: {apart}."


def differences() -> str:
    """Every value that differs, by the fault that explains it, with what came out when our answer
    was executed.
    """
    found: dict[tuple[str, str], Compared] = {}
    for item in compared():
        if not item.agrees:
            found.setdefault((item.graph, item.question), item)
    for name, question in NO_ANSWER:
        found[name, question] = Compared(
            name, question, "not finished in 60 s", str(value(path_of(name)))
        )
    known = {**DIFFERENCES, **NO_ANSWER}
    parts = []
    for key, reason in REASONS.items():
        items = [found[place] for place, why in known.items() if why == key]
        alike: dict[tuple[str, str], list[Compared]] = {}
        for item in sorted(items, key=lambda item: (item.graph, item.question)):
            alike.setdefault((item.question, item.recorded), []).append(item)
        lines = [
            line
            for same in alike.values()
            for line in ([_joint(same)] if len(same) >= _MANY else map(_single, same))
        ]
        head = f"**{reason.text[:1].upper()}{reason.text[1:]}** (section {reason.section})."
        parts.append(
            f"{head}\n\n{_table('graph | question | recorded | csdfgen | executed', lines)}"
        )
    return "\n\n".join(parts)


def _single(item: Compared) -> tuple[str, ...]:
    texts = (item.question, _short(item.recorded), _short(item.ours), proof(item))
    return f"`{item.graph}`", *texts


def _joint(items: list[Compared]) -> tuple[str, ...]:
    """One line for graphs of which the tool says the same."""
    ours = ", ".join(f"`{item.graph}` {item.ours}" for item in items)
    first = items[0]
    return f"{len(items)} graphs", first.question, first.recorded, ours, "each at our value"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def unanswered() -> str:
    """Least storage of every graph for which a tool did not end."""
    tools: dict[str, dict[str, str]] = {}
    for row in rows():
        if row.value == "timeout" and row.algorithm in SIZING:
            tools.setdefault(row.graph, {})[SIZING[row.algorithm]] = f"{float(row.seconds):.0f} s"
    found: dict[tuple[str, str], list[str]] = {}
    for path, asked in sorted(tools.items()):
        name = path.rpartition("/")[2].removesuffix(".xml")
        cells = found.setdefault((asked.get("SDF3", ""), asked.get("Kiter", "")), [])
        if value(path) == float("inf"):
            cells.append(f"`{name}` unlimited")
            continue
        live, best = (
            size_storage(graph_of(path), "live", seconds=60),
            size_storage(graph_of(path), "maximal", seconds=60),
        )
        assert live.exact and best.exact, path
        cells.append(f"`{name}` {live.size}/{best.size} at {best.throughput}")
    lines = [(*ended, ", ".join(cells)) for ended, cells in found.items()]
    return _table("SDF3 stopped after | Kiter stopped after | graph, our sizes, throughput", lines)


MAKERS = {"agreement": agreement, "differences": differences, "unanswered": unanswered}


def with_tables(text: str) -> str:
    """The page with every table computed anew."""
    return BLOCK.sub(
        lambda found: (
            f"{found[1]}\n{MAKERS[found[2]]()}\n\n{found[3]}" if found[2] in MAKERS else found[0]
        ),
        text,
    )


def pictures() -> dict[str, bytes]:
    """Name of the file -> the charts of docs/examples/convolution.xml in the least storage with the
    highest throughput.
    """
    graph = read(EXAMPLES / "convolution.xml")
    timeline = trace_self_timed(graph, size_storage(graph, "maximal").capacities)
    return {
        "sdf3-gantt.svg": gantt_chart(timeline),
        "sdf3-occupancy.svg": occupancy_chart(timeline, "bytes"),
    }


def main() -> None:
    for name, picture in pictures().items():
        write_bytes(PAGE.parent / name, picture)
    text = PAGE.read_text()
    if SDF3_DATA.exists():
        text = with_tables(text)
    else:
        print(f"{PAGE.name}: the recorded values are not there, its tables stay as they are")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
