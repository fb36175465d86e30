"""What is it worth to leave few images waiting? The relative values of a batch-service queue.

Images come at random (Poisson) and a worker that is free starts a batch of some of them, which takes the time of its size.
The least mean number of images in the system is that of a semi-Markov decision process: state n, images that wait; decision
b, images of the batch; cost, images in the system times time. `Worth` solves it by policy iteration (Howard). Its values
say how much total waiting a decision costs later: h(n) grows faster the higher the load, so that a batch is larger, and
joins more often, where many are still to come.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

_ROUNDS = 30
"""Most rounds of policy iteration; about six are needed."""

UTILISATION = 0.97
"""The rate is at most this share of what the best batch computes: above it no state is stable."""

_STATES = 6
"""States are counted up to so many times the largest batch."""


class Worth:
    """Values for a rate of images a second. whole: seconds of batches of 0, 1, ... images.

    values[n]: relative cost, in images times seconds, of n waiting images in front of a free worker. gain: mean number of
    images in the system under the best decisions. rate: the given rate, limited to what the worker can compute.
    """

    def __init__(self, whole: Sequence[float], rate: float) -> None:
        self.whole, self._most = whole, len(whole) - 1
        limit = UTILISATION * max(b / whole[b] for b in range(1, len(whole)))
        self.rate = min(rate, limit)
        self._last = max(32, _STATES * self._most)
        self._arriving = [self._arrivals(time) for time in whole]
        self.gain, self.values = self._solved()
        self._slope = float(self.values[-1] - self.values[-2])
        self._far = self._extended(self.values)

    def _arrivals(self, seconds: float) -> np.ndarray:
        """Probabilities of 0, 1, ... arrivals in a time, up to all but a millionth."""
        mean = self.rate * seconds
        counts = np.arange(int(mean + 6 * math.sqrt(mean) + 8))
        logs = counts * math.log(mean) - mean if mean else np.where(counts, -np.inf, 0.0)
        logs = logs - np.array([math.lgamma(k + 1) for k in counts])
        found: np.ndarray = np.exp(logs)
        return found / found.sum()

    def _solved(self) -> tuple[float, np.ndarray]:
        """Mean cost and values of the best decisions."""
        last = self._last
        choice = np.minimum(np.arange(last + 1), self._most)
        values, gain = np.zeros(last + 1), 0.0
        for _ in range(_ROUNDS):
            gain, values = self._evaluated(choice)
            costs = np.full((self._most + 1, last + 1), np.inf)
            far = self._extended(values)
            for b in range(1, self._most + 1):
                expected = np.correlate(far, self._arriving[b], "valid")[: last + 1]
                states = np.arange(b, last + 1)
                left = expected[states - b]
                costs[b, b:] = self._cost(states, b) - gain * self.whole[b] + left
            better = costs.argmin(axis=0)
            better[0] = 0
            if (better == choice).all():
                break
            choice = better
        return gain, values

    def _cost(self, states: np.ndarray, b: int) -> np.ndarray:
        """Images times seconds while a batch of b runs: those that are there, and those that come."""
        time = self.whole[b]
        found: np.ndarray = states * time + self.rate * time * time / 2
        return found

    def _evaluated(self, choice: np.ndarray) -> tuple[float, np.ndarray]:
        """Mean cost and values of given decisions; the value of an empty queue is 0."""
        last = self._last
        matrix, right = np.zeros((last + 1, last + 1)), np.zeros(last + 1)
        matrix[0, 0], matrix[0, 1] = 1.0 / self.rate, -1.0  # column 0: the mean cost
        for n in range(1, last + 1):
            b = int(choice[n])
            matrix[n, n] += 1.0
            matrix[n, 0] += self.whole[b]
            chances = self._arriving[b]
            start = n - b
            inside = min(chances.size, last - start + 1)
            matrix[n, max(1, start) : start + inside] -= chances[int(start == 0) : inside]
            beyond = chances[inside:]
            excess = float(beyond @ np.arange(1, beyond.size + 1))
            matrix[n, last] -= float(beyond.sum()) + excess
            matrix[n, last - 1] += excess
            right[n] = n * self.whole[b] + self.rate * self.whole[b] ** 2 / 2
        found = np.linalg.solve(matrix, right)
        values = found.copy()
        values[0] = 0.0
        return float(found[0]), values

    def _extended(self, values: np.ndarray) -> np.ndarray:
        """Values of twice as many states, which go on in a straight line."""
        slope = values[-1] - values[-2]
        return np.concatenate([values, values[-1] + slope * np.arange(1, self._last + 1)])

    def later(self, waiting: int, seconds: float) -> float:
        """Expected value after a time in which no waiting image starts, less what that time costs on average."""
        chances = self._arrivals(seconds)
        start = min(waiting, self._last)
        end = min(start + chances.size, self._far.size)
        expected = float(chances[: end - start] @ self._far[start:end])
        expected += (waiting - start) * self._slope
        return expected - self.gain * seconds + self.rate * seconds * seconds / 2
