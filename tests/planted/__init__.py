"""Do the tests find small wrong changes? `python -m tests.planted` plants each fault of `tests.planted.table` into a copy of
the product, and runs the tests that reach its lines.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.planted.table import FAULTS

__all__ = ["FOUND", "ROOT", "Fault", "faults", "found", "probed", "summary"]

ROOT = Path(__file__).resolve().parents[2]
FOUND = Path(__file__).with_name("found.tsv")
"""What was found by which test, as of the last run of all faults."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A wrong change of a file. reached: regular expression of kernels or tests that reach a file of C."""

    file: str
    reached: str
    kind: str
    what: str
    old: str
    new: str

    @property
    def name(self) -> str:
        return f"{self.file}: {self.what}"

    def planted(self, text: str) -> str:
        """The text of the file with the fault in it."""
        assert text.count(self.old) == 1, f"{self.name}: not once in the file: {self.old}"
        return text.replace(self.old, self.new)


def faults() -> tuple[Fault, ...]:
    """All faults of the table."""
    found = []
    for part in re.split(r"^# ", FAULTS, flags=re.MULTILINE)[1:]:
        head, _, rest = part.partition("\n")
        file, _, reached = head.partition(" ")
        for kind, what, body in re.findall(r"^(\w+): (.*)\n((?:[-+] .*\n)+)", rest, re.MULTILINE):
            old, new = (
                "\n".join(line[2:] for line in body.splitlines() if line[0] == sign)
                for sign in "-+"
            )
            if "\n" not in old and old.strip() != "if writes:":
                old, new = old.strip(), new.strip()
            found.append(Fault(file, reached, kind, what, old, new))
    return tuple(found)


def found() -> dict[str, tuple[str, str]]:
    """Name of a fault -> the tier that found it ("sample", "rest" or "none"), and the test."""
    rows = [line.split("\t") for line in FOUND.read_text(encoding="utf-8").splitlines()]
    return {name: (tier, test) for tier, name, test in rows}


def summary() -> str:
    """A table of the kinds of faults that were tried, and how many each tier finds."""
    known = found()
    tiers = {one: known[one.name][0] for one in faults() if one.name in known}
    kinds = sorted({one.kind for one in tiers})
    rows = ["| kind | tried | found by `make test` | by the rest |", "|---|---:|---:|---:|"]
    for kind in (*kinds, "all"):
        mine = [tier for one, tier in tiers.items() if kind in (one.kind, "all")]
        counts = len(mine), mine.count("sample"), mine.count("rest")
        rows.append("| " + " | ".join(map(str, (kind, *counts))) + " |")
    return "\n".join(rows)


def probed(text: str, planted: Iterable[Fault]) -> str:
    """Python whose statements with a fault first say that they are reached; one outside of functions by all functions."""
    places: list[tuple[int, str]] = []
    tree = ast.parse(text)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    for fault in planted:
        old, new = fault.old.splitlines(), fault.new.splitlines()
        same = next((k for k, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
        line = text[: text.index(fault.old)].count("\n") + 1 + same
        inside = [f for f in functions if f.body[0].lineno <= line <= (f.end_lineno or 0)]
        bodies = [max(inside, key=lambda f: f.lineno)] if inside else functions
        for function in bodies:
            whole = [n for n in ast.walk(function) if isinstance(n, ast.stmt) and n is not function]
            over = [n for n in whole if inside and n.lineno <= line <= (n.end_lineno or 0)]
            starts = sorted((n.lineno for n in over), reverse=True) or [
                function.body[bool(ast.get_docstring(function) and len(function.body) > 1)].lineno
            ]
            own = (
                s
                for s in starts
                if not re.match(r"\s*(elif|else|except|finally|case)\b", text.splitlines()[s - 1])
            )
            places.append((next(own), fault.name))
    lines = text.splitlines()
    for at, name in sorted(places, reverse=True):
        indent = re.match(r"\s*", lines[at - 1])
        assert indent is not None
        probe = f'__import__("tests.planted.hits", fromlist=["hit"]).hit({name!r})'
        lines.insert(at - 1, indent[0] + probe)
    return "\n".join(lines) + "\n"
