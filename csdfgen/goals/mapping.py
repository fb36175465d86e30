"""Which processor of several kinds computes which layer, and what is predicted of it?

`--map` has devices by layer, a file of them, or `auto`, which searches for them (`csdfgen.goals.mapping_search`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from csdfgen.backends import ALWAYS, FOLDERS
from csdfgen.backends.registry import AUTO, load_backend, resolve_backend
from csdfgen.errors import InputError, ToolError, option
from csdfgen.files import load_json
from csdfgen.goals.throughput import build_processor_graph, graph_period
from csdfgen.model.network import Network
from csdfgen.model.units import parse_size
from csdfgen.planning.mapped import MappedPlan, Turn

_PAIR = re.compile(rf"(.+?)=((?:{'|'.join(FOLDERS)})(?::[^,=]*)?)(?:,|$)")
"""LAYER=DEVICE; commas and equals signs may be part of a layer's name."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """Seconds between two frames of a filled pipeline, and of a frame alone. loads: seconds a frame of each processor."""

    period: float
    latency: float
    loads: tuple[float, ...]


def parse_processors(text: str) -> tuple[tuple[str, ...], list[int | None]]:
    """(processors, bytes of memory that each may take) of auto:DEVICE[=BYTES],...; without devices those of all backends that
    this machine can have, but for the slowest. Raises InputError.
    """
    _, _, listed = text.partition(":")
    names, limits = list[str](), list[int | None]()
    for one in listed.split(",") if listed else _present():
        name, equals, size = one.partition("=")
        check_processor(name)
        names.append(name)
        limits.append(parse_size(size) if equals else None)
    if len({*names}) < len(names):
        raise InputError(f"{option('map', text)}: names a processor twice")
    return tuple(names), limits


def _present() -> list[str]:
    """Backends that can be had."""
    found = []
    for name in FOLDERS:
        with suppress(ToolError):
            load_backend(name)
            found.append(name)
    return [name for name in found if name != ALWAYS] or found


def parse_mapping(text: str, network: Network) -> tuple[tuple[str, ...], dict[str, int]]:
    """(processors, layer -> number of its processor) of LAYER=DEVICE,... or a file of them.

    A layer that is not named has the device of the layer in front of it in the order of the network; in front of the first
    one that is named that is the fastest backend. Raises InputError.
    """
    given = load_json(text) if Path(text).is_file() else _parse_pairs(text)
    known = {layer.name for layer in network.layers}
    for name, device in given.items() if isinstance(given, dict) else ():
        if name not in known:
            some = ", ".join(list(known)[:4])
            raise InputError(f"'{name}' is no layer of '{network.name}', which has {some}, ...")
        check_processor(device)
    if not isinstance(given, dict) or not given:
        raise InputError(f"{text}: no JSON object of devices by layer")
    found, device = dict[str, str](), resolve_backend(AUTO)
    for layer in network.layers:
        device = found[layer.name] = str(given.get(layer.name, device))
    processors = tuple(dict.fromkeys(found.values()))
    return processors, {name: processors.index(one) for name, one in found.items()}


def _parse_pairs(text: str) -> dict[str, str]:
    """Devices by layer."""
    rest = _PAIR.sub("", text)
    if rest:
        raise InputError(
            f"{option('map', text)}: '{rest}' is not LAYER=DEVICE, such as conv5=opencl"
        )
    return dict(_PAIR.findall(text))


def check_processor(device: object) -> None:
    """Raises InputError for what names no processor."""
    if not isinstance(device, str) or device.partition(":")[0] not in FOLDERS:
        known = ", ".join(FOLDERS)
        raise InputError(
            f"{option('map')}: '{device}' is none of {known} (opencl:1 is its second device)"
        )


def planning_options(processor: str) -> dict[str, Any]:
    """Options of planning for a processor: BACKEND, or BACKEND:DEVICE."""
    backend, _, device = processor.partition(":")
    return {"backend": backend, **({"cl_device": device} if device else {})}


def predict(plan: MappedPlan, times: Mapping[Turn, float]) -> Predicted:
    """What the dataflow graph of a mapped plan predicts. times: seconds of each turn alone."""
    steady = plan.steps_to_steady
    turns = plan.turns(steady + 1)
    order = [(str(part), turn) for part, turn, _ in turns]
    mapping = {str(number): part.processor for number, part in enumerate(plan.parts)}
    each: dict[str, Sequence[float]] = {
        str(number): [times[number, turn] for turn in range(part.turns)]
        for number, part in enumerate(plan.parts)
    }
    cores = [each] * len(plan.processors)
    graph = build_processor_graph(
        order, mapping, plan.spread_waits(turns), steady + 1, cores, steady
    )
    loads = [0.0] * len(plan.processors)
    for name, seconds in each.items():
        loads[mapping[name]] += sum(seconds)
    return Predicted(graph_period(graph), _latency(plan, times), tuple(loads))


def _latency(plan: MappedPlan, times: Mapping[Turn, float]) -> float:
    """From the first turn of a frame alone to the last one: turns start when those that they wait for have ended."""
    steps = plan.lag + 1
    turns = plan.turns(steps)
    ends: list[list[float]] = [[] for _ in plan.processors]
    for (part, turn, frame), waits in zip(turns, plan.spread_waits(turns), strict=True):
        mine = ends[plan.parts[part].processor]
        start = max([ends[k][n - 1] for k, n in waits] + mine[-1:], default=0.0)
        mine.append(start + (times[part, turn] if frame == 0 else 0.0))
    return max(one[-1] for one in ends if one)
