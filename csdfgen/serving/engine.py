"""Requests in threads: who computes what a policy decides, and who waits for it?

    with Engine(csdfgen.load("model.onnx"), policy="adaptive") as engine:
        answer = engine.submit(images, deadline=0.5)
        y = answer.result()                      # or: await answer

Every worker is a thread with programs in an arena of its own. It asks the desk for the next stage, computes it without the
lock, and reports it. Nothing but answers is allocated while requests are served.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future, InvalidStateError
from time import perf_counter
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from csdfgen.errors import CsdfgenError, InputError
from csdfgen.model.describe import format_repr
from csdfgen.model.given import name_arrays
from csdfgen.model.network import Network
from csdfgen.model.units import parse_time
from csdfgen.serving.desk import Desk
from csdfgen.serving.policies import Policy, parse_policy
from csdfgen.serving.programs import Image, Programs, SlotViews, measure_times
from csdfgen.serving.requests import Batch, Request
from csdfgen.serving.service import Service
from csdfgen.serving.service import plan as planned
from csdfgen.serving.times import Times

Outputs = dict[str, np.ndarray]

QUEUE = 1024
"""Images that may wait by default."""

LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends of the bars of the histogram of latencies, in seconds."""


class RefusedError(CsdfgenError):
    """A request cannot be answered before its deadline."""


class QueueFullError(CsdfgenError):
    """So many images wait that no others are taken."""


class ClosedError(CsdfgenError):
    """The engine takes no further requests."""


class Answer(Future[Outputs]):
    """The outputs of a request, when they are there; `await answer` in a coroutine. Cancelling it withdraws the request."""

    def __init__(self, withdraw: Callable[[], bool]) -> None:
        super().__init__()
        self._withdraw = withdraw

    def cancel(self) -> bool:
        """Withdraw the request; images of it that run leave behind their stage."""
        return self._withdraw() and super().cancel()

    def __await__(self) -> Generator[Any, None, Outputs]:
        return asyncio.wrap_future(self).__await__()


class _Job:
    """What a request's number stands for. inputs, outputs: arrays of all images, by name."""

    __slots__ = ("answer", "inputs", "outputs", "request")

    def __init__(self, request: Request, answer: Answer, inputs: Outputs, outputs: Outputs) -> None:
        self.request, self.answer, self.inputs, self.outputs = request, answer, inputs, outputs

    def image(self, number: int) -> dict[str, np.ndarray]:
        """Views of one image."""
        both = (*self.inputs.items(), *self.outputs.items())
        return {name: array[number : number + 1] for name, array in both}


class Engine:
    """A network that serves requests of any number of images.

    service: made by `csdfgen.serving.plan`, or a network, which is planned with `given`. policy: an object, or a name with
    settings such as "window:m=4,delay=20ms". times: for the policy; by default they are measured now. threads: of each worker.
    queue: images that may wait. Raises InputError, and what planning raises.
    """

    def __init__(
        self,
        service: Service | Network,
        *,
        policy: Policy | str = "adaptive",
        times: Times | None = None,
        threads: int = 1,
        queue: int = QUEUE,
        **given: Any,
    ) -> None:
        self.service = planned(service, **given) if isinstance(service, Network) else service
        made = self.service
        self._limits = threadpool_limits(limits=threads, user_api="blas")
        self._programs = [Programs(made, threads) for _ in range(made.workers)]
        measured = measure_times(self._programs[0])
        for other in self._programs[1:]:
            other.pieces = self._programs[0].pieces
        self.times = times or measured
        self.policy = parse_policy(policy) if isinstance(policy, str) else policy
        self._slots = SlotViews(made)
        self._queue = queue
        self._desk = Desk(
            self.policy, self.times, most=made.most, slots=made.in_flight, workers=made.workers,
            on_end=self._ended,
        )  # fmt: skip
        self.policy.prepare()
        self._jobs: dict[int, _Job] = {}
        self._over: list[_Job] = []
        self._number = 0
        self._error: Exception | None = None
        self._changed = threading.Condition(threading.Lock())
        self._closing = False
        self.counts: Counter[str] = Counter()
        self.batches: Counter[int] = Counter()
        self.latencies = [0] * (len(LATENCIES) + 1)
        self.latency_sum = 0.0
        self._threads = [
            threading.Thread(target=self._work, args=(k,), name=f"csdfgen-worker-{k}", daemon=True)
            for k in range(made.workers)
        ]
        for thread in self._threads:
            thread.start()

    def __repr__(self) -> str:
        return format_repr("Engine", self.service.network.name, policy=self.policy.name)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Clients -------------------------------------------------------------------------------------

    def submit(
        self,
        images: np.ndarray | Mapping[str, np.ndarray],
        *,
        deadline: float | str | None = None,
        priority: int = 0,
    ) -> Answer:
        """Ask for the outputs of any number of images along axis 0.

        images: an array, or arrays by input name; they must not be changed until the answer is there. deadline: seconds from now,
        or a text such as "500ms". priority: requests of a higher one go first. The answer raises RefusedError if the policy
        refuses the request. Raises InputError for arrays that do not fit, QueueFullError, and ClosedError.
        """
        feeds = self._checked(images)
        count = len(next(iter(feeds.values()))) if feeds else 1
        wanted = math.inf if deadline is None else parse_time(deadline, "deadline")
        self.admit(count)
        types = {one.name: one.dtype for one in self.service.network.inputs}
        inputs = {name: array.astype(types[name], copy=False) for name, array in feeds.items()}
        outputs = self._outputs(count)
        with self._changed:
            if self._closing:
                raise ClosedError("the engine is closed and takes no further requests")
            self.admit(count)
            now = perf_counter()
            request = Request(self._number, now, count, now + wanted, priority)
            answer = Answer(lambda: self._cancelled(request))
            self._jobs[request.number] = _Job(request, answer, inputs, outputs)
            self._number += 1
            self.counts["requests"] += 1
            self.counts["images"] += count
            self._desk.arrive(request, now)
            self._changed.notify_all()
        self._answer()
        return answer

    def admit(self, images: int) -> None:
        """Raise QueueFullError if the queue cannot take so many more images now."""
        if self._desk.waiting + images > self._queue:
            way_out = "ask for fewer at once" if images > self._queue else "try again later"
            raise QueueFullError(
                f"{self._desk.waiting} images wait, and {images:,} more would exceed {self._queue}; {way_out}"
            )

    def _checked(self, given: np.ndarray | Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Arrays by input name, of types that become the network's, with equally many images. Raises InputError."""
        tensors = self.service.network.inputs
        names = [one.name for one in tensors]
        found = name_arrays(given, names)
        unknown = sorted(map(str, {*given} - {*names})) if isinstance(given, Mapping) else ()
        if unknown:
            raise InputError(
                f"'{unknown[0]}' is no input of the network; it has {', '.join(names)}"
            )
        for tensor in tensors:
            array = found[tensor.name]
            wanted = "x".join(["N", *map(str, tensor.shape[1:])])
            if (
                array.ndim != len(tensor.shape)
                or array.shape[1:] != tensor.shape[1:]
                or not len(array)
            ):
                raise InputError(
                    f"input '{tensor.name}' has shape {array.shape}; {wanted} is needed, N images from 1 on"
                )
            if not np.can_cast(array.dtype, tensor.dtype, "same_kind"):
                raise InputError(
                    f"input '{tensor.name}' is {array.dtype}; {tensor.dtype} is needed"
                )
        if len({len(array) for array in found.values()}) > 1:
            sizes = ", ".join(f"'{name}' {len(array)}" for name, array in found.items())
            raise InputError(f"inputs have different numbers of images: {sizes}")
        return found

    def _outputs(self, count: int) -> Outputs:
        """Arrays for the outputs of so many images."""
        found = {}
        for one in self.service.network.outputs:
            if one.tensor is not None:
                found[one.name] = np.empty((count, *one.tensor.shape[1:]), one.tensor.dtype)
        return found

    def _cancelled(self, request: Request) -> bool:
        with self._changed:
            return self._desk.cancel(request, perf_counter())

    def _ended(self, request: Request) -> None:
        """A request is over; its answer is given when the lock is free."""
        job = self._jobs.pop(request.number)
        self.counts[request.outcome] += 1
        if request.outcome == "answered":
            latency = request.ended - request.arrival
            self.latency_sum += latency
            self.latencies[int(np.searchsorted(LATENCIES, latency))] += 1
            self.counts["late"] += request.ended > request.deadline
        if request.outcome != "cancelled":
            self._over.append(job)

    def _answer(self) -> None:
        """Give the answers of requests that are over, without the lock: callbacks may submit others."""
        while True:
            with self._changed:
                if not self._over:
                    return
                job = self._over.pop()
            try:
                if job.request.outcome == "answered":
                    constants = {
                        one.name: one.constant
                        for one in self.service.network.outputs
                        if one.constant is not None
                    }
                    job.answer.set_result({**job.outputs, **constants})
                elif job.request.outcome == "failed":
                    job.answer.set_exception(self._error or RuntimeError("no reason"))
                else:
                    left = job.request.deadline - job.request.ended
                    job.answer.set_exception(
                        RefusedError(
                            f"the answer cannot be there within the {1e3 * max(left, 0.0):.0f} ms that are left; "
                            "allow more, or ask again later"
                        )
                    )
            except InvalidStateError:  # withdrawn at this moment
                pass

    # Workers -------------------------------------------------------------------------------------

    def _work(self, number: int) -> None:
        """What a worker's thread does until the engine is closed and nothing is left."""
        _pin(number, self.service.workers)
        desk, programs = self._desk, self._programs[number]
        while True:
            with self._changed:
                found = desk.turn(number, perf_counter())
                while not isinstance(found, Batch):
                    if self._closing and desk.idle:
                        self._changed.notify_all()
                        return
                    if self._over:
                        break
                    self._changed.wait(
                        None if found == math.inf else max(0.0, found - perf_counter())
                    )
                    found = desk.turn(number, perf_counter())
                images = self._images(found) if isinstance(found, Batch) else []
            if isinstance(found, Batch):
                stage = found.stage
                try:
                    programs.run(stage, images)
                except Exception as error:
                    with self._changed:
                        self._error = error
                        desk.failed(number, perf_counter())
                    self._answer()
                    continue
                if not stage or stage == self.times.count - 1:
                    programs.release()
                with self._changed:
                    if stage == self.times.count - 1:
                        self.batches[found.images] += 1
                    self.counts["stages"] += 1
                    desk.passed(number, perf_counter())
                    if desk.idle:
                        self._changed.notify_all()
            if self._over:
                self._answer()

    def _images(self, batch: Batch) -> list[Image]:
        """The arrays of a batch's images: those of clients, and slots."""
        found: list[Image] = []
        at = 0
        for request, first, count in batch.parts:
            job = self._jobs[request.number]
            for k in range(first, first + count):
                found.append({**self._slots.views[batch.slots[at]], **job.image(k)})
                at += 1
        return found

    # State ---------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Images that wait."""
        return self._desk.waiting

    @property
    def running(self) -> int:
        """Images that have begun."""
        return self.service.in_flight - len(self._desk.free)

    def drain(self) -> None:
        """Let no request wait for others any more."""
        with self._changed:
            self._desk.draining = True
            self._changed.notify_all()

    def close(self) -> None:
        """Take no further requests, answer those that are open, and end the workers."""
        with self._changed:
            self._closing = self._desk.draining = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._answer()
        self._limits.restore_original_limits()


def _pin(number: int, workers: int) -> None:
    """Keep a worker's thread on cores of its own, where there is one for each."""
    if workers < 2 or not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    own = cores[number * len(cores) // workers : (number + 1) * len(cores) // workers]
    if own:
        os.sched_setaffinity(0, own)
