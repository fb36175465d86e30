"""How do policies compare in the real server? Every policy on every traffic, in one run, beside the simulator.

Each policy has a server of its own, a process on loopback. Load 1 is what the server answers one request at a time, measured
at the start of the run.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from csdfgen.errors import ToolError
from csdfgen.model.network import Network
from csdfgen.serving.arrivals import Traffic
from csdfgen.serving.kserve import DATATYPES
from csdfgen.serving.load import Client, offer_load
from csdfgen.serving.policies import parse_policy
from csdfgen.serving.requests import Request
from csdfgen.serving.simulate import simulate
from csdfgen.serving.summary import Summary, summary
from csdfgen.serving.times import Times

_MODEL = "model"
_CALIBRATING = 30
"""Requests one after another, whose median time is that of load 1."""

_PAUSE = 0.1
"""Seconds between the requests of the paper's tests of several images."""


@dataclass(frozen=True, slots=True)
class Point:
    """A policy on a traffic. rate: requests a second; load: of images, as a multiple of load 1. served: by the server;
    simulated: by the simulator on the same requests and measured times.
    """

    policy: str
    traffic: str
    rate: float
    load: float
    served: Summary
    simulated: Summary


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is measured. options: of `csdfgen serve`."""

    model: str
    network: Network
    times: Times
    options: Sequence[str]
    count: int
    deadline: float
    seed: int
    most: int
    pool: Mapping[str, tuple[str, np.ndarray]] = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        pool = {
            one.name: (
                DATATYPES[one.dtype],
                rng.standard_normal((4, *one.shape[1:])).astype(one.dtype),
            )
            for one in self.network.inputs
        }
        object.__setattr__(self, "pool", pool)


def measure_policies(
    model: str,
    network: Network,
    times: Times,
    policies: Sequence[str],
    *,
    loads: Sequence[float],
    rates: Sequence[float] = (),
    several: Sequence[int] = (),
    count: int = 1000,
    deadline: float = float("inf"),
    seed: int = 0,
    options: Sequence[str] = (),
    progress: Callable[..., None] = lambda *said: None,
    show: Callable[[float, Sequence[Point]], None] = lambda capacity, points: None,
) -> tuple[float, list[Point]]:
    """Images a second at load 1, and all points. loads: multiples of it; rates: requests a second; several: for each, requests of
    1 to so many images every 100 ms. count: requests of a point. show: called with images a second at load 1 and all points
    until now when one is measured. Raises ToolError for a server that does not start, or that ends.
    """
    plan = _Plan(model, network, times, options, count, deadline, seed, times.most)
    with _server(plan, "serial") as server:
        capacity = asyncio.run(_capacity(plan, server.port))
    one = 1, 1
    made = {f"load {load:g}": Traffic("poisson", load * capacity, one, deadline) for load in loads}
    made |= {f"{rate:g} a second": Traffic("poisson", rate, one, deadline) for rate in rates}
    made |= {
        f"1 to {images} images": Traffic("uniform", 1 / _PAUSE, (1, images), deadline)
        for images in several
    }
    points: list[Point] = []
    for name in policies:
        left = list(made.items())
        while left:
            with _server(plan, name) as server:
                while left and not server.drained:
                    said, traffic = left.pop(0)
                    progress(f"{name}, {said}", len(points), len(policies) * len(made))
                    served, again = (traffic.requests(count, seed) for _ in range(2))
                    asyncio.run(_offered(plan, server, served))
                    virtual = simulate(parse_policy(name), times, again, most=plan.most, seed=seed)
                    load = traffic.rate * sum(traffic.images) / 2 / capacity
                    own = summary(served), virtual.summary
                    points.append(Point(name, said, traffic.rate, load, *own))
                    show(capacity, points)
    return capacity, points


async def _capacity(plan: _Plan, port: int) -> float:
    client = Client(port, _MODEL, dict(plan.pool))
    whole, found = client.body(1, None), []
    for _ in range(_CALIBRATING):
        start = perf_counter()
        await client.ask(whole)
        found.append(perf_counter() - start)
    await client.close()
    return 1 / float(np.median(found))


async def _offered(plan: _Plan, server: _Server, requests: Sequence[Request]) -> None:
    client = Client(server.port, _MODEL, dict(plan.pool))
    await offer_load(client, requests, server.drain)
    await client.close()


@dataclass
class _Server:
    """A server of one policy in a process of its own. drained: it answers what it has, and ends."""

    process: subprocess.Popen[str]
    port: int
    drained: bool = False

    def drain(self) -> None:
        """No further requests come: windows need not wait for them."""
        self.drained = True
        self.process.terminate()


@contextmanager
def _server(plan: _Plan, policy: str) -> Iterator[_Server]:
    """A server of one policy, which ends with the block. Raises ToolError."""
    command = [
        sys.executable, "-m", "csdfgen", "serve", plan.model, "--name", _MODEL, "--port", "0", "--policy", policy,
        "--max-batch", str(plan.most), "--queue", "1000000", *plan.options,
    ]  # fmt: skip
    with (
        tempfile.TemporaryFile("w+") as log,  # a pipe that nobody reads would fill
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            port = None
            for line in process.stdout:
                port = re.match(r"http://[^ ]*:(\d+)/v2", line)
                if port:
                    break
            if port is None:
                raise EOFError
            yield _Server(process, int(port[1]))
        except (OSError, EOFError):
            log.seek(0)
            said = (log.read().strip().splitlines() or ["no reason"])[-1]
            raise ToolError(f"the server of policy {policy} does not run: {said}") from None
        finally:
            process.terminate()
