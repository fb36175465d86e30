"""What do several commands print of plans? Figures, memories, several images in one order, and fronts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from csdfgen.backends.registry import choose_backend
from csdfgen.cli.options import Asked
from csdfgen.cli.terminal import Progress, escape, format_bytes, mebibytes, say, say_json, table
from csdfgen.devices.profile import DeviceProfile
from csdfgen.emission.account import Demand
from csdfgen.errors import InputError, option, prefix_errors
from csdfgen.files import write_bytes, write_json
from csdfgen.goals.choice import find_front, load_profiles, run_options
from csdfgen.goals.facts import list_heights, schedule_facts
from csdfgen.model.network import Network
from csdfgen.model.options import CONVERSION, PlanOptions
from csdfgen.model.units import pluralize
from csdfgen.planning.memories import list_memories
from csdfgen.planning.plan import Plan, Point
from csdfgen.planning.planner import plan_fixed_heights

if TYPE_CHECKING:
    from csdfgen.goals.overlap import Overlap
    from csdfgen.goals.throughput import Mapped

INDEX, PICTURE = "front.json", "front.svg"
"""Files of a front's folder besides its plans; the index is written last."""

_OF_ONE_IMAGE = (
    *CONVERSION, "effort", "goal", "recompute", "tiles", "backend", "exact", "fallback", "tuning", "ways",
    "cl_device", "weights",
)  # fmt: skip
"""Options of a plan of several images that one of one image has too."""


def fit_said(need: Demand) -> str:
    """Whether a memory of a device is large enough, as a line."""
    fits = "fits" if need.fits else "does not fit"
    usable = f"{need.there:,} ({need.there / 2**20:,.3f} MiB)"
    return f"memory     {fits}: {need.what} take {format_bytes(need.needed)}, usable are {usable}"


def show_memories(plan: Plan) -> None:
    """Bytes and traffic of each memory of a plan; nothing where there is one alone."""
    memories = list_memories(plan)
    total = max(1, sum(one.moved for one in memories))
    rows = [
        (one.name, one.size, one.used, one.read, one.written, f"{100 * one.moved / total:.1f} %")
        for one in memories
    ]
    columns = ("> bytes", "> used", "> read a frame", "> written a frame", "> of all moved")
    if rows:
        say("", table("memory", *columns, rows=rows))


# Several images ---------------------------------------------------------------------------------


def overlap_facts(network: Network, plan: Plan, profile: DeviceProfile) -> Overlap | None:
    """What several images in one order cost and bring; None for one. Errors name the model."""
    if plan.conversion.frames == 1 or plan.mapping:
        return None
    from csdfgen.goals.overlap import describe_overlap

    alone = PlanOptions(**{name: getattr(plan.options, name) for name in _OF_ONE_IMAGE})
    with prefix_errors(network.source or network.name):
        return describe_overlap(
            plan, plan_fixed_heights(network, alone, choose_backend(alone)), profile
        )


def describe_mapping(plan: Plan) -> Mapped | None:
    """What is predicted of a plan that its backend executes on several processors; None for others. Raises InputError."""
    maps = plan.mapping and choose_backend(plan.options).self_timed
    if not maps:
        return None
    from csdfgen.goals.throughput import predict_mapping

    return predict_mapping(plan, load_profiles(plan.options))


def show_mapped(
    plan: Plan, found: Mapped | None, measured: float | None = None, threads: int = 1
) -> None:
    """The same on a terminal. measured: seconds of all images of the order, by so many threads."""
    told = found.told() if found is not None else ()
    if plan.mapping and found is None:
        name = choose_backend(plan.options).name
        why = f"backend '{name}' computes layers one after the other; {option('backend')} names one that maps them to threads"
        told = (("processors", why),)
    say(*[""] * bool(told), *(f"{what:<11}{said}" for what, said in told))
    if found is not None and measured is not None:
        enough = threads >= len(found.loads)
        on = "" if enough else f", one after the other: {threads} of {len(found.loads)} threads"
        say(f"measured   {1e3 * measured / found.frames:,.4g} ms an image for {found.frames}{on}")


def show_overlap(found: Overlap | None, profile: DeviceProfile) -> None:
    """The same on a terminal."""
    told = found.told(profile.name) if found is not None else ()
    say(*[""] * bool(told), *(f"{what:<11}{said}" for what, said in told))


# Fronts -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Front:
    """A Pareto front of plans, the device of their predicted times, and the measurements of each, if there are any."""

    points: Sequence[Point]
    profile: DeviceProfile
    measured: Sequence[Mapping[str, Any]] = ()

    def show(self, output: Path | None, *, as_json: bool) -> None:
        """Write the front (see `_write`), and print it as a table, or as JSON. Raises InputError."""
        if output is not None:
            self._write(output)
        if as_json:
            say_json({"device": self.profile.name, "plans": self._facts()})
            return
        verdicts = {None: "not checked", True: "equal", False: "different"}
        rows: list[tuple[Any, ...]] = []
        for at, point in enumerate(self.points):
            size, time = point.bytes, f"{1e3 * point.seconds:,.4g}"
            row: tuple[Any, ...] = (at + 1, size, mebibytes(size), len(point.plan.order), time)
            if self.measured:
                one = self.measured[at]
                row = (*row, f"{one['measured_ms']:,.4g}", verdicts[one["ok"]])
            rows.append((*row, _heights_said(point)))
        columns = ("> plan", "> bytes", "> MiB", "> firings", "> predicted ms")
        more = ("> measured ms", "outputs") if self.measured else ()
        first, plans = self.points[0].plan, pluralize(len(self.points), "plan")
        say(
            table(*columns, *more, "rows", rows=rows),
            f"\n{escape(first.network.name)}: Pareto front of {plans} in memory and time, predicted on "
            f"{escape(self.profile.name)}; whole layers take {format_bytes(first.figures['whole_layer_live'])}",
        )
        if output is not None:
            say(f"{escape(output)}: {'drawn' if output.suffix else f'{plans}, {PICTURE}, {INDEX}'}")

    def _write(self, output: Path) -> None:
        """Write a folder of plans with picture and index, or only the picture. Every file appears whole,
        the index last: where it is, nothing is missing. Raises InputError.
        """
        from csdfgen.charts.fronts import Dot, front_chart
        from csdfgen.planning.plan_file import write_plan

        points, first = self.points, self.points[0].plan
        times = [one["measured_ms"] / 1e3 for one in self.measured] or [None] * len(points)
        picture = front_chart(
            [Dot(p.bytes, p.seconds, time) for p, time in zip(points, times, strict=True)],
            name=first.network.name,
            device=self.profile.name,
            whole_layers=first.figures["whole_layer_live"],
            bound=min((p.plan.figures.get("lower_bound", 0) for p in points), default=0) or None,
        )
        if output.suffix:
            write_bytes(output, picture)
            return
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot be made: {error.strerror}", where=str(output)) from None
        facts = self._facts()
        for one, point in zip(facts, points, strict=True):
            write_plan(output / one["plan"], point.plan)
        write_bytes(output / PICTURE, picture)
        write_json(output / INDEX, {"plans": facts})

    def _facts(self) -> list[dict[str, Any]]:
        """The facts of every plan, as `schedule --json` prints them, with what was measured."""
        digits = len(str(len(self.points)))
        more = self.measured or [{}] * len(self.points)
        return [
            {
                "plan": f"plan-{at:0{digits}d}.json",
                **schedule_facts(point.plan, self.profile),
                **one,
            }
            for at, (point, one) in enumerate(zip(self.points, more, strict=True), 1)
        ]


def find_points(network: Network, asked: Asked, progress: Progress) -> tuple[Point, ...]:
    """The Pareto front of a network's plans. Raises InputError, with the model's name."""
    with prefix_errors(network.source or network.name):
        return find_front(network, run_options(asked.given), progress=progress)


def _heights_said(point: Point) -> str:
    """How tall the slabs are, in a few words."""
    used = sorted(list_heights(point.plan).values())
    if not used:
        return ""
    low, middle, high = used[0], used[len(used) // 2], used[-1]
    return str(low) if low == high else f"{low} to {high}, half of the layers up to {middle}"
