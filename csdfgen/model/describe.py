"""Values in a prompt and in a notebook: one short line, and one small table.

Names come from untrusted files: they are kept on one line, cut if they are long, and escaped in HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType

_LONGEST_NAME = 60
_SHOWN_ENTRIES = 3


CHARTS: dict[str, tuple[str, str]] = {}
"""Name of a type -> (module, function) that draws a chart of its values for a notebook; `csdfgen` adds the entries."""

FIGURES = MappingProxyType(
    {
        "sum_of_tensors": "one buffer per activation tensor, no sharing",
        "whole_layer_live": "layer by layer, dead tensors freed: peak of live bytes",
        "sum_of_capacities": "by phases: all buffers at capacity, no sharing",
        "peak_live": "by phases: peak of live bytes (rows, sums, needed workspace)",
        "lower_bound": "by phases: no firing order has a lower peak",
        "arena": "by phases: the arena, which holds all of it",
        "workspace": "in the arena: the largest scratch of a kernel",
        "outputs": "outside the arena: output arrays of the caller; 0 if outputs stay in the arena or are streamed",
        "parameters": "weights and biases",
    }
)
"""Memory figures of a plan in bytes, and what they mean (docs/plan.md)."""

FIGURES_OF_SEVERAL = MappingProxyType(
    {
        **FIGURES,
        "largest_alone": "of several networks in one arena: the largest arena of one alone",
        "sum_alone": "of several networks in one arena: the arenas of all of them alone",
    }
)
"""Those of a plan of several networks, too (docs/several.md)."""


def _ratio(used: int, other: int, name: str, digits: int) -> str:
    """How many times less, or how many times as much, than a figure."""
    if used < other:
        return f"{other / max(1, used):.{digits}f} times less than {name}"
    return f"{used / max(1, other):.2f} times {name}"


def compare_whole_layers(
    figures: Mapping[str, int], total: int
) -> tuple[tuple[str, str], tuple[str, str]]:
    """Whether a program takes less memory than whole layers, in all and without what is only read: a word and a sentence each.
    figures: bytes, as those of a plan; outputs are those of all its images. total: bytes in all.

    >>> sizes = {"arena": 2**19, "outputs": 2**19, "sum_of_tensors": 3 * 2**20, "parameters": 2**20}
    >>> compare_whole_layers({**sizes, "whole_layer_live": 2**21}, 2**21)[0]
    ('gained', 'in all 2.000 MiB, 1.50 times less than whole_layer_live and parameters')
    >>> compare_whole_layers({**sizes, "whole_layer_live": 2**19}, 2**21)[1]
    ('larger', 'arena and outputs take 1.000 MiB, 2.00 times whole_layer_live, 3.0 times less than sum_of_tensors')
    """
    used, whole = figures["arena"] + figures["outputs"], figures["whole_layer_live"]
    what = "arena and outputs take" if figures["outputs"] else "arena takes"
    names = ("whole_layer_live", "sum_of_tensors")
    ratios = ", ".join(_ratio(used, figures[name], name, 1) for name in names)
    both = whole + figures["parameters"]
    in_all = f"in all {total / 2**20:,.3f} MiB, {_ratio(total, both, 'whole_layer_live and parameters', 2)}"
    activations = f"{what} {used / 2**20:,.3f} MiB, {ratios}"
    return (_compared(total, both), in_all), (_compared(used, whole), activations)


def _compared(used: int, whole: int) -> str:
    return "gained" if used < whole else "larger" if used > whole else "the same"


def draw_value(value: object) -> str:
    """The chart of a value for `_repr_html_`, "" if its type has none. The module is loaded with the first chart."""
    known = CHARTS.get(type(value).__name__)
    return "" if known is None else str(getattr(import_module(known[0]), known[1])(value))


def mebibytes(size: int) -> str:
    """Bytes in MiB (2^20 bytes), with the unit.

    >>> mebibytes(176_424), mebibytes(3 * 2**30)
    ('0.168 MiB', '3,072.000 MiB')
    """
    return f"{size / 2**20:,.3f} MiB"


def sizes(shape: Sequence[int]) -> str:
    """A shape in the notation of the command line.

    >>> sizes((1, 3, 224, 224)), sizes(())
    ('1x3x224x224', 'scalar')
    """
    return "x".join(map(str, shape)) or "scalar"


def shorten_name(text: str, limit: int = _LONGEST_NAME) -> str:
    r"""A name on one line, cut at the end if it is long.

    >>> shorten_name("conv\n1"), shorten_name("x" * 99, 6)
    ('conv\ufffd1', 'xxxxx…')
    """
    # cut first, because a name may have megabytes
    shown = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in shown)


def format_entries(entries: Sequence[str]) -> str:
    """The first entries, and the number of the others.

    >>> format_entries(["a", "b"]), format_entries(list("abcde"))
    ('a, b', 'a, b, c and 2 more')
    """
    shown = ", ".join(shorten_name(entry) for entry in entries[:_SHOWN_ENTRIES])
    more = len(entries) - _SHOWN_ENTRIES
    return (f"{shown} and {more} more" if more > 0 else shown) or "none"


def format_repr(kind: str, name: str, **facts: object) -> str:
    """A value for `__repr__`: its type, its name, and facts by word; facts that are None are omitted.

    >>> format_repr("Network", "lenet5", inputs="x 1x1x28x28", layers=1200, batch=None)
    "<Network 'lenet5': inputs x 1x1x28x28, layers 1,200>"
    """
    listed = ", ".join(f"{word} {_shown(fact)}" for word, fact in _known(facts.items()))
    return f"<{kind} '{shorten_name(name)}'{': ' if listed else ''}{listed}>"


_WRAPPED = "overflow-wrap:anywhere;white-space:normal;text-align:left"
"""Style of a cell that may be long, such as the heights of many layers: notebooks do not wrap tables."""


def html_table(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """A small table for `_repr_html_`: a title and rows of (word, fact); facts that are None are omitted.

    >>> html_table("Network <x>", [("layers", 1200)]).replace(_WRAPPED, "...")
    '<table><caption>Network &lt;x&gt;</caption><tr><th>layers</th><td style="...">1,200</td></tr></table>'
    """
    from html import escape  # a table of all entities

    body = "".join(
        f'<tr><th>{escape(shorten_name(word))}</th><td style="{_WRAPPED}">{escape(_shown(fact))}</td></tr>'
        for word, fact in _known(rows)
    )
    return f"<table><caption>{escape(shorten_name(title))}</caption>{body}</table>"


def _known(facts: Iterable[tuple[str, object]]) -> Iterable[tuple[str, object]]:
    return ((word, fact) for word, fact in facts if fact is not None)


def _shown(fact: object) -> str:
    number = isinstance(fact, int) and not isinstance(fact, bool)
    return f"{fact:,}" if number else shorten_name(str(fact), 4 * _LONGEST_NAME)
