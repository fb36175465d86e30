"""How is HTML written so that no name from a model becomes markup? Elements escape their texts.

A `Markup` is HTML already; any other string is text. No other module makes HTML.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from html import escape
from importlib.resources import files

from csdfgen.charts.plan_axes import Axes
from csdfgen.charts.svg import NARROW, WIDTH, Drawing, number
from csdfgen.dataflow.dot import escape_text

_LONGEST_TEXT = 2000
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""What a browser may load for a page: nothing."""

_EMPTY = frozenset({"meta", "br"})


class Markup(str):
    """HTML, not text."""

    __slots__ = ()


def element(name: str, /, *content: object, **attributes: object) -> Markup:
    """An element; content that is no Markup is text. `class_="a"` is class="a", `data_x` data-x;
    None is left out.

    >>> element("td", "<script>", class_="name")
    '<td class="name">&lt;script&gt;</td>'
    """
    given = "".join(
        f' {key.strip("_").replace("_", "-")}="{escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(map(_markup, content))
    return Markup(f"<{name}{given}>" + ("" if name in _EMPTY else f"{inside}</{name}>"))


def section(title: str, *content: object, note: str = "", class_: str | None = None) -> Markup:
    """A part of a page: its title, a note in small print, and what follows."""
    return element("section", element("h2", title), make_note(note), *content, class_=class_)


def make_note(text: str) -> Markup:
    """A paragraph in small print; nothing for no text."""
    return element("p", text, class_="soft") if text else Markup("")


def join(parts: Iterable[object]) -> Markup:
    """Parts joined without a separator."""
    return Markup("".join(map(_markup, parts)))


def table(
    head: Iterable[str], rows: Iterable[Iterable[object]], words: int = 1, name: str = ""
) -> Markup:
    """A table in a box that scrolls sideways by itself; the first `words` columns hold words, the
    others numbers.
    """
    cells = element("tr", *(element("th", text, scope="col") for text in head))
    body = [
        element(
            "tr",
            *(
                element("td", cell, class_=None if at < words else "number")
                for at, cell in enumerate(row)
            ),
        )
        for row in rows
    ]
    made = element("table", element("thead", cells), element("tbody", *body), class_=name or None)
    return element("div", made, class_="wide", tabindex="0")


def chart(title: str, draw: Callable[[Drawing], Axes], kind: str = "") -> Markup:
    """A chart twice, of which a browser shows the one for its width; print shows the broad one.
    kind: what the page's script shows under the pointer.
    """
    pictures = []
    for name, width in (("broad", WIDTH), ("narrow", NARROW)):
        drawing = Drawing(width)
        axes = draw(drawing)
        looks: dict[str, object] = {"class": name}
        if kind:
            edges = (axes.left, axes.right, axes.top, axes.bottom)
            panel = " ".join(map(number, edges))
            looks |= {"data-kind": kind, "data-panel": panel, "data-most": axes.most}
        pictures.append(Markup(drawing.inline(title, looks)))
    return element("div", *pictures, class_="chart", tabindex="0")


def data(name: str, value: object) -> Markup:
    """JSON values for the page's script."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return element("script", Markup(safe), type="application/json", id=name)


def document(title: str, *content: object, script: bool = True) -> bytes:
    """A whole page that loads nothing."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(_file("page.css"))),
    )
    code = element("script", Markup(_file("page.js"))) if script else ""
    body = element("body", element("main", *content), code)
    page = f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"
    return page.encode("utf-8", "backslashreplace")


def _file(name: str) -> str:
    return files("csdfgen.pages").joinpath(name).read_text("utf-8")


def _text(value: object) -> str:
    text = escape_text(str(value))
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


def _markup(part: object) -> str:
    return part if isinstance(part, Markup) else escape(_text(part))
