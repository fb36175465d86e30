"""Which device of CUDA computes? The first that CUDA_VISIBLE_DEVICES leaves."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from csdfgen.errors import ToolError


class CudaError(Exception):
    """A call of CUDA that failed; the text is the name of the error."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device of CUDA.

    driver: version of CUDA that the driver has. capability: of computing, 87 for 8.7. units: multiprocessors. clock: Hz.
    group: items of one, at most. memory: bytes. unified: whether its memory is the host's (Jetson). registers: whether it reads
    arrays of the host where they are.
    """

    name: str
    version: str
    driver: str
    capability: int
    units: int
    clock: float
    group: int
    memory: int
    unified: bool
    registers: bool
    handle: Any


def bindings(name: str) -> ModuleType:
    """A module of cuda-bindings: driver, nvrtc. Raises ToolError."""
    try:
        return import_module(f"cuda.bindings.{name}")
    except ImportError as error:
        raise ToolError(
            f"CUDA needs cuda-bindings ({error}): pip install 'csdfgen[cuda]'"
        ) from None


def unwrap_result(result: tuple[Any, ...]) -> Any:
    """What a call returned besides its error. Raises CudaError."""
    error, *values = result
    if error:
        raise CudaError(error.name)
    return values[0] if len(values) == 1 else values


@cache
def find_device() -> Device:
    """The device. Raises ToolError where there is none."""
    if struct.calcsize("P") != 8:
        raise ToolError(
            "CUDA is used on machines of 64 bits alone; --backend native computes on others"
        )
    cu = bindings("driver")
    try:
        unwrap_result(cu.cuInit(0))
        one = unwrap_result(cu.cuDeviceGet(0))
        attributes = cu.CUdevice_attribute
        names = (
            "COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR", "INTEGRATED", "MANAGED_MEMORY",
            "HOST_REGISTER_SUPPORTED", "MULTIPROCESSOR_COUNT", "CLOCK_RATE", "MAX_THREADS_PER_BLOCK",
        )  # fmt: skip
        major, minor, integrated, managed, registers, units, kilohertz, group = (
            unwrap_result(
                cu.cuDeviceGetAttribute(getattr(attributes, f"CU_DEVICE_ATTRIBUTE_{name}"), one)
            )
            for name in names
        )
        title = unwrap_result(cu.cuDeviceGetName(128, one)).split(b"\0")[0].decode()
        driver, memory = (
            unwrap_result(cu.cuDriverGetVersion()),
            unwrap_result(cu.cuDeviceTotalMem(one)),
        )
    except (
        CudaError,
        RuntimeError,
    ) as error:  # cuda-bindings raise the latter where there is no driver
        raise ToolError(
            f"no CUDA device was found ({error}); --backend native computes without one"
        ) from None
    unified = bool(integrated and managed)
    return Device(
        title, f"compute capability {major}.{minor}", f"{driver // 1000}.{driver % 1000 // 10}",
        10 * major + minor, units, 1e3 * kilohertz, group, memory, unified, unified and bool(registers), one,
    )  # fmt: skip
