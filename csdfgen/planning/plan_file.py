"""How is a plan kept in a file, and what must hold before a plan from a file is believed?

{"format": "csdfgen-plan", "version": 2, "model": "net.onnx", "digest": "5d0ef2a1c8b34f76",
 "batch": 1, "inputs": {"x": [1, 3, 224, 224]},
 "options": {"rows": "auto", "fuse": "full", "image": "streamed", "policy": "best", "frames": 1},
 "policy": "demand", "arena": 65536,
 "buffers": [{"name": "conv1", "kind": "tensor", "offset": 0, "size": 4096, "capacity": 4},
             {"name": "workspace:conv1", "kind": "workspace", "offsets": "112*4096", "sizes": "112*1024"}],
 "firings": [{"actor": "input:x", "first": 0, "count": 3}, ...],
 "figures": {"peak_live": 61440, ...}}

Options and shapes say how to load and cut the model, `digest` what comes of it; a plan for another
network is refused by name. Firings (as loops, see `schedules.schedule`), capacities in rows and
offsets in bytes are taken from the file as they are, and go through the checker that every plan goes
through. What kernels need as workspace is asked anew: a file that has less is refused. Figures are
for people: they are counted again. Files of version 1, whose arena was without workspace, are read;
their workspace is placed beside the buffers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from csdfgen.dataflow.graph import parse_short_form, short_form
from csdfgen.dataflow.origin import read_shapes
from csdfgen.errors import CsdfgenError, PlanError
from csdfgen.files import Fields, load_json, write_json
from csdfgen.kernels.numpy_set import NUMPY
from csdfgen.kernels.steps import KernelSet
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.phases.conversion import MAX_PHASES
from csdfgen.phases.provenance import digest_of
from csdfgen.planning.buffers import (
    ARENA,
    Buffer,
    workspace_buffer,
    workspace_name,
)
from csdfgen.planning.capacities import check_order
from csdfgen.planning.checker import check
from csdfgen.planning.lifetimes import Lifetimes, lifetimes_of, times_of
from csdfgen.planning.placement import Block, Region, place_workspaces
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import Prepared, assemble, prepare
from csdfgen.planning.workspaces import Declarations
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
VERSION = 2

_MAX_OFFSET = 2**48


@dataclass(frozen=True, slots=True)
class _Block:
    """One buffer as the file has it: bytes [offset, offset + size) for `capacity` rows."""

    name: str
    offset: int
    size: int
    capacity: int


@dataclass(frozen=True, slots=True)
class _Scratch:
    """A workspace as the file has it: offset and bytes of every phase."""

    name: str
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan as read from a file, before it is held against a network. digest: "" in version 1,
    which has no scratch either.
    """

    where: str
    version: int
    model: str
    digest: str
    batch: int
    inputs: Mapping[str, tuple[int, ...]]
    options: PlanOptions
    policy: str
    arena: int
    blocks: tuple[_Block, ...]
    scratch: tuple[_Scratch, ...]
    order: tuple[tuple[str, int], ...]


def to_json(plan: Plan) -> dict[str, Any]:
    """The plan as JSON values."""
    network = plan.network
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": Path(network.source).name or network.name,
        "digest": digest_of(plan.conversion),
        "batch": network.batch,
        "inputs": {tensor.name: list(network.whole_shape(tensor)) for tensor in network.inputs},
        "options": plan.options.to_json(),
        "policy": plan.policy,
        "arena": plan.planned_bytes,
        "buffers": [_buffer_to_json(buffer, plan.regions[buffer.name]) for buffer in plan.buffers],
        "firings": firings_to_json(Firing(actor, phase) for actor, phase in plan.order),
        "figures": dict(plan.figures),
    }


def _buffer_to_json(buffer: Buffer, region: Region) -> dict[str, Any]:
    named = {"name": buffer.name, "kind": buffer.kind}
    if buffer.kind == "workspace":
        return {**named, "offsets": short_form(region.table), "sizes": short_form(buffer.sizes)}
    return {**named, "offset": region.offset, "size": region.size, "capacity": region.capacity}


def write_plan(path: str | os.PathLike[str], plan: Plan) -> None:
    """Write a plan file; the same plan gives the same bytes. Raises InputError."""
    write_json(path, to_json(plan))


def read_plan(path: str | os.PathLike[str]) -> PlanFile:
    """Read a plan file. Raises InputError or PlanError, one line with place, key and what is there."""
    return from_json(load_json(path), str(path))


def from_json(data: object, where: str = "plan") -> PlanFile:
    """The plan in JSON values. Raises PlanError, or InputError for options that do not exist."""
    fields = Fields(data, where, PlanError)
    version = fields.check_header(FORMAT, VERSION)
    firings = firings_from_json(fields, limit=MAX_PHASES)
    late = next((firing for firing in firings if firing.iteration), None)
    if late is not None:
        raise fields.fault(
            f"fires '{late.actor}' in iteration {late.iteration + 1}; a plan has 1 iteration"
        )
    try:
        options = PlanOptions.from_fields(fields.child("options"))
    except CsdfgenError as error:
        raise error if isinstance(error, PlanError) else error.at(where) from None
    listed = tuple(fields.children("buffers"))
    name = "name" if version > 1 else "storage"
    kinds = [item.text("kind") if version > 1 else "tensor" for item in listed]
    left = MAX_PHASES
    blocks, scratch = [], []
    for item, kind in zip(listed, kinds, strict=True):
        if kind == "workspace":
            one = _scratch(item, left)
            left -= len(one.sizes)
            scratch.append(one)
        else:
            numbers = item.integer("offset"), item.integer("size"), item.integer("capacity", low=1)
            blocks.append(_Block(item.text(name), *numbers))
    return PlanFile(
        where,
        version,
        fields.text("model"),
        fields.text("digest") if version > 1 else "",
        fields.integer("batch", low=1),
        MappingProxyType(dict(read_shapes(fields.child("inputs")))),
        options,
        fields.text("policy") if version > 1 else options.policy,
        fields.integer("arena"),
        tuple(blocks),
        tuple(scratch),
        tuple((firing.actor, firing.phase) for firing in firings),
    )


def _scratch(item: Fields, limit: int) -> _Scratch:
    """A workspace, of at most so many phases."""
    lists = []
    for key in ("offsets", "sizes"):
        try:
            values = parse_short_form(item.text(key), limit, what=key)
        except CsdfgenError as error:
            raise item.fault(f"'{key}': {error.message}") from None
        if max(values, default=0) > _MAX_OFFSET:
            raise item.fault(f"'{key}' has {max(values)}; at most {_MAX_OFFSET} is read")
        lists.append(values)
    offsets, sizes = lists
    if len(offsets) != len(sizes):
        raise item.fault(f"has {len(offsets)} offsets for {len(sizes)} sizes; one each is needed")
    return _Scratch(item.text("name"), offsets, sizes)


def to_plan(file: PlanFile, network: Network, kernels: KernelSet = NUMPY) -> Plan:
    """The plan of a file for the network that it was made for, loaded with the file's shapes and
    batch.

    Raises PlanError where the file does not fit the network or its buffers share bytes, InputError
    for options that do not exist, ScheduleError and CapacityExceededError where its firings cannot
    run in its buffers. kernels: the backend whose workspace the file must have.
    """
    try:
        prepared = prepare(network, file.options)
        _check_network(file, prepared)
        check_order(file.order, prepared.conversion, file.model, file.options.to_json())
        lifetimes = lifetimes_of(file.order, prepared.buffers)
        blocks = _blocks(file, prepared.buffers)
        regions = {
            block.name: Region(block.name, block.offset, buffer.row_bytes, block.capacity)
            for block, buffer in zip(blocks, prepared.buffers, strict=True)
        }
        _check_end(file, (*blocks, *file.scratch))
        draft = Plan(
            prepared.conversion,
            prepared.sharing,
            file.options,
            file.policy,
            file.order,
            prepared.buffers,
            MappingProxyType(regions),
            MappingProxyType({ARENA: file.arena}),
        )
        check(draft)  # rows that cannot be held are told before the scratch that they would take
        if file.version > 1:
            scratch, arena = file.scratch, file.arena
        else:
            scratch, arena = _placed_anew(file, prepared, blocks, lifetimes, kernels)
        workspaces = _workspaces(prepared, scratch, regions, kernels)
        regions.update((one.name, _table(one)) for one in scratch)
        return assemble(
            replace(
                draft,
                buffers=(*prepared.buffers, *workspaces),
                regions=MappingProxyType(dict(regions)),
                pools=MappingProxyType({ARENA: arena}),
            )
        )
    except CsdfgenError as error:
        raise error.at(file.where) from None


def _check_network(file: PlanFile, prepared: Prepared) -> None:
    """The network is the one that the plan was made for: names, shapes and rows of all phases."""
    digest = digest_of(prepared.conversion)
    if file.digest and digest != file.digest:
        network = prepared.conversion.network
        name = Path(network.source).name or network.name
        raise PlanError(
            f"made for '{file.model}' ({file.digest}), whose phases have other names, rows or shapes "
            f"than those of '{name}' ({digest}); make a plan of this network"
        )


def _blocks(file: PlanFile, buffers: Sequence[Buffer]) -> list[_Block]:
    """The file's blocks in the order of the buffers, each of the size of its rows."""
    given = {block.name: block for block in file.blocks}
    if len(given) != len(file.blocks):
        raise PlanError(
            f"lists {len(file.blocks)} buffers by {len(given)} names; one each is needed"
        )
    unknown = sorted(given.keys() - {buffer.name for buffer in buffers})
    if unknown:
        raise PlanError(
            f"has a buffer '{unknown[0]}', which stores nothing here ({len(unknown)} such, {len(buffers)} buffers)"
        )
    found = []
    for buffer in buffers:
        block = given.get(buffer.name)
        if block is None:
            raise PlanError(
                f"has no buffer '{buffer.name}' ({len(given)} of {len(buffers)} buffers)"
            )
        needed = block.capacity * buffer.row_bytes
        if block.size != needed or block.capacity > max(1, buffer.rows):
            raise PlanError(
                f"buffer '{buffer.name}' has {block.size} bytes and {block.capacity} rows; "
                f"its rows, at most {buffer.rows}, take {buffer.row_bytes} bytes each"
            )
        found.append(block)
    return found


def _table(one: _Scratch) -> Region:
    return Region(one.name, min(one.offsets), max(one.sizes), 1, table=one.offsets)


def _placed_anew(
    file: PlanFile,
    prepared: Prepared,
    blocks: Sequence[_Block],
    lifetimes: Lifetimes,
    kernels: KernelSet,
) -> tuple[tuple[_Scratch, ...], int]:
    """The scratch of a file of version 1, and the arena with it."""
    regions = {b.name: b.capacity for b in blocks}
    sizes = _declared(prepared, regions, kernels)
    times = times_of(file.order)
    spans = [Block(b.size, *one.span) for b, one in zip(blocks, lifetimes.each, strict=True)]
    wanted = {actor: (found, times[actor]) for actor, found in sizes.items()}
    offsets, total = place_workspaces(spans, [block.offset for block in blocks], wanted)
    scratch = tuple(
        _Scratch(workspace_name(actor), offsets[actor], tuple(found.tolist()))
        for actor, found in sizes.items()
    )
    return scratch, total


def _declared(
    prepared: Prepared, capacities: Mapping[str, int], kernels: KernelSet
) -> Mapping[str, Any]:
    """Bytes of scratch of each phase of the actors that need any, in buffers of these capacities."""
    found = Declarations(prepared.conversion, prepared.sharing, prepared.buffers, kernels)
    return found.sizes_within(capacities)


def _workspaces(
    prepared: Prepared,
    given: Sequence[_Scratch],
    regions: Mapping[str, Region],
    kernels: KernelSet,
) -> list[Buffer]:
    """Buffers of the scratch in the file, at least as large as the kernels' need is here."""
    wanted = _declared(prepared, {n: region.capacity for n, region in regions.items()}, kernels)
    actors = {workspace_name(actor): actor for actor in wanted}
    by_name = {one.name: one for one in given}
    if len(by_name) != len(given) or by_name.keys() != actors.keys():
        odd = sorted(by_name.keys() ^ actors.keys())
        raise PlanError(
            f"has {len(given)} workspaces, {len(actors)} are needed here"
            + (f"; one of them alone has '{odd[0]}'" if odd else "")
        )
    found = []
    for one in given:
        needs = wanted[actors[one.name]].tolist()
        if len(needs) != len(one.sizes):
            raise PlanError(f"'{one.name}' has {len(one.sizes)} sizes for {len(needs)} phases")
        short = next((k for k, n in enumerate(needs) if one.sizes[k] < n), None)
        if short is not None:
            raise PlanError(
                f"'{one.name}' has {one.sizes[short]} bytes in phase {short}, its kernel needs {needs[short]}"
            )
        found.append(workspace_buffer(actors[one.name], one.sizes))
    return found


def _check_end(file: PlanFile, items: Sequence[_Block | _Scratch]) -> None:
    """The arena ends where its last buffer does."""
    end = 0
    for item in items:
        if isinstance(item, _Block):
            end = max(end, item.offset + item.size)
        else:
            ends = (o + size for o, size in zip(item.offsets, item.sizes, strict=True) if size)
            end = max(end, *ends, 0)
    if end != file.arena:
        raise PlanError(f"has an arena of {file.arena} bytes, its buffers end at byte {end}")
