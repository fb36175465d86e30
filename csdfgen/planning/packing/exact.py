"""What is the smallest packing, and how sure is that? Constraint programming from the fast packing on.

An item is a rectangle of firings by bytes; no two overlap, and the highest end is least (OR-Tools
CP-SAT, NoOverlap2D; extra `csdfgen[exact]`). It either proves its packing, or gives the bytes that no
packing is below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import ceil, gcd
from threading import Event, Thread
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import PlanError, option
from csdfgen.planning.packing.first_fit import pack
from csdfgen.planning.packing.items import FREE, Items, Packing, clash, packed

__all__ = ["SECONDS", "check_solver", "pack_exact"]

SECONDS: Mapping[str, float] = MappingProxyType({"low": 10.0, "normal": 60.0, "high": 600.0})
"""Effort -> seconds that end the solver where it has no proof yet."""
_ASKED = 0.1
"""Seconds between two looks at `stop`."""


def pack_exact(
    items: Items,
    *,
    effort: str | float = "normal",
    seed: int = 0,
    stop: Callable[[], bool] | None = None,
    limit: int | None = None,
) -> Packing:
    """As `pack`, and never more bytes: proved to be the least, or with the best bound that is proved.

    effort: "low", "normal", "high" or seconds. Without the time's end the bytes are repeatable, the
    offsets are not. PlanError where OR-Tools is not installed, and what `pack` raises.
    """
    solver = _solver()
    if isinstance(effort, str) and effort not in SECONDS:
        raise PlanError(
            f"effort '{effort}' is none of {', '.join(SECONDS)}, nor a number of seconds"
        )
    seconds = SECONDS[effort] if isinstance(effort, str) else effort
    start = pack(items, effort=min(seconds / 3, 30.0), seed=seed, stop=stop, limit=limit)
    if start.optimal or (limit is not None and start.total <= limit) or (stop and stop()):
        return start
    return _Model(solver, items, start).solve(seconds * 2 / 3, seed, stop or (lambda: False))


def check_solver() -> None:
    """Raise PlanError where OR-Tools is not installed."""
    _solver()


def _solver() -> Any:
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise PlanError(
            f"{option('pack', 'exact')} needs OR-Tools, which cannot be imported ({error}); pip install 'csdfgen[exact]'"
        ) from None
    return cp_model


class _Model:
    """The constraints: offsets in units, the bytes of the whole as the aim."""

    def __init__(self, cp: Any, items: Items, start: Packing) -> None:
        self._cp, self._items, self._start = cp, items, start
        kept = items.fixed != FREE
        # all offsets are multiples of it, so that nothing is lost by whole units
        self._unit = gcd(items.alignment, *items.fixed[kept].tolist())
        self._model = cp.CpModel()
        self._offsets = {i: self._offset(i) for i in np.flatnonzero(items.sizes).tolist()}
        self._total = self._model.new_int_var(start.lower_bound, start.total, "total")
        self._model.minimize(self._total)
        self._keep_apart()
        self._order_equal()
        for i, (variable, each) in self._offsets.items():
            self._model.add(self._total >= variable * each + int(items.sizes[i]))
        self._hint()

    def _offset(self, i: int) -> tuple[Any, int]:
        """(variable, bytes for each of it)."""
        fixed, size = int(self._items.fixed[i]), int(self._items.sizes[i])
        if fixed != FREE:
            return self._model.new_constant(fixed // self._unit), self._unit
        step = self._items.alignment
        return self._model.new_int_var(0, (self._start.total - size) // step, f"o{i}"), step

    def _keep_apart(self) -> None:
        items, model = self._items, self._model
        times = np.unique(np.concatenate([items.born, items.gone]))
        born, gone = np.searchsorted(times, items.born), np.searchsorted(times, items.gone)
        alive, bytes_ = [], []
        for i, (variable, each) in self._offsets.items():
            span = int(gone[i] - born[i])
            units = -(-int(items.sizes[i]) // self._unit)
            alive.append(model.new_fixed_size_interval_var(int(born[i]), span, f"t{i}"))
            at = variable * (each // self._unit)
            bytes_.append(model.new_fixed_size_interval_var(at, units, f"b{i}"))
        model.add_no_overlap_2d(alive, bytes_)

    def _order_equal(self) -> None:
        """Of items equal in lifetime and size, the lower stands first: their orders are one packing."""
        items = self._items
        last: dict[tuple[int, int, int], int] = {}
        for i in sorted(self._offsets, key=lambda i: (self._start.offsets[i], i)):
            if items.fixed[i] != FREE:
                continue
            key = int(items.born[i]), int(items.gone[i]), int(items.sizes[i])
            if key in last:
                self._model.add(self._offsets[last[key]][0] < self._offsets[i][0])
            last[key] = i

    def _hint(self) -> None:
        for i, (variable, each) in self._offsets.items():
            if self._items.fixed[i] == FREE:
                self._model.add_hint(variable, int(self._start.offsets[i]) // each)
        self._model.add_hint(self._total, self._start.total)

    def solve(self, seconds: float, seed: int, stop: Callable[[], bool]) -> Packing:
        solver = self._cp.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.random_seed = seed % 2**31
        with _watched(stop, solver.stop_search):
            status = solver.solve(self._model)
        start = self._start
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return start  # too large, or no time: the start stands
        bound = max(start.lower_bound, ceil(solver.best_objective_bound - 1e-6))
        offsets = start.offsets.copy()
        for i, (variable, each) in self._offsets.items():
            offsets[i] = solver.value(variable) * each
        assert clash(self._items, offsets) is None, "the solver's packing overlaps"
        return packed(self._items, offsets, bound, proved=status == self._cp.OPTIMAL)


@contextmanager
def _watched(stop: Callable[[], bool], halt: Callable[[], None]) -> Iterator[None]:
    """While the block runs, `halt()` once `stop()` is true."""
    done = Event()

    def watch() -> None:
        while not done.wait(_ASKED):
            if stop():
                halt()

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
