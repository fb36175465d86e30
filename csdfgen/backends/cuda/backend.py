"""The device of CUDA as a backend."""

from __future__ import annotations

from functools import cache

from csdfgen.backends.cuda.driver import Cuda
from csdfgen.backends.device.backend import DeviceKernels
from csdfgen.errors import InputError
from csdfgen.program.steps import Backend


def backend(*, exact: bool = False, fallback: bool = False, ways: str = "") -> Backend:
    """See `csdfgen.backends.registry`. Raises ToolError where there is no device."""
    if fallback:
        raise InputError("the backend 'cuda' has no fallback")
    return DeviceKernels(_driver(), "CUDA", ways)


@cache
def _driver() -> Cuda:
    return Cuda()
