"""Which of several plans fits the memory that is free now? Plans of one network for several numbers of images and
budgets, in one file.

{"format": "csdfgen-plans", "version": 1, "device": "native-core",
 "plans": [{"seconds": 0.0123, "plan": {"format": "csdfgen-plan", ...}}, ...]}

A request of any number of images is divided into the requests of plans: the sequence of plans that is predicted to be
the fastest in the free memory. Every plan passes the checks of a single plan from a file.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from csdfgen.dataflow.origin import Values
from csdfgen.errors import InputError, PlanError, option
from csdfgen.files import Fields, load_json, quote, write_json
from csdfgen.model.describe import format_repr, mebibytes
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.model.units import pluralize
from csdfgen.planning.plan import Point
from csdfgen.planning.plan_file import PlanFile, from_json, make_plan, prepare_file, to_json
from csdfgen.planning.prepared import Prepared
from csdfgen.program.steps import Backend

FORMAT = "csdfgen-plans"
VERSION = 1

_MOST = 10_000
"""Most plans of one table."""


@dataclass(frozen=True, eq=False)
class PlanTable:
    """Plans of one network for several numbers of images and budgets. device: name of the device of the predicted times.

    Raises InputError for a table without plans.
    """

    entries: tuple[Point, ...]
    device: str

    def __post_init__(self) -> None:
        if not self.entries:
            raise InputError("a table without plans; at least one is needed")

    @property
    def facts(self) -> dict[str, object]:
        """The contents of the table, for `repr`."""
        sizes = sorted(entry.bytes for entry in self.entries)
        images = sorted({entry.images for entry in self.entries})
        return {
            "plans": len(self.entries),
            "images": ", ".join(map(str, images)),
            "memory": " to ".join(dict.fromkeys(map(mebibytes, (sizes[0], sizes[-1])))),
            "device": self.device,
        }

    def __repr__(self) -> str:
        return format_repr("PlanTable", self.entries[0].plan.network.name, **self.facts)

    @property
    def most_bytes(self) -> int:
        """Bytes of the largest arena."""
        return max(entry.plan.planned_bytes for entry in self.entries)

    def rounds(self, images: int, memory: int | None = None) -> tuple[int, ...]:
        """Indices of the entries that together take so many images in the least time, one after the other, each in at
        most `memory` bytes (None: no limit). Raises PlanError if none fits, InputError if they do not add up to `images`.
        """
        if images < 1:
            raise InputError(f"a request of {pluralize(images, 'image')}; at least 1 is needed")
        fitting = [
            (at, entry)
            for at, entry in enumerate(self.entries)
            if memory is None or entry.bytes <= memory
        ]
        if not fitting:
            least = min(entry.bytes for entry in self.entries)
            raise PlanError(
                f"{option('memory')} of {memory:,} bytes is less than the {least:,} that the smallest of "
                f"{pluralize(len(self.entries), 'plan')} takes; free that much, or make the table with smaller plans"
            )
        # of equal times the largest: its kernels have more scratch, which predictions do not count
        widest = {
            (one.images, one.seconds): at
            for at, one in sorted(fitting, key=lambda one: one[1].bytes)
        }
        fitting = [(at, one) for at, one in fitting if widest[one.images, one.seconds] == at]
        best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
        for count in range(1, images + 1):
            options = [
                (
                    best[count - entry.images][0] + entry.seconds,
                    (at, *best[count - entry.images][1]),
                )
                for at, entry in fitting
                if entry.images <= count and best[count - entry.images][0] < math.inf
            ]
            best.append(min(options, default=(math.inf, ())))
        if best[images][0] == math.inf:
            sizes = sorted({entry.images for _, entry in fitting})
            ones = [entry.bytes for entry in self.entries if entry.images == 1]
            hint = (
                f"the plan for 1 image takes {min(ones):,} bytes"
                if ones
                else "add a plan for 1 image"
            )
            raise InputError(
                f"{pluralize(images, 'image')} cannot be made up of requests of {', '.join(map(str, sizes))}, which the plans "
                f"take in this memory; {hint}"
            )
        return tuple(sorted(best[images][1], key=lambda at: -self.entries[at].images))


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table as read from a file, before it is compared with a network."""

    where: str
    device: str
    plans: tuple[tuple[PlanFile, float], ...]

    @property
    def inputs(self) -> Mapping[str, tuple[int, ...]]:
        """Shapes of the inputs for one image."""
        first = self.plans[0][0]
        one = {
            name: (1, *shape[1:]) if first.batch > 1 else shape
            for name, shape in first.inputs.items()
        }
        return MappingProxyType(one)

    @property
    def fixed(self) -> Mapping[str, Values]:
        """Inputs that are made constants."""
        return self.plans[0][0].fixed

    @property
    def batch(self) -> int:
        """Images for which the network is loaded: those of the largest request."""
        return max(plan.batch for plan, _ in self.plans)

    def chosen(self, memory: int = 0, images: int = 0) -> PlanFile:
        """The plan of at most so many bytes (0: no limit) that takes the least time for an image, for so many images
        (0: its own number), a multiple of its own number. Raises PlanError if there is none.
        """
        fitting = [
            (seconds / plan.batch, plan)
            for plan, seconds in self.plans
            if (not memory or plan.arena <= memory) and images % plan.batch == 0
        ]
        if not fitting:
            sizes = ", ".join(str(size) for size in sorted({plan.batch for plan, _ in self.plans}))
            least = min(plan.arena for plan, _ in self.plans)
            hint = f" in {memory:,} bytes" if memory else "; add a plan for 1 image"
            raise PlanError(
                f"has {len(self.plans)} plans, of {sizes} images, the smallest of {least:,} bytes; none divides "
                f"{images or 'any number of'} images{hint}",
                where=self.where,
            )
        plan = min(fitting, key=lambda one: (one[0], -one[1].arena))[1]
        if images in (0, plan.batch):
            return plan
        shapes = {name: (images, *shape[1:]) for name, shape in plan.inputs.items()}
        return replace(plan, batch=images, inputs=MappingProxyType(shapes))

    def table(self, network: Network, kernels: Backend) -> PlanTable:
        """The table for a network, loaded for any number of images, on a backend. Raises as `plan_file.to_plan`."""
        known: dict[tuple[object, ...], Prepared] = {}
        found = []
        for plan, seconds in self.plans:
            options = plan.options
            key = options.fuse, options.image, options.tiles, plan.apart
            if key not in known:
                known[key] = prepare_file(plan, network, kernels)
            prepared = known[key].for_images(plan.batch)
            found.append(Point(make_plan(plan, prepared), seconds))
        return PlanTable(tuple(found), self.device)

    @property
    def planned_with(self) -> PlanOptions:
        """Options of the first plan; all plans were made for their backend."""
        return self.plans[0][0].options


def write_table(path: str | os.PathLike[str], table: PlanTable) -> None:
    """Write a table; the same table gives the same bytes. Raises InputError."""
    plans = [{"seconds": entry.seconds, "plan": to_json(entry.plan)} for entry in table.entries]
    write_json(path, {"format": FORMAT, "version": VERSION, "device": table.device, "plans": plans})


def read_table(path: str | os.PathLike[str]) -> TableFile:
    """Read a table. Raises InputError or PlanError with file, key and value."""
    return table_from_json(load_json(path), str(path))


def table_from_json(data: object, where: str) -> TableFile:
    """The table of JSON values. Raises as `read_table`."""
    fields = Fields(data, where, PlanError)
    fields.check_header(FORMAT, VERSION)
    found = []
    for item in fields.children("plans"):
        found.append((from_json(item.child("plan").value, where), _seconds(item)))
    if not 1 <= len(found) <= _MOST:
        raise fields.fault(f"'plans' has {len(found)} plans; 1 to {_MOST:,} are needed")
    return TableFile(where, fields.text("device"), tuple(found))


def _seconds(item: Fields) -> float:
    found = item.value.get("seconds")
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found < math.inf:
        raise item.fault(f"'seconds' is {quote(found)}; a number from 0 on is needed")
    return float(found)
