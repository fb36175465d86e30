"""What is the smallest packing? Constraint programming proves or bounds it, starting from the packing of `first_fit`.

An item is a rectangle of firings by bytes. No two rectangles overlap, and the highest end is minimized (OR-Tools CP-SAT,
NoOverlap2D; extra `csdfgen[exact]`). The solver either proves that its packing is the smallest, or gives a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from math import ceil, gcd
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import PlanError, option
from csdfgen.planning.packing.first_fit import pack
from csdfgen.planning.packing.items import FREE, Items, Packing, clash, make_packing
from csdfgen.stopping import is_stopped

SECONDS: Mapping[str, float] = MappingProxyType({"low": 10.0, "normal": 60.0, "high": 600.0})
"""Effort -> seconds after which the solver ends without a proof."""

_ASKED = 0.05
"""Seconds between two questions whether the search is to end."""


def pack_exact(items: Items, *, effort: str | float = "normal") -> Packing:
    """A packing of at most the bytes of `pack`: proved to be the smallest, or with the best lower bound that is proved.

    effort: "low", "normal", "high" or seconds. If the time does not end the search, the bytes are reproducible; the offsets
    are not. Raises PlanError if OR-Tools is not installed, and as `pack`.
    """
    solver = check_solver()
    if isinstance(effort, str) and effort not in SECONDS:
        raise PlanError(
            f"effort '{effort}' is none of {', '.join(SECONDS)}, nor a number of seconds"
        )
    seconds = SECONDS[effort] if isinstance(effort, str) else effort
    start = pack(items, effort=min(seconds / 3, 30.0))
    return (
        start
        if start.optimal or is_stopped()
        else _Model(solver, items, start).solve(seconds * 2 / 3)
    )


def check_solver() -> Any:
    """The solver of OR-Tools. Raises PlanError if it is not installed."""
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise PlanError(
            f"{option('pack', 'exact')} needs OR-Tools, which cannot be imported ({error}); pip install 'csdfgen[exact]'"
        ) from None
    return cp_model


class _Model:
    """The constraint model: variables are offsets in units, the objective is the total."""

    def __init__(self, cp: Any, items: Items, start: Packing) -> None:
        self._cp, self._items, self._start = cp, items, start
        kept = items.fixed != FREE
        # all offsets are multiples of the unit, so that the model is exact
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
        """(variable, bytes of its unit)."""
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
        """Items equal in lifetime and size keep the order of the start: any other order is the same packing."""
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

    def solve(self, seconds: float) -> Packing:
        solver = self._cp.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.random_seed = 0
        solver.parameters.catch_sigint_signal = False
        # Python heeds Ctrl-C between its own instructions only: they are here, and the solver is in a thread
        with ThreadPoolExecutor(1) as pool:
            solved = pool.submit(solver.solve, self._model)
            try:
                while not wait([solved], _ASKED).done:
                    if is_stopped():
                        solver.stop_search()
            except KeyboardInterrupt:
                solver.stop_search()
                raise
            status = solved.result()
        start = self._start
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return start  # the model is too large, or the time is up
        bound = max(start.lower_bound, ceil(solver.best_objective_bound - 1e-6))
        offsets = start.offsets.copy()
        for i, (variable, each) in self._offsets.items():
            offsets[i] = solver.value(variable) * each
        assert clash(self._items, offsets) is None, "the solver's packing overlaps"
        return make_packing(self._items, offsets, bound, proved=status == self._cp.OPTIMAL)
