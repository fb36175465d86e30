"""What did clients see? Counts and latencies of requests that are over."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from csdfgen.serving.requests import Request


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of requests, and latencies of those that were answered, in seconds (NaN without any).

    in_time: answered before their deadlines. latest: the largest delay behind a deadline, relative to the time from arrival
    to deadline; 0 if none is late. rate: answered requests a second, from the first arrival to the last answer.
    """

    requests: int
    answered: int
    refused: int
    cancelled: int
    in_time: int
    latest: float
    rate: float
    mean: float
    percentiles: Mapping[int, float]

    @property
    def in_time_of_all(self) -> float:
        """Share of all requests that were answered in time."""
        return self.in_time / max(1, self.requests)

    @property
    def in_time_of_answered(self) -> float:
        """Share of answered requests that were in time."""
        return self.in_time / max(1, self.answered)

    def to_json(self) -> dict[str, object]:
        """As JSON values, without those that do not exist."""
        found: dict[str, object] = {
            "requests": self.requests, "answered": self.answered, "refused": self.refused,
            "cancelled": self.cancelled, "in_time": self.in_time, "latest": self.latest,
            "requests_per_second": self.rate,
        }  # fmt: skip
        if self.answered:
            found["mean_seconds"] = self.mean
            found |= {f"p{at}_seconds": value for at, value in self.percentiles.items()}
        return found


def percentile(values: Sequence[float], at: float) -> float:
    """The least of ascending values that `at` percent of them do not exceed; NaN of none.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50), percentile([1.0, 2.0, 3.0, 4.0], 99)
    (2.0, 4.0)
    """
    return values[max(0, math.ceil(len(values) * at / 100) - 1)] if values else math.nan


def summary(requests: Sequence[Request]) -> Summary:
    """The summary of requests, all of which are over."""
    outcomes = [request.outcome for request in requests]
    answered = [request for request in requests if request.outcome == "answered"]
    latencies = sorted(request.ended - request.arrival for request in answered)
    late = [
        (request.ended - request.deadline) / (request.deadline - request.arrival)
        for request in answered
        if request.ended > request.deadline
    ]
    start = min((request.arrival for request in requests), default=0.0)
    end = max((request.ended for request in answered), default=start)
    return Summary(
        len(requests),
        len(answered),
        outcomes.count("refused"),
        outcomes.count("cancelled"),
        len(answered) - len(late),
        max(late, default=0.0),
        len(answered) / (end - start) if end > start else 0.0,
        sum(latencies) / len(latencies) if latencies else math.nan,
        {at: percentile(latencies, at) for at in (50, 90, 95, 99)},
    )
