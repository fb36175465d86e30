"""What users of devices of OpenCL see: which there are, the choice of one, and errors."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.backends import registry
from csdfgen.backends.device import build
from csdfgen.backends.device.backend import DeviceKernels
from csdfgen.backends.opencl import backend, devices
from csdfgen.backends.opencl.driver import OpenCL
from csdfgen.backends.registry import choose_backend, replace_backend
from csdfgen.cli import doctor
from csdfgen.devices.files import read_profile
from csdfgen.errors import InputError, ToolError
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from runtime.bound import GUARD_BYTES
from runtime.session import Executable
from tests.builder import Graph
from tests.command import Call, refused
from tests.opencl_device import device_missing


@pytest.fixture(scope="module", autouse=True)
def device() -> devices.Device:
    if device_missing():
        pytest.skip(device_missing())
    return devices.devices()[0]


def test_devices_are_listed(device: devices.Device, call: Call) -> None:
    found: Any = call("devices", "--opencl", "--json").json
    assert found == [one.to_json() for one in devices.devices()]
    assert found[0]["name"] == device.name and found[0]["memory_bytes"] >= 1 << 20
    shown = call("devices", "--opencl").out
    assert device.name in shown and "largest allocation bytes" in shown


def test_the_choice_of_a_device(device: devices.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    two = device, replace(device, number=1, name="Mali-G52", kind="GPU")
    monkeypatch.setattr(devices, "devices", lambda: two)
    assert devices.choose_device() is two[1]  # a GPU is preferred
    assert devices.choose_device("0") is two[0] and devices.choose_device("mali") is two[1]
    monkeypatch.setenv(devices.CHOICE, "0")
    assert devices.choose_device() is two[0]
    with pytest.raises(
        InputError, match=r"cl_device='Adreno': no such device; there are 0: .*; 1: "
    ):
        devices.choose_device("Adreno")


def test_a_device_of_a_plan_is_not_in_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []
    made = backend._driver
    monkeypatch.setattr(backend, "_driver", lambda name: (asked.append(name), made(None))[1])
    options = PlanOptions(backend="opencl", cl_device="Mali")
    assert choose_backend(options).name == "opencl" and asked == ["Mali"]
    assert "cl_device" not in options.to_json()
    assert replace_backend(options).cl_device == "Mali"
    assert replace_backend(options, "native").cl_device == ""
    assert replace_backend(PlanOptions(backend="native"), "opencl", "1").cl_device == "1"


def test_a_device_of_another_backend() -> None:
    plan = csdfgen.plan(csdfgen.load("zoo:lenet5"), backend="numpy")
    with pytest.raises(InputError, match="cl_device='0' names a device of backend='opencl'"):
        runtime.compile(plan, cl_device="0")
    frame = runtime.compile(plan, backend="opencl", cl_device="0")
    assert "backend opencl" in repr(frame)


def test_doctor_shows_the_device(device: devices.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    assert device.name in doctor._opencl().value

    def none() -> tuple[devices.Device, ...]:
        raise ToolError("no OpenCL device was found")

    monkeypatch.setattr(devices, "devices", none)
    assert doctor._opencl().absent and "no OpenCL device" in doctor._opencl().value


# Frames --------------------------------------------------------------------------------------------


def _network(model: str = "zoo:lenet5") -> tuple[Network, np.ndarray]:
    network = csdfgen.load(model)
    (tensor,) = network.inputs
    return network, np.random.default_rng(0).standard_normal(tensor.shape).astype(np.float32)


def test_memory_of_its_own(device: devices.Device) -> None:
    """Input and output rows are copied by commands of the queue, once each, and outputs are the same."""
    apart = DeviceKernels(OpenCL(replace(device, unified=False)), "OpenCL")
    network, x = _network()
    plan = csdfgen.plan(network, backend="opencl")
    wanted = runtime.compile(plan)(x)
    frame = Executable(plan, kernels=apart)
    for _ in range(2):
        before = frame.driven
        found = frame(x)
        assert before is not None and frame.driven is not None
        (y,) = found.values()
        assert frame.driven.since(before).copied == x.nbytes + y.nbytes
        np.testing.assert_array_equal(y, *wanted.values())


def test_bytes_between_elements_of_an_output_stay(device: devices.Device) -> None:
    apart = DeviceKernels(OpenCL(replace(device, unified=False)), "OpenCL")
    graph = Graph()
    network = csdfgen.load(graph.model(graph.node("Relu", graph.input("x", (1, 3, 2, 2)))))
    frame = Executable(csdfgen.plan(network, backend="opencl"), kernels=apart)
    (name,) = (one.name for one in network.outputs)
    for number in (5, 7):
        whole = np.full((1, 3, 2, 4), number, np.float32)
        frame(np.ones((1, 3, 2, 2), np.float32), out={name: whole[..., ::2]})
        np.testing.assert_array_equal(whole[..., 1::2], np.float32(number))
        np.testing.assert_array_equal(whole[..., ::2], np.float32(1))


def test_run_says_what_the_device_did(call: Call, device: devices.Device) -> None:
    found = call("run", "zoo:lenet5", "--backend", "opencl", "--cl-device", "0", "--json").json
    assert found["backend"] == "opencl" and found["device"] == device.name
    assert found["launches"] > 0 and found["copied_bytes"] == 0
    assert found["build_ms"] >= 0 and found["latency_ms"] > 0
    shown = call("run", "zoo:lenet5", "--backend", "opencl").out
    assert f"{found['launches']:,} launches a frame, 0 bytes copied" in shown
    host = call("run", "zoo:lenet5", "--backend", "numpy", "--json").json
    assert [host[key] for key in ("device", "launches", "copied_bytes", "build_ms")] == [None] * 4


def test_a_trace_has_the_clock_of_the_device(device: devices.Device) -> None:
    """Times of firings are those of the queue, which has a clock only then."""
    network, x = _network()
    frame = runtime.compile(csdfgen.plan(network, backend="opencl"))
    wanted = frame(x)
    times = frame.time_firings(x, lambda: pytest.fail("the host's clock was read"))
    assert len(times) == frame.firings + 1 and list(times) == sorted(times)
    assert 0 < times[-1] - times[0] < 60e9
    np.testing.assert_array_equal(*frame(x).values(), *wanted.values())


@pytest.mark.parametrize("rows", ["1", "auto"])
def test_frame_buffers(rows: str, device: devices.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """One buffer is written, as large as native code's arena; all others are weights and tables."""
    import pyopencl as cl

    made: list[tuple[int, int]] = []

    class Counted(cl.Buffer):
        def __init__(self, context: Any, flags: int, size: int = 0, hostbuf: Any = None) -> None:
            super().__init__(context, flags, size, hostbuf)
            made.append((flags, size or hostbuf.nbytes))

    monkeypatch.setattr(cl, "Buffer", Counted)
    network, x = _network("zoo:resnet8")
    native = csdfgen.plan(network, backend="native", rows=rows)
    frame = runtime.compile(csdfgen.plan(network, backend="opencl", rows=rows))
    frame(x)
    flags = cl.mem_flags
    own = [(access, size) for access, size in made if not access & flags.USE_HOST_PTR]
    (memory,) = [size for access, size in own if access & flags.READ_WRITE]
    assert memory - GUARD_BYTES <= 1.05 * native.planned_bytes
    tables = sum(size for access, size in own if access & flags.COPY_HOST_PTR)
    weights = sum(size for access, size in own) - memory - tables
    assert frame.packed_bytes is not None
    assert frame.packed_bytes <= weights <= frame.packed_bytes + 4096
    assert tables < 0.2 * weights
    before = len(made)
    frame(x)
    assert all(access & flags.USE_HOST_PTR for access, _ in made[before:])  # the caller's arrays


def test_a_profile_of_the_device(call: Call, device: devices.Device) -> None:
    """Its launches take time, which --goal knows."""
    options = "--backend", "opencl", "--heights", "1,4", "--repeats", "3"
    assert call("profile", "zoo:lenet5", *options, "-o", "device.toml").code == 0
    profile = read_profile(Path("device.toml"))
    assert device.name in profile.conditions["kernels"] and device.name in profile.title
    assert profile.conditions["clock read"] == "the device's own"
    assert any(layer.launch.value > 0 for layer in profile.layers.values())
    found = call(
        "schedule", "zoo:lenet5", "--backend", "opencl", "--goal", "speed", "--device", "device.toml", "--json"
    )  # fmt: skip
    assert found.code == 0


# What goes wrong -----------------------------------------------------------------------------------


def _error(code: int, kind: str = "RuntimeError") -> Exception:
    """An error of OpenCL, as pyopencl raises it."""
    import pyopencl as cl

    record = SimpleNamespace(
        code=lambda: code, routine=lambda: "clX", what=lambda: "", is_out_of_memory=lambda: False
    )
    error: Exception = getattr(cl, kind)(record)
    return error


def _run(call: Call, *options: str) -> str:
    return refused(call("run", "zoo:lenet5", "--backend", "opencl", *options))


def test_without_pyopencl(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    monkeypatch.setattr(devices, "devices", devices.devices.__wrapped__)
    line = refused(call("devices", "--opencl"))
    assert "needs pyopencl" in line and "pip install 'csdfgen[opencl]'" in line


def test_without_a_device(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyopencl as cl

    def none() -> list[Any]:
        raise _error(-1001, "LogicError")

    monkeypatch.setattr(cl, "get_platforms", none)
    monkeypatch.setattr(devices, "devices", devices.devices.__wrapped__)
    assert "no OpenCL device was found: pip install" in refused(call("devices", "--opencl"))


def test_a_device_that_is_not_there(call: Call, device: devices.Device) -> None:
    line = _run(call, "--cl-device", "Quantum 9000")
    assert "--cl-device Quantum 9000: no such device; there are 0: " in line and device.name in line


@pytest.fixture
def weak(device: devices.Device, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the device of --backend opencl be one that can less."""

    def limited(**less: int) -> None:
        kernels = DeviceKernels(OpenCL(replace(device, **less)), "OpenCL")  # type: ignore[arg-type]
        monkeypatch.setattr(registry, "_made", lambda *options: kernels)

    return limited


def test_more_than_the_largest_allocation(call: Call, weak: Callable[..., None]) -> None:
    whole = "run", "zoo:resnet8@64x64", "--backend", "opencl", "--rows", "whole"
    weak(largest=320_000)  # the weights fit, a whole plan does not
    line = refused(call(*whole))
    assert re.search(
        r"memory of the plan, of [\d,]+ bytes: .* at most 320,000 in one allocation; ", line
    )
    assert "--memory or --rows 1" in line
    assert call(*whole[:-1], "1").code == 0
    weak(largest=300_000)
    line = refused(call(*whole))
    assert re.search(r"weights of [\d,]+ bytes: .* at most 300,000 .*csdfgen quantize", line)


def test_too_little_local_memory(
    call: Call, weak: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyopencl as cl

    weak(local=1024)
    about, real = cl.kernel_work_group_info, cl.Kernel.get_work_group_info

    def needing(kernel: Any, what: int, of: Any) -> int:
        return 2048 if what == about.LOCAL_MEM_SIZE else real(kernel, what, of)

    monkeypatch.setattr(cl.Kernel, "get_work_group_info", needing)
    line = _run(call)
    assert re.search(
        r"kernel \w+ needs 2,048 bytes of local memory, .* has 1,024; --cl-device", line
    )


def test_smaller_groups(device: devices.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that need many registers run in smaller groups, of which sizes are multiples, too."""
    import pyopencl as cl

    about, real = cl.kernel_work_group_info, cl.Kernel.get_work_group_info

    def most(kernel: Any, what: int, of: Any) -> int:
        return 24 if what == about.WORK_GROUP_SIZE else real(kernel, what, of)

    monkeypatch.setattr(cl.Kernel, "get_work_group_info", most)
    driver = OpenCL(device)
    kernel = driver.kernel("add_f32")
    assert [driver._group(kernel, (n, 4, 1)) for n in (2, 16, 64)] == [
        (2, 4, 1),
        (4, 4, 1),
        (4, 4, 1),
    ]


@pytest.mark.parametrize(
    ("code", "said"),
    [(-4, "cannot give as many now"), (-36, "is lost or refuses"), (-9999, "is lost or refuses")],
)
def test_launch_errors(code: int, said: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyopencl as cl

    def failing(*arguments: Any) -> None:
        raise _error(code)

    monkeypatch.setattr(cl, "enqueue_nd_range_kernel", failing)
    line = _run(call)
    assert said in line and ("--rows 1" in line or "--cl-device" in line)


def test_no_memory_for_a_buffer(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyopencl as cl

    def failing(*arguments: Any, **more: Any) -> None:
        raise _error(-6, "MemoryError")

    monkeypatch.setattr(cl, "Buffer", failing)
    assert re.search(r"of [\d,]+ bytes: .* cannot give as many now", _run(call))


def test_a_kernel_that_does_not_build(
    device: devices.Device, call: Call, weak: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        build, "assemble_source", lambda *what: "__kernel void csdf_x() { nonsense }"
    )
    weak()
    result = call("run", "zoo:lenet5", "--backend", "opencl")
    line = result.err.splitlines()[-1]  # PoCL itself prints how many errors there are
    assert result.code == 1
    found = re.search(
        r"kernel [\w ]+ does not build on .*: .*error: .*nonsense.* \((\S+) has the whole log\)",
        line,
    )
    assert found is not None
    log = Path(found[1])
    assert len(log.read_text().splitlines()) > 1
    log.unlink()


def test_damaged_binaries_are_built_again(
    device: devices.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "get_folder", lambda kind: tmp_path)
    texts: list[str] = []

    def built(damage: Callable[[bytes], bytes]) -> int:
        """How many kernels were compiled by a driver that finds damaged files."""
        for file in tmp_path.iterdir():
            file.write_bytes(damage(file.read_bytes()))
        texts.clear()
        driver = OpenCL(device)
        compiled = driver._builder._compiled
        driver._builder._compiled = lambda text: (texts.append(text), compiled(text))[1]
        assert driver.kernel("add_f32").function_name == "csdf_add_f32"
        return len(texts)

    assert [built(damage) for damage in (bytes, bytes, lambda b: b[:-3], lambda b: b"", bytes)] == [
        1,
        0,
        1,
        1,
        0,
    ]
    other = b"not a binary at all"
    assert built(lambda b: hashlib.sha256(other).digest() + other) == 1  # which the driver refuses


def test_a_compiler_that_does_not_know_the_processor(
    device: devices.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PoCL on a processor that is newer than its LLVM."""
    monkeypatch.setattr(build, "get_folder", lambda kind: tmp_path)
    driver = OpenCL(device)

    def refused(program: object) -> None:
        raise build.BuildError("error: unknown target CPU 'generic'")

    monkeypatch.setattr(driver, "_built", refused)
    with pytest.raises(ToolError, match=r"older than the processor.*backend='native'.*newer PoCL"):
        driver.kernel("add_f32")
