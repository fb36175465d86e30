"""How is a board without Python measured? A program that `csdfgen bundle` writes times emitted plans on the board; its
result contains all that a profile needs.

The result is JSON: the work of every actor of every plan, which csdfgen wrote into the program, and for every frame
the ticks that the firings of each actor took. All of it is checked.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from csdfgen.devices.facts import NOT_TOLD
from csdfgen.devices.measure import (
    CACHE_STATE,
    DEAREST_READING,
    FIT,
    MEASURED,
    SYSTEM,
    Kind,
    Point,
    fit_profile,
    list_kinds,
    mean_point,
    phase_work,
)
from csdfgen.devices.model import input_key
from csdfgen.devices.profile import DeviceProfile, Memory, Processor, Quantity, parse_quantity
from csdfgen.devices.units import WORK
from csdfgen.devices.work import layer_key
from csdfgen.files import Fields, load_json, quote
from csdfgen.planning.plan import Plan

FORMAT, VERSION = "csdfgen-times", 1

_DIFFERENCE = 1000
"""Difference that outputs on a board may have, in millionths of the largest value."""

_MOST_ACTORS = 2**16
_MOST_WORK = 2.0**63
_TOLD = ("board", "cpu", "governor", "kHz", "load", "clock")
"""Texts about the machine that are kept as conditions."""


# What the program contains about its network ----------------------------------------------------


def describe_network(title: str, target: str, backend: str, maker: str) -> dict[str, Any]:
    """The head of a result."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "csdfgen": maker,
        "network": title,
        "target": target,
        "backend": backend,
    }


def describe_actors(plan: Plan) -> dict[str, dict[str, Any]]:
    """The part of a result about every actor whose time is measured, by name."""
    found = {}
    for work in plan.conversion.actors:
        if work.kind == "output" or work.name in plan.sharing.silent:
            continue
        rows, amounts = phase_work(work)
        found[work.name] = {
            "key": input_key(work) if work.layer is None else layer_key(work.layer),
            "kinds": [_written(kind) for kind in list_kinds(work.layer)],
            "phases": len(rows),
            "rows": sum(rows),
            "height": max(rows),
            "amount": sum(amounts),
        }
    return found


def _written(kind: Kind) -> list[str]:
    """The kind, without formats if they are float32: older programs have none."""
    return list(kind if kind[-1] else kind[:-1])


# Reading a result -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Actor:
    key: str
    kinds: tuple[Kind, ...]
    phases: int
    rows: int
    height: int
    amount: float


@dataclass(frozen=True, slots=True)
class _Height:
    """A plan. actors: None for those without a measured time. frames: (plain, timed, ticks of every actor), in ticks."""

    rows: str
    firings: int
    actors: tuple[_Actor | None, ...]
    frames: list[tuple[int, int, list[int]]]


def import_profile(path: str | os.PathLike[str], name: str, date: str) -> DeviceProfile:
    """The profile of the board that wrote a result. date: of the import. Raises InputError for another or a damaged
    file, and for wrong outputs.
    """
    root = Fields(load_json(path), str(path))
    root.check_header(FORMAT, VERSION)
    difference = root.integer("difference")
    if difference > _DIFFERENCE:
        raise root.fault(
            f"outputs on the board differ by {difference / 1e4:g} % from csdfgen's; at most "
            f"{_DIFFERENCE / 1e4:g} % is rounding, so that its times are of something else"
        )
    heights = _heights(root)
    second, reading = root.integer("ticks a second", low=1), root.integer("reading")
    reading_taken = _reading(heights, reading)
    points: dict[str, list[Point]] = {}
    kinds: dict[str, tuple[Kind, ...]] = {}
    for height in heights:
        same: dict[str, list[Point]] = {}
        for number, actor in enumerate(height.actors):
            if actor is not None:
                same.setdefault(actor.key, []).append(
                    _point(height, number, actor, reading_taken, second)
                )
                kinds[actor.key] = actor.kinds
        for key, found in same.items():
            points.setdefault(key, []).append(mean_point(found))
    if not any(kinds.values()):
        raise root.fault("has no layer whose time counts")
    machine = root.child("machine")
    facts = _facts(root, machine, heights, date)
    beside = statistics.median(
        max(0.0, timed - sum(ticks)) / second for one in heights for _, timed, ticks in one.frames
    )
    board = next((facts[key] for key in ("board", "cpu") if facts[key] != NOT_TOLD), "")
    title = f"{board or facts['target']}, native code, imported {date}"
    sources = {
        MEASURED: "that machine, by the program of csdfgen bundle: medians over repeated frames, heights in turn",
        FIT: "least squares of relative distances from the times measured there: launch + rows * slope",
        SYSTEM: "what that machine reports",
    }
    return fit_profile(name, title, _machine(machine), points, kinds, beside, sources, facts)


def _heights(root: Fields) -> list[_Height]:
    """The plans of a result with their frames, checked."""
    found = [
        _Height(one.text("rows"), one.integer("firings", low=1), tuple(_actors(one)), [])
        for one in root.children("heights")
    ]
    if not found:
        raise root.fault("'heights' is empty; a plan at least is needed")
    frames = root.required("frames", "a list")
    if not isinstance(frames, list):
        raise root.fault(f"'frames' is {quote(frames)}; a list is needed")
    for number, frame in enumerate(frames):
        where = f"'frames[{number}]'"
        if not isinstance(frame, list) or len(frame) != 4 or not isinstance(frame[3], list):
            raise root.fault(f"{where} is {quote(frame)}; [plan, plain, timed, [ticks]] is needed")
        plan, plain, timed, ticks = frame
        if not all(type(one) is int and 0 <= one < 2**63 for one in (plan, plain, timed, *ticks)):
            raise root.fault(f"{where} has something else than whole numbers below 2**63")
        if plan >= len(found):
            raise root.fault(f"{where} is of plan {plan}; there are {len(found)}")
        actors = found[plan].actors
        if len(ticks) != len(actors):
            raise root.fault(f"{where} has ticks of {len(ticks)} actors; there are {len(actors)}")
        found[plan].frames.append((plain, timed, ticks))
    for number, height in enumerate(found):
        if not height.frames:
            raise root.fault(f"has no frame of plan {number}")
    return found


def _actors(height: Fields) -> list[_Actor | None]:
    actors = height.required("actors", "a list")
    if not isinstance(actors, list) or len(actors) > _MOST_ACTORS:
        raise height.fault(f"'actors' is {quote(actors)}; a list is needed")
    found: list[_Actor | None] = []
    for number, item in enumerate(actors):
        if item is None:
            found.append(None)
            continue
        one = Fields(item, f"{height.where}: actors[{number}]")
        amount = one.required("amount", "a number")
        if type(amount) not in (int, float) or not 0 <= amount < _MOST_WORK:
            raise one.fault(f"'amount' is {quote(amount)}; a number from 0 on is needed")
        found.append(
            _Actor(
                one.text("key"),
                _kinds(one),
                one.integer("phases", low=1),
                one.integer("rows", low=1),
                one.integer("height", low=1),
                float(amount),
            )
        )
    return found


def _kinds(actor: Fields) -> tuple[Kind, ...]:
    kinds = actor.required("kinds", "a list")
    right = isinstance(kinds, list) and all(
        isinstance(kind, list)
        and len(kind) in (3, 4)
        and all(isinstance(word, str) for word in kind)
        and kind[2] in WORK
        for kind in kinds
    )
    if not right:
        raise actor.fault(
            f"'kinds' is {quote(kinds)}; lists of operator, window and unit (and formats) are needed"
        )
    return tuple((kind[0], kind[1], kind[2], (*kind, "")[3]) for kind in kinds)


# Times ------------------------------------------------------------------------------------------


def _reading(heights: Sequence[_Height], alone: int) -> float:
    """Ticks that reading the clock adds to a firing: the difference of frames with and without readings, within bounds."""
    excess = sum(
        statistics.median(timed - plain for plain, timed, _ in one.frames) for one in heights
    )
    firings = sum(one.firings for one in heights)
    return min(max(excess / firings, alone), DEAREST_READING * alone)


def _point(height: _Height, number: int, actor: _Actor, reading: float, second: int) -> Point:
    ticks = np.array([ticks[number] for _, _, ticks in height.frames], float)
    seconds = np.maximum(ticks - reading * actor.phases, 0) / second
    low, middle, high = np.quantile(seconds, (0.25, 0.5, 0.75)).tolist()
    return Point(actor.phases, actor.rows, actor.height, middle, low, high, actor.amount)


# The machine ------------------------------------------------------------------------------------


def _machine(machine: Fields) -> tuple[Memory, Processor]:
    total, usable = machine.integer("memory"), machine.integer("usable")
    constants = machine.integer("constants")
    if not 0 < usable <= total:
        raise machine.fault(
            f"'usable' is {usable} of 'memory' {total}; more than 0, and no more than there is, is needed"
        )

    def size(written: int) -> Quantity:
        return parse_quantity(written / 2**10, "KiB", SYSTEM)

    cores = machine.integer("cores", low=1, high=2**16)
    return (
        Memory(size(total), size(usable), size(constants) if constants else None),
        Processor(cores=parse_quantity(cores, "cores", SYSTEM)),
    )


def _facts(root: Fields, machine: Fields, heights: Sequence[_Height], date: str) -> dict[str, str]:
    """The conditions of the measurement, as text by name."""
    found = {key: machine.text(key, NOT_TOLD) or NOT_TOLD for key in _TOLD}
    return {
        **found, "backend": root.text("backend", NOT_TOLD), "target": root.text("target"),
        "compiler": root.text("compiler"), "csdfgen": root.text("csdfgen"), "model": root.text("network"),
        "threads": "1", "heights": ", ".join(one.rows for one in heights),
        "repeats": str(min(len(one.frames) for one in heights)), "cache state": CACHE_STATE,
        "imported": f"{date}, from {Path(root.where).name}",
    }  # fmt: skip
