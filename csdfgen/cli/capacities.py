"""How are capacities typed? By channel, or as a file that has them: a schedule, or a graph whose
channels have buffer sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import typer

from csdfgen.dataflow.graph import CsdfGraph, with_serial_loops
from csdfgen.errors import InputError

__all__ = ["CAPACITIES", "Capacities", "capacities_for", "parse_capacities"]

CAPACITIES = "CHANNEL=N,...|FILE"
"""What the option takes, for its help."""

_CAPACITY = re.compile(r"(.+?)=([0-9]{1,18})(?:,|$)", re.DOTALL)
_SUFFIXES = (".json", ".xml")


@dataclass(frozen=True, slots=True)
class Capacities:
    """What was typed: tokens by channel, and a file."""

    by_name: Mapping[str, int] = field(default_factory=dict)
    file: Path | None = None

    def __bool__(self) -> bool:
        return bool(self.by_name or self.file)


def parse_capacities(texts: Sequence[str]) -> Capacities:
    """Tokens by channel from "CHANNEL=N,CHANNEL=N", whatever the names hold, and the one file that
    was named.

    Raises typer.BadParameter.
    """
    found: dict[str, int] = {}
    file: Path | None = None
    for text in texts:
        if text.lower().endswith(_SUFFIXES):
            if file is not None:
                raise typer.BadParameter(
                    f"'{file}' and '{text}': one file is read", param_hint="--capacities"
                )
            file = Path(text)
            continue
        for name, tokens in _pairs(text):
            if name in found:
                raise typer.BadParameter(
                    f"channel '{name}' is given twice", param_hint="--capacities"
                )
            found[name] = tokens
    return Capacities(found, file)


def _pairs(text: str) -> Iterator[tuple[str, int]]:
    at = 0
    while at < len(text):
        match = _CAPACITY.match(text, at)
        if match is None:
            raise typer.BadParameter(
                f"'{text[at:]}' is not CHANNEL=TOKENS,..., nor a schedule (.json) or a graph with buffer sizes (.xml)",
                param_hint="--capacities",
            )
        yield match[1], int(match[2])
        at = match.end()


def capacities_for(graph: CsdfGraph, given: Capacities) -> dict[str, int]:
    """Channel -> capacity in tokens of `graph`: those given by name, before those of the file.

    A file that says how many bytes its tokens have may count in others than the graph does. Raises
    CsdfgenError for a file that cannot be read, or for a graph without buffer sizes.
    """
    if given.file is None:
        return dict(given.by_name)
    stored, token_bytes = _stored(given.file)
    if not stored and given.file.suffix.lower() == ".xml":
        raise InputError(
            "has no buffer sizes, which --capacities could read", where=str(given.file)
        )
    # a schedule counts the one token of a serial self-loop, which is no room that could limit
    serial = {channel.name for channel in with_serial_loops(graph).channels if channel.is_serial}
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
