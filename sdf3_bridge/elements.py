"""How is an element of a graph file read, and what is reported of it? Faults at once, what is filled in
or dropped at the end.

A fault names file, line and element. Attributes that nothing reads are dropped like elements that
nothing reads: "initialToken" would else be a wrong answer.
"""

from __future__ import annotations

import logging
import re
from collections import Counter

from lxml import etree

from csdfgen.dataflow.graph import MAX_RATES, parse_short_form
from csdfgen.errors import GraphError
from csdfgen.files import quote
from sdf3_bridge.names import decode_name, escape_text
from sdf3_bridge.xmltree import element_name, shorten_text, tag

_LOG = logging.getLogger(__name__)

_ATTRIBUTES = {
    "sdf3": ("type", "version"), "applicationGraph": ("name",), "sdf": ("name", "type", "originalName", "csdfgen"),
    "csdf": ("name", "type", "originalName", "csdfgen"), "actor": ("name", "type", "originalName", "function"),
    "port": ("name", "type", "rate"),
    "channel": (
        "name", "srcActor", "srcPort", "dstActor", "dstPort", "initialTokens", "size", "originalName", "channelKind",
    ),
    "actorProperties": ("actor",), "channelProperties": ("channel",), "processor": ("type", "default"),
    "executionTime": ("time",), "tokenSize": ("sz",), "bufferSize": ("sz",),
}  # fmt: skip
"""Attributes that are read, or that nothing depends on."""

_DIGITS = re.compile("[0-9]+")
_SHOWN_KINDS = 12


class ElementReader:
    """Reads elements of one file: knows its name, how many rates may still come, what was filled in
    and dropped.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.left = MAX_RATES
        self.dropped: Counter[str] = Counter()
        self.assumed: dict[str, list[GraphError]] = {}

    def fault(self, element: etree._Element, message: str) -> GraphError:
        return GraphError(message, where=element_name(element, self.where))

    def look(self, element: etree._Element) -> None:
        """Count the attributes that are not read of an element that is; one with a namespace is not
        meant for the tools.
        """
        known = _ATTRIBUTES.get(tag(element))
        for key in map(str, element.attrib):
            if known is not None and key not in known and not key.startswith("{"):
                self.dropped[f"{shorten_text(key)} of {tag(element)}"] += 1

    def assume(self, element: etree._Element, message: str, kind: str = "") -> None:
        """Remember what was filled in, and where; `say_warnings` tells each kind once: `kind`, or
        else the message, whatever its numbers are.
        """
        kind = kind or _DIGITS.sub("", message)
        self.assumed.setdefault(kind, []).append(self.fault(element, message))

    def attribute(self, element: etree._Element, key: str) -> str:
        value = element.get(key)
        if value is None or not value.strip():
            raise self.fault(element, f"has no '{key}'" if value is None else f"'{key}' is empty")
        return value

    def numbers(self, element: etree._Element, key: str) -> tuple[int, ...]:
        """A list "1,5*2" that counts towards the rates of the whole graph."""
        text = self.attribute(element, key)
        if ";" in text:
            raise self.fault(
                element,
                f"{key} {quote(text)} has initial phases (Kiter's ';'), which are not supported",
            )
        try:
            values = parse_short_form(text, MAX_RATES, what=key)
        except GraphError as error:
            raise self.fault(element, error.message) from None
        if len(values) > self.left:
            counts = f"{len(values)} entries, after {MAX_RATES - self.left} before it; at most {MAX_RATES} of a graph are read"
            raise self.fault(element, f"{key} list of {counts}")
        self.left -= len(values)
        return values

    def number(self, element: etree._Element, key: str) -> int:
        try:
            return parse_short_form(self.attribute(element, key), 1, what=key)[0]
        except GraphError as error:
            raise self.fault(element, error.message) from None

    def number_or(self, element: etree._Element, key: str, default: int) -> int:
        return default if element.get(key) is None else self.number(element, key)

    def name(self, element: etree._Element) -> str:
        """The element's name, as it was before `encode_name`."""
        name = self.attribute(element, "name")
        original = element.get("originalName")
        if original is None:
            return name
        decoded = decode_name(name)
        return (
            decoded if escape_text(decoded) == original else original
        )  # edited by hand: as it was edited

    def say_warnings(self) -> None:
        """One warning for each thing that was filled in, one for everything that was read over."""
        for places in self.assumed.values():
            more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
            _LOG.warning("%s%s", places[0], more)
        dropped = sorted((+self.dropped).items())
        if dropped:
            names = [f"{count} {shorten_text(name)}" for name, count in dropped[:_SHOWN_KINDS]]
            names += [f"{len(dropped) - _SHOWN_KINDS} kinds more"] * (len(dropped) > _SHOWN_KINDS)
            _LOG.warning("%s: not modelled and dropped: %s", self.where, ", ".join(names))
