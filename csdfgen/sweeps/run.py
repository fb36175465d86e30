"""How is a sweep executed? Known points come from the cache; the others are planned, and kept when they finish."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace

from csdfgen.backends.registry import AUTO, resolve_backend
from csdfgen.errors import CsdfgenError, prefix_errors
from csdfgen.goals.choice import load_profile
from csdfgen.model.options import PlanOptions
from csdfgen.sweeps.cache import Cache
from csdfgen.sweeps.engines import Engine
from csdfgen.sweeps.point import Outcome, Task, make_task
from csdfgen.sweeps.sources import locate_device
from csdfgen.sweeps.spec import Point, Spec

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Swept:
    """All points with their outcomes, in the order of the spec. known: number of outcomes from the cache."""

    points: tuple[Point, ...]
    outcomes: tuple[Outcome, ...]
    known: int

    @property
    def refused(self) -> int:
        """Number of points without a plan."""
        return sum(not outcome["ok"] for outcome in self.outcomes)


def make_tasks(spec: Spec, where: str) -> tuple[Task, ...]:
    """A task for every point, with its backend on this machine. Raises CsdfgenError for faults that are no property of
    one point: a missing model, device or other file, and native code that cannot be built.
    """
    folder = str(spec.folder)
    found = []
    devices: set[object] = set()
    with prefix_errors(where):
        for point in spec.points:
            backend = resolve_backend(str(point.values["backend"] or AUTO))
            settled_point = replace(point, values={**point.values, "backend": backend})
            device = point.values["device"]
            if device and device not in devices:
                load_profile(PlanOptions(device=locate_device(folder, str(device))))
                devices.add(device)
            found.append(make_task(settled_point, folder))
    return tuple(found)


def sweep(tasks: tuple[Task, ...], cache: Cache, engine: Engine, progress: Progress) -> Swept:
    """Plan every point that is not in the cache. Raises the CsdfgenError of the engine, of workers and of the cache, and
    KeyboardInterrupt with the number of points that are kept, from which the next sweep continues.
    """
    keys = [task.key for task in tasks]
    by_key = dict(zip(keys, tasks, strict=True))  # a point that occurs twice is planned once
    known = {key: outcome for key in by_key if (outcome := cache.get(key)) is not None}
    before = sum(key in known for key in keys)
    left = [key for key in by_key if key not in known]
    progress("planning", len(known), len(by_key))
    try:
        with closing(engine([by_key[key] for key in left])) as finished:
            for place, outcome in finished if left else ():
                cache.put(left[place], outcome)
                known[left[place]] = outcome
                progress("planning", len(known), len(by_key))
    except KeyboardInterrupt:
        kept = sum(key in known for key in keys)
        raise KeyboardInterrupt(_kept(kept, len(keys), cache)) from None
    except CsdfgenError as error:
        kept = sum(key in known for key in keys)
        if not kept:
            raise
        message = f"{error.message}; {_kept(kept, len(keys), cache)}"
        raise type(error)(message, where=error.where) from None
    points = tuple(task.point for task in tasks)
    return Swept(points, tuple(known[key] for key in keys), before)


def _kept(kept: int, total: int, cache: Cache) -> str:
    done = f"{kept:,} of {total:,} points are done"
    return f"{done}, kept in {cache.folder}, from where the same command goes on" if kept else done
