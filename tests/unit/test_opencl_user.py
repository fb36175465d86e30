"""What users of devices of OpenCL see: which there are, the choice of one, and errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import csdfgen
import runtime
from csdfgen.backends.opencl import backend, devices
from csdfgen.backends.registry import computed_by, kernels_for
from csdfgen.cli import doctor
from csdfgen.errors import InputError, ToolError
from csdfgen.model.options import PlanOptions
from tests.command import Call


@pytest.fixture(scope="module", autouse=True)
def device() -> devices.Device:
    try:
        return devices.devices()[0]
    except ToolError as error:
        pytest.skip(str(error))


def test_devices_are_listed(device: devices.Device, call: Call) -> None:
    found: Any = call("devices", "--opencl", "--json").json
    assert found == [one.to_json() for one in devices.devices()]
    assert found[0]["name"] == device.name and found[0]["memory_bytes"] >= 1 << 20
    shown = call("devices", "--opencl").out
    assert device.name in shown and "largest allocation bytes" in shown


def test_the_choice_of_a_device(device: devices.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    two = device, replace(device, number=1, name="Mali-G52", kind="GPU")
    monkeypatch.setattr(devices, "devices", lambda: two)
    assert devices.chosen() is two[1]  # a GPU is preferred
    assert devices.chosen("0") is two[0] and devices.chosen("mali") is two[1]
    monkeypatch.setenv(devices.CHOICE, "0")
    assert devices.chosen() is two[0]
    with pytest.raises(
        InputError, match=r"cl_device='Adreno': no such device; there are 0: .*; 1: "
    ):
        devices.chosen("Adreno")


def test_a_device_of_a_plan_is_not_in_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []
    made = backend._made
    monkeypatch.setattr(backend, "_made", lambda name: (asked.append(name), made(None))[1])
    options = PlanOptions(backend="opencl", cl_device="Mali")
    assert kernels_for(options).name == "opencl" and asked == ["Mali"]
    assert "cl_device" not in options.to_json()
    assert computed_by(options).cl_device == "Mali"
    assert computed_by(options, "native").cl_device == ""
    assert computed_by(PlanOptions(backend="native"), "opencl", "1").cl_device == "1"


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
