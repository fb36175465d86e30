"""How is a plan stored in a file, and what is checked when it is read?

{"format": "csdfgen-plan", "version": 3, "model": "net.onnx", "digest": "5d0ef2a1c8b34f76",
 "batch": 1, "inputs": {"x": [1, 3, 224, 224]},
 "options": {"rows": "auto", "fuse": "full", "image": "streamed", "policy": "best", "frames": 1},
 "policy": "demand", "apart": true, "fine": false, "arena": 65536,
 "buffers": [{"name": "conv1", "kind": "tensor", "offsets": "0,4096,2*8192"},
             {"name": "workspace:conv1", "kind": "workspace", "offsets": "112*4096", "sizes": "112*1024"}],
 "firings": [{"actor": "input:x", "first": 0, "count": 3}, ...],
 "mapping": {"input:x": 0, "conv1": 0, "conv2": 1},
 "figures": {"peak_live": 61440, ...}}

Options and shapes define how the model is loaded and cut into phases, and `digest` is a checksum of the result: a plan
of another network is refused, with the names of both. apart: whether operands of a Concat have separate buffers; fine:
whether blocks have only rows that are released together.
mapping: actor -> processor, left out where there is one. Firings (as loops, see `schedules.schedule`) and the offset of
every row are read from the file, and the plan has to pass the checker as every plan. The backend is asked again for the
workspace that kernels need: a file with less is refused. Figures are information only and computed again. Files of
versions before 3, written by releases before 0.3, are refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.dataflow.graph import format_runs, parse_short_form
from csdfgen.dataflow.origin import Values, read_shapes, read_values
from csdfgen.errors import CsdfgenError, InputError, PlanError, prefix_errors
from csdfgen.files import Fields, load_json, write_json
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.phases.conversion import MAX_PHASES
from csdfgen.phases.graphs import digest_conversion, fixed_inputs_json, model_file_name
from csdfgen.planning import stream_file
from csdfgen.planning.buffers import ARENA, Buffer, workspace_buffer, workspace_name
from csdfgen.planning.capacities import check_order
from csdfgen.planning.checker import check
from csdfgen.planning.lifetimes import Lifetimes, trace_lifetimes
from csdfgen.planning.ordering import lower_bound
from csdfgen.planning.placement import Region
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import assemble
from csdfgen.planning.prepared import Phased, Prepared, prepare
from csdfgen.program.steps import Backend
from schedules.schedule import Firing, firings_from_json, firings_to_json

FORMAT = "csdfgen-plan"
VERSION = 3

_MAX_OFFSET = 2**48
_MAX_CORES = 1024


@dataclass(frozen=True, slots=True)
class _Stored:
    """A buffer of a file: the offset of every row, or of a workspace the offset and bytes of every phase."""

    name: str
    offsets: tuple[int, ...]
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan as read from a file, before it is compared with a network."""

    where: str
    model: str
    digest: str
    batch: int
    inputs: Mapping[str, tuple[int, ...]]
    options: PlanOptions
    policy: str
    apart: bool
    fine: bool
    arena: int
    border: int
    rows: tuple[_Stored, ...]
    scratch: tuple[_Stored, ...]
    order: tuple[tuple[str, int], ...]
    fixed: Mapping[str, Values]
    mapping: Mapping[str, int]


def to_json(plan: Plan) -> dict[str, Any]:
    """The plan as JSON values."""
    network = plan.network
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": model_file_name(network),
        "digest": digest_conversion(plan.conversion),
        "batch": network.batch,
        "inputs": {tensor.name: list(network.whole_shape(tensor)) for tensor in network.inputs},
        **({"fixed": fixed_inputs_json(network)} if network.fixed else {}),
        "options": plan.options.to_json(),
        "policy": plan.policy,
        "apart": bool(plan.sharing.spread),
        "fine": plan.fine,
        "arena": plan.planned_bytes,
        **({"border": plan.border} if plan.border else {}),
        "buffers": [_buffer_to_json(buffer, plan.regions[buffer.name]) for buffer in plan.buffers],
        "firings": firings_to_json(Firing(actor, phase) for actor, phase in plan.order),
        **({"mapping": dict(plan.mapping)} if plan.mapping else {}),
        "figures": dict(plan.figures),
    }


def _buffer_to_json(buffer: Buffer, region: Region) -> dict[str, Any]:
    offsets = format_runs(region.table, ones=False)
    named = {"name": buffer.name, "kind": buffer.kind, "offsets": offsets}
    return (
        {**named, "sizes": format_runs(buffer.sizes, ones=False)}
        if buffer.kind == "workspace"
        else named
    )


def write_plan(path: str | os.PathLike[str], plan: Plan) -> None:
    """Write a plan file; the same plan gives the same bytes. That of a tall image, whose firings repeat, is that of a stream
    (`stream_file`). Raises InputError.
    """
    turns = plan.turns
    write_json(path, stream_file.to_json(turns.stream, turns.network) if turns else to_json(plan))


def read_plan(path: str | os.PathLike[str]) -> PlanFile:
    """Read a plan file. Raises InputError or PlanError with file, key and value."""
    return from_json(load_json(path), str(path))


def from_json(data: object, where: str = "plan") -> PlanFile:
    """The plan of JSON values. Raises PlanError, or InputError for options that do not exist."""
    fields = Fields(data, where, PlanError)
    fields.check_header(FORMAT, VERSION, oldest=VERSION)
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
    rows, scratch = _buffers(fields)
    return PlanFile(
        where,
        fields.text("model"),
        fields.text("digest"),
        fields.integer("batch", low=1),
        MappingProxyType(dict(read_shapes(fields.child("inputs")))),
        options,
        fields.text("policy"),
        fields.flag("apart"),
        fields.flag("fine"),
        fields.integer("arena"),
        fields.integer("border", default=0),
        rows,
        scratch,
        tuple((firing.actor, firing.phase) for firing in firings),
        read_values(fields),
        _mapping(fields),
    )


def _mapping(fields: Fields) -> Mapping[str, int]:
    """Actor -> processor; empty where the plan has one. Raises PlanError unless processors are numbered from 0."""
    if "mapping" not in fields:
        return MappingProxyType({})
    given = fields.child("mapping")
    found = {name: given.integer(name, high=_MAX_CORES - 1) for name in given.value}
    unused = sorted({*range(max(found.values(), default=0))} - {*found.values()})
    if unused:
        raise given.fault(f"maps no actor to processor {unused[0]}, but to {max(found.values())}")
    return MappingProxyType(found)


def _buffers(fields: Fields) -> tuple[tuple[_Stored, ...], tuple[_Stored, ...]]:
    """(buffers of rows, workspaces)."""
    left = MAX_PHASES * 8  # rows of all buffers; a layer's phase writes at least one
    rows: list[_Stored] = []
    scratch: list[_Stored] = []
    for item in fields.children("buffers"):
        name, offsets = item.text("name"), _numbers(item, "offsets", left)
        left -= len(offsets)
        if item.text("kind") != "workspace":
            rows.append(_Stored(name, offsets))
            continue
        sizes = _numbers(item, "sizes", len(offsets) + 1)
        if len(offsets) != len(sizes):
            raise item.fault(
                f"has {len(offsets)} offsets for {len(sizes)} sizes; one each is needed"
            )
        scratch.append(_Stored(name, offsets, sizes))
    return tuple(rows), tuple(scratch)


def _numbers(item: Fields, key: str, limit: int) -> tuple[int, ...]:
    """Numbers in short form, at most `limit`."""
    try:
        values = parse_short_form(item.text(key), limit, what=key)
    except CsdfgenError as error:
        raise item.fault(f"'{key}': {error.message}") from None
    if max(values, default=0) > _MAX_OFFSET:
        raise item.fault(f"'{key}' has {max(values)}; at most {_MAX_OFFSET} is read")
    return values


def to_plan(file: PlanFile, network: Network, kernels: Backend) -> Plan:
    """The plan of a file for the network that it was made for, loaded with the file's shapes and batch.

    kernels: the backend whose workspace the file must have. Raises PlanError if the file does not fit the network or its
    buffers share bytes, InputError for options that do not exist, ScheduleError and CapacityExceededError if its firings
    cannot be executed in its buffers.
    """
    return make_plan(file, prepare_file(file, network, kernels))


def prepare_file(file: PlanFile, network: Network, kernels: Backend) -> Prepared:
    """The network for this plan and for others that differ in rows, batches and budgets only: they share weights.
    Raises InputError.
    """
    with prefix_errors(file.where), _fitting(file, network):
        return prepare(network, file.options, kernels, apart=file.apart)


def make_plan(file: PlanFile, prepared: Prepared) -> Plan:
    """The plan of a file for a prepared network. Raises as `to_plan`."""
    with prefix_errors(file.where):
        with _fitting(file, prepared.network):
            phased = prepared.phased(file.options, fine=file.fine)
        _check_network(file, phased)
        check_order(file.order, phased.conversion, file.model, file.options.to_json())
        regions = _regions(file, phased, trace_lifetimes(file.order, phased.buffers))
        _check_end(file, regions, phased.buffers)
        draft = Plan(
            phased.conversion,
            phased.sharing,
            file.options,
            file.policy,
            file.order,
            phased.buffers,
            MappingProxyType(regions),
            MappingProxyType({ARENA: file.arena}),
            {},
            border=file.border,
            fine=file.fine,
        )
        check(draft)  # faults of rows are reported before those of their scratch
        whole = _with_scratch(file, draft, phased)
        bound = lower_bound(phased.conversion, phased.buffers, phased.scratch, file.order)
        return assemble(whole, bound)


@contextmanager
def _fitting(file: PlanFile, network: Network) -> Iterator[None]:
    """Errors of options that do not fit the network name the network and the plan's model. Raises InputError."""
    try:
        yield
    except InputError as error:
        raise InputError(
            f"made for '{file.model}', does not fit '{model_file_name(network)}': {error}; make a plan of this network"
        ) from None


def _check_network(file: PlanFile, phased: Phased) -> None:
    """Check that the plan was made for this network: names, shapes and rows of all phases. Raises PlanError."""
    digest = digest_conversion(phased.conversion)
    if digest != file.digest:
        raise PlanError(
            f"made for '{file.model}' ({file.digest}), whose phases have other names, rows or shapes "
            f"than those of '{model_file_name(phased.conversion.network)}' ({digest}); make a plan of this network"
        )


def _regions(file: PlanFile, phased: Phased, lifetimes: Lifetimes) -> dict[str, Region]:
    """The regions of the network's buffers by the offsets of the file. Raises PlanError."""
    given, buffers = {one.name: one for one in file.rows}, phased.buffers
    if len(given) != len(file.rows):
        raise PlanError(f"lists {len(file.rows)} buffers by {len(given)} names; one each is needed")
    unknown = sorted(given.keys() - {buffer.name for buffer in buffers})
    if unknown:
        raise PlanError(
            f"has a buffer '{unknown[0]}', which stores nothing here ({len(unknown)} such, {len(buffers)} buffers)"
        )
    found = {}
    for buffer, one in zip(buffers, lifetimes.each, strict=True):
        rows = given.get(buffer.name)
        if rows is None:
            raise PlanError(
                f"has no buffer '{buffer.name}' ({len(given)} of {len(buffers)} buffers)"
            )
        if len(rows.offsets) != buffer.rows:
            raise PlanError(
                f"buffer '{buffer.name}' has offsets for {len(rows.offsets)} of {buffer.rows} rows"
            )
        found[buffer.name] = Region(buffer.name, buffer.row_bytes, one.capacity, rows.offsets)
    return found


def _with_scratch(file: PlanFile, draft: Plan, phased: Phased) -> Plan:
    """The plan with the scratch of its file."""
    idle = {
        work.name: np.zeros(len(work.phases), np.int64)
        for work in phased.conversion.actors
        if work.layer is not None and work.name not in phased.sharing.silent
    }
    buffers = _workspaces(file.scratch, phased.scratch, idle, phased.kernels.alignment(ARENA))
    regions = {one.name: Region(one.name, max(one.sizes), 1, one.offsets) for one in file.scratch}
    return replace(
        draft,
        buffers=(*phased.buffers, *buffers),
        regions=MappingProxyType({**draft.regions, **regions}),
        needs=phased.scratch,
        mapping=file.mapping,
    )


def _workspaces(
    given: Sequence[_Stored],
    needs: Mapping[str, np.ndarray],
    idle: Mapping[str, np.ndarray],
    alignment: int,
) -> tuple[Buffer, ...]:
    """The workspaces of the file, which must be at least as large as kernels need. Raises PlanError.

    idle: 0 for every phase, of all actors that may have scratch.
    """
    actors = {workspace_name(actor): actor for actor in idle}
    needed = {workspace_name(actor) for actor in needs}
    by_name = {one.name: one for one in given}
    odd = sorted((needed - by_name.keys()) | (by_name.keys() - actors.keys()))
    if odd or len(by_name) != len(given):
        raise PlanError(
            f"has {len(given)} workspaces, {len(needed)} are needed here"
            + (f"; one of them alone has '{odd[0]}'" if odd else "")
        )
    found = []
    for one in given:
        actor = actors[one.name]
        least = needs.get(actor, idle[actor]).tolist()
        if len(least) != len(one.sizes):
            raise PlanError(f"'{one.name}' has {len(one.sizes)} sizes for {len(least)} phases")
        short = next((k for k, n in enumerate(least) if one.sizes[k] < n), None)
        if short is not None:
            raise PlanError(
                f"'{one.name}' has {one.sizes[short]} bytes in phase {short}, its kernel needs {least[short]}"
            )
        found.append(workspace_buffer(actor, one.sizes, alignment))
    return tuple(found)


def _check_end(file: PlanFile, regions: Mapping[str, Region], buffers: Sequence[Buffer]) -> None:
    """Check that the arena ends with its last row or scratch. Raises PlanError."""
    ends = [max(regions[b.name].table) + b.row_bytes for b in buffers if b.rows]
    ends += [
        at + size
        for one in file.scratch
        for at, size in zip(one.offsets, one.sizes, strict=True)
        if size
    ]
    end = max(ends, default=0)
    if end != file.arena:
        raise PlanError(f"has an arena of {file.arena} bytes, its buffers end at byte {end}")
