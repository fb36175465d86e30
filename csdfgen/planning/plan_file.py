"""How is a plan kept in a file, and what must hold before a plan from a file is believed?

{"format": "csdfgen-plan", "version": 1, "model": "net.onnx", "batch": 1, "inputs": {"x": [1, 3, 224, 224]},
 "options": {"rows": "auto", "fuse": "full", "image": "streamed", "policy": "demand"},
 "arena": 65536,
 "buffers": [{"storage": "conv1", "offset": 0, "size": 4096, "capacity": 4}],
 "firings": [{"actor": "input:x", "first": 0, "count": 3}, ...],
 "figures": {"peak_live": 61440, ...}}

Options and shapes say how to load and cut the model; firings (as loops, see `schedules.schedule`),
capacities in rows and offsets in bytes are taken from the file as they are. Reading them back
checks that they are those of this network and that buffers in use at the same time share no bytes;
the runtime's ledger then follows the firings row by row and refuses any that read what is not there
or overwrite what is needed (docs/model.md). Figures other than the arena
are for people: they are counted again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from csdfgen.dataflow.origin import read_shapes
from csdfgen.errors import CsdfgenError, PlanError
from csdfgen.files import Fields, load_json, write_json
from csdfgen.model.network import Network
from csdfgen.phases.conversion import MAX_PHASES
from csdfgen.phases.provenance import whole_shape
from csdfgen.planning.capacities import check_order
from csdfgen.planning.memory import ALIGNMENT, BufferPlan, BufferSlot, Storage, occupancy
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import assemble, prepare
from schedules.schedule import Firing, firings_from_json, firings_to_json

__all__ = [
    "FORMAT",
    "VERSION",
    "PlanFile",
    "from_json",
    "read_plan",
    "to_json",
    "to_plan",
    "write_plan",
]

FORMAT = "csdfgen-plan"
VERSION = 1


@dataclass(frozen=True, slots=True)
class _Buffer:
    """One buffer as the file has it: bytes [offset, offset + size) for `capacity` rows."""

    storage: str
    offset: int
    size: int
    capacity: int


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan as read from a file, before it is held against a network."""

    where: str
    model: str
    batch: int
    inputs: Mapping[str, tuple[int, ...]]
    options: Mapping[str, str]
    arena: int
    buffers: tuple[_Buffer, ...]
    order: tuple[tuple[str, int], ...]


def to_json(plan: Plan) -> dict[str, Any]:
    """The plan as JSON values."""
    network = plan.network
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": Path(network.source).name or network.name,
        "batch": network.batch,
        "inputs": {tensor.name: list(whole_shape(network, tensor)) for tensor in network.inputs},
        "options": {
            "rows": str(plan.conversion.rows),
            "fuse": plan.fuse,
            "image": plan.image,
            "policy": plan.policy,
        },
        "arena": plan.planned_bytes,
        "buffers": [
            {
                "storage": slot.storage,
                "offset": slot.offset,
                "size": slot.size,
                "capacity": slot.capacity,
            }
            for slot in plan.buffers.slots
        ],
        "firings": firings_to_json(Firing(actor, phase) for actor, phase in plan.order),
        "figures": dict(plan.figures),
    }


def write_plan(path: str | os.PathLike[str], plan: Plan) -> None:
    """Write a plan file; the same plan gives the same bytes. Raises InputError."""
    write_json(path, to_json(plan))


def read_plan(path: str | os.PathLike[str]) -> PlanFile:
    """Read a plan file. Raises InputError or PlanError, one line with place, key and what is there."""
    return from_json(load_json(path), str(path))


def from_json(data: object, where: str = "plan") -> PlanFile:
    """The plan in JSON values. Raises PlanError."""
    fields = Fields(data, where, PlanError)
    fields.check_header(FORMAT, VERSION)
    options = fields.child("options")
    firings = firings_from_json(fields, limit=MAX_PHASES)
    late = next((firing for firing in firings if firing.iteration), None)
    if late is not None:
        raise fields.fault(
            f"fires '{late.actor}' in iteration {late.iteration + 1}; a plan has 1 iteration"
        )
    return PlanFile(
        where,
        fields.text("model"),
        fields.integer("batch", low=1),
        MappingProxyType(dict(read_shapes(fields.child("inputs")))),
        MappingProxyType(
            {name: options.text(name) for name in ("rows", "fuse", "image", "policy")}
        ),
        fields.integer("arena"),
        tuple(
            _Buffer(
                item.text("storage"),
                item.integer("offset"),
                item.integer("size"),
                item.integer("capacity", low=1),
            )
            for item in fields.children("buffers")
        ),
        tuple((firing.actor, firing.phase) for firing in firings),
    )


def to_plan(file: PlanFile, network: Network) -> Plan:
    """The plan of a file for the network that it was made for, loaded with the file's shapes and
    batch.

    Raises PlanError where the file does not fit the network or its buffers share bytes, InputError
    for options that do not exist, ScheduleError and CapacityExceededError where its firings cannot
    run in its buffers.
    """
    options = file.options
    try:
        conversion, placement, found = prepare(
            network, options["rows"], options["fuse"], options["image"]
        )
        check_order(file.order, conversion, file.model, options)
        slots = _slots(file, found)
        occupied = occupancy(file.order, found)
        buffers = BufferPlan(
            tuple(
                BufferSlot(slot.storage, slot.offset, slot.size, slot.capacity, *span)
                for slot, span in zip(slots, occupied.spans, strict=True)
            ),
            file.arena,
        )
        _check_bytes(buffers)
        fuse, image, policy = options["fuse"], options["image"], options["policy"]
        return assemble(
            Plan(conversion, placement, fuse, image, policy, file.order, found, buffers, occupied)
        )
    except CsdfgenError as error:
        raise error.at(file.where) from None


def _slots(file: PlanFile, found: Sequence[Storage]) -> list[_Buffer]:
    """The file's buffers in the order of the storages, each of the size of its rows; they end where
    the arena ends.
    """
    given = {buffer.storage: buffer for buffer in file.buffers}
    if len(given) != len(file.buffers):
        raise PlanError(
            f"lists {len(file.buffers)} buffers for {len(given)} storages; one each is needed"
        )
    unknown = sorted(given.keys() - {storage.name for storage in found})
    if unknown:
        raise PlanError(
            f"has a buffer for '{unknown[0]}', which stores nothing here ({len(unknown)} such, {len(found)} storages)"
        )
    slots = []
    for storage in found:
        buffer = given.get(storage.name)
        if buffer is None:
            raise PlanError(
                f"has no buffer for '{storage.name}' ({len(given)} buffers, {len(found)} storages)"
            )
        needed = buffer.capacity * storage.row_bytes
        if buffer.size != needed or buffer.capacity > max(1, storage.rows):
            raise PlanError(
                f"buffer '{storage.name}' has {buffer.size} bytes and {buffer.capacity} rows; "
                f"its rows, at most {storage.rows}, take {storage.row_bytes} bytes each"
            )
        slots.append(buffer)
    end = max((buffer.offset + buffer.size for buffer in slots), default=0)
    if end != file.arena:
        raise PlanError(f"has an arena of {file.arena} bytes, its buffers end at byte {end}")
    return slots


def _check_bytes(buffers: BufferPlan) -> None:
    """Buffers that hold rows at the same time have bytes of their own, at offsets that suit every
    number format.
    """
    active: list[BufferSlot] = []
    for slot in sorted(buffers.slots, key=lambda slot: slot.first_firing):
        if slot.offset % ALIGNMENT:
            raise PlanError(
                f"buffer '{slot.storage}' starts at byte {slot.offset}, which is no multiple of {ALIGNMENT}"
            )
        active = [other for other in active if other.end_firing > slot.first_firing]
        for other in active:
            if slot.offset < other.offset + other.size and other.offset < slot.offset + slot.size:
                raise PlanError(
                    f"buffers '{other.storage}' (bytes {other.offset} to {other.offset + other.size}) and '{slot.storage}' "
                    f"({slot.offset} to {slot.offset + slot.size}) hold rows at the same time"
                )
        active.append(slot)
