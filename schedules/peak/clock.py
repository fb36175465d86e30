"""How long may a search take? It counts its work, so that it ends at the same point on every machine; processor time is
a safeguard.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from time import monotonic, thread_time

from csdfgen.errors import InputError, option
from csdfgen.stopping import is_stopped

Effort = str | float

EFFORTS = ("low", "normal", "high")

_WORK = {"low": (3, 2.8e6), "normal": (100, 3e7), "high": (1_000, 3e8)}
"""Effort -> microseconds (of a machine of 2024) per square of the number of firings, and the most of them."""

_LEAST = 2e4
"""Microseconds that every search may take at least."""

_GUARD = {"low": 30.0, "normal": 200.0, "high": 2000.0}
"""Effort -> seconds of processor time after which a search ends in any case. It is processor time, so that other load
of the machine does not change a plan.
"""


class Clock:
    """Work and time that a search may take, and requests to stop.

    effort: "low", "normal" or "high", which limit work, so that a search ends at the same point on all machines that
    are not much slower; or a number of seconds.
    """

    def __init__(
        self, effort: Effort, firings: int, stop: Callable[[], bool] | None = None
    ) -> None:
        self._now = thread_time if isinstance(effort, str) else monotonic
        self.started = self._now()
        self.spent = 0.0
        self._stop = stop
        if isinstance(effort, str):
            if effort not in EFFORTS:
                raise InputError(
                    f"{option('effort', effort)}: not one of {', '.join(EFFORTS)}, or a number of seconds"
                )
            each, most = _WORK[effort]
            self.work = min(_LEAST + each * firings**2, most)
            self._deadline = self.started + _GUARD[effort]
        else:
            if not effort > 0:
                raise InputError(
                    f"{option('effort', effort)}: a number of seconds above 0 is needed"
                )
            self.work = inf
            self._deadline = self.started + effort

    def spend(self, work: float) -> None:
        """Count work."""
        self.spent += work

    def over(self) -> bool:
        """Whether work or time is used up, or a stop was requested."""
        if self.spent > self.work or self._now() > self._deadline or is_stopped():
            return True
        return self._stop is not None and self._stop()

    def part(self, share: float) -> Callable[[], bool]:
        """A function that tests whether a share of the remaining work and time is used up."""
        now = self._now()
        work = self.spent + share * (self.work - self.spent) if self.work < inf else inf
        deadline = now + share * (self._deadline - now)
        return lambda: self.spent > work or self._now() > deadline or self.over()
