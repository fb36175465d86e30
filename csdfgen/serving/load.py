"""An open loop of requests over loopback: each is sent when it is due, whatever has become of those before it.

A client that waits for its answer before it asks again would hide the queue: the slower the server, the fewer its requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np

from csdfgen.errors import InputError
from csdfgen.serving.requests import Request

_MOST = 512
"""Connections at one time."""

_PATIENCE = 2.0
"""Seconds after the last request in which all answers come, unless the server waits for others."""

_OUTCOMES = {200: "answered", 503: "refused", 429: "refused"}


class Client:
    """Requests of a model over kept connections. pool: images from which requests are made, along axis 0, by input name and
    datatype of the protocol.
    """

    def __init__(self, port: int, model: str, pool: dict[str, tuple[str, np.ndarray]]) -> None:
        self._port, self._path, self._pool = port, f"/v2/models/{model}/infer", pool
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._most = asyncio.Semaphore(_MOST)

    def body(self, images: int, timeout: float | None) -> bytes:
        """A whole HTTP request for so many images. timeout: seconds."""
        inputs, parts = [], []
        for name, (kind, pool) in self._pool.items():
            array = np.resize(pool, (images, *pool.shape[1:]))
            parts.append(array.tobytes())
            inputs.append(
                {
                    "name": name, "datatype": kind, "shape": list(array.shape),
                    "parameters": {"binary_data_size": array.nbytes},
                }
            )  # fmt: skip
        parameters: dict[str, object] = {"binary_data_output": True}
        if timeout is not None:
            parameters["timeout"] = round(1e6 * timeout)
        head = json.dumps({"inputs": inputs, "parameters": parameters}).encode()
        size = len(head) + sum(map(len, parts))
        line = (
            f"POST {self._path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {size}\r\n"
            f"inference-header-content-length: {len(head)}\r\n\r\n"
        )
        return b"".join([line.encode(), head, *parts])

    async def ask(self, whole: bytes) -> int:
        """Send a request, read all of its answer, and return the status."""
        async with self._most:
            if self._free:
                reader, writer = self._free.pop()
            else:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(whole)
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").lower().split("\r\n")
            size = next(int(one[15:]) for one in lines if one.startswith("content-length:"))
            await reader.readexactly(size)
            if "connection: close" in lines:
                writer.close()
            else:
                self._free.append((reader, writer))
            return int(lines[0].split()[1])

    async def close(self) -> None:
        """Close all connections."""
        for _, writer in self._free:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


async def offer_load(
    client: Client, requests: Sequence[Request], drain: Callable[[], None]
) -> None:
    """Send requests when they are due, and wait for all answers; their outcomes and times are noted, with the start of the run
    as time 0. drain: called at the end if answers are still missing a while later. Raises InputError for an answer that is
    none of 200, 429 and 503; OSError and EOFError if the server hangs up.
    """
    bodies: dict[tuple[int, float], bytes] = {}
    for one in requests:
        key = one.images, one.deadline - one.arrival
        if key not in bodies:
            bodies[key] = client.body(one.images, None if key[1] == float("inf") else key[1])
    start = perf_counter()

    async def send(one: Request) -> None:
        status = await client.ask(bodies[one.images, one.deadline - one.arrival])
        if status not in _OUTCOMES:
            raise InputError(f"the server answered {status} to a request of {one.images} images")
        one.end(_OUTCOMES[status], perf_counter() - start)

    sent = []
    for one in requests:
        wait = one.arrival - (perf_counter() - start)
        if wait > 0:
            await asyncio.sleep(wait)
        sent.append(asyncio.ensure_future(send(one)))
    if (await asyncio.wait(sent, timeout=_PATIENCE))[1]:
        drain()
    await asyncio.gather(*sent)
