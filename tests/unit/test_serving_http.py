"""The server over loopback: KServe's protocol, limits, bad input, hang-ups, drain and metrics."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
pytest.importorskip("httptools")

import csdfgen
from csdfgen.errors import CsdfgenError, InputError
from csdfgen.files import parse_json
from csdfgen.serving import kserve
from csdfgen.serving.engine import Engine, QueueFullError
from csdfgen.serving.http import Limits, Server
from csdfgen.serving.kserve import parse_inference
from csdfgen.serving.metrics import exposition
from csdfgen.serving.repository import Repository, name_models
from tests.command import ROOT, Call, python, refused
from tests.models import model, onnxruntime_outputs
from tests.small_models import residual_classifier, two_inputs
from tests.ways import some

IMAGES = np.random.default_rng(3).standard_normal((24, 3, 16, 12)).astype(np.float32)
SHAPE = (3, 16, 12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models")
    onnx.save(residual_classifier(), place / "small.onnx")
    onnx.save(two_inputs(), place / "two.onnx")
    return place


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    model = residual_classifier()
    return np.concatenate(
        [onnxruntime_outputs(model, {"x": image[None]})["scores"] for image in IMAGES]
    )


class Running:
    """A server in a thread."""

    def __init__(self, repository: Repository, limits: Limits) -> None:
        self.repository = repository
        repository.start()
        opened = threading.Event()
        self.server = Server(repository, limits, port=0, on_ready=lambda port: opened.set())
        sockets = [self.server.listen()]
        self.port = sockets[0].getsockname()[1]
        self.thread = threading.Thread(target=self.server.run, args=(sockets,))
        self.thread.start()
        assert opened.wait(20)

    def ask(
        self, method: str, path: str, body: bytes = b"", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        found = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        connection.close()
        return found

    def infer(self, name: str, request: Any, binary: bytes = b"") -> tuple[int, Any, bytes]:
        """Status, JSON and binary part of an answer."""
        head = json.dumps(request).encode()
        headers = {"Inference-Header-Content-Length": str(len(head))} if binary else {}
        status, answered, body = self.ask(
            "POST", f"/v2/models/{name}/infer", head + binary, **headers
        )
        end = int(answered.get("inference-header-content-length", len(body)))
        return status, json.loads(body[:end]), body[end:]

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(20)
        assert not self.thread.is_alive()


def binary_request(images: np.ndarray, **parameters: object) -> tuple[dict[str, object], bytes]:
    data = images.tobytes()
    tensor = {
        "name": "x", "datatype": "FP32", "shape": list(images.shape), "parameters": {"binary_data_size": len(data)}
    }  # fmt: skip
    return {"inputs": [tensor], "parameters": {"binary_data_output": True, **parameters}}, data


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Running]:
    repository = Repository({}, folder, given={"max_batch": 4, "stages": 2}, engine={"queue": 64})
    found = Running(repository, Limits(body=200_000, body_seconds=0.5))
    yield found
    found.stop()


# The protocol -----------------------------------------------------------------------------------


def test_health_and_metadata(server: Running) -> None:
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/small/ready"):
        assert server.ask("GET", path)[0] == 200
    extensions = json.loads(server.ask("GET", "/v2")[2])["extensions"]
    assert extensions == ["binary_tensor_data", "classification", "model_repository"]
    found = json.loads(server.ask("GET", "/v2/models/small/versions/1")[2])
    assert found["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 3, 16, 12]}]
    assert found["outputs"] == [{"name": "scores", "datatype": "FP32", "shape": [-1, 7, 1, 1]}]


def test_json_and_binary_give_the_same_answer(server: Running, scores: np.ndarray) -> None:
    nested = {"name": "x", "datatype": "FP32", "shape": [2, *SHAPE], "data": IMAGES[:2].tolist()}
    status, answer, _ = server.infer("small", {"id": "a", "inputs": [nested]})
    assert status == 200 and answer["id"] == "a" and answer["model_name"] == "small"
    (output,) = answer["outputs"]
    found = np.array(output["data"], np.float32).reshape(output["shape"])
    np.testing.assert_allclose(found, scores[:2], rtol=1e-4, atol=1e-5)
    status, answer, data = server.infer("small", *binary_request(IMAGES[:2]))
    assert status == 200
    assert answer["outputs"][0]["parameters"]["binary_data_size"] == len(data) == found.nbytes
    again = np.frombuffer(data, np.float32).reshape(answer["outputs"][0]["shape"])
    np.testing.assert_array_equal(again, found)


def test_many_clients_get_their_own_answers(server: Running, scores: np.ndarray) -> None:
    """1 to 9 images, both models, priorities and deadlines, kept connections."""
    wrong: list[object] = []
    two = np.random.default_rng(1).standard_normal((9, 1, 2, 6, 5)).astype(np.float32)
    model = two_inputs()
    sums = [onnxruntime_outputs(model, {"left": a, "right": a}) for a in two]

    def client(seed: int) -> None:
        rng = random.Random(seed)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        for _ in range(12):
            first, count = rng.randrange(15), rng.randint(1, 9)
            if rng.random() < 0.7:
                request, data = binary_request(
                    IMAGES[first : first + count], timeout=20_000_000, priority=rng.randint(0, 3)
                )
                name, wanted = "small", scores[first : first + count]
            else:
                whole = np.concatenate(two[:count])
                data = whole.tobytes() * 2
                request = {"inputs": [
                    {"name": side, "datatype": "FP32", "shape": list(whole.shape),
                     "parameters": {"binary_data_size": whole.nbytes}} for side in ("left", "right")
                ], "parameters": {"binary_data_output": True}}  # fmt: skip
                wanted = np.concatenate(
                    [one[output].reshape(-1) for output in sums[0] for one in sums[:count]]
                )
                name = "two"
            head = json.dumps(request).encode()
            connection.request(
                "POST", f"/v2/models/{name}/infer", head + data,
                {"Inference-Header-Content-Length": str(len(head))},
            )  # fmt: skip
            answer = connection.getresponse()
            end = int(answer.getheader("inference-header-content-length") or 0)
            values = np.frombuffer(answer.read()[end:], np.float32)
            if answer.status != 200 or not np.allclose(values, wanted.reshape(-1), 1e-4, 1e-5):
                wrong.append((answer.status, name, count))
        connection.close()

    with ThreadPoolExecutor(8) as clients:
        list(clients.map(client, range(8)))
    assert not wrong


def test_metrics_count_what_was_answered(server: Running) -> None:
    server.infer("small", *binary_request(IMAGES[:3]))
    text = server.ask("GET", "/metrics")[2].decode()
    answered = re.search(r'requests_total\{model="small",outcome="answered"\} (\d+)', text)
    assert answered and int(answered[1]) >= 1
    count = re.search(r'latency_seconds_count\{model="small"\} (\d+)', text)
    assert count and count[1] == answered[1]
    assert re.search(r'bucket\{model="small",le="\+Inf"\} ' + answered[1], text)
    for line in text.splitlines():
        assert line.startswith("# ") or re.fullmatch(
            r'\w+\{model="\w*"(,\w+="[^"]+")?\} [-+.e\d]+', line
        )


# Bad input --------------------------------------------------------------------------------------


def tensor(**changes: object) -> dict[str, object]:
    whole = {"name": "x", "datatype": "FP32", "shape": [1, *SHAPE], "data": [0.0] * 576, **changes}
    return {name: value for name, value in whole.items() if value is not None}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ([], "an object is needed"),
        ({}, "no 'inputs'"),
        ({"inputs": [tensor(name="y")]}, "'y' is no input"),
        ({"inputs": [tensor(), tensor()]}, "is there twice"),
        ({"inputs": []}, "'x' is missing"),
        ({"inputs": [tensor(datatype="BYTES")]}, "'datatype' is 'BYTES'"),
        *(
            ({"inputs": [tensor(datatype=kind)]}, f"'{kind}'; input 'x' takes FP32")
            for kind in ("INT8", "FP16", "FP64", "BF16")
        ),
        ({"inputs": [tensor(shape=[1, 3, 16])]}, "[N, 3, 16, 12] is needed"),
        ({"inputs": [tensor(shape="x")]}, "a list of sizes"),
        ({"inputs": [tensor(shape=[-1, *SHAPE])]}, "N images from 1 on"),
        ({"inputs": [tensor(shape=[0, *SHAPE], data=[])]}, "N images from 1 on"),
        ({"inputs": [tensor(shape=[2**31 - 1] * 3000)]}, "is [2147483647, "),
        ({"inputs": [tensor(data=["a"] * 576)]}, "a list of FP32 is needed"),
        ({"inputs": [tensor(data=[True] * 576)]}, "no FP32"),
        ({"inputs": [tensor(data=[[1], 2] * 300)]}, "more elements than the shape"),
        ({"inputs": [tensor(data=[1])]}, "too few"),
        ({"inputs": [tensor(name="\ud800")]}, "is no input"),
        ({"inputs": [tensor()], "outputs": [{"name": "\udfff"}]}, "is none of scores"),
        ({"inputs": [tensor(data=None, parameters={"binary_data_size": 2304})]}, "0 left"),
        ({"inputs": [tensor(data=None, parameters={"binary_data_size": 7})]}, "has 2,304 bytes"),
        ({"inputs": [tensor()], "parameters": {"timeout": -1}}, "'timeout' is -1"),
        ({"inputs": [tensor()], "parameters": {"timeout": "x"}}, "'timeout' is 'x'"),
        ({"inputs": [tensor()], "parameters": {"priority": 1.5}}, "'priority' is 1.5"),
        ({"inputs": [tensor()], "parameters": []}, "'parameters' is []"),
        ({"inputs": [tensor()], "outputs": [{"name": "z"}]}, "'z' is none of scores"),
        ({"inputs": [tensor()], "id": "a" * 300}, "300 characters"),
        (
            {
                "inputs": [tensor()],
                "outputs": [{"name": "scores", "parameters": {"classification": -1}}],
            },
            "-1",
        ),
    ],
)
def test_a_bad_request_is_one_sentence(server: Running, request_: object, message: str) -> None:
    status, answer, _ = server.infer("small", request_)
    assert status == 400 and message in answer["error"]


@pytest.mark.parametrize(
    ("body", "length", "message"),
    [
        (b"{", None, "is not JSON"),
        (b'{"parameters": {"timeout": NaN}, "inputs": []}', None, "NaN is not a JSON number"),
        (b"[" * 100_000, None, "too deeply"),
        (b"\xff\xfe", None, "is not JSON"),
        (b"{}", "999", "the body has 2 bytes"),
        (b"{}", "-1", "a number is needed"),
        (b'{"a": "%b"}' % (b"x" * 300_000), None, "more than 262,144 bytes of JSON besides"),
        (b'{"inputs": []}xyz', "14", "3 bytes follow"),
    ],
)
def test_a_damaged_body_is_refused(body: bytes, length: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_inference(body, length, csdfgen.load(residual_classifier()))


def test_random_bytes_never_break_the_parser() -> None:
    """Mutated requests are read, or refused in one sentence."""
    request, data = binary_request(IMAGES[:1], timeout=5, priority=1)
    head = json.dumps(request).encode()
    rng, network = random.Random(0), csdfgen.load(residual_classifier())
    for _ in range(500):
        body = bytearray(head + data[:64])
        for _ in range(rng.randint(1, 4)):
            body[rng.randrange(len(head))] = rng.randrange(256)
        with contextlib.suppress(InputError):
            parse_inference(bytes(body), str(rng.choice([len(head), len(body), 10])), network)


def written(rng: random.Random, values: list[Any], shape: list[int]) -> str:
    """A list of numbers in JSON, flat or nested as the shape, with spaces anywhere."""
    if len(shape) < 2 or rng.random() < 0.2:
        items = [json.dumps(one) for one in values]
    else:
        size = len(values) // shape[0]
        parts = (values[k : k + size] for k in range(0, len(values), size))
        items = [written(rng, one, shape[1:]) for one in parts]
    space = lambda: " \n\t\r"[: rng.randrange(5)] if rng.random() < 0.1 else ""  # noqa: E731
    return f"[{space()}{','.join(space() + one + space() for one in items)}]"


def flattened(data: Any) -> list[Any]:
    return [one for part in data for one in flattened(part)] if isinstance(data, list) else [data]


def test_numbers_are_read_in_pieces_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any JSON, valid or damaged, in any pieces: the numbers of Python's own reader, or a refusal where that refuses."""
    rng, refusals, taken = random.Random(5), 0, 0
    networks = {
        kind: csdfgen.load(model(f"one ({onnx_type}[1,2,3,4] x) => ({onnx_type}[1,2,3,4] y) {{ y = Identity(x) }}"))
        for kind, onnx_type in (("FP32", "float"), ("INT8", "int8"), ("BOOL", "bool"), ("UINT64", "uint64"))
    }  # fmt: skip
    for _ in range(some(1500, 30_000)):
        monkeypatch.setattr(kserve, "_PIECE", rng.choice([24, 40, 100, 2**14]))
        monkeypatch.setattr(kserve, "_MOST_JSON", rng.choice([1000, 2**18]))
        kind, count = rng.choice(list(networks)), rng.randint(1, 3)
        shape = [count, 2, 3, 4]
        draw = {
            "FP32": lambda: rng.choice([rng.gauss(0, 1), rng.randrange(9), 1e30, -0.0]),
            "INT8": lambda: rng.randrange(-128, 128),
            "BOOL": lambda: rng.random() < 0.5,
            "UINT64": lambda: rng.randrange(2**64),
        }[kind]
        data = written(rng, [draw() for _ in range(24 * count)], shape)
        fields = [f'"shape":{shape}', f'"datatype": "{kind}"', '"name":"x"', f'"data" : {data}']
        rng.shuffle(fields)
        text = f'{{"id":"\\"data\\": [1]", "inputs": [{{{", ".join(fields)}}}]}}'
        if rng.random() < 0.5:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(["", *'[],{}"0 -e:']) + text[at + rng.randrange(2) :]
        try:
            one = json.loads(text)["inputs"][0]
            wanted = flattened(one["data"])
        except (ValueError, KeyError, TypeError):
            wanted = None
        try:
            found = parse_inference(text.encode(), None, networks[kind]).inputs["x"]
        except InputError:
            refusals += 1
            continue
        taken += 1
        assert wanted is not None, text
        with np.errstate(over="ignore"):
            same = np.array(wanted, found.dtype)
        np.testing.assert_array_equal(found.reshape(-1), same, text)
    assert taken > refusals > taken / 9


@pytest.mark.parametrize(
    "unit", [b"0,", b"[],", b'"a",', b"[[", b" ", b'"data":[],', b'{"":0},', b'\\"']
)
def test_a_request_costs_little_more_than_its_bytes(unit: bytes) -> None:
    """Whatever is repeated within it, in front of the inputs, in their data or in a string. Symptom: 20 times the bytes."""
    network = csdfgen.load(model("one (float[1,1,1,4] x) => (float[1,1,1,4] y) { y = Relu(x) }"))
    some_bytes = unit * (300_000 // len(unit))
    images = len(some_bytes) // len(unit) // 4
    head = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[%d,1,1,4],"data":' % images
    for body in (
        head + b"[" + some_bytes + b"0]}]}", head + some_bytes, b'{"a":[' + some_bytes, b'{"id":"' + some_bytes + b'"}'
    ):  # fmt: skip
        tracemalloc.start()
        with contextlib.suppress(InputError):
            parse_inference(body, None, network)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20 * 2**20 + 2 * len(body), body[:120]


def test_images_are_counted_before_arrays_are_made() -> None:
    """Symptom: two million images of a byte each took 1 GB and 4 s before their 429."""
    network = csdfgen.load(model("one (int8[1,1,1,1] x) => (int8[1,1,1,1] y) { y = Identity(x) }"))
    count = 2_000_000
    item = {
        "name": "x",
        "datatype": "INT8",
        "shape": [count, 1, 1, 1],
        "parameters": {"binary_data_size": count},
    }
    head = json.dumps({"inputs": [item]}).encode()
    with Engine(network, policy="serial", times=None, max_batch=2, stages=1, queue=9) as engine:
        tracemalloc.start()
        with pytest.raises(QueueFullError, match="2,000,000 more would exceed 9"):
            parse_inference(bytearray(head) + bytes(count), str(len(head)), network, engine.admit)
        with pytest.raises(QueueFullError, match="2,000,000 more would exceed 9"):
            engine.submit(np.zeros((count, 1, 1, 1), np.int8))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 3 * count


def test_paths_methods_and_limits(server: Running) -> None:
    """Every error is JSON, which clients of KServe and Triton read. Symptom: they showed that it was none."""
    infer, chunked = "/v2/models/small/infer", {"Transfer_Encoding": "chunked"}
    packed = zlib.compress(bytes(300_000))
    gzip_ = {"Content_Encoding": "gzip"}
    for status, message, method, path, body, headers in (
        (404, "no model 'none'", "GET", "/v2/models/none", b"", {}),
        (404, "of version 2", "GET", "/v2/models/small/versions/2", b"", {}),
        (404, "'/v1': Not Found", "GET", "/v1", b"", {}),
        (405, "Method Not Allowed", "GET", infer, b"", {}),
        (413, "at most 200,000", "POST", infer, b"x" * 200_001, {}),
        (413, "more than 200,000", "POST", infer, b"30d41\r\n%b\r\n" % bytes(200_001), chunked),
        (413, "more than 200,000", "POST", infer, packed, {"Content_Encoding": "deflate"}),
        (415, "'br'; identity, gzip", "POST", infer, b"x", {"Content_Encoding": "br"}),
        (400, "cannot be unpacked", "POST", infer, b"{}", gzip_),
        (400, "has no end", "POST", infer, packed[:99], gzip_),
        (400, "follow the packed", "POST", infer, zlib.compress(b"{}") + b"{}", gzip_),
        (431, "headers of more", "GET", "/v2", b"", {"X": "y" * 40_000}),
        (400, "change the folder", "POST", "/v2/repository/models/small/load", b"", {}),
    ):  # fmt: skip
        found, answered, text = server.ask(method, path, body, **headers)
        assert (found, answered["content-type"]) == (status, "application/json"), message
        assert message in json.loads(text)["error"]
    large = np.zeros((65, *SHAPE), np.float32)
    status, answer, _ = server.infer("small", *binary_request(large))
    assert status == 429 and "65 more would exceed 64; ask for fewer" in answer["error"]
    for begin, status in (
        (b"nonsense\r\n\r\n", 400), (b"POST %b HTTP/1.1\r\nhost: a\r\n\r\n" % infer.encode(), 411),
        (b"GET /v2 HTTP/1.1\r\ncontent-length: x\r\n\r\n", 400),
        (b"GET /v2 HTTP/1.1\r\nhost: a\r\n\r\n" * 99, 400),
    ):  # fmt: skip
        head, _, text = raw(server.port, begin, 0.3).partition(b"\r\n\r\n")
        assert b" %d " % status in head.splitlines()[0] and b"application/json" in head
        assert b'{"error": "' in text
    assert server.ask("GET", "/v2/health/live")[0] == 200


def test_others_are_served_meanwhile(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """No step takes long, and none is the loop's. Symptom: 64 MiB of JSON stalled all others for 10 s."""
    threads, sizes = set(), []
    monkeypatch.setattr(
        "csdfgen.serving.http.parse_inference",
        lambda *given: threads.add(threading.current_thread().name) or parse_inference(*given),
    )
    monkeypatch.setattr(
        kserve,
        "parse_json",
        lambda text, *given: sizes.append(len(text)) or parse_json(text, *given),
    )
    images = IMAGES[:16]
    data = {"name": "x", "datatype": "FP32", "shape": list(images.shape), "data": images.tolist()}
    assert server.infer("small", {"inputs": [data]})[0] == 200
    (thread,) = threads
    assert thread.startswith("csdfgen-reader")
    assert len(sizes) > 9 and max(sizes) < 2**15 and sum(sizes) > 150_000


def test_packed_bodies_are_unpacked(server: Running) -> None:
    request, data = binary_request(IMAGES[:2])
    head = json.dumps(request).encode()
    wanted = server.infer("small", request, data)[2]
    for coding, packed in (
        ("gzip", gzip.compress(head + data)), ("deflate", zlib.compress(head + data)), ("identity", head + data),
    ):  # fmt: skip
        headers = {"Inference_Header_Content_Length": str(len(head)), "Content_Encoding": coding}
        status, answered, body = server.ask("POST", "/v2/models/small/infer", packed, **headers)
        assert status == 200
        assert body[int(answered["inference-header-content-length"]) :] == wanted


@pytest.mark.parametrize("binary", [True, False])
def test_classes_are_answered_as_triton_does(server: Running, binary: bool) -> None:
    request, data = binary_request(IMAGES[:2])
    scores = np.frombuffer(server.infer("small", request, data)[2], np.float32).reshape(2, 7)
    request["outputs"] = [
        {"name": "scores", "parameters": {"classification": 3, "binary_data": binary}}
    ]
    status, answer, body = server.infer("small", request, data)
    (found,) = answer["outputs"]
    assert (status, found["datatype"], found["shape"]) == (200, "BYTES", [2, 3])
    texts = found.get("data", [])
    while body:
        size = int.from_bytes(body[:4], "little")
        texts.append(body[4 : 4 + size].decode())
        body = body[4 + size :]
    best = [sorted(range(7), key=lambda k: (-row[k], k))[:3] for row in scores]
    assert texts == [f"{row[k]:f}:{k}" for row, own in zip(scores, best, strict=True) for k in own]


def test_the_classes_of_an_answer_are_limited() -> None:
    """Symptom: all 4,096 classes of 1,000 images, asked for in 12 kB, took 1 GB."""
    network = csdfgen.load(model("n (float[1,70000] x) => (float[1,70000] y) { y = Relu(x) }"))
    given = {"name": "x", "datatype": "FP32", "shape": [2, 70000]}

    def ask(classes: int) -> object:
        wanted = [{"name": "y", "parameters": {"classification": classes}}]
        inputs = [{**given, "parameters": {"binary_data_size": 560_000}}]
        head = json.dumps({"inputs": inputs, "outputs": wanted}).encode()
        return parse_inference(head + bytes(560_000), str(len(head)), network).outputs

    assert ask(32_768) == {"y": (False, 32_768)}
    with pytest.raises(InputError, match="asks for 140,000 classes of 2 images; at most 65,536"):
        ask(2**31 - 1)


def test_the_index_lists_models(server: Running) -> None:
    found = json.loads(server.ask("POST", "/v2/repository/index", b'{"ready": true}')[2])
    assert [(one["name"], one["state"]) for one in found] == [("small", "READY"), ("two", "READY")]
    assert server.ask("POST", "/v2/repository/index")[0] == 200
    assert server.ask("POST", "/v2/repository/index", b'{"ready": 1}')[0] == 400


def test_bfloat16_and_large_answers_are_served() -> None:
    """Symptom: a model in bfloat16 started, and answered 500."""
    repository = Repository({}, given={"max_batch": 1, "stages": 1})
    for name, kind in (("halves", "bfloat16"), ("large", "float")):
        network = csdfgen.load(
            model(f"n ({kind}[1,1,40,1000] x) => ({kind}[1,1,40,1000] y) {{ y = Relu(x) }}")
        )
        repository.engines[name] = Engine(network, **repository.given)
    repository.start = lambda: None  # type: ignore[method-assign,assignment]
    running = Running(repository, Limits())
    try:
        values = np.random.default_rng(0).standard_normal((1, 1, 40, 1000)).astype("bfloat16")
        values[0, 0, 0, 0] = np.inf
        for name, kind, array in (
            ("halves", "BF16", values),
            ("large", "FP32", values.astype(np.float32)),
        ):
            request, data = binary_request(array)
            request["inputs"][0]["datatype"] = kind  # type: ignore[index]
            status, answer, body = running.infer(name, request, data)
            assert status == 200 and answer["outputs"][0]["datatype"] == kind
            assert body == np.maximum(array, 0).astype(array.dtype).tobytes()
            del request["parameters"]
            status, answer, _ = running.infer(name, request, data)
            found = answer["outputs"][0]["data"]
            assert status == 200 and found[0] is None
            np.testing.assert_array_equal(
                found[1:], np.maximum(values, 0).reshape(-1)[1:].astype(float)
            )
    finally:
        running.stop()


def test_hopeless_requests_are_answered_503_at_once(server: Running) -> None:
    counts = server.repository.engines["small"].counts
    stages = counts["stages"]
    status, answer, _ = server.infer("small", *binary_request(IMAGES[:9], timeout=1))
    assert status == 503 and "cannot be there" in answer["error"]
    assert counts["stages"] == stages


def raw(port: int, data: bytes, wait: float = 3.0) -> bytes:
    """What the server sends to a client that sends these bytes and waits."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as client:
        client.sendall(data)
        try:
            while part := client.recv(65536):
                found += part
        except (TimeoutError, ConnectionError):
            pass
    return found


def test_slow_and_broken_clients(server: Running) -> None:
    head = b"POST /v2/models/small/infer HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{"
    assert b" 408 " in raw(server.port, head, 2.0).splitlines()[0]
    assert b" 400 " in raw(server.port, b"\x00\x01\x02\r\n\r\n").splitlines()[0]
    endless = b"GET /v2 HTTP/1.1\r\n" + (b"x-a: " + b"b" * 100 + b"\r\n") * 330
    assert b" 431 " in raw(server.port, endless).splitlines()[0]
    assert server.ask("GET", "/v2/health/live")[0] == 200


def test_a_client_that_hangs_up_gives_its_place_back(folder: Path) -> None:
    """A window that never fills: only a hang-up ends the request."""
    repository = Repository(
        {"small": str(folder / "small.onnx")},
        given={"max_batch": 4},
        engine={"policy": "window:m=4,delay=1000s"},
    )
    running = Running(repository, Limits())
    try:
        request, data = binary_request(IMAGES[:1])
        head = json.dumps(request).encode()
        client = socket.create_connection(("127.0.0.1", running.port))
        client.sendall(
            b"POST /v2/models/small/infer HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n"
            b"inference-header-content-length: %d\r\n\r\n" % (len(head + data), len(head))
            + head + data
        )  # fmt: skip
        engine = repository.engines["small"]
        wait_until(lambda: engine.waiting == 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        wait_until(lambda: engine.waiting == 0)
        assert engine.counts["cancelled"] == 1
    finally:
        running.stop()


@pytest.mark.parametrize("close", [False, True])
def test_a_client_that_stops_sending_gets_its_answer(folder: Path, close: bool) -> None:
    """A client that also stops reading gives its place back. Symptom: neither was told from the other."""
    repository = Repository(
        {"small": str(folder / "small.onnx")}, given={"max_batch": 4},
        engine={"policy": f"window:m=4,delay={1000 if close else 0.5}s"},
    )  # fmt: skip
    running = Running(repository, Limits())
    try:
        request, data = binary_request(IMAGES[:1])
        head = json.dumps(request).encode()
        with socket.create_connection(("127.0.0.1", running.port), timeout=5) as client:
            client.sendall(
                b"POST /v2/models/small/infer HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n"
                b"inference-header-content-length: %d\r\n\r\n" % (len(head + data), len(head))
                + head + data
            )  # fmt: skip
            engine = repository.engines["small"]
            wait_until(lambda: engine.waiting == 1)
            if not close:
                client.shutdown(socket.SHUT_WR)
                answer = http.client.HTTPResponse(client)
                answer.begin()
                assert answer.status == 200 and b"scores" in answer.read()
        if close:
            wait_until(lambda: engine.waiting == 0)
            assert engine.counts["cancelled"] == 1
    finally:
        running.stop()


def test_one_client_cannot_take_all_connections(folder: Path) -> None:
    """Idle connections give way; those that are answered stay, and a client has half of all. Symptom: 1,100 idle ones shut all
    others out.
    """
    repository = Repository(
        {"small": str(folder / "small.onnx")}, given={"max_batch": 4},
        engine={"policy": "window:m=4,delay=1000s"},
    )  # fmt: skip
    running = Running(repository, Limits(connections=6))
    with contextlib.ExitStack() as stack:
        stack.callback(running.stop)

        def connect(host: str) -> socket.socket:
            address = "127.0.0.1", running.port
            made = socket.create_connection(address, timeout=5, source_address=(host, 0))
            return stack.enter_context(made)

        for _ in range(50):
            connect("127.0.0.1")
        assert running.ask("GET", "/v2/health/live")[0] == 200
        request, data = binary_request(IMAGES[:1])
        head = json.dumps(request).encode()
        for _ in range(3):
            connect("127.0.0.1").sendall(
                b"POST /v2/models/small/infer HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n"
                b"inference-header-content-length: %d\r\n\r\n" % (len(head + data), len(head))
                + head + data
            )  # fmt: skip
        wait_until(lambda: repository.engines["small"].waiting == 3)
        for host, status in (("127.0.0.1", b" 503 "), ("127.0.0.2", b" 200 ")):
            if sys.platform != "linux" and host != "127.0.0.1":
                continue  # other systems have one loopback address
            client = connect(host)
            client.sendall(b"GET /v2/health/live HTTP/1.1\r\nhost: a\r\n\r\n")
            assert status in client.recv(4096)


def wait_until(holds: Any) -> None:
    end = time.monotonic() + 100
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


# Models and memory ------------------------------------------------------------------------------


def test_a_folder_is_read_again(tmp_path: Path) -> None:
    onnx.save(residual_classifier(), tmp_path / "a.onnx")
    repository = Repository({}, tmp_path, given={"max_batch": 2})
    repository.start()
    first = repository.engines["a"]
    waiting = first.submit(IMAGES[:9])
    onnx.save(residual_classifier(), tmp_path / "b.onnx")
    onnx.save(residual_classifier(classes=5), tmp_path / "a.onnx")
    os.utime(tmp_path / "a.onnx", (1, 1))
    (tmp_path / "c.onnx").write_bytes(b"none")
    said = repository.reload()
    assert [line.split(":")[1] for line in said] == [" replaced", " started", " not loaded"]
    assert waiting.result(20)["scores"].shape == (9, 7, 1, 1)
    assert repository.engines["a"].submit(IMAGES[:1]).result(20)["scores"].shape == (1, 5, 1, 1)
    (tmp_path / "b.onnx").unlink()
    assert "b: stopped" in repository.reload() and set(repository.engines) == {"a"}
    # what cannot be read stays as it runs, and is counted. Symptom: a missing folder stopped all models
    running = repository.engines["a"]
    (tmp_path / "a.onnx").unlink()
    (tmp_path / "a.onnx").symlink_to("nowhere")
    (tmp_path / "d.onnx").mkdir()
    (tmp_path / "e.onnx").symlink_to("e" * 300)  # Symptom: it stopped the whole reload
    said = repository.reload()
    assert [line[: line.index(":", 3)] for line in said] == [
        "a: what runs stays", "c: not loaded", "d: not loaded", "e: not loaded"
    ]  # fmt: skip
    assert [(one["name"], one["state"]) for one in repository.index()] == [
        ("a", "READY"), ("c", "UNAVAILABLE"), ("d", "UNAVAILABLE"), ("e", "UNAVAILABLE")
    ]  # fmt: skip
    for change in (
        lambda: [one.unlink() for one in tmp_path.glob("[ace].onnx")] + [(tmp_path / "d.onnx").rmdir()],
        tmp_path.rmdir,
    ):  # fmt: skip
        change()
        (line,) = repository.reload()
        assert (
            line.startswith(f"what runs stays: {tmp_path}: ") and repository.engines["a"] is running
        )
    assert repository.failed == {"a": 1, "c": 3, "d": 1, "e": 1, "": 2}
    assert 'failures_total{model="d"} 1\n' in exposition(repository.engines, repository.failed)
    repository.close()


def test_a_model_that_is_replaced_is_counted_until_it_ends(tmp_path: Path) -> None:
    """Symptom: both had the whole memory at that time."""
    onnx.save(residual_classifier(), tmp_path / "a.onnx")
    alone = Repository({}, tmp_path, given={"max_batch": 4})
    alone.start()
    alone.close()
    whole = alone.engines["a"].service.total_bytes
    for memory, said in ((whole * 5 // 4, "a: replaced"), (whole + 8, "those that run have")):
        repository = Repository({}, tmp_path, memory, given={"max_batch": 4})
        repository.start()
        old = repository.engines["a"].service.total_bytes
        os.utime(tmp_path / "a.onnx", (memory, memory))
        (line,) = repository.reload()
        assert said in line and repository.engines["a"].service.total_bytes <= max(
            old, memory - old
        )
        repository.close()


def test_memory_is_shared_by_need(folder: Path) -> None:
    whole = Repository({}, folder, given={"max_batch": 4})
    whole.start()
    wanted = {name: one.service.total_bytes for name, one in whole.engines.items()}
    whole.close()
    some = Repository({}, folder, sum(wanted.values()) * 3 // 4, given={"max_batch": 4})
    some.start()
    given = {name: one.service.total_bytes for name, one in some.engines.items()}
    some.close()
    assert sum(given.values()) <= sum(wanted.values()) * 3 // 4
    assert given["small"] > given["two"]
    with pytest.raises(CsdfgenError, match=r"2 models need [0-9,]+ bytes at least"):
        Repository({}, folder, 100, given={"max_batch": 4}).start()


def test_names_of_models(tmp_path: Path) -> None:
    assert name_models(["a/x.onnx", "zoo:lenet5"], ["cats"]) == (
        {"cats": "a/x.onnx", "lenet5": "zoo:lenet5"},
        None,
    )
    for models, names, message in (
        (["x.onnx", "b/x.onnx"], [], "two models"), (["x.onnx"], ["a", "b"], "for no model"),
        (["x.onnx"], ["a b"], "are needed"), ([str(tmp_path), str(tmp_path)], [], "second folder"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            name_models(models, names)


# The command ------------------------------------------------------------------------------------


def test_wrong_options_are_one_sentence(call: Call, tmp_path: Path, folder: Path) -> None:
    model = str(folder / "small.onnx")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "cannot be opened" in refused(call("serve", model, "--port", port))
    for arguments, message in (
        ((model, "--policy", "fastest"), "is none of serial"),
        ((model, "--memory", "1KB"), "the least for"),
        ((str(tmp_path),), "has no .onnx models"),
        ((model, "--max-body", "x"), "--max-body x"),
    ):
        assert message in refused(call("serve", *arguments, "--port", "0"))


def started(*arguments: str) -> tuple[subprocess.Popen[str], int]:
    """A server in a process of its own, and its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "csdfgen", "serve", *arguments, "--port", "0"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if port := re.search(r":(\d+)/v2", line):
            return process, int(port[1])
    raise AssertionError("the server did not start")


def ask_one(connection: http.client.HTTPConnection, images: np.ndarray) -> int:
    """The status of a request."""
    request, data = binary_request(images)
    head = json.dumps(request).encode()
    length = {"Inference-Header-Content-Length": str(len(head))}
    connection.request("POST", "/v2/models/small/infer", head + data, length)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_sigterm_loses_no_accepted_request(folder: Path) -> None:
    """Requests of a window that never fills are answered when the server is told to stop."""
    process, port = started(str(folder / "small.onnx"), "--policy", "window:m=8,delay=1000s")
    found: list[int] = []

    def ask(k: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        found.append(ask_one(connection, IMAGES[k : k + 1]))

    clients = [threading.Thread(target=ask, args=(k,)) for k in range(5)]
    for one in clients:
        one.start()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)

    def waiting() -> bool:
        connection.request("GET", "/metrics")
        return 'csdfgen_waiting_images{model="small"} 5' in connection.getresponse().read().decode()

    wait_until(waiting)
    process.send_signal(signal.SIGTERM)
    for one in clients:
        one.join()
    assert found == [200] * 5
    assert process.wait(20) == 0


def test_policies_are_compared_in_the_real_server(call: Call, folder: Path, tmp_path: Path) -> None:
    table, picture = tmp_path / "out.csv", tmp_path / "out.svg"
    found = call(
        "bench-serve", str(folder / "small.onnx"), "--policies", "adaptive", "--loads", "0.02", "--rates", "50",
        "--several", "3", "--requests", "8", "--max-batch", "2", "--csv", str(table), "--svg", str(picture), "--json",
    ).json  # fmt: skip
    assert found["images_per_second_at_load_1"] > 0
    assert [(one["policy"], one["traffic"]) for one in found["points"]] == [
        ("adaptive", traffic) for traffic in ("load 0.02", "50 a second", "1 to 3 images")
    ]
    for one in found["points"]:
        assert one["answered"] == one["requests"] == 8 and one["mean_ms"] > 0
    assert len(table.read_text().splitlines()) == 4
    assert picture.read_text().count("latency, ms") == 3
    assert "above 0" in refused(call("bench-serve", "x.onnx", "--loads", "a"))
    assert "no traffic" in refused(call("bench-serve", "x.onnx", "--loads", ""))


def test_models_with_free_sizes(call: Call, folder: Path, tmp_path: Path) -> None:
    """Symptom: their refusal named --shape, which no command of serving had."""
    path, times = tmp_path / "free.onnx", tmp_path / "times.json"
    proto = model("free (float[N,1,H,4] x) => (float[N,1,H,4] y) { y = Sigmoid(x) }")
    path.write_bytes(proto.SerializeToString())
    shape = ("--shape", "x=1x1x6x4")
    few = ("--requests", "4", "--json")
    assert "--shape x=" in refused(call("simulate", str(path), *few))
    assert call("simulate", str(path), *few, *shape, "-o", str(times)).code == 0
    # a window that never fills is answered as no other comes. Symptom: bench-serve hung, and had printed nothing
    window = "window:m=3,delay=1000s"
    options = "--policies", window, "--loads", "0.02", "--requests", "4", "--max-batch", "3", *shape
    head, line = call("bench-serve", str(path), *options).out.splitlines()[-2:]
    assert head.split()[:2] == ["traffic", "policy"]
    assert line.startswith(f"load 0.02       {window}") and line.split()[-4:-1] == [
        "100.0",
        "%",
        "0",
    ]
    assert "is a table of times; --shape" in refused(call("simulate", str(times), *shape))
    for models in ([str(path), str(folder / "small.onnx")], [str(tmp_path)]):
        assert "--shape is of one model" in refused(call("serve", *models, *shape, "--port", "0"))


def test_sighup_replaces_a_model_and_drops_no_request(tmp_path: Path) -> None:
    """Clients ask without a pause while the model is replaced again and again."""
    onnx.save(residual_classifier(), tmp_path / "small.onnx")
    process, port = started(str(tmp_path), "--max-batch", "2")
    statuses: list[int] = []
    stop = threading.Event()

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        while not stop.is_set():
            statuses.append(ask_one(connection, IMAGES[:1]))

    clients = [threading.Thread(target=client) for _ in range(3)]
    for one in clients:
        one.start()
    onnx.save(residual_classifier(), tmp_path / "other.onnx")
    for stamp in (1, 2):
        os.utime(tmp_path / "small.onnx", (stamp, stamp))
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)

    def ready() -> bool:
        connection.request("GET", "/v2/models/other/ready")
        answer = connection.getresponse()
        answer.read()
        return answer.status == 200

    wait_until(ready)
    stop.set()
    for one in clients:
        one.join()
    process.terminate()
    assert process.wait(20) == 0
    assert len(statuses) > 20 and set(statuses) == {200}


def test_a_line_of_python_serves_until_a_signal(folder: Path) -> None:
    code = (
        "import csdfgen, os, signal, urllib.request\n"
        "from threading import Thread\n"
        "def ask(port):\n"
        "    print(urllib.request.urlopen(f'http://127.0.0.1:{port}/v2/models/small/ready').read().decode())\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "csdfgen.serve('small.onnx', port=0, max_batch=2, on_ready=lambda port: Thread(target=ask, args=[port]).start())\n"
        "print('ended')"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = python("-c", code, cwd=folder, env=environment, timeout=60)
    assert done.stdout.splitlines() == ['{"name": "small", "ready": true}', "ended"], done.stderr
