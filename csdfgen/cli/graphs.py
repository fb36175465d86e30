"""From the name of a graph file to a graph, and from what is typed of its channels to capacities: by channel, or
as a file that has them, which is a schedule, or a graph whose channels have buffer sizes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import typer

from csdfgen.dataflow.graph import CsdfGraph, add_serial_loops
from csdfgen.dataflow.graph_json import read_graph
from csdfgen.errors import InputError
from csdfgen.model.units import pluralize

_CAPACITY = re.compile(r"(.+?)=([0-9]{1,18})(?:,|$)", re.DOTALL)


def read_graph_file(path: str, options: Sequence[str], capacities: Path | None = None) -> CsdfGraph:
    """The CSDF graph in a .json or .xml file; `options` are those given that only a model takes.

    capacities: the file whose buffer sizes are used; if it is this one, they are not reported as
        dropped.
    """
    if options:
        raise InputError(f"is a graph; {options[0]} is for models", where=path)
    if path.lower().endswith(".json"):
        return read_graph(path)
    from sdf3_bridge import sdf3xml

    return sdf3xml.read_file(path).graph if capacities == Path(path) else sdf3xml.read(path)


def graph_sizes(graph: CsdfGraph) -> str:
    """Numbers of actors, phases and channels."""
    phases = sum(actor.phases for actor in graph.actors)
    return f"{pluralize(len(graph.actors), 'actor')}, {pluralize(phases, 'phase')}, {pluralize(len(graph.channels), 'channel')}"


class Capacities(NamedTuple):
    """What was typed: tokens by channel, and a file."""

    by_name: Mapping[str, int]
    file: Path | None


def parse_capacities(texts: Sequence[str] | None) -> Capacities:
    """Tokens by channel from "CHANNEL=N,CHANNEL=N", whatever the names hold, and the one file that
    was named. Raises typer.BadParameter.
    """

    def refused(said: str) -> typer.BadParameter:
        return typer.BadParameter(said, param_hint="--capacities")

    found: dict[str, int] = {}
    file: Path | None = None
    for text in texts or ():
        if text.lower().endswith((".json", ".xml")):
            if file is not None:
                raise refused(f"'{file}' and '{text}': one file is read")
            file = Path(text)
            continue
        at = 0
        while at < len(text):
            match = _CAPACITY.match(text, at)
            if match is None:
                raise refused(
                    f"'{text[at:]}' is not CHANNEL=TOKENS,..., nor a schedule (.json) or a graph with buffer sizes (.xml)"
                )
            if match[1] in found:
                raise refused(f"channel '{match[1]}' is given twice")
            found[match[1]] = int(match[2])
            at = match.end()
    return Capacities(found, file)


def resolve_capacities(graph: CsdfGraph, given: Capacities) -> dict[str, int]:
    """Channel -> capacity in tokens of `graph`: those given by name, before those of the file.

    A file that says how many bytes its tokens have may count in others than the graph does. Raises
    CsdfgenError for a file that cannot be read, or for a graph without buffer sizes.
    """
    if given.file is None:
        return dict(given.by_name)
    stored, token_bytes = _stored(given.file)
    if not stored and given.file.suffix.lower() == ".xml":
        raise InputError("has no buffer sizes for --capacities to read", where=str(given.file))
    # a schedule counts the one token of a serial self-loop, which limits nothing
    serial = {channel.name for channel in add_serial_loops(graph).channels if channel.is_serial}
    sizes = {channel.name: channel.token_bytes for channel in graph.channels}
    found = {}
    for name, tokens in stored.items():
        if name not in serial:
            own, other = sizes.get(name, 0), token_bytes.get(name, 0)
            found[name] = tokens * other // own if own and other else tokens
    return {**found, **given.by_name}


def _stored(file: Path) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Capacities in a file, and the bytes of its tokens as far as they are known."""
    if file.suffix.lower() == ".json":
        from schedules.schedule import read_schedule

        schedule = read_schedule(file)
        return schedule.capacities, schedule.token_bytes
    from sdf3_bridge import sdf3xml

    found = sdf3xml.read_file(file)
    return found.capacities, {channel.name: channel.token_bytes for channel in found.graph.channels}
