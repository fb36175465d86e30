"""What waits and what runs: requests, batches, what a policy sees of them, and what it answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Request:
    """Images that came together. Times are seconds of the desk's clock.

    deadline: until when the answer is wanted. priority: requests of a higher one are taken first. left: images that no batch
    has taken; pending: images that are not computed. outcome: "" while it is open, then "answered", "refused", "cancelled" or
    "failed", since `ended`.
    """

    number: int
    arrival: float
    images: int = 1
    deadline: float = math.inf
    priority: int = 0
    left: int = field(init=False)
    pending: int = field(init=False)
    outcome: str = field(default="", init=False)
    ended: float = field(default=math.nan, init=False)

    def __post_init__(self) -> None:
        self.left = self.pending = self.images

    def end(self, outcome: str, now: float) -> None:
        """The request is over."""
        assert not self.outcome, f"request {self.number} is {self.outcome} and would be {outcome}"
        self.outcome, self.ended = outcome, now


@dataclass(eq=False, slots=True)
class Batch:
    """Images that run together. parts: (request, its first image, number of images); slots: a number for every image in
    order, which is its own as long as it runs. stage: the next one to run. begun: when the first images started; joins: how
    often others joined. closed: no others are to join.
    """

    parts: list[tuple[Request, int, int]]
    slots: list[int]
    begun: float
    stage: int = 0
    joins: int = 0
    closed: bool = False
    images: int = field(init=False)

    def __post_init__(self) -> None:
        self.images = len(self.slots)

    def join(self, other: Batch) -> None:
        """Take the images of another batch in front of the same stage."""
        self.parts += other.parts
        self.slots += other.slots
        self.images += other.images
        self.begun = min(self.begun, other.begun)
        self.joins += 1 + other.joins
        self.closed |= other.closed

    def leave(self) -> list[int]:
        """Drop images of requests that are over; returns their slots."""
        kept: list[tuple[Request, int, int]] = []
        slots: list[int] = []
        freed: list[int] = []
        at = 0
        for part in self.parts:
            own = self.slots[at : at + part[2]]
            at += part[2]
            if part[0].outcome:
                freed += own
            else:
                kept.append(part)
                slots += own
        self.parts, self.slots, self.images = kept, slots, len(slots)
        return freed


@dataclass(frozen=True, slots=True)
class View:
    """What a policy sees when a worker is free.

    queue: waiting requests, the next one first; waiting: their images. stack: the worker's batches, the one that runs last
    on top. room: images that can still start, as slots are free. others: for each worker that is busy now, the time at which
    its stage ends and its batches. draining: no further requests come.
    """

    now: float
    queue: list[Request]
    waiting: int
    stack: list[Batch]
    room: int
    others: list[tuple[float, list[Batch]]]
    draining: bool = False

    @property
    def top(self) -> Batch | None:
        """The batch that runs on if no other starts."""
        return self.stack[-1] if self.stack else None


@dataclass(frozen=True, slots=True)
class Decision:
    """What a worker does next.

    refuse: waiting requests that are refused. start: so many images from the head of the queue form a new batch, which runs
    its first stage; with 0 the batch on top of the stack runs its next stage, or the worker sleeps until the next event, at
    most `until`. close: nobody is to join that batch any more.
    """

    start: int = 0
    refuse: tuple[Request, ...] = ()
    until: float = math.inf
    close: bool = False
