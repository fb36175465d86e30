"""What does an SDF3 file say? Graphs of SDF3 and Kiter, `sdf` and `csdf`, read strictly.

What the tools read without a word but differently, or cut (`010`, `1.5`, `1;2,3`, lists of unequal
length, a name used twice), is refused with file, line and element. What is missing and has one
plausible meaning is filled in, with a warning on the log: no `type` of the root (taken from what it
holds), a port without a channel (ignored), no default processor (the last one), no execution time
(0). What is not modelled is dropped, with one warning that names it; names of ports and types of
processors, on which nothing depends, go without.

Of several processors that are marked default the first one counts, as in publications on SDF3's own
graphs, with a warning that names actor and processors; `default="false"` marks one only where no
other is marked. The bytes of a token are Kiter's `size` or else SDF3's `tokenSize`, which counts
bits.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from lxml import etree

from csdfgen.dataflow.graph import KINDS, Actor, Channel, CsdfGraph, Kind, validate
from csdfgen.dataflow.origin import Origin, from_text
from csdfgen.errors import CsdfgenError, GraphError
from csdfgen.files import MAX_FILE_BYTES, read_bytes
from sdf3_bridge.elements import ElementReader
from sdf3_bridge.variants import check_constraint
from sdf3_bridge.xmltree import children, parse, shorten_text, tag

_OTHERS = {
    "sadf": "a scenario-aware graph (SADF)",
    "fsmsadf": "a scenario graph (FSM-SADF)",
    "scenariograph": "a scenario graph (FSM-SADF)",
    "architecturegraph": "an architecture of tiles and connections",
    "mapping": "a mapping to an architecture",
    "systemusage": "the resource usage of a system",
    "messagesset": "messages on a network",
    "storagethroughputtradeoffs": "a result of SDF3's buffersize",
    "settings": "settings of a graph generator",
    "mpflow": "a resource file of SDF3's design flow",
    "noc": "a resource file of SDF3's design flow",
}
"""What else a file of SDF3 may be, by the type of its root or an element in it, in lower case."""


@dataclass(frozen=True, slots=True)
class Sdf3File:
    """A graph with what SDF3 stores in addition and no analysis uses.

    capacities: buffer sizes, channel -> tokens. throughput: a constraint, a decimal, in iterations
        of SDF3 per time unit.
    """

    graph: CsdfGraph
    capacities: Mapping[str, int]
    throughput: str | None = None


def read(path: str | os.PathLike[str]) -> CsdfGraph:
    """Read the graph of a file. Raises InputError, GraphError: file, line, element, what is wrong."""
    return from_xml(read_bytes(path, MAX_FILE_BYTES), str(path))


def read_file(path: str | os.PathLike[str]) -> Sdf3File:
    """Read a graph file with its buffer sizes and throughput constraint. Raises InputError,
    GraphError.
    """
    reader, found = _read(read_bytes(path, MAX_FILE_BYTES), str(path))
    reader.say_warnings()
    return found


def from_xml(data: bytes, where: str = "graph") -> CsdfGraph:
    """The graph in a file's content; no entity is expanded and nothing else is opened. Raises
    GraphError.
    """
    reader, found = _read(data, where)
    reader.dropped["bufferSize"] += len(found.capacities)
    reader.dropped["throughput constraint"] += found.throughput is not None
    reader.say_warnings()
    return found.graph


def _read(data: bytes, where: str) -> tuple[_Reader, Sdf3File]:
    reader = _Reader(where)
    found = reader.file(parse(data, where))
    try:
        validate(found.graph)
    except GraphError as error:
        raise error.at(where) from None
    return reader, found


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


@dataclass(slots=True)
class _Edge:
    """A channel while it is read; bits of a token and room are what its properties say."""

    element: etree._Element
    channel: Channel
    bits: int | None = None
    room: int | None = None


class _Reader(ElementReader):
    """Reads the graph of one file: knows the actors and channels found so far."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.nodes: dict[str, _Node] = {}
        self.edges: dict[str, _Edge] = {}
        self.named: dict[tuple[str, str, str], etree._Element] = {}
        self.throughput: str | None = None

    def once(self, element: etree._Element, name: str) -> None:
        """No other element of this kind has the name, as it stands in the file or as it was before."""
        kind = tag(element)
        for key in ((kind, "in the file", element.get("name", "")), (kind, "before", name)):
            other = self.named.setdefault(key, element)
            if other is not element:
                article = "an" if kind[0] in "aeiou" else "a"
                raise self.fault(
                    element, f"{article} {kind} of this name is in line {other.sourceline} already"
                )

    # -- the graph --------------------------------------------------------------------------

    def file(self, root: etree._Element) -> Sdf3File:
        application, body = self._find_graph(root)
        for element in (root, application, body):
            self.look(element)
        kind = tag(body)
        for element in children(body):
            if tag(element) == "actor":
                self._read_actor(element, single=kind == "sdf")
            elif tag(element) != "channel":
                self.dropped[tag(element)] += 1
        if not self.nodes:
            raise self.fault(body, "has no actor")
        for element in children(body):
            if tag(element) == "channel":
                self._read_channel(element)
        for element in children(application):
            if tag(element) == f"{kind}Properties":
                self._read_properties(element)
            elif element is not body:
                self.dropped[tag(element)] += 1
        return self._file(application, body)

    def _find_graph(self, root: etree._Element) -> tuple[etree._Element, etree._Element]:
        """The application graph and the graph element in it."""
        kind = root.get("type")
        for name in (tag(root), kind or ""):
            self._refuse_other(root, name, f"type '{shorten_text(name)}'")
        if tag(root) != "sdf3":
            raise self.fault(root, "is the root element; 'sdf3' is needed")
        if kind not in (None, "sdf", "csdf"):
            raise self.fault(root, f"type '{shorten_text(kind)}' is not 'sdf' or 'csdf'")
        applications = [e for e in children(root) if tag(e) == "applicationGraph"]
        if len(applications) != 1:
            for element in children(root):
                self._refuse_other(element, tag(element), "this")
            inside = ", ".join(sorted({f"<{tag(e)}>" for e in children(root)})[:4]) or "nothing"
            raise self.fault(
                root,
                f"holds {len(applications)} application graphs, 1 is needed; there is {inside}",
            )
        for element in children(root):
            if element is not applications[0]:
                self.dropped[tag(element)] += 1
        bodies = [e for e in children(applications[0]) if tag(e) in ("sdf", "csdf")]
        if len(bodies) != 1:
            for element in children(applications[0]):
                self._refuse_other(element, tag(element), "this")
            raise self.fault(
                applications[0], f"holds {len(bodies)} <sdf> or <csdf> elements; 1 is needed"
            )
        if kind is None:
            self.assume(root, f"has no 'type'; taken as '{tag(bodies[0])}', SDF3 would refuse it")
        elif kind != tag(bodies[0]):
            raise self.fault(bodies[0], f"is in a file of type '{kind}'")
        return applications[0], bodies[0]

    def _refuse_other(self, element: etree._Element, name: str, subject: str) -> None:
        """Say what a file is that holds no graph of ours."""
        other = _OTHERS.get(name.lower())
        if other is not None:
            raise self.fault(element, f"{subject} is {other}; only SDF and CSDF graphs are read")

    def _origin(self, body: etree._Element) -> Origin | None:
        """How the graph was made from a network, if the file states it."""
        text = body.get("csdfgen")
        if text is None:
            return None
        try:
            return from_text(text)
        except CsdfgenError as error:
            raise self.fault(body, f"attribute {error}") from None

    def _read_actor(self, element: etree._Element, *, single: bool) -> None:
        self.look(element)
        name = self.name(element)
        self.once(element, name)
        ports: dict[str, _Port] = {}
        for child in children(element):
            if tag(child) == "port":
                self._read_port(child, ports, single=single)
            else:
                self.dropped[tag(child)] += 1
        said = element.get("type", "")
        function = element.get("function", "" if said == element.get("name") else said)
        self.nodes[element.get("name", "")] = _Node(element, name, function, ports)

    def _read_port(self, element: etree._Element, ports: dict[str, _Port], *, single: bool) -> None:
        self.look(element)
        port, direction = self.attribute(element, "name"), self.attribute(element, "type")
        if port in ports:
            raise self.fault(
                element, f"a port of this name is in line {ports[port].element.sourceline} already"
            )
        if direction not in ("in", "out"):
            raise self.fault(element, f"type '{shorten_text(direction)}' is not 'in' or 'out'")
        rates = self.numbers(element, "rate")
        if single and len(rates) != 1:
            raise self.fault(element, f"has {len(rates)} rates; a port of an 'sdf' graph has 1")
        first = next(iter(ports.values()), None)
        if first is not None and len(rates) != len(first.rates):
            other = f"that of port '{shorten_text(first.element.get('name'))}' {len(first.rates)}"
            raise self.fault(
                element,
                f"its rate list has length {len(rates)}, {other}; one rate per phase is needed",
            )
        ports[port] = _Port(element, direction, rates)

    def _read_channel(self, element: etree._Element) -> None:
        self.look(element)
        name = self.name(element)
        self.once(element, name)
        source, production = self._end(element, "src", "out")
        target, consumption = self._end(element, "dst", "in")
        numbers = self.number_or(element, "initialTokens", 0), self.number_or(element, "size", 1)
        channel = Channel(name, source, target, production, consumption, *numbers)
        self.edges[element.get("name", "")] = _Edge(
            element, replace(channel, kind=self._kind(element, channel))
        )

    def _end(
        self, element: etree._Element, side: str, direction: str
    ) -> tuple[str, tuple[int, ...]]:
        """Actor and rates at one end of a channel."""
        actor, port_name = (
            self.attribute(element, f"{side}Actor"),
            self.attribute(element, f"{side}Port"),
        )
        node = self.nodes.get(actor)
        if node is None:
            raise self.fault(
                element, f"{side}Actor '{shorten_text(actor)}' is no actor of the graph"
            )
        port = node.ports.get(port_name)
        if port is None:
            raise self.fault(
                element,
                f"{side}Port '{shorten_text(port_name)}' is no port of actor '{shorten_text(actor)}'",
            )
        if port.direction != direction:
            raise self.fault(
                element,
                f"{side}Port '{shorten_text(port_name)}' is of type '{port.direction}'; '{direction}' is needed",
            )
        if port.used:
            raise self.fault(
                element,
                f"{side}Port '{shorten_text(port_name)}' of actor '{shorten_text(actor)}' is on another channel already",
            )
        port.used = True
        return node.name, port.rates

    def _kind(self, element: etree._Element, channel: Channel) -> Kind:
        """The stated kind of a channel; without one, a channel that forbids overlap is serial, any other is data."""
        said = element.get("channelKind", "serial" if channel.is_serial else "data")
        for kind in KINDS:
            if kind == said:
                return kind
        raise self.fault(
            element, f"channelKind '{shorten_text(said)}' is not one of {', '.join(KINDS)}"
        )

    # -- properties -------------------------------------------------------------------------

    def _read_properties(self, block: etree._Element) -> None:
        read = {
            "actorProperties": self._read_actor_properties,
            "channelProperties": self._read_channel_properties,
            "graphProperties": self._read_graph_properties,
        }
        for element in children(block):
            if tag(element) in read:
                read[tag(element)](element)
            else:
                self.dropped[tag(element)] += 1

    def _read_actor_properties(self, element: etree._Element) -> None:
        self.look(element)
        actor = self.attribute(element, "actor")
        node = self.nodes.get(actor)
        if node is None:
            raise self.fault(element, "is for an actor that the graph does not have")
        processors = [child for child in children(element) if tag(child) == "processor"]
        self.dropped.update(tag(child) for child in children(element) if tag(child) != "processor")
        if not processors:
            return
        marked = [p for p in processors if p.get("default") is not None]
        true = [p for p in marked if p.get("default") != "false"]
        chosen = true[0] if true else (marked or processors)[-1]
        if len(true) > 1:
            names = [f"'{shorten_text(p.get('type', ''))}'" for p in true]
            self.assume(
                element,
                f"marks processors {' and '.join(names)} as default; the time of the first is taken, SDF3 takes the last",
                kind="default processors",
            )
        if not marked:
            self.assume(
                element,
                "marks no processor as default; the last one is taken, SDF3 would refuse the file",
            )
        others = len(processors) - max(1, len(true))
        self.dropped["processor that is not the default"] += others
        times = [e for e in children(chosen) if tag(e) == "executionTime"]
        self.dropped.update(tag(e) for e in children(chosen) if tag(e) != "executionTime")
        self.look(chosen)
        if not times:
            return
        self.look(times[-1])
        self.dropped["executionTime that is not the last"] += len(times) - 1
        if node.times:
            self.assume(element, "gives execution times a second time; the last ones count")
        node.times = self.numbers(times[-1], "time")
        phases = next((len(port.rates) for port in node.ports.values()), len(node.times))
        if len(node.times) != phases:
            raise self.fault(
                times[-1],
                f"its time list has length {len(node.times)}, phases of actor '{shorten_text(actor)}': {phases}",
            )

    def _read_channel_properties(self, element: etree._Element) -> None:
        edge = self.edges.get(self.attribute(element, "channel"))
        if edge is None:
            raise self.fault(element, "is for a channel that the graph does not have")
        self.look(element)
        for child in children(element):
            self.look(child)
            if tag(child) == "tokenSize":
                if edge.bits is not None:
                    self.assume(
                        child, "gives the bits of a token a second time; the last ones count"
                    )
                edge.bits = self.number(child, "sz")
            elif tag(child) == "bufferSize" and child.get("sz") is not None:
                if edge.room is not None:
                    self.assume(
                        child, "gives the size of a buffer a second time; the last one counts"
                    )
                edge.room = self.number(child, "sz")
            else:
                self.dropped[tag(child)] += 1

    def _read_graph_properties(self, element: etree._Element) -> None:
        for child in children(element):
            if tag(child) == "timeConstraints":
                for constraint in children(child):
                    self._read_constraint(constraint)
            else:
                self.dropped[tag(child)] += 1

    def _read_constraint(self, element: etree._Element) -> None:
        if tag(element) != "throughput":
            self.dropped[f"{tag(element)} constraint"] += 1
            return
        text = (element.text or "").strip()
        try:
            check_constraint(text)
        except GraphError as error:
            raise self.fault(element, error.message) from None
        if self.throughput is not None:
            self.assume(element, "constrains the throughput a second time; the last one counts")
        self.throughput = text

    # -- what was read ----------------------------------------------------------------------

    def _file(self, application: etree._Element, body: etree._Element) -> Sdf3File:
        actors = tuple(self._actor(node) for node in self.nodes.values())
        channels = tuple(self._channel(edge) for edge in self.edges.values())
        name = self.name(body) if body.get("name") else application.get("name", "graph")
        sizes = {
            edge.channel.name: edge.room for edge in self.edges.values() if edge.room is not None
        }
        return Sdf3File(
            CsdfGraph(name, actors, channels, self._origin(body)), sizes, self.throughput
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

    def _channel(self, edge: _Edge) -> Channel:
        """The channel with its properties: the bytes of a token are `size`, or else the bits of
        `tokenSize` rounded up.
        """
        if edge.bits is None:
            return edge.channel
        count = -(-edge.bits // 8)
        if edge.element.get("size") is None:
            if edge.bits % 8:
                self.assume(
                    edge.element, f"has tokens of {edge.bits} bits; {count} bytes are taken"
                )
            return replace(edge.channel, token_bytes=count)
        if count != edge.channel.token_bytes:
            self.assume(
                edge.element,
                f"has tokens of size {edge.channel.token_bytes}, and of {edge.bits} bits; its size counts",
            )
        return edge.channel
