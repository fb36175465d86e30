"""Which device of OpenCL computes?"""

from __future__ import annotations

from functools import cache

from csdfgen.backends.device.backend import DeviceKernels
from csdfgen.backends.opencl.devices import choose_device
from csdfgen.backends.opencl.driver import OpenCL
from csdfgen.errors import InputError
from csdfgen.program.steps import Backend


def backend(
    *, exact: bool = False, fallback: bool = False, ways: str = "", device: str | None = None
) -> Backend:
    """See `csdfgen.backends.registry`. Raises ToolError where there is no device, InputError for one that is not there."""
    if fallback:
        raise InputError("the backend 'opencl' has no fallback")
    return DeviceKernels(_driver(device), "OpenCL", ways)


@cache
def _driver(wanted: str | None) -> OpenCL:
    return OpenCL(choose_device(wanted))
