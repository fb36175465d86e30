"""What is a policy? It decides what a free worker does, from times, queue and batches alone, so that the server and the
simulator use the same object.

A policy is a dataclass whose fields are its settings, written as `NAME:FIELD=VALUE,...`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from csdfgen.serving.requests import Decision, Request, View
from csdfgen.serving.times import Times


@dataclass
class Policy(ABC):
    """Base of all policies. times, most, workers: of the desk that it decides for, see `settle`."""

    name: ClassVar[str]
    times: ClassVar[Times]
    most: ClassVar[int]
    workers: ClassVar[int]

    def settle(self, times: Times, most: int, workers: int = 1) -> None:
        """Prepare for a table of times, batches of at most `most` images, and so many workers; what was learnt is
        forgotten.
        """
        self.times, self.most, self.workers = times, most, workers  # type: ignore[misc]

    def prepare(self) -> None:
        """Compute before requests come what would delay them later."""
        return

    def order(self, request: Request) -> tuple[float, ...]:
        """The queue is sorted by this key."""
        return -request.priority, request.arrival, request.number

    def arrived(self, request: Request, now: float) -> None:
        """A request has come; it may yet be refused."""
        return

    def admits(self, view: View, request: Request) -> bool:
        """Whether a request that comes enters the queue. In the view all workers are `others`."""
        return True

    def measured(self, predicted: float, taken: float) -> None:
        """A stage took so many seconds, where the table predicts others."""
        return

    @abstractmethod
    def decide(self, view: View) -> Decision:
        """What a free worker does: at most `view.room` images, and `most`, may start."""

    def largest(self, view: View) -> int:
        """The most images that can start now."""
        return min(view.waiting, self.most, view.room)
