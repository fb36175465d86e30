"""The HTTP server: KServe's protocol, version 2, over engines, and metrics for Prometheus.

Bodies, headers, queues, connections and times of clients are limited. A request that the policy refuses is answered 503 at once,
one for a full queue 429; a client that hangs up gives its place back. Every error is {"error": "one sentence"}. SIGTERM stops
the server after all accepted requests are answered, SIGHUP reads the folder of models again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from csdfgen.errors import CsdfgenError, InputError, option
from csdfgen.files import Fields, parse_json, quote
from csdfgen.serving.engine import Answer, ClosedError, Engine, QueueFullError, RefusedError
from csdfgen.serving.kserve import Inference, encode_answer, metadata, parse_inference
from csdfgen.serving.metrics import exposition
from csdfgen.serving.repository import Repository

_LOG = logging.getLogger(__name__)

_MOST_HEAD = 32 * 2**10
"""Bytes of a request's line and headers."""

_HEAD_SECONDS = 10.0
"""In which a request's headers must be there."""

_LINGER = 2.0
"""Seconds in which a client that sends more than it should may read why it was refused."""

_PROBE = 0.1
"""Seconds until a client that stopped sending is asked again whether it is there, at first."""

_PIPELINED = 16
"""Requests that a client may send before it has the answer of the first."""

_SMALL = 64 * 2**10
"""Bytes that are read, unpacked or written in one step; while the loop does so, it serves nobody else."""

_OTHER_FILES = 64
"""Files that the process has open besides connections."""

_CODINGS = ("identity", "gzip", "x-gzip", "deflate")

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


def application(repository: Repository, limits: Limits, version: str = "") -> Starlette:
    """The ASGI application. Raises nothing: what is wrong with a request is its answer, {"error": "one sentence"}."""
    state = {"ready": True}
    readers = ThreadPoolExecutor(2, "csdfgen-reader")

    def engine_of(request: Request) -> tuple[str, Engine]:
        name, number = request.path_params["name"], request.path_params.get("version", "1")
        engine = repository.engines.get(name)
        if engine is None or number != "1":
            known = ", ".join(repository.engines)
            said = f"no model '{name[:128]}' of version {number[:16]}; there are {known}"
            raise HTTPException(404, said)
        return name, engine

    async def live(request: Request) -> Response:
        return _json({"live": True})

    async def ready(request: Request) -> Response:
        return _json({"ready": state["ready"]}, 200 if state["ready"] else 503)

    async def server(request: Request) -> Response:
        extensions = ["binary_tensor_data", "classification", "model_repository"]
        return _json({"name": "csdfgen", "version": version, "extensions": extensions})

    async def model(request: Request) -> Response:
        name, engine = engine_of(request)
        return _json(metadata(name, engine.service.network))

    async def model_ready(request: Request) -> Response:
        name, _ = engine_of(request)
        return _json({"name": name, "ready": True})

    async def index(request: Request) -> Response:
        body = await _body(request, limits)
        fields = Fields(parse_json(bytes(body[: _SMALL + 1]), "request") if body else {}, "request")
        only = fields.flag("ready") if "ready" in fields else False
        return _json([one for one in repository.index() if not only or one["state"] == "READY"])

    async def control(request: Request) -> Response:
        raise HTTPException(
            400, "models do not change one by one; change the folder and send SIGHUP"
        )

    async def metrics(request: Request) -> Response:
        text = exposition(repository.engines, repository.failed)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def read(request: Request, engine: Engine) -> Inference:
        """The request in a body, which is given back unless tensors are in it."""
        most, one = limits.body, engine.service.network.output_bytes

        def admit(images: int) -> None:
            engine.admit(images)
            if images > 1 and images * one > most:
                said = f"the answer has {images * one:,} bytes; ask for {max(1, most // one):,} images at once"
                raise HTTPException(413, said)

        if not {"content-length", "transfer-encoding"} & {*request.headers}:
            raise HTTPException(411, "a body is needed, with a Content-Length or in chunks")
        length = request.headers.get("inference-header-content-length")
        body = await _body(request, limits)
        whole = body, length, engine.service.network, admit
        if len(body) <= _SMALL:
            return parse_inference(*whole)
        return await asyncio.get_running_loop().run_in_executor(readers, parse_inference, *whole)

    async def infer(request: Request) -> Response:
        name, engine = engine_of(request)
        asked = await read(request, engine)
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
            whole = name, asked, found.result()
        finally:
            gone.cancel()
            if not found.done():
                found.cancel()
                answer.cancel()
        if sum(array.nbytes for array in whole[2].values()) <= _SMALL:
            parts, headers = encode_answer(*whole)
            return Response(b"".join(parts), headers=headers)
        encoded = asyncio.get_running_loop().run_in_executor(readers, encode_answer, *whole)
        parts, headers = await encoded
        return StreamingResponse(_in_steps(parts), headers=headers)

    async def failed(request: Request, error: Exception) -> Response:
        if isinstance(error, _HangUpError):
            return Response(status_code=499)
        status, headers = next((v for k, v in _STATUSES.items() if isinstance(error, k)), (500, {}))
        message = str(error) if isinstance(error, CsdfgenError) else "internal error"
        if isinstance(error, HTTPException):
            status, headers = error.status_code, error.headers or {}
            message = f"{request.method} {quote(request.url.path)}: {error.detail}"
        if status == 500:
            _LOG.error("a request failed", exc_info=error)
        return _json({"error": message}, status, headers)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        state["ready"] = False
        readers.shutdown()

    kinds = (_HangUpError, CsdfgenError, HTTPException, Exception)
    of_models = [
        (f"/v2/models/{{name}}{version}{rest}", function, method)
        for version in ("", "/versions/{version}")
        for rest, function, method in (
            ("", model, "GET"), ("/ready", model_ready, "GET"), ("/infer", infer, "POST")
        )
    ]  # fmt: skip
    routes = [
        ("/v2", server, "GET"), ("/v2/health/live", live, "GET"), ("/v2/health/ready", ready, "GET"),
        ("/metrics", metrics, "GET"), ("/v2/repository/index", index, "POST"),
        ("/v2/repository/models/{name}/{change}", control, "POST"), *of_models,
    ]  # fmt: skip
    return Starlette(
        routes=[Route(path, function, methods=[method]) for path, function, method in routes],
        exception_handlers=dict.fromkeys(kinds, failed),
        lifespan=lifespan,
    )


def _json(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON in ASCII: a lone surrogate, which names may have, is no UTF-8."""
    return Response(json.dumps(value), status, headers, "application/json")


_STATUSES: Mapping[type[CsdfgenError], tuple[int, Mapping[str, str]]] = {
    RefusedError: (503, _RETRY), QueueFullError: (429, _RETRY), InputError: (400, {}),
    ClosedError: (503, {"connection": "close"}),
}  # fmt: skip
"""Of errors: the status, and headers."""


async def _in_steps(parts: Iterable[bytes | memoryview]) -> AsyncIterator[bytes | memoryview]:
    """An answer, between whose pieces others are served."""
    for part in parts:
        for at in range(0, len(part), _SMALL):
            yield part[at : at + _SMALL]
            await asyncio.sleep(0)


async def _body(request: Request, limits: Limits) -> bytearray:
    """The body of a request, unpacked. Raises HTTPException, _HangUpError."""
    said = request.headers.get("content-length", "0")
    if said.isdigit() and int(said[:20]) > limits.body:
        raise HTTPException(
            413, f"a body of {int(said[:20]):,} bytes; at most {limits.body:,} are taken"
        )
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in _CODINGS:
        said = f"Content-Encoding is {quote(coding)}; {', '.join(_CODINGS)} are taken"
        raise HTTPException(415, said, {"accept-encoding": "gzip, deflate"})
    # 47: zlib's number for the head of either format
    packed = None if coding == "identity" else zlib.decompressobj(47)
    found = bytearray()
    more, end = True, time.monotonic() + limits.body_seconds
    while more:
        try:
            message = await asyncio.wait_for(request.receive(), max(0.001, end - time.monotonic()))
        except (TimeoutError, asyncio.TimeoutError):
            raise HTTPException(
                408, f"the body was not there after {limits.body_seconds:g} s"
            ) from None
        if message["type"] == "http.disconnect":
            raise _HangUpError
        part, more = message.get("body", b""), message.get("more_body", False)
        piece = part
        while part or (packed and len(piece) == _SMALL):
            piece, part = _unpack(packed, part) if packed else (part, b"")
            found += piece
            if len(found) > limits.body:
                raise HTTPException(413, f"a body of more than {limits.body:,} bytes")
            await asyncio.sleep(0)
    if packed and not packed.eof:
        raise HTTPException(400, "the packed body has no end")
    return found


def _unpack(packed: Any, part: bytes) -> tuple[bytes, bytes]:
    """A piece of what a part of a packed body holds, and the rest of the part. Raises HTTPException."""
    try:
        piece = packed.decompress(part, _SMALL)
    except zlib.error as error:
        raise HTTPException(400, f"the body cannot be unpacked: {error}") from None
    if packed.unused_data:
        raise HTTPException(400, "bytes follow the packed body")
    return piece, packed.unconsumed_tail


async def _gone(request: Request) -> None:
    """Returns when the client has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _Protocol(HttpToolsProtocol):
    """HTTP with limits on the bytes and the time of headers and on connections, which httptools does not have, and with errors
    as the protocol has them. most: connections at one time; a client may have half of them.
    """

    most = 1024
    since = 0.0
    _size = 0
    _total = 0
    _in_head = True
    _over = False
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._started()
        there: list[Any] = [one for one in self.connections if not one.transport.is_closing()]
        own = [one for one in there if (one.client or "-")[0] == (self.client or "-")[0]]
        crowd = own if len(own) > (self.most + 1) // 2 else there
        idle = [one for one in crowd if one is not self and one.idle]
        if crowd is own or len(there) > self.most:
            if idle:
                min(idle, key=lambda one: one.since).transport.close()
            else:
                self._refused(503, f"{len(crowd):,} connections are open; try again later")

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self._over or self.cycle is None or self.cycle.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        self._stopped()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """A client that has sent its request need not be able to send others to get its answer."""
        waits = not self.idle and not self.cycle.more_body
        if waits:
            self.cycle.keep_alive = False
            self._probe(_PROBE)
        return waits

    def _probe(self, seconds: float) -> None:
        """Is a client that stopped sending still there? It skips 100; one that has gone resets the connection, which the next
        write finds.
        """
        if self.transport.is_closing() or self.cycle.response_started:
            return
        if not self.pipeline and self.scope["http_version"] == "1.1":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.loop.call_later(seconds, self._probe, 2 * seconds)

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= _PIPELINED:
            raise ValueError("too many requests without an answer")
        super().on_message_begin()
        self._started()

    def on_headers_complete(self) -> None:
        self._stopped()
        self._in_head = False
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.since = self.loop.time()
        if self.cycle.more_body and not self._timer:  # read on: the client reads when it has sent
            self._timer = self.loop.call_later(self.timeout_keep_alive, self.transport.close)

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
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
        self._size, self._total, self._in_head, self.since = 0, 0, True, self.loop.time()
        self._timer = self.loop.call_later(
            _HEAD_SECONDS, self._refused, 408, f"no request after {_HEAD_SECONDS:g} s"
        )

    def _stopped(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP."""
        self._refused(400, msg)

    def _refused(self, status: int, message: str) -> None:
        """Answer without a request, and read on for a moment: closed at once, the client could not read the answer."""
        self._stopped()
        if self._over or self.transport.is_closing():
            return
        self._over = True
        for one in (self.cycle, *(cycle for cycle, _ in self.pipeline)):
            if one is not None:
                one.disconnected = True
                one.message_event.set()
        body = json.dumps({"error": message}).encode()
        self.transport.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
            % (status, HTTPStatus(status).phrase.encode(), len(body), body)
        )
        if not self.pipeline:  # the first may be answered yet
            self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(_LINGER, self.transport.close)


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
        files = os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else -1
        room = max(2, files - _OTHER_FILES) if files > 0 else limits.connections
        protocol = type("Protocol", (_Protocol,), {"most": min(limits.connections, room)})
        super().__init__(
            uvicorn.Config(
                application(repository, limits, version), host=host, port=port, http=protocol, loop="asyncio",
                ws="none", log_config=None, log_level="critical", access_log=False, lifespan="on", server_header=False,
                timeout_keep_alive=30,
            )
        )  # fmt: skip
        self._repository, self._on_ready, self._address = repository, on_ready, (host, port)
        self._reading, self._asked = threading.Lock(), False

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
        def reload() -> None:
            with self._reading:
                self._asked = False
                for line in self._repository.reload():
                    _LOG.warning("%s", line)

        if not self._asked:  # one that has not begun sees what has changed until now
            self._asked = True
            asyncio.get_running_loop().run_in_executor(None, reload)

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
