"""The tables of docs/paper.md. `python -m tests.paper_page` computes them anew and writes them into
the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from csdfgen.paper.findings import findings, misprints, readings
from csdfgen.paper.printed import COLUMNS, TABLE_3
from csdfgen.paper.table3 import COUNTINGS, reproduce_table3
from tests.documents import ROOT

PAGE = ROOT / "docs" / "paper.md"
BLOCK = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def _line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _table(*lines: str) -> str:
    head = lines[0]
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *lines[1:]]) + "\n"


def counted(counting: str) -> str:
    """Table III by one counting; a bold cell differs from the printed one."""
    cells = list(reproduce_table3((counting,)))
    lines = [_line("network", *COLUMNS)]
    for name in TABLE_3:
        row = [cell for cell in cells if cell.network == name]
        shown = [f"{c.ours:.2f} / {c.printed:g}" for c in row]
        lines.append(
            _line(
                name,
                *(text if c.match else f"**{text}**" for c, text in zip(row, shown, strict=True)),
            )
        )
    return _table(*lines)


def found() -> str:
    """What Algorithm 1 as printed, its capacities and its last phases do to the seven networks."""
    columns = ("m_DL, MB", "by Algorithm 1, MB", "printed m_our, MB", "leave rows", "below 0")
    lines = [_line("network", *columns, "lines 38 and 42", "largest rates")]
    for one in map(findings, TABLE_3):
        counts = len(one.leaving), len(one.negative)
        stops = f"deadlock; last full channel `{one.full[-1].channel}`" if one.full else "complete"
        sizes = f"{one.m_dl:.1f}", f"{one.m_algorithm1:.1f}", f"{one.m_printed:g}"
        iteration = "no solution" if one.iteration.unbalanced else one.iteration
        lines.append(_line(one.network, *sizes, *counts, iteration, stops))
    return _table(*lines)


def rules() -> str:
    """m_our by other readings of the rules."""
    lines = [_line("network", "rule", "m_our, MB", "printed")]
    for one in readings():
        text = f"{one.m_our:.2f}"
        lines.append(
            _line(one.network, one.rule, text if one.match else f"**{text}**", f"{one.printed:g}")
        )
    return _table(*lines)


def slips() -> str:
    """What other numbers of the paper contradict."""
    lines = [_line("where", "printed", "ours", "why")]
    lines += [_line(c.row, f"{c.printed:g}", f"{c.ours:.3g}", c.note) for c in misprints()]
    return _table(*lines)


MAKERS = {
    "findings": found,
    "misprints": slips,
    "rules": rules,
    **{name: (lambda name=name: counted(name)) for name in COUNTINGS},
}


def filled(text: str, makers: Mapping[str, Callable[[], str]]) -> str:
    """A page with what stands behind those of its markers that have a maker made anew."""
    return BLOCK.sub(
        lambda b: f"{b[1]}\n{makers[b[2]]()}\n{b[3]}" if b[2] in makers else b[0], text
    )


def with_tables(text: str) -> str:
    """The page with every table computed anew."""
    return filled(text, MAKERS)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
