"""How is XML of unknown origin parsed, so that it costs no more than its size and opens nothing
else?

Before libxml2 sees a byte, the size, the encoding and the number of elements are looked at, and a
DOCTYPE is refused: without one there are no entities to expand and no files to include. libxml2
then limits depth (256) and the length of one attribute (10 MB).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lxml import etree

from csdfgen.errors import GraphError

_MAX_MARKUP = 1_000_000
"""Elements and attributes that a file may have; a parsed one takes some hundred bytes."""

_ENCODINGS = {
    "utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin-1", "latin1", "iso-8859-15", "windows-1252",
}  # fmt: skip
"""Encodings in which markup is ASCII, so that looking for a DOCTYPE finds every one."""

_PROLOG = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s+|<\?.*?\?>|<!--.*?-->)*", re.DOTALL)
_DECLARED = re.compile(rb"""^(?:\xef\xbb\xbf)?<\?xml[^>]*?encoding\s*=\s*["']([^"']*)["']""")

_PACKED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
}
"""First bytes of compressed files."""

_DOCTYPE = "has a DOCTYPE, which could declare entities; SDF3 files have none, remove it"

_SHOWN = 60


def parse(data: bytes, where: str) -> etree._Element:
    """The root element of a file's content; `where` names the file. Raises GraphError, with the
    line where there is one.
    """
    for first, packer in _PACKED.items():
        if data.startswith(first):
            raise GraphError(f"is compressed ({packer}); unpack it first", where=where)
    declared = _DECLARED.match(data)
    encoding = declared[1].decode("ascii", "replace").lower() if declared else "utf-8"
    if encoding not in _ENCODINGS:
        raise GraphError(
            f"is encoded as '{shorten_text(encoding)}'; UTF-8 is needed", where=f"{where}:1"
        )
    if b"\0" in data:
        raise GraphError(
            "has a NUL byte, which no text in UTF-8 has",
            where=f"{where}:{_line(data, data.index(0))}",
        )
    prolog = _PROLOG.match(data)
    start = prolog.end() if prolog else 0
    if data.startswith(b"<!DOCTYPE", start):
        raise GraphError(_DOCTYPE, where=f"{where}:{_line(data, start)}")
    markup = data.count(b"<") + data.count(b"=")
    if markup > _MAX_MARKUP:
        raise GraphError(
            f"has {markup} elements and attributes; at most {_MAX_MARKUP} are read", where=where
        )
    return _parsed(data, where)


def _parsed(data: bytes, where: str) -> etree._Element:
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        remove_comments=True,
    )
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        line = f"{where}:{error.lineno}" if error.lineno else where
        raise GraphError(f"is not well-formed XML: {error.msg}", where=line) from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise GraphError(_DOCTYPE, where=where)
    return root


def _line(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position) + 1


def children(element: etree._Element) -> Iterator[etree._Element]:
    """Child elements; comments and processing instructions are none."""
    return (child for child in element if isinstance(child.tag, str))


def tag(element: etree._Element) -> str:
    """The element's name without a namespace."""
    return str(element.tag).rpartition("}")[2]


def element_name(element: etree._Element, where: str) -> str:
    """Where an element is, for an error: file, line, element and what it is about."""
    label = next(
        (
            f" '{shorten_text(element.get(key))}'"
            for key in ("name", "actor", "channel")
            if element.get(key)
        ),
        "",
    )
    return f"{where}:{element.sourceline}: <{tag(element)}>{label}"


def shorten_text(text: str | None) -> str:
    """A text from the file as an error may show it: on one line, cut where it is long."""
    text = " ".join((text or "").split())
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
