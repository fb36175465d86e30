"""What does an SDF3 file say? Graphs of SDF3 and Kiter, `sdf` and `csdf`, read strictly.

What the tools read without a word but differently, or cut (`010`, `1.5`, `1;2,3`, lists of unequal length, a name
used twice), is refused with file, line and element. What is missing and has one plausible meaning is
filled in, with a warning on the log: no `type` of the root (taken from what it holds), a port without a channel
(ignored), no default processor (the last one), no execution time (0: it shows as a throughput without bound
instead of as a plausible number). What is not modelled is dropped, with one warning that names it.

Of several processors the last one that is marked default counts, as in SDF3; `default="false"` marks one only
where no other is marked.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from lxml import etree

from csdfgen.errors import CsdfgenError, GraphError
from csdfgen.files import MAX_FILE_BYTES, quoted, read_bytes
from csdfgen.graph import KINDS, MAX_RATES, Actor, Channel, CsdfGraph, Kind, parse_short_form, validate
from csdfgen.origin import Origin, from_text
from sdf3_bridge.names import decode_name, printable

__all__ = ["from_xml", "read"]

_LOG = logging.getLogger(__name__)

_MAX_MARKUP = 4_000_000
"""Elements and attributes that a file may have; a parsed one takes some hundred bytes."""

_ENCODINGS = {"utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin-1", "latin1", "iso-8859-15", "windows-1252"}
"""Encodings in which markup is ASCII, so that looking for a DOCTYPE finds every one."""

_PROLOG = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s+|<\?.*?\?>|<!--.*?-->)*", re.DOTALL)
_DECLARED = re.compile(rb"""^(?:\xef\xbb\xbf)?<\?xml[^>]*?encoding\s*=\s*["']([^"']*)["']""")

_DOCTYPE = "has a DOCTYPE, which could declare entities; SDF3 files have none, remove it"

_NOT_GRAPHS = ("fsmsadf", "sadf", "scenariograph", "fsm", "mpflow", "noc", "systemusage")


def read(path: str | os.PathLike[str]) -> CsdfGraph:
    """Read a graph file. Raises InputError, GraphError: file, line, element, what is wrong."""
    return from_xml(read_bytes(path, MAX_FILE_BYTES), str(path))


def from_xml(data: bytes, where: str = "graph") -> CsdfGraph:
    """The graph in a file's content; no entity is expanded and nothing else is opened. Raises GraphError."""
    root = _parse(data, where)
    reader = _Reader(where)
    graph = reader.graph(root)
    try:
        validate(graph)
    except GraphError as error:
        raise error.at(where) from None
    reader.say_warnings()
    return graph


def _parse(data: bytes, where: str) -> etree._Element:
    """The root element, of data whose size and prolog were looked at first."""
    declared = _DECLARED.match(data)
    encoding = declared[1].decode("ascii", "replace").lower() if declared else "utf-8"
    if encoding not in _ENCODINGS or b"\0" in data:
        raise GraphError(f"is encoded as {encoding if declared else 'no text'}; UTF-8 is needed", where=where)
    prolog = _PROLOG.match(data)
    if data.startswith(b"<!DOCTYPE", prolog.end() if prolog else 0):
        raise GraphError(_DOCTYPE, where=where)
    markup = data.count(b"<") + data.count(b"=")
    if markup > _MAX_MARKUP:
        raise GraphError(f"has {markup} elements and attributes; at most {_MAX_MARKUP} are read", where=where)
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, dtd_validation=False, huge_tree=False, remove_comments=True
    )
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        line = f"{where}:{error.lineno}" if error.lineno else where
        raise GraphError(f"is not well-formed XML: {error.msg}", where=line) from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise GraphError(_DOCTYPE, where=where)
    return root


@dataclass(slots=True)
class _Port:
    element: etree._Element
    direction: str
    rates: tuple[int, ...]
    used: bool = False


@dataclass(slots=True)
class _Node:
    """An actor while it is read: its ports by name, its times once its properties are found."""

    element: etree._Element
    name: str
    function: str
    ports: dict[str, _Port]
    times: tuple[int, ...] = ()


class _Reader:
    """Reads one file: knows its name, how many rates may still come, what was dropped."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.left = MAX_RATES
        self.dropped: Counter[str] = Counter()
        self.assumed: dict[str, list[GraphError]] = {}
        self.nodes: dict[str, _Node] = {}
        self.channel_ids: set[str] = set()

    # -- elements and attributes ------------------------------------------------------------

    def fault(self, element: etree._Element, message: str) -> GraphError:
        label = next((f" '{_short(element.get(key))}'" for key in ("name", "actor", "channel") if element.get(key)), "")
        return GraphError(message, where=f"{self.where}:{element.sourceline}: <{_tag(element)}>{label}")

    def assume(self, element: etree._Element, message: str) -> None:
        """Remember what was filled in, and where; `say_warnings` tells it once."""
        self.assumed.setdefault(message, []).append(self.fault(element, message))

    def attribute(self, element: etree._Element, key: str) -> str:
        value = element.get(key)
        if value is None or not value.strip():
            raise self.fault(element, f"has no '{key}'" if value is None else f"'{key}' is empty")
        return value

    def numbers(self, element: etree._Element, key: str) -> tuple[int, ...]:
        """A list "1,5*2" that counts towards the rates of the whole graph."""
        text = self.attribute(element, key)
        if ";" in text:
            raise self.fault(element, f"{key} {quoted(text)} has initial phases (Kiter's ';'), which are not supported")
        try:
            values = parse_short_form(text, self.left, what=key)
        except GraphError as error:
            raise self.fault(element, error.message) from None
        self.left -= len(values)
        return values

    def number(self, element: etree._Element, key: str, default: int) -> int:
        if element.get(key) is None:
            return default
        try:
            return parse_short_form(self.attribute(element, key), 1, what=key)[0]
        except GraphError as error:
            raise self.fault(element, error.message) from None

    def name(self, element: etree._Element) -> str:
        """The element's name, as it was before `encode_name`."""
        name = self.attribute(element, "name")
        original = element.get("originalName")
        if original is None:
            return name
        decoded = decode_name(name)
        return decoded if printable(decoded) == original else original  # edited by hand: as it was edited

    # -- the graph --------------------------------------------------------------------------

    def graph(self, root: etree._Element) -> CsdfGraph:
        application, body = self._find_graph(root)
        kind = _tag(body)
        for element in _children(body):
            if _tag(element) == "actor":
                self._read_actor(element, single=kind == "sdf")
        if not self.nodes:
            raise self.fault(body, "has no actor")
        channels = [self._read_channel(element) for element in _children(body) if _tag(element) == "channel"]
        self._check_channel_names(channels)
        for element in _children(application):
            if _tag(element) == f"{kind}Properties":
                self._read_properties(element)
            elif element is not body:
                self.dropped[_tag(element)] += 1
        actors = tuple(self._actor(node) for node in self.nodes.values())
        body_name = self.name(body) if body.get("name") else application.get("name", "graph")
        return CsdfGraph(body_name, actors, tuple(channel for _, channel in channels), self._origin(body))

    def _find_graph(self, root: etree._Element) -> tuple[etree._Element, etree._Element]:
        """The application graph and the graph element in it."""
        kind = root.get("type")
        if _tag(root).lower() in _NOT_GRAPHS or (kind or "").lower() in _NOT_GRAPHS:
            raise self.fault(
                root, f"type '{_short(kind)}' is no SDF or CSDF graph; scenario and resource files are not supported"
            )
        if _tag(root) != "sdf3":
            raise self.fault(root, "is the root element; 'sdf3' is needed")
        if kind not in (None, "sdf", "csdf"):
            raise self.fault(root, f"type '{_short(kind)}' is not 'sdf' or 'csdf'")
        applications = [e for e in _children(root) if _tag(e) == "applicationGraph"]
        if len(applications) != 1:
            inside = ", ".join(sorted({f"<{_tag(e)}>" for e in _children(root)})[:4]) or "nothing"
            raise self.fault(root, f"holds {len(applications)} application graphs, 1 is needed; there is {inside}")
        for element in _children(root):
            if element is not applications[0]:
                self.dropped[_tag(element)] += 1
        bodies = [e for e in _children(applications[0]) if _tag(e) in ("sdf", "csdf")]
        if len(bodies) != 1:
            raise self.fault(applications[0], f"holds {len(bodies)} <sdf> or <csdf> elements; 1 is needed")
        if kind is None:
            self.assume(root, f"has no 'type'; taken as '{_tag(bodies[0])}', SDF3 would refuse it")
        elif kind != _tag(bodies[0]):
            raise self.fault(bodies[0], f"is in a file of type '{kind}'")
        return applications[0], bodies[0]

    def _origin(self, body: etree._Element) -> Origin | None:
        """How the graph was made from a network, if it says so."""
        text = body.get("csdfgen")
        if text is None:
            return None
        try:
            return from_text(text)
        except CsdfgenError as error:
            raise self.fault(body, f"attribute {error}") from None

    def _read_actor(self, element: etree._Element, *, single: bool) -> None:
        name = self.attribute(element, "name")
        if name in self.nodes:
            raise self.fault(element, f"an actor of this name is in line {self.nodes[name].element.sourceline} already")
        ports: dict[str, _Port] = {}
        for child in _children(element):
            if _tag(child) != "port":
                self.dropped[_tag(child)] += 1
                continue
            port, direction = self.attribute(child, "name"), self.attribute(child, "type")
            if port in ports:
                raise self.fault(child, f"a port of this name is in line {ports[port].element.sourceline} already")
            if direction not in ("in", "out"):
                raise self.fault(child, f"type '{_short(direction)}' is not 'in' or 'out'")
            rates = self.numbers(child, "rate")
            if single and len(rates) != 1:
                raise self.fault(child, f"has {len(rates)} rates; a port of an 'sdf' graph has 1")
            first = next(iter(ports.values()), None)
            if first is not None and len(rates) != len(first.rates):
                other = f"that of port '{_short(first.element.get('name'))}' {len(first.rates)}"
                raise self.fault(child, f"its rate list has length {len(rates)}, {other}; one rate per phase is needed")
            ports[port] = _Port(child, direction, rates)
        self.nodes[name] = _Node(element, self.name(element), element.get("function", ""), ports)

    def _read_channel(self, element: etree._Element) -> tuple[etree._Element, Channel]:
        source, production = self._end(element, "src", "out")
        target, consumption = self._end(element, "dst", "in")
        tokens = self.number(element, "initialTokens", 0)
        channel = Channel(self.name(element), source, target, production, consumption, tokens, self.number(element, "size", 1))
        return element, replace(channel, kind=self._kind(element, channel))

    def _end(self, element: etree._Element, side: str, direction: str) -> tuple[str, tuple[int, ...]]:
        """Actor and rates at one end of a channel."""
        actor, port_name = self.attribute(element, f"{side}Actor"), self.attribute(element, f"{side}Port")
        node = self.nodes.get(actor)
        if node is None:
            raise self.fault(element, f"{side}Actor '{_short(actor)}' is no actor of the graph")
        port = node.ports.get(port_name)
        if port is None:
            raise self.fault(element, f"{side}Port '{_short(port_name)}' is no port of actor '{_short(actor)}'")
        if port.direction != direction:
            raise self.fault(element, f"{side}Port '{_short(port_name)}' is of type '{port.direction}'; '{direction}' is needed")
        if port.used:
            raise self.fault(
                element, f"{side}Port '{_short(port_name)}' of actor '{_short(actor)}' is on another channel already"
            )
        port.used = True
        return node.name, port.rates

    def _kind(self, element: etree._Element, channel: Channel) -> Kind:
        """What the channel says; a foreign one that forbids overlap is serial, any other is data."""
        said = element.get("channelKind", "serial" if channel.is_serial else "data")
        for kind in KINDS:
            if kind == said:
                return kind
        raise self.fault(element, f"channelKind '{_short(said)}' is not one of {', '.join(KINDS)}")

    def _check_channel_names(self, channels: list[tuple[etree._Element, Channel]]) -> None:
        lines: dict[str, object] = {}
        for element, channel in channels:
            if channel.name in lines:
                raise self.fault(element, f"a channel of this name is in line {lines[channel.name]} already")
            lines[channel.name] = element.sourceline
        self.channel_ids = {element.get("name", "") for element, _ in channels}

    # -- properties -------------------------------------------------------------------------

    def _read_properties(self, block: etree._Element) -> None:
        for element in _children(block):
            tag = _tag(element)
            if tag == "actorProperties":
                self._read_actor_properties(element)
            elif tag == "channelProperties":
                if self.attribute(element, "channel") not in self.channel_ids:
                    raise self.fault(element, "is for a channel that the graph does not have")
                self.dropped.update(_tag(child) for child in _children(element))
            else:
                self.dropped[tag] += 1

    def _read_actor_properties(self, element: etree._Element) -> None:
        actor = self.attribute(element, "actor")
        node = self.nodes.get(actor)
        if node is None:
            raise self.fault(element, "is for an actor that the graph does not have")
        processors = []
        for child in _children(element):
            if _tag(child) == "processor":
                processors.append(child)
            else:
                self.dropped[_tag(child)] += 1
        if not processors:
            return
        marked = [p for p in processors if p.get("default") is not None]
        chosen = ([p for p in marked if p.get("default") != "false"] or marked or processors)[-1]
        if not marked:
            self.assume(element, "marks no processor as default; the last one is taken, SDF3 would refuse the file")
        if len(processors) > 1:
            self.dropped["processor that is not the default"] += len(processors) - 1
        times = [e for e in _children(chosen) if _tag(e) == "executionTime"]
        self.dropped.update(_tag(e) for e in _children(chosen) if _tag(e) != "executionTime")
        if not times:
            return
        if node.times:
            self.assume(element, "gives execution times a second time; the last ones count")
        node.times = self.numbers(times[-1], "time")
        phases = next((len(port.rates) for port in node.ports.values()), len(node.times))
        if len(node.times) != phases:
            raise self.fault(
                times[-1], f"its time list has length {len(node.times)}, actor '{_short(actor)}' has {phases} phase(s)"
            )

    def _actor(self, node: _Node) -> Actor:
        for port in node.ports.values():
            if not port.used:
                self.assume(port.element, "is on no channel and is ignored; SDF3 would crash on it")
        times = node.times
        if not times:
            self.assume(node.element, "has no execution time; 0 is taken")
            times = (0,) * next((len(port.rates) for port in node.ports.values()), 1)
        return Actor(node.name, times, node.function)

    def say_warnings(self) -> None:
        """One warning for each thing that was filled in, one for everything that was read over."""
        for places in self.assumed.values():
            more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
            _LOG.warning("%s%s", places[0], more)
        if self.dropped:
            what = ", ".join(f"{count} {tag}" for tag, count in sorted(self.dropped.items()))
            _LOG.warning("%s: not modelled and dropped: %s", self.where, what)


def _children(element: etree._Element) -> Iterator[etree._Element]:
    """Child elements; comments and processing instructions are none."""
    return (child for child in element if isinstance(child.tag, str))


def _tag(element: etree._Element) -> str:
    """The element's name without a namespace."""
    return etree.QName(element).localname


def _short(text: str | None) -> str:
    """A name from the file, cut where it is long."""
    text = " ".join((text or "").split())
    return text if len(text) <= 60 else text[:60] + "..."
