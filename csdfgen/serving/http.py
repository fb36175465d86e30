"""The HTTP server: KServe's protocol, version 2, over engines, and metrics for Prometheus.

Bodies, headers, queues and times of clients are limited. A request that the policy refuses is answered 503 at once, one for a
full queue 429; a client that hangs up gives its place back. SIGTERM stops the server after all accepted requests are
answered, SIGHUP reads the folder of models again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from csdfgen.errors import CsdfgenError, InputError, option
from csdfgen.serving.engine import Answer, ClosedError, Engine, QueueFullError, RefusedError
from csdfgen.serving.kserve import answered, inference_of, metadata
from csdfgen.serving.metrics import exposition
from csdfgen.serving.repository import Repository

__all__ = ["Limits", "Server", "application"]

_LOG = logging.getLogger(__name__)

_MOST_HEAD = 32 * 2**10
"""Bytes of a request's line and headers."""

_HEAD_SECONDS = 10.0
"""In which a request's headers must be there."""

_SWITCH = 0.0005
"""Seconds after which the thread of HTTP lets a worker have Python's lock; a worker needs it for moments, between stages."""

_RETRY = {"retry-after": "1"}


@dataclass(frozen=True, slots=True)
class Limits:
    """body: bytes; body_seconds: in which a body must be there; deadline: seconds of requests that give none, None for
    none; connections: at one time.
    """

    body: int = 64 * 2**20
    body_seconds: float = 30.0
    deadline: float | None = None
    connections: int = 1024


class _HangUpError(Exception):
    """The client has gone."""


class _StatusError(Exception):
    """An answer of a status and one sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def application(repository: Repository, limits: Limits, version: str = "") -> Starlette:
    """The ASGI application. Raises nothing: what is wrong with a request is its answer, {"error": "one sentence"}."""
    state = {"ready": True}

    def engine_of(request: Request) -> tuple[str, Engine]:
        name, number = request.path_params["name"], request.path_params.get("version", "1")
        engine = repository.engines.get(name)
        if engine is None or number != "1":
            known = ", ".join(repository.engines)
            raise _StatusError(
                404, f"no model '{name[:128]}' of version {number[:16]}; there are {known}"
            )
        return name, engine

    async def live(request: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(request: Request) -> Response:
        return JSONResponse({"ready": state["ready"]}, 200 if state["ready"] else 503)

    async def server(request: Request) -> Response:
        return JSONResponse(
            {"name": "csdfgen", "version": version, "extensions": ["binary_tensor_data"]}
        )

    async def model(request: Request) -> Response:
        name, engine = engine_of(request)
        return JSONResponse(metadata(name, engine.service.network))

    async def model_ready(request: Request) -> Response:
        name, _ = engine_of(request)
        return JSONResponse({"name": name, "ready": True})

    async def metrics(request: Request) -> Response:
        return PlainTextResponse(
            exposition(repository.engines), media_type="text/plain; version=0.0.4"
        )

    async def infer(request: Request) -> Response:
        name, _ = engine_of(request)
        length = request.headers.get("inference-header-content-length")
        asked = inference_of(await _body(request, limits), length)
        deadline = limits.deadline if asked.deadline is None else asked.deadline

        def submitted() -> Answer:
            _, engine = engine_of(request)
            return engine.submit(asked.inputs, deadline=deadline, priority=asked.priority)

        try:
            answer = submitted()
        except ClosedError:  # the model was replaced at this moment: by the new one
            answer = submitted()
        found: asyncio.Future[Any] = asyncio.wrap_future(answer)
        gone: asyncio.Future[Any] = asyncio.ensure_future(_gone(request))
        try:
            await asyncio.wait({found, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not found.done():
                raise _HangUpError
            parts, headers = answered(name, asked, found.result())
        finally:
            gone.cancel()
            if not found.done():
                found.cancel()
                answer.cancel()
        return Response(b"".join(parts), headers=headers)

    async def failed(request: Request, error: Exception) -> Response:
        if isinstance(error, _HangUpError):
            return Response(status_code=499)
        status, headers = _status(error)
        message = (
            error.message if isinstance(error, (_StatusError, CsdfgenError)) else "internal error"
        )
        if status == 500:
            _LOG.error("a request failed", exc_info=error)
        return JSONResponse({"error": message}, status, headers)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        state["ready"] = False

    kinds = (_StatusError, _HangUpError, CsdfgenError, Exception)
    of_models = [
        (f"/v2/models/{{name}}{version}{rest}", function, method)
        for version in ("", "/versions/{version}")
        for rest, function, method in (
            ("", model, "GET"), ("/ready", model_ready, "GET"), ("/infer", infer, "POST")
        )
    ]  # fmt: skip
    routes = [
        ("/v2", server, "GET"), ("/v2/health/live", live, "GET"), ("/v2/health/ready", ready, "GET"),
        ("/metrics", metrics, "GET"), *of_models,
    ]  # fmt: skip
    return Starlette(
        routes=[Route(path, function, methods=[method]) for path, function, method in routes],
        exception_handlers=dict.fromkeys(kinds, failed),
        lifespan=lifespan,
    )


def _status(error: Exception) -> tuple[int, Mapping[str, str]]:
    """The status of an error, and headers."""
    if isinstance(error, _StatusError):
        return error.status, {}
    if isinstance(error, RefusedError):
        return 503, _RETRY
    if isinstance(error, QueueFullError):
        return 429, _RETRY
    if isinstance(error, ClosedError):
        return 503, {"connection": "close"}
    return (400 if isinstance(error, InputError) else 500), {}


async def _body(request: Request, limits: Limits) -> bytes:
    """The body of a request. Raises _StatusError, _HangUpError."""
    said = request.headers.get("content-length", "0")
    if said.isdigit() and int(said[:20]) > limits.body:
        raise _StatusError(
            413, f"a body of {int(said[:20]):,} bytes; at most {limits.body:,} are taken"
        )
    parts, size = [], 0
    more, end = True, time.monotonic() + limits.body_seconds
    while more:
        try:
            message = await asyncio.wait_for(request.receive(), max(0.001, end - time.monotonic()))
        except (TimeoutError, asyncio.TimeoutError):
            raise _StatusError(
                408, f"the body was not there after {limits.body_seconds:g} s"
            ) from None
        if message["type"] == "http.disconnect":
            raise _HangUpError
        part = message.get("body", b"")
        size += len(part)
        if size > limits.body:
            raise _StatusError(413, f"a body of more than {limits.body:,} bytes")
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


async def _gone(request: Request) -> None:
    """Returns when the client has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _Protocol(HttpToolsProtocol):
    """HTTP with limits on the bytes and the time of headers, which httptools does not have."""

    _size = 0
    _total = 0
    _in_head = True
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._started()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stopped()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._started()

    def on_headers_complete(self) -> None:
        self._stopped()
        self._in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._size += len(data)
        super().data_received(data)
        if self._in_head and self._size > _MOST_HEAD:
            self._refused(431, f"headers of more than {_MOST_HEAD:,} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._total += len(name) + len(value)
        if self._total > _MOST_HEAD:
            self._refused(431, f"headers of more than {_MOST_HEAD:,} bytes")

    def _started(self) -> None:
        self._stopped()
        self._size, self._total, self._in_head = 0, 0, True
        self._timer = self.loop.call_later(
            _HEAD_SECONDS, self._refused, 408, f"no request after {_HEAD_SECONDS:g} s"
        )

    def _stopped(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refused(self, status: int, message: str) -> None:
        self._stopped()
        if self.transport.is_closing():
            return
        body = f'{{"error":"{message}"}}'.encode()
        self.transport.write(
            b"HTTP/1.1 %d \r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
            % (status, len(body), body)
        )
        self.transport.close()


class Server(uvicorn.Server):
    """uvicorn, which drains engines when it is told to stop. on_ready: called with the port when it is open. version: of
    csdfgen, for clients."""

    def __init__(
        self,
        repository: Repository,
        limits: Limits,
        host: str = "127.0.0.1",
        port: int = 8000,
        on_ready: Callable[[int], None] = lambda port: None,
        version: str = "",
    ) -> None:
        super().__init__(
            uvicorn.Config(
                application(repository, limits, version), host=host, port=port, http=_Protocol, loop="asyncio",
                ws="none", log_config=None, access_log=False, lifespan="on", server_header=False,
                timeout_keep_alive=30, limit_concurrency=limits.connections,
            )
        )  # fmt: skip
        self._repository, self._on_ready, self._address = repository, on_ready, (host, port)

    def listen(self) -> socket.socket:
        """The open port. Raises InputError if it cannot be had."""
        host, port = self._address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # with the protocol's number, without which asyncio leaves Nagle's algorithm on: 40 ms an answer
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, port))
            found.listen(1024)
        except OSError as error:
            found.close()
            raise InputError(
                f"{option('port', port)} of {host} cannot be opened: {error.strerror}; choose another"
            ) from None
        return found

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal: stop, and let nothing wait for others."""
        self.begin_exit()
        super().handle_exit(sig, frame)

    def begin_exit(self) -> None:
        """Windows that wait for others do so no longer. In a thread, as a signal may come while this one has a lock."""
        asyncio.get_running_loop().run_in_executor(None, self._repository.drain)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the port, and read the folder again on SIGHUP."""
        await super().startup(sockets=sockets)
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError, AttributeError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)
        if sockets:
            self._on_ready(sockets[0].getsockname()[1])

    def _reload(self) -> None:
        def said(done: asyncio.Future[list[str]]) -> None:
            for line in done.result():
                _LOG.warning("%s", line)

        reading = asyncio.get_running_loop().run_in_executor(None, self._repository.reload)
        reading.add_done_callback(said)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes; then answer what is open. Raises InputError for a port that cannot be had."""
        found = sockets or [self.listen()]
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them again at its end
                signal.signal(number, lambda *_: None)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH)
        try:
            super().run(sockets=found)
        finally:
            sys.setswitchinterval(interval)
            self._repository.close()
