"""How is a plan of images of any height stored in a file, and what is checked when it is read?

{"format": "csdfgen-stream", "version": 1, "model": "net.onnx", "digest": "5d0ef2a1c8b34f76",
 "inputs": {"x": [1, 3, 960, 640]}, "options": {"rows": "1,conv1=4", ...},
 "period": 64, "turn": 512, "fine": true, "arena": 65536, "peak": 61440, "bound": 61440, "unit": 64,
 "before": {"input:x": 3, "conv1": 1}, "actors": ["input:x", "conv1"], "word": "16*0,1,4*0,1",
 "buffers": [{"name": "x", "rows": 40, "blocks": "40", "offsets": "12"},
             {"name": "conv1", "rows": 16, "blocks": "4*4", "offsets": "0,8,16,24"}]}

The shapes are those of the image in which the order was found, whatever image was named; the plan of a tall image has those
of that image as "image". before: firings of each actor in front of the period at 0; word: numbers of the actors that fire in
a period. Of each buffer: rows after which offsets repeat, the rows of its blocks and their offsets, in units. All figures
follow from these and are computed again; the word has to pass the checkers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.dataflow.graph import format_runs, parse_short_form
from csdfgen.dataflow.origin import Values, read_shapes, read_values
from csdfgen.errors import CsdfgenError, InputError, PlanError, prefix_errors
from csdfgen.files import Fields, load_json, write_json
from csdfgen.model.network import AtHeight, Network
from csdfgen.model.options import PlanOptions
from csdfgen.phases.conversion import Conversion
from csdfgen.phases.graphs import digest_conversion, fixed_inputs_json, model_file_name
from csdfgen.planning.circles import Tables
from csdfgen.planning.plan import Plan
from csdfgen.planning.repeating import Period, conversion_shares, make_loop
from csdfgen.planning.streams import StreamPlan, make_stream, phase_stream
from csdfgen.program.steps import Backend
from schedules.peak.repeated import Repeated

FORMAT = "csdfgen-stream"
VERSION = 1

_MOST = 1 << 20
"""Numbers of a list at most."""


def to_json(stream: StreamPlan, image: Network | None = None) -> dict[str, Any]:
    """The plan as JSON values. image: the network for the tall image of which it is."""
    loop, network = stream.loop, stream.network
    actors = list(loop.before)
    number = {name: k for k, name in enumerate(actors)}
    offsets = [offset for _, table in loop.tables.values() for offset in table.values()]
    unit = int(np.gcd.reduce([loop.arena, *offsets]))
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": model_file_name(network),
        "digest": digest_conversion(stream.conversion),
        "inputs": _shapes(network),
        **({"image": _shapes(image)} if image is not None else {}),
        **({"fixed": fixed_inputs_json(network)} if network.fixed else {}),
        "options": stream.options.to_json(),
        "period": stream.period,
        "turn": stream.turn,
        "fine": loop.fine,
        "arena": loop.arena,
        "peak": loop.peak,
        "bound": loop.bound,
        "unit": unit,
        "before": dict(loop.before),
        "word": format_runs([number[name] for name in loop.word], ones=False),
        "buffers": [
            {
                "name": name,
                "rows": rows,
                "blocks": format_runs(np.diff([*sorted(table), rows]).tolist(), ones=False),
                "offsets": format_runs([table[k] // unit for k in sorted(table)], ones=False),
            }
            for name, (rows, table) in loop.tables.items()
        ],
    }


def _shapes(network: Network) -> dict[str, list[int]]:
    return {tensor.name: list(tensor.shape) for tensor in network.inputs}


def write_stream(path: str | os.PathLike[str], stream: StreamPlan) -> None:
    """Write the file; the same plan gives the same bytes. Raises InputError, for a plan of several passes, too."""
    if stream.earlier:
        raise InputError(
            "a plan of several passes is for one source, and cannot be written; make it where it runs"
        )
    write_json(path, to_json(stream))


@dataclass(frozen=True, slots=True)
class StreamFile:
    """A plan as read from a file, before it is compared with a network. inputs: the shapes for which a network is loaded; image:
    those of a tall image, if the plan is of one.
    """

    where: str
    model: str
    digest: str
    inputs: Mapping[str, tuple[int, ...]]
    image: Mapping[str, tuple[int, ...]]
    fixed: Mapping[str, Values]
    options: PlanOptions
    fine: bool
    arena: int
    peak: int
    bound: int
    before: Mapping[str, int]
    word: tuple[int, ...]
    tables: Tables

    def stream(self, network: Network, at_height: AtHeight, kernels: Backend) -> StreamPlan:
        """The plan of images of any height of a network that was loaded with `inputs`. Raises PlanError if it does not fit the
        network, or rows share bytes.
        """
        with prefix_errors(self.where):
            phased = phase_stream(network, self.options, kernels, fine=self.fine)
            made = digest_conversion(phased.conversion)
            if made != self.digest:
                raise PlanError(
                    f"made for '{self.model}' ({self.digest}), whose phases have other names, rows or shapes than those of "
                    f"'{model_file_name(phased.conversion.network)}' ({made}); make a plan of this network"
                )
            period = Period(phased, self._order(phased.conversion), self.peak, self.bound)
            return make_stream(phased, make_loop(period, self.arena, self.tables), at_height)

    def plan(self, network: Network, kernels: Backend) -> Plan:
        """The plan of a tall image of a network that was loaded with `image`. Raises PlanError as `stream`, and for a network of
        no file.
        """
        tensor, at_height = network.inputs[0], network.at_height
        if at_height is None or tensor.row_axis is None:
            raise PlanError(
                "reads the network at other heights, too; give its file", where=self.where
            )
        low = at_height(self.inputs[tensor.name][tensor.row_axis])
        return self.stream(low, at_height, kernels).loop_at(tensor.rows)

    def _order(self, conversion: Conversion) -> Repeated:
        """The order by numbers of the network's actors. Raises PlanError."""
        names = [work.name for work in conversion.actors]
        shares = conversion_shares(conversion)
        used = [name for name, share in zip(names, shares, strict=True) if share]
        given = list(self.before)
        if used != given[: len(used)] or not {*given} <= {*names}:
            raise PlanError(f"has {len(given)} actors in a period, here are {len(used)}")
        word = np.array([names.index(name) for name in given])[np.array(self.word)]
        if (np.bincount(word, minlength=len(names)) != shares).any():
            raise PlanError(f"fires {len(word)} times in a period, {int(shares.sum())} are needed")
        before = np.array([self.before.get(name, 0) for name in names])
        return Repeated(before, word, shares)


def read_stream(path: str | os.PathLike[str]) -> StreamFile:
    """Read a file of `write_stream`. Raises InputError or PlanError with file, key and value."""
    return from_json(load_json(path), str(path))


def from_json(data: object, where: str) -> StreamFile:
    """The same from JSON values. where: the file's name."""
    fields = Fields(data, where, PlanError)
    fields.check_header(FORMAT, VERSION)
    try:
        options = PlanOptions.from_fields(fields.child("options"))
    except CsdfgenError as error:
        raise error if isinstance(error, PlanError) else error.at(where) from None
    unit, given = fields.integer("unit", low=1), fields.child("before")
    before = {name: given.integer(name, low=-_MOST, high=_MOST) for name in given.value}
    word = _numbers(fields, "word")
    if max(word, default=0) >= len(before):
        raise fields.fault(f"'word' has actor {max(word)} of {len(before)}")
    return StreamFile(
        where,
        fields.text("model"),
        fields.text("digest"),
        MappingProxyType(dict(read_shapes(fields.child("inputs")))),
        MappingProxyType(dict(read_shapes(fields.child("image"))) if "image" in fields else {}),
        read_values(fields),
        options,
        fields.flag("fine"),
        fields.integer("arena"),
        fields.integer("peak"),
        fields.integer("bound"),
        MappingProxyType(before),
        word,
        {one.text("name"): _table(one, unit) for one in fields.children("buffers")},
    )


def _table(fields: Fields, unit: int) -> tuple[int, dict[int, int]]:
    rows = fields.integer("rows", low=1, high=_MOST)
    blocks, offsets = _numbers(fields, "blocks"), _numbers(fields, "offsets")
    if len(blocks) != len(offsets) or sum(blocks) != rows or 0 in blocks:
        raise fields.fault(
            f"has {len(blocks)} blocks of {sum(blocks)} rows with {len(offsets)} offsets, for {rows} rows"
        )
    starts = accumulate(blocks[:-1], initial=0)
    return rows, {start: unit * at for start, at in zip(starts, offsets, strict=True)}


def _numbers(fields: Fields, key: str) -> tuple[int, ...]:
    try:
        return parse_short_form(fields.text(key), _MOST, what=key)
    except CsdfgenError as error:
        raise fields.fault(f"'{key}': {error.message}") from None
