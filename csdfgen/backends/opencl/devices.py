"""Which devices are there, and which one computes?"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any

from csdfgen.errors import InputError, ToolError, option

CHOICE = "CSDFGEN_CL_DEVICE"
"""Environment variable with the number of a device, or a part of its name, that is used unless another one is asked for."""

_INSTALL = (
    "pip install 'csdfgen[opencl]' brings OpenCL and a device that is this machine's processor"
)


@dataclass(frozen=True, slots=True)
class Device:
    """A device of a platform of OpenCL.

    number: in `devices()`. unified: whether it computes in the memory of the host. clock: Hz. memory, largest, local: bytes
    in all, of one allocation, and that the items of a group share. lanes: floats of a vector that it prefers.
    """

    number: int
    name: str
    platform: str
    driver: str
    version: str
    kind: str
    units: int
    clock: float
    memory: int
    largest: int
    local: int
    group: int
    lanes: int
    unified: bool
    extensions: frozenset[str]
    handle: Any

    def to_json(self) -> dict[str, str | int]:
        """What users are shown of it. float16: whether kernels can compute in it; int8_dot: whether there are instructions
        for dot products of bytes.
        """
        return {
            "number": self.number, "name": self.name, "platform": self.platform, "kind": self.kind,
            "version": self.version, "driver": self.driver, "units": self.units, "memory_bytes": self.memory,
            "largest_allocation_bytes": self.largest, "local_bytes": self.local, "unified_memory": self.unified,
            "float16": "cl_khr_fp16" in self.extensions, "int8_dot": "cl_khr_integer_dot_product" in self.extensions,
        }  # fmt: skip

    def __str__(self) -> str:
        return f"{self.number}: {self.name} ({self.platform}, {self.version})"


def _opencl() -> Any:
    """The module pyopencl. Raises ToolError."""
    if struct.calcsize("P") != 8:
        raise ToolError(
            "OpenCL is used on machines of 64 bits alone; --backend native computes on others"
        )
    try:
        import pyopencl
    except ImportError as error:
        raise ToolError(f"OpenCL needs pyopencl ({error}): {_INSTALL}") from None
    return pyopencl


@cache
def devices() -> tuple[Device, ...]:
    """All devices of all platforms. Raises ToolError where there is no OpenCL, or no device."""
    cl = _opencl()
    found: list[Device] = []
    try:
        platforms = cl.get_platforms()
    except cl.LogicError:  # that there is none is an error of the loader
        platforms = []
    for platform in platforms:
        try:
            there = platform.get_devices()
        except cl.LogicError:
            continue  # a platform without a device
        found += [_described(cl, len(found) + k, platform, one) for k, one in enumerate(there)]
    if not found:
        raise ToolError(f"no OpenCL device was found: {_INSTALL}")
    return tuple(found)


def _described(cl: Any, number: int, platform: Any, one: Any) -> Device:
    kinds = {cl.device_type.CPU: "CPU", cl.device_type.GPU: "GPU"}
    return Device(
        number, one.name.strip(), platform.name.strip(), one.driver_version.strip(), one.version.strip(),
        kinds.get(one.type & ~cl.device_type.DEFAULT, "accelerator"),
        one.max_compute_units, 1e6 * one.max_clock_frequency,
        one.global_mem_size, one.max_mem_alloc_size, one.local_mem_size, one.max_work_group_size,
        max(1, one.preferred_vector_width_float), bool(one.host_unified_memory),
        frozenset(one.extensions.split()), one,
    )  # fmt: skip


def choose_device(wanted: str | None = None) -> Device:
    """The device with a number, or the first one with this text in its name or platform; None: what `CHOICE` says, else the
    first GPU, else the first of all. Raises InputError, which lists those there are; ToolError where there is none.
    """
    there = devices()
    name = wanted if wanted is not None else os.environ.get(CHOICE, "")
    if not name:
        return min(there, key=lambda one: (one.kind != "GPU", one.number))
    for one in there:
        if name == str(one.number):
            return one
    for one in there:
        if name.casefold() in f"{one.name} {one.platform}".casefold():
            return one
    where = option("cl_device", name) if wanted is not None else f"{CHOICE}={name}"
    raise InputError(f"{where}: no such device; there are {'; '.join(map(str, there))}")
